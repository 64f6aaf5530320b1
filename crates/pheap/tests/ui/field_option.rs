// The layout of `Option<u64>` is the compiler's own.
use pheap::Persist;

#[derive(Persist)]
#[repr(C)]
struct Record {
    id: u64,
    bad: Option<u64>,
}

fn main() {}
