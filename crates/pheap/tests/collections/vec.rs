//! `PVec` compared with `Vec`.

use pheap::{P, PHashMap, PVec, PVecDeque, Result, Txn, View};
use proptest::prelude::*;

use crate::twins::{self, Twins, twins};

#[derive(Debug, Clone)]
enum Op {
    Push(u64),
    Pop,
    Insert(usize, u64),
    Remove(usize),
    SwapRemove(usize),
    Set(usize, u64),
    Swap(usize, usize),
    Truncate(usize),
    Clear,
    Reserve(usize),
    Shrink,
    Extend(Vec<u64>),
    Resize(usize, u64),
    Drain(usize, usize),
    /// Split off, and appended again, or not.
    Split(usize, bool),
    Retain(u64),
    Extract(u64),
    Dedup,
    Reverse,
    Sort,
    Write(usize, usize, u64),
}

fn op() -> BoxedStrategy<Op> {
    let at = || 0..40usize;
    let value = || 0..50u64;
    prop_oneof![
        8 => value().prop_map(Op::Push),
        3 => Just(Op::Pop),
        2 => (at(), value()).prop_map(|(i, v)| Op::Insert(i, v)),
        2 => at().prop_map(Op::Remove),
        1 => at().prop_map(Op::SwapRemove),
        2 => (at(), value()).prop_map(|(i, v)| Op::Set(i, v)),
        1 => (at(), at()).prop_map(|(a, b)| Op::Swap(a, b)),
        1 => at().prop_map(Op::Truncate),
        1 => Just(Op::Clear),
        1 => (0..100usize).prop_map(Op::Reserve),
        1 => Just(Op::Shrink),
        2 => prop::collection::vec(value(), 0..150).prop_map(Op::Extend),
        1 => (at(), value()).prop_map(|(n, v)| Op::Resize(n, v)),
        1 => (at(), at()).prop_map(|(a, b)| Op::Drain(a, b)),
        2 => (at(), any::<bool>()).prop_map(|(i, again)| Op::Split(i, again)),
        1 => (1..5u64).prop_map(Op::Retain),
        1 => (1..5u64).prop_map(Op::Extract),
        1 => Just(Op::Dedup),
        1 => Just(Op::Reverse),
        1 => Just(Op::Sort),
        1 => (at(), at(), value()).prop_map(|(a, b, v)| Op::Write(a, b, v)),
    ]
    .boxed()
}

/// What an element is made of, so that the operations serve for vectors of numbers and of pointers.
trait Element<'r>: pheap::Persist<At<'r> = Self> {
    fn make(tx: &Txn<'r>, value: u64) -> Result<Self>;
    fn value(&self, view: &View<'r>) -> u64;
}

impl<'r> Element<'r> for u64 {
    fn make(_: &Txn<'r>, value: u64) -> Result<u64> {
        Ok(value)
    }

    fn value(&self, _: &View<'r>) -> u64 {
        *self
    }
}

impl<'r> Element<'r> for P<'r, u64> {
    fn make(tx: &Txn<'r>, value: u64) -> Result<Self> {
        tx.alloc(value)
    }

    fn value(&self, view: &View<'r>) -> u64 {
        view[*self]
    }
}

fn apply<'r, T: Element<'r>>(
    op: &Op,
    tx: &mut Txn<'r>,
    vec: P<'r, PVec<'r, T>>,
    twin: &mut Vec<u64>,
) -> Result<()> {
    let len = twin.len();
    match *op {
        Op::Push(v) => {
            let element = T::make(tx, v)?;
            vec.push(tx, element)?;
            twin.push(v);
        }
        Op::Pop => {
            let popped = vec.pop(tx);
            assert_eq!(popped.map(|e| e.value(tx)), twin.pop());
        }
        Op::Insert(i, v) if i <= len => {
            let element = T::make(tx, v)?;
            vec.insert(tx, i, element)?;
            twin.insert(i, v);
        }
        Op::Remove(i) if i < len => {
            let removed = vec.remove(tx, i);
            assert_eq!(removed.value(tx), twin.remove(i));
        }
        Op::SwapRemove(i) if i < len => {
            let removed = vec.swap_remove(tx, i);
            assert_eq!(removed.value(tx), twin.swap_remove(i));
        }
        Op::Set(i, v) if i < len => {
            let element = T::make(tx, v)?;
            let old = vec.set(tx, i, element);
            assert_eq!(old.value(tx), std::mem::replace(&mut twin[i], v));
        }
        Op::Swap(a, b) if a.max(b) < len => {
            vec.swap(tx, a, b);
            twin.swap(a, b);
        }
        Op::Truncate(n) => {
            vec.truncate(tx, n);
            twin.truncate(n);
        }
        Op::Split(i, again) => {
            let i = i.min(len);
            let (part, mut part_twin) = (vec.split_off(tx, i)?, twin.split_off(i));
            assert_eq!(
                (part.len(), part.capacity(tx), tx[vec].len()),
                (part_twin.len(), part.capacity(tx), i)
            );
            let part = tx.alloc(part)?;
            if again {
                vec.append(tx, part)?;
                twin.append(&mut part_twin);
            } else {
                std::mem::swap(twin, &mut part_twin);
                tx.swap(vec, part);
            }
        }
        Op::Clear => {
            vec.clear(tx);
            twin.clear();
        }
        Op::Reserve(n) => {
            vec.reserve(tx, n)?;
            assert!(tx[vec].capacity(tx) >= len + n);
        }
        Op::Shrink => {
            vec.shrink_to_fit(tx)?;
            assert_eq!(tx[vec].capacity(tx), len);
        }
        Op::Extend(ref values) => {
            let elements = values.iter().map(|&v| T::make(tx, v)).collect::<Result<Vec<_>>>()?;
            vec.extend(tx, elements)?;
            twin.extend(values);
        }
        Op::Drain(a, b) if a <= b && b <= len => {
            let drained: Vec<_> = vec.drain(tx, a..b).collect();
            let drained: Vec<_> = drained.iter().map(|e| e.value(tx)).collect();
            assert_eq!(drained, twin.drain(a..b).collect::<Vec<_>>());
        }
        Op::Reverse => {
            vec.reverse(tx);
            twin.reverse();
        }
        _ => {}
    }
    Ok(())
}

fn compare<'r, T: Element<'r>>(view: &View<'r>, vec: P<'r, PVec<'r, T>>, twin: &[u64]) {
    let vec = &view[vec];
    assert_eq!((vec.len(), vec.is_empty()), (twin.len(), twin.is_empty()));
    assert!(vec.iter(view).map(|e| e.value(view)).eq(twin.iter().copied()));
    assert!(vec.iter(view).rev().map(|e| e.value(view)).eq(twin.iter().rev().copied()));
    let mut ends = vec.iter(view);
    assert_eq!(ends.len(), twin.len());
    let mut other = twin.iter();
    for (i, &value) in twin.iter().enumerate() {
        let (a, b) =
            if i % 3 == 0 { (ends.next_back(), other.next_back()) } else { (ends.next(), other.next()) };
        assert_eq!(a.map(|e| e.value(view)), b.copied());
        assert_eq!(vec.get(view, i).map(|e| e.value(view)), Some(value));
    }
    assert!(ends.next().is_none() && vec.get(view, twin.len()).is_none());
    assert_eq!(vec.first(view).map(|e| e.value(view)), twin.first().copied());
    assert_eq!(vec.last(view).map(|e| e.value(view)), twin.last().copied());
    assert!(
        vec.iter(view).skip(2).step_by(3).map(|e| e.value(view)).eq(twin.iter().copied().skip(2).step_by(3))
    );
}

struct Numbers;

impl Twins for Numbers {
    type Root = PVec<'static, u64>;
    type Std = Vec<u64>;
    type Op = Op;

    fn ops() -> BoxedStrategy<Op> {
        op()
    }

    fn apply<'r>(op: &Op, tx: &mut Txn<'r>, vec: P<'r, PVec<'r, u64>>, twin: &mut Vec<u64>) -> Result<()> {
        match *op {
            Op::Resize(n, v) => {
                vec.resize(tx, n, v)?;
                twin.resize(n, v);
            }
            Op::Retain(n) => {
                vec.retain(tx, |v| v % n != 0);
                twin.retain(|v| v % n != 0);
            }
            Op::Extract(n) => {
                let taken: Vec<u64> = vec.extract_if(tx, |v| v % n == 0).collect();
                let (gone, kept) = twin.iter().partition(|&v| v % n == 0);
                assert_eq!(taken, gone as Vec<u64>);
                *twin = kept;
            }
            Op::Dedup => {
                vec.dedup(tx);
                twin.dedup();
            }
            Op::Sort => {
                vec.sort(tx);
                twin.sort();
                assert!((0..50).all(|v| tx[vec].binary_search(tx, &v).is_ok() == twin.contains(&v)));
                assert_eq!(tx[vec].partition_point(tx, |&v| v < 25), twin.partition_point(|&v| v < 25));
            }
            Op::Write(a, b, v) if a <= b && b <= twin.len() => {
                vec.as_mut_slice(tx, a..b).fill(v);
                twin[a..b].fill(v);
            }
            _ => apply(op, tx, vec, twin)?,
        }
        Ok(())
    }

    fn compare<'r>(view: &View<'r>, vec: P<'r, PVec<'r, u64>>, twin: &Vec<u64>) {
        compare(view, vec, twin);
        if twin.len().is_multiple_of(2) {
            // This ends the short path of a transaction, so not always.
            assert_eq!(view[vec].as_slice(view, ..), twin);
        }
    }
}

twins! {
    a_vector_of_pointers_is_like_that_of_std: Pointers, PVec<'static, P<'static, u64>>, Vec<u64>;
}

#[test]
fn a_vector_of_numbers_is_like_that_of_std() {
    twins::run::<Numbers>();
}

/// As those of std: an iterator may go on behind its first `None`, and then never end.
#[test]
fn what_extends_a_collection_ends_at_the_first_none() {
    let heap = pheap::Heap::in_memory().unwrap();
    let vec: pheap::Root<PVec<u64>> = heap.root("vec").unwrap();
    let map: pheap::Root<pheap::PHashMap<u64, u64>> = heap.root("map").unwrap();
    let set: pheap::Root<pheap::PHashSet<u64>> = heap.root("set").unwrap();
    for there in [0, 3, 100] {
        let three = |from: u64| {
            let mut calls = 0;
            std::iter::from_fn(move || {
                calls += 1;
                // So that the test ends if they go on.
                (calls % 4 > 0 && calls < 1000).then_some(from + calls)
            })
        };
        vec.txn(|tx, vec| {
            vec.clear(tx);
            vec.extend(tx, 0..there)?;
            vec.reserve(tx, 50)?;
            vec.extend(tx, three(there))?;
            assert_eq!(vec.len(tx) as u64, there + 3);
            Ok(())
        })
        .unwrap();
        map.txn(|tx, map| {
            map.clear(tx);
            map.extend(tx, (0..there).map(|key| (key, key)))?;
            map.extend(tx, three(there).map(|key| (key, key)))?;
            assert_eq!(map.len(tx) as u64, there + 3);
            Ok(())
        })
        .unwrap();
        set.txn(|tx, set| {
            set.clear(tx);
            set.extend(tx, 0..there)?;
            set.extend(tx, three(there))?;
            assert_eq!(set.len(tx) as u64, there + 3);
            Ok(())
        })
        .unwrap();
    }
}

/// What an iterator says of how much it yields is a hint.
#[test]
fn wrong_hints() -> Result<()> {
    struct Says<I>(usize, I);
    impl<I: Iterator> Iterator for Says<I> {
        type Item = I::Item;

        fn next(&mut self) -> Option<I::Item> {
            self.1.next()
        }

        fn size_hint(&self) -> (usize, Option<usize>) {
            (self.0, Some(self.0))
        }
    }
    for hint in [0, 1, 1 << 17, 1 << 40, usize::MAX] {
        let numbers = || Says(hint, 0..1000u64);
        // Without room for much more.
        let heap = pheap_testkit::small().max_size(1 << 20).in_memory()?;
        heap.root::<PVec<u64>>("extended")?.txn(|tx, vec| {
            vec.extend(tx, numbers())?;
            assert!(tx[vec].iter(tx).copied().eq(0..1000));
            Ok(())
        })?;
        heap.root::<PVec<u64>>("made")?.txn(|tx, vec| {
            tx[vec] = PVec::from_iter(tx, numbers())?;
            assert!(tx[vec].iter(tx).copied().eq(0..1000));
            assert_eq!(tx[vec].capacity(tx), 1000);
            Ok(())
        })?;
        heap.root::<PVecDeque<u64>>("queue")?.txn(|tx, queue| {
            queue.extend(tx, numbers())?;
            assert!(tx[queue].iter(tx).copied().eq(0..1000));
            Ok(())
        })?;
        heap.root::<PHashMap<u64, u64>>("map")?.txn(|tx, map| {
            map.extend(tx, Says(hint, (0..1000).map(|n| (n, n))))?;
            assert_eq!(tx[map].len(), 1000);
            Ok(())
        })?;
        assert!(heap.check()?.is_clean());
    }
    Ok(())
}
