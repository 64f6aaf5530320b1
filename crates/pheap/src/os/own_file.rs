//! Files of an open heap. In a forked child they are given up: a heap belongs to the process that has opened it.
//!
//! Of the descriptors and addresses there is a list, which the child takes back before `fork` returns in it
//! ([`child`]). So the lock on a heap's file, which both processes would have otherwise, goes with the
//! parent. A descriptor is not closed but shows something else from then on: what is left of the parent's
//! heap still has the number, which must not be another file's. The list is walked without a lock, for the
//! thread that would have it is not there any more; nothing is done that a signal handler must not do.
//!
//! Of the locks, all that belong to the heap may be taken for ever, for the same reason. So each entry of a
//! handle asks the [process](fork::Process) first, and locks nothing in a child. The drop of a handle does
//! nothing there, and what lies behind the entries does not ask again.

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

/// Forks of this process that have begun, and those of them that have not ended. In a beginning, the second comes first.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static UNDER_WAY: AtomicU64 = AtomicU64::new(0);

/// Starts to watch for forks. Two threads that come at once may both have it done, so that all is done twice, which does not matter.
pub(crate) fn watch() {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.load(Acquire) {
        // SAFETY: the handlers do nothing that a signal handler must not do.
        unsafe { libc::pthread_atfork(Some(begins), Some(ends), Some(child)) };
        WATCHED.store(true, Release);
    }
}

extern "C" fn begins() {
    UNDER_WAY.fetch_add(1, SeqCst);
    BEGUN.fetch_add(1, SeqCst);
}

/// In the parent.
extern "C" fn ends() {
    // Not below 0: this may be watched only since the fork began.
    let _ = UNDER_WAY.fetch_update(SeqCst, SeqCst, |under_way| under_way.checked_sub(1));
}

/// In the child, where nothing else runs.
extern "C" fn child() {
    fork::count();
    UNDER_WAY.store(0, SeqCst);
    if !bug(Bug::ForksKeepFiles) {
        give_up_all();
    }
}

// --- the list ----------------------------------------------------------------------------------------------------------------

/// An entry of the list, used again when its owner is gone. Both at once it is not.
#[repr(align(64))]
struct Entry {
    taken: AtomicBool,
    /// A descriptor, or -1.
    fd: AtomicI32,
    /// A range of addresses; nothing if it has no length.
    start: AtomicUsize,
    len: AtomicUsize,
    next: Option<&'static Entry>,
}

/// Something that stays for ever, or nothing yet. Several threads may put another one there.
pub(super) struct Leaked<T: 'static>(AtomicPtr<T>);

impl<T: Sync> Leaked<T> {
    pub(super) const fn nothing() -> Leaked<T> {
        Leaked(AtomicPtr::new(ptr::null_mut()))
    }

    pub(super) fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or from a box that stays for ever: see `replace`.
        unsafe { self.0.load(SeqCst).as_ref() }
    }

    /// Puts another one there, to stay for ever, unless something else than `old` is there by now.
    pub(super) fn replace(&self, old: Option<&'static T>, new: Box<T>) -> Option<&'static T> {
        let old = old.map_or(ptr::null_mut(), |old| ptr::from_ref(old).cast_mut());
        let new = Box::into_raw(new);
        match self.0.compare_exchange(old, new, SeqCst, Acquire) {
            // SAFETY: from a box, which nobody frees any more.
            Ok(_) => Some(unsafe { &*new }),
            Err(_) => {
                // SAFETY: from a box, and nobody has seen it.
                drop(unsafe { Box::from_raw(new) });
                None
            }
        }
    }
}

static ENTRIES: Leaked<Entry> = Leaked::nothing();

/// From the newest to the oldest. They stay where they are, for ever.
fn entries() -> impl Iterator<Item = &'static Entry> {
    std::iter::successors(ENTRIES.get(), |entry| entry.next)
}

/// An entry that nobody else has.
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
        // Else another thread was faster.
        if let Some(entry) = ENTRIES.replace(first, entry) {
            return entry;
        }
    }
}

/// Something that children are to give up, as long as this is there.
#[derive(Debug)]
pub(crate) struct Listed {
    entry: &'static Entry,
    gone: AtomicBool,
    process: Process,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Entry")
    }
}

impl Listed {
    fn descriptor(fd: RawFd) -> Listed {
        let entry = take_entry();
        entry.fd.store(fd, SeqCst);
        Listed { entry, gone: AtomicBool::new(false), process: Process::default() }
    }

    /// Lists addresses that are this process's until [`remove`](Self::remove).
    pub(crate) fn addresses(start: usize, len: usize) -> Listed {
        let entry = take_entry();
        entry.start.store(start, SeqCst);
        entry.len.store(len, SeqCst);
        Listed { entry, gone: AtomicBool::new(false), process: Process::default() }
    }

    /// Removes it from the list, before the number or the addresses can be given to something else. In a child, the entry is
    /// not removed: it was given up, and may have a file of the child by now.
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

impl Drop for Listed {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Gives up all that is in the list.
#[expect(clippy::multiple_unsafe_ops_per_block, reason = "system calls about one list")]
fn give_up_all() {
    // SAFETY: system calls only. The descriptors are those of `OwnFile`s, and the addresses those of mappings of the parent, which are for nobody here.
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
                    // There is no number left but this one.
                    libc::close(fd);
                    let own = libc::eventfd(0, libc::EFD_CLOEXEC);
                    if own >= 0 && own != fd {
                        libc::dup3(own, fd, libc::O_CLOEXEC);
                        libc::close(own);
                    }
                }
            }
            if len > 0 {
                // Almost always they are not there: see `keep_from_children`.
                libc::munmap(ptr::without_provenance_mut(start), len);
            }
            entry.clear();
        }
        if placeholder >= 0 {
            libc::close(placeholder);
        }
    }
}

// --- files -------------------------------------------------------------------------------------------------------------------

/// A file that forked children do not keep open. A clone is the same descriptor: of a duplicate, a child that is forked at that moment might have a copy that nobody
/// knows of, and so the file's lock.
#[derive(Clone, Debug)]
pub(crate) struct OwnFile(Arc<Own>);

#[derive(Debug)]
struct Own {
    // In this order: not listed any more when the number may become another file's.
    _listed: Listed,
    file: File,
    syncs: Syncs,
}

/// A fork that takes longer than this is waiting for the thread that opens a file.
const FORK_STUCK: Duration = Duration::from_secs(10);

impl OwnFile {
    /// A file on which no lock is going to be taken.
    pub(crate) fn new(file: File) -> OwnFile {
        watch();
        let listed = Listed::descriptor(file.as_raw_fd());
        OwnFile(Arc::new(Own { _listed: listed, file, syncs: Syncs::new() }))
    }

    /// A file that a lock is going to be taken on. `open` may be called several times.
    ///
    /// # Errors
    /// Those of `open`.
    pub(crate) fn open<E>(mut open: impl FnMut() -> Result<File, E>) -> Result<OwnFile, E> {
        watch();
        // A child that is forked between the call and the entry in the list keeps the file open. That one has no lock, and another one is opened. A fork takes long
        // if its thread has to wait for a processor; one that waits for what this thread has, in a handler of somebody else's, never ends. So this gives in some
        // time: then such a child would have to live longer than its parent to matter.
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

    /// Waits until the disk has what was written to the file, and what is needed to read that: its length, for one. Nobody syncs it in another way.
    ///
    /// # Errors
    /// What the operating system says, now or when it was synced before.
    pub(crate) fn sync(&self) -> io::Result<()> {
        // SURVIVES unreached: of a real file, as is each call of this.
        self.0.syncs.sync(|| self.0.file.sync_data())
    }
}

impl Deref for OwnFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0.file
    }
}
