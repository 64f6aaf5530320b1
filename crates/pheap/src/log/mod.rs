//! Entries of a log: ranges of words, and the checksum that tells whole entries from torn ones.
//!
//! This module knows words and offsets. It must not know where an entry goes: both logs, that of a region and
//! the write-ahead log, are made of these entries.

mod checksum;
mod entry;

pub(crate) use checksum::checksum;
pub(crate) use entry::{EntryId, EntryKind, Range, StagedEntry, head, next_part, ranges};
