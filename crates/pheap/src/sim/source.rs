//! The content that a simulated heap's map copies.

use std::io;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::os::simulated::SimulatedMedium;
use crate::os::storage::Storage;
use crate::sim::Sim;

/// A simulated medium, with the operations that a map of it needs.
#[derive(Debug)]
pub(crate) enum SimSource {
    /// Memory.
    Memory(Arc<Sim>),
    /// A file that is not mapped shared.
    Disk(Arc<dyn Storage>),
    /// A file that is mapped shared: stores are in the page cache at once.
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
