//! Opening a heap on a simulated medium: by the same stages as one in a file.

#![deny(clippy::wildcard_enum_match_arm)]

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::choose::Chosen;
use super::place::{Place, View, check_length, new_header};
use crate::error::{Error, Result};
use crate::heap::options::Durability;
use crate::heap::{Heap, Options};
use crate::media::{Medium, SyncedFile};
use crate::os::mapping::{Backing, Mapping};
use crate::os::storage::Disk;
use crate::sim::Sim;
use crate::sim::Source;
use crate::store::header::{Header, Use};
use crate::store::relocate;
use crate::units::HEADER_SIZE;
use crate::wal::write_again;

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

fn path() -> &'static Path {
    Path::new("<simulated>")
}

/// Of each run the same.
fn header(options: &Options) -> Header {
    Header { uuid: 1, salt: 0x5eed, ..new_header(options) }
}

/// Reserves the addresses of a heap.
fn reserve(base: Option<u64>, header: &Header, backing: Backing) -> Result<Mapping> {
    let base = base.unwrap_or_else(|| header.bases.first().copied().unwrap_or(BASE));
    relocate::reserve_at(base, header.reserved, backing)
}

/// Memory whose cache lines are written back.
pub(super) struct InMemory(pub(super) Arc<Sim>);

impl Place for InMemory {
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

    fn is_zero(&self) -> io::Result<bool> {
        Ok(self.0.is_zero())
    }

    fn new_header(&self, options: &Options) -> Result<Header> {
        Ok(header(options))
    }

    fn check_use(&self, _options: &Options, _header: &Header) -> Result<()> {
        Ok(())
    }

    fn choose(&self, _options: &Options) -> Result<Chosen> {
        Ok(Chosen::Mapped(Medium::Sim(self.0.clone()), false))
    }

    fn backing(&self, _view: View) -> Backing {
        Backing::Simulated(Box::new(Source::Memory(self.0.clone())))
    }

    fn reserve(&self, base: Option<u64>, header: &Header, view: View) -> Result<Mapping> {
        reserve(base, header, self.backing(view))
    }

    fn begin(&self, _mapping: &Mapping, _header: &Header) -> Result<()> {
        self.0.truncate(0);
        Ok(())
    }

    fn fill(&self, header: &Header) -> Result<()> {
        // What is longer than the header knows was never used.
        if self.0.len() > header.mapped {
            self.0.truncate(header.mapped as usize / 8);
        }
        Ok(())
    }
}

/// A disk with a file, and one for its log. With [`Durability::Process`] the file is mapped and shared: what is stored is in the page cache.
pub(super) struct OnDisk(pub(super) Arc<dyn Disk>);

impl Place for OnDisk {
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
        Ok(header(options))
    }

    fn check_use(&self, options: &Options, header: &Header) -> Result<()> {
        check_length(path(), self.0.data().len(), header)?;
        // Each opening is of another boot, but for those that are told that it is not.
        if header.in_use == Use::Process && !options.verify { Err(Error::NotClosed) } else { Ok(()) }
    }

    fn choose(&self, options: &Options) -> Result<Chosen> {
        let is_mapped = options.durability == Durability::Process;
        Ok(if is_mapped { Chosen::Mapped(Medium::Process, false) } else { Chosen::Wal })
    }

    /// A copy: the file changes before it is used.
    fn first_view(&self) -> View {
        View::Private
    }

    fn backing(&self, view: View) -> Backing {
        let data = self.0.data();
        Backing::Simulated(Box::new(match view {
            View::Shared { .. } => Source::Mapped(data, AtomicU64::new(0)),
            View::Private | View::Synced | View::Logged => Source::Disk(data),
        }))
    }

    fn reserve(&self, base: Option<u64>, header: &Header, view: View) -> Result<Mapping> {
        reserve(base, header, self.backing(view))
    }

    fn synced(&self, disk: &dyn Disk, mapping: &Mapping, header: &Header) -> SyncedFile {
        SyncedFile::new(disk.data()).with_copy(mapping.base(), header.mapped)
    }

    fn begin(&self, mapping: &Mapping, header: &Header) -> Result<()> {
        let (data, error) = (self.0.data(), |e| Error::io("making the simulated file", e));
        let mut start = [0; HEADER_SIZE as usize];
        data.read_up_to(&mut start, 0).map_err(error)?;
        // Of a real file, what an interrupted creation left is cut off, so that no part of it is in the page cache only.
        if start.iter().any(|&byte| byte != 0) || !self.is_zero().map_err(error)? {
            write_again(&*data, 0).map_err(error)?;
        }
        mapping.grow_file(data.len().map_err(error)?.min(header.mapped), header.mapped)
    }

    fn fill(&self, _header: &Header) -> Result<()> {
        Ok(())
    }
}
