//! What a simulated heap's map is a copy of.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::os::mapping::Simulated;
use crate::os::storage::Storage;
use crate::sim::Sim;

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

impl Simulated for Source {
    unsafe fn copy(&self, base: NonNull<u8>, offset: u64, len: u64) -> Result<()> {
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

    fn sync(&self) {
        if let Source::Memory(sim) = self {
            sim.sync();
        }
    }

    fn extend(&self, from: u64, to: u64) -> io::Result<()> {
        match self {
            Source::Memory(_) => Ok(()),
            Source::Disk(file) | Source::Mapped(file, _) => file.extend(from, to).and_then(|()| file.sync()),
        }
    }

    unsafe fn write_stores(&self, base: NonNull<u8>) -> io::Result<()> {
        let Source::Mapped(file, mapped) = self else { return Ok(()) };
        // SAFETY: so much is mapped there, by the caller's promise.
        file.write_changes(unsafe {
            std::slice::from_raw_parts(base.as_ptr(), mapped.load(Ordering::Relaxed) as usize)
        })
    }

    fn mapped_file(&self) -> Option<&dyn Storage> {
        match self {
            Source::Mapped(file, _) => Some(&**file),
            _ => None,
        }
    }
}
