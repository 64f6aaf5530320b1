//! Members in the order of their scores, counted: a B⁺-tree (Bayer and McCreight, "Organization and maintenance of large ordered indices", 1972; Comer, "The ubiquitous B-tree", 1979) whose
//! branches know how many items are below each child. So a rank, the item of a rank, and how many items are before something are found on one way down.
//!
//! What must hold: all items of a child are not before its `first`, and all of the children before it are; that of the first child of a branch may be anything up to that of the second.

use std::cmp::Ordering;

use pheap::{P, PVec, Persist, Txn, View, field};
use smallvec::SmallVec;

use super::value::Str;

/// Items of a leaf, and children of a branch, at most.
const MOST: usize = 32;
/// With fewer, a node is merged with the next one, if that leaves it some room.
const FEW: usize = MOST / 4;
const ROOMY: usize = MOST * 3 / 4;

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

type Leaf<'r> = P<'r, PVec<'r, Item<'r>>>;
type Branch<'r> = P<'r, PVec<'r, Child<'r>>>;

#[derive(Persist, Clone, Copy, Debug)]
#[repr(u8)]
enum Node<'r> {
    Leaf(Leaf<'r>),
    Branch(Branch<'r>),
}

impl<'r> Node<'r> {
    fn len(self, view: &View<'r>) -> usize {
        match self {
            Node::Leaf(leaf) => view[leaf].len(),
            Node::Branch(branch) => view[branch].len(),
        }
    }
}

#[derive(Persist, Clone, Copy, Debug)]
#[repr(C)]
struct Child<'r> {
    first: Item<'r>,
    /// Number of items below it.
    count: u64,
    node: Node<'r>,
}

/// The branches on the way to a leaf, and which child the way takes.
type Way<'r> = SmallVec<[(Branch<'r>, usize); 8]>;

/// Members in the order of their scores.
#[derive(Persist)]
#[repr(C)]
pub(super) struct Order<'r> {
    root: Node<'r>,
}

impl<'r> Order<'r> {
    /// One without members.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(super) fn new(tx: &Txn<'r>) -> pheap::Result<Order<'r>> {
        Ok(Order { root: Node::Leaf(tx.alloc(PVec::new())?) })
    }

    /// How many items are before what `is_before` says. It must be true of all items up to some place, and false of all others.
    pub(super) fn count_before(&self, view: &View<'r>, is_before: impl Fn(&Item<'r>) -> bool) -> usize {
        let (mut node, mut count) = (self.root, 0);
        loop {
            match node {
                Node::Leaf(leaf) => return count + view[leaf].partition_point(view, &is_before),
                Node::Branch(branch) => {
                    let at = child_of(view, branch, &is_before);
                    count += branch.iter(view).take(at).map(|child| child.count as usize).sum::<usize>();
                    let Some(child) = branch.get(view, at) else { return count };
                    node = child.node;
                }
            }
        }
    }

    /// So many items (at most) from a rank on, which counts from 0; backwards from it, if `is_reverse`.
    pub(super) fn iter<'v>(
        &self,
        view: &'v View<'r>,
        rank: usize,
        count: usize,
        is_reverse: bool,
    ) -> Items<'v, 'r> {
        let (mut node, mut rest, mut remaining, mut way) = (self.root, rank, count, Way::new());
        loop {
            match node {
                Node::Leaf(leaf) => {
                    if rest >= view[leaf].len() {
                        remaining = 0;
                    }
                    return Items { view, way, leaf, at: rest, remaining, is_reverse };
                }
                Node::Branch(branch) => {
                    let mut at = 0;
                    for child in branch.iter(view) {
                        node = child.node;
                        if rest < child.count as usize {
                            break;
                        }
                        rest -= child.count as usize;
                        at += 1;
                    }
                    if at == view[branch].len() {
                        // There are not so many, whatever leaf this ends in.
                        remaining = 0;
                    }
                    way.push((branch, at));
                }
            }
        }
    }

    /// Adds a member that is not there.
    ///
    /// # Errors
    /// If there is no memory for it. Then the tree may be damaged: the transaction must not commit.
    pub(super) fn insert(this: P<'r, Order<'r>>, tx: &mut Txn<'r>, item: Item<'r>) -> pheap::Result<()> {
        let (leaf, way) = Self::way_to(this, tx, item.score, &tx[item.member]);
        let at = place_of(tx, leaf, item.score, &tx[item.member]);
        let mut new = None;
        if tx[leaf].len() < MOST {
            leaf.insert(tx, at, item)?;
        } else if at == MOST && way.iter().all(|&(branch, at)| at + 1 == tx[branch].len()) {
            // Whoever adds them in order gets leaves that are full.
            let right = PVec::from_slice(tx, &[item])?;
            new = Some(Child { first: item, count: 1, node: Node::Leaf(tx.alloc(right)?) });
        } else {
            let right = leaf.drain(tx, MOST / 2..);
            let first = right.as_slice()[0];
            let right = PVec::from_slice(tx, right.as_slice())?;
            let right = tx.alloc(right)?;
            if at <= MOST / 2 {
                leaf.insert(tx, at, item)?;
            } else {
                right.insert(tx, at - MOST / 2, item)?;
            }
            new = Some(Child { first, count: tx[right].len() as u64, node: Node::Leaf(right) });
        }
        for &(branch, at) in way.iter().rev() {
            new = add_to_branch(tx, branch, at, new)?;
        }
        if let Some(right) = new {
            let left = tx[this].root;
            let all = match left {
                Node::Leaf(leaf) => tx[leaf].len() as u64,
                Node::Branch(branch) => branch.iter(tx).map(|child| child.count).sum(),
            };
            let children =
                PVec::from_slice(tx, &[Child { first: right.first, count: all, node: left }, right])?;
            let root = tx.alloc(children)?;
            tx[field!(this.root)] = Node::Branch(root);
        }
        Ok(())
    }

    /// Removes a member, whose score this is. The item that it had, if it was there.
    pub(super) fn remove(
        this: P<'r, Order<'r>>,
        tx: &mut Txn<'r>,
        score: f64,
        member: &[u8],
    ) -> Option<Item<'r>> {
        let (leaf, way) = Self::way_to(this, tx, score, member);
        let at = place_of(tx, leaf, score, member);
        let item = *leaf.get(tx, at).filter(|item| item.compare(tx, score, member).is_eq())?;
        leaf.remove(tx, at);
        let mut below = tx[leaf].len();
        for &(branch, at) in way.iter().rev() {
            if let Some(child) = branch.get_mut(tx, at) {
                child.count -= 1;
            }
            if below == 0 {
                branch.remove(tx, at);
            } else if below < FEW {
                merge(tx, branch, at);
            }
            below = tx[branch].len();
        }
        // A root with one child is none. One without a child has lost its last leaf, which is empty.
        while let Node::Branch(root) = tx[this].root
            && tx[root].len() <= 1
        {
            let child = root.get(tx, 0).map_or(Node::Leaf(leaf), |child| child.node);
            tx[field!(this.root)] = child;
        }
        Some(item)
    }

    /// The leaf that a member is in, or would be, and the way to it.
    fn way_to(this: P<'r, Order<'r>>, view: &View<'r>, score: f64, member: &[u8]) -> (Leaf<'r>, Way<'r>) {
        let (mut node, mut way) = (view[this].root, Way::new());
        loop {
            match node {
                Node::Leaf(leaf) => return (leaf, way),
                Node::Branch(branch) => {
                    let at = child_of(view, branch, &|item| item.compare(view, score, member).is_le());
                    way.push((branch, at));
                    node = view[branch].get(view, at).expect("a branch has children").node;
                }
            }
        }
    }
}

/// The number of the last child whose first item is before something, or of the first child.
fn child_of<'r>(view: &View<'r>, branch: Branch<'r>, is_before: &impl Fn(&Item<'r>) -> bool) -> usize {
    view[branch].partition_point(view, |child| is_before(&child.first)).saturating_sub(1)
}

/// Where a member is in a leaf, or would be.
fn place_of<'r>(view: &View<'r>, leaf: Leaf<'r>, score: f64, member: &[u8]) -> usize {
    view[leaf].partition_point(view, |item| item.compare(view, score, member).is_lt())
}

/// Counts one more item below child `at`, which has been split if there is a `new` one. What is split off the branch then.
fn add_to_branch<'r>(
    tx: &mut Txn<'r>,
    branch: Branch<'r>,
    at: usize,
    new: Option<Child<'r>>,
) -> pheap::Result<Option<Child<'r>>> {
    if let Some(child) = branch.get_mut(tx, at) {
        child.count = child.count + 1 - new.map_or(0, |new| new.count);
    }
    let Some(new) = new else { return Ok(None) };
    if tx[branch].len() < MOST {
        branch.insert(tx, at + 1, new)?;
        return Ok(None);
    }
    let half = if at + 1 == MOST { MOST - 1 } else { MOST / 2 };
    let right = branch.drain(tx, half..);
    let right = PVec::from_slice(tx, right.as_slice())?;
    let right = tx.alloc(right)?;
    if at < half {
        branch.insert(tx, at + 1, new)?;
    } else {
        right.insert(tx, at + 1 - half, new)?;
    }
    let first = right.get(tx, 0).expect("a part of them").first;
    let count = right.iter(tx).map(|child| child.count).sum();
    Ok(Some(Child { first, count, node: Node::Branch(right) }))
}

/// Merges child `at` with the one after or before it, if they are small enough together.
fn merge<'r>(tx: &mut Txn<'r>, branch: Branch<'r>, at: usize) {
    for left_at in [at, at.wrapping_sub(1)] {
        let (Some(&left), Some(&right)) = (branch.get(tx, left_at), branch.get(tx, left_at.wrapping_add(1)))
        else {
            continue;
        };
        if left.node.len(tx) + right.node.len(tx) > ROOMY {
            continue;
        }
        let moved = match (left.node, right.node) {
            (Node::Leaf(to), Node::Leaf(from)) => to.append(tx, from),
            (Node::Branch(to), Node::Branch(from)) => {
                if let Some(child) = from.get_mut(tx, 0) {
                    child.first = right.first;
                }
                to.append(tx, from)
            }
            _ => return debug_assert!(false, "all leaves are equally deep"),
        };
        // Without memory for it they stay apart.
        if moved.is_ok() {
            branch.remove(tx, left_at + 1);
            if let Some(child) = branch.get_mut(tx, left_at) {
                child.count += right.count;
            }
        }
        return;
    }
}

/// Items in order.
pub struct Items<'v, 'r> {
    view: &'v View<'r>,
    way: Way<'r>,
    leaf: Leaf<'r>,
    at: usize,
    remaining: usize,
    is_reverse: bool,
}

impl<'r> Items<'_, 'r> {
    /// Goes to the next leaf. Whether there is one.
    fn turn_over(&mut self) -> bool {
        let Self { view, way, is_reverse, .. } = self;
        let step = |at: usize| if *is_reverse { at.wrapping_sub(1) } else { at + 1 };
        let mut node = loop {
            let Some((branch, at)) = way.pop() else { return false };
            if let Some(child) = branch.get(view, step(at)) {
                way.push((branch, step(at)));
                break child.node;
            }
        };
        loop {
            match node {
                Node::Leaf(leaf) => {
                    self.leaf = leaf;
                    self.at = if *is_reverse { view[leaf].len().wrapping_sub(1) } else { 0 };
                    return true;
                }
                Node::Branch(branch) => {
                    let at = if *is_reverse { view[branch].len() - 1 } else { 0 };
                    way.push((branch, at));
                    node = branch.get(view, at).expect("a branch has children").node;
                }
            }
        }
    }
}

impl<'r> Iterator for Items<'_, 'r> {
    type Item = Item<'r>;

    fn next(&mut self) -> Option<Item<'r>> {
        if self.remaining == 0 {
            return None;
        }
        loop {
            if let Some(&item) = self.leaf.get(self.view, self.at) {
                self.remaining -= 1;
                self.at = if self.is_reverse { self.at.wrapping_sub(1) } else { self.at + 1 };
                return Some(item);
            }
            if !self.turn_over() {
                self.remaining = 0;
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pheap::{Heap, Root};

    use super::*;

    #[derive(Persist)]
    #[repr(C)]
    struct Tree<'r> {
        order: Order<'r>,
    }

    /// Numbers as members of so many different scores.
    fn model_item(number: u64, scores: u64) -> (u64, [u8; 8]) {
        (number % scores, number.to_be_bytes())
    }

    /// The number of items below a node, and that no other is empty or too large.
    fn check_node<'r>(view: &View<'r>, node: Node<'r>, depth: usize) -> u64 {
        assert!(node.len(view) <= MOST && (depth == 0 || node.len(view) > 0) && depth < 8);
        match node {
            Node::Leaf(leaf) => view[leaf].len() as u64,
            Node::Branch(branch) => {
                let each = branch.iter(view).map(|child| {
                    assert_eq!(check_node(view, child.node, depth + 1), child.count);
                    child.count
                });
                each.sum()
            }
        }
    }

    fn check<'r>(view: &View<'r>, order: &Order<'r>, model: &BTreeSet<(u64, [u8; 8])>) {
        let shown = |item: Item<'r>| (item.score as u64, <[u8; 8]>::try_from(&view[item.member]).unwrap());
        check_node(view, order.root, 0);
        let all: Vec<_> = model.iter().copied().collect();
        assert!(order.iter(view, 0, usize::MAX, false).map(shown).eq(all.iter().copied()));
        if let Some(last) = all.len().checked_sub(1) {
            assert!(order.iter(view, last, usize::MAX, true).map(shown).eq(all.iter().rev().copied()));
        }
        assert_eq!(order.iter(view, all.len(), usize::MAX, false).count(), 0);
        for rank in (0..all.len()).step_by(1 + all.len() / 50) {
            let (score, member) = all[rank];
            let is_before = |item: &Item<'r>| item.compare(view, score as f64, &member).is_lt();
            assert_eq!(order.count_before(view, is_before), rank);
            assert!(order.iter(view, rank, 3, false).map(shown).eq(all[rank..].iter().take(3).copied()));
            let back = all[..=rank].iter().rev().take(3).copied();
            assert!(order.iter(view, rank, 3, true).map(shown).eq(back));
            let of_less = all.iter().filter(|(other, _)| *other < score).count();
            assert_eq!(order.count_before(view, |item| item.score < score as f64), of_less);
        }
    }

    /// Adds and removes numbers that `next` says, and compares with a set of the standard library.
    fn like_a_model(scores: u64, steps: usize, mut next: impl FnMut(usize) -> (u64, bool)) {
        let heap = Heap::in_memory().unwrap();
        let root: Root<Tree<'static>> =
            heap.root_or("tree", |tx| Ok(Tree { order: Order::new(tx)? })).unwrap();
        let mut model = BTreeSet::new();
        for step in 0..steps / 100 {
            root.txn(|tx, tree| {
                let order = field!(tree.order);
                for i in 0..100 {
                    let (number, is_added) = next(step * 100 + i);
                    let (score, member) = model_item(number, scores);
                    if is_added && model.insert((score, member)) {
                        let item = Item { score: score as f64, member: tx.alloc_slice_copy(&member)? };
                        Order::insert(order, tx, item)?;
                    } else if !is_added {
                        let removed = Order::remove(order, tx, score as f64, &member);
                        assert_eq!(removed.is_some(), model.remove(&(score, member)));
                    }
                }
                Ok(())
            })
            .unwrap();
            if step % 10 == 0 || step + 1 == steps / 100 {
                root.read(|view, tree| check(view, &view[tree].order, &model)).unwrap();
            }
        }
    }

    #[test]
    fn at_random() {
        for scores in [1, 7, 1 << 40] {
            // Grows to some thousands, shrinks to nothing, and grows again.
            like_a_model(scores, 40_000, |step| {
                let number = crate::random::random() % 4000;
                (number, (crate::random::random() % 16 < 10) == ((step / 10_000) % 2 == 0))
            });
        }
    }

    #[test]
    fn in_order() {
        like_a_model(1 << 40, 20_000, |step| (step as u64, true));
        like_a_model(1 << 40, 20_000, |step| (1_000_000 - step as u64, true));
        // A queue.
        like_a_model(1 << 40, 20_000, |step| {
            if step % 2 == 0 || step < 5000 { (step as u64, true) } else { ((step - 5000) as u64, false) }
        });
        // All away again, from either end, and from the middle.
        for away in
            [|step| step, |step| 9_999 - step, |step| if step < 5000 { 5000 + step } else { step - 5000 }]
        {
            like_a_model(1 << 40, 20_000, |step| {
                if step < 10_000 { (step as u64, true) } else { (away(step - 10_000) as u64, false) }
            });
        }
    }
}
