//! The root that identifies a store. It has the format and the last reserved block of eras.

use crate::{Error, Result};
use pheap::{Heap, Persist, Root};

#[derive(Persist, Default)]
#[repr(C)]
struct Meta {
    format: u64,
    /// Number of the last reserved block of [eras](crate::eras::Eras).
    eras: u64,
}

const META: &str = "kv";
/// The format that this version writes.
const FORMAT: u64 = 1;

/// Identifies the store in a heap; makes an empty heap a store. Returns the last reserved block of eras.
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

/// Reserves another block of eras, as durably as the store's other writes. Returns its number.
pub(crate) fn reserve_eras(heap: &Heap) -> Result<u64> {
    let root: Root<Meta> = heap.root(META)?;
    Ok(root.txn(|tx, meta| {
        tx[meta].eras += 1;
        Ok(tx[meta].eras)
    })?)
}
