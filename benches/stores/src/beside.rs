//! `read8`: threads look up random values, alone or while other threads update the same values durably.

use crate::Result;
use crate::plan::Plan;
use crate::systems::System;
use pheap_suite::measure::{self, Row, interleaved};
use pheap_suite::threads::latencies::{Latencies, READS, WRITES};
use pheap_suite::threads::rates::{Work, rates};
use pheap_suite::threads::{OPERATIONS, at_rate};
use pheap_suite::{Case, Rng, SEED, Sample, disk};

/// Numbers of readers and writers in the case that resembles a server.
const SERVER: (usize, usize) = (50, 8);

#[derive(Clone)]
struct Beside {
    plan: Plan,
    system: System,
    readers: usize,
    writers: usize,
    /// Whether reads do not wait until the values are durable: see
    /// [`Store::shared`](crate::systems::Store::shared).
    deferred: bool,
}

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let (server, writers) = SERVER;
    let alone_and_beside_one = plan.threads.iter().flat_map(|&readers| [(readers, 0), (readers, 1)]);
    let mut cases = Vec::new();
    for (readers, writers) in alone_and_beside_one.chain([(server, 0), (server, writers)]) {
        for system in plan.stores() {
            let beside = Beside { plan: plan.clone(), system, readers, writers, deferred: false };
            if system == System::Pheap && writers > 0 {
                cases.push(Beside { deferred: true, ..beside.clone() }.case());
            }
            cases.push(beside.case());
        }
    }
    interleaved(cases, &measure::Plan::even(plan.repeats)).map_err(|error| error.to_string().into())
}

impl Beside {
    fn case(self) -> Case {
        let reads = if self.deferred { ":deferred" } else { "" };
        let variant = format!("{}{reads}:beside_{}", self.system.policy(true), self.writers);
        let (system, readers) = (self.system.name(), self.readers as u64);
        let pass = move || self.run().map_err(|error| -> Box<dyn std::error::Error> { error });
        Case::new(system, "read8", variant, OPERATIONS, pass).threads(readers)
    }

    /// Runs the case. With writers, one thread of each kind measures the latencies of its operations.
    fn run(&self) -> Result<Sample> {
        let dir = self.plan.folder()?;
        let store = self.system.open(dir.path(), true)?;
        let values = self.plan.values_synced;
        let (mut reads, mut writes) = (Latencies::new(), Latencies::new());
        let (mut timed_reads, mut timed_writes) =
            (Some(&mut reads).filter(|_| self.writers > 0), Some(&mut writes));
        store.preload_shared(values)?;
        disk::settle(dir.path())?;
        let mut works: Vec<Work<'_, _>> = Vec::new();
        for thread in 0..self.readers + self.writers {
            let (mut session, mut rng) =
                (store.shared(values, self.deferred)?, Rng::from_seed(SEED + thread as u64));
            if thread < self.readers {
                let mut read = move || session.value(rng.scaled(values)).map(drop);
                works.push(match timed_reads.take() {
                    Some(reads) => Box::new(move || reads.time(&mut read).map(|()| 1)),
                    None => Box::new(move || read().map(|()| 1)),
                });
            } else {
                let mut write = move || session.update(rng.scaled(values), rng.next_u64() >> 1);
                works.push(match timed_writes.take() {
                    Some(writes) => Box::new(move || writes.time(&mut write).map(|()| 1)),
                    None => Box::new(move || write().map(|()| 1)),
                });
            }
        }
        let rates = rates(works, self.plan.run)?;
        let (read, written) = rates.split_at(self.readers);
        let mut sample = at_rate(read.iter().sum());
        if self.writers > 0 {
            sample = sample.noting("writes_per_second", written.iter().sum());
            sample = writes.note(reads.note(sample, READS), WRITES);
        }
        store.close()?;
        Ok(sample)
    }
}
