//! The content of which a simulated heap's memory is a copy.

use std::io;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::os::simulated::SimulatedMedium;
use crate::os::storage::Storage;
use crate::sim::Sim;

/// A simulated medium, with the operations that a heap's mapping of it needs.
#[derive(Debug)]
pub(crate) enum SimSource {
    /// Simulated persistent memory.
    Memory(Arc<Sim>),
    /// A file on a simulated disk, of which the heap's memory is a copy. Stores to the memory do not reach
    /// the file by themselves. (While the file is being prepared for a write-ahead log, each fence writes
    /// them to the file.)
    Disk(Arc<dyn Storage>),
    /// A file on a simulated disk that is mapped shared: stores to the heap's memory are in the page cache at
    /// once.
    Mapped(Arc<dyn Storage>),
}

impl SimulatedMedium for SimSource {
    fn read(&self, into: &mut [u8], offset: u64) -> Result<()> {
        match self {
            SimSource::Memory(sim) => sim.read(into, offset),
            SimSource::Disk(file) | SimSource::Mapped(file) => {
                let have =
                    file.read_up_to(into, offset).map_err(|e| Error::io("reading the simulated file", e))?;
                into[have..].fill(0);
            }
        }
        Ok(())
    }

    fn sync(&self) {
        if let SimSource::Memory(sim) = self {
            sim.sync();
        }
    }

    fn extend(&self, from: u64, to: u64) -> io::Result<()> {
        match self {
            SimSource::Memory(_) => Ok(()),
            SimSource::Disk(file) | SimSource::Mapped(file) => {
                file.extend(from, to).and_then(|()| file.sync())
            }
        }
    }

    fn mapped_file(&self) -> Option<&dyn Storage> {
        match self {
            SimSource::Mapped(file) => Some(&**file),
            _ => None,
        }
    }
}
