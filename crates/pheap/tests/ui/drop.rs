// Nothing in a heap is ever dropped.
use pheap::Persist;

#[derive(Persist)]
#[repr(C)]
struct Guard {
    id: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {}
}

fn main() {}
