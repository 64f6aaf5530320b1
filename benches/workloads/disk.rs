//! Directories of benchmarks that need a disk.

use std::fs::{File, create_dir_all};
use std::io;
use std::path::{Path, PathBuf};

/// Writes out what earlier runs have left behind, such as the removal of their files.
///
/// # Errors
/// If the disk does not work.
pub fn settle(dir: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(dir)?)?)
}

/// Cargo's directory for the files of a benchmark, or the current one if the program was carried elsewhere.
pub fn of_cargo(dir: &str) -> PathBuf {
    if create_dir_all(dir).is_ok() { dir.into() } else { ".".into() }
}

/// The directory that the caller has named: cargo runs the program in another one than the caller is in.
pub fn of_caller(dir: &Path) -> PathBuf {
    std::env::var_os("PWD").map_or_else(PathBuf::new, PathBuf::from).join(dir)
}
