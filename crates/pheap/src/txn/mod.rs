//! Transactions: what a program sees of them, and the two protocols below.
//!
//! | file | |
//! |---|---|
//! | [`view`], [`tx`] | `View`, `Shared` and `Txn` |
//! | [`many`] | one transaction over several roots |
//! | [`context`] | the state of the open transaction |
//! | [`paths`] | what a write does; the change from the short to the long path |
//! | [`write_set`], [`line_index`], [`buffer`] | short: copies of what is written |
//! | [`grain`], [`weariness`] | what copies are of, and when there are better none |
//! | [`commit`], [`dirty`] | and a redo record, one fence |
//! | [`log`], [`staged`], [`checksum`] | what both are written to |
//! | [`padded`] | what no record should hold |
//! | [`word_map`] | long: old content into the undo log, stores in place |
//! | [`doomed`] | what happens when the log cannot grow |
//! | [`recovery`] | what happens at the next open |

mod buffer;
pub(crate) mod commit;
pub(crate) mod context;
mod dirty;
mod doomed;
mod grain;
mod line_index;
pub(crate) mod log;
mod many;
mod padded;
mod paths;
pub(crate) mod recovery;
mod tx;
mod view;
mod weariness;
mod word_map;
mod write_set;

pub use many::{RootSet, Shards, txn};
pub use tx::Txn;
pub use view::{Shared, View};
