//! The workloads of db_bench and YCSB.

use crate::Result;
use crate::data::{Keys, Values, Zipfian};
use crate::systems::Session;
use pheap_suite::{Rng, arguments};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Workload {
    Fillseq,
    Fillrandom,
    Overwrite,
    Readrandom,
    Readwhilewriting,
    Seekrandom,
    Deleterandom,
    YcsbA,
    YcsbB,
    YcsbC,
    YcsbD,
    YcsbE,
    YcsbF,
    YcsbG,
}

use Workload::*;

/// Entries that `seekrandom` reads after each seek.
const NEXTS: usize = 10;
/// Largest number of entries in a scan of YCSB.
const SCAN: u64 = 100;

impl Workload {
    pub(crate) fn name(self) -> String {
        arguments::name(&self)
    }

    pub(crate) fn is_ycsb(self) -> bool {
        matches!(self, YcsbA | YcsbB | YcsbC | YcsbD | YcsbE | YcsbF | YcsbG)
    }

    pub(crate) fn keys(self) -> Keys {
        if self.is_ycsb() { Keys::Ycsb } else { Keys::DbBench }
    }

    /// Returns the size of its values in bytes. `None` if the user chooses it.
    pub(crate) fn value_len(self) -> Option<usize> {
        match self {
            YcsbG => Some(10_000),
            _ => self.is_ycsb().then_some(1000),
        }
    }

    /// Returns whether there are entries before the workload begins.
    pub(crate) fn is_loaded(self) -> bool {
        !matches!(self, Fillseq | Fillrandom)
    }

    /// Returns whether the workload reads ranges.
    pub(crate) fn needs_order(self) -> bool {
        matches!(self, Seekrandom | YcsbE)
    }

    /// Returns whether the workload never writes. It is then the same with syncs and without.
    pub(crate) fn only_reads(self) -> bool {
        matches!(self, Readrandom | Seekrandom | YcsbC)
    }
}

/// Data that all threads of a run share.
pub(crate) struct Shared {
    pub(crate) workload: Workload,
    pub(crate) values: Values,
    pub(crate) value_len: usize,
    /// Number of entries at the beginning, or of the numbers of entries that a workload fills the store with.
    pub(crate) entries: u64,
    pub(crate) threads: usize,
    /// Number of the next entry to insert; or, in `fillrandom` and `deleterandom`, of operations so far.
    pub(crate) next: AtomicU64,
    pub(crate) zipfian: Zipfian,
}

/// The work of one thread.
pub(crate) struct Worker<'a> {
    shared: &'a Shared,
    session: Box<dyn Session + 'a>,
    rng: Rng,
    key: Vec<u8>,
    /// Whether this is the thread of `readwhilewriting` that only writes.
    writes_only: bool,
    /// Bytes of keys and values that it has put, and of keys that it has deleted.
    pub(crate) bytes: u64,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(shared: &'a Shared, session: Box<dyn Session + 'a>, number: usize) -> Worker<'a> {
        let writes_only = shared.workload == Readwhilewriting && number == shared.threads;
        let rng = Rng::from_seed(pheap_suite::SEED + 1 + number as u64);
        Worker { shared, session, rng, key: Vec::new(), writes_only, bytes: 0 }
    }

    /// Runs one operation. Returns false if there is nothing left to do.
    pub(crate) fn step(&mut self) -> Result<bool> {
        let shared = self.shared;
        let percent = self.rng.scaled(100);
        match shared.workload {
            Fillseq | Deleterandom if shared.next.load(Relaxed) >= shared.entries => return Ok(false),
            Fillrandom if shared.next.fetch_add(1, Relaxed) >= shared.entries => return Ok(false),
            Fillseq => {
                let number = shared.next.fetch_add(1, Relaxed);
                self.put(number)?;
            }
            Fillrandom | Overwrite => self.put_any()?,
            Readwhilewriting if self.writes_only => self.put_any()?,
            Readrandom | Readwhilewriting => {
                let number = self.rng.scaled(shared.entries);
                self.get(number)?;
            }
            Seekrandom => {
                let number = self.rng.scaled(shared.entries);
                self.scan(number, 1 + NEXTS)?;
            }
            Deleterandom => {
                shared.next.fetch_add(1, Relaxed);
                let number = self.rng.scaled(shared.entries);
                shared.workload.keys().key(number, &mut self.key);
                self.bytes += self.key.len() as u64;
                self.session.delete(&self.key)?;
            }
            YcsbA if percent < 50 => self.put_frequent()?,
            YcsbB if percent < 5 => self.put_frequent()?,
            YcsbA | YcsbB | YcsbC => {
                let number = shared.zipfian.scrambled(&mut self.rng);
                self.get(number)?;
            }
            YcsbD | YcsbE if percent < 5 => {
                let number = shared.next.fetch_add(1, Relaxed);
                self.put(number)?;
            }
            YcsbD => {
                // The newest of the loaded entries most often, and none that is inserted in this run.
                let number = shared.entries - 1 - shared.zipfian.rank(&mut self.rng);
                self.get(number)?;
            }
            YcsbE => {
                let (number, len) = (shared.zipfian.scrambled(&mut self.rng), 1 + self.rng.scaled(SCAN));
                self.scan(number, len as usize)?;
            }
            YcsbF if percent < 50 => {
                let number = shared.zipfian.scrambled(&mut self.rng);
                self.get(number)?;
                self.put(number)?;
            }
            YcsbF => {
                let number = shared.zipfian.scrambled(&mut self.rng);
                self.get(number)?;
            }
            YcsbG => self.put_frequent()?,
        }
        Ok(true)
    }

    fn put_any(&mut self) -> Result<()> {
        let number = self.rng.scaled(self.shared.entries);
        self.put(number)
    }

    fn put_frequent(&mut self) -> Result<()> {
        let number = self.shared.zipfian.scrambled(&mut self.rng);
        self.put(number)
    }

    fn put(&mut self, number: u64) -> Result<()> {
        let shared = self.shared;
        shared.workload.keys().key(number, &mut self.key);
        let value = shared.values.random(&mut self.rng, shared.value_len);
        self.bytes += (self.key.len() + value.len()) as u64;
        self.session.put(&self.key, value)
    }

    fn get(&mut self, number: u64) -> Result<()> {
        let shared = self.shared;
        shared.workload.keys().key(number, &mut self.key);
        let mut len = None;
        self.session.get(&self.key, &mut |value| {
            look_at(value);
            len = Some(value.len());
        })?;
        if len == Some(shared.value_len) {
            Ok(())
        } else {
            Err(format!("entry {number} is not there").into())
        }
    }

    fn scan(&mut self, number: u64, most: usize) -> Result<()> {
        let shared = self.shared;
        shared.workload.keys().key(number, &mut self.key);
        let mut seen = 0;
        self.session.scan(&self.key, most, &mut |_, value| {
            look_at(value);
            seen += 1;
        })?;
        if (1..=most).contains(&seen) {
            Ok(())
        } else {
            Err(format!("a scan has shown {seen} entries").into())
        }
    }
}

/// Reads all bytes of a value: a store that returns a reference has not read them yet.
fn look_at(value: &[u8]) {
    std::hint::black_box(value.iter().fold(0, |all, byte| all ^ byte));
}
