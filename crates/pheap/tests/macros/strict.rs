//! What a strict crate asks of the code that the macros write for it.

#![no_implicit_prelude]
#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, unused_qualifications, elided_lifetimes_in_paths, single_use_lifetimes)]

use ::core::option::Option::{self, Some};
use ::core::result::Result::Ok;
use ::pheap::{P, Persist, Root, Txn, txn};

pub(super) mod elsewhere {
    pub(crate) use ::pheap as renamed;
}

#[derive(Persist)]
#[persist(crate = "elsewhere::renamed")]
#[repr(C)]
struct Private<'r, T> {
    r#type: T,
    gap: u64,
    link: Option<P<'r, Self>>,
}

#[derive(Persist)]
#[repr(u8)]
#[allow(dead_code)]
pub(super) enum Public<T> {
    Gone,
    #[deprecated]
    Old {
        x: T,
    },
}

#[txn(crate = "elsewhere::renamed")]
pub(super) fn bump(root: &Root<u64>, by: u64) -> ::pheap::Result<u64> {
    let p = tx.alloc(Private { r#type: 1u8, gap: 0, link: Option::None })?;
    set(tx, p, by);
    let Public::Gone = Public::<u8>::Gone else { return Ok(0) };
    tx[root] += by;
    tx[root] *= 2;
    Ok(tx[root])
}

#[txn]
fn set<'r>(tx: &mut Txn<'r>, p: P<'r, Private<'r, u8>>, by: u64) {
    tx[p].link = Some(p);
    tx[p].gap = by;
    tx[p].r#type += 1;
}
