//! `PPriorityQueue` beside `BinaryHeap`.

use std::collections::BinaryHeap;

use pheap::{P, PPriorityQueue, Persist, Result, Txn, View, field};
use proptest::prelude::*;

use crate::twins::{self, Twins};

/// Ordered by the first.
#[derive(Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(C)]
struct Job {
    priority: u32,
    number: u64,
}

#[derive(Persist, Default)]
#[repr(C)]
struct Queues<'r> {
    first: PPriorityQueue<'r, Job>,
    other: PPriorityQueue<'r, Job>,
}

#[derive(Debug, Clone)]
enum Op {
    Push(u32, u64),
    Extend(Vec<u32>),
    Pop,
    PushPop(u32),
    Change(u32),
    Swap,
    Append,
    /// Those whose number has this remainder stay.
    Retain(u64),
    DrainSorted,
    Drain,
    Clear,
    Shrink,
}

struct Both;

impl Twins for Both {
    type Root = Queues<'static>;
    type Std = [BinaryHeap<Job>; 2];
    type Op = Op;

    fn ops() -> BoxedStrategy<Op> {
        let priority = || 0..100u32;
        prop_oneof![
            6 => (priority(), any::<u64>()).prop_map(|(p, n)| Op::Push(p, n)),
            2 => prop::collection::vec(priority(), 0..80).prop_map(Op::Extend),
            5 => Just(Op::Pop),
            2 => priority().prop_map(Op::PushPop),
            2 => priority().prop_map(Op::Change),
            2 => Just(Op::Swap),
            2 => Just(Op::Append),
            1 => (0..3u64).prop_map(Op::Retain),
            1 => Just(Op::DrainSorted),
            1 => Just(Op::Drain),
            1 => Just(Op::Clear),
            1 => Just(Op::Shrink),
        ]
        .boxed()
    }

    fn apply<'r>(op: &Op, tx: &mut Txn<'r>, queues: P<'r, Queues<'r>>, twins: &mut Self::Std) -> Result<()> {
        let (queue, other) = (field!(queues.first), field!(queues.other));
        let [twin, other_twin] = twins;
        let job = |priority: u32| Job { priority, number: u64::from(priority) * 3 };
        match op {
            &Op::Push(priority, number) => {
                queue.push(tx, Job { priority, number })?;
                twin.push(Job { priority, number });
            }
            Op::Extend(priorities) => {
                queue.extend(tx, priorities.iter().map(|&priority| job(priority)))?;
                twin.extend(priorities.iter().map(|&priority| job(priority)));
            }
            Op::Pop => assert_eq!(queue.pop(tx), twin.pop()),
            &Op::PushPop(priority) => {
                twin.push(job(priority));
                assert_eq!(Some(queue.push_pop(tx, job(priority))), twin.pop());
            }
            &Op::Change(priority) => {
                let old = queue.change_first(tx, |first| std::mem::replace(first, job(priority)));
                assert_eq!(old, twin.pop());
                if old.is_some() {
                    twin.push(job(priority));
                }
            }
            Op::Swap => {
                tx.swap(queue, other);
                std::mem::swap(twin, other_twin);
            }
            Op::Append => {
                queue.append(tx, other)?;
                twin.append(other_twin);
            }
            &Op::Retain(remainder) => {
                queue.retain(tx, |job| job.number % 3 != remainder);
                twin.retain(|job| job.number % 3 != remainder);
            }
            Op::DrainSorted => {
                let mut sorted = std::mem::take(twin).into_sorted_vec();
                sorted.reverse();
                assert_eq!(queue.drain_sorted(tx), sorted);
            }
            Op::Drain => {
                let mut drained: Vec<Job> = queue.drain(tx).collect();
                drained.sort();
                assert_eq!(drained, std::mem::take(twin).into_sorted_vec());
            }
            Op::Clear => {
                queue.clear(tx);
                twin.clear();
            }
            Op::Shrink => {
                queue.shrink_to_fit(tx)?;
                assert_eq!(tx[queue].capacity(), twin.len());
            }
        }
        Ok(())
    }

    fn compare<'r>(view: &View<'r>, queues: P<'r, Queues<'r>>, twins: &Self::Std) {
        for (queue, twin) in [field!(queues.first), field!(queues.other)].into_iter().zip(twins) {
            assert_eq!((queue.len(view), queue.is_empty(view)), (twin.len(), twin.is_empty()));
            assert_eq!(queue.peek(view), twin.peek());
            let mut elements: Vec<Job> = queue.iter(view).copied().collect();
            elements.sort();
            assert_eq!(elements, twin.clone().into_sorted_vec());
        }
    }
}

#[test]
fn a_priority_queue_is_like_that_of_std() {
    twins::run::<Both>();
}
