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
    /// Chosen by file system: [`Pmem`](Durability::Pmem) where files can be mapped with `MAP_SYNC` (DAX),
    /// [`Process`](Durability::Process) where they are in memory only (tmpfs), else [`Wal`](Durability::Wal).
    #[default]
    Auto,
    /// Survives the end of the process and a power failure, on persistent memory: log entries and data are written back from
    /// the processor's caches. On other memory it costs the same, and survives only what `Process` does.
    Pmem,
    /// Survives the end of the process and a power failure, on any disk: the changes of a transaction are appended to a log, in a file of the
    /// same name with `.wal` appended, and synced before the transaction returns (see [`SyncPolicy`]). Checkpoints write them to the
    /// heap's file in the background. Both files may be renamed while the heap is open; the log follows the heap. A file that is a mount of its own,
    /// in a container for example, is refused ([`Error::MountedAlone`](crate::Error::MountedAlone)): mount its directory. A heap that was closed well gets its log with the first change: to open and read it waits for no disk, and
    /// that the log cannot be made is the error of the first transaction, which has changed nothing. (A program that gives up the right to write to the directory calls [`Heap::collect`](crate::Heap::collect) before.)
    Wal,
    /// Survives the end of the process at any instant (`kill -9`, abort, panic), but not of the machine.
    Process,
}

impl Durability {
    pub(super) fn of(medium: MediumKind) -> Durability {
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

/// Bytes of private memory of a heap, if nothing else is asked for; less where there is little memory.
const MEMORY: u64 = 256 << 20;

/// Addresses of a heap, if nothing else is asked for: as many, or so many at least if it is known that it will not need more.
const RESERVED: u64 = 128 << 30;
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
    /// The defaults.
    pub fn new() -> Options {
        Options::default()
    }

    /// Which crashes committed transactions survive. May differ from one opening to the next.
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// When the log is synced, with [`Durability::Wal`]; the default is at each commit. Other durabilities ignore it.
    pub fn sync_policy(mut self, policy: SyncPolicy) -> Options {
        self.sync_policy = policy;
        self
    }

    /// Size of the log in bytes, with [`Durability::Wal`], beyond which transactions wait for a checkpoint; the default is 128 MiB. A
    /// checkpoint begins when the log is half full. A single transaction that writes more makes it longer.
    pub fn log_limit(mut self, bytes: u64) -> Options {
        self.log_limit = bytes;
        self
    }

    /// Limit of the process's private memory for the heap, in bytes, with [`Durability::Wal`]. The default is 256 MiB, or an
    /// eighth of the memory of the machine or of the process's control group, if that is less. What counts are the pages
    /// dirtied since they were last evicted; checkpoints evict above half of this limit, down to three eighths. The dirty
    /// pages of an open transaction, and tables (0.4 % of the file at most), come on top; and, while a checkpoint is made,
    /// records of the log: at most three quarters of its [limit](Self::log_limit), and at most half of this limit or 1 MiB.
    ///
    /// An opening takes half of this limit, and a few MiB. If the pages to which the log of a killed program stores need
    /// more, the log is brought to the heap's file first. A heap that is opened [to be read](Self::read_only) is copied
    /// to a file in [`temp_dir`](Self::temp_dir) then, and so is one that is [followed](Self::follower).
    pub fn memory_limit(mut self, bytes: u64) -> Options {
        self.memory_limit = Some(bytes);
        self
    }

    /// Where a heap is copied to that is only read, and needs more memory to be opened than
    /// [`memory_limit`](Self::memory_limit) says. The copy has no name, takes as much space as the heap's file, and is gone
    /// when the heap is closed. The default is the directory for temporary files of the operating system
    /// ([`std::env::temp_dir`]); where that is in memory, name one on a disk.
    pub fn temp_dir(mut self, directory: impl Into<PathBuf>) -> Options {
        self.temp_dir = Some(directory.into());
        self
    }

    /// Bytes of the log, with [`Durability::Wal`] and [`SyncPolicy::EveryCommit`] or [`Awaited`](SyncPolicy::Awaited), that [deferred transactions](crate::Root::txn_deferred) leave to be synced later; the default is 8 MiB. One that has
    /// committed while more than this was not synced before its end waits for the disk before it returns, until that is no longer so. So at most this much is not
    /// synced, and what threads have committed that are waiting. With 0, all wait.
    pub fn unsynced_limit(mut self, bytes: u64) -> Options {
        self.unsynced_limit = bytes;
        self
    }

    /// Opens the heap without ever changing the file: after a crash, the heap is recovered in memory only. Other processes may open it
    /// read-only at the same time. Transactions fail with [`Error::ReadOnly`].
    pub fn read_only(mut self, read_only: bool) -> Options {
        self.read_only = read_only;
        self
    }

    /// Opens a copy of the heap as it is at this moment, even if another process (or this one) has it open and writes to
    /// it. That one must have opened it with [`Durability::Wal`]; other durabilities are [`Error::NotFollowed`]. A closed
    /// heap can be followed, too.
    ///
    /// What is seen is one state between two transactions, with everything that was committed before this was called, and durable: a power failure does not take it back. (That takes a sync of
    /// the log. With [`SyncPolicy::OnDemand`], the writer may not have made one. If a sync has failed there, which the writer knows and nobody else, the newest transactions may be lost nevertheless.)
    ///
    /// The copy does not change any more. To look again, drop the heap and open another one, which has all that this one
    /// had. The copy takes the space of all pages that are in use: in memory, or, if that is more than half of
    /// [`memory_limit`](Self::memory_limit), in [`temp_dir`](Self::temp_dir). It takes the time to copy these, and the log
    /// meanwhile.
    ///
    /// No file is changed, and to read them is all the permission that is needed. No lock is taken, so the writer is neither kept waiting nor kept from closing the heap, or from opening it again. Nor does it know that
    /// somebody looks: it uses the log again, and if it comes round before the log was read, all begins anew; after 16 times, in some seconds, the error is
    /// [`Error::Overtaken`]. The default log of 128 MiB takes a writer longer to fill than a follower takes to look into it again.
    ///
    /// The heap is [read-only](Self::read_only), and for [`verify`](Self::verify) its copy is checked. Both processes must be on one machine, for another one may see what is written to the files late.
    pub fn follower(mut self, follower: bool) -> Options {
        self.follower = follower;
        self
    }

    /// Bytes of the file of a new heap, and the unit in which it grows: a power of two of at least 32 KiB. The default is 1 MiB. A heap grows by half of what it has, at most by 64 MiB,
    /// and at least by a unit.
    /// The file of a heap that grows has up to one such step more than the heap; see [`Stats::ahead_bytes`](crate::Stats::ahead_bytes).
    pub fn arena_size(mut self, bytes: u64) -> Options {
        self.arena_size = bytes;
        self
    }

    /// Bytes of addresses that a new heap reserves: a power of two, and the maximal size of the heap for ever. The maximum is 8 TiB. The default is 128 GiB; less where that cannot be needed: a heap in memory reserves
    /// what the machine has of that, and one that is created with a [`max_size`](Self::max_size) 16 times that, both at least 4 GiB.
    ///
    /// Addresses cost nothing, but heaps have only 64 TiB of them in a process: with none left, opening is [`Error::TooManyHeaps`].
    pub fn reserve(mut self, bytes: u64) -> Options {
        self.reserve = Some(bytes);
        self
    }

    /// Maps the heap at this address, a multiple of its [reservation](Options::reserve). Opening fails with [`Error::AddressInUse`] if something
    /// else is there.
    ///
    /// By default, a heap is mapped where it was before, or elsewhere if that range is taken, for instance by an open copy of the same
    /// file. When a heap is relocated, opening it rewrites all its pointers, which takes about as long as copying it.
    pub fn base(mut self, addr: u64) -> Options {
        self.base = Some(addr);
        self
    }

    /// Limit of the file's size in bytes. Beyond it, transactions fail with [`Error::OutOfSpace`], as if the disk were full.
    pub fn max_size(mut self, bytes: u64) -> Options {
        self.max_size = bytes;
        self
    }

    /// A root is collected when it has allocated this many percent of what was live after its last collection, but at least 4 MiB.
    /// The default is 100. Lower values keep the file smaller, higher ones collect less often.
    pub fn collect_growth(mut self, percent: u32) -> Options {
        self.collect_growth = percent;
        self
    }

    /// Number of threads that mark objects while a caller waits ([`collect`](crate::Heap::collect), [`wait_ready`](crate::Heap::wait_ready)).
    /// The default is the number of processors, but at most 8.
    pub fn collect_threads(mut self, threads: usize) -> Options {
        self.collect_threads = threads;
        self
    }

    /// Bytes that a root must allocate at least before it is collected; see [`collect_growth`](Self::collect_growth). A small
    /// value also makes the slices of collections short. For tests.
    #[doc(hidden)]
    pub fn collect_least(mut self, bytes: u64) -> Options {
        self.collect_least = bytes;
        self
    }

    /// Checks the whole heap as [`Heap::check`](crate::Heap::check) does, before anything in the file is changed:
    /// [`Error::Corrupt`] says what is wrong. For files from elsewhere, whose pointers and values would otherwise be trusted.
    ///
    /// It also opens a heap that was in use with [`Process`](Durability::Process) durability when the machine went down (otherwise
    /// [`Error::NotClosed`]), if nothing is wrong with it. Its most recent transactions may be torn.
    pub fn verify(mut self, verify: bool) -> Options {
        self.verify = verify;
        self
    }

    /// Opens a file that is a copy of a heap in use, which is otherwise [`Error::Copied`]: for one that was copied or restored on purpose, while nobody changed
    /// the heap. It has no effect on other files.
    ///
    /// The whole heap is [checked](Options::verify) first, its log included; if something is wrong, nothing in the file is changed. The check cannot tell whether a copy has
    /// everything that was committed. From then on the heap opens in this file without this option.
    pub fn restored(mut self, restored: bool) -> Options {
        self.restored = restored;
        self
    }

    /// Every transaction takes the path of long ones. For tests and measurements.
    #[doc(hidden)]
    pub fn pin_undo(mut self, pin: bool) -> Options {
        self.pin_undo = pin;
        self
    }

    /// What a new heap reserves that can have so many bytes at most, as far as is known.
    pub(super) fn reservation(&self, most: u64) -> u64 {
        let needed = most.clamp(LEAST_RESERVED, RESERVED).next_power_of_two();
        self.reserve.unwrap_or(needed.max(self.arena_size))
    }

    /// Where copies of heaps are made that are too large for memory.
    pub(super) fn folder_for_copies(&self) -> PathBuf {
        self.temp_dir.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// Bytes of private memory that the heap may have.
    pub(super) fn memory(&self) -> u64 {
        self.memory_limit.unwrap_or_else(|| MEMORY.min(os::memory_limit() / 8))
    }

    /// Fails unless these options make sense.
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
