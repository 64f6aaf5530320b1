//! The public model: what a program sees of a heap.

use pheap::{Error, Options, P, Persist, Root, Txn, View, txn};

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
    len: u64,
}

#[txn]
fn push<'r>(tx: &mut Txn<'r>, list: P<'r, List<'r>>, value: u64) -> pheap::Result<()> {
    let node = tx.alloc(Node { value, next: tx[list].head })?;
    tx[list].head = Some(node);
    tx[list].len += 1;
    Ok(())
}

fn values<'r>(view: &View<'r>, list: P<'r, List<'r>>) -> Vec<u64> {
    let mut all = Vec::new();
    let mut next = view[list].head;
    while let Some(node) = next {
        all.push(view[node].value);
        next = view[node].next;
    }
    all
}

fn small() -> Options {
    Options::new().arena_size(1 << 20).reserve(1 << 30)
}

#[test]
fn a_list_is_there_after_reopening() -> pheap::Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("numbers.pheap");
    for round in 0..5 {
        let heap = small().open(&path)?;
        let list: Root<List> = heap.root("list")?;
        for i in 0..1000 {
            list.txn(|tx, list| push(tx, list, round * 1000 + i))?;
        }
        let seen = list.read(values)?;
        assert_eq!(seen, (0..(round + 1) * 1000).rev().collect::<Vec<_>>());
        assert_eq!(list.read(|view, list| view[list].len)?, (round + 1) * 1000);
        if round % 2 == 0 {
            heap.close()?;
            assert!(matches!(list.txn(|_, _| Ok(())), Err(Error::Closed)));
        }
    }
    Ok(())
}

#[test]
fn an_error_rolls_back() -> pheap::Result<()> {
    for pin in [false, true] {
        let heap = small().pin_undo(pin).in_memory()?;
        let list: Root<List> = heap.root("list")?;
        list.txn(|tx, list| push(tx, list, 1))?;
        let result = list.txn(|tx, list| {
            push(tx, list, 2)?;
            push(tx, list, 3)?;
            assert_eq!(values(tx, list), [3, 2, 1]);
            Err::<(), _>(Error::abort("no"))
        });
        assert!(matches!(result, Err(Error::Aborted(_))));
        assert_eq!(list.read(values)?, [1]);
        list.txn(|tx, list| push(tx, list, 4))?;
        assert_eq!(list.read(values)?, [4, 1]);
    }
    Ok(())
}

#[test]
fn a_long_transaction_grows_its_log() -> pheap::Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let heap = small().open(dir.path().join("x"))?;
    #[derive(Persist)]
    #[repr(C)]
    struct Array<'r> {
        items: P<'r, [u64]>,
    }
    let array: Root<Array> =
        heap.root_or("array", |tx| Ok(Array { items: tx.alloc_slice(100_000, |i| i as u64)? }))?;
    let sum = |view: &View<'_>, items: &[u64]| {
        let _ = view;
        items.iter().sum::<u64>()
    };
    let before = array.read(|view, a| sum(view, &view[view[a].items]))?;
    let result = array.txn(|tx, a| {
        let items = tx[a].items;
        tx.slice_mut(items, ..).fill(1);
        assert_eq!(tx[items].iter().sum::<u64>(), 100_000);
        Err::<(), _>(Error::abort("no"))
    });
    assert!(result.is_err());
    assert_eq!(array.read(|view, a| sum(view, &view[view[a].items]))?, before);
    array.txn(|tx, a| {
        let items = tx[a].items;
        for i in 0..50_000 {
            tx.swap(items.at(tx, i), items.at(tx, 99_999 - i));
        }
        Ok(())
    })?;
    assert_eq!(array.read(|view, a| view[view[a].items][0])?, 99_999);
    assert_eq!(array.read(|view, a| sum(view, &view[view[a].items]))?, before);
    Ok(())
}

#[test]
fn several_roots_change_together() -> pheap::Result<()> {
    let heap = small().in_memory()?;
    let a: Root<List> = heap.root("a")?;
    let b: Root<List> = heap.root("b")?;
    pheap::txn((&a, &b), |((ta, a), (tb, b))| {
        push(ta, a, 1)?;
        push(tb, b, 2)
    })?;
    let failed = pheap::txn((&b, &a), |((tb, b), (ta, a))| {
        push(ta, a, 3)?;
        push(tb, b, 4)?;
        Err::<(), _>(Error::abort("no"))
    });
    assert!(failed.is_err());
    assert_eq!((a.read(values)?, b.read(values)?), (vec![1], vec![2]));
    assert!(matches!(pheap::txn((&a, &a), |_| Ok(())), Err(Error::DuplicateRoot { .. })));

    let shards = vec![a.clone(), b.clone()];
    pheap::txn(&shards, |mut shards| {
        for i in 0..shards.len() {
            shards.with(i, |tx, list| push(tx, list, 10 + i as u64))?;
        }
        shards.with_two(0, 1, |ta, a, tb, b| {
            ta[a].len += 100;
            tb[b].len += 200;
        });
        Ok(())
    })?;
    assert_eq!((a.read(values)?, b.read(values)?), (vec![10, 1], vec![11, 2]));
    assert_eq!(b.read(|view, list| view[list].len)?, 202);
    Ok(())
}
