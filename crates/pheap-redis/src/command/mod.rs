//! Commands: what they are called, which keys they touch, what they do. Each family has a file with its table.
//!
//! To add a command: a line in its family's `COMMANDS`, and a function beside it. The function gets what it may touch by the [`Cx`], its arguments (its own name first),
//! and writes one reply. If it fails, it has changed nothing, and what it wrote is taken back.

mod args;
mod connection;
mod cx;
mod fail;
mod functions;
mod functions_dump;
mod keys;
mod lists;
mod pubsub;
mod script;
mod scripts;
mod server;
mod strings;
mod table;

pub use cx::{Cx, Effects, Keyspace, Meanwhile, Nothing, OneRead, OneTxn, Several, Signal, shards_of};
pub use fail::{Block, Done, Fail};
pub use functions::load_libraries;
pub use table::{Command, Flags, Group, Keys, Run, all, lookup, resolve};

/// The arguments of a command, its name first.
pub type Args<'a> = [&'a [u8]];
