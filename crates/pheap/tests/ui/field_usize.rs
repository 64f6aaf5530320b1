// The size of `usize` depends on the machine.
use pheap::Persist;

#[derive(Persist)]
#[repr(C)]
struct Record {
    id: u64,
    bad: usize,
}

fn main() {}
