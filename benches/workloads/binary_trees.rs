//! `binary_trees`: binary-trees of the Benchmarks Game, of depth `n`. On the heap, one transaction builds a
//! tree and another one drops it. A root has the live trees.

use crate::measure::Checksum;
use crate::mi_box::MiBox;
use crate::{Case, Result, Sample, Setup, scratch};
use pheap::{Durability, Options, P, Persist, Root, Txn, View};
use std::ops::Deref;

const MIN_DEPTH: u32 = 4;

/// Returns all variants at depth `n`.
pub fn cases(setup: &Setup, n: u64) -> Result<Vec<Case>> {
    let depth = n as u32;
    let mut cases = vec![
        Case::new("volatile", "binary_trees", "box", n, move || in_memory::<BoxNode>(depth)),
        Case::new("volatile", "binary_trees", "box-mimalloc", n, move || in_memory::<MiNode>(depth)),
    ];
    for &durability in &setup.durabilities {
        let setup = setup.clone();
        let pass = move || on_heap(&setup, durability, depth);
        cases.push(Case::new("pheap", "binary_trees", scratch::name(durability), n, pass));
    }
    Ok(cases)
}

fn in_memory<N: Boxed>(depth: u32) -> Result<Sample> {
    let mut trees = InMemory::<N>([None, None]);
    let (sample, nodes) = Sample::time(|| drive(&mut trees, depth));
    Ok(sample.with(nodes?))
}

/// Each pass makes and deletes its own heap, outside the timed part. The heap grows by 1 MiB, so that the
/// size of its file is a meaningful figure.
fn on_heap(setup: &Setup, durability: Durability, depth: u32) -> Result<Sample> {
    let heap = setup.heap_with(&Options::new().durability(durability).arena_size(1 << 20))?;
    let mut trees = OnHeap { root: heap.heap.root("trees")? };
    let (sample, nodes) = heap.time(|| Ok(drive(&mut trees, depth)))?;
    let stats = heap.heap.stats();
    // Either the tree that is one deeper than the others, or the long-lived tree together with the largest of
    // the others.
    let most_alive = ((4 << depth) - 1) * size_of::<Node>() as u64;
    Ok(sample
        .with(nodes?)
        .noting("most_live_bytes", most_alive as f64)
        .noting("file_bytes", stats.file_bytes as f64)
        .noting("collections", stats.collections as f64)
        .noting("collecting_seconds", stats.collecting.as_secs_f64()))
}

/// One of the two trees.
#[derive(Clone, Copy)]
enum Slot {
    ShortLived,
    LongLived,
}

/// Holds two trees.
trait Trees {
    fn build(&mut self, slot: Slot, depth: u32) -> pheap::Result<()>;
    fn count(&mut self, slot: Slot) -> pheap::Result<u64>;
    fn drop(&mut self, slot: Slot) -> pheap::Result<()>;

    fn short_lived(&mut self, depth: u32) -> pheap::Result<u64> {
        self.build(Slot::ShortLived, depth)?;
        let nodes = self.count(Slot::ShortLived)?;
        self.drop(Slot::ShortLived)?;
        Ok(nodes)
    }
}

/// Builds a tree that is one deeper than the others, a tree that outlives the others, and many trees of every
/// second depth. Returns the number of nodes.
fn drive(trees: &mut impl Trees, depth: u32) -> Result<Checksum> {
    let mut nodes = 0;
    let mut check = |counted: u64, depth: u32, times: u64| {
        nodes += counted;
        let expected = ((2 << depth) - 1) * times;
        if counted == expected { Ok(()) } else { Err(format!("{counted} nodes instead of {expected}")) }
    };
    check(trees.short_lived(depth + 1)?, depth + 1, 1)?;
    trees.build(Slot::LongLived, depth)?;
    for shallow in (MIN_DEPTH..=depth).step_by(2) {
        let (times, mut counted) = (1 << (depth - shallow + MIN_DEPTH), 0);
        for _ in 0..times {
            counted += trees.short_lived(shallow)?;
        }
        check(counted, shallow, times)?;
    }
    check(trees.count(Slot::LongLived)?, depth, 1)?;
    trees.drop(Slot::LongLived)?;
    Ok(Checksum::Int(nodes.into()))
}

/// A node in volatile memory: an owned pointer to its children.
trait Boxed: Deref<Target = [Option<Self>; 2]> + Sized {
    fn new(children: [Option<Self>; 2]) -> Self;
}

/// A node in memory of the system's allocator.
struct BoxNode(Box<[Option<BoxNode>; 2]>);

/// A node in memory of mimalloc.
struct MiNode(MiBox<[Option<MiNode>; 2]>);

macro_rules! boxed {
    ($Node:ident, $Box:ident) => {
        impl Deref for $Node {
            type Target = [Option<$Node>; 2];

            #[inline]
            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl Boxed for $Node {
            #[inline]
            fn new(children: [Option<$Node>; 2]) -> $Node {
                $Node($Box::new(children))
            }
        }
    };
}

boxed!(BoxNode, Box);
boxed!(MiNode, MiBox);

struct InMemory<N>([Option<N>; 2]);

impl<N: Boxed> Trees for InMemory<N> {
    fn build(&mut self, slot: Slot, depth: u32) -> pheap::Result<()> {
        fn tree<N: Boxed>(depth: u32) -> N {
            if depth == 0 {
                return N::new([None, None]);
            }
            N::new([Some(tree(depth - 1)), Some(tree(depth - 1))])
        }
        self.0[slot as usize] = Some(tree(depth));
        Ok(())
    }

    fn count(&mut self, slot: Slot) -> pheap::Result<u64> {
        fn nodes<N: Boxed>(tree: &Option<N>) -> u64 {
            tree.as_ref().map_or(0, |node| 1 + nodes(&node[0]) + nodes(&node[1]))
        }
        Ok(nodes(&self.0[slot as usize]))
    }

    fn drop(&mut self, slot: Slot) -> pheap::Result<()> {
        self.0[slot as usize] = None;
        Ok(())
    }
}

/// A node on the heap.
#[derive(Persist)]
#[repr(C)]
struct Node<'r> {
    left: Option<P<'r, Node<'r>>>,
    right: Option<P<'r, Node<'r>>>,
}

/// The root of the heap.
#[derive(Default, Persist)]
#[repr(C)]
struct Slots<'r> {
    trees: [Option<P<'r, Node<'r>>>; 2],
}

struct OnHeap {
    root: Root<Slots<'static>>,
}

impl Trees for OnHeap {
    fn build(&mut self, slot: Slot, depth: u32) -> pheap::Result<()> {
        fn tree<'r>(tx: &Txn<'r>, depth: u32) -> pheap::Result<P<'r, Node<'r>>> {
            if depth == 0 {
                return tx.alloc(Node { left: None, right: None });
            }
            let (left, right) = (tree(tx, depth - 1)?, tree(tx, depth - 1)?);
            tx.alloc(Node { left: Some(left), right: Some(right) })
        }
        self.root.txn(|tx, p| {
            tx[p].trees[slot as usize] = Some(tree(tx, depth)?);
            Ok(())
        })
    }

    fn count(&mut self, slot: Slot) -> pheap::Result<u64> {
        fn nodes<'r>(view: &View<'r>, tree: Option<P<'r, Node<'r>>>) -> u64 {
            let Some(tree) = tree else { return 0 };
            let Node { left, right } = view[tree];
            1 + nodes(view, left) + nodes(view, right)
        }
        self.root.read(|view, p| nodes(view, view[p].trees[slot as usize]))
    }

    fn drop(&mut self, slot: Slot) -> pheap::Result<()> {
        self.root.txn(|tx, p| {
            tx[p].trees[slot as usize] = None;
            Ok(())
        })
    }
}
