// Text lives behind a pointer: `P<str>`.
use pheap::Persist;

#[derive(Persist)]
#[repr(C)]
struct Record {
    id: u64,
    bad: String,
}

fn main() {}
