//! A type with everything in it, and the same without a heap.

use pheap::{P, PString, PVec, PVecDeque, Persist};
use serde::{Deserialize, Serialize};

use super::Text;

#[derive(Persist)]
#[persist(serde)]
#[repr(C)]
pub(crate) struct Everything<'r> {
    pub(crate) a: u8,
    pub(crate) b: u16,
    pub(crate) c: u32,
    pub(crate) d: u64,
    pub(crate) e: u128,
    pub(crate) f: i8,
    pub(crate) g: i16,
    pub(crate) h: i32,
    pub(crate) i: i64,
    pub(crate) j: i128,
    pub(crate) x: f32,
    pub(crate) y: f64,
    pub(crate) yes: bool,
    pub(crate) letter: char,
    pub(crate) unit: (),
    pub(crate) array: [i16; 3],
    pub(crate) bytes: [u8; 5],
    pub(crate) none: [u64; 0],
    pub(crate) large: [u64; 20],
    pub(crate) text: Text<'r>,
    pub(crate) string: PString<'r>,
    pub(crate) slice: P<'r, [u32]>,
    pub(crate) texts: P<'r, [Text<'r>]>,
    pub(crate) object: P<'r, Point>,
    pub(crate) maybe: Option<P<'r, Point>>,
    pub(crate) maybe_text: Option<P<'r, str>>,
    pub(crate) maybe_slice: Option<P<'r, [u8]>>,
    pub(crate) shapes: PVec<'r, Shape<'r>>,
    pub(crate) pairs: PVecDeque<'r, Pair<'r, u64>>,
    pub(crate) nested: PVec<'r, PVec<'r, u8>>,
    pub(crate) length: Metres,
    pub(crate) couple: Couple,
    pub(crate) nothing: Nothing,
    pub(crate) braces: Braces,
    pub(crate) link: Link<'r>,
    pub(crate) generic: Pair<'r, Point>,
    pub(crate) array_of_generic: Many<Metres, 2>,
    pub(crate) r#type: u8,
}

#[derive(Persist)]
#[persist(serde)]
#[repr(C)]
pub(crate) struct Point {
    pub(crate) x: i32,
    pub(crate) y: i32,
}

#[derive(Persist)]
#[persist(serde)]
#[repr(u8)]
pub(crate) enum Shape<'r> {
    Empty,
    Circle(f64),
    Line(Point, Point),
    Text { at: P<'r, Point>, text: Text<'r> },
    Group(Option<P<'r, Shape<'r>>>),
    Unit {},
    r#Raw { r#fn: u8 },
}

#[derive(Persist)]
#[persist(serde)]
#[repr(C)]
pub(crate) struct Pair<'r, T> {
    pub(crate) first: T,
    pub(crate) second: P<'r, T>,
}

#[derive(Persist)]
#[persist(serde)]
#[repr(C)]
pub(crate) struct Many<T: Persist, const N: usize> {
    pub(crate) all: [T; N],
}

#[derive(Persist)]
#[persist(serde)]
#[repr(transparent)]
pub(crate) struct Metres(pub(crate) f64);

#[derive(Persist)]
#[persist(serde)]
#[repr(C)]
pub(crate) struct Couple(pub(crate) u8, pub(crate) bool);

#[derive(Persist)]
#[persist(serde)]
#[repr(C)]
pub(crate) struct Nothing;

#[derive(Persist)]
#[persist(serde)]
#[repr(C)]
pub(crate) struct Braces {}

#[derive(Persist)]
#[persist(serde)]
#[repr(C)]
pub(crate) struct Link<'r>(pub(crate) Option<P<'r, Link<'r>>>);

/// The same, as a Rust program would have it.
pub(crate) mod model {
    use super::{Deserialize, Serialize};

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(crate) struct Everything {
        pub(crate) a: u8,
        pub(crate) b: u16,
        pub(crate) c: u32,
        pub(crate) d: u64,
        pub(crate) e: u128,
        pub(crate) f: i8,
        pub(crate) g: i16,
        pub(crate) h: i32,
        pub(crate) i: i64,
        pub(crate) j: i128,
        pub(crate) x: f32,
        pub(crate) y: f64,
        pub(crate) yes: bool,
        pub(crate) letter: char,
        pub(crate) unit: (),
        pub(crate) array: [i16; 3],
        pub(crate) bytes: [u8; 5],
        pub(crate) none: [u64; 0],
        pub(crate) large: [u64; 20],
        pub(crate) text: String,
        pub(crate) string: String,
        pub(crate) slice: Vec<u32>,
        pub(crate) texts: Vec<String>,
        pub(crate) object: Box<Point>,
        pub(crate) maybe: Option<Box<Point>>,
        pub(crate) maybe_text: Option<String>,
        pub(crate) maybe_slice: Option<Vec<u8>>,
        pub(crate) shapes: Vec<Shape>,
        pub(crate) pairs: Vec<Pair<u64>>,
        pub(crate) nested: Vec<Vec<u8>>,
        pub(crate) length: Metres,
        pub(crate) couple: Couple,
        pub(crate) nothing: Nothing,
        pub(crate) braces: Braces,
        pub(crate) link: Link,
        pub(crate) generic: Pair<Point>,
        pub(crate) array_of_generic: Many<Metres>,
        pub(crate) r#type: u8,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(crate) struct Point {
        pub(crate) x: i32,
        pub(crate) y: i32,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(crate) enum Shape {
        Empty,
        Circle(f64),
        Line(Point, Point),
        Text { at: Point, text: String },
        Group(Option<Box<Shape>>),
        Unit {},
        Raw { r#fn: u8 },
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(crate) struct Pair<T> {
        pub(crate) first: T,
        pub(crate) second: T,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(crate) struct Many<T> {
        pub(crate) all: [T; 2],
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(crate) struct Metres(pub(crate) f64);

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(crate) struct Couple(pub(crate) u8, pub(crate) bool);

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(crate) struct Nothing;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(crate) struct Braces {}

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(crate) struct Link(pub(crate) Option<Box<Link>>);
}
