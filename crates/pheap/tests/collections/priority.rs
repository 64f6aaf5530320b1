//! `PPriorityQueue` compared with `BinaryHeap`.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pheap::{Heap, P, PPriorityQueue, Persist, Result, Root, Txn, View, field};
use proptest::prelude::*;

use crate::twins::{self, Twins};

/// Ordered by priority, then by number.
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
                assert_eq!(tx[queue].capacity(tx), twin.len());
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

thread_local! {
    /// How many more comparisons work.
    static PATIENCE: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// Its order panics.
#[derive(Persist, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
struct Fussy(u64);

impl Ord for Fussy {
    fn cmp(&self, other: &Fussy) -> Ordering {
        let patience = PATIENCE.get();
        PATIENCE.set(patience.checked_sub(1).unwrap_or_else(|| resume_unwind(Box::new("expected"))));
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Fussy {
    fn partial_cmp(&self, other: &Fussy) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Calls a method of a queue. Returns the elements that the method has returned.
type Call = for<'t, 'r> fn(&'t mut Txn<'r>, P<'r, PPriorityQueue<'r, Fussy>>) -> Vec<Fussy>;

#[test]
fn an_order_that_panics_loses_no_element() -> Result<()> {
    const CALLS: [Call; 4] = [
        |tx, queue| queue.pop(tx).into_iter().collect(),
        |tx, queue| vec![queue.push_pop(tx, Fussy(3))],
        |tx, queue| queue.drain_sorted(tx),
        |tx, queue| {
            queue.retain(tx, |element| element.0 != 7);
            vec![Fussy(7)]
        },
    ];
    let heap = Heap::in_memory()?;
    let root: Root<PPriorityQueue<Fussy>> = heap.root("queue")?;
    for (number, call) in CALLS.into_iter().enumerate() {
        let mut panics = 0;
        for patience in 0.. {
            root.txn(|tx, queue| {
                PATIENCE.set(u32::MAX);
                queue.clear(tx);
                queue.extend(tx, (0..60).map(|n| Fussy(n * 7 % 60)))
            })?;
            let done = root.txn(|tx, queue| {
                PATIENCE.set(patience);
                let result = catch_unwind(AssertUnwindSafe(|| call(tx, queue)));
                PATIENCE.set(u32::MAX);
                let mut elements: Vec<u64> = queue.iter(tx).map(|element| element.0).collect();
                elements.extend(result.iter().flatten().map(|element| element.0));
                elements.sort();
                let all = || (0..60).chain((number == 1 && result.is_ok()).then_some(3));
                let mut all: Vec<u64> = all().collect();
                all.sort();
                // Elements that are not kept are gone before the others are put in order.
                let is_kept = |element: &u64| number != 3 || result.is_ok() || *element != 7;
                assert!(
                    elements.iter().filter(|n| is_kept(n)).eq(all.iter().filter(|n| is_kept(n))),
                    "{number} {patience}"
                );
                Ok(result.is_ok())
            })?;
            if done {
                break;
            }
            panics += 1;
        }
        assert!(panics > 0, "{number}");
    }
    Ok(())
}
