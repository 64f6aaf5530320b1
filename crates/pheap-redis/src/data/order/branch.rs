//! Branches: for each child, an item that is not behind its items (`first`, see the parent module), the
//! number of items below it, and a pointer to it. These are separate arrays. A search therefore reads the
//! scores and little else, and counting an item stores one word.
//!
//! Invariants: The entries behind the last child have the score NaN and no pointers. The children of a branch
//! are either all leaves or all branches.

use pheap::{P, Persist, Txn, View, field, txn};
use smallvec::SmallVec;

use super::Item;
use super::leaf::Leaf;
use crate::data::value::Str;

/// The most children of a branch.
pub(super) const BRANCH: usize = 31;

#[derive(Persist, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Branch<'r> {
    head: Head<'r>,
    members: [Option<Str<'r>>; BRANCH],
    counts: [u64; BRANCH],
    branches: [Option<P<'r, Branch<'r>>>; BRANCH],
}

/// The part of a branch that most searches read.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Head<'r> {
    len: u64,
    scores: [f64; BRANCH],
    leaves: [Option<P<'r, Leaf<'r>>>; BRANCH],
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Node<'r> {
    Leaf(P<'r, Leaf<'r>>),
    Branch(P<'r, Branch<'r>>),
}

impl<'r> Node<'r> {
    /// Returns the number of items of a leaf, or of children of a branch.
    pub(super) fn len(self, view: &View<'r>) -> usize {
        match self {
            Node::Leaf(leaf) => view[leaf].len(),
            Node::Branch(branch) => len(view, branch),
        }
    }
}

/// A child of a branch, with the data that the branch has of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Child<'r> {
    pub(super) first: Item<'r>,
    /// Number of items below the child.
    pub(super) count: u64,
    pub(super) node: Node<'r>,
}

/// Room for the children of a branch, and one more.
pub(super) type Children<'r> = SmallVec<[Child<'r>; BRANCH + 1]>;

impl<'r> Branch<'r> {
    /// Makes a branch with these children.
    pub(super) fn from_children(children: &[Child<'r>]) -> Branch<'r> {
        let mut branch = Branch {
            head: Head { len: children.len() as u64, scores: [f64::NAN; BRANCH], leaves: [None; BRANCH] },
            members: [None; BRANCH],
            counts: [0; BRANCH],
            branches: [None; BRANCH],
        };
        for (at, child) in children.iter().enumerate() {
            branch.head.scores[at] = child.first.score;
            branch.members[at] = Some(child.first.member);
            branch.counts[at] = child.count;
            match child.node {
                Node::Leaf(leaf) => branch.head.leaves[at] = Some(leaf),
                Node::Branch(below) => branch.branches[at] = Some(below),
            }
        }
        branch
    }
}

/// Replaces the children of a branch.
pub(super) fn set<'r>(tx: &mut Txn<'r>, branch: P<'r, Branch<'r>>, children: &[Child<'r>]) {
    // The branch is written field by field, because it is larger than the copies that a short transaction
    // makes.
    let Branch { head, members, counts, branches } = Branch::from_children(children);
    tx[field!(branch.head)] = head;
    tx[field!(branch.members)] = members;
    tx[field!(branch.counts)] = counts;
    tx[field!(branch.branches)] = branches;
}

/// Counts one more item below child `at`.
#[txn]
pub(super) fn count_item_added<'r>(tx: &mut Txn<'r>, branch: P<'r, Branch<'r>>, at: usize) {
    tx[branch].counts[at] += 1;
}

/// Counts one less item below child `at`.
#[txn]
pub(super) fn count_item_removed<'r>(tx: &mut Txn<'r>, branch: P<'r, Branch<'r>>, at: usize) {
    tx[branch].counts[at] -= 1;
}

pub(super) fn len<'r>(view: &View<'r>, branch: P<'r, Branch<'r>>) -> usize {
    view[field!(branch.head)].len as usize
}

pub(super) fn counts<'v, 'r>(view: &'v View<'r>, branch: P<'r, Branch<'r>>) -> &'v [u64] {
    &view[field!(branch.counts)][..len(view, branch)]
}

/// Returns child `at`, if there is one.
pub(super) fn node<'r>(view: &View<'r>, branch: P<'r, Branch<'r>>, at: usize) -> Option<Node<'r>> {
    node_of(view, branch, &view[field!(branch.head)], at)
}

fn node_of<'r>(view: &View<'r>, branch: P<'r, Branch<'r>>, head: &Head<'r>, at: usize) -> Option<Node<'r>> {
    match *head.leaves.get(at)? {
        Some(leaf) => Some(Node::Leaf(leaf)),
        None => view[field!(branch.branches)][at].map(Node::Branch),
    }
}

/// Returns all children.
pub(super) fn children<'r>(view: &View<'r>, branch: P<'r, Branch<'r>>) -> Children<'r> {
    let (head, members) = (&view[field!(branch.head)], &view[field!(branch.members)]);
    let counts = counts(view, branch);
    let child = |at: usize| {
        let first = Item { score: head.scores[at], member: members[at]? };
        Some(Child { first, count: counts[at], node: node_of(view, branch, head, at)? })
    };
    (0..counts.len()).filter_map(child).collect()
}

/// Returns the index of the last child whose `first` is at or in front of a member with this score, and the
/// child. If there is no such child, returns the first one. Does not read the `first` of the first child.
pub(super) fn find<'r>(
    view: &View<'r>,
    branch: P<'r, Branch<'r>>,
    score: f64,
    member: &[u8],
) -> (usize, Option<Node<'r>>) {
    let head = &view[field!(branch.head)];
    let (lower, same) = head.scores[1..].iter().fold((0, 0), |(lower, same), &first| {
        (lower + usize::from(first < score), same + usize::from(first == score))
    });
    let mut at = lower;
    if same > 0 {
        let same = &view[field!(branch.members)][1 + lower..][..same];
        at += same.partition_point(|first| first.is_some_and(|first| view[first] <= *member));
    }
    (at, node_of(view, branch, head, at))
}

/// Returns the index of the last child for whose `first` `is_before` is true, or of the first child. Does not
/// read the `first` of the first child.
pub(super) fn child_of<'r>(
    view: &View<'r>,
    branch: P<'r, Branch<'r>>,
    is_before: &impl Fn(&Item<'r>) -> bool,
) -> usize {
    const NUMBERS: [u8; BRANCH] = {
        let mut numbers = [0; BRANCH];
        let mut at = 0;
        while at < BRANCH {
            numbers[at] = at as u8;
            at += 1;
        }
        numbers
    };
    let (head, members) = (&view[field!(branch.head)], &view[field!(branch.members)]);
    let first = |at: usize| Some(Item { score: head.scores[at], member: members[at]? });
    NUMBERS[1..head.len as usize]
        .partition_point(|&at| first(usize::from(at)).is_some_and(|first| is_before(&first)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Checks the invariants of the branch's own arrays.
    pub(in crate::data::order) fn check<'r>(view: &View<'r>, branch: P<'r, Branch<'r>>) {
        let branch = &view[branch];
        for at in 0..BRANCH {
            let is_child = at < branch.head.len as usize;
            assert_eq!(branch.head.scores[at].is_nan(), !is_child);
            assert_eq!(branch.members[at].is_some(), is_child);
            assert_eq!(branch.head.leaves[at].is_some(), is_child && branch.head.leaves[0].is_some());
            assert_eq!(branch.branches[at].is_some(), is_child && branch.branches[0].is_some());
            assert!(branch.head.leaves[at].is_none() || branch.branches[at].is_none());
        }
    }
}
