// No transaction has the brand `'static`.
use pheap::{P, Persist};

#[derive(Persist)]
#[repr(C)]
struct Record {
    next: Option<P<'static, u64>>,
}

fn main() {}
