//! The files of an open heap. A forked child gives them up: a heap belongs to the process that has opened it.
//!
//! The descriptors and addresses of all open heaps are in a list. A handler in the child walks the list
//! before `fork` returns there ([`child`]), and gives up all of them. So the lock on a heap's file, which
//! both processes would have otherwise, ends with the parent. A descriptor is not closed, but replaced by
//! that of another file: the child's copy of the parent's heap still has the number, which must not become
//! that of an unrelated file. The list is walked without a lock, because the thread that has the lock does
//! not exist in the child. The child's handler makes only system calls, and waits for no lock.
//!
//! The thread that has a lock of the heap during a fork does not exist in the child either, so each lock of
//! the heap may stay taken for ever there. So each method of a handle checks the [process](fork::Process)
//! first, and takes no lock in a child. The drop of a handle does nothing in a child. Code behind these
//! methods need not check.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

use super::fork::{self, Process};
use super::syncs::Syncs;
use crate::faults::{Bug, bug};

/// Number of forks of this process that have begun.
static BEGUN: AtomicU64 = AtomicU64::new(0);
/// Number of forks that have begun and not ended. At a beginning, it is incremented before `BEGUN`.
static UNDER_WAY: AtomicU64 = AtomicU64::new(0);

/// Registers the handlers for forks. If two threads come at the same time, both may register them, so that
/// each handler runs twice, which does no harm.
pub(crate) fn watch() {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.load(Acquire) {
        // SAFETY: the handlers are functions, which stay. They only access atomics and make system calls, and
        // wait for no lock.
        unsafe { libc::pthread_atfork(Some(begins), Some(ends), Some(child)) };
        WATCHED.store(true, Release);
    }
}

extern "C" fn begins() {
    UNDER_WAY.fetch_add(1, SeqCst);
    BEGUN.fetch_add(1, SeqCst);
}

/// Runs in the parent after a fork.
extern "C" fn ends() {
    // The counter does not go below 0: the handlers may have been registered after the fork began.
    let _ = UNDER_WAY.fetch_update(SeqCst, SeqCst, |under_way| under_way.checked_sub(1));
}

/// Runs in the child, where no other thread runs.
extern "C" fn child() {
    fork::count();
    UNDER_WAY.store(0, SeqCst);
    if !bug(Bug::ForksKeepFiles) {
        give_up_all();
    }
}

// --- The list of descriptors and addresses that forked children give up.

/// An entry of the list, reused when its owner is dropped. It has a descriptor or a range of addresses, not
/// both.
#[repr(align(64))]
struct Entry {
    taken: AtomicBool,
    /// A file descriptor, or -1.
    fd: AtomicI32,
    /// The start of a range of addresses. There is no range if `len` is 0.
    start: AtomicUsize,
    len: AtomicUsize,
    next: Option<&'static Entry>,
}

/// A pointer to a value that is never freed, or null. Several threads may replace it.
pub(super) struct LeakedPointer<T: 'static>(AtomicPtr<T>);

impl<T: Sync> LeakedPointer<T> {
    pub(super) const fn nothing() -> LeakedPointer<T> {
        LeakedPointer(AtomicPtr::new(ptr::null_mut()))
    }

    pub(super) fn get(&self) -> Option<&'static T> {
        // SAFETY: the pointer is null, or from a box that `replace` has leaked.
        unsafe { self.0.load(SeqCst).as_ref() }
    }

    /// Replaces `old` by `new`, and leaks `new`. Returns the leaked value, or `None` if another thread has
    /// replaced `old` before; then `new` is dropped.
    pub(super) fn replace(&self, old: Option<&'static T>, new: Box<T>) -> Option<&'static T> {
        let old = old.map_or(ptr::null_mut(), |old| ptr::from_ref(old).cast_mut());
        let new = Box::into_raw(new);
        match self.0.compare_exchange(old, new, SeqCst, Acquire) {
            // SAFETY: `new` is from a box, and is never freed from here on.
            Ok(_) => Some(unsafe { &*new }),
            Err(_) => {
                // SAFETY: `new` is from the box above, and no other thread has seen it.
                drop(unsafe { Box::from_raw(new) });
                None
            }
        }
    }
}

static ENTRIES: LeakedPointer<Entry> = LeakedPointer::nothing();

/// Returns the entries from the newest to the oldest. Entries are never moved or freed.
fn entries() -> impl Iterator<Item = &'static Entry> {
    std::iter::successors(ENTRIES.get(), |entry| entry.next)
}

/// Returns an entry that no other owner has.
fn take_entry() -> &'static Entry {
    let is_ours = |entry: &&'static Entry| {
        !entry.taken.load(Relaxed) && entry.taken.compare_exchange(false, true, Acquire, Relaxed).is_ok()
    };
    if let Some(entry) = entries().find(is_ours) {
        return entry;
    }
    loop {
        let first = ENTRIES.get();
        let entry = Box::new(Entry {
            taken: AtomicBool::new(true),
            fd: AtomicI32::new(-1),
            start: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            next: first,
        });
        // If another thread has added an entry first, the loop tries again.
        if let Some(entry) = ENTRIES.replace(first, entry) {
            return entry;
        }
    }
}

/// A descriptor or range of addresses that forked children give up, until the `ForkListed` is removed or
/// dropped.
#[derive(Debug)]
pub(crate) struct ForkListed {
    entry: &'static Entry,
    gone: AtomicBool,
    process: Process,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Entry")
    }
}

impl ForkListed {
    fn descriptor(fd: RawFd) -> ForkListed {
        let entry = take_entry();
        entry.fd.store(fd, SeqCst);
        ForkListed { entry, gone: AtomicBool::new(false), process: Process::default() }
    }

    /// Lists addresses that belong to this process until [`remove`](Self::remove).
    pub(crate) fn addresses(start: usize, len: usize) -> ForkListed {
        let entry = take_entry();
        entry.start.store(start, SeqCst);
        entry.len.store(len, SeqCst);
        ForkListed { entry, gone: AtomicBool::new(false), process: Process::default() }
    }

    /// Removes the entry from the list. The owner calls this before the descriptor's number or the addresses
    /// can be used for something else. In a forked child the entry is left alone: it was given up, and may
    /// have a file of the child by now.
    pub(crate) fn remove(&self) {
        if !self.gone.swap(true, Relaxed) && !self.process.is_parent() {
            self.entry.clear();
        }
    }
}

impl Entry {
    fn clear(&self) {
        self.len.store(0, SeqCst);
        self.fd.store(-1, SeqCst);
        self.taken.store(false, Release);
    }
}

impl Drop for ForkListed {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Gives up everything in the list.
#[expect(clippy::multiple_unsafe_ops_per_block, reason = "system calls about one list")]
fn give_up_all() {
    // SAFETY: these are system calls. The descriptors are those of `OwnFile`s of the parent, and the
    // addresses those of its mappings. This child does not use them: each method of a handle checks the
    // process first.
    unsafe {
        let mut placeholder = -1;
        for entry in entries() {
            let (fd, start, len) = (entry.fd.load(SeqCst), entry.start.load(SeqCst), entry.len.load(SeqCst));
            if fd >= 0 {
                if placeholder < 0 {
                    placeholder = libc::eventfd(0, libc::EFD_CLOEXEC);
                }
                if placeholder >= 0 {
                    libc::dup3(placeholder, fd, libc::O_CLOEXEC);
                } else {
                    // No descriptor is free for a placeholder, so this one is closed, and a replacement is
                    // opened in its place.
                    libc::close(fd);
                    let own = libc::eventfd(0, libc::EFD_CLOEXEC);
                    if own >= 0 && own != fd {
                        libc::dup3(own, fd, libc::O_CLOEXEC);
                        libc::close(own);
                    }
                }
            }
            if len > 0 {
                // Almost always the addresses are not mapped in the child; see `keep_from_children`.
                libc::munmap(ptr::without_provenance_mut(start), len);
            }
            entry.clear();
        }
        if placeholder >= 0 {
            libc::close(placeholder);
        }
    }
}

// --- Files whose descriptors are in the list.

/// A file that forked children do not keep open. A clone has the same descriptor. The descriptor is never
/// duplicated: a child that is forked at that moment might have a copy of the duplicate, which is in no list,
/// and with it the file's lock.
#[derive(Clone, Debug)]
pub(crate) struct OwnFile(Arc<OwnFileInner>);

#[derive(Debug)]
struct OwnFileInner {
    // Field order matters: the entry is removed before the file is closed and its number may become another
    // file's.
    _listed: ForkListed,
    file: File,
    syncs: Syncs,
}

/// A fork that takes longer than this is taken to wait for the thread that opens a file.
const FORK_STUCK: Duration = Duration::from_secs(10);

impl OwnFile {
    /// Makes an `OwnFile` of a file that will not be locked.
    pub(crate) fn new(file: File) -> OwnFile {
        watch();
        let listed = ForkListed::descriptor(file.as_raw_fd());
        OwnFile(Arc::new(OwnFileInner { _listed: listed, file, syncs: Syncs::new() }))
    }

    /// Opens a file that will be locked. `open` may be called several times.
    ///
    /// # Errors
    /// Those of `open`.
    pub(crate) fn open<E>(mut open: impl FnMut() -> Result<File, E>) -> Result<OwnFile, E> {
        watch();
        // A child that is forked between `open` and the entry in the list keeps that file open. The file has
        // no lock yet, so it is closed here, and opened again. A fork takes long if its thread waits for a
        // processor. A fork never ends if the handler of another library waits for something that this thread
        // has, so this gives up after a while. A child that keeps the file open then does harm only if it
        // outlives its parent.
        let started = Instant::now();
        loop {
            let (begun, idle) = (BEGUN.load(SeqCst), UNDER_WAY.load(SeqCst) == 0);
            let file = OwnFile::new(open()?);
            if idle && BEGUN.load(SeqCst) == begun || started.elapsed() > FORK_STUCK {
                return Ok(file);
            }
            drop(file);
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Waits until the disk has everything that was written to the file, and the metadata that are needed to
    /// read it, such as its length. All syncs of the file must use this method.
    ///
    /// # Errors
    /// The error of the operating system, in this call or an earlier one.
    pub(crate) fn sync(&self) -> io::Result<()> {
        // SURVIVES unreached: this syncs a real file, and only code for real files calls it.
        self.0.syncs.sync(|| self.0.file.sync_data())
    }

    /// Makes this sync and all later ones of the file fail.
    #[cfg(test)]
    pub(crate) fn fail_sync(&self) {
        let failed = self.0.syncs.sync(|| Err(io::Error::from_raw_os_error(libc::EIO)));
        debug_assert!(failed.is_err());
    }
}

impl Deref for OwnFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0.file
    }
}
