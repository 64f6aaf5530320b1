//! Parts of objects: numbers in them, and where their pointers lead, which is looked at before it is followed.

use super::ground::Ground;
use crate::heap::check::rule::Pointer;
use crate::layout::desc::Prim;
use crate::layout::{Shape, TypeLayout, slice_header};

/// The part of an object that begins at an offset of the heap.
#[derive(Clone, Copy)]
pub(super) struct Part<'v> {
    pub(super) ground: Ground<'v>,
    pub(super) at: u64,
    pub(super) region: u32,
}

/// A part, and what value it is.
#[derive(Clone, Copy)]
pub(super) struct Spot<'v> {
    pub(super) part: Part<'v>,
    pub(super) ty: &'v TypeLayout,
}

impl<'v> Part<'v> {
    pub(super) fn at(self, by: u64) -> Part<'v> {
        Part { at: self.at + by, ..self }
    }

    pub(super) fn is(self, ty: &'v TypeLayout) -> Spot<'v> {
        Spot { part: self, ty }
    }

    /// A number of so many bytes.
    pub(super) fn number(self, at: u64, size: u64) -> u64 {
        let bytes = self.ground.bytes(self.at + at, size);
        bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    pub(super) fn word(self, at: u64) -> u64 {
        self.ground.word(self.at + at)
    }

    /// The tag of an enum.
    pub(super) fn tag(self, at: u64, prim: Prim) -> i128 {
        self.ground.integer(self.at + at, prim)
    }

    /// The layout of a type.
    pub(super) fn layout(self, ty: u32) -> Option<&'v TypeLayout> {
        self.ground.types().get(ty as usize)
    }

    /// The object that a pointer of a collection leads to; none if it is null.
    pub(super) fn follow(self, pointer: Pointer) -> Result<Option<Part<'v>>, String> {
        let addr = self.word(pointer.at);
        match self.ground.locate(addr, pointer.to, self.region)? {
            Some(place) if place.inside == 0 => Ok(Some(Part { at: place.start, ..self })),
            None if addr == 0 => Ok(None),
            _ => Err("points into the middle of an object".to_owned()),
        }
    }

    /// The same, of a pointer to a slice: its first element, and how many it has.
    pub(super) fn follow_slice(self, pointer: Pointer) -> Result<Option<(Part<'v>, u64)>, String> {
        let elem = self.elem_of(pointer)?;
        let Some(slice) = self.follow(pointer)? else { return Ok(None) };
        let len =
            self.ground.len_at(slice.at).map_err(|len| format!("has a buffer with a length of {len}"))?;
        Ok(Some((slice.at(slice_header(elem.align as usize) as u64), len)))
    }

    /// What the elements of the slice are that a pointer leads to.
    pub(super) fn elem_of(self, pointer: Pointer) -> Result<&'v TypeLayout, String> {
        match self.layout(pointer.to).map(|ty| &ty.shape) {
            Some(Shape::Slice(elem)) => Ok(elem),
            _ => Err(strange()),
        }
    }
}

/// What a slot of a collection holds if it has a value.
pub(super) fn in_slot(ty: &TypeLayout) -> &TypeLayout {
    match &ty.shape {
        Shape::Slot(of) => of,
        _ => ty,
    }
}

pub(super) fn strange() -> String {
    "is a collection whose type is not as this version of pheap makes it".to_owned()
}
