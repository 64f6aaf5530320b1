//! `touch`: `n` stores to a word of an object, or reads of it, within transactions. The transaction has
//! touched the object before, or has not. It is a short transaction, or a long one (`:undo`). The figures do
//! not include beginning and committing the transactions.

use crate::scratch::Scratch;
use crate::{Case, Result, Sample, Setup};
use pheap::{P, Persist, Root, Txn, View, txn};
use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Number of objects that are touched in turn.
const OBJECTS: usize = 8;
/// Distance of the touched elements of the large array, so that they share no block of the undo log.
const STRIDE: usize = 509;
/// Number of times that a transaction touches each object, if it touches objects again.
const ROUNDS: u64 = 64;

/// The root of the heap: objects of three sizes, and an array that is too large for a copy.
#[derive(Persist)]
#[repr(C)]
struct All<'r> {
    bytes_8: [P<'r, [u64; 1]>; OBJECTS],
    bytes_64: [P<'r, [u64; 8]>; OBJECTS],
    bytes_256: [P<'r, [u64; 32]>; OBJECTS],
    array: P<'r, [u64]>,
    /// Written so that the transaction has a copy, but none of the touched objects.
    other: u64,
}

/// The measured operation.
#[derive(Clone, Copy, PartialEq)]
enum What {
    /// The first store of the transaction to each object.
    StoreFirst,
    /// Further stores to each object.
    StoreAgain,
    /// Reads of objects that the transaction has not written. It has written another object.
    Read,
    /// Reads of objects that the transaction has written.
    ReadWritten,
}

/// Returns all variants.
pub fn cases(setup: &Setup, n: u64) -> Result<Vec<Case>> {
    let mut cases = vec![volatile(n, What::StoreAgain), volatile(n, What::Read)];
    let short = setup.modes().map(|(options, name)| (options, name.to_owned()));
    let long = setup.undo_modes().map(|(options, name)| (options, format!("{name}:undo")));
    for (options, name) in short.chain(long) {
        let heap = Rc::new(setup.heap_with(&options)?);
        let root = Rc::new(heap.heap.root_or("all", |tx| {
            let mut all = All {
                bytes_8: [tx.alloc([0])?; OBJECTS],
                bytes_64: [tx.alloc([0; 8])?; OBJECTS],
                bytes_256: [tx.alloc([0; 32])?; OBJECTS],
                array: tx.alloc_slice(OBJECTS * STRIDE, |_| 0)?,
                other: 0,
            };
            for i in 1..OBJECTS {
                all.bytes_8[i] = tx.alloc([0])?;
                all.bytes_64[i] = tx.alloc([0; 8])?;
                all.bytes_256[i] = tx.alloc([0; 32])?;
            }
            Ok(all)
        })?);
        for what in [What::StoreFirst, What::StoreAgain, What::Read, What::ReadWritten] {
            for (size, pass) in [
                ("8", pass::<Bytes8> as Pass),
                ("64", pass::<Bytes64>),
                ("256", pass::<Bytes256>),
                ("element", pass::<Elements>),
            ] {
                let (heap, root) = (heap.clone(), root.clone());
                let variant = format!("{name}:{}:{size}", label(what));
                cases.push(Case::new("pheap", "touch", variant, n, move || pass(&heap, &root, n, what)));
            }
        }
    }
    Ok(cases)
}

fn label(what: What) -> &'static str {
    match what {
        What::StoreFirst => "store_first",
        What::StoreAgain => "store_again",
        What::Read => "read",
        What::ReadWritten => "read_written",
    }
}

type Pass = fn(&Scratch, &Root<All<'static>>, u64, What) -> Result<Sample>;

/// The objects that are touched.
trait Touched {
    type Found<'r>: Copy;
    fn find<'r>(all: &All<'r>) -> Self::Found<'r>;
    fn store<'r>(tx: &mut Txn<'r>, found: Self::Found<'r>, rounds: u64);
    fn sum<'r>(view: &View<'r>, found: Self::Found<'r>, rounds: u64) -> u64;
}

macro_rules! objects {
    ($name:ident $field:ident $words:literal) => {
        struct $name;

        impl Touched for $name {
            type Found<'r> = [P<'r, [u64; $words]>; OBJECTS];

            fn find<'r>(all: &All<'r>) -> Self::Found<'r> {
                all.$field
            }

            #[inline(never)]
            #[txn]
            fn store<'r>(tx: &mut Txn<'r>, objects: Self::Found<'r>, rounds: u64) {
                for _ in 0..rounds {
                    for object in objects {
                        tx[object][0] += 1;
                    }
                }
            }

            #[inline(never)]
            fn sum<'r>(view: &View<'r>, objects: Self::Found<'r>, rounds: u64) -> u64 {
                let mut sum = 0;
                for _ in 0..rounds {
                    for object in black_box(objects) {
                        sum += view[object][0];
                    }
                }
                sum
            }
        }
    };
}

objects!(Bytes8 bytes_8 1);
objects!(Bytes64 bytes_64 8);
objects!(Bytes256 bytes_256 32);

struct Elements;

impl Touched for Elements {
    type Found<'r> = P<'r, [u64]>;

    fn find<'r>(all: &All<'r>) -> Self::Found<'r> {
        all.array
    }

    #[inline(never)]
    #[txn]
    fn store<'r>(tx: &mut Txn<'r>, array: P<'r, [u64]>, rounds: u64) {
        for _ in 0..rounds {
            for i in 0..OBJECTS {
                tx[array][i * STRIDE] += 1;
            }
        }
    }

    #[inline(never)]
    fn sum<'r>(view: &View<'r>, array: P<'r, [u64]>, rounds: u64) -> u64 {
        let mut sum = 0;
        for _ in 0..rounds {
            for i in 0..black_box(OBJECTS) {
                sum += view[array.at(view, i * STRIDE)];
            }
        }
        sum
    }
}

/// Runs one pass: transactions with [`OBJECTS`] touches, or [`ROUNDS`] times as many.
fn pass<T: Touched>(heap: &Scratch, root: &Root<All<'static>>, n: u64, what: What) -> Result<Sample> {
    let rounds = if what == What::StoreFirst { 1 } else { ROUNDS };
    let clock = clock();
    let mut times = Vec::new();
    let before = heap.heap.stats().fences;
    for _ in 0..n / (OBJECTS as u64 * rounds) {
        root.txn(|tx, p| {
            let found = T::find(&tx[p]);
            match what {
                What::StoreFirst => {}
                What::Read => tx[pheap::field!(p.other)] += 1,
                // Twice: the second access finds the copy, and caches its place.
                What::StoreAgain | What::ReadWritten => T::store(tx, found, 2),
            }
            let start = Instant::now();
            match what {
                What::StoreFirst | What::StoreAgain => T::store(tx, found, rounds),
                What::Read | What::ReadWritten => {
                    black_box(T::sum(tx, found, rounds));
                }
            }
            times.push(start.elapsed().saturating_sub(clock));
            Ok(())
        })?;
    }
    let fences = heap.heap.stats().fences - before;
    // A time of some microseconds rarely includes an interrupt, so the median excludes them.
    let middle = times.len() / 2;
    let (_, median, _) = times.select_nth_unstable(middle);
    let seconds = median.as_secs_f64() * times.len() as f64;
    Ok(Sample { seconds, ..Sample::default() }.noting("fences", fences as f64))
}

/// Returns the time of reading the clock.
fn clock() -> Duration {
    let look = || {
        let start = Instant::now();
        start.elapsed()
    };
    (0..100).map(|_| look()).min().unwrap_or_default()
}

/// The same stores and reads through boxes.
fn volatile(n: u64, what: What) -> Case {
    let mut objects = [(); OBJECTS].map(|()| Box::new([0u64; 8]));
    Case::new("volatile", "touch", format!("box:{}", label(what)), n, move || {
        let rounds = n / OBJECTS as u64;
        let (sample, _) = Sample::time(|| {
            let mut sum = 0;
            for _ in 0..rounds {
                for object in black_box(&mut objects) {
                    match what {
                        What::Read | What::ReadWritten => sum += object[0],
                        _ => object[0] += 1,
                    }
                }
            }
            black_box(sum)
        });
        Ok(sample)
    })
}
