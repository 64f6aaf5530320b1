//! What is to be measured.

use crate::Result;
use crate::systems::System;
use pheap_suite::arguments;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// What `--only` knows.
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
    /// Runs of each case.
    pub(crate) repeats: usize,
    /// How long values are updated.
    pub(crate) run: Duration,
    /// Values of each thread, where updates are synced.
    pub(crate) values_synced: u64,
    /// Values of each thread, where they are not.
    pub(crate) values_unsynced: u64,
    pub(crate) inserts: usize,
    /// Transactions that are run under strace, all threads together; none if 0.
    pub(crate) traced: u64,
}

impl Plan {
    /// A directory for one run, removed after it.
    pub(crate) fn folder(&self) -> Result<TempDir> {
        Ok(tempfile::Builder::new().prefix("pheap-stores-").tempdir_in(&self.dir)?)
    }

    /// The systems that are stores.
    pub(crate) fn stores(&self) -> Vec<System> {
        self.systems.iter().copied().filter(|&system| system != System::Floor).collect()
    }
}
