//! The collections of a root.
//!
//! A root has them from the first operation on that needs them: it is given a [layout](crate::layouts::Store) with them then. So programs that do without have heaps
//! that know nothing of them; their types are many, and each opening reads all types.

use pheap::{P, PBTreeMap, PHashMap, PSnapMap, PString, PVec, Persist};

/// One collection of each kind. In the vector, and in what the ordered map has for keys, there are pointers, which move between buffers.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Shelf<'r> {
    /// A hash map. Of each number, also the inverse: a bucket with those is too large for a redo record.
    pub map: PHashMap<'r, u64, [u64; 2]>,
    /// An ordered map, the keys of which it owns.
    pub tree: PBTreeMap<'r, P<'r, str>, u64>,
    /// An ordered map with versions.
    pub versions: PSnapMap<'r, P<'r, str>, u64>,
    /// A vector.
    pub vec: PVec<'r, P<'r, Item>>,
    /// A string.
    pub text: PString<'r>,
}

/// What the vector leads to.
#[derive(Persist)]
#[repr(C)]
pub struct Item {
    pub(crate) value: u64,
    /// The value again, inverted.
    pub(crate) check: u64,
}

impl Item {
    /// An item with this value.
    pub fn new(value: u64) -> Item {
        Item { value, check: !value }
    }
}
