//! Chooses the durability for a file.

#![deny(clippy::wildcard_enum_match_arm)]

use std::fs::File;

use crate::error::{Error, Result};
use crate::heap::options::Durability;
use crate::media::Medium;
use crate::os::cpu::FlushInstruction;
use crate::os::file_system::{copies_blocks, is_tmpfs};
use crate::os::mapping::supports_map_sync;

/// The use of a heap's file that follows from the durability.
pub(in crate::heap) enum ChosenMedium {
    /// The file is mapped, for this medium; the second value says whether with `MAP_SYNC`.
    Mapped(Medium, bool),
    Wal,
}

/// The message if a file must not be mapped and stored to, because its file system writes changed blocks
/// elsewhere.
const COPIES_BLOCKS: &str = "`Durability::Process` and `Durability::Pmem` need a file system that overwrites blocks where they are; \
    this one (btrfs, ZFS, bcachefs) needs space for each store, and ends the process if there is none; use `Durability::Wal`";

pub(in crate::heap) fn choose_medium(durability: Durability, file: &File) -> Result<ChosenMedium> {
    match durability {
        Durability::Process | Durability::Pmem if copies_blocks(file) => {
            Err(Error::Unsupported(COPIES_BLOCKS))
        }
        Durability::Process => Ok(ChosenMedium::Mapped(Medium::Process, false)),
        Durability::Wal => Ok(ChosenMedium::Wal),
        Durability::Pmem => {
            let instruction =
                FlushInstruction::detect().ok_or(Error::Unsupported(FlushInstruction::NEEDED))?;
            Ok(ChosenMedium::Mapped(Medium::Pmem(instruction), supports_map_sync(file)))
        }
        Durability::Auto => choose_medium(offered(file), file),
    }
}

/// Returns the durability that [`Durability::Auto`] chooses for a file.
pub(in crate::heap) fn offered(file: &File) -> Durability {
    if is_tmpfs(file) {
        // Files in a tmpfs survive no power failure with any durability.
        Durability::Process
    } else if FlushInstruction::detect().is_some() && supports_map_sync(file) {
        Durability::Pmem
    } else {
        Durability::Wal
    }
}
