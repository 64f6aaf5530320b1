// The layout must be one that the language defines.
use pheap::{Persist, P};

#[derive(Persist)]
struct Record {
    id: u64,
}

#[derive(Persist)]
#[repr(C)]
struct User<'r> {
    record: Record,
    link: Option<P<'r, Record>>,
}

fn main() {}
