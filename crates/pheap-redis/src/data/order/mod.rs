//! Members in the order of their scores, counted: a B⁺-tree (Bayer and McCreight, "Organization and maintenance of large ordered indices", 1972; Comer, "The ubiquitous B-tree", 1979) whose
//! branches know how many items are below each child. So a rank, the item of a rank, and how many items are before something are found on one way down. Few items are a sorted vector.
//!
//! What must hold: all items of a child are not before its `first`, and all of the children before it are; that of the first child of a branch may be anything, and is not looked at.
//! All leaves are equally deep. Only the only leaf of a tree may be empty.

mod branch;
mod iter;
mod leaf;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use pheap::{P, PVec, Persist, Txn, View, field};
use smallvec::SmallVec;

use self::branch::{BRANCH, Branch, Child, Node};
pub use self::iter::Items;
use self::leaf::{LEAF, Leaf};
use super::value::Str;

/// With fewer items or children, a node is merged with the next one, if that leaves it some room.
const FEW: usize = LEAF / 4;
const ROOMY: usize = LEAF * 3 / 4;

/// A member and its score.
#[derive(Persist, Clone, Copy, Debug)]
#[repr(C)]
pub struct Item<'r> {
    /// What orders it. Never NaN.
    pub score: f64,
    /// What orders it among those of the same score.
    pub member: Str<'r>,
}

impl<'r> Item<'r> {
    /// How it is ordered, compared with another member and its score.
    pub fn compare(&self, view: &View<'r>, score: f64, member: &[u8]) -> Ordering {
        match self.score.partial_cmp(&score) {
            None | Some(Ordering::Equal) => view[self.member].cmp(member),
            Some(order) => order,
        }
    }
}

/// The items of a leaf, and one more.
type Run<'r> = SmallVec<[Item<'r>; LEAF + 1]>;

/// The branches on the way to a leaf, and which child the way takes.
type Way<'r> = SmallVec<[(P<'r, Branch<'r>>, usize); 8]>;

/// All items.
#[derive(Persist, Clone, Copy, Debug)]
#[repr(u8)]
enum Top<'r> {
    /// No more than a leaf has.
    Few(P<'r, PVec<'r, Item<'r>>>),
    Many(P<'r, Branch<'r>>),
}

/// Members in the order of their scores.
#[derive(Persist)]
#[repr(C)]
pub(super) struct Order<'r> {
    root: Top<'r>,
}

impl<'r> Order<'r> {
    /// One without members.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(super) fn new(tx: &Txn<'r>) -> pheap::Result<Order<'r>> {
        Ok(Order { root: Top::Few(tx.alloc(PVec::new())?) })
    }

    /// How many items are before what `is_before` says. It must be true of all items up to some place, and false of all others.
    pub(super) fn count_before(&self, view: &View<'r>, is_before: impl Fn(&Item<'r>) -> bool) -> usize {
        let mut branch = match self.root {
            Top::Few(items) => return view[items].partition_point(view, is_before),
            Top::Many(branch) => branch,
        };
        let mut count = 0;
        loop {
            let at = branch::child_of(view, branch, &is_before);
            count += branch::counts(view, branch)[..at].iter().sum::<u64>() as usize;
            match branch::node(view, branch, at) {
                Some(Node::Branch(below)) => branch = below,
                Some(Node::Leaf(leaf)) => return count + view[leaf].count_before(is_before),
                None => return count,
            }
        }
    }

    /// How many items are before one of this score.
    pub(super) fn rank(&self, view: &View<'r>, score: f64, member: &[u8]) -> usize {
        let mut branch = match self.root {
            Top::Few(items) => return place_in_few(view, items, score, member),
            Top::Many(branch) => branch,
        };
        let mut count = 0;
        loop {
            let (at, node) = branch::find(view, branch, score, member);
            count += branch::counts(view, branch)[..at].iter().sum::<u64>() as usize;
            match node {
                Some(Node::Branch(below)) => branch = below,
                Some(Node::Leaf(leaf)) => return count + view[leaf].place_for(view, score, member),
                None => return count,
            }
        }
    }

    /// Adds a member that is not there.
    ///
    /// # Errors
    /// If there is no memory for it. Then the tree may be damaged: the transaction must not commit.
    pub(super) fn insert(this: P<'r, Order<'r>>, tx: &mut Txn<'r>, item: Item<'r>) -> pheap::Result<()> {
        let root = match tx[this].root {
            Top::Few(items) => return Self::insert_in_few(this, tx, items, item),
            Top::Many(root) => root,
        };
        let (leaf, way) = way_to(tx, root, item.score, &tx[item.member]);
        let seen = &tx[leaf];
        let (at, places) = (seen.place_for(tx, item.score, &tx[item.member]), *seen.places());
        if places.len() < LEAF {
            leaf::insert(tx, leaf, places, at, item);
            way.iter().rev().for_each(|&(branch, at)| branch::add(tx, branch, at));
            return Ok(());
        }
        let is_last = at == LEAF && way.iter().all(|&(branch, at)| at + 1 == branch::len(tx, branch));
        let mut items = tx[leaf].items();
        items.insert(at, item);
        let right = split(&items, is_last).1;
        let mut new = Some(leaf_of(tx, right)?);
        if !is_last {
            tx[leaf] = Leaf::of(split(&items, is_last).0);
        }
        for &(branch, at) in way.iter().rev() {
            new = match new {
                Some(new) => add_child(tx, branch, at, new)?,
                None => {
                    branch::add(tx, branch, at);
                    None
                }
            };
        }
        if let Some(right) = new {
            let (first, count) = first_and_count(tx, root);
            let left = Child { first, count, node: Node::Branch(root) };
            let root = tx.alloc(Branch::of(&[left, right]))?;
            tx[field!(this.root)] = Top::Many(root);
        }
        Ok(())
    }

    fn insert_in_few(
        this: P<'r, Order<'r>>,
        tx: &mut Txn<'r>,
        few: P<'r, PVec<'r, Item<'r>>>,
        item: Item<'r>,
    ) -> pheap::Result<()> {
        let at = place_in_few(tx, few, item.score, &tx[item.member]);
        if tx[few].len() < LEAF {
            return few.insert(tx, at, item);
        }
        let mut items: Run<'r> = few.iter(tx).copied().collect();
        items.insert(at, item);
        let (left, right) = split(&items, at == LEAF);
        let children = [leaf_of(tx, left)?, leaf_of(tx, right)?];
        let root = tx.alloc(Branch::of(&children))?;
        tx[field!(this.root)] = Top::Many(root);
        Ok(())
    }

    /// Removes a member that is there with this score. The item that it had; none, if no member has this score.
    pub(super) fn remove(
        this: P<'r, Order<'r>>,
        tx: &mut Txn<'r>,
        score: f64,
        member: &[u8],
    ) -> Option<Item<'r>> {
        let root = match tx[this].root {
            Top::Few(items) => {
                let at = place_in_few(tx, items, score, member);
                items.get(tx, at).filter(|item| item.compare(tx, score, member).is_eq())?;
                return Some(items.remove(tx, at));
            }
            Top::Many(root) => root,
        };
        let (leaf, way) = way_to(tx, root, score, member);
        let seen = &tx[leaf];
        let (at, places) = (seen.place_of(tx, score, member)?, *seen.places());
        let item = seen.get(at)?;
        let mut below = places.len() - 1;
        leaf::remove(tx, leaf, places, at);
        let mut is_smaller = below == 0;
        for (depth, &(branch, at)) in way.iter().enumerate().rev() {
            branch::subtract(tx, branch, at);
            // Most are large enough, and then so is what is above.
            if below >= FEW {
                continue;
            }
            is_smaller |= if below == 0 && (depth > 0 || branch::len(tx, branch) > 1) {
                let mut children = branch::children(tx, branch);
                children.remove(at);
                branch::set(tx, branch, &children);
                true
            } else {
                merge(tx, branch, at)
            };
            below = branch::len(tx, branch);
        }
        if is_smaller {
            Self::lower(this, tx);
        }
        Some(item)
    }

    /// A root with one child is none.
    fn lower(this: P<'r, Order<'r>>, tx: &mut Txn<'r>) {
        while let Top::Many(root) = tx[this].root
            && branch::len(tx, root) == 1
        {
            let root = match branch::node(tx, root, 0) {
                Some(Node::Branch(below)) => Top::Many(below),
                Some(Node::Leaf(leaf)) => {
                    let few = PVec::from_slice(tx, &tx[leaf].items()).and_then(|items| tx.alloc(items));
                    // Without memory for it the leaf stays.
                    let Ok(few) = few else { return };
                    Top::Few(few)
                }
                None => return debug_assert!(false, "a branch has children"),
            };
            tx[field!(this.root)] = root;
        }
    }
}

/// The leaf that a member is in, or would be, and the way to it.
fn way_to<'r>(
    view: &View<'r>,
    mut branch: P<'r, Branch<'r>>,
    score: f64,
    member: &[u8],
) -> (P<'r, Leaf<'r>>, Way<'r>) {
    let mut way = Way::new();
    loop {
        let (at, node) = branch::find(view, branch, score, member);
        way.push((branch, at));
        match node.expect("a branch has children") {
            Node::Leaf(leaf) => return (leaf, way),
            Node::Branch(below) => branch = below,
        }
    }
}

/// Where a member is among few, or would be.
fn place_in_few<'r>(view: &View<'r>, items: P<'r, PVec<'r, Item<'r>>>, score: f64, member: &[u8]) -> usize {
    view[items].partition_point(view, |item| item.compare(view, score, member).is_lt())
}

/// What stays, and what a new node gets, of items or children of which there is one too many. Whoever adds them in order gets nodes that are full.
fn split<T>(all: &[T], is_last: bool) -> (&[T], &[T]) {
    all.split_at(if is_last { all.len() - 1 } else { all.len() / 2 })
}

/// A new leaf of these items.
fn leaf_of<'r>(tx: &Txn<'r>, items: &[Item<'r>]) -> pheap::Result<Child<'r>> {
    let leaf = tx.alloc(Leaf::of(items))?;
    Ok(Child { first: items[0], count: items.len() as u64, node: Node::Leaf(leaf) })
}

fn first_and_count<'r>(view: &View<'r>, branch: P<'r, Branch<'r>>) -> (Item<'r>, u64) {
    let children = branch::children(view, branch);
    (children[0].first, children.iter().map(|child| child.count).sum())
}

/// Counts one more item below child `at`, of which a `new` one was split off. What is split off the branch then.
fn add_child<'r>(
    tx: &mut Txn<'r>,
    branch: P<'r, Branch<'r>>,
    at: usize,
    new: Child<'r>,
) -> pheap::Result<Option<Child<'r>>> {
    let mut children = branch::children(tx, branch);
    children[at].count = children[at].count + 1 - new.count;
    children.insert(at + 1, new);
    if children.len() <= BRANCH {
        branch::set(tx, branch, &children);
        return Ok(None);
    }
    let (left, right) = split(&children, at + 1 == BRANCH);
    branch::set(tx, branch, left);
    let new = tx.alloc(Branch::of(right))?;
    let count = right.iter().map(|child| child.count).sum();
    Ok(Some(Child { first: right[0].first, count, node: Node::Branch(new) }))
}

/// Merges child `at` with the one after or before it, if they are small enough together. Whether they were.
fn merge<'r>(tx: &mut Txn<'r>, branch: P<'r, Branch<'r>>, at: usize) -> bool {
    for left in [at, at.wrapping_sub(1)] {
        let (Some(to), Some(from)) =
            (branch::node(tx, branch, left), branch::node(tx, branch, left.wrapping_add(1)))
        else {
            continue;
        };
        if to.len(tx) + from.len(tx) > ROOMY {
            continue;
        }
        let mut children = branch::children(tx, branch);
        let right = children.remove(left + 1);
        children[left].count += right.count;
        match (to, from) {
            (Node::Leaf(to), Node::Leaf(from)) => {
                let mut items = tx[to].items();
                items.extend(tx[from].items());
                tx[to] = Leaf::of(&items);
            }
            (Node::Branch(to), Node::Branch(from)) => {
                let (mut all, mut moved) = (branch::children(tx, to), branch::children(tx, from));
                moved[0].first = right.first;
                all.extend(moved);
                branch::set(tx, to, &all);
            }
            _ => debug_assert!(false, "all leaves are equally deep"),
        }
        branch::set(tx, branch, &children);
        return true;
    }
    false
}
