//! A server that speaks the protocol of Redis, and whose data are a persistent heap: a write that was acknowledged is durable, other clients do not wait for its sync, and a
//! restart takes milliseconds.
//!
//! | module | what is in it |
//! |---|---|
//! | [`words`], [`random`], [`extended`] | text: numbers, words in quotes, patterns; numbers at random, and those that `INCRBYFLOAT` adds |
//! | [`geo`], [`hll`] | places on the Earth as numbers; HyperLogLogs as strings |
//! | [`resp`] | the protocol: requests are parsed, replies are written |
//! | [`data`] | what is stored: the heap, its shards, databases, values |
//! | [`rdb`] | values and files as Redis writes them |
//! | [`pubsub`] | channels |
//! | [`buffers`] | how much may wait to be sent to a client |
//! | [`files`] | what a file is, and how a new one takes its name |
//! | [`config`] | options: the command line, `redis.conf`, `CONFIG` |
//! | [`logging`] | what is logged, and where to |
//! | [`clocks`], [`memory`] | when keys were used; how much memory the data need |
//! | [`counts`], [`rates`], [`slowlog`], [`clients`], [`usage`] | what is told of the server: calls of commands, how many in a second, slow ones, who is connected, processor time |
//! | [`client`] | what a client has: its database, its transaction, what it watches and listens to |
//! | [`tracking`] | keys that clients may have copies of |
//! | [`waiting`], [`unsynced`] | keys that clients wait for; keys that were written to since the log was synced |
//! | [`scripts`], [`libraries`] | scripts that all threads know, libraries of functions |
//! | [`gates`] | where threads wait that must not wait for a slow script |
//! | [`tls`] | connections by TLS, if built with the feature `tls` |
//! | [`stream`], [`mailbox`] | a connection; what other threads leave for one |
//! | [`role`] | whether this server follows another one |
//! | [`server`] | what all clients have in common |
//! | [`save`] | copies of the heap: `SAVE`, `BGSAVE` |
//! | [`import`], [`export`] | RDB files, read into an empty heap and written from one |
//! | [`descriptors`] | how many files may be open, and how many clients there may be |
//! | [`command`] | what commands are called and do |
//! | [`metrics`] | what Prometheus collects |
//! | [`ping`] | whether a server answers |
//! | [`process`] | signals that end the process, the file with its number, systemd |
//! | [`evict`] | keys that go when there is no memory |
//! | [`execute`] | commands in transactions: one, several in a row, `MULTI` |
//! | [`expire`] | keys whose time has come |
//! | [`link`] | the connection to a master: its data, and then what it sends |
//! | [`net`] | threads, connections, and what waits there: for keys, for the disk |
//!
//! A module imports only from those above it, and in a row from those on its left (`tests/layers.rs`).

#![forbid(unsafe_code)]

pub mod buffers;
pub mod client;
pub mod clients;
pub mod clocks;
pub mod command;
pub mod config;
pub mod counts;
pub mod data;
pub mod descriptors;
pub mod evict;
pub mod execute;
pub mod expire;
pub mod export;
pub mod extended;
pub mod files;
pub mod gates;
pub mod geo;
pub mod hll;
pub mod import;
pub mod libraries;
pub mod link;
pub mod logging;
pub mod mailbox;
pub mod memory;
pub mod metrics;
pub mod net;
pub mod ping;
pub mod process;
pub mod pubsub;
pub mod random;
pub mod rates;
pub mod rdb;
pub mod resp;
pub mod role;
pub mod save;
pub mod scripts;
pub mod server;
pub mod slowlog;
pub mod stream;
pub mod tls;
pub mod tracking;
pub mod unsynced;
pub mod usage;
pub mod waiting;
pub mod words;

/// The version of Redis whose commands this server has.
pub const REDIS_VERSION: &str = "7.0.15";
