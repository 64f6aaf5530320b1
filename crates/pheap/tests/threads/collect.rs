//! Collections during transactions, and during reads whose view several threads share.

use pheap::{P, Persist, Root, View};

use super::for_each_kind;

#[derive(Persist)]
#[repr(C)]
struct Tree<'r> {
    number: u64,
    children: [Option<P<'r, Tree<'r>>>; 2],
}

#[derive(Persist, Default)]
#[repr(C)]
struct Forest<'r> {
    trees: [Option<P<'r, Tree<'r>>>; 4],
}

const DEPTH: u32 = 5;
const EACH: u64 = 40;

fn plant<'r>(tx: &pheap::Txn<'r>, depth: u32, number: u64) -> pheap::Result<P<'r, Tree<'r>>> {
    let mut children = [None; 2];
    if depth > 0 {
        children = [Some(plant(tx, depth - 1, number)?), Some(plant(tx, depth - 1, number)?)];
    }
    tx.alloc(Tree { number, children })
}

/// The number of a whole tree, all of whose nodes have it.
fn number_of<'r>(view: &View<'r>, tree: P<'r, Tree<'r>>, depth: u32) -> u64 {
    let number = view[tree].number;
    for child in view[tree].children {
        assert_eq!(child.is_some(), depth > 0);
        if let Some(child) = child {
            assert_eq!(number_of(view, child, depth - 1), number);
        }
    }
    number
}

/// Looks at all trees, each in a separate thread.
fn look(forest: &Root<Forest<'static>>) {
    forest
        .read(|view, forest| {
            let (shared, trees) = (view.shared(), view[forest].trees);
            std::thread::scope(|scope| {
                for tree in trees.into_iter().flatten() {
                    let shared = &shared;
                    scope.spawn(move || number_of(shared, tree, DEPTH));
                }
            });
        })
        .unwrap();
}

#[test]
fn trees_are_replaced_and_moved_while_they_are_marked() {
    let forest_of = |heap: &pheap::Heap| heap.root::<Forest>("forest").unwrap();
    for_each_kind(
        |heap, _| {
            let forest = &forest_of(heap);
            let plants = |place: usize| {
                for number in 0..EACH {
                    forest
                        .txn(|tx, forest| {
                            let tree = plant(tx, DEPTH, number)?;
                            Ok(tx[forest].trees[place] = Some(tree))
                        })
                        .unwrap();
                }
            };
            // A collector that missed the overwritten pointers would lose objects that have moved behind it.
            let moves = || {
                for number in 0..4 * EACH {
                    forest
                        .txn(|tx, forest| {
                            let [a, b, c, d] = tx[forest].trees;
                            tx[forest].trees = [b, a, d, c];
                            if let (Some(a), Some(c)) = (a, c) {
                                let (left, right) = (tx[a].children, tx[c].children);
                                if tx[a].number == tx[c].number {
                                    (tx[a].children, tx[c].children) = (right, left);
                                }
                            }
                            Ok(tx[forest].trees.rotate_left(number as usize % 2))
                        })
                        .unwrap();
                }
            };
            std::thread::scope(|scope| {
                let plants = &plants;
                (0..2).for_each(|place| drop(scope.spawn(move || plants(place))));
                scope.spawn(moves);
                scope.spawn(|| (0..EACH / 2).for_each(|_| look(forest)));
                (0..2).for_each(|_| drop(scope.spawn(|| (0..EACH).for_each(|_| heap.collect().unwrap()))));
                scope.spawn(|| (0..EACH / 4).for_each(|_| heap.checkpoint().unwrap()));
            });
            heap.collect().unwrap();
            let most = 1 + 4 * ((2 << DEPTH) - 1);
            assert!(heap.stats().live_objects <= most, "{:?}", heap.stats());
        },
        |heap| look(&forest_of(heap)),
    );
}
