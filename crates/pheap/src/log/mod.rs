//! Entries of a log: ranges of words, and what tells whole ones from torn ones.
//!
//! Knows words and offsets. Must not know where an entry goes: both logs, that of a region and the write-ahead log, are made of these.

mod checksum;
mod entry;

pub(crate) use checksum::checksum;
pub(crate) use entry::{EntryId, Kind, Range, Staged, head, next_part, ranges};
