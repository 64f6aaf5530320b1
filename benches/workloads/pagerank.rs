//! `pagerank`: `n` updates of the ranks of a random graph, in two rounds of one transaction each. A vertex
//! has eight incoming edges, and both its old rank and its new rank.

use crate::measure::Checksum;
use crate::{Case, Result, Rng, SEED, Sample, Setup};
use pheap::{P, Persist, Root, Txn, txn};

/// Rounds of a pass. The first stores to one half of `ranks`, the second to the other.
const ROUNDS: u64 = 2;
/// Edges to a vertex.
const EDGES: usize = 8;
const DAMPING: f64 = 0.85;

/// A page.
#[derive(Persist)]
#[repr(C)]
struct Vertex<'r> {
    from: [Option<P<'r, Vertex<'r>>>; EDGES],
    /// Number of outgoing edges.
    out: f64,
    ranks: [f64; 2],
}

/// The root of the heap.
#[derive(Persist)]
#[repr(C)]
struct Graph<'r> {
    vertices: P<'r, [P<'r, Vertex<'r>>]>,
}

/// The same in volatile memory, with indices instead of pointers.
struct Plain {
    from: [usize; EDGES],
    out: f64,
    ranks: [f64; 2],
}

/// Returns all variants with `n` updates, half of them in each round.
pub fn cases(setup: &Setup, n: u64) -> Result<Vec<Case>> {
    let count = (n / ROUNDS) as usize;
    let mut vertices = plain(count);
    let mut cases = vec![Case::new("volatile", "pagerank", "vec", n, move || {
        vertices.iter_mut().for_each(|vertex| vertex.ranks = [1.0; 2]);
        let (sample, ()) = Sample::time(|| (0..ROUNDS as usize).for_each(|round| rank(&mut vertices, round)));
        Ok(sample.with(checksum(vertices.iter().map(|vertex| vertex.ranks[0]))))
    })];
    for (options, name) in setup.modes() {
        let heap = std::rc::Rc::new(setup.heap_with(&options)?);
        let root = std::rc::Rc::new(graph(&heap.heap, count)?);
        for (step, suffix) in [(in_place as Step, "txn"), (gathered, "gathered")] {
            let (heap, root) = (heap.clone(), root.clone());
            cases.push(Case::new("pheap", "pagerank", format!("{name}:{suffix}"), n, move || {
                root.txn(|tx, p| {
                    let vertices = tx[p].vertices;
                    for i in 0..count {
                        let vertex = tx[vertices.at(tx, i)];
                        tx[vertex].ranks = [1.0; 2];
                    }
                    Ok(())
                })?;
                let (sample, ()) = heap.time(|| {
                    for round in 0..ROUNDS as usize {
                        root.txn(|tx, p| {
                            let vertices = tx[p].vertices;
                            step(tx, vertices, round);
                            Ok(())
                        })?;
                    }
                    Ok(())
                })?;
                let sum = root.read(|view, p| {
                    checksum(view[view[p].vertices].iter().map(|&vertex| view[vertex].ranks[0]))
                })?;
                Ok(sample.with(sum))
            }));
        }
    }
    Ok(cases)
}

type Step = for<'r> fn(&mut Txn<'r>, P<'r, [P<'r, Vertex<'r>>]>, usize);

/// Stores each rank when it is known.
#[txn]
fn in_place<'r>(tx: &mut Txn<'r>, vertices: P<'r, [P<'r, Vertex<'r>>]>, round: usize) {
    for i in 0..vertices.len(tx) {
        let vertex = tx[vertices.at(tx, i)];
        let rank = sum(tx, vertex, round);
        tx[vertex].ranks[1 - round % 2] = rank;
    }
}

/// Computes all ranks before it stores any of them.
#[txn]
fn gathered<'r>(tx: &mut Txn<'r>, vertices: P<'r, [P<'r, Vertex<'r>>]>, round: usize) {
    let ranks: Vec<f64> = (0..vertices.len(tx)).map(|i| sum(tx, tx[vertices.at(tx, i)], round)).collect();
    for (i, rank) in ranks.into_iter().enumerate() {
        let vertex = tx[vertices.at(tx, i)];
        tx[vertex].ranks[1 - round % 2] = rank;
    }
}

/// Returns the new rank of a vertex.
fn sum<'r>(tx: &Txn<'r>, vertex: P<'r, Vertex<'r>>, round: usize) -> f64 {
    let mut sum = 0.0;
    for i in 0..EDGES {
        let Some(from) = tx[vertex].from[i] else { break };
        sum += tx[from].ranks[round % 2] / tx[from].out;
    }
    1.0 - DAMPING + DAMPING * sum
}

fn rank(vertices: &mut [Plain], round: usize) {
    for i in 0..vertices.len() {
        let terms = vertices[i].from.map(|from| vertices[from].ranks[round % 2] / vertices[from].out);
        vertices[i].ranks[1 - round % 2] = 1.0 - DAMPING + DAMPING * terms.iter().sum::<f64>();
    }
}

fn plain(count: usize) -> Vec<Plain> {
    let mut rng = Rng::from_seed(SEED);
    let vertex = |_| Plain {
        from: [(); EDGES].map(|()| rng.scaled(count as u64) as usize),
        out: 0.0,
        ranks: [1.0; 2],
    };
    let mut vertices: Vec<Plain> = (0..count).map(vertex).collect();
    for i in 0..count {
        vertices[i].from.into_iter().for_each(|from| vertices[from].out += 1.0);
    }
    vertices
}

/// Makes the graph in two transactions: first the vertices, then their edges.
fn graph(heap: &pheap::Heap, count: usize) -> pheap::Result<Root<Graph<'static>>> {
    let root: Root<Graph> = heap.root_or("graph", |tx| {
        let vertices = (0..count)
            .map(|_| tx.alloc(Vertex { from: [None; EDGES], out: 0.0, ranks: [1.0; 2] }))
            .collect::<pheap::Result<Vec<_>>>()?;
        Ok(Graph { vertices: tx.alloc_slice_copy(&vertices)? })
    })?;
    root.txn(|tx, p| {
        let vertices = tx[p].vertices;
        for (i, plain) in plain(count).into_iter().enumerate() {
            let from = plain.from.map(|from| Some(tx[vertices.at(tx, from)]));
            let at = tx[vertices.at(tx, i)];
            let vertex = &mut tx[at];
            (vertex.from, vertex.out) = (from, plain.out);
        }
        Ok(())
    })?;
    Ok(root)
}

fn checksum(ranks: impl Iterator<Item = f64>) -> Checksum {
    Checksum::Float(ranks.zip(1..).map(|(rank, i): (f64, u32)| rank * f64::from(i % 7)).sum())
}
