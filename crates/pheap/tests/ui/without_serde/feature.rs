// The feature that it needs is named.
use pheap::Persist;

#[derive(Persist)]
#[persist(serde)]
#[repr(C)]
struct Point {
    x: i32,
    y: i32,
}

fn main() {}
