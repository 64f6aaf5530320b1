//! What a program sees of a heap: roots, transactions on them, and views to read.
//!
//! Here is the edge at which types make raw addresses safe. Nothing below has type parameters of the program's.

mod accept;
mod alloc;
pub(crate) mod debug;
pub(crate) mod deferred;
pub(crate) mod evolve;
mod lookup;
mod migrate;
pub(crate) mod nested;
mod parts;
mod places;
pub(crate) mod root;
pub(crate) mod several;
pub(crate) mod stores;
pub(crate) mod tasks;
pub(crate) mod tx;
pub(crate) mod view;
