//! Runs scripts and functions in Lua.
//!
//! # One transaction
//! A script runs in one transaction of the heap, over the shards of the keys that it declares. If it touches
//! another shard, the transaction is rolled back, and the script runs again with all shards locked. Clients
//! do not see that: nothing was committed, and the replies and messages are discarded. The server remembers
//! that the script needs all shards. If a script fails with an error of Lua or of a command, its earlier
//! changes stay, as in Redis.
//!
//! # Threads
//! Each thread has its own instances of Lua, one for scripts and one for functions, created when they are
//! first needed. Names and texts of scripts are shared by all threads ([`Scripts`](crate::scripts::Scripts));
//! each thread compiles the scripts that it runs. A script runs in the thread that serves its client, so that
//! nothing is handed over.
//!
//! # Slow scripts
//! Lua calls a hook at intervals. When a script has run for longer than `busy-reply-threshold`, the hook
//! serves the other clients of the thread ([`Meanwhile`]). They get the error `BUSY`, except for commands
//! that are allowed then, such as `SCRIPT KILL`. None of these commands touches a shard, so transactions are
//! never nested. (The alternative, separate threads for scripts, would cost thread switches for each script.)
//!
//! A thread must not block on a shard that a slow script of another thread has locked, because it would not
//! serve its clients. So if there are several threads, each shard has a gate
//! ([`Gates`](crate::scripts::gates::Gates)). A thread passes the gate before it locks the shard, and stops
//! waiting at the gate when a script has become slow.

mod bit;
mod cjson;
mod cmsgpack;
mod convert;
mod engine;
mod host;
mod native;
mod random;
mod structs;

pub(super) use engine::{Engine, EngineKind, LOAD, LOAD_AGAIN, LONG_LOAD, ScriptCall, with_engine};

#[cfg(doc)]
use super::Meanwhile;
