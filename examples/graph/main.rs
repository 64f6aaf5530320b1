//! A graph of a million edges. A program that is killed again and again loads it. Then it is ranked and
//! searched in the heap.
//!
//! ```text
//! cargo run --release --example graph
//! cargo run --release --example graph -- --edges 100000 --rounds 20
//! cargo run --release --example graph -- --times       what it costs, beside `Vec<Vec<u32>>`
//! ```
//!
//! Each transaction of the load adds some edges and counts them. So after a kill (`kill -9`), the program
//! continues after the last complete transaction, and no edge is there twice. The same algorithms work on the
//! heap and on vectors (`algorithms.rs`): they run directly on the heap, without loading the graph.
//!
//! The graph is in `store.rs`; start reading there.

#![allow(unreachable_pub)] // a program has no public interface

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use pheap::{Heap, Root};
use pheap_examples::{exit_code, random, run_and_kill};

use store::Graph;

mod algorithms;
mod store;
mod times;

const ROUNDS: usize = 20;

/// Loads a graph into a heap, is killed meanwhile, and computes ranks and distances.
#[derive(Parser, Clone)]
struct Args {
    /// How many edges the graph is to have.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    edges: usize,
    /// Edges that one transaction adds, at most.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    piece: usize,
    /// How often to kill, at most.
    #[arg(long, value_name = "N", default_value_t = 8)]
    rounds: u32,
    /// The heap file, which is kept. [default: a temporary file]
    #[arg(long, value_name = "FILE")]
    heap: Option<PathBuf>,
    /// Measure, and kill nobody.
    #[arg(long)]
    times: bool,
    /// Be the process that gets killed.
    #[arg(long, hide = true, requires = "heap")]
    victim: bool,
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let args = Args::parse();
    exit_code(match &args.heap {
        Some(heap) if args.victim => {
            load(heap, &args, |done| println!("{done}")).map(drop).map_err(Into::into)
        }
        heap => run(heap.as_deref(), &args),
    })
}

/// Returns the edges of the graph, which are the same in each run. Edges lead to small numbers more often.
fn edges(args: &Args) -> Vec<(u32, u32)> {
    let (nodes, mut below) = ((args.edges / 8).max(1), random(1));
    (0..args.edges).map(|_| (below(nodes) as u32, below(nodes).min(below(nodes)) as u32)).collect()
}

/// Adds the edges that are not there yet. Calls `say` with the number of edges in the heap, first and after
/// each transaction.
fn load(heap: &Path, args: &Args, mut say: impl FnMut(u64)) -> pheap::Result<Root<Graph<'static>>> {
    let graph: Root<Graph> = Heap::open(heap)?.root("graph")?; // the root keeps the heap open
    let mut done = graph.read(|view, graph| view[graph].edges)?;
    say(done);
    for piece in edges(args).get(done as usize..).unwrap_or(&[]).chunks(args.piece) {
        graph.txn(|tx, graph| Graph::add_edges(graph, tx, piece))?;
        done += piece.len() as u64;
        say(done);
    }
    Ok(graph)
}

/// Returns the same graph as vectors.
fn in_vectors(edges: &[(u32, u32)]) -> Vec<Vec<u32>> {
    let mut out = Vec::new();
    for &(from, to) in edges {
        let most = from.max(to) as usize;
        if out.len() <= most {
            out.resize(most + 1, Vec::new());
        }
        out[from as usize].push(to);
    }
    out
}

/// Kills the child while it loads the graph, checks the graph each time, and then computes. With `--times`,
/// measures instead. The parent process calls this.
fn run(heap: Option<&Path>, args: &Args) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = heap.map_or_else(|| folder.path().join("graph.pheap"), Path::to_owned);
    if args.times {
        return times::print(folder.path(), args);
    }
    let (wanted, mut below) = (edges(args), random(u64::from(std::process::id())));
    let flags = ["--edges".to_owned(), args.edges.to_string(), "--piece".to_owned(), args.piece.to_string()];
    for round in 1..=args.rounds {
        let victim: [&OsStr; 3] = ["--victim".as_ref(), "--heap".as_ref(), path.as_ref()];
        let victim = victim.into_iter().chain(flags.iter().map(AsRef::as_ref));
        let victim = run_and_kill(victim, Duration::from_micros(below(300_000) as u64))?;
        if !victim.was_killed() {
            break; // the graph was complete before the kill
        }
        let said = victim.lines.last().map_or(Ok(0), |line| line.parse())?;
        let heap = Heap::open(&path)?;
        let graph: Root<Graph> = heap.root("graph")?;
        let there = graph.read(|view, graph| {
            let graph = &view[graph];
            let (out, there) = (graph.out(view), graph.edges);
            let is_right = wanted.get(..there as usize).is_some_and(|edges| {
                let expected = in_vectors(edges);
                expected.len() == graph.nodes.len() && (0..).zip(&expected).all(|(node, to)| out(node) == to)
            });
            (is_right && there >= said).then_some(there)
        })?;
        let there = there.ok_or("the graph is not what was loaded")?;
        if !heap.check()?.is_clean() {
            return Err("the heap is damaged".into());
        }
        println!("killed {round} times, {there} edges: none is missing, none is there twice");
    }
    compute(&load(&path, args, drop)?, &in_vectors(&wanted))
}

/// Ranks the nodes, searches from the first node, and compares both with the graph in vectors. Stores the
/// ranks, and prints the best.
fn compute(graph: &Root<Graph<'static>>, expected: &[Vec<u32>]) -> Result<()> {
    let (ranks, distances) = graph.read(|view, graph| {
        let (nodes, out) = (view[graph].nodes.len(), view[graph].out(view));
        (algorithms::page_rank(nodes, ROUNDS, &out), algorithms::distances(nodes, 0, &out))
    })?;
    let out = |node: usize| &*expected[node];
    if ranks != algorithms::page_rank(expected.len(), ROUNDS, out)
        || distances != algorithms::distances(expected.len(), 0, out)
    {
        return Err("the graph of vectors has other ranks or distances".into());
    }
    graph.txn(|tx, graph| Graph::set_ranks(graph, tx, &ranks))?;

    let mut nodes: Vec<(f64, usize)> = graph.read(|view, graph| {
        let nodes = view[graph].nodes.iter(view).map(|&node| view[node].rank);
        nodes.zip(0..).collect()
    })?;
    nodes.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!(
        "{} nodes, {} edges; of the highest rank:",
        nodes.len(),
        expected.iter().map(Vec::len).sum::<usize>()
    );
    for (rank, node) in nodes.iter().take(5) {
        println!("{node:>9}  {rank:.6}");
    }
    let reached = distances.iter().filter(|&&steps| steps != u32::MAX);
    println!(
        "node 0 leads to {} nodes, in at most {} steps",
        reached.clone().count(),
        reached.max().unwrap_or(&0)
    );
    Ok(())
}
