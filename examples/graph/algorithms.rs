//! Algorithms on a graph. They need only a function that returns the targets of a node's edges, so the graph
//! can be stored anywhere.

use std::collections::VecDeque;

/// Returns the smallest number of edges from a node to each node, or `u32::MAX` if there is no path.
pub fn distances<'g>(nodes: usize, from: usize, out: impl Fn(usize) -> &'g [u32]) -> Vec<u32> {
    let mut distances = vec![u32::MAX; nodes];
    distances[from] = 0;
    let mut todo = VecDeque::from([from]);
    while let Some(node) = todo.pop_front() {
        for &next in out(node) {
            if distances[next as usize] == u32::MAX {
                distances[next as usize] = distances[node] + 1;
                todo.push_back(next as usize);
            }
        }
    }
    distances
}

/// Returns the PageRank of each node after some rounds, with the usual damping.
pub fn page_rank<'g>(nodes: usize, rounds: usize, out: impl Fn(usize) -> &'g [u32]) -> Vec<f64> {
    const DAMPING: f64 = 0.85;

    let mut ranks = vec![1.0 / nodes as f64; nodes];
    for _ in 0..rounds {
        let (mut next, mut dangling) = (vec![0.0; nodes], 0.0);
        for (node, rank) in ranks.iter().enumerate() {
            let out = out(node);
            if out.is_empty() {
                dangling += rank;
            }
            let share = rank / out.len() as f64;
            for &to in out {
                next[to as usize] += share;
            }
        }
        let rest = (1.0 - DAMPING + DAMPING * dangling) / nodes as f64;
        next.iter_mut().for_each(|rank| *rank = rest + DAMPING * *rank);
        ranks = next;
    }
    ranks
}
