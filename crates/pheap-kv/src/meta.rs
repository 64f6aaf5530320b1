//! What a store is recognised by, and which eras are reserved in it.

use crate::{Error, Result};
use pheap::{Heap, Persist, Root};

#[derive(Persist, Default)]
#[repr(C)]
struct Meta {
    format: u64,
    /// The last block of [eras](crate::eras::Eras) that is reserved.
    eras: u64,
}

const META: &str = "kv";
/// The format that is written.
const FORMAT: u64 = 1;

/// Recognises the store in a heap, or makes an empty heap one, and reserves a block of eras.
pub(crate) fn open(heap: &Heap) -> Result<u64> {
    let roots = heap.roots();
    if let Some(root) = roots.first()
        && !roots.iter().any(|root| root.name == META)
    {
        return Err(Error::NotAStore { root: root.name.clone() });
    }
    let root = heap.root::<Meta>(META)?;
    let opened = root.txn(|tx, meta| {
        if tx[meta].format == 0 {
            tx[meta].format = FORMAT;
        }
        if tx[meta].format == FORMAT {
            tx[meta].eras += 1;
        }
        Ok((tx[meta].format, tx[meta].eras))
    });
    match opened {
        // Nothing is written, so there is nothing that eras could be of.
        Err(pheap::Error::ReadOnly) => check(root.read(|view, meta| (view[meta].format, view[meta].eras))?),
        opened => check(opened?),
    }
}

fn check((format, eras): (u64, u64)) -> Result<u64> {
    if format == FORMAT { Ok(eras) } else { Err(Error::NewerFormat { found: format, known: FORMAT }) }
}

/// Reserves another block of eras, durably.
pub(crate) fn reserve_eras(heap: &Heap) -> Result<u64> {
    let root: Root<Meta> = heap.root(META)?;
    Ok(root.txn(|tx, meta| {
        tx[meta].eras += 1;
        Ok(tx[meta].eras)
    })?)
}
