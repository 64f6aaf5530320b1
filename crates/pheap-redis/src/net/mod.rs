//! The threads that serve clients, their connections, and the clients that wait for input, for keys, or for
//! the disk.

mod connection;
mod listener;
mod output;
mod syncs;
mod worker;

pub use listener::{ListenError, Listener};
pub use worker::Worker;
