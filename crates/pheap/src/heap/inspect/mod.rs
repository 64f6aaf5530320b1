//! Shows a heap to tools that do not know its types (such as `pheap dump`): decodes values by the heap's type
//! table.
//!
//! Objects are not trusted: pointers, lengths and tags are checked before they are used, as in
//! [`check`](super::check).

mod objects;
mod value;

use super::Heap;
use super::open::choose::offered;
use super::options::Durability;
use crate::layout::{TypeLayout, describe};
use crate::store::header::{FORMAT, HeapUse};

pub(crate) use super::check::decode::part::ViewedObjects;
pub use objects::{Objects, Purpose, SpanUse};
pub use value::{Elements, Entries, Entry, Field, Fields, Object, Pointer, Value};

/// A type in the list that [`Heap::types`] returns.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeInfo {
    /// The type's number in the heap's type table.
    pub number: u32,
    /// The type's name, with its arguments.
    pub name: String,
    /// The type's layout as one line: fields with their offsets, variants with their discriminants.
    pub layout: String,
    /// Size of a value of the type in bytes; 0 for slices and strings.
    pub size: u64,
    /// Alignment of the type in bytes.
    pub align: u64,
}

/// The content of a heap's header, and some other numbers about the heap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapInfo {
    /// Version of the file format.
    pub format: u32,
    /// The heap's identity. Copies of the heap's file have the same one.
    pub uuid: u128,
    /// The address at which the heap is mapped. Pointers in the heap are addresses behind this one.
    pub base: u64,
    /// Bytes of addresses reserved: the maximal size of the heap.
    pub reserved: u64,
    /// Bytes of the file that belong to the heap.
    pub file_bytes: u64,
    /// Bytes of free pages.
    pub free_bytes: u64,
    /// Unit in which the heap grows, in bytes.
    pub arena_size: u64,
    /// Number of arenas.
    pub arenas: u64,
    /// Bytes of each arena, in the order in which the heap has grown by them.
    pub growth: Vec<u64>,
    /// How the heap is in use; `None` if its last user closed it. For a heap that is open read-only, this is
    /// the state in the file: then a durability means that a program was killed, or, for a follower's copy,
    /// that a program has the heap open or was killed. For other heaps it is how they are open.
    pub in_use: Option<Durability>,
    /// Whether the open heap is a [follower's](crate::Options::follower) copy. If so, a program may have the
    /// original heap open.
    pub followed: bool,
    /// The durability that [`Durability::Auto`] chooses for the file that is mapped, in its file system. (A
    /// read-only heap may be mapped from a temporary copy.) `None` for a heap without a file, and for a
    /// follower's copy.
    pub offered: Option<Durability>,
    /// Number of types in the type table.
    pub types: u64,
    /// Number of roots.
    pub roots: u64,
}

impl Heap {
    /// Returns all types in the heap's type table, by number. No type is removed from the table, so there may
    /// be types without objects. (In a forked child, returns none.)
    pub fn types(&self) -> Vec<TypeInfo> {
        let heap = self.inner();
        if heap.is_forked() {
            return Vec::new();
        }
        let types = heap.tables.lock().types.types.clone();
        let info = |(number, ty): (usize, &TypeLayout)| TypeInfo {
            number: number as u32,
            name: ty.name.clone(),
            layout: describe(ty, &types),
            size: ty.size,
            align: ty.align,
        };
        types.iter().enumerate().map(info).collect()
    }

    /// Returns the content of the heap's header, and other numbers about the heap. (In a forked child, all
    /// fields are 0 or empty.)
    pub fn info(&self) -> HeapInfo {
        let heap = self.inner();
        if heap.is_forked() {
            return HeapInfo::default();
        }
        let roots = heap.regions().len() as u64;
        let tables = heap.tables.lock();
        let header = &tables.header;
        // Of the read-only heaps that a program can have open, only a follower's copy has no lock on its
        // file.
        let followed = heap.is_read_only() && heap.file.is_none();
        HeapInfo {
            format: FORMAT,
            uuid: header.uuid,
            base: header.bases.first().copied().unwrap_or(0),
            reserved: header.reserved,
            file_bytes: header.mapped,
            free_bytes: tables.pages.total(),
            arena_size: header.arena_unit,
            arenas: tables.arenas.len() as u64,
            growth: tables.arenas.iter().map(|arena| arena.size).collect(),
            in_use: match header.in_use {
                HeapUse::Closed => None,
                HeapUse::In(medium) => Some(Durability::from_medium(medium)),
            },
            followed,
            offered: heap.mapping.file().filter(|_| !followed).map(offered),
            types: tables.types.types.len() as u64,
            roots,
        }
    }
}
