// What is exported and imported declares no bounds.
use pheap::Persist;

#[derive(Persist)]
#[persist(serde)]
#[repr(C)]
struct Inline<T: Copy> {
    x: T,
}

#[derive(Persist)]
#[persist(serde)]
#[repr(C)]
struct Clause<'r, T>
where
    T: 'r,
{
    x: T,
    p: Option<pheap::P<'r, u64>>,
}

fn main() {}
