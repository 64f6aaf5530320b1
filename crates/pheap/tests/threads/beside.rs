//! Readers and transactions on one root. As long as a reader is inside, nothing that it looks at changes,
//! whichever way it got in.

use std::sync::{Mutex, mpsc};
use std::thread;

use pheap::{Error, Held, Options, P, PVec, Persist, Root, Txn, View, field};

use super::for_each_kind;
use pheap_testkit::Rng;
use pheap_testkit::threads::{sleeps, this_thread};

const EACH: u64 = 150;

/// All numbers are the same, once a transaction has ended.
#[derive(Persist, Default)]
#[repr(C)]
struct Same<'r> {
    number: u64,
    array: Option<P<'r, [u64]>>,
    list: PVec<'r, u64>,
}

type Sames = [Root<Same<'static>>; 2];
type Kept = Mutex<Vec<(usize, Held<[u64]>)>>;

fn roots(heap: &pheap::Heap) -> Sames {
    ["a", "b"].map(|name| heap.root(name).unwrap())
}

fn change<'r>(tx: &mut Txn<'r>, p: P<'r, Same<'r>>, random: &mut Rng) -> pheap::Result<Held<[u64]>> {
    let next = tx[p].number + 1;
    tx[p].number = next;
    match tx[p].array {
        // Mostly the old array is changed in place.
        Some(array) if random.below(3) > 0 => tx.slice_mut(array, ..).fill(next),
        _ => {
            let len = [3, 40, 300, 9000][random.below(4)];
            tx[p].array = Some(tx.alloc_slice(len, |_| next)?);
        }
    }
    // Buffers are freed, and taken again.
    let list = field!(p.list);
    match random.below(4) {
        0 => list.shrink_to_fit(tx)?,
        1 => tx[p].list = PVec::default(),
        _ => {}
    }
    list.clear(tx);
    list.extend(tx, std::iter::repeat_n(next, random.below(200)))?;
    Ok(tx.hold(tx[p].array.unwrap()))
}

fn write(roots: &Sames, kept: &Kept, random: &mut Rng) {
    let i = random.below(2);
    let keep = |i, held| {
        let mut kept = kept.lock().unwrap();
        kept.truncate(20);
        kept.push((i, held));
    };
    match random.below(5) {
        0 => {
            let held = pheap::txn((&roots[0], &roots[1]), |((ta, a), (tb, b))| {
                Ok([change(ta, a, random)?, change(tb, b, random)?])
            });
            held.unwrap().into_iter().enumerate().for_each(|(i, held)| keep(i, held));
        }
        1 => {
            let given_up = roots[i].txn(|tx, p| {
                change(tx, p, random)?;
                Err::<(), _>(Error::abort("given up"))
            });
            given_up.unwrap_err();
        }
        _ => {
            let held = roots[i].txn(|tx, p| {
                let held = change(tx, p, random)?;
                // So the array that others hold does not change any more.
                tx[p].array = Some(tx.alloc_slice(random.below(50) + 1, |_| tx[p].number)?);
                Ok(held)
            });
            keep(i, held.unwrap());
        }
    }
}

fn numbers<'r>(view: &View<'r>, p: P<'r, Same<'r>>) -> Vec<u64> {
    let same = &view[p];
    let array = same.array.map_or(&[][..], |array| &view[array]);
    let numbers: Vec<u64> = same.list.iter(view).chain(array).chain([&same.number]).copied().collect();
    assert!(numbers.iter().all(|&number| number == same.number), "{numbers:?}");
    numbers
}

fn read(roots: &Sames, kept: &Kept, random: &mut Rng) {
    let i = random.below(2);
    roots[i]
        .read(|view, p| {
            let seen = numbers(view, p);
            let held = kept.lock().unwrap().pop();
            let mut inner = Vec::new();
            let mut array = None;
            if let Some((of, held)) = held {
                if of == i {
                    let found = view.get(&held).unwrap();
                    array = Some((found, view[found].to_vec()));
                }
                // Drops the last handle: the object that it held may be garbage from now on.
                drop(held);
            }
            for _ in 0..random.below(4) {
                thread::yield_now();
                roots[1 - i].read(|view, p| inner = numbers(view, p)).unwrap();
                if random.below(2) == 0 {
                    roots[i].read(|view, p| assert_eq!(numbers(view, p), seen)).unwrap();
                }
                if let Some((found, before)) = &array {
                    assert_eq!(&view[*found], before);
                }
            }
            assert_eq!(numbers(view, p), seen);
        })
        .unwrap();
}

#[test]
fn nothing_changes_as_long_as_somebody_looks() {
    for_each_kind(
        |heap, random| {
            let (roots, kept) = (&roots(heap), &Kept::default());
            thread::scope(|scope| {
                for _ in 0..2 {
                    let mut random = Rng::from_seed(random.next_u64());
                    scope.spawn(move || (0..EACH).for_each(|_| write(roots, kept, &mut random)));
                }
                for _ in 0..3 {
                    let mut random = Rng::from_seed(random.next_u64());
                    scope.spawn(move || (0..4 * EACH).for_each(|_| read(roots, kept, &mut random)));
                }
                scope.spawn(|| (0..EACH / 4).for_each(|_| heap.collect().unwrap()));
                scope.spawn(|| (0..EACH / 4).for_each(|_| heap.checkpoint().unwrap()));
            });
        },
        |heap| {
            for root in &roots(heap) {
                root.read(|view, p| drop(numbers(view, p))).unwrap();
            }
        },
    );
}

/// While a reader is inside, no cycle begins: it would not find an object that only the reader knows.
#[test]
fn an_object_stays_as_long_as_somebody_may_look_at_it() {
    let heap = Options::new().reserve(1 << 30).collect_least(4 << 10).in_memory().unwrap();
    let root: Root<u64> = heap.root("number").unwrap();
    // So much that a cycle is to begin at the next good moment.
    let held = root.txn(|tx, _| {
        tx.alloc_slice(384, |_| 0u64)?;
        Ok(tx.hold(tx.alloc_slice(64, |_| 7u64)?))
    });
    let (heap, root) = (&heap, &root);
    thread::scope(|scope| {
        root.read(move |view, _| {
            let held = held.unwrap();
            let numbers = view.get(&held).unwrap();
            drop(held);
            let writes = scope.spawn(|| {
                (0..100).for_each(|_| root.txn(|_, _| Ok(())).unwrap());
                let given_up = root.txn(|tx, _| {
                    (0..100).try_for_each(|_| tx.alloc_slice(64, |_| 9u64).map(drop))?;
                    Err::<(), _>(Error::abort("given up"))
                });
                given_up.unwrap_err();
            });
            writes.join().unwrap();
            assert_eq!(view[numbers], [7; 64]);
            let (tell, told) = mpsc::channel();
            let collects = scope.spawn(move || {
                tell.send(this_thread()).unwrap();
                heap.collect().unwrap();
            });
            let thread = told.recv().unwrap();
            while !sleeps(thread) {
                assert!(!collects.is_finished(), "a cycle has begun");
                thread::yield_now();
            }
            assert_eq!(view[numbers], [7; 64]);
        })
        .unwrap();
    });
}
