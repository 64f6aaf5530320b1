//! Opens regular files, and nothing else: opening a FIFO may wait for ever, and opening a device may have
//! side effects.

use std::fs::{self, File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use crate::error::{Error, Result};

/// Returns the name of a kind of file that is not regular; `None` for a regular file.
pub(crate) fn other_kind(kind: FileType) -> Option<&'static str> {
    match kind {
        kind if kind.is_file() => None,
        kind if kind.is_dir() => Some("a directory"),
        kind if kind.is_fifo() => Some("a FIFO"),
        kind if kind.is_socket() => Some("a socket"),
        kind if kind.is_block_device() || kind.is_char_device() => Some("a device"),
        _ => Some("something else"),
    }
}

/// Opens the file at `path`. Fails if it is not a regular file.
pub(crate) fn open(how: &mut OpenOptions, path: &Path) -> Result<File> {
    let check = |kind| match other_kind(kind) {
        Some(kind) => Err(Error::NotAFile { path: path.to_owned(), kind }),
        None => Ok(()),
    };
    // The kind of the file is checked before the opening, and again afterwards, because the name may lead to
    // another file by then.
    if let Ok(metadata) = fs::metadata(path) {
        check(metadata.file_type())?;
    }
    let opened = match how.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path) {
        // Another program has a lease on the file, and the kernel has asked it to give up the lease. The
        // second call, without `O_NONBLOCK`, waits for that.
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => how.custom_flags(libc::O_NOCTTY).open(path),
        opened => opened,
    };
    let explain = |e| Error::making("opening", path, e);
    let file = opened.map_err(explain)?;
    check(file.metadata().map_err(explain)?.file_type())?;
    Ok(file)
}
