//! Graphs that are large in one way, and heaps that misbehave.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ThreadId};

use pheap_gc::bitmap::Bitmap;
use pheap_gc::{Budget, Heap, Marking, Progress, mark_all};

/// Each object points to the next one.
struct List(Bitmap);

impl Heap for List {
    type Object = u64;

    fn mark(&self, pointer: u64) -> Option<u64> {
        let new = (pointer as usize) < self.0.len() && self.0.set_shared(pointer as usize);
        new.then_some(pointer)
    }

    fn trace(&self, object: u64, found: &mut impl FnMut(u64)) -> Option<u64> {
        found(object + 1);
        None
    }

    fn marked(&self, visit: &mut impl FnMut(u64)) {
        self.0.ones().for_each(|object| visit(object as u64));
    }

    fn size(&self, _: u64) -> usize {
        16
    }
}

#[test]
fn a_list_of_ten_million() {
    let list = List(Bitmap::new(10_000_000));
    let mut marking = Marking::with_limit(1);
    marking.push(0);
    let mut budget = Budget::unlimited();
    assert_eq!(marking.run(&list, &mut budget), Progress::Done);
    assert_eq!(list.0.count_ones(), list.0.len());
    assert_eq!(budget.marked_objects(), 10_000_000);
    assert_eq!(budget.marked_bytes(), 160_000_000);
    list.0.clear();
    mark_all(&list, [0], 2);
    assert_eq!(list.0.count_ones(), list.0.len());
}

const LONG: u64 = 1_000_000;
const PART: u64 = 512;

/// Object 0 points to all the others, which have no pointers.
struct Array(Bitmap);

impl Heap for Array {
    type Object = u64;

    fn mark(&self, pointer: u64) -> Option<u64> {
        (self.0.set_shared(pointer as usize) && pointer == 0).then_some(1)
    }

    fn trace(&self, from: u64, found: &mut impl FnMut(u64)) -> Option<u64> {
        let end = LONG.min(from + PART);
        (from..end).for_each(found);
        (end < LONG).then_some(end)
    }

    fn marked(&self, visit: &mut impl FnMut(u64)) {
        visit(1);
    }

    fn size(&self, from: u64) -> usize {
        8 * PART.min(LONG - from) as usize
    }
}

#[test]
fn slices_of_a_huge_array_are_short() {
    let array = Array(Bitmap::new(LONG as usize));
    let mut marking = Marking::new();
    marking.push(0);
    let mut slices = 0;
    loop {
        let before = array.0.count_ones();
        let mut budget = Budget::work(16 << 10);
        let progress = marking.run(&array, &mut budget);
        slices += 1;
        assert!(budget.marked_bytes() <= (16 << 10) + 8 * PART);
        assert!(array.0.count_ones() - before <= 4096);
        if progress == Progress::Done {
            break;
        }
    }
    assert!(slices >= 500);
    assert_eq!(array.0.count_ones(), LONG as usize);
}

/// Each traced object points to four others, until two threads were seen.
struct Endless(Mutex<HashSet<ThreadId>>);

impl Heap for Endless {
    type Object = u64;

    fn mark(&self, pointer: u64) -> Option<u64> {
        Some(pointer)
    }

    fn trace(&self, object: u64, found: &mut impl FnMut(u64)) -> Option<u64> {
        let mut seen = self.0.lock().unwrap();
        seen.insert(thread::current().id());
        if seen.len() < 2 {
            (0..4).for_each(|_| found(object));
        }
        None
    }

    fn marked(&self, _: &mut impl FnMut(u64)) {}

    fn size(&self, _: u64) -> usize {
        8
    }
}

#[test]
fn a_thread_that_waits_is_given_work() {
    let heap = Endless(Mutex::default());
    mark_all(&heap, [1], 2);
    assert_eq!(heap.0.into_inner().unwrap().len(), 2);
}

/// Objects with six pointers to anywhere, traced in halves: a part has the number of the object, and of the
/// half.
struct Tangle(Bitmap);

impl Tangle {
    fn pointer(&self, object: u64, slot: u64) -> u64 {
        let mixed = (object * 6 + slot + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9) % self.0.len() as u64
    }
}

impl Heap for Tangle {
    type Object = (u64, u64);

    fn mark(&self, pointer: u64) -> Option<(u64, u64)> {
        self.0.set_shared(pointer as usize).then_some((pointer, 0))
    }

    fn trace(&self, (object, half): (u64, u64), found: &mut impl FnMut(u64)) -> Option<(u64, u64)> {
        (3 * half..3 * half + 3).for_each(|slot| found(self.pointer(object, slot)));
        (half == 0).then_some((object, 1))
    }

    fn marked(&self, visit: &mut impl FnMut((u64, u64))) {
        self.0.ones().for_each(|object| visit((object as u64, 0)));
    }

    fn size(&self, _: (u64, u64)) -> usize {
        24
    }
}

#[test]
fn threads_hand_over_parts_of_a_large_graph() {
    let tangle = Tangle(Bitmap::new(200_000));
    let mut expected = vec![false; tangle.0.len()];
    let mut stack = vec![7];
    while let Some(object) = stack.pop() {
        if !std::mem::replace(&mut expected[object as usize], true) {
            stack.extend((0..6).map(|slot| tangle.pointer(object, slot)));
        }
    }
    let reachable = expected.iter().filter(|&&reachable| reachable).count();
    assert!(reachable > 190_000);
    for limit in [usize::MAX, 20_000, 500] {
        for work in [u64::MAX, 100_000] {
            let mut marking = Marking::with_limit(limit);
            marking.push(7);
            let marked = AtomicU64::new(0);
            let slices = || {
                let mut progress = Progress::More;
                while progress == Progress::More {
                    let mut budget = if work == u64::MAX { Budget::unlimited() } else { Budget::work(work) };
                    progress = marking.run_shared(&tangle, &mut budget);
                    marked.fetch_add(budget.marked_objects(), Ordering::Relaxed);
                }
            };
            thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(slices))));
            assert_eq!(marking.run(&tangle, &mut Budget::unlimited()), Progress::Done);
            assert_eq!(marked.into_inner(), reachable as u64);
            assert!(
                expected.iter().enumerate().all(|(object, &reachable)| tangle.0.test(object) == reachable)
            );
            tangle.0.clear();
        }
    }
}

/// Panics once, while a certain object is traced.
struct Fragile {
    list: List,
    panics: AtomicBool,
}

impl Heap for Fragile {
    type Object = u64;

    fn mark(&self, pointer: u64) -> Option<u64> {
        self.list.mark(pointer)
    }

    fn trace(&self, object: u64, found: &mut impl FnMut(u64)) -> Option<u64> {
        assert!(object != 500 || !self.panics.swap(false, Ordering::Relaxed), "once");
        self.list.trace(object, found)
    }

    fn marked(&self, visit: &mut impl FnMut(u64)) {
        self.list.marked(visit);
    }

    fn size(&self, _: u64) -> usize {
        8
    }
}

#[test]
fn a_panic_loses_nothing() {
    let heap = Fragile { list: List(Bitmap::new(1000)), panics: AtomicBool::new(true) };
    let mut marking = Marking::new();
    marking.push(0);
    let panicked = catch_unwind(AssertUnwindSafe(|| marking.run(&heap, &mut Budget::unlimited())));
    assert!(panicked.is_err() && !marking.is_done());
    assert_eq!(marking.run(&heap, &mut Budget::unlimited()), Progress::Done);
    assert_eq!(heap.list.0.count_ones(), 1000);
}
