//! A lesson: a linked list that is still there tomorrow.
//!
//! ```text
//! cargo run --example list
//! ```
//!
//! It covers roots, transactions, rollback, reading, held pointers, and mistakes that the compiler rejects.
//! The steps have assertions, so a run also checks much of what the comments say.

use pheap::{Error, Heap, Held, P, Persist, Root, Txn, View, txn};

// ---- 1. Types ---------------------------------------------------------------------------------------------

/// An object in the heap is a plain struct. `repr(C)` fixes its layout, because a file outlives the compiler
/// that wrote it.
///
/// `P<'r, T>` is the pointer: eight bytes with an address. `'r` is its *brand*. Each transaction has a
/// different brand, and the compiler lets no value with a brand leave its transaction. So there are no
/// dangling pointers and no reference counts.
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

// ---- 2. Functions that write, functions that read ---------------------------------------------------------

/// Adds a value at the front.
///
/// A function that changes a heap takes a `&mut Txn`. There is no other way to write, so every write is in a
/// transaction. The heap is indexed by pointers, as an array is by numbers: `tx[list].head`.
///
/// `#[txn]` makes this cheaper, not safer: it logs only the assigned fields, not whole objects.
#[txn]
fn push<'r>(tx: &mut Txn<'r>, list: P<'r, List<'r>>, value: u64) -> pheap::Result<()> {
    let node = tx.alloc(Node { value, next: tx[list].head })?;
    tx[list].head = Some(node);
    tx[list].len += 1;
    Ok(())
}

/// Removes the first value. The node is not freed here. Nothing points to it any more, so the collector will
/// reclaim it.
#[txn]
fn pop<'r>(tx: &mut Txn<'r>, list: P<'r, List<'r>>) -> Option<u64> {
    let node = tx[list].head?;
    tx[list].head = tx[node].next;
    tx[list].len -= 1;
    Some(tx[node].value)
}

/// A function that only reads takes a `&View`. A transaction is also a view, so this function works inside
/// one.
fn values<'r>(view: &View<'r>, list: P<'r, List<'r>>) -> Vec<u64> {
    let nodes = std::iter::successors(view[list].head, |&node| view[node].next);
    nodes.map(|node| view[node].value).collect()
}

fn main() -> pheap::Result<()> {
    let folder = tempfile::tempdir().expect("a folder for the heap");
    let path = folder.path().join("numbers.pheap");

    // ---- 3. A heap is a file, a root is where you start ---------------------------------------------------
    {
        // Creates the file, or opens it. After a crash, this completes the last transaction or rolls it back.
        let heap = Heap::open(&path)?;
        // A root is a named object. The first call creates it with `Default`, and later calls find it. (A
        // heap can have many roots.)
        let list: Root<List> = heap.root("numbers")?;
        // One transaction: the allocation, the pointer and the length take effect together, or not at all.
        list.txn(|tx, list| push(tx, list, 1))?;
        // When `txn` returns, the change is committed. There is nothing to save, and nothing to close.
    }

    let heap = Heap::open(&path)?; // tomorrow, in another program
    let list: Root<List> = heap.root("numbers")?;
    assert_eq!(list.read(values)?, [1]);
    println!("after reopening:             {:?}", list.read(values)?);

    // ---- 4. All or nothing --------------------------------------------------------------------------------
    // An error rolls back all changes of the closure and of the functions that it has called. A panic does
    // the same, and recovery after `kill -9` does, too (see the examples `bank` and `index`).
    let result = list.txn(|tx, list| {
        push(tx, list, 2)?;
        push(tx, list, 3)?;
        assert_eq!(values(tx, list), [3, 2, 1]); // only the transaction sees its changes
        Err::<(), _>(Error::abort("changed my mind"))
    });
    assert!(matches!(result, Err(Error::Aborted(_))));
    assert_eq!(list.read(values)?, [1]);
    println!("after a rollback:            {:?}", list.read(values)?);

    // `txn` returns the result of the closure. The result must not contain a pointer.
    let (popped, left) = list.txn(|tx, list| {
        push(tx, list, 2)?;
        push(tx, list, 3)?;
        Ok((pop(tx, list), tx[list].len))
    })?;
    assert_eq!((popped, left), (Some(3), 2));
    println!("after push, push, pop:       {:?}", list.read(values)?);

    // ---- 5. Plain references, for a while -----------------------------------------------------------------
    // `&mut tx[node]` is a plain `&mut Node`. The object is made crash-safe before you get the reference. So
    // any code that takes a `&mut` may change the object: `mem::swap`, a method, or a library that does not
    // know heaps.
    list.txn(|tx, list| {
        let first = tx[list].head.expect("there are two nodes");
        let second = tx[first].next.expect("there are two nodes");
        let value = std::mem::replace(&mut tx[first].value, 20);
        tx[second].value += value * 100;
        tx.swap(first, second); // this swaps the whole nodes, with their pointers,
        tx[first].next = Some(second); // so the pointers must be set again
        tx[second].next = None;
        Ok(())
    })?;
    assert_eq!(list.read(values)?, [201, 20]);
    println!("after some surgery:          {:?}", list.read(values)?);

    // ---- 6. Keeping a pointer -----------------------------------------------------------------------------
    // A `P` cannot leave its transaction. A `Held` can: it refers to an object across transactions, as long
    // as the heap is open. It belongs to the program, not to the heap.
    let bookmark: Held<Node> = list.txn(|tx, list| {
        let node = tx[list].head.expect("there are two nodes");
        Ok(tx.hold(node))
    })?;
    list.txn(|tx, list| push(tx, list, 7))?;
    let below = list.read(|view, _| view.get(&bookmark).map(|node| view[node].value))??;
    assert_eq!(below, 201);
    println!("the node that was held:      {below}");

    // If the transaction of a `Held` is rolled back, the `Held` is invalid, and its use is an error.
    let mut never = None;
    let _ = list.txn(|tx, _| {
        let node = tx.alloc(Node { value: 8, next: None })?;
        never = Some(tx.hold(node));
        Err::<(), _>(Error::abort("this node never was"))
    });
    let never = never.expect("the closure has run");
    assert!(matches!(list.read(|view, _| view.get(&never).map(drop))?, Err(Error::NotHeld)));

    // ---- 7. One thing at a time ---------------------------------------------------------------------------
    // A root is locked while a transaction runs. A second transaction on it inside the first one would wait
    // for ever, so it is an error. Pass `tx` on instead. (To change several roots together, see `pheap::txn`
    // and the example `bank`.)
    let nested = list.txn(|_, _| list.txn(|tx, list| push(tx, list, 9)));
    assert!(matches!(nested, Err(Error::Nested)));

    // ---- 8. What does not compile -------------------------------------------------------------------------
    // Try them: each of these mistakes is a compile error.
    //
    //     let head = list.read(|view, list| view[list].head)?;           a pointer leaves its transaction
    //     list.read(|view, list| push(view, list, 1))?;                  writing without a transaction
    //     list.txn(|tx, list| { let r = &tx[list]; push(tx, list, 1)?; Ok(println!("{}", r.len)) })?;
    //                                                                    a reference is used after a write
    //     other.txn(|ot, o| list.txn(|tx, l| Ok(tx[l].head = ot[o].head)))?;
    //                                                            a pointer into one root is stored in another
    //     #[derive(Persist)] #[repr(C)] struct Bad { text: String }      a `String` has its text elsewhere

    assert_eq!(list.read(values)?, [7, 201, 20]);
    println!("in the end:                  {:?}", list.read(values)?);
    Ok(())
}
