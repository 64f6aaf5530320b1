//! Files without a name, which are gone when no process has them open or mapped.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::calls::random;

/// Creates a file without a name, on the file system of a folder.
pub(crate) fn unnamed_file(folder: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(libc::O_TMPFILE).open(folder) {
        // File systems without `O_TMPFILE` return one of these errors.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) => {}
        opened => return opened,
    }
    loop {
        let [number] = random()?;
        let path = folder.join(format!(".{number:016x}.pheap"));
        match options.clone().create_new(true).open(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            opened => {
                let file = opened?;
                fs::remove_file(&path)?;
                return Ok(file);
            }
        }
    }
}
