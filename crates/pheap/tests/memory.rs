//! Memory of the process: what transactions take of it, they give back. Also the addresses that heaps
//! reserve.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use pheap::{Durability, Error, Heap, Options, PHashMap, PString, PVec, Persist, Root, field};

/// Counts the bytes that are allocated.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
/// The most that was used since it was set.
static MOST: AtomicUsize = AtomicUsize::new(0);

/// Tests of this file count alone.
static ALONE: Mutex<()> = Mutex::new(());

// SAFETY: the system's allocator does it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(used, Ordering::Relaxed);
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

/// The same work, again and again: it needs hardly more memory the hundredth time than the tenth.
#[test]
fn transactions_leak_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
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

/// A transaction over many roots has one list of them. If it made such a list for each of them, its memory
/// would grow with the square of their number.
#[test]
fn a_transaction_over_thousands_of_roots_is_small() {
    const ROOTS: usize = 4000;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for pin_undo in [false, true] {
        let heap = pheap::Options::new().pin_undo(pin_undo).in_memory().unwrap();
        let roots: Vec<Root<u64>> = (0..ROOTS).map(|i| heap.root(&i.to_string()).unwrap()).collect();
        for round in 0..2 {
            let before = USED.load(Ordering::Relaxed);
            MOST.store(before, Ordering::Relaxed);
            pheap::txn(&roots[..], |mut shards| {
                (0..shards.len()).for_each(|i| shards.with(i, |tx, n| tx[n] += 1));
                Ok(())
            })
            .unwrap();
            let most = MOST.load(Ordering::Relaxed) - before;
            assert!(most < ROOTS * 4096, "round {round}: {} bytes for each root", most / ROOTS);
        }
        assert!(roots.iter().all(|root| root.read(|view, n| view[n]).unwrap() == 2));
    }
}

/// A file that says of itself that it is enormous is looked at, and checked, in little memory.
#[test]
fn an_enormous_file_is_checked_in_little_memory() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = pheap_testkit::tempdir();
    let path = dir.path().join("x");
    pheap_testkit::sample::enormous(&path);
    let before = USED.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let heap = pheap_testkit::small().verify(true).read_only(true).open(&path).unwrap();
    assert_eq!(heap.existing_root::<u64>("n").unwrap().read(|view, n| view[n]).unwrap(), 7);
    let most = MOST.load(Ordering::Relaxed) - before;
    assert!(most < 1 << 20, "{most} bytes");
}

/// Eight heaps of 8 TiB take all addresses that pheap chooses for heaps. The test is in this file because
/// other test programs open heaps in parallel.
#[test]
fn there_are_too_many_heaps() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let large = || Options::new().reserve(1 << 43);
    let mut heaps = Vec::new();
    let error = loop {
        match large().in_memory() {
            Ok(heap) => heaps.push(heap),
            Err(error) => break error,
        }
        assert!(heaps.len() <= 8);
    };
    assert!(matches!(error, Error::TooManyHeaps { reserved: 0x800_0000_0000 }), "{error}");
    assert!(error.to_string().contains("Options::reserve"), "{error}");
    // Small ones find no room either, until one is gone.
    if heaps.len() == 8 {
        assert!(matches!(Options::new().in_memory(), Err(Error::TooManyHeaps { .. })));
    }
    heaps.pop();
    assert!(large().in_memory().is_ok());
}

/// What cannot need many addresses does not reserve them, so that there can be more heaps.
#[test]
fn small_heaps_reserve_less() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let reserved = |options: Options, name: &str| {
        options.durability(Durability::Process).open(dir.path().join(name)).unwrap().info().reserved
    };
    assert_eq!(reserved(Options::new(), "default"), 128 << 30);
    assert_eq!(reserved(Options::new().max_size(16 << 20), "small"), 4 << 30);
    assert_eq!(reserved(Options::new().max_size(1 << 30), "larger"), 16 << 30);
    assert_eq!(reserved(Options::new().max_size(16 << 20).reserve(1 << 30), "asked for"), 1 << 30);
    // Its reservation stays for ever.
    assert_eq!(reserved(Options::new(), "small"), 4 << 30);
    let in_memory = Heap::in_memory().unwrap().info().reserved;
    assert!((4 << 30..=128 << 30).contains(&in_memory), "{in_memory}");
}
