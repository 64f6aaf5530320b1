// What is exported and imported consists of what can be.
use pheap::{P, Persist};

#[derive(Persist)]
#[repr(C)]
struct Plain {
    x: u64,
}

#[derive(Persist)]
#[persist(serde)]
#[repr(C)]
struct Record<'r> {
    number: u64,
    pointer: Option<P<'r, Plain>>,
}

fn main() {}
