// `#[persist(..)]` takes a few keys: some on the type, others on fields.
use pheap::Persist;

#[derive(Persist)]
#[persist(name = "a")]
#[repr(C)]
struct Unknown {
    id: u64,
}

#[derive(Persist)]
#[persist(id = "")]
#[repr(C)]
struct Empty {
    id: u64,
}

#[derive(Persist)]
#[persist(id = "a")]
#[persist(id = "b")]
#[repr(C)]
struct Twice {
    #[persist(id = "field")]
    id: u64,
    #[persist(since = 1, was = "")]
    other: u64,
}

fn main() {}
