//! Transactions: the two protocols, and the state of the open transaction.
//!
//! Knows objects, the allocator, the collector and the log of one region. It has the region's lock, and may
//! upgrade it. Must not take locks, nor know roots.
//!
//! | file | |
//! |---|---|
//! | [`context`] | the state of the open transaction |
//! | [`paths`] | the steps of a write |
//! | [`undo`], [`write_back`] | what the long path logs; the change from the short path to it |
//! | [`write_set`], [`line_index`], [`buffer`] | short: copies of the written ranges |
//! | [`recent`] | a cache of the places that were looked up lately |
//! | [`copy_granularity`], [`spill`] | the extent of a copy; when a transaction spills |
//! | [`commit`], [`dirty`] | commit and rollback; the lines of redo records that were not flushed yet |
//! | [`log`] | the log that both paths write to |
//! | [`padded`] | padding, which no record should hold |
//! | [`parts`] | over several roots: which parts of a record count |
//! | [`word_map`] | long: the words whose old content is in the undo log |
//! | [`savepoint`], [`nested`] | how a part of a transaction is taken back |
//! | [`upgrade`] | when readers are kept out |
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
