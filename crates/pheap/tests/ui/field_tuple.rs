// The layout of a tuple is the compiler's own.
use pheap::Persist;

#[derive(Persist)]
#[repr(C)]
struct Record {
    id: u64,
    bad: (u32, u32),
}

fn main() {}
