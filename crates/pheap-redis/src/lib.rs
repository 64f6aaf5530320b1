//! A server that speaks the protocol of Redis, and whose data are a persistent heap: a write that was acknowledged is durable, other clients do not wait for its sync, and a
//! restart takes milliseconds.
//!
//! | room | modules | what is in it |
//! |---|---|---|
//! | [`text`] | `words`, `random`, `extended`, `geo`, `hll` | what strings of bytes stand for |
//! | [`resp`] | | the protocol: requests are parsed, replies are written |
//! | [`data`] | `files`, `data`, `memory` | what is stored: the heap, its shards, databases, values |
//! | [`rdb`] | | values and files as Redis writes them |
//! | [`clients`] | `buffers`, `pubsub`, `clients`, `client`, `tracking`, `waiting`, `unsynced` | clients |
//! | [`config`] | | options: the command line, `redis.conf`, `CONFIG` |
//! | [`stats`] | `counts`, `rates`, `slowlog`, `usage` | what is told of the server |
//! | [`scripts`] | `scripts`, `libraries`, `gates` | scripts that all threads know, libraries, slow scripts |
//! | [`connections`] | `tls`, `stream`, `mailbox` | connections, and what other threads leave for one |
//! | [`server`] | `clocks`, `role`, `server` | what all clients have in common |
//! | [`copies`] | `save`, `import`, `export` | copies of the heap; RDB files, read and written |
//! | [`process`] | `logging`, `descriptors`, `ping`, `process` | the log, open files, signals, systemd |
//! | [`command`] | | what commands are called and do |
//! | [`metrics`] | | what Prometheus collects |
//! | [`execute`] | `evict`, `execute`, `expire` | commands in transactions; keys that go by themselves |
//! | [`link`] | | the connection to a master: its data, and then what it sends |
//! | [`net`] | | threads, connections, and what waits there: for keys, for the disk |
//!
//! A room is a folder. A module imports only from rooms above its own, and from modules on its left in its
//! room. The room's name stands for all other files of the room (`tests/layers.rs`).

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

/// The version of Redis whose commands this server has.
pub const REDIS_VERSION: &str = "7.0.15";
