// There is one brand per transaction.
use pheap::{P, Persist};

#[derive(Persist)]
#[repr(C)]
struct Record<'a, 'b> {
    left: Option<P<'a, u64>>,
    right: Option<P<'b, u64>>,
}

fn main() {}
