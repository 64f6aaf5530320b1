//! `alloc`: steady-state replacement. A table has live objects of 64 to 256 bytes, not counting a length.
//! Each of `n` steps replaces a random object by a new one. In volatile Rust that is a `malloc` and a `free`.
//! On the heap the old object becomes garbage, and is collected.
//!
//! Several threads share the steps and the live objects: each has its own table, which is a root of the heap.

use crate::measure::Checksum;
use crate::mi_box::MiBox;
use crate::scratch::Scratch;
use crate::threads::together;
use crate::{Case, Result, Sample, Setup};
use crate::{Rng, SEED};
use pheap::{P, Persist, Root, Txn, View, txn};
use std::ops::Deref;
use std::rc::Rc;

/// Number of objects in all tables.
const LIVE: u64 = 100_000;
/// Words of an object: 64 to 256 bytes.
const WORDS: std::ops::RangeInclusive<u64> = 8..=32;
/// Objects allocated in one transaction while a table is filled.
const AT_ONCE: u64 = 10_000;
/// Numbers of replacements in a transaction, with their names.
const SIZES: [(u64, &str); 2] = [(1000, "1000"), (30, "30")];

/// Returns all variants of `n` replacements by this number of threads.
pub fn cases(setup: &Setup, n: u64, threads: u64) -> Result<Vec<Case>> {
    let mut cases = vec![
        volatile("box", n, threads, |words, value| vec![value; words].into_boxed_slice()),
        volatile("box-mimalloc", n, threads, MiBox::of_words),
    ];
    for (options, name) in setup.modes() {
        // Variants share their tables, which are always full.
        let heap = Rc::new(setup.heap_with(&options)?);
        let table = |t| Table::new(&heap.heap.root(&format!("table {t}"))?, LIVE / threads);
        let tables: Rc<[Table]> = (0..threads).map(table).collect::<pheap::Result<_>>()?;
        for (at_once, suffix) in SIZES {
            let (heap, tables) = (heap.clone(), tables.clone());
            let pass = move || pass(&heap, &tables, n, at_once);
            cases.push(Case::new("pheap", "alloc", format!("{name}:{suffix}"), n, pass));
        }
    }
    Ok(cases.into_iter().map(|case| case.threads(threads)).collect())
}

/// The sequence of steps: the number of an object, and the words of the new object.
struct Steps(Rng);

impl Steps {
    fn new(seed: u64) -> Steps {
        Steps(Rng::from_seed(seed))
    }

    #[inline]
    fn next(&mut self, live: u64) -> (usize, usize) {
        (self.0.scaled(live) as usize, self.words())
    }

    #[inline]
    fn words(&mut self) -> usize {
        (WORDS.start() + self.0.scaled(WORDS.end() - WORDS.start() + 1)) as usize
    }
}

/// Returns the steps of thread `t`.
fn steps_of(t: usize) -> Steps {
    Steps::new(SEED + t as u64)
}

fn volatile<S: Deref<Target = [u64]> + Send + 'static>(
    name: &str,
    n: u64,
    threads: u64,
    object: impl Fn(usize, u64) -> S + Copy + Sync + 'static,
) -> Case {
    let live = LIVE / threads;
    let table = |_| {
        let mut steps = Steps::new(!SEED);
        (0..live).map(|i| object(steps.words(), i)).collect()
    };
    let mut tables: Vec<Vec<S>> = (0..threads).map(table).collect();
    Case::new("volatile", "alloc", name, n, move || {
        let seconds = together(tables.iter_mut().enumerate().collect(), |(t, table)| {
            let mut steps = steps_of(t);
            for i in 0..n / threads {
                let (place, words) = steps.next(live);
                table[place] = object(words, i);
            }
            Ok::<_, pheap::Error>(())
        })?;
        let sums = tables.iter().map(|table| checksum(table.iter().map(|object| &**object)));
        Ok(Sample { seconds, ..Sample::default() }.with(total(sums)))
    })
}

fn pass(heap: &Scratch, tables: &[Table], n: u64, at_once: u64) -> Result<Sample> {
    let before = heap.heap.stats();
    let each = n / tables.len() as u64;
    let (sample, seconds) = heap.time(|| {
        together(tables.iter().enumerate().collect(), |(t, table)| {
            let mut steps = steps_of(t);
            for first in (0..each).step_by(at_once as usize) {
                table.replace(&mut steps, first..each.min(first + at_once))?;
            }
            Ok(())
        })
    })?;
    let stats = heap.heap.stats();
    let sums: Vec<u64> = tables.iter().map(Table::checksum).collect::<pheap::Result<_>>()?;
    Ok(Sample { seconds, ..sample }
        .with(total(sums.into_iter()))
        .noting("file_bytes", stats.file_bytes as f64)
        .noting("collections", (stats.collections - before.collections) as f64)
        .noting("collecting_seconds", (stats.collecting - before.collecting).as_secs_f64()))
}

fn total(sums: impl Iterator<Item = u64>) -> Checksum {
    Checksum::Int(sums.fold(0, u64::wrapping_add).into())
}

type Object<'r> = Option<P<'r, [u64]>>;

/// The root of the heap.
#[derive(Default, Persist)]
#[repr(C)]
pub(crate) struct Objects<'r> {
    objects: Option<P<'r, [Object<'r>]>>,
}

/// A table of live objects on a heap.
pub(crate) struct Table {
    root: Root<Objects<'static>>,
    live: u64,
}

impl Table {
    /// Fills a table with `live` objects. All tables of this size are filled with equal objects.
    pub(crate) fn new(root: &Root<Objects<'static>>, live: u64) -> pheap::Result<Table> {
        let mut steps = Steps::new(!SEED);
        root.txn(|tx, root| {
            let objects = tx.alloc_slice(live as usize, |_| None)?;
            tx[root].objects = Some(objects);
            Ok(())
        })?;
        for first in (0..live).step_by(AT_ONCE as usize) {
            root.txn(|tx, root| {
                let objects = objects(tx, root);
                let range = first as usize..live.min(first + AT_ONCE) as usize;
                let new: Vec<_> =
                    range.clone().map(|i| new(tx, steps.words(), i as u64)).collect::<pheap::Result<_>>()?;
                tx.slice_mut(objects, range).copy_from_slice(&new);
                Ok(())
            })?;
        }
        Ok(Table { root: root.clone(), live })
    }

    /// Returns the table that [`new`](Self::new) has filled.
    pub(crate) fn found(root: Root<Objects<'static>>, live: u64) -> Table {
        Table { root, live }
    }

    /// Makes these replacements in one transaction.
    fn replace(&self, steps: &mut Steps, numbers: std::ops::Range<u64>) -> pheap::Result<()> {
        self.root.txn(|tx, root| {
            let objects = objects(tx, root);
            for i in numbers {
                let (place, words) = steps.next(self.live);
                let new = new(tx, words, i)?;
                put(tx, objects, place, new);
            }
            Ok(())
        })
    }

    fn checksum(&self) -> pheap::Result<u64> {
        self.root.read(|view, root| {
            let objects = &view[objects(view, root)];
            checksum(objects.iter().flatten().map(|&object| &view[object]))
        })
    }
}

fn objects<'r>(view: &View<'r>, root: P<'r, Objects<'r>>) -> P<'r, [Object<'r>]> {
    view[root].objects.expect("the table was filled")
}

#[inline]
fn new<'r>(tx: &Txn<'r>, words: usize, value: u64) -> pheap::Result<Object<'r>> {
    tx.alloc_slice(words, |_| value).map(Some)
}

#[txn]
fn put<'r>(tx: &mut Txn<'r>, objects: P<'r, [Object<'r>]>, place: usize, new: Object<'r>) {
    tx[objects][place] = new;
}

/// An endless sequence of replacements.
pub(crate) struct Writer {
    table: Table,
    steps: Steps,
    next: u64,
}

impl Writer {
    pub(crate) fn new(table: Table) -> Writer {
        Writer { table, steps: Steps::new(SEED), next: 0 }
    }

    /// Makes the next `count` replacements in one transaction.
    pub(crate) fn transaction(&mut self, count: u64) -> pheap::Result<()> {
        self.table.replace(&mut self.steps, self.next..self.next + count)?;
        self.next += count;
        Ok(())
    }
}

/// Mean size of an object in bytes, including its length.
pub(crate) const MEAN_BYTES: u64 = 8 + 4 * (*WORDS.start() + *WORDS.end());

/// Returns a checksum of the first and the last word of each object.
fn checksum<'a>(objects: impl Iterator<Item = &'a [u64]>) -> u64 {
    let ends =
        |object: &[u64]| object[0].wrapping_add(object[object.len() - 1]).wrapping_mul(object.len() as u64);
    let terms = objects.zip(1..).map(|(object, i): (_, u64)| ends(object).wrapping_mul(i));
    terms.fold(0, u64::wrapping_add)
}
