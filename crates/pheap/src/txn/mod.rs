//! Transactions: the two protocols, and the state of the open transaction. A *short* transaction writes to
//! copies in DRAM, and commits by a redo record. A *long* one writes in place, after it has logged the old
//! content in an undo log.
//!
//! This module knows objects, the allocator, the collector and the log of one region. Its caller has locked
//! the region; this module may upgrade that lock. It must not lock regions, nor know roots.
//!
//! | file | |
//! |---|---|
//! | [`context`] | the state of a region that its lock guards, with the open transaction |
//! | [`paths`] | the steps of a write, and of a read that may meet a copy |
//! | [`undo`], [`write_back`] | what the long path logs; the change from the short path to it |
//! | [`write_set`], [`line_index`], [`buffer`] | short: copies of the written ranges |
//! | [`recent`] | a cache of the places that were looked up lately |
//! | [`copy_granularity`], [`spill`] | the extent of a copy; when a transaction spills |
//! | [`commit`], [`dirty`] | commit and rollback; the lines of redo records that were not flushed yet |
//! | [`log`] | the log that both paths write to |
//! | [`padded`] | the values whose padding is zeroed before the commit |
//! | [`parts`] | over several roots: which parts of a redo record count |
//! | [`word_map`] | long: the words whose old content is in the undo log |
//! | [`savepoint`], [`nested`] | how a part of a transaction is taken back |
//! | [`upgrade`] | keeps readers out |
//! | [`collect`] | slices of a collection, and the write barrier |
//! | [`doomed`] | what a transaction does when the log cannot grow |
//! | [`recovery`] | what the next opening does |

mod buffer;
mod collect;
pub(crate) mod commit;
pub(crate) mod context;
mod copy_granularity;
mod dirty;
mod doomed;
mod line_index;
pub(crate) mod log;
mod nested;
mod padded;
mod parts;
mod paths;
pub(crate) mod recent;
pub(crate) mod recovery;
mod savepoint;
mod spill;
mod undo;
mod upgrade;
mod word_map;
mod write_back;
pub(crate) mod write_set;
