// Earlier names of fields are of one field each, or a heap would not tell them apart.
use pheap::Persist;

#[derive(Persist)]
#[repr(C)]
struct Swapped {
    #[persist(was = "b")]
    a: u64,
    #[persist(was = "a")]
    b: u64,
}

#[derive(Persist)]
#[persist(removed = "count")]
#[repr(C)]
struct Again {
    #[persist(since = 2)]
    count: u64,
}

#[derive(Persist)]
#[repr(u8)]
enum Both {
    #[persist(removed = "was")]
    A {
        #[persist(was = "was")]
        is: u64,
    },
}

#[derive(Persist)]
#[persist(was = "pheap::SharedStr")]
#[repr(C)]
struct Text<'r> {
    text: pheap::P<'r, str>,
}

// One name after the other is fine.
#[derive(Persist)]
#[repr(C)]
struct Moved {
    #[persist(was = "b", was = "c")]
    a: u64,
    #[persist(was = "c")]
    b: u64,
    #[persist(since = 2, was = "c")]
    c: u64,
}

fn main() {}
