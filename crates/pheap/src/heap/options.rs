//! `Options`, `Durability`: how to open a heap.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::media::MediumKind;
use crate::os;
use crate::tuning::Tuning;
use crate::units::PAGE;
use crate::wal::SyncPolicy;

/// Which crashes committed transactions survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// Chosen by the file system: [`Process`](Durability::Process) where files are in memory only (tmpfs);
    /// [`Pmem`](Durability::Pmem) where files can be mapped with `MAP_SYNC` (DAX), if the processor has an
    /// instruction that writes back its caches and that pheap knows; else [`Wal`](Durability::Wal).
    #[default]
    Auto,
    /// Survives the end of the process and a power failure, on persistent memory: log entries and data are
    /// written back from the processor's caches. On other memory, transactions survive only what they survive
    /// with `Process`. pheap cannot tell what the memory is: after a power failure the heap opens all the
    /// same, and its most recent transactions may be torn. A processor without an instruction that writes
    /// back its caches, or with one that pheap does not know, is refused
    /// ([`Error::Unsupported`](crate::Error::Unsupported)). The file systems that
    /// [`Process`](Durability::Process) refuses are refused here, too.
    Pmem,
    /// Survives the end of the process and a power failure, on any disk. The changes of a transaction are
    /// appended to a log, in a file of the same name with `.wal` appended, and synced before the transaction
    /// returns (see [`SyncPolicy`]). Checkpoints write them to the heap's file in the background. Both files
    /// may be renamed together while the heap is open: the heap looks for its log next to its file. If only
    /// one of the files is renamed, the error is [`Error::Misplaced`](crate::Error::Misplaced). A file that
    /// is a mount by itself, in a container for example, is refused
    /// ([`Error::MountedAlone`](crate::Error::MountedAlone)): mount its directory. A heap that was closed in
    /// order gets its log with the first transaction, unless the opening has to relocate it, to mark its live
    /// objects, or to replace a leftover log. So opening and reading it waits for no sync. If the log cannot
    /// be made at the first transaction, that transaction fails, and has changed nothing. (A program that
    /// gives up the right to write to the directory should call [`Heap::collect`](crate::Heap::collect)
    /// before, which makes the log.)
    Wal,
    /// Survives the end of the process at any instant (`kill -9`, abort, panic), but not a power failure. A
    /// file system that writes changed blocks elsewhere (btrfs, ZFS, bcachefs) is refused
    /// ([`Error::Unsupported`](crate::Error::Unsupported)).
    Process,
}

impl Durability {
    pub(super) fn from_medium(medium: MediumKind) -> Durability {
        match medium {
            MediumKind::Process => Durability::Process,
            MediumKind::Pmem => Durability::Pmem,
            MediumKind::Wal | MediumKind::Synced => Durability::Wal,
        }
    }
}

/// Options for opening or creating a heap.
///
/// ```no_run
/// # fn main() -> pheap::Result<()> {
/// let heap = pheap::Options::new().max_size(1 << 30).open("data.pheap")?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) durability: Durability,
    pub(crate) sync_policy: SyncPolicy,
    pub(crate) log_limit: u64,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) temp_dir: Option<PathBuf>,
    pub(crate) unsynced_limit: u64,
    pub(crate) read_only: bool,
    pub(crate) follower: bool,
    pub(crate) arena_size: u64,
    pub(crate) reserve: Option<u64>,
    pub(crate) base: Option<u64>,
    pub(crate) max_size: u64,
    pub(crate) pin_undo: bool,
    pub(crate) verify: bool,
    pub(crate) restored: bool,
    pub(crate) collect_growth: u32,
    pub(crate) collect_threads: usize,
    pub(crate) collect_least: u64,
    pub(crate) tuning: Tuning,
}

/// Default of [`Options::memory_limit`] in bytes. On a machine with little memory, the default is less.
const MEMORY: u64 = 256 << 20;

/// Default of [`Options::reserve`] in bytes, for a new heap that is not known to need less.
const RESERVED: u64 = 128 << 30;
/// Least default of [`Options::reserve`] in bytes, for a new heap that is known to need less than
/// [`RESERVED`].
const LEAST_RESERVED: u64 = 4 << 30;

impl Default for Options {
    fn default() -> Options {
        Options {
            durability: Durability::Auto,
            sync_policy: SyncPolicy::EveryCommit,
            log_limit: 128 << 20,
            memory_limit: None,
            temp_dir: None,
            unsynced_limit: 8 << 20,
            read_only: false,
            follower: false,
            arena_size: 1 << 20,
            reserve: None,
            base: None,
            max_size: u64::MAX,
            pin_undo: false,
            verify: false,
            restored: false,
            collect_growth: 100,
            collect_threads: 0,
            collect_least: 4 << 20,
            tuning: Tuning::SHIPPED,
        }
    }
}

impl Options {
    /// Returns the default options.
    pub fn new() -> Options {
        Options::default()
    }

    /// Sets which crashes committed transactions survive. The durability of a heap may differ from one
    /// opening to the next.
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// Sets when the log is synced, with [`Durability::Wal`]; the default is at each commit. Other
    /// durabilities ignore it.
    pub fn sync_policy(mut self, policy: SyncPolicy) -> Options {
        self.sync_policy = policy;
        self
    }

    /// Sets the size of the log in bytes, with [`Durability::Wal`], beyond which transactions wait for a
    /// checkpoint; the default is 128 MiB. A checkpoint begins when the log is half full, or earlier. A
    /// single transaction that writes more than half of this limit may make the log longer.
    pub fn log_limit(mut self, bytes: u64) -> Options {
        self.log_limit = bytes;
        self
    }

    /// Limits the process's private memory for the heap, in bytes, with [`Durability::Wal`]. The default is
    /// 256 MiB, or an eighth of the memory (with swap) of the machine or of the memory of the process's
    /// control group, if that is less. The limit counts the pages dirtied since they were last evicted;
    /// checkpoints evict above half of this limit, down to three eighths. Beyond the limit, transactions may
    /// wait for a checkpoint. Not counted are the dirty pages of an open transaction, tables, and, during a
    /// checkpoint, records of the log: at most three quarters of its [limit](Self::log_limit), and at most
    /// half of this limit or 1 MiB.
    ///
    /// An opening takes at most half of this limit, and a few MiB. If the pages to which the log of a killed
    /// program stores need more, the log is brought to the heap's file first. A heap that is opened
    /// [read-only](Self::read_only) is copied instead (to [`temp_dir`](Self::temp_dir), if the copy is too
    /// large for memory), also if its relocation needs more. A [follower](Self::follower) always makes a
    /// copy.
    pub fn memory_limit(mut self, bytes: u64) -> Options {
        self.memory_limit = Some(bytes);
        self
    }

    /// Sets the directory for the copy of a heap that is only read, if its opening needs more memory than
    /// [`memory_limit`](Self::memory_limit) allows. The copy has no name, takes as much space as the heap's
    /// file would take without holes, and is gone when the last handle of the heap is dropped. The default is
    /// the operating system's directory for temporary files ([`std::env::temp_dir`]); if that is in memory,
    /// name a directory on a disk.
    pub fn temp_dir(mut self, directory: impl Into<PathBuf>) -> Options {
        self.temp_dir = Some(directory.into());
        self
    }

    /// Limits the unsynced bytes of the log that [deferred transactions](crate::Root::txn_deferred) leave,
    /// with [`Durability::Wal`] and [`SyncPolicy::EveryCommit`] or [`Awaited`](SyncPolicy::Awaited); the
    /// default is 8 MiB. If more bytes than this are unsynced before the end of its record, a deferred
    /// transaction that has committed waits for the disk before it returns. So at most this many bytes are
    /// unsynced, plus the last transaction of each waiting thread. With 0, all deferred transactions wait.
    pub fn unsynced_limit(mut self, bytes: u64) -> Options {
        self.unsynced_limit = bytes;
        self
    }

    /// Opens the heap without ever changing the file: after a crash, the heap is recovered in memory, or in a
    /// temporary copy (see [`temp_dir`](Self::temp_dir)). Other processes may open it read-only at the same
    /// time. Transactions fail with [`Error::ReadOnly`].
    pub fn read_only(mut self, read_only: bool) -> Options {
        self.read_only = read_only;
        self
    }

    /// Opens a copy of the heap as it is at this moment, even if another process (or this one) has it open
    /// and writes to it. The writer must have opened it with [`Durability::Wal`]; with other durabilities the
    /// error is [`Error::NotFollowed`]. A closed heap can be followed, too.
    ///
    /// The copy shows one state between two transactions. It has everything that was committed before this
    /// call (except [deferred transactions](crate::Root::txn_deferred) whose records are still in the
    /// writer's memory), and is durable: a power failure does not take it back. (Therefore the follower syncs
    /// the log. With [`SyncPolicy::OnDemand`], the writer may not have synced it. If a sync of the writer has
    /// failed, of which only the writer knows, the newest transactions may be lost nevertheless.)
    ///
    /// The copy does not change any more. To see newer transactions, drop the heap and open another copy,
    /// which has everything that this one had. The copy takes the space of all pages that are in use, and of
    /// the log, in memory. If that is more than half of [`memory_limit`](Self::memory_limit), it takes the
    /// space of the whole heap in [`temp_dir`](Self::temp_dir). Opening takes the time to copy these pages,
    /// and the log that is written during that.
    ///
    /// No file is changed, and permission to read both files is enough. No lock is taken, so the writer never
    /// waits, and may close the heap or open it again. The writer does not know its followers, and reuses the
    /// log. If the writer overwrites records that the follower has not read yet, the copy begins anew; after
    /// 16 attempts, the error is [`Error::Overtaken`]. The longer the writer's [log](Self::log_limit) is, the
    /// less often that happens.
    ///
    /// The opened heap is [read-only](Self::read_only); with [`verify`](Self::verify) the copy is checked.
    /// Both processes must be on one machine, because another machine may see writes to the files late.
    pub fn follower(mut self, follower: bool) -> Options {
        self.follower = follower;
        self
    }

    /// Sets the bytes of the file of a new heap, and the unit in which it grows: a power of two of at least
    /// 32 KiB. The default is 1 MiB. A heap grows by half of its size, at most by 64 MiB (unless an object
    /// needs more), and at least by a unit. The file of a heap that grows may be one such step longer than
    /// the heap; see [`Stats::ahead_bytes`](crate::Stats::ahead_bytes).
    pub fn arena_size(mut self, bytes: u64) -> Options {
        self.arena_size = bytes;
        self
    }

    /// Sets the bytes of addresses that a new heap reserves: a power of two, and the maximal size of the heap
    /// for ever. The maximum is 8 TiB. The default is 128 GiB, or less if the heap cannot need that much: a
    /// heap in memory reserves the size of the machine's memory and swap, and a heap that is created with a
    /// [`max_size`](Self::max_size) 16 times that size, both rounded up to a power of two of at least 4 GiB.
    /// The default is never less than [`arena_size`](Self::arena_size).
    ///
    /// Reserved addresses take no memory, but all heaps of a process share 64 TiB of them: if none are left,
    /// opening fails with [`Error::TooManyHeaps`].
    pub fn reserve(mut self, bytes: u64) -> Options {
        self.reserve = Some(bytes);
        self
    }

    /// Maps the heap at this address, a multiple of its [reservation](Options::reserve), in the lower 128
    /// TiB. Opening fails with [`Error::InvalidOption`] if `addr` is no such address, and with
    /// [`Error::AddressInUse`] if the heap's addresses from there on are taken.
    ///
    /// By default, a heap is mapped where it was before, or elsewhere if that range is taken, for instance by
    /// an open copy of the same file. When a heap is relocated, opening it rewrites all its pointers, which
    /// takes about as long as copying it.
    pub fn base(mut self, addr: u64) -> Options {
        self.base = Some(addr);
        self
    }

    /// Limits the file's size in bytes. Transactions for which the file would have to be longer fail with
    /// [`Error::OutOfSpace`], as if the disk were full. So does the creation of a heap whose first arena
    /// would be longer.
    pub fn max_size(mut self, bytes: u64) -> Options {
        self.max_size = bytes;
        self
    }

    /// Sets when a root is collected: when it has allocated about this many percent of the bytes that were
    /// live after its last collection, but at least about 4 MiB. While most new objects of a root die, its
    /// new objects are collected up to four times as often. The default is 100. Lower values keep the file
    /// smaller, higher ones collect less often.
    pub fn collect_growth(mut self, percent: u32) -> Options {
        self.collect_growth = percent;
        self
    }

    /// Sets the number of threads that mark the objects of a large root while a caller waits
    /// ([`collect`](crate::Heap::collect), [`wait_ready`](crate::Heap::wait_ready)). The default is the
    /// number of processors, but at most 8. (In a forked child, one thread marks.)
    pub fn collect_threads(mut self, threads: usize) -> Options {
        self.collect_threads = threads;
        self
    }

    /// Sets the least bytes that a root allocates before it is collected; see
    /// [`collect_growth`](Self::collect_growth). A small value also makes the slices of collections short.
    /// This option is for tests.
    #[doc(hidden)]
    pub fn collect_least(mut self, bytes: u64) -> Options {
        self.collect_least = bytes;
        self
    }

    /// Checks the whole heap as [`Heap::check`](crate::Heap::check) does, before anything in the file is
    /// changed: [`Error::Corrupt`] has the first three problems, and the number of the others. Use it for
    /// files from untrusted sources: without it, their pointers and values are trusted.
    ///
    /// This option also opens a heap that was in use with [`Process`](Durability::Process) durability when
    /// the machine went down, or may have gone down (otherwise [`Error::NotClosed`] or
    /// [`Error::BootUnknown`]), if the check finds no problem. The most recent transactions of such a heap
    /// may be torn.
    pub fn verify(mut self, verify: bool) -> Options {
        self.verify = verify;
        self
    }

    /// Opens a file that is a copy of a heap in use, which is otherwise [`Error::Copied`]. Use it if the file
    /// was copied or restored on purpose, while no process changed the heap. A heap that was in use with
    /// [`Process`](Durability::Process) when the machine went down opens as with [`verify`](Self::verify).
    ///
    /// Unless the heap was closed, all of it is [checked](Options::verify) first, its log included; if the
    /// check finds a problem, nothing in the file is changed. The check cannot tell whether a copy has
    /// everything that was committed. From then on the heap opens in this file without this option, unless it
    /// was opened [read-only](Self::read_only) or as a [follower](Self::follower).
    pub fn restored(mut self, restored: bool) -> Options {
        self.restored = restored;
        self
    }

    /// Makes every transaction long from its beginning: it stores in place, with an undo log. This option is
    /// for tests and measurements.
    #[doc(hidden)]
    pub fn pin_undo(mut self, pin: bool) -> Options {
        self.pin_undo = pin;
        self
    }

    /// Returns the bytes of addresses that a new heap reserves: those of [`reserve`](Self::reserve), or else
    /// enough for a heap of `most` bytes, but at least [`LEAST_RESERVED`] and the arena size, and at most
    /// [`RESERVED`] unless the arena size is larger.
    pub(super) fn reservation(&self, most: u64) -> u64 {
        let needed = most.clamp(LEAST_RESERVED, RESERVED).next_power_of_two();
        self.reserve.unwrap_or(needed.max(self.arena_size))
    }

    /// Returns the directory for the temporary copies of heaps that are too large for memory.
    pub(super) fn folder_for_copies(&self) -> PathBuf {
        self.temp_dir.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// Returns the limit of the heap's private memory in bytes: the [option](Self::memory_limit), or its
    /// default.
    pub(super) fn memory(&self) -> u64 {
        self.memory_limit.unwrap_or_else(|| MEMORY.min(os::memory_limit() / 8))
    }

    /// Fails unless `arena_size` and `reserve` have valid values. The base is checked when the heap's
    /// addresses are reserved.
    pub(super) fn check(&self) -> Result<()> {
        if !self.arena_size.is_power_of_two() || self.arena_size < 8 * PAGE {
            return Err(Error::InvalidOption(
                "`Options::arena_size` must be a power of two of at least 32 KiB",
            ));
        }
        let is_possible =
            |bytes: u64| bytes.is_power_of_two() && bytes >= self.arena_size && bytes <= 1 << 43;
        if !is_possible(self.reservation(u64::MAX)) {
            return Err(Error::InvalidOption(
                "`Options::reserve` must be a power of two, at least the arena size and at most 8 TiB",
            ));
        }
        Ok(())
    }
}
