//! The table in the heap, the steps, and the model that the table is compared with.

use std::ops::Range;
use std::path::Path;

use pheap::{Error, Heap, Options, P, Persist, Result, Root, Txn, txn};

use crate::content::{Draft, Item, numbers};

/// The root of the heap.
#[derive(Persist)]
#[repr(C)]
pub struct Table<'r> {
    items: P<'r, [Item<'r>]>,
    /// The number of the last step that was done. Each transaction changes it together with the items.
    done: u64,
}

/// The parameters of a run. They determine all steps and items.
#[derive(Clone, Copy)]
pub struct Plan {
    pub seed: u64,
    /// Number of places in the table.
    pub places: u64,
}

/// The changes of one step.
pub struct Step {
    /// Place of the new item.
    pub place: usize,
    /// Two places whose items are swapped after that.
    pub swap: Option<(usize, usize)>,
}

impl Plan {
    /// Returns a plan with as many places as items need to take about `bytes` in total.
    pub fn new(seed: u64, bytes: u64) -> Plan {
        const SAMPLES: u64 = 20_000;
        let sum: u64 = (1..=SAMPLES).map(|number| Draft::new(!seed, number).bytes()).sum();
        Plan { seed, places: (bytes / (sum / SAMPLES + size_of::<Item>() as u64)).max(1) }
    }

    pub fn step(&self, number: u64) -> Step {
        let mut rng = numbers(!self.seed, number);
        if number <= self.places {
            return Step { place: number as usize - 1, swap: None }; // fills the table
        }
        let mut place = || rng.below(self.places as usize);
        let (a, b, c) = (place(), place(), place());
        Step { place: a, swap: (rng.below(8) == 0).then_some((b, c)) }
    }

    /// Returns the steps of the transaction that begins with step `first`, and whether it is aborted once
    /// before it succeeds.
    fn transaction(&self, first: u64, last: u64) -> (Range<u64>, bool) {
        let mut rng = numbers(self.seed.rotate_left(32), first);
        let count = if rng.below(100) == 0 { 2000 } else { 1 + rng.below(40) as u64 };
        (first..(first + count).min(last + 1), rng.below(50) == 0)
    }
}

/// An open heap with a table.
pub struct Store {
    pub heap: Heap,
    root: Root<Table<'static>>,
    plan: Plan,
}

impl Store {
    /// Opens the heap, or creates it.
    pub fn open(options: &Options, path: &Path, plan: Plan) -> Result<Store> {
        let heap = options.open(path)?;
        let root = heap.root_or("table", |tx| {
            let items = tx.alloc_slice(plan.places as usize, |_| Item::Nothing)?;
            Ok(Table { items, done: 0 })
        })?;
        Ok(Store { heap, root, plan })
    }

    /// Opens an existing heap, perhaps read-only.
    pub fn open_existing(options: &Options, path: &Path, plan: Plan) -> Result<Store> {
        let heap = options.open(path)?;
        let root = heap.existing_root("table")?;
        Ok(Store { heap, root, plan })
    }

    /// Returns the number of the last step that was done.
    pub fn done(&self) -> Result<u64> {
        self.root.read(|view, table| view[table].done)
    }

    /// Runs the next transaction, of steps up to number `last`. Returns the number of its last step.
    pub fn transaction(&self, last: u64) -> Result<u64> {
        let (steps, given_up) = self.plan.transaction(self.done()? + 1, last);
        let run = |give_up: bool| {
            self.root.txn(|tx, table| {
                for number in steps.clone() {
                    self.step(tx, table, number)?;
                }
                if give_up { Err(Error::abort("as planned")) } else { Ok(()) }
            })
        };
        if given_up {
            match run(true) {
                Err(Error::Aborted(_)) => {}
                other => other?,
            }
        }
        run(false)?;
        Ok(steps.end - 1)
    }

    fn step<'r>(&self, tx: &mut Txn<'r>, table: P<'r, Table<'r>>, number: u64) -> Result<()> {
        let Step { place, swap } = self.plan.step(number);
        let item = Draft::new(self.plan.seed, number).make(tx)?;
        put(tx, table, place, item, number);
        if let Some((a, b)) = swap {
            let items = tx[table].items;
            tx.swap(items.at(tx, a), items.at(tx, b));
        }
        Ok(())
    }

    /// Compares the whole content with `model`, which has done the same steps. Returns the bytes of all
    /// items.
    pub fn compare(&self, model: &Model) -> Result<u64> {
        let plan = self.plan;
        self.root.read(|view, table| {
            assert_eq!(view[table].done, model.done, "the model has done other steps");
            let items = &view[view[table].items];
            assert_eq!(items.len(), model.items.len());
            let mut bytes = size_of_val(items) as u64;
            for (place, (item, &number)) in items.iter().zip(&model.items).enumerate() {
                let draft = Draft::new(plan.seed, number.into());
                if !draft.is(view, item) {
                    return Err(Error::abort(format!("place {place} does not hold item {number}")));
                }
                bytes += draft.bytes();
            }
            Ok(bytes)
        })?
    }
}

#[txn]
fn put<'r>(tx: &mut Txn<'r>, table: P<'r, Table<'r>>, place: usize, item: Item<'r>, number: u64) {
    let items = tx[table].items;
    tx[items][place] = item;
    tx[table].done = number;
}

/// The model: the number of the item that must be in each place.
pub struct Model {
    plan: Plan,
    items: Vec<u32>,
    pub done: u64,
}

impl Model {
    pub fn new(plan: Plan) -> Model {
        Model { plan, items: vec![0; plan.places as usize], done: 0 }
    }

    /// Does all steps up to step `to`.
    pub fn advance(&mut self, to: u64) {
        for number in self.done + 1..=to {
            let Step { place, swap } = self.plan.step(number);
            self.items[place] = u32::try_from(number).expect("fewer steps than that");
            if let Some((a, b)) = swap {
                self.items.swap(a, b);
            }
        }
        self.done = self.done.max(to);
    }
}
