// Fields of a packed struct cannot be borrowed.
use pheap::Persist;

#[derive(Persist)]
#[repr(C, packed)]
struct Record {
    tag: u8,
    id: u64,
}

fn main() {}
