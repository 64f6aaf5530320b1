//! Opening a heap on a simulated medium.

use std::path::Path;
use std::sync::Arc;

use super::wal;
use crate::error::{Error, Result};
use crate::faults::Lab;
use crate::heap::open::builder::{Builder, new_header};
use crate::heap::open::place::open_in_place;
use crate::heap::options::Durability;
use crate::heap::{Heap, Options};
use crate::media::{Medium, SyncedFile};
use crate::os::mapping::{Backing, Mapping};
use crate::os::storage::{Disk, Storage};
use crate::sim::disk::SimDisk;
use crate::sim::{Sim, Source, Tuning};
use crate::store::header;
use crate::store::header::{Found, Header, Use};
use crate::store::relocate;
use crate::units::HEADER_SIZE;
use crate::units::PAGE;
use crate::wal::{WalTail, write_again};

impl Options {
    /// A heap on a simulated medium, mapped at the address that the image was made for.
    #[doc(hidden)]
    pub fn simulate(&self, sim: &Arc<Sim>) -> Result<Heap> {
        self.check()?;
        open_simulated(self, sim)
    }

    /// A heap with a write-ahead log on a simulated disk. It makes no checkpoint by itself, unless its log is full.
    #[doc(hidden)]
    pub fn simulate_disk(&self, disk: &Arc<SimDisk>) -> Result<Heap> {
        self.check()?;
        open_disk(self, disk.clone())
    }

    /// Other numbers than those that are shipped.
    #[doc(hidden)]
    pub fn tuning(mut self, tuning: Tuning) -> Options {
        self.tuning = tuning;
        self
    }
}

/// Where no other heap goes, nor the shadow of a sanitizer.
const BASE: u64 = 0x5f00_0000_0000;

impl Heap {
    /// Ends the use of a heap on a simulated medium as the death of its process would: nothing more reaches the medium. No transaction
    /// may be running.
    #[doc(hidden)]
    pub fn abandon(self) {
        self.inner.abandon();
    }
}

fn open_simulated(options: &Options, sim: &Arc<Sim>) -> Result<Heap> {
    let path = Path::new("<simulated>");
    let mut first = vec![0; (sim.len() as usize).min(HEADER_SIZE as usize)];
    sim.read(&mut first, 0);
    let found = header::read(&first, path)?;
    if matches!(found, Found::Nothing) && first.iter().all(|&byte| byte == 0) && !sim.is_zero() {
        // As for files: those of other kinds begin with zeros, too.
        return Err(Error::NotAHeap { path: path.to_owned() });
    }
    let header = match &found {
        Found::Header(header) => header.clone(),
        Found::Nothing => Header { uuid: 1, salt: 0x5eed, ..new_header(options) },
    };
    let map = |header: &Header, base| reserve(header, base, Source::Memory(sim.clone()));
    let medium = Medium::Sim(sim.clone(), Lab);
    let len = header.mapped.max(sim.len()).next_multiple_of(PAGE);
    if len > header.mapped && matches!(found, Found::Header(_)) {
        // A longer file than the header knows: its end was never used.
        sim.truncate(header.mapped as usize / 8);
    }
    let builder = match found {
        Found::Header(_) => open_in_place(header, options.base, |header, base| {
            Builder::existing(map(&header, base)?, medium.clone(), header, &WalTail::default())
        })?,
        Found::Nothing => {
            sim.truncate(0);
            Builder::new(map(&header, options.base)?, medium, header)?
        }
    };
    Ok(builder.finish(options, None))
}

/// Reserves the addresses of a heap.
fn reserve(header: &Header, base: Option<u64>, source: Source) -> Result<Mapping> {
    let base = base.unwrap_or_else(|| header.bases.first().copied().unwrap_or(BASE));
    relocate::reserve_at(base, header.reserved, Backing::Simulated(Box::new(source), Lab))
}

/// Whether a file holds nothing but zeros.
fn is_zero(file: &dyn Storage) -> Result<bool> {
    let error = |e| Error::io("reading the simulated file", e);
    let mut bytes = vec![0; file.len().map_err(error)? as usize];
    file.read_up_to(&mut bytes, 0).map_err(error)?;
    Ok(bytes.iter().all(|&byte| byte == 0))
}

/// Opens a heap with a write-ahead log, whose map is a copy of the file; or, with [`Durability::Process`], one whose map is the page cache.
fn open_disk(options: &Options, disk: Arc<dyn Disk>) -> Result<Heap> {
    let data = disk.data();
    let path = Path::new("<simulated>");
    let mut first = vec![0; HEADER_SIZE as usize];
    let have = data.read_up_to(&mut first, 0).map_err(|e| Error::io("reading the simulated file", e))?;
    let map = |header: &Header, base| reserve(header, base, Source::Disk(disk.data()));
    let synced = || SyncedFile::new(disk.data());
    let nothing = WalTail::default();
    let mut replayed = 0;
    let found = header::read(&first[..have], path)?;
    if matches!(found, Found::Nothing) && first.iter().all(|&byte| byte == 0) && !is_zero(&*data)? {
        return Err(Error::NotAHeap { path: path.to_owned() });
    }
    let is_mapped = options.durability == Durability::Process;
    let mut header = match found {
        Found::Nothing if is_mapped => return Err(Error::Unsupported("a simulated heap is made with a log")),
        Found::Nothing => {
            let header = Header { uuid: 1, salt: 0x5eed, ..new_header(options) };
            WalTail::read(&*disk, &header.wal_identity())?;
            wal::remove_old_log(&*disk)?;
            let mapping = map(&header, options.base)?;
            let error = |e| Error::io("making the simulated file", e);
            // Of a real file, what an interrupted creation left is cut off, so that no part of it is in the page cache only.
            if !is_zero(&*data)? {
                write_again(&*data, 0).map_err(error)?;
            }
            mapping.grow_file(data.len().map_err(error)?.min(header.mapped), header.mapped)?;
            wal::create(mapping, synced(), header)?
        }
        Found::Header(header) => {
            let have = data.len().map_err(|e| Error::io("looking at the simulated file", e))?;
            if have < header.mapped {
                return Err(Error::Truncated { path: path.to_owned(), have, need: header.mapped });
            }
            let leftover = WalTail::read(&*disk, &header.wal_identity())?;
            replayed = leftover.transactions();
            // Each opening is of another boot, but for those that are told that it is not.
            if header.in_use == Use::Process && !options.verify {
                return Err(Error::NotClosed);
            }
            if header.in_use == Use::Wal {
                drop(Builder::existing(map(&header, None)?, Medium::Process, header.clone(), &leftover)?);
                wal::settle_checked(header, &*disk, &leftover)?
            } else {
                header
            }
        }
    };
    if is_mapped {
        wal::make_durable_to_map(&*disk, &header, false)?;
        wal::retire_old_log(&mut header, &*disk)?;
        let builder = open_in_place(header, options.base, |header, base| {
            let source = Source::Mapped(disk.data());
            Builder::existing(reserve(&header, base, source)?, Medium::Process, header, &nothing)
        })?;
        return Ok(builder.finish(options, None));
    }
    let mut mapping = map(&header, options.base)?;
    if header.in_use != Use::Closed || header.bases != [mapping.base().addr() as u64] {
        drop(mapping);
        wal::make_durable_to_prepare(&*disk, &header)?;
        header = wal::close(open_in_place(header, options.base, |header, base| {
            let mapping = map(&header, base)?;
            let medium = Medium::Synced(Arc::new(synced()));
            Builder::existing(mapping, medium, header, &nothing)
        })?)?;
        mapping = map(&header, options.base)?;
    }
    let mut builder = wal::open_at(options, mapping, header, &disk)?;
    builder.recovered.replayed += replayed;
    Ok(builder.finish(options, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;
    use crate::sim::disk::{DiskImage, Which};

    /// The log is there when its heap begins to be closed, and then another file is.
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
        // The checkpoint has looked for it by then.
        disk.amid_sync(Which::Log, Some(Box::new(move || in_place.set_log(Some(vec![1; 512])))));
        heap.close().unwrap();
        assert_eq!(disk.view().log.unwrap(), [1; 512]);
        disk.set_log(None);
        assert_eq!(open().root::<u64>("n").unwrap().read(|view, n| view[n]).unwrap(), 7);
    }
}
