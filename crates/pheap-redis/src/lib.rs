//! A server that speaks the protocol of Redis, and whose data are a persistent heap: a write that was acknowledged is durable, other clients do not wait for its sync, and a
//! restart takes milliseconds.
//!
//! | room | modules | what is in it |
//! |---|---|---|
//! | [`text`] | `words`, `random`, `extended`, `geo`, `hll` | words in quotes and patterns; numbers, at random, and those that `INCRBYFLOAT` adds; places on the Earth as numbers; HyperLogLogs as strings |
//! | [`resp`] | | the protocol: requests are parsed, replies are written |
//! | [`data`] | `files`, `data`, `memory` | what a file is; what is stored: the heap, its shards, databases, values; how much memory that needs |
//! | [`rdb`] | | values and files as Redis writes them |
//! | [`clients`] | `buffers`, `pubsub`, `clients`, `client`, `tracking`, `waiting`, `unsynced` | how much may wait to be sent to a client; channels; who is connected; what a client has: its database, its transaction, what it watches and listens to; keys that clients may have copies of, that they wait for, and that were written to since the log was synced |
//! | [`config`] | | options: the command line, `redis.conf`, `CONFIG` |
//! | [`stats`] | `counts`, `rates`, `slowlog`, `usage` | what is told of the server: calls of commands, how many in a second, slow ones, processor time |
//! | [`scripts`] | `scripts`, `libraries`, `gates` | scripts that all threads know; libraries of functions; where threads wait that must not wait for a slow script |
//! | [`connections`] | `tls`, `stream`, `mailbox` | connections, by TLS if built with the feature `tls`; what other threads leave for one |
//! | [`server`] | `clocks`, `role`, `server` | when keys were used; whether this server follows another one; what all clients have in common |
//! | [`copies`] | `save`, `import`, `export` | copies of the heap: `SAVE`, `BGSAVE`; RDB files, read into an empty heap and written from one |
//! | [`process`] | `logging`, `descriptors`, `ping`, `process` | what is logged, and where to; how many files may be open, and how many clients there may be; whether a server answers; signals that end the process, the file with its number, systemd |
//! | [`command`] | | what commands are called and do |
//! | [`metrics`] | | what Prometheus collects |
//! | [`execute`] | `evict`, `execute`, `expire` | keys that go when there is no memory; commands in transactions: one, several in a row, `MULTI`; keys whose time has come |
//! | [`link`] | | the connection to a master: its data, and then what it sends |
//! | [`net`] | | threads, connections, and what waits there: for keys, for the disk |
//!
//! A room is a folder. A module imports only from rooms above its own, and from those on its left in its room; the
//! room's name stands there for the room's other files (`tests/layers.rs`).

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

// Programs outside this crate name these two without their rooms.
pub use clients::client;
pub use execute::expire;

/// The version of Redis whose commands this server has.
pub const REDIS_VERSION: &str = "7.0.15";
