//! The transaction's name may be that of a `static mut`. It is in no `unsafe` block of a macro.
#![forbid(unsafe_code)]

use pheap::{P, Persist, Txn, txn};
use std::ops::{Deref, DerefMut};

#[derive(Persist)]
#[repr(C)]
struct Pair {
    x: u64,
    cells: [u64; 2],
}

struct Forged;

impl Deref for Forged {
    type Target = Txn<'static>;
    fn deref(&self) -> &Txn<'static> {
        loop {}
    }
}

impl DerefMut for Forged {
    fn deref_mut(&mut self) -> &mut Txn<'static> {
        loop {}
    }
}

static mut TX: &mut Forged = &mut Forged;

fn set_field(p: P<'_, Pair>) {
    *pheap::__private::place!({ .x } TX (p)) = 1;
}

#[txn]
fn set_shadowed<'r>(tx: &mut Txn<'r>, p: P<'r, Pair>) {
    use TX as tx;
    tx[p].x = 1;
}

fn main() {}
