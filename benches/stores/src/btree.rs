//! A B+-tree on a heap, as a user of the crate would write it.
//!
//! Entries stay in the slots that they were written to; what is sorted is the *order*, a permutation of the numbers of all
//! slots: first those in use, by their keys, then the free ones. So an insertion changes an entry, the order and the length, and a split changes
//! the length of the full node and nothing else of it.

use crate::systems::{Key, Value};
use pheap::{P, Persist, Result, Txn, View, txn};

/// Entries of a leaf, and children of an inner node.
const ENTRIES: usize = 32;
const CHILDREN: usize = 64;
/// No tree that fits into memory is higher.
const MAX_HEIGHT: usize = 16;

#[derive(Persist, Default)]
#[repr(C)]
pub(crate) struct Tree<'r> {
    top: Child<'r>,
}

#[derive(Persist, Clone, Copy, Default)]
#[repr(u8)]
enum Child<'r> {
    #[default]
    Free,
    Leaf(P<'r, Leaf>),
    Inner(P<'r, Inner<'r>>),
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Entry {
    key: Key,
    value: Value,
}

#[derive(Persist)]
#[repr(C)]
struct Leaf {
    len: u64,
    order: [u8; ENTRIES],
    entries: [Entry; ENTRIES],
}

#[derive(Persist)]
#[repr(C)]
struct Inner<'r> {
    len: u64,
    order: [u8; CHILDREN],
    /// The least key below a child. That of the first one means nothing.
    least: [Key; CHILDREN],
    children: [Child<'r>; CHILDREN],
}

impl Leaf {
    fn new() -> Leaf {
        let entries = [Entry { key: [0; 16], value: [0; 100] }; ENTRIES];
        Leaf { len: 0, order: std::array::from_fn(|slot| slot as u8), entries }
    }

    /// The place in the order where the key is, or would be.
    fn find(&self, key: &Key) -> std::result::Result<usize, usize> {
        self.order[..self.len as usize].binary_search_by(|&slot| self.entries[slot as usize].key.cmp(key))
    }

    fn entry(&self, place: usize) -> &Entry {
        &self.entries[self.order[place] as usize]
    }

    fn upper_half(&self) -> Leaf {
        let mut upper = Leaf::new();
        for place in ENTRIES / 2..ENTRIES {
            upper.entries[upper.len as usize] = *self.entry(place);
            upper.len += 1;
        }
        upper
    }
}

impl<'r> Inner<'r> {
    fn new() -> Inner<'r> {
        let order = std::array::from_fn(|slot| slot as u8);
        Inner { len: 0, order, least: [[0; 16]; CHILDREN], children: [Child::Free; CHILDREN] }
    }

    fn push(&mut self, least: Key, child: Child<'r>) {
        (self.least[self.len as usize], self.children[self.len as usize]) = (least, child);
        self.len += 1;
    }

    /// The place in the order behind the child that has the key below it.
    fn behind(&self, key: &Key) -> usize {
        let others = &self.order[1..self.len as usize];
        1 + others.partition_point(|&slot| self.least[slot as usize] <= *key)
    }

    fn child(&self, key: &Key) -> Child<'r> {
        self.children[self.order[self.behind(key) - 1] as usize]
    }

    fn upper_half(&self) -> Inner<'r> {
        let mut upper = Inner::new();
        for &slot in &self.order[CHILDREN / 2..] {
            upper.push(self.least[slot as usize], self.children[slot as usize]);
        }
        upper
    }
}

/// The order when the first free slot was taken for what comes to a place, and that slot.
fn take<const N: usize>(mut order: [u8; N], len: u64, place: usize) -> ([u8; N], usize) {
    order[place..=len as usize].rotate_right(1);
    (order, order[place] as usize)
}

pub(crate) fn get<'v, 'r>(view: &'v View<'r>, tree: P<'r, Tree<'r>>, key: &Key) -> Option<&'v Value> {
    let mut node = view[tree].top;
    loop {
        match node {
            Child::Inner(inner) => node = view[inner].child(key),
            Child::Leaf(leaf) => {
                let leaf = &view[leaf];
                return leaf.find(key).ok().map(|place| &leaf.entry(place).value);
            }
            Child::Free => return None,
        }
    }
}

/// Inserts, or replaces the value.
#[txn]
pub(crate) fn insert<'r>(tx: &mut Txn<'r>, tree: P<'r, Tree<'r>>, key: &Key, value: &Value) -> Result<()> {
    if let Child::Free = tx[tree].top {
        tx[tree].top = Child::Leaf(tx.alloc(Leaf::new())?);
    }
    let mut path = [None; MAX_HEIGHT];
    let mut height = 0;
    let mut node = tx[tree].top;
    let mut leaf = loop {
        match node {
            Child::Inner(inner) => {
                path[height] = Some(inner);
                height += 1;
                node = tx[inner].child(key);
            }
            Child::Leaf(leaf) => break leaf,
            Child::Free => unreachable!("a slot in use has a child"),
        }
    };
    if tx[leaf].len == ENTRIES as u64 {
        let upper = tx[leaf].upper_half();
        let least = upper.entry(0).key;
        let upper = tx.alloc(upper)?;
        tx[leaf].len = ENTRIES as u64 / 2;
        add_child(tx, tree, &path[..height], least, Child::Leaf(upper))?;
        if *key >= least {
            leaf = upper;
        }
    }
    match tx[leaf].find(key) {
        Ok(place) => {
            let slot = tx[leaf].order[place] as usize;
            tx[leaf].entries[slot].value = *value;
        }
        Err(place) => {
            let (order, slot) = take(tx[leaf].order, tx[leaf].len, place);
            tx[leaf].entries[slot] = Entry { key: *key, value: *value };
            tx[leaf].order = order;
            tx[leaf].len += 1;
        }
    }
    Ok(())
}

/// Adds a child to the last node of the path, splitting what is full on the way up.
#[txn]
fn add_child<'r>(
    tx: &mut Txn<'r>,
    tree: P<'r, Tree<'r>>,
    path: &[Option<P<'r, Inner<'r>>>],
    mut least: Key,
    mut child: Child<'r>,
) -> Result<()> {
    for &node in path.iter().rev().flatten() {
        if tx[node].len < CHILDREN as u64 {
            put_child(tx, node, least, child);
            return Ok(());
        }
        let upper = tx[node].upper_half();
        let least_of_upper = upper.least[0];
        let upper = tx.alloc(upper)?;
        tx[node].len = CHILDREN as u64 / 2;
        put_child(tx, if least >= least_of_upper { upper } else { node }, least, child);
        (least, child) = (least_of_upper, Child::Inner(upper));
    }
    let mut inner = Inner::new();
    inner.push([0; 16], tx[tree].top);
    inner.push(least, child);
    let inner = tx.alloc(inner)?;
    tx[tree].top = Child::Inner(inner);
    Ok(())
}

#[txn]
fn put_child<'r>(tx: &mut Txn<'r>, node: P<'r, Inner<'r>>, least: Key, child: Child<'r>) {
    let place = tx[node].behind(&least);
    let (order, slot) = take(tx[node].order, tx[node].len, place);
    tx[node].least[slot] = least;
    tx[node].children[slot] = child;
    tx[node].order = order;
    tx[node].len += 1;
}
