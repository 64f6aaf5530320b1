//! Members in the order of their scores, with counts: a B⁺-tree (Bayer and McCreight, "Organization and
//! maintenance of large ordered indices", 1972; Comer, "The ubiquitous B-tree", 1979). Its branches have the
//! number of items below each child. The rank of an item, the item at a rank, and the number of items in
//! front of a bound therefore take one descent each. A set with few items is a sorted vector.
//!
//! Invariants: For each child of a branch but the first one: all items of the child are at or behind the
//! child's `first`, and all items of the children before it are in front of that `first`. The `first` of a
//! branch's first child may be any item, because no search reads it. The member of a `first` may have been
//! removed from the set. All leaves have the same depth. A leaf is not empty unless it is the only one.

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

/// When a removal leaves a node with fewer items or children than this, the node is merged with a neighbour,
/// if both together have at most `ROOMY`.
const FEW: usize = LEAF / 4;
const ROOMY: usize = LEAF * 3 / 4;

/// A member and its score.
#[derive(Persist, Clone, Copy, Debug)]
#[repr(C)]
pub struct Item<'r> {
    /// The score, which orders items. Never NaN.
    pub score: f64,
    /// The member, which orders items of the same score.
    pub member: Str<'r>,
}

impl<'r> Item<'r> {
    /// Compares this item with another member and its score.
    pub fn compare(&self, view: &View<'r>, score: f64, member: &[u8]) -> Ordering {
        match self.score.partial_cmp(&score) {
            None | Some(Ordering::Equal) => view[self.member].cmp(member),
            Some(order) => order,
        }
    }
}

/// Room for the items of a leaf, and one more.
type LeafItems<'r> = SmallVec<[Item<'r>; LEAF + 1]>;

/// The branches on the way to a leaf, and the index of the child that the way takes in each.
type LeafPath<'r> = SmallVec<[(P<'r, Branch<'r>>, usize); 8]>;

/// The root of the tree.
#[derive(Persist, Clone, Copy, Debug)]
#[repr(u8)]
enum Top<'r> {
    /// A sorted vector, which has no more items than a leaf.
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
    /// Makes an empty order.
    ///
    /// # Errors
    /// If the heap cannot allocate memory.
    pub(super) fn new(tx: &Txn<'r>) -> pheap::Result<Order<'r>> {
        Ok(Order { root: Top::Few(tx.alloc(PVec::new())?) })
    }

    /// Returns the number of items for which `is_before` is true. `is_before` must be true of the first items
    /// up to some rank, and false of all others.
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

    /// Returns the number of items in front of this member and score.
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

    /// Adds a member that is absent.
    ///
    /// # Errors
    /// If the heap cannot allocate memory. Then the tree may be damaged: the transaction must not commit.
    pub(super) fn insert(this: P<'r, Order<'r>>, tx: &mut Txn<'r>, item: Item<'r>) -> pheap::Result<()> {
        let root = match tx[this].root {
            Top::Few(items) => return Self::insert_in_few(this, tx, items, item),
            Top::Many(root) => root,
        };
        let (leaf, way) = path_to_leaf(tx, root, item.score, &tx[item.member]);
        let seen = &tx[leaf];
        let (at, places) = (seen.place_for(tx, item.score, &tx[item.member]), *seen.places());
        if places.len() < LEAF {
            leaf::insert(tx, leaf, places, at, item);
            way.iter().rev().for_each(|&(branch, at)| branch::count_item_added(tx, branch, at));
            return Ok(());
        }
        let is_last = at == LEAF && way.iter().all(|&(branch, at)| at + 1 == branch::len(tx, branch));
        let mut items = tx[leaf].items();
        items.insert(at, item);
        let right = split(&items, is_last).1;
        let mut new = Some(leaf_of(tx, right)?);
        if !is_last {
            tx[leaf] = Leaf::from_items(split(&items, is_last).0);
        }
        for &(branch, at) in way.iter().rev() {
            new = match new {
                Some(new) => add_child(tx, branch, at, new)?,
                None => {
                    branch::count_item_added(tx, branch, at);
                    None
                }
            };
        }
        if let Some(right) = new {
            let (first, count) = first_and_count(tx, root);
            let left = Child { first, count, node: Node::Branch(root) };
            let root = tx.alloc(Branch::from_children(&[left, right]))?;
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
        let mut items: LeafItems<'r> = few.iter(tx).copied().collect();
        items.insert(at, item);
        let (left, right) = split(&items, at == LEAF);
        let children = [leaf_of(tx, left)?, leaf_of(tx, right)?];
        let root = tx.alloc(Branch::from_children(&children))?;
        tx[field!(this.root)] = Top::Many(root);
        Ok(())
    }

    /// Removes a member. If any item has this score, the member must have it. Returns its item, or None if no
    /// item has this score.
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
        let (leaf, way) = path_to_leaf(tx, root, score, member);
        let seen = &tx[leaf];
        let (at, places) = (seen.place_of(tx, score, member)?, *seen.places());
        let item = seen.get(at)?;
        let mut below = places.len() - 1;
        leaf::remove(tx, leaf, places, at);
        let mut is_smaller = below == 0;
        for (depth, &(branch, at)) in way.iter().enumerate().rev() {
            branch::count_item_removed(tx, branch, at);
            // A node that is large enough is not merged, so its parent keeps its children.
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
            Self::collapse_root(this, tx);
        }
        Some(item)
    }

    /// Replaces a root that has only one child by that child. If the child is a leaf, it becomes a vector.
    fn collapse_root(this: P<'r, Order<'r>>, tx: &mut Txn<'r>) {
        while let Top::Many(root) = tx[this].root
            && branch::len(tx, root) == 1
        {
            let root = match branch::node(tx, root, 0) {
                Some(Node::Branch(below)) => Top::Many(below),
                Some(Node::Leaf(leaf)) => {
                    let few = PVec::from_slice(tx, &tx[leaf].items()).and_then(|items| tx.alloc(items));
                    // Without memory for the vector, the leaf stays.
                    let Ok(few) = few else { return };
                    Top::Few(few)
                }
                None => return debug_assert!(false, "a branch has children"),
            };
            tx[field!(this.root)] = root;
        }
    }
}

/// Returns the leaf that has a member, or to which it would be added, and the way to that leaf.
fn path_to_leaf<'r>(
    view: &View<'r>,
    mut branch: P<'r, Branch<'r>>,
    score: f64,
    member: &[u8],
) -> (P<'r, Leaf<'r>>, LeafPath<'r>) {
    let mut way = LeafPath::new();
    loop {
        let (at, node) = branch::find(view, branch, score, member);
        way.push((branch, at));
        match node.expect("a branch has children") {
            Node::Leaf(leaf) => return (leaf, way),
            Node::Branch(below) => branch = below,
        }
    }
}

/// Returns the place of a member in a sorted vector, or the place where it would be inserted.
fn place_in_few<'r>(view: &View<'r>, items: P<'r, PVec<'r, Item<'r>>>, score: f64, member: &[u8]) -> usize {
    view[items].partition_point(view, |item| item.compare(view, score, member).is_lt())
}

/// Splits a full node's items or children, and one more, into those that stay and those of a new node. If the
/// additional one `is_last`, only that one moves, so that members which are added in ascending order fill the
/// nodes.
fn split<T>(all: &[T], is_last: bool) -> (&[T], &[T]) {
    all.split_at(if is_last { all.len() - 1 } else { all.len() / 2 })
}

/// Makes a leaf with these sorted items, of which there is at least one.
fn leaf_of<'r>(tx: &Txn<'r>, items: &[Item<'r>]) -> pheap::Result<Child<'r>> {
    let leaf = tx.alloc(Leaf::from_items(items))?;
    Ok(Child { first: items[0], count: items.len() as u64, node: Node::Leaf(leaf) })
}

fn first_and_count<'r>(view: &View<'r>, branch: P<'r, Branch<'r>>) -> (Item<'r>, u64) {
    let children = branch::children(view, branch);
    (children[0].first, children.iter().map(|child| child.count).sum())
}

/// Counts one more item below child `at`, and adds the child `new`, which was split off that child. Returns
/// the branch that is split off this one, if it was full.
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
    let new = tx.alloc(Branch::from_children(right))?;
    let count = right.iter().map(|child| child.count).sum();
    Ok(Some(Child { first: right[0].first, count, node: Node::Branch(new) }))
}

/// Merges child `at` with the next or the previous one, if both together are small enough. Returns whether
/// two children were merged.
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
                tx[to] = Leaf::from_items(&items);
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
