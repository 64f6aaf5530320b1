//! The collections of a root.
//!
//! The first operation that needs collections migrates its root to a [layout](crate::layouts::Store) that has
//! them. So the heaps of other programs do not have the many types of collections.

use pheap::{P, PBTreeMap, PHashMap, PSnapMap, PString, PVec, Persist};

/// Five collections of different kinds. The vector contains pointers, which move between buffers. The keys of
/// the ordered maps are pointers, too.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Shelf<'r> {
    /// A hash map. Its values have a number and the inverted number.
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
