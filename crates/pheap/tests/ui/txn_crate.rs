//! `crate = ".."` names pheap, and does not let code of the user's into an `unsafe` block.
#![forbid(unsafe_code)]

use pheap::{P, Persist, Txn, txn};

#[derive(Persist, Default)]
#[repr(C)]
pub struct Pair {
    x: u64,
    y: u64,
}

mod fake {
    pub use pheap::P;
    pub struct Txn<'r>(std::marker::PhantomData<P<'r, ()>>);
    impl<'r> Txn<'r> {
        #[allow(non_upper_case_globals)]
        pub const __place: for<'a> fn(
            &'a mut pheap::Txn<'r>,
            pheap::__private::Part<'r, super::Pair, u64>,
        ) -> &'a mut u64 = pheap::Txn::<'r>::__place::<super::Pair, u64>;
    }
}

#[txn(crate = "crate::fake")]
fn set<'r>(tx: &mut Txn<'r>, p: P<'r, Pair>) {
    tx[p].y = 42;
}

/// Such a macro would have to be `unsafe` itself.
mod faker {
    pub mod __private {
        macro_rules! place {
            ({ .$field:ident } $tx:ident ($key:tt)) => {
                unsafe { &mut *(std::ptr::without_provenance_mut::<u64>(0x4141_4140)) }
            };
        }
        pub(crate) use place;
    }
}

#[txn(crate = "crate::faker")]
fn set_otherwise<'r>(tx: &mut Txn<'r>, p: P<'r, Pair>) {
    tx[p].y = 42;
}

/// Looks like a field, and would run code of the user's.
fn wait<'r>(tx: &mut Txn<'r>, p: P<'r, Pair>) {
    let _ = async { *pheap::__private::place!({ .await.x } tx (p)) = 42 };
}

fn main() {}
