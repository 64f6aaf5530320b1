//! What a simulated heap's map is a copy of.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::media::sim::Sim;
use crate::media::wal::storage::Storage;

/// A simulated medium, as far as a map of it needs it.
#[derive(Debug)]
pub(crate) enum Source {
    /// Memory: what is durable.
    Memory(Arc<Sim>),
    /// A file.
    Disk(Arc<dyn Storage>),
    /// A file, mapped and shared: what is stored is in the page cache. So much of it is mapped.
    Mapped(Arc<dyn Storage>, AtomicU64),
}

impl Source {
    /// Copies what the medium holds at `offset` to its place in the map.
    ///
    /// # Safety
    /// The range is mapped, and nobody else accesses it.
    pub(in crate::heap) unsafe fn copy(&self, base: NonNull<u8>, offset: u64, len: u64) -> Result<()> {
        // SAFETY: by the caller's promise.
        let place =
            unsafe { std::slice::from_raw_parts_mut(base.as_ptr().add(offset as usize), len as usize) };
        match self {
            Source::Memory(sim) => sim.read(place, offset),
            Source::Disk(file) | Source::Mapped(file, _) => {
                let have =
                    file.read_up_to(place, offset).map_err(|e| Error::io("reading the simulated file", e))?;
                place[have..].fill(0);
            }
        }
        if let Source::Mapped(_, mapped) = self {
            mapped.fetch_max(offset + len, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes durable what was stored to memory. A file is another matter: see [`SyncedFile`](crate::media::SyncedFile).
    pub(crate) fn sync(&self) {
        if let Source::Memory(sim) = self {
            sim.sync();
        }
    }

    /// Makes the medium longer, durably. Memory becomes so when it is mapped.
    pub(in crate::heap) fn extend(&self, from: u64, to: u64) -> io::Result<()> {
        match self {
            Source::Memory(_) => Ok(()),
            Source::Disk(file) | Source::Mapped(file, _) => file.extend(from, to).and_then(|()| file.sync()),
        }
    }

    /// Sees to it that the page cache has what was stored to a file that is mapped and shared.
    ///
    /// # Safety
    /// The source was [copied](Self::copy) to `base`, and nobody stores to it meanwhile.
    pub(in crate::heap) unsafe fn write_stores(&self, base: NonNull<u8>) -> io::Result<()> {
        let Source::Mapped(file, mapped) = self else { return Ok(()) };
        // SAFETY: so much is mapped there, by the caller's promise.
        file.write_changes(unsafe {
            std::slice::from_raw_parts(base.as_ptr(), mapped.load(Ordering::Relaxed) as usize)
        })
    }

    /// Waits until the disk has all of a file that is mapped and shared.
    ///
    /// # Safety
    /// As for [`write_stores`](Self::write_stores).
    #[track_caller]
    pub(in crate::heap) unsafe fn sync_mapped(&self, base: NonNull<u8>) -> io::Result<()> {
        let Source::Mapped(file, _) = self else { return Ok(()) };
        // SAFETY: by the caller's promise.
        unsafe { self.write_stores(base) }?;
        file.sync() // not in a closure, of which nobody would know who has called it
    }
}
