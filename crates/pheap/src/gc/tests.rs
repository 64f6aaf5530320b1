//! Tests of the allocator and the collector with a store: neither needs a transaction, nor a region.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pheap_gc::Budget;

use super::{Collector, HeldTable, Pace, RegionFacts, SLICE, SLICE_WORK};
use crate::alloc::{AllocRequest, Allocator, MissingSpan};
use crate::layout::Persist;
use crate::media::{Media, Medium};
use crate::ptr::P;
use crate::store::Store;

type Node = [Option<P<'static, u64>>; 2];

/// Allocates an object. Returns its heap offset.
fn make(alloc: &mut Allocator, store: &Store) -> u64 {
    let request = AllocRequest { desc: <Node as Persist>::desc(), bytes: 16, align: 8, unsized_: false };
    loop {
        if let Some(addr) = alloc.try_alloc(&request) {
            return (addr - store.base().addr()) as u64;
        }
        if let MissingSpan::Span(bytes, entry, pointers) = alloc.prepare(store, 1, &request).unwrap() {
            let span = store.take_span(&bytes, entry).unwrap();
            alloc.add_span(store, span, 0, pointers);
        }
    }
}

#[test]
fn what_nothing_leads_to_is_free_and_what_was_rolled_back_never_was() {
    let store = Store::in_memory(1 << 20);
    let (heap, media) = (store.tables.lock().heap, Media::new(Medium::Process));
    let (mut alloc, state) = (Allocator::default(), Arc::<RegionFacts>::default());
    let mut gc =
        Collector::new(Arc::new(Pace::new(100, 1 << 20)), state.clone(), Arc::<HeldTable>::default());
    alloc.begin_transaction(1);
    let made: Vec<u64> = (0..100).map(|_| make(&mut alloc, &store)).collect();
    // Each object in `made` points to the object two places after it.
    made.windows(3).for_each(|of| heap.set(&media, of[0], store.base().addr() as u64 + of[2]));
    alloc.commit(&store);
    state.root.store(made[0], Ordering::Relaxed);

    assert!(gc.begin_full(&mut alloc, &store));
    while !gc.mark(&alloc, &store, &mut Budget::unlimited()) {}
    gc.begin_sweep(&mut alloc);
    gc.sweep(&mut alloc, &store, &media, None);
    assert!(gc.is_idle() && alloc.usage.objects == 50, "{:?}", alloc.usage);

    for txn in 2..4 {
        alloc.begin_transaction(txn);
        let again: Vec<u64> = (0..500).map(|_| make(&mut alloc, &store)).collect();
        assert!(
            (0..100).all(|i| again.contains(&made[i]) == (i % 2 == 1)),
            "other slots than those that are free"
        );
        alloc.rollback(&store);
        assert_eq!(alloc.usage.objects, 50);
    }
}

/// A transaction that allocates much marks as much, at once. A short one does not mark the bytes that were
/// allocated while its region was being created.
#[test]
fn a_transaction_marks_at_once_what_it_has_allocated_and_not_what_others_have() {
    const MUCH: u64 = 1 << 30;
    let store = Store::in_memory(1 << 20);
    let (mut alloc, state) = (Allocator::default(), Arc::<RegionFacts>::default());
    let pace = Arc::new(Pace::new(100, 1 << 20));
    let mut gc = Collector::new(pace, state.clone(), Arc::<HeldTable>::default());
    alloc.begin_transaction(1);
    let root = make(&mut alloc, &store);
    alloc.commit(&store);
    alloc.usage.allocated += MUCH;
    assert!(gc.is_due(&alloc.usage) && gc.assess(&mut alloc, &store).is_none());
    state.root.store(root, Ordering::Relaxed);
    alloc.usage.allocated += 16;
    let (bytes, length) = gc.assess(&mut alloc, &store).expect("a cycle is overdue");
    assert!(bytes < 2 * SLICE_WORK && length < 2 * SLICE, "{bytes} bytes, {length:?}");
    let (mut alloc, state) = (Allocator::default(), Arc::<RegionFacts>::default());
    let mut gc =
        Collector::new(Arc::new(Pace::new(100, 1 << 20)), state.clone(), Arc::<HeldTable>::default());
    alloc.begin_transaction(1);
    state.root.store(make(&mut alloc, &store), Ordering::Relaxed);
    alloc.commit(&store);
    alloc.usage.allocated += MUCH;
    let (bytes, length) = gc.assess(&mut alloc, &store).expect("a cycle is overdue");
    assert!(bytes >= MUCH && length > SLICE, "{bytes} bytes, {length:?}");
}
