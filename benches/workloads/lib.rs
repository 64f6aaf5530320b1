//! The workloads of pheap's benchmarks, on a persistent heap and, for most, in plain volatile Rust.
//!
//! `benches/{paper,collections,threads}.rs` print JSON lines. `benches/{binary_tree,sps,nbody}.rs` pass cases
//! of `paper` to criterion. `benches/README.md` explains the rows, and how they may mislead.
#![deny(unsafe_code)]

pub mod arguments;
pub mod binary_trees;
mod child;
pub mod collections;
pub mod disk;
pub mod fannkuch;
pub mod fill;
#[allow(unsafe_code)]
pub mod floor;
pub mod groups;
pub mod measure;
#[allow(unsafe_code)]
mod mi_box;
pub mod nbody;
pub mod pagerank;
#[allow(unsafe_code)]
mod pages;
pub mod pauses;
pub mod pmdk;
pub mod recovery;
pub mod relocate;
pub mod replace;
pub mod restart;
pub mod scratch;
mod server;
pub mod sps;
pub mod targets;
pub mod threads;
pub mod touch;
pub mod txn;

pub use measure::{Case, Sample};
pub use pheap_testkit::Rng;
pub use scratch::Setup;

/// Any error: a benchmark only reports it.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Seed from which workloads derive their random numbers, so that all systems do the same work.
pub const SEED: u64 = 42;
