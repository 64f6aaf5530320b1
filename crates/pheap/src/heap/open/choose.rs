//! Which durability a file gets.

#![deny(clippy::wildcard_enum_match_arm)]

use std::fs::File;

use crate::error::{Error, Result};
use crate::heap::options::{Durability, Options};
use crate::media::Medium;
use crate::os::cpu::FlushInstruction;
use crate::os::file_system::is_tmpfs;
use crate::os::mapping::supports_map_sync;

/// How a file is going to be used.
pub(in crate::heap) enum Chosen {
    /// The medium, and whether it is mapped with `MAP_SYNC`.
    Mapped(Medium, bool),
    Wal,
}

pub(in crate::heap) fn choose(options: &Options, file: &File) -> Result<Chosen> {
    let len = file.metadata().map_or(0, |metadata| metadata.len());
    let sync = supports_map_sync(file, len);
    let instruction = FlushInstruction::detect();
    match (options.durability, instruction) {
        (Durability::Process, _) => Ok(Chosen::Mapped(Medium::Process, false)),
        (Durability::Wal, _) => Ok(Chosen::Wal),
        (Durability::Pmem, Some(instruction)) => Ok(Chosen::Mapped(Medium::Pmem(instruction), sync)),
        (Durability::Pmem, None) => Err(Error::Unsupported(FlushInstruction::NEEDED)),
        (Durability::Auto, _) => match (offered(file), instruction) {
            (Durability::Process, _) => Ok(Chosen::Mapped(Medium::Process, false)),
            (Durability::Pmem, Some(instruction)) => Ok(Chosen::Mapped(Medium::Pmem(instruction), true)),
            (Durability::Pmem, None) | (Durability::Wal | Durability::Auto, _) => Ok(Chosen::Wal),
        },
    }
}

/// What [`Durability::Auto`] takes for a file.
pub(in crate::heap) fn offered(file: &File) -> Durability {
    let len = file.metadata().map_or(0, |metadata| metadata.len());
    if is_tmpfs(file) {
        // Nothing in it survives a power failure whatever one does.
        Durability::Process
    } else if FlushInstruction::detect().is_some() && supports_map_sync(file, len) {
        Durability::Pmem
    } else {
        Durability::Wal
    }
}
