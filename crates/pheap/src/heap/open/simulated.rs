//! Opens a heap on a simulated medium, by the same stages as a heap in a file.

#![deny(clippy::wildcard_enum_match_arm)]

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::choose::ChosenMedium;
use super::place::{HeapPlace, MappingUse, check_length, new_header};
use crate::error::{Error, Result};
use crate::faults::Lab;
use crate::heap::options::Durability;
use crate::heap::{Heap, Options};
use crate::media::Medium;
use crate::os::mapping::{Backing, Mapping};
use crate::os::storage::Disk;
use crate::sim::disk::SimDisk;
use crate::sim::{self, Sim, SimSource, Tuning};
use crate::store::header::Header;
use crate::store::relocate;
use crate::units::HEADER_SIZE;
use crate::wal::write_again;

impl Options {
    /// Opens a heap on a simulated medium, mapped at the address that the image was made for, unless
    /// [`base`](Self::base) chooses another.
    #[doc(hidden)]
    pub fn simulate(&self, sim: &Arc<Sim>) -> Result<Heap> {
        self.check()?;
        Ok(super::open(self, &MemoryPlace(sim.clone()))?.into_heap(self, None))
    }

    /// Opens a heap on a simulated disk: with a write-ahead log, or mapped if the durability is
    /// [`Durability::Process`]. With a log, the heap makes no checkpoint by itself, unless its log is full or
    /// the heap is closed.
    #[doc(hidden)]
    pub fn simulate_disk(&self, disk: &Arc<SimDisk>) -> Result<Heap> {
        self.check()?;
        Ok(super::open(self, &DiskPlace(disk.clone()))?.into_heap(self, None))
    }

    /// Sets other [thresholds](Tuning) than the shipped ones.
    #[doc(hidden)]
    pub fn tuning(mut self, tuning: Tuning) -> Options {
        self.tuning = tuning;
        self
    }
}

impl Heap {
    /// Ends the use of a heap on a simulated medium like the death of its process: nothing more reaches the
    /// medium. No transaction may be running.
    #[doc(hidden)]
    pub fn abandon(self) {
        self.inner.abandon();
    }
}

fn path() -> &'static Path {
    Path::new("<simulated>")
}

/// Returns the header of a new simulated heap. With the same options it is equal in each run.
fn header(options: &Options) -> Result<Header> {
    Ok(Header { uuid: 1, salt: 0x5eed, ..new_header(options, u64::MAX)? })
}

/// Reserves the addresses of a simulated heap: at `base`, or else where the heap was, or where the simulator
/// puts new heaps.
fn reserve(base: Option<u64>, header: &Header, backing: Backing) -> Result<Mapping> {
    let base = base.unwrap_or_else(|| header.bases.first().copied().unwrap_or_else(sim::base));
    relocate::reserve_at(base, header.reserved, backing)
}

/// The place of a heap in simulated persistent memory, whose cache lines must be written back.
pub(super) struct MemoryPlace(pub(super) Arc<Sim>);

impl HeapPlace for MemoryPlace {
    fn path(&self) -> &Path {
        path()
    }

    fn disk(&self) -> Option<&Arc<dyn Disk>> {
        None
    }

    fn read_start(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let have = (self.0.len() as usize).min(bytes.len());
        self.0.read(&mut bytes[..have], 0);
        Ok(have)
    }

    fn is_zero_from(&self, at: u64) -> io::Result<bool> {
        Ok(self.0.is_zero_from(at))
    }

    fn new_header(&self, options: &Options) -> Result<Header> {
        header(options)
    }

    fn check_use(&self, _options: &Options, _header: &Header) -> Result<()> {
        Ok(())
    }

    fn choose_medium(&self, _options: &Options) -> Result<ChosenMedium> {
        Ok(ChosenMedium::Mapped(Medium::Sim(self.0.clone(), Lab), false))
    }

    fn backing(&self, _view: MappingUse) -> Backing {
        Backing::Simulated(Box::new(SimSource::Memory(self.0.clone())), Lab)
    }

    fn reserve(&self, base: Option<u64>, header: &Header, view: MappingUse) -> Result<Mapping> {
        reserve(base, header, self.backing(view))
    }

    fn create_zeroed(&self, _mapping: &Mapping, _header: &Header) -> Result<()> {
        self.0.truncate(0);
        Ok(())
    }

    fn reserve_space(&self, header: &Header, _free: &[(u64, u64)]) -> Result<bool> {
        // Bytes behind the heap's end were never used, so the medium is cut there.
        if self.0.len() > header.mapped {
            self.0.truncate(header.mapped as usize / 8);
        }
        Ok(false)
    }
}

/// A simulated disk with the heap's file and its log. With [`Durability::Process`] the file is mapped shared:
/// stores go to the page cache.
pub(super) struct DiskPlace(pub(super) Arc<dyn Disk>);

impl HeapPlace for DiskPlace {
    fn path(&self) -> &Path {
        path()
    }

    fn disk(&self) -> Option<&Arc<dyn Disk>> {
        Some(&self.0)
    }

    fn new_header(&self, options: &Options) -> Result<Header> {
        if options.durability == Durability::Process {
            return Err(Error::Unsupported("a simulated heap is made with a log"));
        }
        header(options)
    }

    fn check_use(&self, options: &Options, header: &Header) -> Result<()> {
        check_length(path(), self.0.data().len(), header)?;
        // Each opening counts as another boot, except with `verify`.
        if header.in_use.is_torn_by_power_failure() && !options.verify {
            return Err(Error::NotClosed);
        }
        Ok(())
    }

    fn choose_medium(&self, options: &Options) -> Result<ChosenMedium> {
        let is_mapped = options.durability == Durability::Process;
        Ok(if is_mapped { ChosenMedium::Mapped(Medium::Process, false) } else { ChosenMedium::Wal })
    }

    /// Returns `Private`, because the file on the simulated disk changes between the survey and the use of
    /// the mapping.
    fn first_view(&self) -> MappingUse {
        MappingUse::Private
    }

    fn backing(&self, view: MappingUse) -> Backing {
        let data = self.0.data();
        let source = match view {
            MappingUse::Shared { .. } => SimSource::Mapped(data),
            MappingUse::Private | MappingUse::Synced | MappingUse::Logged => SimSource::Disk(data),
        };
        Backing::Simulated(Box::new(source), Lab)
    }

    fn reserve(&self, base: Option<u64>, header: &Header, view: MappingUse) -> Result<Mapping> {
        reserve(base, header, self.backing(view))
    }

    fn create_zeroed(&self, mapping: &Mapping, header: &Header) -> Result<()> {
        let (data, error) = (self.0.data(), |e| Error::io("making the simulated file", e));
        let mut start = [0; HEADER_SIZE as usize];
        data.read_up_to(&mut start, 0).map_err(error)?;
        // In a real file, the rest of an interrupted creation is cut off, so that no part of it is in the
        // page cache only. In a simulated file, the rest is rewritten.
        if start.iter().any(|&byte| byte != 0) || !self.is_zero_from(HEADER_SIZE).map_err(error)? {
            write_again(&*data, 0).map_err(error)?;
        }
        mapping.grow_file(data.len().map_err(error)?.min(header.mapped), header.mapped)
    }

    fn reserve_space(&self, _header: &Header, free: &[(u64, u64)]) -> Result<bool> {
        Ok(!free.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::super::follow_tests;
    use super::*;
    use crate::Root;
    use crate::faults::Bug;
    use crate::sim::disk::{Call, DiskImage, Fault, Which};
    use crate::sim::set_bug;

    /// Each check of a follower for changes by the writer is needed: without it, the exploration of the
    /// follower tests finds an error.
    #[test]
    fn followers_that_overlook_something_are_found() {
        let bugs = [Bug::FollowOnce, Bug::OverlookLap, Bug::OverlookOpening, Bug::OverlookGrowth];
        for bug in bugs {
            set_bug(Some(bug));
            let found = follow_tests::explore();
            set_bug(None);
            println!("{bug:?}: {}", found.expect_err(&format!("{bug:?}")));
        }
    }

    /// While a heap is being closed, its log is there at first, and another file takes the log's place later.
    #[test]
    fn a_log_that_is_misplaced_while_its_heap_is_closed_is_no_broken_disk() {
        let disk = Arc::new(SimDisk::new(DiskImage { data: Vec::new(), log: None }));
        let options =
            Options::new().arena_size(64 << 10).reserve(1 << 30).sync_policy(crate::SyncPolicy::OnDemand);
        let open = || options.clone().base(77 << 40).simulate_disk(&disk).unwrap();
        let heap = open();
        let root: Root<u64> = heap.root("n").unwrap();
        root.txn(|tx, n| {
            tx[n] = 7;
            Ok(())
        })
        .unwrap();
        drop(root);
        let in_place = disk.clone();
        // The checkpoint of the closing has looked up the log before this sync.
        disk.amid_sync(Which::Log, Some(Box::new(move || in_place.set_log(Some(vec![1; 512])))));
        heap.close().unwrap();
        assert_eq!(disk.view().log.unwrap(), [1; 512]);
        disk.set_log(None);
        assert_eq!(open().root::<u64>("n").unwrap().read(|view, n| view[n]).unwrap(), 7);
    }

    /// The log of a killed process may be in the page cache only. A read-only opening shows its records, too,
    /// so it syncs the log: the same file that it has read.
    #[test]
    fn a_log_is_synced_before_it_is_shown() {
        let disk = Arc::new(SimDisk::new(DiskImage { data: Vec::new(), log: None }));
        let options = Options::new().arena_size(64 << 10).reserve(1 << 30).base(78 << 40);
        let heap = options.clone().sync_policy(crate::SyncPolicy::OnDemand).simulate_disk(&disk).unwrap();
        drop(heap.root::<u64>("n").unwrap());
        heap.abandon();
        let syncs = disk.calls(Which::Log, Call::Datasync);
        let fails = |call, after| {
            disk.fail(Fault { which: Which::Log, call, after, times: 1, error: libc::EIO });
            options.clone().read_only(true).simulate_disk(&disk)
        };
        let heap = fails(Call::Open, 1).unwrap();
        assert_eq!((heap.roots().len(), disk.calls(Which::Log, Call::Datasync)), (1, syncs + 1));
        heap.close().unwrap();
        assert!(matches!(fails(Call::Datasync, 0), Err(Error::Io { .. })));
    }
}
