//! An alias can hide the brand `'static` from the macro, not from the compiler.
use pheap::{P, Persist};

type Leak = P<'static, [u64]>;

#[derive(Persist)]
#[repr(C)]
struct Holder {
    leak: Option<Leak>,
}

fn main() {}
