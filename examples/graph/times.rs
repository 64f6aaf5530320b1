//! Measures the load of the graph in transactions of several sizes, and the algorithms in comparison with
//! `Vec<Vec<u32>>`.

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use pheap::Root;

use crate::store::Graph;
use crate::{Args, ROUNDS, Result, algorithms, edges, in_vectors, load};

/// Runs `once` several times. Returns the median.
fn median(times: usize, mut once: impl FnMut() -> Duration) -> Duration {
    let mut all: Vec<Duration> = (0..times).map(|_| once()).collect();
    all.sort();
    all[times / 2]
}

fn timed<R>(f: impl FnOnce() -> R) -> Duration {
    let start = Instant::now();
    black_box(f());
    start.elapsed()
}

/// Returns the median time of a sync of the disk with one changed page.
fn sync(folder: &Path) -> Result<Duration> {
    let mut file = File::create(folder.join("synced"))?;
    file.write_all(&[1; 4096])?;
    file.sync_all()?;
    let mut once = || -> std::io::Result<Duration> {
        std::io::Seek::rewind(&mut file)?;
        file.write_all(&[2; 4096])?;
        let start = Instant::now();
        file.sync_data()?;
        Ok(start.elapsed())
    };
    let mut all = (0..101).map(|_| once()).collect::<std::io::Result<Vec<Duration>>>()?;
    all.sort();
    Ok(all[all.len() / 2])
}

pub fn print(folder: &Path, args: &Args) -> Result<()> {
    let sync = sync(folder)?.as_secs_f64() * 1e6;
    println!(
        "a sync of the disk: {sync:.0} µs\n\n{:>21}  {:>11}  {:>9}",
        "edges per transaction", "µs per edge", "bound"
    );
    let mut graph = None;
    let mut least = 0.0;
    // The bound is 1.5 times a sum: the cost in transactions of 20,000 edges, and an edge's share of a sync.
    for piece in [20_000, 1000, 100, args.edges] {
        let heap = folder.join(format!("{piece}.pheap"));
        let args = Args { piece, ..args.clone() };
        let start = Instant::now();
        graph = Some(load(&heap, &args, drop)?);
        let cost = start.elapsed().as_secs_f64() * 1e6 / args.edges as f64;
        if piece == 20_000 {
            least = cost;
        }
        println!("{piece:>21}  {cost:>11.2}  {:>9.2}", (least + sync / piece as f64) * 1.5);
    }
    algorithms(&graph.expect("four of them"), &in_vectors(&edges(args)))
}

fn algorithms(graph: &Root<Graph<'static>>, vectors: &[Vec<u32>]) -> Result<()> {
    let out = |node: usize| &*vectors[node];
    let (mut ranks, mut distances) = ([Duration::ZERO; 2], [Duration::ZERO; 2]);
    graph.read(|view, graph| {
        let (nodes, heap) = (view[graph].nodes.len(), view[graph].out(view));
        ranks[0] = median(5, || timed(|| algorithms::page_rank(nodes, ROUNDS, &heap)));
        distances[0] = median(5, || timed(|| algorithms::distances(nodes, 0, &heap)));
        ranks[1] = median(5, || timed(|| algorithms::page_rank(nodes, ROUNDS, out)));
        distances[1] = median(5, || timed(|| algorithms::distances(nodes, 0, out)));
    })?;
    println!("\n{:>21}  {:>11}  {:>9}  {:>5}", "", "in the heap", "in `Vec`s", "ratio");
    for (what, [heap, vectors]) in [("PageRank", ranks), ("breadth-first search", distances)] {
        let ratio = heap.as_secs_f64() / vectors.as_secs_f64();
        println!("{what:>21}  {heap:>11.1?}  {vectors:>9.1?}  {ratio:>5.2}");
    }
    Ok(())
}
