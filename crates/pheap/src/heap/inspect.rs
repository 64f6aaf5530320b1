//! A heap as tools see it that do not know its types: values by its type table (`pheap dump`).
//!
//! Nothing here believes an object: pointers, lengths and discriminants are looked at before they are followed, as in
//! [`check`](super::check).

#![deny(clippy::wildcard_enum_match_arm)]

use std::fmt;

use super::Heap;
use super::check::map::{Astray, HeapMap, Place};
use super::open::choose::offered;
use super::options::Durability;
use crate::error::{Error, Result};
use crate::layout::desc::Prim;
use crate::layout::{FieldLayout, Shape, TypeLayout, describe, slice_header};
use crate::store::Tables;
use crate::store::header::{FORMAT, Use};

/// A type, as [`Heap::types`] lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeInfo {
    /// Its number in the heap's type table.
    pub number: u32,
    /// Its name, with its arguments.
    pub name: String,
    /// Its layout as one line: fields with their offsets, variants with their discriminants.
    pub layout: String,
    /// Size in bytes; 0 for slices and strings.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u64,
}

/// The content of a heap's header, and some numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapInfo {
    /// Version of the file format.
    pub format: u32,
    /// The heap's identity. Copies of the file share it.
    pub uuid: u128,
    /// The address that it is mapped at, and that its pointers are relative to.
    pub base: u64,
    /// Bytes of addresses reserved: the maximal size of the heap.
    pub reserved: u64,
    /// Bytes of the file that belong to the heap.
    pub file_bytes: u64,
    /// Bytes of pages that nothing uses.
    pub free_bytes: u64,
    /// Unit in which the heap grows, in bytes.
    pub arena_size: u64,
    /// Number of arenas.
    pub arenas: u64,
    /// How the heap is in use; `None` if its last user closed it. For a heap that is open read-only, this is the state in the file: then
    /// [`Process`](Durability::Process) or [`Pmem`](Durability::Pmem) means that a program was killed. For other heaps it is how they are open.
    pub in_use: Option<Durability>,
    /// Whether this is the copy that a [follower](crate::Options::follower) has made. Then a program may have the heap open, or may have been killed.
    pub followed: bool,
    /// What [`Durability::Auto`] chooses for the file where it lies; `None` for a heap without a file, and for a follower's copy.
    pub offered: Option<Durability>,
    /// Number of types in the type table.
    pub types: u64,
    /// Number of roots.
    pub roots: u64,
}

impl Heap {
    /// All types that objects in the heap ever had, by number. (In a forked child, none if the heap was being changed.)
    pub fn types(&self) -> Vec<TypeInfo> {
        self.inner().look_at_tables(types_of).unwrap_or_default()
    }

    /// The content of the header. (In a forked child, nothing if the heap was being changed.)
    pub fn info(&self) -> HeapInfo {
        let heap = self.inner();
        let of = |regions: Vec<_>| heap.look_at_tables(|tables| self.info_of(tables, regions.len() as u64));
        heap.look_at_regions().and_then(of).unwrap_or_default()
    }

    fn info_of(&self, tables: &Tables, roots: u64) -> HeapInfo {
        let header = &tables.header;
        // The only heap of a file that nobody has locked.
        let followed = self.inner().is_read_only() && self.inner().file.is_none();
        HeapInfo {
            format: FORMAT,
            uuid: header.uuid,
            base: header.bases.first().copied().unwrap_or(0),
            reserved: header.reserved,
            file_bytes: header.mapped,
            free_bytes: tables.pages.total(),
            arena_size: header.arena_unit,
            arenas: tables.arenas.len() as u64,
            in_use: match header.in_use {
                Use::Closed => None,
                Use::In(medium) => Some(Durability::of(medium)),
            },
            followed,
            offered: self.inner().mapping.file().filter(|_| !followed).map(offered),
            types: tables.types.types.len() as u64,
            roots,
        }
    }

    /// Passes the root with this name to `f`, read by the heap's own description of its type: for tools that do not know the program. Transactions
    /// wait until `f` returns.
    ///
    /// # Errors
    /// [`Error::NoSuchRoot`], [`Error::Corrupt`] if there is no such object where the root should be; [`Error::Nested`],
    /// [`Error::Closed`], [`Error::Forked`].
    pub fn inspect<R>(&self, root: &str, f: impl for<'v> FnOnce(Object<'v>) -> R) -> Result<R> {
        let still = self.inner().still()?;
        let map = still.map()?;
        let found = map.roots.iter().find(|other| other.name == root);
        let found = found.ok_or_else(|| Error::NoSuchRoot(root.to_owned()))?;
        let addr = self.inner().base().addr() as u64 + found.object;
        let pointer = Pointer { map: &map, addr, target: found.ty, region: found.region };
        match pointer.target() {
            Ok(Some(object)) => Ok(f(object)),
            Ok(None) => Err(Error::corrupt(format!("root {root:?} has no object"))),
            Err(what) => Err(Error::corrupt(format!("root {root:?} {what}"))),
        }
    }
}

fn types_of(tables: &Tables) -> Vec<TypeInfo> {
    let types = &tables.types.types;
    let info = |(number, ty): (usize, &TypeLayout)| TypeInfo {
        number: number as u32,
        name: ty.name.clone(),
        layout: describe(ty, types),
        size: ty.size,
        align: ty.align,
    };
    types.iter().enumerate().map(info).collect()
}

/// An object, or a value inside an object that a pointer leads to.
#[derive(Clone, Copy)]
pub struct Object<'v> {
    map: &'v HeapMap<'v>,
    place: Place,
    ty: &'v TypeLayout,
    region: u32,
}

/// A value, as far as it can be read without the program that made it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Value<'v> {
    /// `()`.
    Unit,
    /// A `bool`.
    Bool(bool),
    /// A `char`.
    Char(char),
    /// An unsigned number.
    Unsigned(u128),
    /// A signed number.
    Signed(i128),
    /// An `f32`.
    F32(f32),
    /// An `f64`.
    F64(f64),
    /// A string.
    Str(&'v str),
    /// A pointer that is not null.
    Pointer(Pointer<'v>),
    /// `None`, or an unused element.
    Null,
    /// A struct.
    Struct(Fields<'v>),
    /// An enum: the name and the fields of its variant.
    Enum(&'v str, Fields<'v>),
    /// An array or slice.
    List(Elements<'v>),
    /// Invalid for its type; the text says why.
    Invalid(String),
}

/// A pointer in a heap.
#[derive(Clone, Copy)]
pub struct Pointer<'v> {
    map: &'v HeapMap<'v>,
    addr: u64,
    target: u32,
    region: u32,
}

/// The fields of a struct or variant, in the order of their declaration.
#[derive(Clone)]
pub struct Fields<'v> {
    of: Part<'v>,
    fields: std::slice::Iter<'v, FieldLayout>,
}

/// A field: its name (`0`, `1`, … in a tuple) and its value.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Field<'v> {
    /// The name.
    pub name: &'v str,
    /// The value.
    pub value: Value<'v>,
}

/// The elements of an array or slice.
#[derive(Clone)]
pub struct Elements<'v> {
    of: Part<'v>,
    elem: &'v TypeLayout,
    len: u64,
}

/// The part of an object that begins at an offset of the heap.
#[derive(Clone, Copy)]
struct Part<'v> {
    map: &'v HeapMap<'v>,
    at: u64,
    region: u32,
}

impl<'v> Object<'v> {
    /// Offset in the file: the object's identity.
    pub fn offset(&self) -> u64 {
        self.place.start + self.place.inside
    }

    /// The name of its type.
    pub fn type_name(&self) -> &'v str {
        &self.ty.name
    }

    /// Its value.
    pub fn value(&self) -> Value<'v> {
        let part = Part { map: self.map, at: self.offset(), region: self.region };
        let span = &self.map.spans[self.place.span as usize];
        let len = || {
            let invalid =
                |len| Value::Invalid(format!("a length of {len}, in a slot of {} bytes", span.slot));
            self.map.len_of(span, self.place.start).map_err(invalid)
        };
        match &self.ty.shape {
            Shape::Slice(elem) => match len() {
                Ok(len) => {
                    let of = part.at(slice_header(elem.align as usize) as u64);
                    Value::List(Elements { of, elem, len })
                }
                Err(invalid) => invalid,
            },
            Shape::Str => match len() {
                Ok(len) => match std::str::from_utf8(self.map.bytes(part.at + 8, len)) {
                    Ok(text) => Value::Str(text),
                    Err(_) => Value::Invalid("not UTF-8".to_owned()),
                },
                Err(invalid) => invalid,
            },
            Shape::Prim(_)
            | Shape::Array { .. }
            | Shape::Ptr { .. }
            | Shape::Struct(_)
            | Shape::Enum { .. }
            | Shape::Slot(_) => part.value(self.ty),
        }
    }
}

impl<'v> Pointer<'v> {
    /// Offset of its target in the file; the address, if that is outside the heap.
    pub fn offset(&self) -> u64 {
        let offset = self.map.offset_of(self.addr);
        if offset < self.map.mapped { offset } else { self.addr }
    }

    /// The name of its target's type.
    pub fn type_name(&self) -> &'v str {
        self.map.type_name(self.target)
    }

    /// Its target; `None` if the type is zero-sized, so that there is no object.
    ///
    /// # Errors
    /// Why the pointer is invalid.
    pub fn target(&self) -> Result<Option<Object<'v>>, String> {
        let ty = self.map.types.get(self.target as usize);
        let (Some(ty), true) = (ty, self.map.is_possible(self.target)) else {
            return Err("is of an impossible type".to_owned());
        };
        match self.map.locate(self.addr, self.target, self.region) {
            Ok(place) => Ok(place.map(|place| Object { map: self.map, place, ty, region: self.region })),
            Err(astray) => Err(self.why(&astray)),
        }
    }

    fn why(&self, astray: &Astray) -> String {
        self.map.explain(self.addr, astray)
    }
}

impl<'v> Part<'v> {
    fn at(self, by: u64) -> Part<'v> {
        Part { at: self.at + by, ..self }
    }

    /// The value of type `ty` that begins here.
    fn value(self, ty: &'v TypeLayout) -> Value<'v> {
        match &ty.shape {
            Shape::Prim(prim) => self.prim(*prim),
            Shape::Ptr { to, .. } => match self.map.word(self.at) {
                0 => Value::Null,
                addr => Value::Pointer(Pointer { map: self.map, addr, target: *to, region: self.region }),
            },
            Shape::Struct(fields) => Value::Struct(Fields { of: self, fields: fields.iter() }),
            Shape::Array { elem, len } => Value::List(Elements { of: self, elem, len: *len }),
            Shape::Enum { tag, variants } => {
                let tag = self.map.integer(self.at, *tag);
                match variants.iter().find(|variant| variant.tag == tag) {
                    Some(variant) => {
                        Value::Enum(&variant.name, Fields { of: self, fields: variant.fields.iter() })
                    }
                    None => Value::Invalid(format!("the tag {tag}, which no variant has")),
                }
            }
            Shape::Slot(of) => {
                if self.map.bytes(self.at, of.size).iter().all(|&byte| byte == 0) {
                    Value::Null
                } else {
                    self.value(of)
                }
            }
            Shape::Slice(_) | Shape::Str => Value::Invalid("held by value, without a size".to_owned()),
        }
    }

    fn prim(self, prim: Prim) -> Value<'v> {
        let Part { map, at, .. } = self;
        match prim {
            Prim::Unit => Value::Unit,
            Prim::Bool => match map.array(at) {
                [byte @ (0 | 1)] => Value::Bool(byte == 1),
                [byte] => Value::Invalid(format!("{byte}, which is no bool")),
            },
            Prim::Char => {
                let code = u32::from_ne_bytes(map.array(at));
                char::from_u32(code)
                    .map_or_else(|| Value::Invalid(format!("{code:#x}, which is no char")), Value::Char)
            }
            Prim::F32 => Value::F32(f32::from_ne_bytes(map.array(at))),
            Prim::F64 => Value::F64(f64::from_ne_bytes(map.array(at))),
            Prim::U8 | Prim::U16 | Prim::U32 | Prim::U64 | Prim::U128 => {
                Value::Unsigned(map.integer(at, prim) as u128)
            }
            Prim::I8 | Prim::I16 | Prim::I32 | Prim::I64 | Prim::I128 => Value::Signed(map.integer(at, prim)),
        }
    }
}

impl<'v> Iterator for Fields<'v> {
    type Item = Field<'v>;

    fn next(&mut self) -> Option<Field<'v>> {
        let field = self.fields.next()?;
        Some(Field { name: &field.name, value: self.of.at(field.offset).value(&field.ty) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.fields.size_hint()
    }
}

impl ExactSizeIterator for Fields<'_> {}

impl<'v> Iterator for Elements<'v> {
    type Item = Value<'v>;

    fn next(&mut self) -> Option<Value<'v>> {
        self.len = self.len.checked_sub(1)?;
        let value = self.of.value(self.elem);
        self.of = self.of.at(self.elem.size);
        Some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len as usize, Some(self.len as usize))
    }
}

impl ExactSizeIterator for Elements<'_> {}

impl fmt::Debug for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.type_name(), self.offset())
    }
}

impl fmt::Debug for Pointer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P<{}>({:#x})", self.type_name(), self.addr)
    }
}

impl fmt::Debug for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone().map(|field| (field.name, field.value))).finish()
    }
}

impl fmt::Debug for Elements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}
