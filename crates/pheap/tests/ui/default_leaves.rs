//! The value of a field that is new is an expression by itself: it leaves nothing but its own evaluation.
use pheap::{P, Persist};

#[derive(Persist)]
#[repr(C)]
struct Leaves<'r> {
    first: u64,
    #[persist(since = 2, default = return)]
    returns: P<'r, u64>,
    #[persist(since = 2, default = break)]
    breaks: u64,
    #[persist(since = 2, default = Err(())?)]
    fails: u64,
    #[persist(since = 2, default = std::future::ready(5).await)]
    waits: u64,
    #[persist(since = 2, default = "five")]
    of_another_type: u64,
}

// What returns a value is that value.
#[derive(Persist)]
#[repr(C)]
struct Stays {
    first: u64,
    #[persist(since = 2, default = return 5)]
    returns: u64,
    #[persist(since = 2, default = loop { break 5 })]
    breaks: u64,
}

fn main() {}
