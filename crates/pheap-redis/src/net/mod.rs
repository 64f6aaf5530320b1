//! Threads, each with its connections, and what waits there: for more input, for keys, for the disk.

mod connection;
mod listener;
mod output;
mod syncs;
mod worker;

pub use listener::{ListenError, Listener};
pub use worker::Worker;
