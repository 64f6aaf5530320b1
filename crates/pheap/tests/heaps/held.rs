//! Pointers that are kept between transactions.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pheap::{Error, Held, P, Persist, Result, Root};
use pheap_testkit::*;

#[derive(Persist)]
#[repr(C)]
struct Node<'r> {
    value: u64,
    next: Option<P<'r, Node<'r>>>,
}

#[derive(Persist, Default)]
#[repr(C)]
struct List<'r> {
    head: Option<P<'r, Node<'r>>>,
}

fn push(root: &Root<List>, value: u64) -> Result<Held<Node<'static>>> {
    root.txn(|tx, list| {
        let node = tx.alloc(Node { value, next: tx[list].head })?;
        tx[list].head = Some(node);
        Ok(tx.hold(node))
    })
}

#[test]
fn a_held_pointer_is_good_in_later_transactions_and_reads() -> Result<()> {
    for options in both() {
        let heap = options.in_memory()?;
        let root: Root<List> = heap.root("list")?;
        let held: Vec<Held<Node>> = (0..100).map(|i| push(&root, i)).collect::<Result<_>>()?;
        root.read(|view, list| {
            for (i, held) in held.iter().enumerate() {
                let node = view.get(held).unwrap();
                assert_eq!(view[node].value, i as u64);
            }
            assert_eq!(view.get(&held[99]).unwrap(), view[list].head.unwrap());
        })?;
        root.txn(|tx, list| {
            let (a, b) = (tx.get(&held[3])?, tx.get(&held[4])?);
            tx[a].value = 1000;
            tx[list].head = Some(b);
            Ok(())
        })?;
        // A held node stays, though the root does not lead to it any more.
        assert_eq!(root.read(|view, _| view[view.get(&held[50]).unwrap()].value)?, 50);
        assert_eq!(root.read(|view, _| view[view.get(&held[3]).unwrap()].value)?, 1000);
    }
    Ok(())
}

#[test]
fn it_is_good_within_its_own_transaction() -> Result<()> {
    let heap = small().in_memory()?;
    let root: Root<List> = heap.root("list")?;
    root.txn(|tx, _| {
        let node = tx.alloc(Node { value: 5, next: None })?;
        let held = tx.hold(node);
        assert_eq!(tx.get(&held)?, node);
        assert_eq!(tx.get(&held.clone())?, node);
        let shared = tx.shared();
        assert_eq!(shared.get(&held)?, node);
        Ok(())
    })
}

#[test]
fn what_was_rolled_back_is_not_held() -> Result<()> {
    for options in both() {
        let heap = options.in_memory()?;
        let root: Root<List> = heap.root("list")?;
        let old = push(&root, 1)?;
        let mut kept = Vec::new();
        let result = root.txn(|tx, list| {
            let node = tx.alloc(Node { value: 2, next: None })?;
            kept.push(tx.hold(node));
            kept.push(kept[0].clone());
            // An old object, held by a transaction that fails.
            kept.push(tx.hold(tx[list].head.unwrap()));
            Err::<(), _>(Error::abort("no"))
        });
        assert!(result.is_err());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            root.txn(|tx, _| -> Result<()> {
                let node = tx.alloc(Node { value: 3, next: None })?;
                kept.push(tx.hold(node));
                resume_unwind(Box::new(()))
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(kept.len(), 4);
        // Perhaps at the same addresses.
        let new = push(&root, 4)?;
        root.read(|view, _| {
            for held in &kept {
                assert!(matches!(view.get(held), Err(Error::NotHeld)));
            }
            assert_eq!(view[view.get(&old).unwrap()].value, 1);
            assert_eq!(view[view.get(&new).unwrap()].value, 4);
        })?;
        drop(kept);
        assert_eq!(root.read(|view, _| view[view.get(&new).unwrap()].value)?, 4);
    }
    Ok(())
}

#[test]
fn what_could_not_be_committed_is_not_held() -> Result<()> {
    let heap = small().max_size(MIB).in_memory()?;
    #[derive(Persist)]
    #[repr(C)]
    struct Array<'r> {
        items: P<'r, [u64]>,
    }
    let root: Root<Array> =
        heap.root_or("array", |tx| Ok(Array { items: tx.alloc_slice(75_000, |i| i as u64)? }))?;
    let mut held = None;
    let result = root.txn(|tx, a| {
        let items = tx[a].items;
        held = Some(tx.hold(items));
        tx[items].fill(1);
        Ok(())
    });
    assert!(matches!(result, Err(Error::OutOfSpace { .. })));
    root.read(|view, _| assert!(matches!(view.get(&held.unwrap()), Err(Error::NotHeld))))
}

#[test]
fn it_belongs_to_one_root_of_one_open_heap() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().open(&path)?;
    let (a, b): (Root<List>, Root<List>) = (heap.root("a")?, heap.root("b")?);
    let (held, other) = (push(&a, 1)?, push(&b, 2)?);
    let is_not_held = |root: &Root<List>, held: &Held<Node<'static>>| {
        root.read(|view, _| matches!(view.get(held), Err(Error::NotHeld))).unwrap()
            && root.txn(|tx, _| Ok(matches!(tx.get(held), Err(Error::NotHeld)))).unwrap()
    };
    assert!(is_not_held(&a, &other) && is_not_held(&b, &held));
    pheap::txn((&a, &b), |((ta, _), (tb, _))| {
        assert!(ta.get(&held).is_ok() && tb.get(&other).is_ok());
        assert!(ta.get(&other).is_err() && tb.get(&held).is_err());
        Ok(())
    })?;
    // A removed root of the same name is another root.
    heap.remove_root("b")?;
    let b: Root<List> = heap.root("b")?;
    let _same_slot = push(&b, 3)?;
    assert!(is_not_held(&b, &other));
    // A renamed one is the same.
    heap.rename_root("a", "c")?;
    assert!(!is_not_held(&a, &held));
    drop((a, b));
    heap.close()?;
    // A closed heap, opened again, is another one; the held pointer outlives it without harm.
    let heap = small().open(&path)?;
    let a: Root<List> = heap.existing_root("c")?;
    assert!(is_not_held(&a, &held));
    drop(heap);
    drop(a);
    drop(held.clone());
    assert!(format!("{held:?}").starts_with("Held"));
    Ok(())
}

#[test]
fn slots_are_used_again_and_keep_their_holders_apart() -> Result<()> {
    let heap = small().in_memory()?;
    let root: Root<List> = heap.root("list")?;
    let mut rng = Rng::from_seed(0x1234_5678_9abc);
    let mut live: Vec<(Held<Node>, u64)> = Vec::new();
    for i in 0..3000 {
        match rng.below(4) {
            0 | 1 => live.push((push(&root, i)?, i)),
            2 if !live.is_empty() => {
                let at = rng.below(live.len());
                let (held, value) = &live[at];
                let copy = (held.clone(), *value);
                live.push(copy);
            }
            _ if !live.is_empty() => drop(live.swap_remove(rng.below(live.len()))),
            _ => {}
        }
        if i % 100 == 0 {
            root.read(|view, _| {
                for (held, value) in &live {
                    assert_eq!(view[view.get(held).unwrap()].value, *value);
                }
            })?;
        }
    }
    Ok(())
}

#[test]
fn held_and_dropped_and_held_within_one_transaction() -> Result<()> {
    let heap = small().in_memory()?;
    let root: Root<List> = heap.root("list")?;
    for commit in [true, false] {
        let mut last = None;
        let result = root.txn(|tx, _| {
            for value in 0..50 {
                let node = tx.alloc(Node { value, next: None })?;
                let held = tx.hold(node);
                if value % 2 == 0 {
                    drop(held); // its slot is free for the next one
                } else {
                    last = Some(held);
                }
            }
            if commit { Ok(()) } else { Err(Error::abort("no")) }
        });
        assert_eq!(result.is_ok(), commit);
        let value = root.read(|view, _| view.get(&last.unwrap()).map(|node| view[node].value))?;
        assert_eq!(value.ok(), commit.then_some(49));
    }
    Ok(())
}

#[test]
fn other_threads_use_and_drop_them() -> Result<()> {
    let heap = small().in_memory()?;
    let root: Root<List> = heap.root("list")?;
    let held: Vec<Held<Node>> = (0..200).map(|i| push(&root, i)).collect::<Result<_>>()?;
    std::thread::scope(|scope| {
        for (t, chunk) in held.chunks(50).enumerate() {
            let (root, mine) = (root.clone(), chunk.to_vec());
            scope.spawn(move || {
                for (i, held) in mine.into_iter().enumerate() {
                    let value = root.read(|view, _| view[view.get(&held).unwrap()].value).unwrap();
                    assert_eq!(value, (t * 50 + i) as u64);
                    push(&root, value).unwrap();
                }
            });
        }
    });
    root.read(|view, _| {
        assert!(held.iter().enumerate().all(|(i, h)| view[view.get(h).unwrap()].value == i as u64))
    })
}

#[test]
fn slices_strings_elements_and_generic_types_can_be_held() -> Result<()> {
    #[derive(Persist)]
    #[repr(C)]
    struct Pair<T, U> {
        one: T,
        two: U,
    }
    let heap = small().in_memory()?;
    let root: Root<List> = heap.root("list")?;
    let (slice, text, element, pair) = root.txn(|tx, _| {
        let slice = tx.alloc_slice(10, |i| i as u16)?;
        let text = tx.alloc_str("text")?;
        let pair = tx.alloc(Pair { one: slice, two: 7u8 })?;
        Ok((tx.hold(slice), tx.hold(text), tx.hold(slice.at(tx, 3)), tx.hold(pair)))
    })?;
    root.txn(|tx, _| {
        let (slice, text, element, pair) =
            (tx.get(&slice)?, tx.get(&text)?, tx.get(&element)?, tx.get(&pair)?);
        tx[element] = 50;
        assert_eq!(tx[slice], [0, 1, 2, 50, 4, 5, 6, 7, 8, 9]);
        assert_eq!(&tx[text], "text");
        assert_eq!((tx[tx[pair].one][9], tx[pair].two), (9, 7));
        Ok(())
    })
}
