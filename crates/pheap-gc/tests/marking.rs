//! Marks what can be reached, and nothing else: in one go, in slices, with a small stack, by many threads.

mod graph;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use graph::{Graph, shape};
use pheap_gc::{Budget, Marking, Progress, mark_all};
use proptest::prelude::*;

/// Marks everything with `threads` threads, in slices of `work`. Each thread ends after `slices` slices, or
/// when all is marked, and new threads go on. Returns the number of marked objects that have words.
fn mark_shared<O: Copy + Send>(
    marking: &Marking<O>,
    heap: &(impl pheap_gc::Heap<Object = O> + Sync),
    threads: usize,
    work: u64,
    slices: usize,
) -> u64 {
    let marked = AtomicU64::new(0);
    while !marking.is_done() {
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..slices {
                        let mut budget = Budget::work(work);
                        let progress = marking.run_shared(heap, &mut budget);
                        marked.fetch_add(budget.marked_objects(), Ordering::Relaxed);
                        if progress == Progress::Done {
                            break;
                        }
                    }
                });
            }
        });
    }
    marked.into_inner()
}

proptest! {
    #[test]
    fn one_run_marks_what_can_be_reached(shape in shape()) {
        let (graph, roots) = Graph::new(&shape);
        let reachable = graph.reachable(&roots);
        let mut marking = Marking::new();
        roots.iter().for_each(|&root| marking.push_mut(root));
        let mut budget = Budget::unlimited();
        prop_assert_eq!(marking.run(&graph, &mut budget), Progress::Done);
        prop_assert!(marking.is_done());
        prop_assert_eq!(budget.marked_objects(), graph.with_pointers(&reachable));
        prop_assert_eq!(graph.marked_set(), reachable);
    }

    #[test]
    fn slices_add_up(shape in shape(), work in 0..200_u64) {
        let (graph, roots) = Graph::new(&shape);
        let reachable = graph.reachable(&roots);
        let mut marking = Marking::new();
        roots.iter().for_each(|&root| marking.push(root));
        let mut marked = 0;
        loop {
            let mut budget = Budget::work(work);
            let progress = marking.run(&graph, &mut budget);
            marked += budget.marked_objects();
            // At most 64 bytes beyond the budget.
            prop_assert!(budget.marked_bytes() <= work + 64);
            if progress == Progress::Done {
                break;
            }
            prop_assert!(!marking.is_done());
        }
        prop_assert_eq!(marked, graph.with_pointers(&reachable));
        prop_assert_eq!(graph.marked_set(), reachable);
    }

    #[test]
    fn a_small_stack_is_enough(shape in shape(), limit in 0..24_usize, work in 0..400_u64) {
        let (graph, roots) = Graph::new(&shape);
        let reachable = graph.reachable(&roots);
        let mut marking = Marking::with_limit(limit);
        roots.iter().for_each(|&root| marking.push(root));
        let mut marked = 0;
        while !marking.is_done() {
            let mut budget = Budget::work(work);
            marking.run(&graph, &mut budget);
            marked += budget.marked_objects();
        }
        prop_assert_eq!(marked, graph.with_pointers(&reachable));
        prop_assert_eq!(graph.marked_set(), reachable);
    }

    #[test]
    fn a_late_deadline_does_not_stop_it(shape in shape()) {
        let (graph, roots) = Graph::new(&shape);
        let mut marking = Marking::new();
        roots.iter().for_each(|&root| marking.push(root));
        while marking.run(&graph, &mut Budget::work(1 << 20).and_until(Instant::now())) != Progress::Done {}
        prop_assert_eq!(graph.marked_set(), graph.reachable(&roots));
    }

    #[test]
    fn a_cycle_follows_another(shape in shape()) {
        let (graph, roots) = Graph::new(&shape);
        let mut marking = Marking::with_limit(8);
        for _ in 0..3 {
            graph.unmark();
            roots.iter().for_each(|&root| marking.push(root));
            prop_assert_eq!(marking.run(&graph, &mut Budget::unlimited()), Progress::Done);
            prop_assert_eq!(graph.marked_set(), graph.reachable(&roots));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn threads_share_the_work(
        shape in shape(), threads in 1..5_usize, work in 0..200_u64, slices in 1..8_usize,
        limit in prop_oneof![0..24_usize, Just(1 << 22)],
    ) {
        let (graph, roots) = Graph::new(&shape);
        let reachable = graph.reachable(&roots);
        let marking = Marking::with_limit(limit);
        roots.iter().for_each(|&root| marking.push(root));
        let marked = mark_shared(&marking, &graph, threads, work, slices);
        prop_assert_eq!(marked, graph.with_pointers(&reachable));
        prop_assert_eq!(graph.marked_set(), reachable);
    }

    #[test]
    fn alone_and_shared_take_turns(shape in shape(), work in 0..100_u64, limit in 0..40_usize) {
        let (graph, roots) = Graph::new(&shape);
        let mut marking = Marking::with_limit(limit);
        roots.iter().for_each(|&root| marking.push(root));
        while !marking.is_done() {
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| marking.run_shared(&graph, &mut Budget::work(work)));
                }
            });
            marking.run(&graph, &mut Budget::work(work));
        }
        prop_assert_eq!(graph.marked_set(), graph.reachable(&roots));
    }

    #[test]
    fn mark_all_marks_all(shape in shape(), threads in 0..5_usize) {
        let (graph, roots) = Graph::new(&shape);
        mark_all(&graph, roots.iter().copied(), threads);
        prop_assert_eq!(graph.marked_set(), graph.reachable(&roots));
    }
}
