//! Commands: names, keys and functions. A family of commands has one or several files, with tables.
//!
//! To add a command, add a row to the `COMMANDS` of its family, with its name, arity, flags and keys, and a
//! function in the same file. Rows of subcommands follow the row of their command. The function reads and
//! changes the heap through the [`Cx`], gets the arguments (its own name first), and writes the reply. If the
//! function fails with an error for the client, it must have changed no data; the part of the reply that it
//! wrote is removed.

mod answer;
mod args;
mod bitfield;
mod bits;
mod buffers;
mod clients;
mod connection;
mod cx;
mod debug;
mod dump;
mod expiry;
mod fail;
mod functions;
mod functions_dump;
mod geo;
mod geo_search;
mod hashes;
mod hyperloglog;
mod info;
mod introspect;
mod keys;
mod lcs;
mod lists;
mod lists_inside;
mod lists_waiting;
mod migrate;
mod moving;
mod object;
mod pick;
mod pubsub;
mod replication;
mod scan;
mod script;
mod scripts;
mod server;
mod set_algebra;
mod sets;
mod slow;
mod sort;
mod sorted_algebra;
mod sorted_pops;
mod sorted_ranges;
mod sorted_sets;
mod stream_claims;
mod stream_groups;
mod stream_info;
mod stream_parts;
mod stream_reads;
mod streams;
mod strings;
mod table;
mod tracking;
mod values;

use answer::{ok, yes_or_no};
pub use cx::{Cx, Effects, Keyspace, Meanwhile, NoShards, OneRead, OneTxn, SeveralShards, shards_of};
pub use fail::{Block, Done, Fail};
pub use functions::load_libraries;
pub use replication::begin_replication;
pub use slow::{hidden, monitor_line};
pub use table::{
    Command, Flags, Group, Keys, KnownCommand, RefusedRequest, all_commands, lookup, resolve,
    top_level_commands,
};

/// The arguments of a command, with its name first, or some of them.
pub type Args<'a> = [&'a [u8]];
