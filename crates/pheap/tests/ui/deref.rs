// A store through `DerefMut` could not be seen by the log, so a persistent type is not `Deref`, whatever lints say.
#![allow(dangerous_implicit_autorefs)]

use pheap::{P, Persist, Txn, txn};
use std::ops::{Deref, DerefMut};

#[derive(Persist)]
#[repr(C)]
struct Fields {
    val: u64,
}

#[derive(Persist)]
#[repr(C)]
struct Wrapper {
    fields: Fields,
}

impl Deref for Wrapper {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        &self.fields
    }
}

impl DerefMut for Wrapper {
    fn deref_mut(&mut self) -> &mut Fields {
        &mut self.fields
    }
}

#[txn]
fn set<'r>(tx: &mut Txn<'r>, p: P<'r, Wrapper>) {
    tx[p].val = 1;
}

fn main() {}
