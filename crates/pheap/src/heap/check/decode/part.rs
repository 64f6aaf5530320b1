//! Parts of objects: reads bytes and numbers there, and follows pointers. Pointers in a heap are checked
//! before they are followed.

#![allow(unsafe_code)]

use crate::heap::check::map::{HeapMap, SlotPlace};
use crate::heap::check::plan::header_of;
use crate::heap::check::rule::{PointerRule, field};
use crate::layout::desc::Prim;
use crate::layout::{Shape, TypeLayout};

/// Objects as a view shows them.
pub(crate) trait ViewedObjects {
    /// Returns the types of the objects. A pointer names the type of its target by the position in this list.
    fn types(&self) -> &[TypeLayout];

    /// Returns `len` bytes at an address.
    ///
    /// # Safety
    /// The bytes at `addr..addr + len` lie in one live object of the root, within its length if it is a slice
    /// or string.
    unsafe fn bytes(&self, addr: u64, len: u64) -> &[u8];
}

/// Where objects are. In a heap that no thread changes, places are offsets, and pointers are checked. Behind
/// a view, places are addresses, and pointers are valid.
//
// Invariant: places behind a view come from a pointer of that view, from the layouts of objects, and from
// pointers in them. `Object::from_view` makes the first place.
#[derive(Clone, Copy)]
pub(crate) enum ObjectSource<'v> {
    Heap(&'v HeapMap<'v>),
    View(&'v dyn ViewedObjects),
}

impl<'v> ObjectSource<'v> {
    /// Returns the map of the heap; `None` for a view.
    pub(in crate::heap) fn map(self) -> Option<&'v HeapMap<'v>> {
        match self {
            ObjectSource::Heap(map) => Some(map),
            ObjectSource::View(_) => None,
        }
    }

    pub(in crate::heap) fn types(self) -> &'v [TypeLayout] {
        match self {
            ObjectSource::Heap(map) => &map.types,
            ObjectSource::View(view) => view.types(),
        }
    }
}

/// A part of an object: all its bytes from a place on.
#[derive(Clone, Copy)]
pub(in crate::heap) struct ObjectPart<'v> {
    pub(in crate::heap) ground: ObjectSource<'v>,
    pub(in crate::heap) at: u64,
    /// The number of the object's span; 0 behind a view.
    pub(in crate::heap) span: u32,
    pub(in crate::heap) region: u32,
}

/// A part of an object with its type.
#[derive(Clone, Copy)]
pub(in crate::heap) struct TypedPart<'v> {
    pub(in crate::heap) part: ObjectPart<'v>,
    pub(in crate::heap) ty: &'v TypeLayout,
}

impl<'v> ObjectPart<'v> {
    pub(in crate::heap) fn offset_by(self, by: u64) -> ObjectPart<'v> {
        ObjectPart { at: self.at + by, ..self }
    }

    pub(in crate::heap) fn typed_as(self, ty: &'v TypeLayout) -> TypedPart<'v> {
        TypedPart { part: self, ty }
    }

    /// Returns `len` bytes of the object, from `at` bytes behind the start of this part on.
    #[inline]
    pub(in crate::heap) fn bytes(self, at: u64, len: u64) -> &'v [u8] {
        match self.ground {
            ObjectSource::Heap(map) => map.bytes(self.at + at, len),
            // SAFETY: by the invariant, `self.at` is a place in a live object of the view. Callers compute
            // `at` and `len` from the object's layout, or limit them by the length of the slice or buffer.
            ObjectSource::View(view) => unsafe { view.bytes(self.at + at, len) },
        }
    }

    /// Returns a copy of the `N` [`bytes`](Self::bytes) from byte `at` of this part on.
    #[inline]
    pub(in crate::heap) fn array<const N: usize>(self, at: u64) -> [u8; N] {
        *self.bytes(at, N as u64).first_chunk().expect("as many were asked for")
    }

    #[inline]
    pub(in crate::heap) fn read_word(self, at: u64) -> u64 {
        u64::from_ne_bytes(self.array(at))
    }

    /// Returns the integer of type `prim` at byte `at`, which may be the tag of an enum.
    pub(in crate::heap) fn integer(self, at: u64, prim: Prim) -> i128 {
        prim.integer(|len| self.bytes(at, len))
    }

    /// Returns the layout of a type.
    pub(in crate::heap) fn layout(self, ty: u32) -> Option<&'v TypeLayout> {
        self.ground.types().get(ty as usize)
    }

    /// Returns the place to which a pointer to a `target` leads, and its distance in bytes from the start of
    /// its object; 0 behind a view. Returns `None` if the pointer is null. In a heap, also returns `None` if
    /// a `target` has no bytes and leads to no object.
    pub(in crate::heap) fn locate(
        self,
        addr: u64,
        target: u32,
    ) -> Result<Option<(ObjectPart<'v>, u64)>, String> {
        match self.ground {
            ObjectSource::Heap(map) => {
                let part = |SlotPlace { span, start, inside, .. }| {
                    (ObjectPart { at: start + inside, span, ..self }, inside)
                };
                Ok(map.locate(addr, target, self.region)?.map(part))
            }
            ObjectSource::View(_) => Ok((addr != 0).then_some((ObjectPart { at: addr, ..self }, 0))),
        }
    }

    /// Returns the whole object to which a collection's pointer leads; `None` if the pointer is null.
    pub(in crate::heap) fn follow(self, pointer: PointerRule) -> Result<Option<ObjectPart<'v>>, String> {
        let addr = self.read_word(pointer.at);
        match self.locate(addr, pointer.to)? {
            Some((part, 0)) => Ok(Some(part)),
            Some(_) => Err(shared()),
            None if addr == 0 => Ok(None),
            None => Err("points to nothing".to_owned()),
        }
    }

    /// Follows a pointer to a slice, like [`follow`](Self::follow), and returns its elements, too. For slots,
    /// the type is that of the values in them.
    pub(super) fn follow_slice(
        self,
        pointer: PointerRule,
    ) -> Result<(Option<ObjectPart<'v>>, SlotRun<'v>), String> {
        let Some(TypeLayout { shape: Shape::Slice(elem), .. }) = self.layout(pointer.to) else {
            return Err(strange());
        };
        let (elem, slice) = (in_slot(elem), self.follow(pointer)?);
        let none = SlotRun { first: 0, ty: elem, count: 0 };
        let slots = slice.map_or(Ok(none), |slice| slice.elements(elem));
        Ok((slice, slots.map_err(|what| format!("has a buffer that {what}"))?))
    }

    /// Returns the elements, of type `elem`, of the slice that begins at this part.
    pub(in crate::heap) fn elements(self, elem: &'v TypeLayout) -> Result<SlotRun<'v>, String> {
        Ok(SlotRun { first: header_of(elem), ty: elem, count: self.len()? })
    }

    /// Returns the string that begins at this part.
    pub(in crate::heap) fn text(self) -> Result<&'v str, String> {
        as_text(self.bytes(8, self.len()?))
    }

    /// Returns the number of elements of the slice, or of bytes of the string, that begins at this part.
    pub(in crate::heap) fn len(self) -> Result<u64, String> {
        match self.ground {
            ObjectSource::Heap(map) => map.len_of(&map.spans[self.span as usize], self.at),
            ObjectSource::View(_) => Ok(self.read_word(0)),
        }
    }
}

/// Slots or elements that lie one behind the other in an object.
#[derive(Clone, Copy)]
pub(in crate::heap) struct SlotRun<'v> {
    /// Offset of the first slot in the object, in bytes.
    pub(in crate::heap) first: u64,
    pub(in crate::heap) ty: &'v TypeLayout,
    pub(in crate::heap) count: u64,
}

impl<'v> SlotRun<'v> {
    /// Returns the slots in the field at `path` of a value of type `ty`, if that field is an array.
    pub(super) fn from_field(ty: &'v TypeLayout, path: &[&str]) -> Option<SlotRun<'v>> {
        match field(ty, path)? {
            (first, TypeLayout { shape: Shape::Array { elem, len }, .. }) => {
                Some(SlotRun { first, ty: elem, count: *len })
            }
            _ => None,
        }
    }

    pub(in crate::heap) fn offset(&self, slot: u64) -> u64 {
        self.first + slot * self.ty.size
    }
}

/// Returns the type of the values in slots of type `ty`; `ty` itself if it is no type of slots.
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
