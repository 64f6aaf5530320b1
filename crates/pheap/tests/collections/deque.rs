//! `PVecDeque` compared with `VecDeque`.

use std::collections::VecDeque;

use pheap::{P, PVecDeque, Result, Txn, View};
use proptest::prelude::*;

use crate::twins::{self, Twins};

#[derive(Debug, Clone)]
enum Op {
    PushBack(u64),
    PushFront(u64),
    PopBack,
    PopFront,
    Set(usize, u64),
    Extend(Vec<u64>),
    Insert(usize, u64),
    Remove(usize),
    Swap(usize, usize),
    Drain(usize, usize),
    /// Split off, and appended again, or not.
    Split(usize, bool),
    Truncate(usize),
    /// Those whose value has this remainder go.
    Retain(u64),
    Reserve(usize),
    Shrink,
    Clear,
}

/// Elements are pointers, so that stale ones would show.
struct Queues;

impl Twins for Queues {
    type Root = PVecDeque<'static, P<'static, u64>>;
    type Std = VecDeque<u64>;
    type Op = Op;

    fn ops() -> BoxedStrategy<Op> {
        let value = || 0..50u64;
        prop_oneof![
            8 => value().prop_map(Op::PushBack),
            4 => value().prop_map(Op::PushFront),
            3 => Just(Op::PopBack),
            6 => Just(Op::PopFront),
            2 => (0..20usize, value()).prop_map(|(i, v)| Op::Set(i, v)),
            1 => prop::collection::vec(value(), 0..30).prop_map(Op::Extend),
            3 => (0..40usize, value()).prop_map(|(i, v)| Op::Insert(i, v)),
            3 => (0..40usize).prop_map(Op::Remove),
            1 => (0..40usize, 0..40usize).prop_map(|(i, j)| Op::Swap(i, j)),
            1 => (0..40usize, 0..40usize).prop_map(|(i, j)| Op::Drain(i.min(j), i.max(j))),
            1 => (0..40usize).prop_map(Op::Truncate),
            2 => (0..40usize, any::<bool>()).prop_map(|(i, again)| Op::Split(i, again)),
            1 => (0..4u64).prop_map(Op::Retain),
            1 => (0..30usize).prop_map(Op::Reserve),
            1 => Just(Op::Shrink),
            1 => Just(Op::Clear),
        ]
        .boxed()
    }

    fn apply<'r>(
        op: &Op,
        tx: &mut Txn<'r>,
        queue: P<'r, PVecDeque<'r, P<'r, u64>>>,
        twin: &mut VecDeque<u64>,
    ) -> Result<()> {
        match op {
            &Op::PushBack(v) => {
                let element = tx.alloc(v)?;
                queue.push_back(tx, element)?;
                twin.push_back(v);
            }
            &Op::PushFront(v) => {
                let element = tx.alloc(v)?;
                queue.push_front(tx, element)?;
                twin.push_front(v);
            }
            Op::PopBack => {
                let popped = queue.pop_back(tx);
                assert_eq!(popped.map(|p| tx[p]), twin.pop_back());
            }
            Op::PopFront => {
                let popped = queue.pop_front(tx);
                assert_eq!(popped.map(|p| tx[p]), twin.pop_front());
            }
            &Op::Set(i, v) => {
                let new = tx.alloc(v)?;
                let element = queue.get_mut(tx, i);
                assert_eq!(element.is_some(), i < twin.len());
                if let Some(element) = element {
                    *element = new;
                    twin[i] = v;
                }
            }
            Op::Extend(values) => {
                let elements = values.iter().map(|&v| tx.alloc(v)).collect::<Result<Vec<_>>>()?;
                queue.extend(tx, elements)?;
                twin.extend(values);
            }
            &Op::Insert(i, v) => {
                let (i, element) = (i.min(twin.len()), tx.alloc(v)?);
                queue.insert(tx, i, element)?;
                twin.insert(i, v);
            }
            &Op::Remove(i) => {
                let removed = queue.remove(tx, i);
                assert_eq!(removed.map(|p| tx[p]), twin.remove(i));
            }
            &Op::Swap(i, j) => {
                if i.max(j) < twin.len() {
                    queue.swap(tx, i, j);
                    twin.swap(i, j);
                }
            }
            &Op::Drain(i, j) => {
                let range = i.min(twin.len())..j.min(twin.len());
                let drained = queue.drain(tx, range.clone());
                assert!(drained.map(|p| tx[p]).eq(twin.drain(range)));
            }
            &Op::Split(i, again) => {
                let i = i.min(twin.len());
                let (part, mut part_twin) = (queue.split_off(tx, i)?, twin.split_off(i));
                assert_eq!((part.len(), tx[queue].len()), (part_twin.len(), i));
                assert!(part.iter(tx).map(|p| tx[*p]).eq(part_twin.iter().copied()));
                let part = tx.alloc(part)?;
                if again {
                    queue.append(tx, part)?;
                    twin.append(&mut part_twin);
                }
            }
            &Op::Truncate(n) => {
                queue.truncate(tx, n);
                twin.truncate(n);
            }
            &Op::Retain(n) => {
                let kept: Vec<bool> = twin.iter().map(|v| v % 4 != n).collect();
                let mut kept = kept.into_iter();
                queue.retain(tx, |_| kept.next().unwrap());
                twin.retain(|v| v % 4 != n);
            }
            &Op::Reserve(n) => {
                queue.reserve(tx, n)?;
                assert!(tx[queue].capacity(tx) >= twin.len() + n);
            }
            Op::Shrink => {
                queue.shrink_to_fit(tx)?;
                assert_eq!(tx[queue].capacity(tx), twin.len());
            }
            Op::Clear => {
                queue.clear(tx);
                twin.clear();
            }
        }
        Ok(())
    }

    fn compare<'r>(view: &View<'r>, queue: P<'r, PVecDeque<'r, P<'r, u64>>>, twin: &VecDeque<u64>) {
        let queue = &view[queue];
        let value = |p: &P<'r, u64>| view[*p];
        assert_eq!((queue.len(), queue.is_empty()), (twin.len(), twin.is_empty()));
        assert!(queue.iter(view).map(value).eq(twin.iter().copied()));
        assert!(queue.iter(view).rev().map(value).eq(twin.iter().rev().copied()));
        assert!((0..twin.len() + 1).all(|i| queue.get(view, i).map(value) == twin.get(i).copied()));
        assert_eq!(queue.front(view).map(value), twin.front().copied());
        assert_eq!(queue.back(view).map(value), twin.back().copied());
    }
}

#[test]
fn a_queue_takes_all_of_another_one() {
    let heap = pheap::Heap::in_memory().unwrap();
    let a = heap.root::<PVecDeque<u64>>("a").unwrap();
    a.txn(|tx, a| {
        let other = tx.alloc(PVecDeque::new())?;
        a.extend(tx, 0..5)?;
        other.extend(tx, 5..9)?;
        a.append(tx, other)?;
        assert!(a.iter(tx).copied().eq(0..9) && other.is_empty(tx));
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_queue_is_like_that_of_std() {
    twins::run::<Queues>();
}
