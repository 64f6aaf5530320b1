//! Memory of the process: what transactions take of it, they give back.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use pheap::{Heap, PHashMap, PString, PVec, Persist, Root, field};

/// Counts the bytes that are allocated.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        USED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: passed on to the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: passed on to the caller.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Persist, Default)]
#[repr(C)]
struct All<'r> {
    numbers: PVec<'r, u64>,
    text: PString<'r>,
    texts: PVec<'r, PString<'r>>,
    map: PHashMap<'r, u64, u64>,
}

/// The same work, again and again: it needs no more memory the hundredth time than the tenth.
#[test]
fn transactions_leak_nothing() {
    let heap = Heap::in_memory().unwrap();
    let root: Root<All> = heap.root("all").unwrap();
    let round = || {
        root.txn(|tx, all| {
            tx[all].numbers = PVec::from_slice(tx, &[7; 1000])?;
            tx[all].text = PString::from_str(tx, &"a".repeat(8000))?;
            let texts: Result<Vec<_>, _> = (0..100).map(|_| PString::from_str(tx, "a longer text")).collect();
            tx[all].texts = PVec::from_iter(tx, texts?)?;
            field!(all.map).clear(tx);
            (0..100).try_for_each(|i| field!(all.map).insert(tx, &i, i).map(drop))
        })
        .unwrap();
        heap.collect().unwrap();
    };
    (0..10).for_each(|_| round());
    let before = USED.load(Ordering::Relaxed);
    (0..90).for_each(|_| round());
    let more = USED.load(Ordering::Relaxed).saturating_sub(before);
    assert!(more < 100_000, "{more} bytes more");
}
