//! Where values are looked at: in a heap that is still, of which nothing is believed; or through a view, whose pointers are good.

#![allow(unsafe_code)]

use crate::heap::check::map::{HeapMap, Place};
use crate::layout::TypeLayout;
use crate::layout::desc::Prim;

/// Objects as a view shows them.
pub(crate) trait Sight {
    /// The types; pointers name their targets by their number here.
    fn types(&self) -> &[TypeLayout];

    /// So many bytes at an address.
    ///
    /// # Safety
    /// They lie in one object of the root, with its length if it has one.
    unsafe fn bytes(&self, addr: u64, len: u64) -> &[u8];
}

/// See the [module](self). In a heap, places are offsets; through a view, they are addresses.
//
// Invariant: where it is a view, places come from a pointer of that view, from the layouts of objects, and from pointers in them. `Object::seen` begins with the first.
#[derive(Clone, Copy)]
pub(crate) enum Ground<'v> {
    Heap(&'v HeapMap<'v>),
    View(&'v dyn Sight),
}

impl<'v> Ground<'v> {
    pub(super) fn types(self) -> &'v [TypeLayout] {
        match self {
            Ground::Heap(map) => &map.types,
            Ground::View(view) => view.types(),
        }
    }

    /// So many bytes of an object.
    #[inline]
    pub(super) fn bytes(self, at: u64, len: u64) -> &'v [u8] {
        match self {
            Ground::Heap(map) => map.bytes(at, len),
            // SAFETY: the invariant: what is asked for lies in an object. What has a length of its own, is cut off by the length of its buffer.
            Ground::View(view) => unsafe { view.bytes(at, len) },
        }
    }

    /// [`bytes`](Self::bytes), as many as are asked for.
    #[inline]
    pub(super) fn array<const N: usize>(self, at: u64) -> [u8; N] {
        *self.bytes(at, N as u64).first_chunk().expect("as many were asked for")
    }

    /// The word at a place.
    #[inline]
    pub(super) fn word(self, at: u64) -> u64 {
        u64::from_ne_bytes(self.array(at))
    }

    /// An integer of this type.
    pub(super) fn integer(self, at: u64, prim: Prim) -> i128 {
        prim.integer(|len| self.bytes(at, len))
    }

    /// Where a pointer to a `target` leads; none if it is null, or to nothing that has bytes.
    pub(super) fn locate(self, addr: u64, target: u32, region: u32) -> Result<Option<Place>, String> {
        match self {
            Ground::Heap(map) => {
                map.locate(addr, target, region).map_err(|astray| map.explain(addr, &astray))
            }
            Ground::View(_) => Ok((addr != 0).then_some(Place { span: 0, slot: 0, start: addr, inside: 0 })),
        }
    }

    /// How many elements the object there has; what its length is, if that cannot be.
    pub(super) fn len_at(self, at: u64) -> Result<u64, u64> {
        match self {
            Ground::Heap(map) => map.len_at(at),
            Ground::View(_) => Ok(self.word(at)),
        }
    }

    /// The offset of an address; the address, if that is outside of the heap, or if this is a view.
    pub(super) fn offset_of(self, addr: u64) -> u64 {
        match self {
            Ground::Heap(map) => Some(map.offset_of(addr)).filter(|&at| at < map.mapped).unwrap_or(addr),
            Ground::View(_) => addr,
        }
    }

    /// The address of a place.
    pub(super) fn addr(self, at: u64) -> u64 {
        match self {
            Ground::Heap(map) => map.addr(at).addr() as u64,
            Ground::View(_) => at,
        }
    }

    /// The name of a type.
    pub(super) fn type_name(self, ty: u32) -> &'v str {
        self.types().get(ty as usize).map_or("?", |ty| &ty.name)
    }

    /// Whether a type has a layout that a compiler could have made.
    pub(super) fn is_possible(self, ty: u32) -> bool {
        match self {
            Ground::Heap(map) => map.is_possible(ty),
            Ground::View(_) => true,
        }
    }

    /// Bytes of the slot of an object; 0 if that is not known.
    pub(super) fn slot_bytes(self, place: Place) -> u64 {
        match self {
            Ground::Heap(map) => map.spans[place.span as usize].slot,
            Ground::View(_) => 0,
        }
    }

    /// A number that no other object has.
    pub(super) fn number(self, place: Place) -> Option<u64> {
        match self {
            Ground::Heap(map) => {
                let first = map.spans[place.span as usize].first_slot;
                (place.inside == 0).then_some(first + place.slot)
            }
            Ground::View(_) => None,
        }
    }

    /// How many objects there may be.
    pub(super) fn objects(self) -> u64 {
        match self {
            Ground::Heap(map) => map.slots,
            Ground::View(_) => u64::MAX,
        }
    }
}
