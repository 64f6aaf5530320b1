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

/// Recognises the store in a heap, or makes an empty heap one. Returns the last block of eras that is reserved.
pub(crate) fn open(heap: &Heap) -> Result<u64> {
    let roots = heap.roots();
    if let Some(root) = roots.first()
        && !roots.iter().any(|root| root.name == META)
    {
        return Err(Error::NotAStore { root: root.name.clone() });
    }
    let root: Root<Meta> = heap.root(META)?;
    let (format, eras) = root.read(|view, meta| (view[meta].format, view[meta].eras))?;
    match format {
        FORMAT => {}
        0 => root.txn(|tx, meta| {
            tx[meta].format = FORMAT;
            Ok(())
        })?,
        found => return Err(Error::NewerFormat { found, known: FORMAT }),
    }
    Ok(eras)
}

/// Reserves another block of eras, durably.
pub(crate) fn reserve_eras(heap: &Heap) -> Result<u64> {
    let root: Root<Meta> = heap.root(META)?;
    Ok(root.txn(|tx, meta| {
        tx[meta].eras += 1;
        Ok(tx[meta].eras)
    })?)
}
