//! The versions of a program's types, and how it opens its root.

use pheap::{Heap, P, Persist, Result, Root, Txn, View};

/// The same in the first two versions.
#[derive(Persist)]
#[repr(C)]
pub(crate) struct Node<'r> {
    pub(crate) value: u64,
    pub(crate) next: Option<P<'r, Node<'r>>>,
}

pub(crate) mod v1 {
    use super::*;

    #[derive(Persist, Default)]
    #[repr(C)]
    #[persist(id = "List")]
    pub(crate) struct List<'r> {
        pub(crate) head: Option<P<'r, Node<'r>>>,
        pub(crate) len: u64,
    }
}

pub(crate) mod v2 {
    use super::*;

    /// Knows its sum, and has 1624 bytes.
    #[derive(Persist)]
    #[repr(C)]
    #[persist(id = "List")]
    pub(crate) struct List<'r> {
        pub(crate) sum: u64,
        pub(crate) len: u64,
        pub(crate) head: Option<P<'r, Node<'r>>>,
        pub(crate) spare: [u64; 200],
    }
}

pub(crate) mod v3 {
    use super::*;

    /// A slice instead of nodes.
    #[derive(Persist)]
    #[repr(C)]
    #[persist(id = "List")]
    pub(crate) struct List<'r> {
        pub(crate) values: P<'r, [u64]>,
        pub(crate) sum: u64,
    }
}

pub(crate) type First = Root<v1::List<'static>>;
pub(crate) type Second = Root<v2::List<'static>>;
pub(crate) type Third = Root<v3::List<'static>>;

/// What the first version makes: the list n-1, ..., 1, 0.
pub(crate) fn make(heap: &Heap, n: u64) -> Result<First> {
    let list: First = heap.root("list")?;
    list.txn(|tx, list| (0..n).try_for_each(|value| push(tx, list, value)))?;
    Ok(list)
}

pub(crate) fn push<'r>(tx: &mut Txn<'r>, list: P<'r, v1::List<'r>>, value: u64) -> Result<()> {
    let node = tx.alloc(Node { value, next: tx[list].head })?;
    tx[list].head = Some(node);
    tx[list].len += 1;
    Ok(())
}

pub(crate) fn push2<'r>(tx: &mut Txn<'r>, list: P<'r, v2::List<'r>>, value: u64) -> Result<()> {
    let node = tx.alloc(Node { value, next: tx[list].head })?;
    tx[list].head = Some(node);
    tx[list].len += 1;
    tx[list].sum += value;
    Ok(())
}

pub(crate) fn values<'r>(view: &View<'r>, head: Option<P<'r, Node<'r>>>) -> Vec<u64> {
    std::iter::successors(head, |&node| view[node].next).map(|node| view[node].value).collect()
}

/// From the first version to the second: the nodes stay.
pub(crate) fn to_second(heap: &Heap) -> Result<bool> {
    heap.migrate::<v1::List, v2::List>("list", |tx, old| second(tx, old))
}

pub(crate) fn second<'r>(view: &View<'r>, old: P<'r, v1::List<'r>>) -> Result<v2::List<'r>> {
    let (head, len) = (view[old].head, view[old].len);
    Ok(v2::List { sum: values(view, head).iter().sum(), len, head, spare: [7; 200] })
}

/// And back.
pub(crate) fn to_first(heap: &Heap) -> Result<bool> {
    heap.migrate::<v2::List, v1::List>("list", |tx, old| {
        Ok(v1::List { head: tx[old].head, len: tx[old].len })
    })
}

/// From the second version to the third: everything is made anew.
pub(crate) fn to_third(heap: &Heap) -> Result<bool> {
    heap.migrate::<v2::List, v3::List>("list", |tx, old| {
        let values = values(tx, tx[old].head);
        Ok(v3::List { values: tx.alloc_slice_copy(&values)?, sum: tx[old].sum })
    })
}

/// How the second version of the program opens its root, whether that or the first has written it.
pub(crate) fn open_second(heap: &Heap) -> Result<Second> {
    to_second(heap)?;
    heap.existing_root("list")
}

/// How the third one does.
pub(crate) fn open_third(heap: &Heap) -> Result<Third> {
    to_second(heap)?;
    to_third(heap)?;
    heap.existing_root("list")
}

/// Returns the values of a list of the first or second version. Asserts that its counts agree with them.
pub(crate) fn contents(heap: &Heap) -> Vec<u64> {
    if let Ok(list) = heap.existing_root::<v1::List>("list") {
        return contents_of_first(&list);
    }
    let list: Second = heap.existing_root("list").unwrap();
    list.read(|view, list| {
        let v2::List { sum, len, head, spare } = view[list];
        let values = values(view, head);
        assert_eq!((len, sum, spare), (values.len() as u64, values.iter().sum(), [7; 200]));
        values
    })
    .unwrap()
}

pub(crate) fn contents_of_first(list: &First) -> Vec<u64> {
    list.read(|view, list| {
        let values = values(view, view[list].head);
        assert_eq!(view[list].len, values.len() as u64);
        values
    })
    .unwrap()
}

/// The list that [`make`] has made.
pub(crate) fn counted(n: u64) -> Vec<u64> {
    (0..n).rev().collect()
}
