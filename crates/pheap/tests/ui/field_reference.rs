// A reference means nothing after a restart.
use pheap::Persist;

#[derive(Persist)]
#[repr(C)]
struct Record<'r> {
    id: u64,
    bad: &'r u64,
}

fn main() {}
