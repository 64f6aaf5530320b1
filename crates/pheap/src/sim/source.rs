//! What a simulated heap's map is a copy of.

use std::io;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::os::simulated::Simulated;
use crate::os::storage::Storage;
use crate::sim::Sim;

/// A simulated medium, as far as a map of it needs it.
#[derive(Debug)]
pub(crate) enum Source {
    /// Memory: what is durable.
    Memory(Arc<Sim>),
    /// A file.
    Disk(Arc<dyn Storage>),
    /// A file, mapped and shared: what is stored is in the page cache.
    Mapped(Arc<dyn Storage>),
}

impl Simulated for Source {
    fn read(&self, into: &mut [u8], offset: u64) -> Result<()> {
        match self {
            Source::Memory(sim) => sim.read(into, offset),
            Source::Disk(file) | Source::Mapped(file) => {
                let have =
                    file.read_up_to(into, offset).map_err(|e| Error::io("reading the simulated file", e))?;
                into[have..].fill(0);
            }
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
            Source::Disk(file) | Source::Mapped(file) => file.extend(from, to).and_then(|()| file.sync()),
        }
    }

    fn mapped_file(&self) -> Option<&dyn Storage> {
        match self {
            Source::Mapped(file) => Some(&**file),
            _ => None,
        }
    }
}
