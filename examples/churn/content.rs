//! Content of the heap: objects of many types and sizes. Each is made from a seed and a number, so the
//! program can compute its expected value.

use pheap::{P, Persist, Result, Txn, View};
use pheap_testkit::Rng;

/// Returns the random numbers that belong to `number`. They are the same in each process.
pub fn numbers(seed: u64, number: u64) -> Rng {
    Rng::from_seed(seed ^ number.wrapping_mul(0x517c_c1b7_2722_0a95))
}

/// Returns a number in `0..n`. Small numbers are more frequent.
fn small(rng: &mut Rng, n: usize) -> usize {
    rng.below(n) * rng.below(n) / n
}

// ---- In the heap ------------------------------------------------------------------------------------------

/// The content of one place of the table.
#[derive(Persist, Clone, Copy, Default)]
#[repr(u8)]
pub enum Item<'r> {
    #[default]
    Nothing,
    Number(u64),
    Record(P<'r, Record<'r>>),
    Text(P<'r, str>),
    Words(P<'r, [u64]>),
    Shape(P<'r, Shape<'r>>),
    List(Option<P<'r, Cell<'r>>>),
    Bundle(P<'r, [Item<'r>]>),
}

#[derive(Persist)]
#[repr(C)]
pub struct Record<'r> {
    letter: char,
    name: P<'r, str>,
    tags: P<'r, [u16]>,
    good: bool,
    shape: Option<P<'r, Shape<'r>>>,
    score: f32,
}

#[derive(Persist)]
#[repr(u8)]
pub enum Shape<'r> {
    Circle { x: f64, y: f64, radius: u32 },
    Polygon(P<'r, [Point]>),
    Pair(P<'r, Shape<'r>>, P<'r, Shape<'r>>),
}

/// A point. The struct has padding.
#[derive(Persist, Clone, Copy, PartialEq)]
#[repr(C)]
pub struct Point {
    at: [i32; 2],
    color: u8,
}

#[derive(Persist)]
#[repr(C)]
pub struct Cell<'r> {
    value: u32,
    next: Option<P<'r, Cell<'r>>>,
}

// ---- As plain Rust ----------------------------------------------------------------------------------------

/// The expected value of an item.
pub enum Draft {
    Nothing,
    Number(u64),
    Record { letter: char, name: String, tags: Vec<u16>, good: bool, shape: Option<DraftShape>, score: f32 },
    Text(String),
    Words(Vec<u64>),
    Shape(DraftShape),
    List(Vec<u32>),
    Bundle(Vec<Draft>),
}

pub enum DraftShape {
    Circle { x: f64, y: f64, radius: u32 },
    Polygon(Vec<Point>),
    Pair(Box<[DraftShape; 2]>),
}

fn many<T>(rng: &mut Rng, len: usize, mut one: impl FnMut(&mut Rng) -> T) -> Vec<T> {
    (0..len).map(|_| one(rng)).collect()
}

fn text(rng: &mut Rng, len: usize) -> String {
    many(rng, len, |rng| ['a', 'Q', 'ß', ' ', '7', '水'][rng.below(6)]).into_iter().collect()
}

impl Draft {
    /// Returns the expected item with this number. Number 0 stands for no item.
    pub fn new(seed: u64, number: u64) -> Draft {
        if number == 0 { Draft::Nothing } else { Draft::random(&mut numbers(seed, number), 16) }
    }

    fn random(rng: &mut Rng, kinds: usize) -> Draft {
        match rng.below(kinds) {
            0 => Draft::Number(rng.next_u64()),
            1..=4 => {
                let len = small(rng, 60);
                let (letter, name) = (['x', 'é', '水'][rng.below(3)], text(rng, len));
                let len = small(rng, 30);
                let tags = many(rng, len, |rng| rng.next_u64() as u16);
                let (good, score) = (rng.below(2) == 0, rng.below(1000) as f32);
                let shape = (rng.below(3) == 0).then(|| DraftShape::random(rng, 2));
                Draft::Record { letter, name, tags, good, shape, score }
            }
            5..=7 => {
                let len = small(rng, 300);
                Draft::Text(text(rng, len))
            }
            8..=10 => {
                // Few arrays have more than 100 words, and very few have 5000.
                let most = [100, 100, 100, 100, 100, 100, 100, 1000][rng.below(8)];
                let len = if rng.below(2000) == 0 { 5000 } else { small(rng, most) };
                Draft::Words(many(rng, len, Rng::next_u64))
            }
            11 | 12 => Draft::Shape(DraftShape::random(rng, 3)),
            13 | 14 => {
                let len = rng.below(12);
                Draft::List(many(rng, len, |rng| rng.next_u64() as u32))
            }
            _ => {
                let len = 1 + rng.below(6);
                Draft::Bundle(many(rng, len, |rng| Draft::random(rng, 15)))
            }
        }
    }

    /// Returns the bytes of the item's objects, without the heap's overhead.
    pub fn bytes(&self) -> u64 {
        fn array<T>(len: usize) -> u64 {
            (8 + len * size_of::<T>()) as u64
        }
        match self {
            Draft::Nothing | Draft::Number(_) => 0,
            Draft::Record { name, tags, shape, .. } => {
                let below = array::<u8>(name.len()) + array::<u16>(tags.len());
                size_of::<Record>() as u64 + below + shape.as_ref().map_or(0, DraftShape::bytes)
            }
            Draft::Text(text) => array::<u8>(text.len()),
            Draft::Words(words) => array::<u64>(words.len()),
            Draft::Shape(shape) => shape.bytes(),
            Draft::List(values) => (values.len() * size_of::<Cell>()) as u64,
            Draft::Bundle(drafts) => {
                array::<Item>(drafts.len()) + drafts.iter().map(Draft::bytes).sum::<u64>()
            }
        }
    }

    /// Allocates the item's objects. Returns the item.
    pub fn make<'r>(&self, tx: &Txn<'r>) -> Result<Item<'r>> {
        Ok(match self {
            Draft::Nothing => Item::Nothing,
            Draft::Number(number) => Item::Number(*number),
            Draft::Record { letter, name, tags, good, shape, score } => Item::Record(tx.alloc(Record {
                letter: *letter,
                name: tx.alloc_str(name)?,
                tags: tx.alloc_slice_copy(tags)?,
                good: *good,
                shape: shape.as_ref().map(|shape| shape.make(tx)).transpose()?,
                score: *score,
            })?),
            Draft::Text(text) => Item::Text(tx.alloc_str(text)?),
            Draft::Words(words) => Item::Words(tx.alloc_slice_copy(words)?),
            Draft::Shape(shape) => Item::Shape(shape.make(tx)?),
            Draft::List(values) => {
                let mut next = None;
                for &value in values.iter().rev() {
                    next = Some(tx.alloc(Cell { value, next })?);
                }
                Item::List(next)
            }
            Draft::Bundle(drafts) => {
                let items = drafts.iter().map(|draft| draft.make(tx)).collect::<Result<Vec<_>>>()?;
                Item::Bundle(tx.alloc_slice_copy(&items)?)
            }
        })
    }

    /// Returns whether `item` has the expected content.
    pub fn is<'r>(&self, view: &View<'r>, item: &Item<'r>) -> bool {
        match (self, item) {
            (Draft::Nothing, Item::Nothing) => true,
            (Draft::Number(a), Item::Number(b)) => a == b,
            (Draft::Record { letter, name, tags, good, shape, score }, &Item::Record(p)) => {
                let record = &view[p];
                let (own, others) = ((*letter, *good, *score), (record.letter, record.good, record.score));
                let shapes = match (shape, record.shape) {
                    (Some(shape), Some(p)) => shape.is(view, p),
                    (shape, p) => shape.is_none() && p.is_none(),
                };
                own == others && shapes && view[record.name] == **name && view[record.tags] == **tags
            }
            (Draft::Text(text), &Item::Text(p)) => view[p] == **text,
            (Draft::Words(words), &Item::Words(p)) => view[p] == **words,
            (Draft::Shape(shape), &Item::Shape(p)) => shape.is(view, p),
            (Draft::List(values), &Item::List(first)) => {
                let cells = std::iter::successors(first, |&cell| view[cell].next);
                cells.map(|cell| view[cell].value).eq(values.iter().copied())
            }
            (Draft::Bundle(drafts), &Item::Bundle(p)) => {
                let items = &view[p];
                items.len() == drafts.len()
                    && drafts.iter().zip(items).all(|(draft, item)| draft.is(view, item))
            }
            _ => false,
        }
    }
}

impl DraftShape {
    fn random(rng: &mut Rng, depth: usize) -> DraftShape {
        match rng.below(if depth > 0 { 3 } else { 2 }) {
            0 => DraftShape::Circle { x: rng.below(1 << 40) as f64, y: -1.5, radius: rng.next_u64() as u32 },
            1 => {
                let len = rng.below(8);
                let point = |rng: &mut Rng| Point {
                    at: [rng.next_u64() as i32, rng.next_u64() as i32],
                    color: rng.next_u64() as u8,
                };
                DraftShape::Polygon(many(rng, len, point))
            }
            _ => DraftShape::Pair(Box::new([
                DraftShape::random(rng, depth - 1),
                DraftShape::random(rng, depth - 1),
            ])),
        }
    }

    fn bytes(&self) -> u64 {
        let below = match self {
            DraftShape::Circle { .. } => 0,
            DraftShape::Polygon(points) => 8 + (points.len() * size_of::<Point>()) as u64,
            DraftShape::Pair(two) => two[0].bytes() + two[1].bytes(),
        };
        size_of::<Shape>() as u64 + below
    }

    fn make<'r>(&self, tx: &Txn<'r>) -> Result<P<'r, Shape<'r>>> {
        tx.alloc(match self {
            &DraftShape::Circle { x, y, radius } => Shape::Circle { x, y, radius },
            DraftShape::Polygon(points) => Shape::Polygon(tx.alloc_slice_copy(points)?),
            DraftShape::Pair(two) => Shape::Pair(two[0].make(tx)?, two[1].make(tx)?),
        })
    }

    fn is<'r>(&self, view: &View<'r>, p: P<'r, Shape<'r>>) -> bool {
        match (self, &view[p]) {
            (DraftShape::Circle { x, y, radius }, Shape::Circle { x: x1, y: y1, radius: radius1 }) => {
                (x, y, radius) == (x1, y1, radius1)
            }
            (DraftShape::Polygon(points), &Shape::Polygon(p)) => view[p] == **points,
            (DraftShape::Pair(two), &Shape::Pair(a, b)) => two[0].is(view, a) && two[1].is(view, b),
            _ => false,
        }
    }
}
