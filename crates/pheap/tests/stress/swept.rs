//! A transaction that lacks room completes a collection, and is rolled back. The space that the collection
//! has freed stays free.

use pheap::{Durability, Error, Heap, Options, P, Persist, Root};

use super::is_sound;
use super::kinds::tempdir;

type Block<'r> = P<'r, [u64; 64]>;

#[derive(Persist, Default)]
#[repr(C)]
struct Top<'r> {
    list: Option<P<'r, Node<'r>>>,
    numbers: Option<P<'r, [Option<P<'r, Number>>]>>,
    five: Option<P<'r, [u64; 5]>>,
    blocks: Option<P<'r, [Option<Block<'r>>]>>,
}

#[derive(Persist)]
#[repr(C)]
struct Node<'r> {
    value: [u64; 3],
    next: Option<P<'r, Node<'r>>>,
}

#[derive(Persist, Debug, PartialEq)]
#[repr(C)]
struct Number {
    words: [u64; 2],
}

fn number(i: u64) -> Number {
    Number { words: [i, 1000 + i] }
}

/// Makes a root in a heap in which a cycle is running. All objects in the first span of one class are
/// garbage.
fn prepared(heap: &Heap) -> Root<Top<'static>> {
    let root = heap.root::<Top>("top").unwrap();
    // As many as the first span of their class has.
    root.txn(|tx, _| (0..8).try_for_each(|i| tx.alloc([i; 64]).map(drop))).unwrap();
    // More than the 5 MiB at which a cycle is overdue. It begins at the second commit, which marks as much as
    // it has allocated.
    for part in [0..150_000, 150_000..200_000] {
        root.txn(|tx, top| {
            let mut next = tx[top].list;
            for i in part {
                next = Some(tx.alloc(Node { value: [i; 3], next })?);
            }
            Ok(tx[top].list = next)
        })
        .unwrap();
    }
    root
}

/// Takes a second span for the class, and then asks for more than there is.
fn find_no_room(heap: &Heap, root: &Root<Top<'static>>) {
    let (before, mut completed) = (heap.stats().collections, 0);
    let full = root.txn(|tx, _| {
        tx.alloc([77u64; 64])?;
        let full = tx.alloc_slice(16 << 20, |_| 0u64);
        completed = heap.stats().collections;
        full.map(drop)
    });
    assert!(matches!(full, Err(Error::OutOfSpace { .. })), "{full:?}");
    assert_eq!((before, completed), (0, 1), "it was running, and was completed");
}

/// Objects of other types may get the pages and numbers of the spans that are gone; some of them die.
fn use_what_is_free(heap: &Heap, root: &Root<Top<'static>>) {
    root.txn(|tx, top| {
        tx[top].five = Some(tx.alloc([1; 5])?);
        let numbers = (0..256).map(|i| tx.alloc(number(i)).map(Some)).collect::<pheap::Result<Vec<_>>>()?;
        Ok(tx[top].numbers = Some(tx.alloc_slice_copy(&numbers)?))
    })
    .unwrap();
    root.txn(|tx, top| {
        let numbers = tx[top].numbers.expect("made above");
        (100..110).for_each(|i| {
            let element = numbers.at(tx, i);
            tx[element] = None
        });
        Ok(())
    })
    .unwrap();
    heap.collect().unwrap();
}

/// Allocates more objects of the class. After that, all content must be the same.
fn go_on(heap: &Heap, root: &Root<Top<'static>>) {
    root.txn(|tx, top| {
        let blocks = (0..10u64).map(|i| tx.alloc([i; 64]).map(Some)).collect::<pheap::Result<Vec<_>>>()?;
        Ok(tx[top].blocks = Some(tx.alloc_slice_copy(&blocks)?))
    })
    .unwrap();
    look(root);
    is_sound(heap);
}

fn look(root: &Root<Top<'static>>) {
    root.read(|view, top| {
        for (i, p) in view[top].numbers.iter().flat_map(|&numbers| view[numbers].iter()).enumerate() {
            assert_eq!(p.map(|p| &view[p]), (!(100..110).contains(&i)).then_some(&number(i as u64)));
        }
        for (i, p) in view[top].blocks.iter().flat_map(|&blocks| view[blocks].iter()).enumerate() {
            assert_eq!(view[p.expect("made above")], [i as u64; 64]);
        }
        let (mut next, mut i) = (view[top].list, 200_000);
        while let Some(node) = next {
            i -= 1;
            assert_eq!(view[node].value, [i; 3]);
            next = view[node].next;
        }
        assert_eq!(i, 0);
    })
    .unwrap();
}

fn options() -> [Options; 2] {
    [false, true].map(|pin_undo| Options::new().max_size(64 << 20).pin_undo(pin_undo))
}

#[test]
fn a_class_goes_on_after_the_rollback() {
    for options in options() {
        let heap = options.in_memory().unwrap();
        let root = prepared(&heap);
        find_no_room(&heap, &root);
        go_on(&heap, &root);
    }
}

#[test]
fn nothing_is_laid_over_others_after_the_rollback() {
    for options in options() {
        let heap = options.in_memory().unwrap();
        let root = prepared(&heap);
        find_no_room(&heap, &root);
        use_what_is_free(&heap, &root);
        go_on(&heap, &root);
    }
}

#[test]
fn the_file_is_sound_after_the_rollback() {
    for durability in [Durability::Process, Durability::Pmem, Durability::Wal] {
        for options in options() {
            let (dir, options) = (tempdir(), options.durability(durability));
            let path = dir.path().join("heap");
            let heap = options.open(&path).unwrap();
            let root = prepared(&heap);
            find_no_room(&heap, &root);
            use_what_is_free(&heap, &root);
            go_on(&heap, &root);
            drop(root);
            heap.close().unwrap();
            let heap = options.verify(true).open(&path).unwrap();
            look(&heap.root("top").unwrap());
            is_sound(&heap);
        }
    }
}

/// Several roots in one transaction: the collection of the second one is completed in it.
#[test]
fn other_roots_of_the_transaction_are_rolled_back_as_well() {
    for options in options() {
        let heap = options.in_memory().unwrap();
        let other = heap.root::<u64>("other").unwrap();
        let root = prepared(&heap);
        let full = pheap::txn((&other, &root), |((ta, a), (tb, _))| {
            ta[a] = 1;
            tb.alloc([77u64; 64])?;
            tb.alloc_slice(16 << 20, |_| 0u64).map(drop)
        });
        assert!(matches!(full, Err(Error::OutOfSpace { .. })), "{full:?}");
        assert_eq!(other.read(|view, a| view[a]).unwrap(), 0);
        use_what_is_free(&heap, &root);
        go_on(&heap, &root);
    }
}
