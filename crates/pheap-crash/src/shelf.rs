//! The collections of a root.
//!
//! A root gets collections from the first operation that needs them, which migrates it to a
//! [layout](crate::layouts::Store) with collections. Other programs have heaps without the many types of
//! collections, which each opening would read.

use pheap::{P, PBTreeMap, PHashMap, PSnapMap, PString, PVec, Persist};

/// One collection of each kind. The vector and the keys of the ordered maps contain pointers, which move
/// between buffers.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Shelf<'r> {
    /// A hash map. Its values have the number and the inverse, so that a bucket is too large for a redo
    /// record.
    pub map: PHashMap<'r, u64, [u64; 2]>,
    /// An ordered map that owns its keys.
    pub tree: PBTreeMap<'r, P<'r, str>, u64>,
    /// An ordered map with versions.
    pub versions: PSnapMap<'r, P<'r, str>, u64>,
    /// A vector.
    pub vec: PVec<'r, P<'r, Item>>,
    /// A string.
    pub text: PString<'r>,
}

/// An object that the vector points to.
#[derive(Persist)]
#[repr(C)]
pub struct Item {
    pub(crate) value: u64,
    /// The inverted value.
    pub(crate) check: u64,
}

impl Item {
    /// Makes an item with this value.
    pub fn new(value: u64) -> Item {
        Item { value, check: !value }
    }
}
