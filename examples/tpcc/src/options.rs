//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use pheap::{Options, SyncPolicy};

use crate::drive::Plan;
use crate::requests::Size;

/// The transactions of TPC-C on a persistent heap, as fast as they go.
#[derive(Parser)]
pub enum Args {
    /// Make the first content.
    Load(Load),
    /// Run transactions, and print how many and how long they took.
    Run(Run),
    /// Check the specification's consistency conditions.
    Check(Store),
}

#[derive(clap::Args)]
pub struct Store {
    /// The file; with `wal`, its log is beside it.
    #[arg(long, value_name = "FILE", default_value = "target/tpcc.pheap")]
    pub path: PathBuf,
    /// What a transaction survives.
    #[arg(long, value_enum, default_value = "auto")]
    durability: Durability,
    /// When the log of `wal` is synced: at each `commit`, on `demand` (when the run waits for a transaction),
    /// or, in addition to that, every so many milliseconds.
    #[arg(long, value_name = "WHEN", default_value = "commit", value_parser = sync)]
    sync: SyncPolicy,
    /// Use SQLite instead.
    #[cfg(feature = "sqlite")]
    #[arg(long)]
    pub sqlite: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Durability {
    Auto,
    Pmem,
    Wal,
    Process,
}

fn sync(when: &str) -> Result<SyncPolicy, String> {
    match when {
        "commit" => Ok(SyncPolicy::EveryCommit),
        "demand" => Ok(SyncPolicy::OnDemand),
        millis => match millis.parse() {
            Ok(millis) => Ok(SyncPolicy::Every(Duration::from_millis(millis))),
            Err(_) => Err("`commit`, `demand` or a number".to_owned()),
        },
    }
}

impl Store {
    pub fn options(&self) -> Options {
        let durability = match self.durability {
            Durability::Auto => pheap::Durability::Auto,
            Durability::Pmem => pheap::Durability::Pmem,
            Durability::Wal => pheap::Durability::Wal,
            Durability::Process => pheap::Durability::Process,
        };
        Options::new().durability(durability).sync_policy(self.sync)
    }

    /// Returns the value of SQLite's `synchronous` that is closest to the durability.
    #[cfg(feature = "sqlite")]
    pub fn sqlite_synchronous(&self) -> &'static str {
        match (self.durability, self.sync) {
            (Durability::Process, _) => "OFF",
            (_, SyncPolicy::EveryCommit) => "FULL",
            _ => "NORMAL",
        }
    }
}

#[derive(clap::Args)]
pub struct Load {
    #[command(flatten)]
    pub store: Store,
    #[arg(long, value_name = "N", default_value_t = 2)]
    warehouses: u32,
    /// Items, and as many rows of stock in each warehouse. The specification wants the default.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    items: u32,
    /// Customers of each district, and as many orders. The specification wants the default.
    #[arg(long, value_name = "N", default_value_t = 3000)]
    customers: u32,
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

impl Load {
    pub fn size(&self) -> Size {
        Size { warehouses: self.warehouses, items: self.items, customers: self.customers }
    }
}

#[derive(clap::Args)]
pub struct Run {
    #[command(flatten)]
    pub store: Store,
    /// At most as many as there are warehouses.
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: u32,
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    seconds: f64,
    /// Seconds that are not counted.
    #[arg(long, value_name = "N", default_value_t = 2.0)]
    warm_up: f64,
    /// How many transactions of a thread may be waiting for the disk while it goes on. They share syncs.
    #[arg(long, value_name = "N", default_value_t = 0)]
    outstanding: usize,
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Do that in another process, which is killed soon after it has begun, and check; so many times.
    #[arg(long, value_name = "N")]
    pub kills: Option<u32>,
    /// Be the process that gets killed: print how many orders are durable, again and again.
    #[arg(long, hide = true)]
    pub victim: bool,
}

impl Run {
    pub fn plan(&self) -> Plan {
        Plan {
            threads: self.threads,
            warm_up: Duration::from_secs_f64(self.warm_up),
            measured: Duration::from_secs_f64(self.seconds),
            outstanding: self.outstanding,
            // Each victim makes other requests.
            seed: self.seed + if self.victim { std::process::id().into() } else { 0 },
        }
    }
}
