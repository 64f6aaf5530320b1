//! `fill_heap`: `n` MB of objects of 64 bytes, with six pointers each. Half of them form a tree of fan-out
//! six. The others lie between those, and are garbage in the end.
//!
//! A tree of millions of objects is not made in one transaction. The first transaction makes its top: all
//! levels except the last few, children first. Then each transaction makes a subtree, children first again,
//! and links it below the top. So only one pointer of each subtree is stored into an older object. After each
//! object of the tree comes an object outside the tree, which points to it and to the previous object outside
//! the tree. The last transaction unlinks that chain.

use crate::measure::Checksum;
use crate::{Case, Result, Sample, Setup, pages, scratch};
use pheap::{Durability, Options, P, Persist, Root, Txn, View, txn};

const FAN_OUT: usize = 6;
/// Levels of a subtree, which one transaction makes, and number of its objects.
const LEVELS: u32 = 6;
const SUBTREE: u64 = tree_size(LEVELS);

/// Returns the number of objects of a complete tree.
const fn tree_size(levels: u32) -> u64 {
    ((FAN_OUT as u64).pow(levels) - 1) / (FAN_OUT as u64 - 1)
}

/// Size of a tree.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Levels of the top.
    top: u32,
    subtrees: u64,
}

impl Shape {
    /// Returns the shape for `n` MB, including the garbage.
    pub(crate) fn new(n: u64) -> Shape {
        let in_tree = (n << 20) / 64 / 2;
        let subtrees = in_tree.div_ceil(SUBTREE);
        let top =
            (1..).find(|&levels| (FAN_OUT as u64).pow(levels) >= subtrees).expect("some power is larger");
        Shape { top, subtrees }
    }

    /// Returns the number of objects that are reachable in the end.
    pub(crate) fn reachable(self) -> u64 {
        tree_size(self.top) + self.subtrees * SUBTREE
    }

    /// Returns the number of all objects.
    pub(crate) fn objects(self) -> u64 {
        2 * self.reachable()
    }

    /// Returns the path from the root of the tree to subtree `i`: the index of the child at each level.
    fn way(self, i: u64) -> impl Iterator<Item = usize> {
        (0..self.top).rev().map(move |level| (i / (FAN_OUT as u64).pow(level)) as usize % FAN_OUT)
    }

    /// Returns an estimate of the size of a file for all objects, including metadata.
    fn file_bytes(self) -> u64 {
        self.objects() * 64 / 16 * 17 + (4 << 20)
    }
}

/// Returns all variants of `n` MB.
pub fn cases(setup: &Setup, n: u64) -> Result<Vec<Case>> {
    let mut cases = vec![Case::new("volatile", "fill_heap", "vec", n, move || {
        let (sample, (sum, _)) = volatile(n, |tree| (sum(tree), 0.0));
        Ok(sample.with(sum).noting("objects", Shape::new(n).objects() as f64))
    })];
    for &durability in &setup.durabilities {
        let setup = setup.clone();
        let pass = move || on_heap(&setup, durability, n);
        cases.push(Case::new("pheap", "fill_heap", scratch::name(durability), n, pass));
    }
    Ok(cases)
}

/// Each pass fills its own heap. The pages are mapped before the timed part.
fn on_heap(setup: &Setup, durability: Durability, n: u64) -> Result<Sample> {
    let shape = Shape::new(n);
    let arena = shape.file_bytes().next_power_of_two();
    let scratch = setup.heap_with(&options(durability).arena_size(arena))?;
    let forest = scratch.heap.root("forest")?;
    let file = scratch.heap.path().ok_or("the heap has a file")?;
    let populate = pages::populate(file, shape.file_bytes())?;
    let (sample, ()) = scratch.time(|| fill(&forest, shape))?;
    let sum = forest.read(sum_on_heap)?;
    Ok(sample.with(sum).noting("objects", shape.objects() as f64).noting("populate_seconds", populate))
}

/// Returns options of a heap that does not collect while it is filled. A collection would leave less garbage.
pub(crate) fn options(durability: Durability) -> Options {
    Options::new().durability(durability).collect_growth(u32::MAX)
}

// ---- On the heap ------------------------------------------------------------------------------------------

/// An object of 64 bytes.
#[derive(Persist)]
#[repr(C)]
pub(crate) struct Object<'r> {
    children: [Option<P<'r, Object<'r>>>; FAN_OUT],
    value: [u64; 2],
}

/// The root of the heap.
#[derive(Default, Persist)]
#[repr(C)]
pub(crate) struct Forest<'r> {
    tree: Option<P<'r, Object<'r>>>,
    /// The last object outside the tree.
    garbage: Option<P<'r, Object<'r>>>,
    /// Number of openings of the heap.
    pub(crate) opened: u64,
}

/// Makes the tree and the garbage.
pub(crate) fn fill(forest: &Root<Forest<'static>>, shape: Shape) -> pheap::Result<()> {
    let mut made = 0;
    forest.txn(|tx, forest| {
        let mut planting = Planting { garbage: None, made: &mut made };
        let tree = planting.tree(tx, shape.top)?;
        (tx[forest].tree, tx[forest].garbage) = (Some(tree), planting.garbage);
        Ok(())
    })?;
    for i in 0..shape.subtrees {
        forest.txn(|tx, forest| {
            let mut planting = Planting { garbage: tx[forest].garbage, made: &mut made };
            let subtree = planting.tree(tx, LEVELS)?;
            let way: Vec<usize> = shape.way(i).collect();
            let (&last, above) = way.split_last().expect("the top has a level");
            let parent = above.iter().fold(tx[forest].tree, |object, &child| tx[object?].children[child]);
            graft(tx, parent.expect("the top is whole"), last, subtree);
            tx[forest].garbage = planting.garbage;
            Ok(())
        })?;
    }
    forest.txn(|tx, forest| {
        tx[forest].garbage = None;
        Ok(())
    })
}

#[txn]
fn graft<'r>(tx: &mut Txn<'r>, parent: P<'r, Object<'r>>, child: usize, subtree: P<'r, Object<'r>>) {
    tx[parent].children[child] = Some(subtree);
}

struct Planting<'a, 'r> {
    garbage: Option<P<'r, Object<'r>>>,
    /// Number of objects of trees so far.
    made: &'a mut u64,
}

impl<'r> Planting<'_, 'r> {
    /// Makes a complete tree, and as much garbage.
    fn tree(&mut self, tx: &Txn<'r>, levels: u32) -> pheap::Result<P<'r, Object<'r>>> {
        let mut children = [None; FAN_OUT];
        if levels > 1 {
            for child in &mut children {
                *child = Some(self.tree(tx, levels - 1)?);
            }
        }
        *self.made += 1;
        let value = [*self.made, u64::from(levels)];
        let object = tx.alloc(Object { children, value })?;
        let children = [Some(object), self.garbage, Some(object), None, None, None];
        self.garbage = Some(tx.alloc(Object { children, value })?);
        Ok(object)
    }
}

/// Returns a checksum of the values in the tree.
pub(crate) fn sum_on_heap<'r>(view: &View<'r>, forest: P<'r, Forest<'r>>) -> Checksum {
    fn sum<'r>(view: &View<'r>, object: P<'r, Object<'r>>) -> u64 {
        let object = &view[object];
        let below = object.children.iter().flatten().map(|&child| sum(view, child));
        below.fold(object.value[0].wrapping_mul(object.value[1]), u64::wrapping_add)
    }
    Checksum::Int(view[forest].tree.map_or(0, |tree| sum(view, tree)).into())
}

// ---- In volatile memory -----------------------------------------------------------------------------------

/// A node of 64 bytes.
#[derive(Clone, Default)]
pub(crate) struct Node<'a> {
    children: [Option<&'a Node<'a>>; FAN_OUT],
    value: [u64; 2],
}

/// Makes the same tree, with the same garbage in between, in memory that was touched before. Passes its root
/// to `look`.
pub(crate) fn volatile<R>(n: u64, look: impl FnOnce(&Node) -> R) -> (Sample, R) {
    let shape = Shape::new(n);
    let mut memory = vec![Node::default(); shape.objects() as usize];
    // The system may have provided zeros without touching a page.
    memory.iter_mut().for_each(|node| node.value = [1, 1]);
    let (sample, tree) = Sample::time(|| {
        let made = tree_size(shape.top);
        Volatile { free: &mut memory, garbage: None, subtrees: shape.subtrees, made, made_of_top: 0 }
            .top(shape.top)
    });
    (sample, look(tree))
}

struct Volatile<'a> {
    free: &'a mut [Node<'a>],
    garbage: Option<&'a Node<'a>>,
    /// Number of subtrees still to make.
    subtrees: u64,
    /// Numbers of the last objects. They equal those on the heap, where the top is made first.
    made: u64,
    made_of_top: u64,
}

impl<'a> Volatile<'a> {
    /// Makes the top with its subtrees. Subtrees come first, because a node that others refer to cannot
    /// change.
    fn top(&mut self, levels: u32) -> &'a Node<'a> {
        let mut children = [None; FAN_OUT];
        for child in &mut children {
            if levels > 1 {
                *child = Some(self.top(levels - 1));
            } else if self.subtrees > 0 {
                self.subtrees -= 1;
                *child = Some(self.tree(LEVELS));
            }
        }
        self.made_of_top += 1;
        self.node(children, [self.made_of_top, u64::from(levels)])
    }

    fn tree(&mut self, levels: u32) -> &'a Node<'a> {
        let mut children = [None; FAN_OUT];
        if levels > 1 {
            for child in &mut children {
                *child = Some(self.tree(levels - 1));
            }
        }
        self.made += 1;
        self.node(children, [self.made, u64::from(levels)])
    }

    #[inline]
    fn node(&mut self, children: [Option<&'a Node<'a>>; FAN_OUT], value: [u64; 2]) -> &'a Node<'a> {
        let node = self.put(Node { children, value });
        let children = [Some(node), self.garbage, Some(node), None, None, None];
        self.garbage = Some(self.put(Node { children, value }));
        node
    }

    #[inline]
    fn put(&mut self, node: Node<'a>) -> &'a Node<'a> {
        let (first, rest) = std::mem::take(&mut self.free).split_first_mut().expect("there is room for all");
        self.free = rest;
        *first = node;
        first
    }
}

fn sum(node: &Node) -> Checksum {
    fn of(node: &Node) -> u64 {
        let below = node.children.iter().flatten().map(|child| of(child));
        below.fold(node.value[0].wrapping_mul(node.value[1]), u64::wrapping_add)
    }
    Checksum::Int(of(node).into())
}

/// Counts the nodes that are reachable, by a simple walk in one thread.
pub(crate) fn walk(node: &Node) -> u64 {
    let (mut stack, mut nodes) = (vec![node], 0);
    while let Some(node) = stack.pop() {
        nodes += 1;
        stack.extend(node.children.iter().flatten());
    }
    nodes
}
