//! A server that speaks the Redis protocol and keeps its data in a persistent heap. By default, a write that
//! the server has acknowledged survives a power failure. While a client waits for the sync of its write,
//! other clients are served. A restart opens the heap, and does not load the data.
//!
//! | room | modules | contents |
//! |---|---|---|
//! | [`text`] | `words`, `random`, `extended`, `geo`, `hll` | parsing and formatting of byte strings |
//! | [`resp`] | | the protocol: parses requests, writes replies |
//! | [`data`] | `files`, `data`, `memory` | the stored data: the heap, its shards, databases, values |
//! | [`rdb`] | | values and files in the format of Redis |
//! | [`clients`] | `buffers`, `pubsub`, `clients`, `client`, `tracking`, `waiting`, `unsynced` | client state
//! |
//! | [`config`] | | options: the command line, `redis.conf`, `CONFIG` |
//! | [`stats`] | `counts`, `rates`, `slowlog`, `usage` | statistics of the server |
//! | [`scripts`] | `scripts`, `libraries`, `gates` | shared scripts, function libraries, slow scripts |
//! | [`connections`] | `tls`, `stream`, `mailbox` | connections, and messages between threads |
//! | [`server`] | `clocks`, `role`, `server` | state that all clients share |
//! | [`copies`] | `save`, `import`, `export` | copies of the heap; RDB files to read and write |
//! | [`process`] | `logging`, `descriptors`, `ping`, `process` | the log, open files, signals, systemd |
//! | [`command`] | | names and implementations of the commands |
//! | [`metrics`] | | the figures that Prometheus collects |
//! | [`execute`] | `evict`, `execute`, `expire` | runs commands in transactions; expires and evicts keys |
//! | [`link`] | | the connection to a master: loads its data, then applies its stream |
//! | [`net`] | | threads, connections, and clients that wait for keys or for the disk |
//!
//! A room is a folder. Except in tests, a module imports only from rooms above its own, and from modules on
//! its left in its room. The room's name stands for all other files of the room (`tests/layers.rs`).

#![forbid(unsafe_code)]

pub mod clients;
pub mod command;
pub mod config;
pub mod connections;
pub mod copies;
pub mod data;
pub mod execute;
pub mod link;
pub mod metrics;
pub mod net;
pub mod process;
pub mod rdb;
pub mod resp;
pub mod scripts;
pub mod server;
pub mod stats;
pub mod text;

/// The version of Redis that this server follows.
pub const REDIS_VERSION: &str = "7.0.15";
