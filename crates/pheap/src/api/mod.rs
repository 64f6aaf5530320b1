//! The interface for programs: roots, transactions on them, and views to read.
//!
//! At this layer, types make raw addresses safe. Most code of the layers below is not generic over the
//! program's types.

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
pub(crate) mod slices;
pub(crate) mod stores;
pub(crate) mod tasks;
pub(crate) mod tx;
pub(crate) mod view;
