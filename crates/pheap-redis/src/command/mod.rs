//! Commands: what they are called, which keys they touch, what they do. Each family has a file with its table.
//!
//! To add a command: a line in its family's `COMMANDS`, and a function beside it. The function gets what it may touch by the [`Cx`], its arguments (its own name first),
//! and writes one reply. If it fails, it has changed nothing, and what it wrote is taken back.

mod args;
mod bitfield;
mod bits;
mod buffers;
mod connection;
mod cx;
mod fail;
mod hyperloglog;
mod keys;
mod lcs;
mod lists;
mod lists_inside;
mod lists_waiting;
mod pubsub;
mod server;
mod strings;
mod table;

pub use cx::{Cx, Effects, Keyspace, Nothing, OneRead, OneTxn, Several};
pub use fail::{Block, Done, Fail};
pub use table::{Command, Flags, Group, Keys, Run, all, lookup, resolve};

/// The arguments of a command, its name first.
pub type Args<'a> = [&'a [u8]];
