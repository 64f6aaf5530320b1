//! How to open a heap.

use crate::error::{Error, Result};
use crate::tuning::Tuning;
use crate::units::PAGE;
use crate::wal::SyncPolicy;

/// What committed transactions survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// What the file system offers: [`Pmem`](Durability::Pmem) where files can be mapped with `MAP_SYNC` (DAX),
    /// [`Process`](Durability::Process) where they are in memory only (tmpfs), else [`Wal`](Durability::Wal).
    #[default]
    Auto,
    /// The end of the process and the loss of power, on memory that keeps its content: log entries and data are written back from
    /// the processor's caches. On other memory it costs the same and survives as much as `Process`.
    Pmem,
    /// The end of the process and the loss of power, on any file system: what a transaction changes is appended to a log, in a file of the
    /// same name with `.wal` at its end, and synced before the transaction returns (see [`SyncPolicy`]). Checkpoints bring it to the
    /// heap's file in the background. Both files may be renamed while the heap is open, the log follows the heap. A file that is mounted by itself,
    /// into a container for example, is refused ([`Error::MountedAlone`](crate::Error::MountedAlone)): mount its directory.
    Wal,
    /// The end of the process at any instant (`kill -9`, abort, panic), but not of the machine.
    Process,
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
    pub(crate) memory_limit: u64,
    pub(crate) read_only: bool,
    pub(crate) arena_size: u64,
    pub(crate) reserve: u64,
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

impl Default for Options {
    fn default() -> Options {
        Options {
            durability: Durability::Auto,
            sync_policy: SyncPolicy::EveryCommit,
            log_limit: 128 << 20,
            memory_limit: 256 << 20,
            read_only: false,
            arena_size: 64 << 20,
            reserve: 128 << 30,
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

    /// What committed transactions survive. May differ from one opening to the next.
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// When the log is synced, with [`Durability::Wal`]: at each commit, unless set. Without meaning for others.
    pub fn sync_policy(mut self, policy: SyncPolicy) -> Options {
        self.sync_policy = policy;
        self
    }

    /// How long the log may become before transactions wait for a checkpoint, in bytes, with [`Durability::Wal`]; 128 MiB unless set. A
    /// checkpoint begins when it is half as long. A single transaction that writes more makes it longer.
    pub fn log_limit(mut self, bytes: u64) -> Options {
        self.log_limit = bytes;
        self
    }

    /// How much of the heap may be in memory that belongs to this process, in bytes, with [`Durability::Wal`]; 256 MiB unless set. That are the
    /// pages that were changed since they were last given back to the page cache, which a checkpoint does when they are more than half of this.
    /// Pages that an open transaction changes, and tables (0.4 % of the file at most), come on top.
    pub fn memory_limit(mut self, bytes: u64) -> Options {
        self.memory_limit = bytes;
        self
    }

    /// Opens the heap without ever changing the file: a log that a crash left is replayed in memory only. Other processes may do the
    /// same at the same time. Transactions fail with [`Error::ReadOnly`].
    pub fn read_only(mut self, read_only: bool) -> Options {
        self.read_only = read_only;
        self
    }

    /// By how much a new heap grows, in bytes: a power of two of at least 32 KiB. 64 MiB unless set; smaller ones are for tests.
    pub fn arena_size(mut self, bytes: u64) -> Options {
        self.arena_size = bytes;
        self
    }

    /// How many bytes of addresses a new heap reserves: a power of two, and the most that it can ever hold. 128 GiB unless set.
    /// Addresses cost nothing, but a process has 128 TiB of them.
    pub fn reserve(mut self, bytes: u64) -> Options {
        self.reserve = bytes;
        self
    }

    /// Maps the heap at this address, a multiple of its [reservation](Options::reserve). Opening fails with [`Error::AddressInUse`] if something
    /// else is there.
    ///
    /// Unless it is set, a heap is mapped where it was before, or at another place if that one is taken, by an open copy of the same file, for
    /// instance. A heap that moves has all its pointers rewritten while it is opened, which takes about as long as copying it.
    pub fn base(mut self, addr: u64) -> Options {
        self.base = Some(addr);
        self
    }

    /// The file may not grow beyond this many bytes: [`Error::OutOfSpace`], as if the disk were full.
    pub fn max_size(mut self, bytes: u64) -> Options {
        self.max_size = bytes;
        self
    }

    /// When a root is collected: when it has allocated this many percent of what was live after its last collection, but at least 4 MiB.
    /// 100 unless set. Less keeps the file smaller, more collects less often.
    pub fn collect_growth(mut self, percent: u32) -> Options {
        self.collect_growth = percent;
        self
    }

    /// How many threads mark objects when somebody waits for it ([`Heap::collect`], [`Heap::wait_ready`]). As many as there are
    /// processors, but at most 8, unless set.
    pub fn collect_threads(mut self, threads: usize) -> Options {
        self.collect_threads = threads;
        self
    }

    /// What a root has to allocate at least before it is collected, in bytes; see [`collect_growth`](Self::collect_growth). If this is
    /// little, slices of collections are as short. For tests.
    #[doc(hidden)]
    pub fn collect_least(mut self, bytes: u64) -> Options {
        self.collect_least = bytes;
        self
    }

    /// Checks all of a heap before it is opened, as [`Heap::check`](crate::Heap::check) does, and before anything in the file is changed:
    /// [`Error::Corrupt`] says what is wrong. For files from elsewhere, whose pointers and values would be believed otherwise.
    ///
    /// A heap that was in use with [`Process`](Durability::Process) durability when the machine went down, which is [`Error::NotClosed`]
    /// otherwise, is opened if nothing is wrong with it. Its last transactions may be there in parts, though.
    pub fn verify(mut self, verify: bool) -> Options {
        self.verify = verify;
        self
    }

    /// Opens a file that is a copy of a heap in use, which is [`Error::Copied`] otherwise: for one that was copied or restored on purpose, when nobody changed
    /// the heap. Without meaning for other files.
    ///
    /// All of the heap is [checked](Options::verify) first, its log included, and nothing in the file is changed if something is wrong. That does not tell whether a copy has
    /// all that was committed. From then on the heap opens in this file without this option.
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

    /// Fails unless these options make sense.
    pub(super) fn check(&self) -> Result<()> {
        if !self.arena_size.is_power_of_two() || self.arena_size < 8 * PAGE {
            return Err(Error::InvalidOption(
                "`Options::arena_size` must be a power of two of at least 32 KiB",
            ));
        }
        if !self.reserve.is_power_of_two() || self.reserve < self.arena_size || self.reserve > 1 << 43 {
            return Err(Error::InvalidOption(
                "`Options::reserve` must be a power of two, at least the arena size and at most 8 TiB",
            ));
        }
        Ok(())
    }
}
