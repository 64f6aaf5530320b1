//! A heap with pointers of all kinds.

use std::hash::{Hash, Hasher};

use pheap::{Heap, P, Persist, Result, Root, View};

#[derive(Persist, Default)]
#[repr(C)]
pub(crate) struct World<'r> {
    pub(crate) count: u64,
    pub(crate) list: Option<P<'r, Node<'r>>>,
    pub(crate) numbers: Option<P<'r, [u64]>>,
    /// Into the numbers.
    pub(crate) element: Option<P<'r, u64>>,
    pub(crate) shapes: Option<P<'r, [Shape<'r>]>>,
    /// Into the shapes.
    pub(crate) inside: Option<P<'r, Shape<'r>>>,
    pub(crate) words: Option<P<'r, [P<'r, str>]>>,
    pub(crate) ring: Option<P<'r, Ring<'r>>>,
    pub(crate) grid: [[Option<P<'r, Ring<'r>>>; 3]; 2],
}

#[derive(Persist)]
#[repr(C)]
pub(crate) struct Node<'r> {
    pub(crate) value: u64,
    pub(crate) next: Option<P<'r, Node<'r>>>,
}

#[derive(Persist)]
#[repr(C)]
pub(crate) struct Ring<'r> {
    pub(crate) name: u32,
    pub(crate) next: Option<P<'r, Ring<'r>>>,
}

#[derive(Persist, Clone, Copy)]
#[repr(u16)]
#[allow(dead_code)] // the tag tells them apart
pub(crate) enum Shape<'r> {
    Empty,
    Number(u64) = 7,
    Text(P<'r, str>),
    Pair { tag: u8, both: [Option<P<'r, Shape<'r>>>; 2] } = 1000,
}

/// The address of an object, which is what its key hashes.
pub(crate) fn address<T: ?Sized>(p: P<'_, T>) -> u64 {
    #[derive(Default)]
    struct Address(u64);
    impl Hasher for Address {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, _: &[u8]) {
            unreachable!("a key hashes as an address");
        }
        fn write_usize(&mut self, address: usize) {
            self.0 = address as u64;
        }
    }
    let mut hasher = Address::default();
    p.key().hash(&mut hasher);
    hasher.finish()
}

/// Fills a heap.
pub(crate) fn fill(heap: &Heap, nodes: u64) -> Result<Root<World<'static>>> {
    let root: Root<World> = heap.root("world")?;
    for i in 0..nodes {
        root.txn(|tx, w| {
            let next = tx[w].list;
            let node = tx.alloc(Node { value: i, next })?;
            tx.alloc(Node { value: 77, next: Some(node) })?; // garbage
            tx[w].list = Some(node);
            Ok(tx[w].count += 1)
        })?;
    }
    root.txn(|tx, w| {
        let numbers = tx.alloc_slice(1000, |i| i as u64 * 3)?;
        tx[w].numbers = Some(numbers);
        tx[w].element = Some(numbers.at(tx, 500));
        let text = tx.alloc_str("some text")?;
        let shapes = tx.alloc_slice(50, |i| match i % 4 {
            0 => Shape::Empty,
            1 => Shape::Number(address(text)), // a number, whatever it looks like
            2 => Shape::Text(text),
            _ => Shape::Pair { tag: i as u8, both: [None; 2] },
        })?;
        for i in (3..50).step_by(4) {
            let element = shapes.at(tx, i);
            tx[element] = Shape::Pair { tag: i as u8, both: [Some(shapes.at(tx, i - 1)), None] };
        }
        tx[w].shapes = Some(shapes);
        tx[w].inside = Some(shapes.at(tx, 7));
        let texts = (0..100).map(|i| tx.alloc_str(&"x".repeat(i * 7))).collect::<Result<Vec<_>>>()?;
        let words = tx.alloc_slice(100, |i| texts[i])?;
        tx[w].words = Some(words);
        Ok(())
    })?;
    root.txn(|tx, w| {
        let first = tx.alloc(Ring { name: 0, next: None })?;
        let mut last = first;
        for name in 1..5 {
            let ring = tx.alloc(Ring { name, next: Some(first) })?;
            tx[last].next = Some(ring);
            last = ring;
        }
        tx[w].ring = Some(first);
        tx[w].grid[1][2] = Some(last);
        Ok(())
    })?;
    Ok(root)
}

fn shape<'r>(view: &View<'r>, shape: &Shape<'r>, out: &mut Vec<u64>) {
    match *shape {
        Shape::Empty => out.push(1),
        Shape::Number(number) => out.extend([2, number]),
        Shape::Text(text) => out.extend([3, view[text].len() as u64]),
        Shape::Pair { tag, both } => {
            out.extend([4, tag.into()]);
            both.into_iter().flatten().for_each(|p| self::shape(view, &view[p], out));
        }
    }
}

/// All that can be read, without addresses.
pub(crate) fn contents(root: &Root<World<'static>>) -> Vec<u64> {
    let read = root.read(|view, w| {
        let world = &view[w];
        let mut out = vec![world.count];
        let mut next = world.list;
        while let Some(node) = next {
            out.push(view[node].value);
            next = view[node].next;
        }
        out.extend(&view[world.numbers.unwrap()]);
        out.push(view[world.element.unwrap()]);
        view[world.shapes.unwrap()].iter().for_each(|s| shape(view, s, &mut out));
        shape(view, &view[world.inside.unwrap()], &mut out);
        out.extend(view[world.words.unwrap()].iter().map(|&word| view[word].len() as u64));
        let mut ring = world.ring;
        for _ in 0..7 {
            out.push(view[ring.unwrap()].name.into());
            ring = view[ring.unwrap()].next;
        }
        for cell in world.grid.iter().flatten() {
            out.push(cell.map_or(99, |ring| view[ring].name.into()));
        }
        out
    });
    read.unwrap()
}
