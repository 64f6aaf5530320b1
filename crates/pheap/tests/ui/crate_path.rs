//! `crate = ".."` does not replace the trait with which the derive keeps `Deref` away.

use std::ops::Deref;

use pheap::Persist;

mod fake {
    pub use pheap::*;
    pub mod __private {
        pub use pheap::__private::*;
        pub trait NotDeref {}
    }
}

#[derive(Persist)]
#[persist(crate = "crate::fake")]
#[repr(C)]
struct Wrapper {
    value: u64,
}

impl Deref for Wrapper {
    type Target = u64;

    fn deref(&self) -> &u64 {
        &self.value
    }
}

fn main() {}
