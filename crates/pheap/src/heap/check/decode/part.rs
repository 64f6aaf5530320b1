//! Parts of objects: bytes and numbers in them, and where their pointers lead, which is looked at before it
//! is followed.

#![allow(unsafe_code)]

use crate::heap::check::map::{HeapMap, Place};
use crate::heap::check::plan::header_of;
use crate::heap::check::rule::{Pointer, field};
use crate::layout::desc::Prim;
use crate::layout::{Shape, TypeLayout};

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

/// Where objects are: in a heap that is still, of which nothing is believed; or behind a view, whose pointers
/// are good. In a heap, places are offsets; behind a view, they are addresses.
//
// Invariant: places behind a view come from a pointer of that view, from the layouts of objects, and from
// pointers in them. `Object::seen` begins with the first.
#[derive(Clone, Copy)]
pub(crate) enum Ground<'v> {
    Heap(&'v HeapMap<'v>),
    View(&'v dyn Sight),
}

impl<'v> Ground<'v> {
    /// The heap, if this is one.
    pub(in crate::heap) fn map(self) -> Option<&'v HeapMap<'v>> {
        match self {
            Ground::Heap(map) => Some(map),
            Ground::View(_) => None,
        }
    }

    pub(in crate::heap) fn types(self) -> &'v [TypeLayout] {
        match self {
            Ground::Heap(map) => &map.types,
            Ground::View(view) => view.types(),
        }
    }
}

/// The part of an object that begins at a place.
#[derive(Clone, Copy)]
pub(in crate::heap) struct Part<'v> {
    pub(in crate::heap) ground: Ground<'v>,
    pub(in crate::heap) at: u64,
    /// The number of its span, in a heap.
    pub(in crate::heap) span: u32,
    pub(in crate::heap) region: u32,
}

/// A part, and its type.
#[derive(Clone, Copy)]
pub(in crate::heap) struct Spot<'v> {
    pub(in crate::heap) part: Part<'v>,
    pub(in crate::heap) ty: &'v TypeLayout,
}

impl<'v> Part<'v> {
    pub(in crate::heap) fn at(self, by: u64) -> Part<'v> {
        Part { at: self.at + by, ..self }
    }

    pub(in crate::heap) fn is(self, ty: &'v TypeLayout) -> Spot<'v> {
        Spot { part: self, ty }
    }

    /// So many bytes, `at` so many behind the first.
    #[inline]
    pub(in crate::heap) fn bytes(self, at: u64, len: u64) -> &'v [u8] {
        match self.ground {
            Ground::Heap(map) => map.bytes(self.at + at, len),
            // SAFETY: the invariant: these bytes lie in an object. What has a length of its own is cut off by
            // the length of its buffer.
            Ground::View(view) => unsafe { view.bytes(self.at + at, len) },
        }
    }

    /// [`bytes`](Self::bytes), as many as are asked for.
    #[inline]
    pub(in crate::heap) fn array<const N: usize>(self, at: u64) -> [u8; N] {
        *self.bytes(at, N as u64).first_chunk().expect("as many were asked for")
    }

    #[inline]
    pub(in crate::heap) fn word(self, at: u64) -> u64 {
        u64::from_ne_bytes(self.array(at))
    }

    /// An integer of this type, or the tag of an enum.
    pub(in crate::heap) fn integer(self, at: u64, prim: Prim) -> i128 {
        prim.integer(|len| self.bytes(at, len))
    }

    /// The layout of a type.
    pub(in crate::heap) fn layout(self, ty: u32) -> Option<&'v TypeLayout> {
        self.ground.types().get(ty as usize)
    }

    /// Where a pointer to a `target` leads, and how many bytes inside of an object that is. None if it is
    /// null, or to nothing that has bytes.
    pub(in crate::heap) fn locate(self, addr: u64, target: u32) -> Result<Option<(Part<'v>, u64)>, String> {
        match self.ground {
            Ground::Heap(map) => {
                let part =
                    |Place { span, start, inside, .. }| (Part { at: start + inside, span, ..self }, inside);
                Ok(map.locate(addr, target, self.region)?.map(part))
            }
            Ground::View(_) => Ok((addr != 0).then_some((Part { at: addr, ..self }, 0))),
        }
    }

    /// The whole object that a pointer of a collection leads to; none if it is null.
    pub(in crate::heap) fn follow(self, pointer: Pointer) -> Result<Option<Part<'v>>, String> {
        let addr = self.word(pointer.at);
        match self.locate(addr, pointer.to)? {
            Some((part, 0)) => Ok(Some(part)),
            Some(_) => Err(shared()),
            None if addr == 0 => Ok(None),
            None => Err("points to nothing".to_owned()),
        }
    }

    /// The same, of a pointer to a slice: its elements, too. Of slots, they are the values.
    pub(super) fn follow_slice(self, pointer: Pointer) -> Result<(Option<Part<'v>>, Slots<'v>), String> {
        let Some(TypeLayout { shape: Shape::Slice(elem), .. }) = self.layout(pointer.to) else {
            return Err(strange());
        };
        let (elem, slice) = (in_slot(elem), self.follow(pointer)?);
        let none = Slots { first: 0, ty: elem, count: 0 };
        let slots = slice.map_or(Ok(none), |slice| slice.elements(elem));
        Ok((slice, slots.map_err(|what| format!("has a buffer that {what}"))?))
    }

    /// The elements of the slice that begins here.
    pub(in crate::heap) fn elements(self, elem: &'v TypeLayout) -> Result<Slots<'v>, String> {
        Ok(Slots { first: header_of(elem), ty: elem, count: self.len()? })
    }

    /// The string that begins here.
    pub(in crate::heap) fn text(self) -> Result<&'v str, String> {
        as_text(self.bytes(8, self.len()?))
    }

    /// How many elements or bytes the object has that begins here.
    pub(in crate::heap) fn len(self) -> Result<u64, String> {
        match self.ground {
            Ground::Heap(map) => map.len_of(&map.spans[self.span as usize], self.at),
            Ground::View(_) => Ok(self.word(0)),
        }
    }
}

/// Slots or elements that lie one behind the other.
#[derive(Clone, Copy)]
pub(in crate::heap) struct Slots<'v> {
    /// Where they begin in their object.
    pub(in crate::heap) first: u64,
    pub(in crate::heap) ty: &'v TypeLayout,
    pub(in crate::heap) count: u64,
}

impl<'v> Slots<'v> {
    /// The slots in a field of a type.
    pub(super) fn of(ty: &'v TypeLayout, path: &[&str]) -> Option<Slots<'v>> {
        match field(ty, path)? {
            (first, TypeLayout { shape: Shape::Array { elem, len }, .. }) => {
                Some(Slots { first, ty: elem, count: *len })
            }
            _ => None,
        }
    }

    pub(in crate::heap) fn offset(&self, slot: u64) -> u64 {
        self.first + slot * self.ty.size
    }
}

/// The type of the values in slots of this type.
pub(in crate::heap) fn in_slot(ty: &TypeLayout) -> &TypeLayout {
    match &ty.shape {
        Shape::Slot(of) => of,
        _ => ty,
    }
}

pub(super) fn as_text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}

pub(in crate::heap) fn shared() -> String {
    "points to what belongs to something else, too".to_owned()
}

pub(in crate::heap) fn strange() -> String {
    "is a collection whose type is not as this version of pheap makes it".to_owned()
}
