//! Builds the C program without a build script, so that the tests need neither libpmemobj nor a C compiler.

use crate::Result;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// Without contraction to fused multiplications and additions, so that the energies of n-body equal those of
/// Rust.
const FLAGS: [&str; 7] =
    ["-O3", "-march=native", "-std=gnu11", "-Wall", "-Wextra", "-ffp-contract=off", "-fno-math-errno"];
const LIBRARIES: [&str; 4] = ["-lpmemobj", "-lpmem", "-lpthread", "-lm"];

/// Returns the path of the program in `to`, and builds it if it is missing or older than its sources. Returns
/// `None`, and prints a line on standard error, if there is no C compiler that finds libpmemobj.
pub(super) fn program(to: &Path) -> Result<Option<PathBuf>> {
    if !has_libpmemobj()? {
        eprintln!(
            "PMDK is left out, for want of a C compiler that finds libpmemobj: apt-get install -y libpmemobj-dev libpmem-dev"
        );
        return Ok(None);
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/pmdk");
    let mut files = Vec::new();
    for entry in sources.read_dir()? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "c" || extension == "h") {
            files.push(path);
        }
    }
    let program = to.join("pmdk-bench");
    let built = modified(&program).unwrap_or(SystemTime::UNIX_EPOCH);
    if files.iter().all(|file| modified(file).is_ok_and(|changed| changed < built)) {
        return Ok(Some(program));
    }
    std::fs::create_dir_all(to)?;
    // Another process may be running, or building, the program with this name.
    let new = tempfile::Builder::new().prefix("pmdk-bench-").tempdir_in(to)?;
    let compiled = Command::new("cc")
        .args(FLAGS)
        .arg("-o")
        .arg(new.path().join("program"))
        .args(files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "c")))
        .args(LIBRARIES)
        .status()?;
    if !compiled.success() {
        return Err(format!("cc could not build {}", sources.display()).into());
    }
    std::fs::rename(new.path().join("program"), &program)?;
    Ok(Some(program))
}

fn has_libpmemobj() -> Result<bool> {
    let looked = Command::new("cc")
        .args(["-fsyntax-only", "-include", "libpmemobj.h", "-include", "libpmem.h", "-xc", "/dev/null"])
        .stderr(Stdio::null())
        .status();
    match looked {
        Ok(status) => Ok(status.success()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn modified(file: &Path) -> io::Result<SystemTime> {
    file.metadata()?.modified()
}
