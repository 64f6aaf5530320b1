//! Scripts: Lua, and what they do with the server.
//!
//! # One transaction
//! A script is one transaction of the heap, over the shards of the keys that it declares. If it touches another one, all is rolled back, and it is run again with all shards: nothing was
//! committed, and nothing has left the server, so it is as if it had not been run. (It is remembered that it needs all.) If it fails, what it did before stays, as in Redis.
//!
//! # Threads
//! Each thread has its own Lua: one for scripts, one for functions of libraries, made when they are needed. What a script is called and its text are known to all threads
//! ([`Scripts`](crate::scripts::Scripts)); each compiles what it runs. A script runs in the thread that serves its client. That is the fastest for the many scripts that end soon: nothing is
//! handed over.
//!
//! # Slow scripts
//! Lua calls a hook now and then. When a script has run for longer than `busy-reply-threshold`, the hook serves the thread's other clients ([`Meanwhile`]): all that they get is `BUSY`, but for
//! commands that may be called then, such as `SCRIPT KILL`. None of those touches a shard, so there is no transaction within a transaction. (The alternative, threads of their own for scripts, would
//! cost each script two changes of threads.)
//!
//! A thread must not wait for a shard that a slow script of another thread has, or it would not serve its clients. So if there are several threads, each shard has a gate
//! ([`Gates`](crate::scripts::gates::Gates)), which is passed before the shard is locked, and at which nobody waits when a script has become slow.

mod bit;
mod cjson;
mod cmsgpack;
mod convert;
mod engine;
mod host;
mod native;
mod random;
mod structs;

pub(super) use engine::{Call, Engine, Kind, LOAD, LOAD_AGAIN, LONG_LOAD, with_engine};

#[cfg(doc)]
use super::Meanwhile;
