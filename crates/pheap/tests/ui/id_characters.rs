//! Ids are put together to names, and shown in sentences: they have no characters that mean something there.

use pheap::{P, Persist};

#[derive(Persist)]
#[repr(C)]
#[persist(id = "B { p: P<[u64]> @0 }, b: C")]
struct Fused {
    x: u128,
}

#[derive(Persist)]
#[repr(C)]
#[persist(id = "größe-2/shop.order:r1")]
struct Fine<'r> {
    größe: u64,
    r#type: Option<P<'r, Fused>>,
}

fn main() {}
