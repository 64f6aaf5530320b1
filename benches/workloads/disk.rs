//! Directories of benchmarks that need a disk.

use std::fs::{File, create_dir_all};
use std::io;
use std::path::{Path, PathBuf};

/// Writes out the changes that earlier runs have left, such as the removal of their files.
///
/// # Errors
/// If the disk fails.
pub fn settle(dir: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(dir)?)?)
}

/// Returns cargo's directory for the files of a benchmark. If it cannot be made, for instance because the
/// program was moved to another machine, returns the current directory.
pub fn of_cargo(dir: &str) -> PathBuf {
    if create_dir_all(dir).is_ok() { dir.into() } else { ".".into() }
}

/// Returns the directory that the caller has named. Cargo runs the program in another directory than the
/// caller's.
pub fn of_caller(dir: &Path) -> PathBuf {
    std::env::var_os("PWD").map_or_else(PathBuf::new, PathBuf::from).join(dir)
}
