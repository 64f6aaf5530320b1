//! Threads, each with its connections, and what waits there: for more input, for keys, for the disk.

mod connection;
mod listener;
mod mailbox;
mod output;
mod stream;
mod worker;

pub use listener::{ListenError, Listener};
pub use mailbox::{Mailbox, Message};
pub use stream::Stream;
pub use worker::Worker;
