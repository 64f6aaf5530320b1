//! The `macro_rules!` behind `#[persist(key)]` is safe whatever it is given: no impl of the user's own gets the `unsafe` of the one that it is for.
#![forbid(unsafe_code)]

use pheap::collections::MapKey;
use pheap::{P, Persist, Result, Txn, View};

#[derive(Persist)]
#[repr(transparent)]
struct Elsewhere<'r>(P<'r, [u64; 4]>);

pheap::__key_by_value! {
    [> MapKey<'r> for Elsewhere<'r> {
        type Query = [u64; 4];

        fn query<'v>(&'v self, view: &'v View<'r>) -> &'v [u64; 4] {
            &view[self.0]
        }

        fn from_query(tx: &Txn<'r>, query: &[u64; 4]) -> Result<Self> {
            tx.alloc(*query).map(Elsewhere)
        }
    }

    #[cfg(any())]
    impl<'r]
    u8
}

fn main() {}
