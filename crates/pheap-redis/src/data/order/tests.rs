//! Compares the tree with a set of the standard library.

use std::collections::BTreeSet;

use pheap::{Heap, Root};

use super::*;

#[derive(Persist)]
#[repr(C)]
struct Tree<'r> {
    order: Order<'r>,
}

/// Maps numbers to members with `scores` different scores.
fn model_item(number: u64, scores: u64) -> (u64, [u8; 8]) {
    (number % scores, number.to_be_bytes())
}

/// Checks invariants of a branch and of the nodes below it. Returns the number of items below it.
fn check_branch<'r>(view: &View<'r>, branch: P<'r, Branch<'r>>, depth: usize) -> u64 {
    branch::tests::check(view, branch);
    let children = branch::children(view, branch);
    assert!(!children.is_empty() && depth < 8);
    let each = children.iter().map(|child| {
        let count = match child.node {
            Node::Branch(below) => check_branch(view, below, depth + 1),
            Node::Leaf(leaf) => {
                view[leaf].check(view);
                view[leaf].len() as u64
            }
        };
        assert!(count == child.count && count > 0);
        count
    });
    each.sum()
}

fn check<'r>(view: &View<'r>, order: &Order<'r>, model: &BTreeSet<(u64, [u8; 8])>) {
    let shown = |item: Item<'r>| (item.score as u64, <[u8; 8]>::try_from(&view[item.member]).unwrap());
    match order.root {
        Top::Few(items) => assert!(view[items].len() == model.len() && model.len() <= LEAF),
        Top::Many(root) => assert_eq!(check_branch(view, root, 0), model.len() as u64),
    }
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
        assert_eq!(order.rank(view, score as f64, &member), rank);
        assert!(order.iter(view, rank, 3, false).map(shown).eq(all[rank..].iter().take(3).copied()));
        let back = all[..=rank].iter().rev().take(3).copied();
        assert!(order.iter(view, rank, 3, true).map(shown).eq(back));
        let of_less = all.iter().filter(|(other, _)| *other < score).count();
        assert_eq!(order.count_before(view, |item| item.score < score as f64), of_less);
    }
}

/// Adds and removes the numbers that `next` returns, and compares with a set of the standard library.
fn like_a_model(scores: u64, steps: usize, mut next: impl FnMut(usize) -> (u64, bool)) {
    let heap = Heap::in_memory().unwrap();
    let root: Root<Tree<'static>> = heap.root_or("tree", |tx| Ok(Tree { order: Order::new(tx)? })).unwrap();
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
                } else if !is_added && model.remove(&(score, member)) {
                    let removed = Order::remove(order, tx, score as f64, &member);
                    assert!(removed.is_some_and(|item| tx[item.member] == member));
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
        // The tree grows to more than 2000 items, shrinks to fewer, grows again, and shrinks again.
        like_a_model(scores, 40_000, |step| {
            let number = crate::text::random::random() % 4000;
            (number, (crate::text::random::random() % 16 < 10) == ((step / 10_000) % 2 == 0))
        });
    }
}

#[test]
fn in_order() {
    like_a_model(1 << 40, 20_000, |step| (step as u64, true));
    like_a_model(1 << 40, 20_000, |step| (1_000_000 - step as u64, true));
    // The tree as a queue of 5000 items.
    like_a_model(1 << 40, 20_000, |step| match step as u64 {
        step @ ..5000 => (step, true),
        step if step % 2 == 0 => (5000 + (step - 5000) / 2, true),
        step => ((step - 5000) / 2, false),
    });
    // Removes all items from either end and from the middle.
    for away in [|step| step, |step| 9_999 - step, |step| if step < 5000 { 5000 + step } else { step - 5000 }]
    {
        like_a_model(1 << 40, 20_000, |step| {
            if step < 10_000 { (step as u64, true) } else { (away(step - 10_000) as u64, false) }
        });
    }
}

#[test]
fn members_that_were_removed_are_freed() {
    let heap = Heap::in_memory().unwrap();
    let root: Root<Tree<'static>> = heap.root_or("tree", |tx| Ok(Tree { order: Order::new(tx)? })).unwrap();
    let live = || {
        root.collect().unwrap();
        root.live().bytes
    };
    let empty = live();
    let numbers = 0..5000;
    let change = |is_added: bool, numbers: &mut dyn Iterator<Item = u64>| {
        root.txn(|tx, tree| {
            let order = field!(tree.order);
            for number in numbers {
                let (score, member) = model_item(number * 7 % 5000, 40);
                if is_added {
                    let item = Item { score: score as f64, member: tx.alloc_slice_copy(&member)? };
                    Order::insert(order, tx, item)?;
                } else {
                    Order::remove(order, tx, score as f64, &member).expect("it is there");
                }
            }
            Ok(())
        })
        .unwrap();
    };
    change(true, &mut numbers.clone());
    let full = live();
    assert!(full > empty + 5000 * 16);
    // A branch may point to a member that was removed and was once the first of a child.
    change(false, &mut (100..5000));
    assert!(live() < empty + (full - empty) / 20);
    change(false, &mut (0..100));
    // The vector of a small set keeps its buffer.
    assert!(live() <= empty + (LEAF * size_of::<Item<'_>>()) as u64 + 64);
}
