//! `#[derive(Persist)]` and `#[txn]` at run time.

mod derive;
mod pairs;
mod strict;
mod txn;

use pheap::{Heap, Options, P, Persist};

#[derive(Persist, Default, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Gaps {
    a: u8,
    b: u32,
    c: u16,
}

#[derive(Persist, Default, Clone, Copy, Debug, PartialEq)]
#[repr(C, align(32))]
struct Nested {
    head: u8,
    gaps: [Gaps; 2],
    tail: u8,
}

#[derive(Persist, Default, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Dense {
    x: u64,
    y: u32,
    z: [u16; 2],
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Tuple(u8, u64);

#[derive(Persist, Clone, Copy, Default, Debug, PartialEq)]
#[repr(transparent)]
struct Wrapped(u64, [u8; 0]);

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Unit;

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Pair<T, U, const N: usize> {
    first: T,
    second: [U; N],
}

#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[persist(id = "test.shape")]
#[repr(u16)]
#[allow(dead_code)]
enum Shape<'r, T> {
    Empty,
    Circle { radius: f64, filled: bool } = 7,
    Value(T),
    Link(Option<P<'r, T>>, u8, Gaps) = 300,
    r#Last,
}

#[derive(Persist, Clone, Copy)]
#[repr(i8)]
#[allow(dead_code)]
enum Signed {
    Low = -2,
    Next,
    High = !0 - 10,
    Byte = b'x' as i8,
}

/// A bound on the type itself, which has to hold at the other brand too.
#[derive(Persist, Clone, Copy, Default)]
#[repr(C)]
struct Bounded<'r, T: Copy>
where
    Option<T>: Clone,
{
    value: T,
    link: Option<P<'r, Self>>,
}

#[derive(Persist, Default)]
#[repr(C)]
struct Node<'r> {
    val: u64,
    next: Option<P<'r, Node<'r>>>,
    grid: [[u16; 2]; 3],
    nested: Nested,
    wrapped: Wrapped,
    items: Option<P<'r, [Gaps]>>,
}

/// Runs a test twice: on the short path, which keeps writes apart until the commit, and on the long path,
/// which writes in place behind the undo log. The code that `#[txn]` emits does other things on each.
fn on_both_paths(test: impl Fn(&Heap)) {
    for pin_undo in [false, true] {
        test(&Options::new().pin_undo(pin_undo).in_memory().unwrap());
    }
}
