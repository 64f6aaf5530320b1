// A type of one's own needs the derive too.
use pheap::{P, Persist};

struct Plain {
    x: u64,
}

#[derive(Persist)]
#[repr(C)]
struct Record<'r> {
    direct: Plain,
    pointer: Option<P<'r, Plain>>,
}

fn main() {}
