//! A thread that writes to the heap.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use pheap::{Error, P, Root, Txn};

use crate::content::{Shard, step};
use crate::load::Load;
use crate::temps::Life;
use crate::{Mistake, Result, say, text};
use pheap_testkit::Rng;

/// Time for which a mistake stays visible, so that a power cut hits it soon.
const WIDE: Duration = Duration::from_millis(10);

pub struct Worker<'a> {
    load: &'a Load<'a>,
    thread: u64,
    life: Life,
    rng: Rng,
    /// For each root, the last transaction of this thread that is committed and not acknowledged; 0 if there
    /// is none.
    pending: Vec<u64>,
    commits: u64,
    ack_every: u64,
}

impl<'a> Worker<'a> {
    pub fn new(load: &'a Load<'a>, thread: u64, life: Life, mut rng: Rng) -> Worker<'a> {
        let ack_every = 1 + rng.scaled(load.args.ack_every);
        Worker { load, thread, life, rng, pending: vec![0; load.shards.len()], commits: 0, ack_every }
    }

    pub fn run(mut self) -> Result {
        while !self.load.stops() {
            self.act().map_err(text)?;
            if self.commits >= self.ack_every {
                self.acknowledge();
            }
        }
        self.acknowledge();
        Ok(())
    }

    fn act(&mut self) -> pheap::Result<()> {
        let heap = self.load.heap;
        match self.rng.scaled(128) {
            0..=2 => self.life.go_on(heap),
            3..=6 => self.life.change(),
            7..=26 => self.transfer(),
            27..=28 => self.everywhere(),
            29..=36 => self.give_up(),
            37..=38 => self.panic(),
            39 => match self.rng.scaled(12) {
                0 => heap.collect(),
                1..=3 => heap.checkpoint(),
                4..=7 => heap.sync(),
                _ => Ok(()),
            },
            _ => self.step(),
        }
    }

    fn acknowledge(&mut self) {
        let lines: Vec<String> = self
            .pending
            .iter_mut()
            .zip(0..)
            .filter_map(|(n, root)| (*n > 0).then(|| format!("ack {root} {}", std::mem::take(n))))
            .collect();
        if !lines.is_empty() {
            say(format_args!("{}", lines.join("\n")));
        }
        self.commits = 0;
    }

    fn committed(&mut self, root: usize, n: u64) {
        self.pending[root] = n;
        self.commits += 1;
    }

    /// Returns one of the roots, mostly the one that belongs to this thread.
    fn pick(&mut self) -> usize {
        let roots = self.load.shards.len() as u64;
        (if self.rng.scaled(3) > 0 { self.thread % roots } else { self.rng.scaled(roots) }) as usize
    }

    fn pick_two(&mut self) -> (usize, usize) {
        let (from, by) = (self.pick(), 1 + self.rng.scaled(self.load.shards.len() as u64 - 1) as usize);
        (from, (from + by) % self.load.shards.len())
    }

    fn step(&mut self) -> pheap::Result<()> {
        let (i, other) = self.pick_two();
        // If this transaction survives, the transaction that it has read must survive as well.
        let witness = match self.rng.scaled(4) {
            0 => self.load.shards[other].read(|view, shard| view[shard].n)?,
            _ => 0,
        };
        let early = self.load.args.mistake == Mistake::EarlyAck;
        let n = self.load.shards[i].txn(|tx, shard| {
            if early {
                say(format_args!("ack {i} {}", tx[shard].n + 1));
                std::thread::sleep(WIDE);
            }
            if witness > tx[shard].witness[other] {
                tx[shard].witness[other] = witness;
            }
            step(tx, shard)
        })?;
        self.committed(i, n);
        Ok(())
    }

    /// Moves money from one root to another.
    fn transfer(&mut self) -> pheap::Result<()> {
        let ((i, j), amount) = (self.pick_two(), self.rng.scaled(1000));
        let (from, to) = (&self.load.shards[i], &self.load.shards[j]);
        if self.load.args.mistake == Mistake::Split {
            return self.split_transfer(i, j, amount);
        }
        let done = pheap::txn((from, to), |((tx, shard), (tx_to, shard_to))| {
            let n = step(tx, shard)?;
            let m = step(tx_to, shard_to)?;
            tx[shard].witness[j] = m;
            tx_to[shard_to].witness[i] = n;
            tx_to[shard_to].money += amount;
            withdraw(tx, shard, amount)?;
            Ok((n, m))
        });
        match done {
            Ok((n, m)) => {
                self.committed(i, n);
                self.committed(j, m);
                Ok(())
            }
            Err(Error::Aborted(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes a transfer in two transactions: the mistake [`Mistake::Split`].
    fn split_transfer(&mut self, i: usize, j: usize, amount: u64) -> pheap::Result<()> {
        let (from, to) = (&self.load.shards[i], &self.load.shards[j]);
        match from.txn(|tx, shard| withdraw(tx, shard, amount)) {
            Ok(()) => {
                std::thread::sleep(WIDE);
                to.txn(|tx, shard| {
                    tx[shard].money += amount;
                    Ok(())
                })
            }
            Err(Error::Aborted(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Runs one transaction over all roots.
    fn everywhere(&mut self) -> pheap::Result<()> {
        let numbers = pheap::txn(self.load.shards, |mut shards| {
            let numbers =
                (0..shards.len()).map(|i| shards.with(i, step)).collect::<pheap::Result<Vec<u64>>>()?;
            for i in 0..shards.len() {
                shards.with(i, |tx, shard| tx[shard].witness[..numbers.len()].copy_from_slice(&numbers));
            }
            Ok(numbers)
        })?;
        for (i, n) in numbers.into_iter().enumerate() {
            self.committed(i, n);
        }
        Ok(())
    }

    /// Runs a transaction that makes the changes of one or two transactions, and fails.
    fn give_up(&mut self) -> pheap::Result<()> {
        let (root, twice) = (&self.load.shards[self.pick()], self.rng.scaled(2) == 0);
        match root.txn(|tx, shard| spoil(tx, shard, twice)) {
            Err(Error::Aborted(_)) => Ok(()),
            other => other,
        }
    }

    fn panic(&mut self) -> pheap::Result<()> {
        let (root, twice): (&Root<Shard<'static>>, _) =
            (&self.load.shards[self.pick()], self.rng.scaled(2) == 0);
        let run = || {
            root.txn(|tx, shard| {
                let result = spoil(tx, shard, twice);
                if matches!(result, Err(Error::Aborted(_))) {
                    resume_unwind(Box::new("on purpose")); // without a message
                }
                result
            })
        };
        catch_unwind(AssertUnwindSafe(run)).unwrap_or(Ok(()))
    }
}

fn withdraw<'r>(tx: &mut Txn<'r>, shard: P<'r, Shard<'r>>, amount: u64) -> pheap::Result<()> {
    let rest = tx[shard].money.checked_sub(amount).ok_or_else(|| Error::abort("no money"))?;
    tx[shard].money = rest;
    Ok(())
}

/// Makes changes, and fails.
fn spoil<'r>(tx: &mut Txn<'r>, shard: P<'r, Shard<'r>>, twice: bool) -> pheap::Result<()> {
    step(tx, shard)?;
    if twice {
        step(tx, shard)?;
    }
    tx[shard].money = 0;
    Err(Error::abort("on purpose"))
}
