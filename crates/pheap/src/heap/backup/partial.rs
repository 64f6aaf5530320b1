//! A file in the making, which has a temporary name until it is complete.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::os::file_system::overwrite_in_place;
use crate::os::fork::Process;
use crate::os::names::{folder_of, has_name};
use crate::os::{random, rename_to_new, try_lock, unlock};

/// A file with a temporary name, removed in the drop unless it is published.
pub(super) struct Partial {
    pub(super) file: File,
    path: Option<PathBuf>,
    process: Process,
}

impl Partial {
    pub(super) fn create(target: &Path) -> io::Result<Partial> {
        let name = shortened(target.file_name().ok_or(io::ErrorKind::InvalidInput)?);
        remove_stale(target, name);
        loop {
            let [number] = random()?;
            let path = target.with_file_name(partial_name(name, number));
            // The file is accessible to this user only, until it gets the permissions of the heap's file.
            let file = match File::options().read(true).write(true).create_new(true).mode(0o600).open(&path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                opened => opened?,
            };
            overwrite_in_place(&file);
            let partial = Partial { file, path: Some(path), process: Process::default() };
            // The file is locked as long as its maker works on it. An unlocked file was left by a killed
            // program. SURVIVES unreached: copies are real files, which the simulator does not make;
            // `tests/files/backup.rs` and `tests/names` test this lock.
            match try_lock(&partial.file, false) {
                // A process that removes stale files has this file locked.
                Ok(false) => continue,
                Ok(true) if !has_name(&partial.file)? => continue,
                // The file is locked, or the file system has no locks. Without locks, no process removes
                // stale files.
                _ => return Ok(partial),
            }
        }
    }

    /// Gives the file its final name, durably, unless another file has that name.
    pub(super) fn publish(mut self, target: &Path) -> io::Result<()> {
        let from = self.path.as_ref().expect("published once");
        let renamed = rename_to_new(from, target)?;
        if renamed {
            self.path = None;
        } else {
            match io::Error::last_os_error() {
                // Some file systems have no rename that refuses to replace a file. A hard link refuses that,
                // too.
                e if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) => {
                    fs::hard_link(from, target)?
                }
                e => return Err(e),
            }
        }
        // The file is unlocked, because a process that waits for the file to appear may open it at once.
        unlock(&self.file);
        // SURVIVES unreached: copies are real files, which the simulator does not make.
        File::open(folder_of(target))?.sync_all()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if self.process.is_parent() {
            return; // the file belongs to the parent process
        }
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
        // The file is unlocked explicitly, because a child that was forked since has the file open, too.
        unlock(&self.file);
    }
}

const PARTIAL: &str = ".partial";

/// Largest number of bytes of the copy's name that its temporary name has. File systems allow names of 255
/// bytes.
const MOST: usize = 200;

/// Returns the beginning of the copy's name that is used in its temporary name.
fn shortened(name: &OsStr) -> &OsStr {
    let (bytes, mut end) = (name.as_bytes(), name.len().min(MOST));
    // The name is not cut within a character, because some file systems require UTF-8.
    while end < bytes.len() && bytes[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    OsStr::from_bytes(&bytes[..end])
}

/// Returns the temporary name of an unfinished copy: `.NAME.NUMBER.partial`.
fn partial_name(name: &OsStr, number: u64) -> OsString {
    let mut partial = OsString::from(".");
    partial.push(name);
    partial.push(format!(".{number:016x}{PARTIAL}"));
    partial
}

/// Removes unfinished copies to `target` that killed programs have left. A file that cannot be removed does
/// no harm, so errors are ignored.
fn remove_stale(target: &Path, name: &OsStr) {
    let Ok(entries) = fs::read_dir(folder_of(target)) else { return };
    let number = |entry: &OsStr| {
        let rest = entry.as_bytes().strip_prefix(b".")?.strip_prefix(name.as_bytes())?.strip_prefix(b".")?;
        let digits = std::str::from_utf8(rest.strip_suffix(PARTIAL.as_bytes())?).ok()?;
        u64::from_str_radix(digits, 16).ok()
    };
    for entry in entries.flatten() {
        let is_partial = |number| partial_name(name, number) == entry.file_name();
        if !number(&entry.file_name()).is_some_and(is_partial)
            || !entry.file_type().is_ok_and(|kind| kind.is_file())
        {
            continue;
        }
        let how = libc::O_NONBLOCK | libc::O_NOFOLLOW;
        let Ok(file) = File::options().read(true).custom_flags(how).open(entry.path()) else { continue };
        // The maker has the file locked as long as the file has this name.
        // SURVIVES unreached: copies are real files, which the simulator does not make.
        if try_lock(&file, false).unwrap_or(false) {
            let _ = fs::remove_file(entry.path());
            unlock(&file);
        }
    }
}
