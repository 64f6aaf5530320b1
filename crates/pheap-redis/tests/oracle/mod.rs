//! Clients that know what a server must answer, and what it must have after it was killed.

pub(crate) mod model;
pub(crate) mod owner;
pub(crate) mod shared;
pub(crate) mod wire;
