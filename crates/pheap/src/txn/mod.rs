//! Transactions: the two protocols, and the state of the one that is open.
//!
//! Knows objects, the allocator, the collector and the log of one region. It has the region's lock, and may upgrade it. Must not take locks, nor know roots.
//!
//! | file | |
//! |---|---|
//! | [`context`] | the state of the open transaction |
//! | [`paths`] | what a write does |
//! | [`undo`], [`write_back`] | what the long path logs; the change to it from the short one |
//! | [`write_set`], [`line_index`], [`buffer`] | short: copies of what is written |
//! | [`recent`] | where those are that were looked for lately |
//! | [`copy_granularity`], [`spill`] | what copies are of, and when there are better none |
//! | [`commit`], [`dirty`] | and a redo record, one fence |
//! | [`log`] | what both are written to |
//! | [`padded`] | what no record should hold |
//! | [`parts`] | over several roots: which parts of a record count |
//! | [`word_map`] | long: old content into the undo log, stores in place |
//! | [`savepoint`], [`nested`] | how a part of a transaction is taken back |
//! | [`upgrade`] | when readers are kept away |
//! | [`doomed`] | what happens when the log cannot grow |
//! | [`recovery`] | what happens at the next open |

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
