//! Marks a graph of 64-byte objects with six pointers each: by a plain walk, and by the collector.
//!
//! `cargo run --release -p pheap-gc --example marking [million objects] [threads]`

use std::hint::black_box;
use std::time::{Duration, Instant};
use std::{env, thread};

use pheap_gc::bitmap::Bitmap;
use pheap_gc::{Budget, Heap, Marking, Progress, mark_all};

const SIZE: u64 = 64;
const FAN_OUT: usize = 6;
/// Stack for the recursive walk, which is as deep as the graph.
const STACK: usize = 8 << 30;

/// An object: pointers, then other things. Pointers are offsets; the first object is at `SIZE`.
#[repr(align(64))]
#[derive(Clone, Copy, Default)]
struct Node([u64; 8]);

struct Graph {
    nodes: Vec<Node>,
    marks: Bitmap,
    shared: bool,
}

impl Graph {
    /// Makes a tree over all objects, so that all are reachable, and adds random pointers: to any object,
    /// or to one that is `near`.
    fn new(count: usize, near: Option<u64>) -> Graph {
        let mut state = 1_u64;
        let mut random = move || {
            // splitmix64
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        };
        let mut order: Vec<u64> = (0..count as u64).collect();
        let within = near.unwrap_or(count as u64) as usize;
        for block in order[1..].chunks_mut(within) {
            (1..block.len()).rev().for_each(|i| block.swap(i, (random() % (i as u64 + 1)) as usize));
        }
        let mut nodes = vec![Node::default(); count];
        for (i, &node) in order.iter().enumerate() {
            for slot in 0..FAN_OUT {
                let to = match order.get(i * 2 + 1 + slot).filter(|_| slot < 2) {
                    Some(&child) => child,
                    None => (node + random() % within as u64) % count as u64,
                };
                nodes[node as usize].0[slot] = (to + 1) * SIZE;
            }
        }
        Graph { nodes, marks: Bitmap::new(count), shared: false }
    }

    fn check(&self) {
        assert_eq!(self.marks.count_ones(), self.nodes.len());
        self.marks.clear();
    }

    fn walk(&self, pointer: u64) {
        let object = (pointer / SIZE - 1) as usize;
        if self.marks.set(object) {
            self.nodes[object].0[..FAN_OUT].iter().filter(|&&to| to != 0).for_each(|&to| self.walk(to));
        }
    }
}

impl Heap for Graph {
    type Object = u32;

    #[inline(always)]
    fn prefetch(&self, pointer: u64) {
        // A load whose result is unused prefetches, as the instruction would, while few loads are in flight.
        black_box(self.nodes[(pointer / SIZE - 1) as usize].0[0]);
    }

    #[inline(always)]
    fn mark(&self, pointer: u64) -> Option<u32> {
        let object = (pointer / SIZE - 1) as usize;
        let new = if self.shared { self.marks.set_shared(object) } else { self.marks.set(object) };
        new.then_some(object as u32)
    }

    #[inline(always)]
    fn trace(&self, object: u32, found: &mut impl FnMut(u64)) -> Option<u32> {
        self.nodes[object as usize].0[..FAN_OUT].iter().filter(|&&to| to != 0).for_each(|&to| found(to));
        None
    }

    fn marked(&self, visit: &mut impl FnMut(u32)) {
        self.marks.ones().for_each(|object| visit(object as u32));
    }

    #[inline(always)]
    fn size(&self, _: u32) -> usize {
        SIZE as usize
    }
}

/// The fastest of three.
fn measure(name: &str, graph: &Graph, mark: impl Fn()) {
    let time = |()| {
        let start = Instant::now();
        mark();
        let time = start.elapsed();
        graph.check();
        time
    };
    let best = [(); 3].map(time).into_iter().min().unwrap_or_default();
    println!(
        "  {name:<28}{best:>12.1?}{:>8.1} ns an object",
        best.as_nanos() as f64 / graph.nodes.len() as f64
    );
}

fn marking(limit: usize) -> Marking<u32> {
    let mut marking = Marking::with_limit(limit);
    marking.push_mut(SIZE);
    marking
}

fn main() {
    let mut args = env::args().skip(1).map(|arg| arg.parse::<f64>().expect("a number"));
    let count = (args.next().unwrap_or(4.0) * 1e6) as usize;
    let threads = args.next().unwrap_or(2.0) as usize;
    for (name, near) in [("pointers to anywhere", None), ("pointers to the next 1000 objects", Some(1000))] {
        println!("{count} objects, {name}");
        let mut graph = Graph::new(count, near);
        let alone = &graph;
        measure("recursive walk", alone, || {
            thread::scope(|scope| {
                let walk = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || alone.walk(SIZE));
                walk.expect("a thread").join().expect("a deep stack");
            });
        });
        measure("walk with a stack", alone, || {
            let mut stack = vec![SIZE];
            while let Some(pointer) = stack.pop() {
                alone.mark(pointer).map(|object| alone.trace(object, &mut |pointer| stack.push(pointer)));
            }
        });
        measure("marking", alone, || {
            marking(usize::MAX).run(alone, &mut Budget::unlimited());
        });
        measure("marking, default limit", alone, || mark_all(alone, [SIZE], 1));
        measure("marking, limit 65536", alone, || {
            marking(1 << 16).run(alone, &mut Budget::unlimited());
        });
        measure("marking, slices of 200 µs", alone, || {
            let mut marking = marking(usize::MAX);
            let slice = || Budget::until(Instant::now() + Duration::from_micros(200));
            while marking.run(alone, &mut slice()) == Progress::More {}
        });
        graph.shared = true;
        let shared = &graph;
        for threads in 1..=threads {
            measure(&format!("marking, {threads} shared"), shared, || {
                let marking = marking(usize::MAX);
                thread::scope(|scope| {
                    for _ in 0..threads {
                        scope.spawn(|| marking.run_shared(shared, &mut Budget::unlimited()));
                    }
                });
            });
        }
    }
}
