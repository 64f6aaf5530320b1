//! Programs change the graph between slices, and report the words that they overwrite to the marking.

mod graph;

use std::thread;

use graph::{Graph, shape};
use pheap_gc::{Budget, Marking, Progress};
use proptest::collection::vec;
use proptest::prelude::*;

/// What a program does, with objects that it can reach. All numbers are modulo the number of what can be
/// chosen.
#[derive(Clone, Debug)]
enum Change {
    /// A pointer to the second object goes to a word of the first; null without one.
    Write(usize, usize, Option<usize>),
    /// A new object with pointers to others, and a pointer to it from a word of the first.
    Allocate(Vec<usize>, usize, usize),
    /// A root is forgotten, or another one taken instead.
    Root(usize, Option<usize>),
}

fn change() -> impl Strategy<Value = Change> {
    let number = any::<usize>;
    prop_oneof![
        3 => (number(), number(), proptest::option::of(number())).prop_map(|(o, w, to)| Change::Write(o, w, to)),
        2 => (vec(number(), 0..6), number(), number()).prop_map(|(to, o, w)| Change::Allocate(to, o, w)),
        1 => (number(), proptest::option::of(number())).prop_map(|(root, to)| Change::Root(root, to)),
    ]
}

fn apply(graph: &mut Graph, roots: &mut [u64], marking: &Marking<graph::Part>, change: &Change) {
    let reachable: Vec<usize> = graph.reachable(roots).into_iter().collect();
    let pick = |number: usize| number.checked_rem(reachable.len()).map(|i| reachable[i]);
    let write = |graph: &mut Graph, object, word, value| {
        if let Some(object) = pick(object)
            && let Some(old @ 1..) = graph.write(object, word, value)
        {
            marking.push(old);
        }
    };
    match change {
        Change::Write(object, word, to) => {
            let value = to.and_then(pick).map_or(0, |to| graph.address(to));
            write(graph, *object, *word, value);
        }
        Change::Allocate(to, object, word) => {
            let words = to.iter().filter_map(|&to| pick(to)).map(|to| graph.address(to)).collect();
            if let Some(new) = graph.allocate(words) {
                write(graph, *object, *word, graph.address(new));
            }
        }
        Change::Root(root, to) => {
            let value = to.and_then(pick).map_or(0, |to| graph.address(to));
            if let Some(i) = root.checked_rem(roots.len()) {
                roots[i] = value;
            }
        }
    }
}

proptest! {
    #[test]
    fn what_was_reachable_stays_marked(
        shape in shape(), changes in vec((change(), any::<bool>()), 0..40), work in 0..64_u64,
        limit in prop_oneof![1 => 0..24_usize, 1 => Just(1 << 22)],
    ) {
        let (mut graph, mut roots) = Graph::new(&shape);
        let mut marking = Marking::with_limit(limit);
        let snapshot = graph.reachable(&roots);
        let old = graph.len();
        roots.iter().for_each(|&root| marking.push(root));
        for (change, shared) in &changes {
            apply(&mut graph, &mut roots, &marking, change);
            let mut budget = Budget::work(work);
            if *shared {
                thread::scope(|scope| {
                    scope.spawn(|| marking.run_shared(&graph, &mut Budget::work(work)));
                    marking.run_shared(&graph, &mut budget);
                });
            } else {
                marking.run(&graph, &mut budget);
            }
        }
        prop_assert_eq!(marking.run(&graph, &mut Budget::unlimited()), Progress::Done);
        let marked = graph.marked_set();
        let expected = snapshot.into_iter().chain(old..graph.len()).collect();
        prop_assert!(marked.is_superset(&graph.reachable(&roots)));
        prop_assert_eq!(marked, expected);
    }
}
