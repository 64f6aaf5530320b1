//! Graphs that are large in one way, and heaps that misbehave.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Objects point to more and more others, until two threads were seen.
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
