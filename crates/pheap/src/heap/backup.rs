//! `Heap::backup`: a copy of a heap that is in use.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::memory::Still;
use super::{Heap, HeapInner};
use crate::error::{Error, Result};
use crate::os::names::has_name;
use crate::os::{random, rename_to_new, share_blocks};
use crate::store::arena::Arena;
use crate::store::header::{Header, Use};
use crate::units::HEADER_SIZE;
use crate::units::PAGE;

/// Bytes that are written at a time.
const CHUNK: u64 = 1 << 20;

impl Heap {
    /// Copies the heap to a new file at `path`: the state between two transactions, marked as closed. So it opens anywhere and after a
    /// reboot, whatever the durability of this heap. This works for heaps in memory, too, and for read-only ones, whose logs are replayed in the copy.
    ///
    /// Transactions wait until the copy is complete; reads go on. Where the file system can share the blocks of two files (btrfs, XFS), the
    /// copy takes next to no time and space; elsewhere it takes both for the pages that are in use. The file appears under its name when
    /// it is complete and durable. If the program is killed before that, a file called `.NAME.NUMBER.partial` remains, which the next backup to `path` removes.
    ///
    /// Use this to copy a heap that is open. A copy that other programs make of the open file may be torn, and is refused as [`Error::Copied`].
    ///
    /// # Errors
    /// [`Error::Io`] of the kind [`AlreadyExists`](io::ErrorKind::AlreadyExists) if there is a file at `path`, which is left as it is, or
    /// another one if the file cannot be written; [`Error::NoPermission`]; [`Error::OutOfSpace`]; [`Error::Nested`] if this thread is
    /// inside a transaction or read of the heap; [`Error::Closed`], [`Error::Forked`].
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let error = |e: io::Error| explain(path, e);
        if path.symlink_metadata().is_ok() {
            return Err(error(io::ErrorKind::AlreadyExists.into()));
        }
        let heap = self.inner();
        // Before anyone has to wait: most of what can go wrong.
        let partial = Partial::create(path).map_err(error)?;
        {
            let still = heap.still()?;
            heap.copy(&still, &partial.file).map_err(error)?;
        }
        // SURVIVES unreached: copies are real files, which the simulator does not make; no crash test covers it.
        partial.file.sync_all().map_err(error)?;
        partial.publish(path).map_err(error)
    }
}

/// An error of the operating system while `path` is made.
fn explain(path: &Path, e: io::Error) -> Error {
    let context = || format!("making the backup {}", path.display());
    match (e.kind(), e.raw_os_error()) {
        (io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem, _) => {
            Error::NoPermission { path: path.to_owned() }
        }
        (_, Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG)) => {
            Error::OutOfSpace { reason: format!("{}: {e}", context()) }
        }
        _ => Error::io(context(), e),
    }
}

/// A file under a name of its own, removed again unless it is published.
struct Partial {
    file: File,
    path: Option<PathBuf>,
}

impl Partial {
    fn create(target: &Path) -> io::Result<Partial> {
        let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        remove_stale(target, name);
        loop {
            let [number] = random();
            let path = target.with_file_name(partial_name(name, number));
            // Nobody else's until it gets the mode of the heap.
            let file = match File::options().read(true).write(true).create_new(true).mode(0o600).open(&path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                opened => opened?,
            };
            let partial = Partial { file, path: Some(path) };
            // Locked as long as somebody works on it: one that is not was left by a program that was killed.
            // SURVIVES unreached: copies are real files, which the simulator does not make; `tests/files/backup.rs` and `tests/names` are for this.
            match partial.file.try_lock() {
                // Somebody who tidies up was here first.
                Err(TryLockError::WouldBlock) => continue,
                Ok(()) if !has_name(&partial.file)? => continue,
                // Or the file system has no locks. Then nobody tidies up.
                _ => return Ok(partial),
            }
        }
    }

    /// Gives the file its name, durably, unless another file has it.
    fn publish(mut self, target: &Path) -> io::Result<()> {
        let from = self.path.as_ref().expect("published once");
        let renamed = rename_to_new(from, target)?;
        if renamed {
            self.path = None;
        } else {
            match io::Error::last_os_error() {
                // File systems without that can link, which does not replace either.
                e if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS)) => {
                    fs::hard_link(from, target)?
                }
                e => return Err(e),
            }
        }
        // Whoever waits for it to appear may open it at once.
        let _ = self.file.unlock();
        let parent = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // SURVIVES unreached: as for the file itself.
        File::open(parent)?.sync_all()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
        // Not by closing it: a child that was forked meanwhile has it open, too.
        let _ = self.file.unlock();
    }
}

const PARTIAL: &str = ".partial";

/// What a copy is called that is not complete.
fn partial_name(name: &OsStr, number: u64) -> OsString {
    let mut partial = OsString::from(".");
    partial.push(name);
    partial.push(format!(".{number:016x}{PARTIAL}"));
    partial
}

/// Removes what killed programs have left of copies to `target`. What cannot be removed is only in the way of nobody.
fn remove_stale(target: &Path, name: &OsStr) {
    let parent = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = fs::read_dir(parent) else { return };
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
        // Its maker has the lock as long as it has that name.
        // SURVIVES unreached: copies are real files, which the simulator does not make.
        if file.try_lock().is_ok() {
            let _ = fs::remove_file(entry.path());
            let _ = file.unlock();
        }
    }
}

impl HeapInner {
    /// Writes the heap to an empty file.
    fn copy(&self, still: &Still<'_>, to: &File) -> io::Result<()> {
        let cloned = self.mapping.shared_file().map(|file| {
            let permissions = file.metadata()?.permissions();
            to.set_permissions(permissions)?;
            // What was stored into the map is in the page cache, from which the kernel writes it to disk before it shares the blocks.
            io::Result::Ok(share_blocks(file, to))
        });
        // A file system that cannot do it says so in many ways. Whatever came of it, the next one starts anew.
        if !cloned.transpose()?.unwrap_or(false) {
            to.set_len(0)?;
            copy_pages(still, to)?;
        }
        let header = still.tables().header.clone();
        to.set_len(header.mapped)?;
        // Which slots are live is found out when the copy is opened: pages that hold it count as free.
        let mut header = Header { in_use: Use::Closed, live_slots: (0, 0), ..header };
        // Both slots: if one is damaged later, the other must not say that the heap was in use.
        for _ in 0..2 {
            header.sequence += 1;
            to.write_all_at(&header.to_bytes(), header.slot() as u64 * PAGE)?;
        }
        Ok(())
    }
}

/// Writes the pages that are in use; the others are holes.
fn copy_pages(still: &Still<'_>, to: &File) -> io::Result<()> {
    let map = still.map().map_err(io::Error::other)?;
    let own = |arena: &Arena| (arena.start.max(HEADER_SIZE), arena.first_free());
    let own: Vec<_> = still.tables().arenas.iter().map(own).collect();
    let spans = map.spans.iter().map(|span| (span.offset, span.offset + span.pages * PAGE));
    for (mut at, end) in own.into_iter().chain(spans) {
        while at < end {
            let len = (end - at).min(CHUNK);
            write_unless_zero(to, map.bytes(at, len), at)?;
            at += len;
        }
    }
    Ok(())
}

/// Writes whole pages, but for those that are zero, which a new file is anyway.
pub(super) fn write_unless_zero(to: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    let page = PAGE as usize;
    let is_zero = |i: usize| bytes[i * page..][..page].iter().all(|&byte| byte == 0);
    let pages = bytes.len() / page;
    let mut i = 0;
    while i < pages {
        if is_zero(i) {
            i += 1;
            continue;
        }
        let first = i;
        while i < pages && !is_zero(i) {
            i += 1;
        }
        to.write_all_at(&bytes[first * page..i * page], at + (first * page) as u64)?;
    }
    Ok(())
}
