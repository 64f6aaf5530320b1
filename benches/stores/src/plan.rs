//! The plan of a run.

use crate::Result;
use crate::systems::System;
use pheap_suite::arguments;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// The benchmarks that `--only` can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Bench {
    Update8Sync,
    Update8Nosync,
    InsertSync,
    InsertNosync,
    Get,
    OpenGet,
    Read8,
}

impl Bench {
    pub(crate) fn name(self) -> String {
        arguments::name(&self)
    }
}

#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) dir: PathBuf,
    pub(crate) benches: Vec<Bench>,
    pub(crate) systems: Vec<System>,
    pub(crate) threads: Vec<usize>,
    /// Number of runs of each case.
    pub(crate) repeats: usize,
    /// Time for which values are updated.
    pub(crate) run: Duration,
    /// Number of values of each thread if updates are synced.
    pub(crate) values_synced: u64,
    /// Number of values of each thread if updates are not synced.
    pub(crate) values_unsynced: u64,
    pub(crate) inserts: usize,
    /// Number of transactions under strace, of all threads together. 0 runs none.
    pub(crate) traced: u64,
}

impl Plan {
    /// Makes a directory for one run, which is removed after the run.
    pub(crate) fn folder(&self) -> Result<TempDir> {
        Ok(tempfile::Builder::new().prefix("pheap-stores-").tempdir_in(&self.dir)?)
    }

    /// Returns the systems that are stores.
    pub(crate) fn stores(&self) -> Vec<System> {
        self.systems.iter().copied().filter(|&system| system != System::Floor).collect()
    }
}
