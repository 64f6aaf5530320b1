//! Values, by the heap's type table: what tools that do not know the program see of its objects. What a collection consists of is not seen, but what is in it.

#![allow(unsafe_code)]

use std::fmt;

use super::ground::{Ground, Sight};
use super::part::{Part, Spot, strange};
use super::walk::{Sequence, Walk};
use crate::heap::check::map::Place;
use crate::heap::check::rule::{Rule, field};
use crate::layout::desc::Prim;
use crate::layout::{FieldLayout, Shape, TypeLayout, slice_header};

/// An object, or a value inside an object that a pointer leads to.
#[derive(Clone, Copy)]
pub struct Object<'v> {
    pub(super) ground: Ground<'v>,
    pub(super) place: Place,
    /// Its type, which is in the table.
    pub(super) target: u32,
    pub(super) region: u32,
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
    /// A string: `P<str>`, `PString` or `SharedStr`.
    Str(&'v str),
    /// A slice or vector of `u8`, a `PBytes`, an `InlineBytes` or a `Uuid`.
    Bytes(&'v [u8]),
    /// A pointer that is not null.
    Pointer(Pointer<'v>),
    /// `None`, or an unused element.
    Null,
    /// A struct.
    Struct(Fields<'v>),
    /// An enum: the name and the fields of its variant.
    Enum(&'v str, Fields<'v>),
    /// An array or slice, a `PVec` or a `PVecDeque`.
    List(Elements<'v>),
    /// A `PHashMap`, `PBTreeMap` or `PSnapMap`.
    Map(Entries<'v>),
    /// A `PHashSet` or `PBTreeSet`: entries whose values are [`Unit`](Value::Unit).
    Set(Entries<'v>),
    /// Invalid for its type; the text says why.
    Invalid(String),
}

/// A pointer in a heap.
#[derive(Clone, Copy)]
pub struct Pointer<'v> {
    pub(super) ground: Ground<'v>,
    pub(super) addr: u64,
    pub(super) target: u32,
    pub(super) region: u32,
}

/// The fields of a struct or variant, in the order of their declaration.
#[derive(Clone)]
pub struct Fields<'v> {
    of: Part<'v>,
    type_name: &'v str,
    fields: std::slice::Iter<'v, FieldLayout>,
}

/// A field: its name (`0`, `1`, … in a tuple) and its value.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Field<'v> {
    /// The name.
    pub name: &'v str,
    /// The name of its type.
    pub type_name: &'v str,
    /// The value.
    pub value: Value<'v>,
}

/// The elements of an array, slice, vector or queue.
#[derive(Clone)]
pub struct Elements<'v> {
    sequence: Sequence<'v>,
}

/// The entries of a map or set, in its order. If it is damaged, the last one has a key that is [`Invalid`](Value::Invalid).
#[derive(Clone)]
pub struct Entries<'v> {
    /// In a box: it is much larger than all other values.
    walk: Box<Walk<'v>>,
}

/// An entry of a map.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Entry<'v> {
    /// The key.
    pub key: Value<'v>,
    /// The name of the value's type.
    pub type_name: &'v str,
    /// The value; [`Unit`](Value::Unit) in a set.
    pub value: Value<'v>,
}

impl<'v> Object<'v> {
    /// The object that a pointer of a view leads to, a value of the first type of `sight`.
    ///
    /// # Safety
    /// That is so, as long as there is this, or any value that it leads to.
    pub(crate) unsafe fn seen(sight: &'v dyn Sight, addr: u64) -> Object<'v> {
        let place = Place { span: 0, slot: 0, start: addr, inside: 0 };
        Object { ground: Ground::View(sight), place, target: 0, region: 0 }
    }

    /// Offset in the file: the object's identity.
    pub fn offset(&self) -> u64 {
        self.place.start + self.place.inside
    }

    fn layout(&self) -> &'v TypeLayout {
        &self.ground.types()[self.target as usize]
    }

    /// The name of its type.
    pub fn type_name(&self) -> &'v str {
        &self.layout().name
    }

    /// A number below [`bound`](crate::Objects::bound) that no other object has; none if it is a part of one.
    pub fn number(&self) -> Option<u64> {
        self.ground.number(self.place)
    }

    /// Whether it is a `str` or a slice of bytes.
    pub fn is_text(&self) -> bool {
        match &self.layout().shape {
            Shape::Str => true,
            Shape::Slice(elem) => elem.shape == Shape::Prim(Prim::U8),
            _ => false,
        }
    }

    /// A pointer to it.
    pub fn pointer(&self) -> Pointer<'v> {
        let addr = self.ground.addr(self.offset());
        Pointer { ground: self.ground, addr, target: self.target, region: self.region }
    }

    /// Bytes of its slot.
    pub fn slot_bytes(&self) -> u64 {
        self.ground.slot_bytes(self.place)
    }

    /// Its value.
    pub fn value(&self) -> Value<'v> {
        let part = Part { ground: self.ground, at: self.offset(), region: self.region };
        let len = || {
            let invalid =
                |len| Value::Invalid(format!("a length of {len}, in a slot of {} bytes", self.slot_bytes()));
            self.ground.len_at(self.place.start).map_err(invalid)
        };
        match &self.layout().shape {
            Shape::Slice(elem) => match len() {
                Ok(len) => {
                    list(Sequence::array(part.at(slice_header(elem.align as usize) as u64), elem, len))
                }
                Err(invalid) => invalid,
            },
            Shape::Str => match len() {
                Ok(len) => match std::str::from_utf8(self.ground.bytes(part.at + 8, len)) {
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
            | Shape::Slot(_) => value_of(part.is(self.layout())),
        }
    }
}

impl<'v> Pointer<'v> {
    /// Offset of its target in the file; the address, if that is outside the heap.
    pub fn offset(&self) -> u64 {
        self.ground.offset_of(self.addr)
    }

    /// The name of its target's type.
    pub fn type_name(&self) -> &'v str {
        self.ground.type_name(self.target)
    }

    /// Its target; `None` if the type is zero-sized, so that there is no object.
    ///
    /// # Errors
    /// Why the pointer is invalid.
    pub fn target(&self) -> Result<Option<Object<'v>>, String> {
        if !self.ground.is_possible(self.target) {
            return Err("is of an impossible type".to_owned());
        }
        let Pointer { ground, addr, target, region } = *self;
        let place = ground.locate(addr, target, region)?;
        Ok(place.map(|place| Object { ground, place, target, region }))
    }
}

/// What there is at a place.
fn value_of<'v>(Spot { part, ty }: Spot<'v>) -> Value<'v> {
    if let Some(own) = own_value(part, ty) {
        return own.unwrap_or_else(Value::Invalid);
    }
    match &ty.shape {
        Shape::Prim(prim) => prim_value(part, *prim),
        Shape::Ptr { to, .. } => match part.word(0) {
            0 => Value::Null,
            addr => Value::Pointer(Pointer { ground: part.ground, addr, target: *to, region: part.region }),
        },
        Shape::Struct(fields) => {
            Value::Struct(Fields { of: part, type_name: &ty.name, fields: fields.iter() })
        }
        Shape::Array { elem, len } => Value::List(Elements { sequence: Sequence::array(part, elem, *len) }),
        Shape::Enum { tag, variants } => {
            let tag = part.tag(0, *tag);
            match variants.iter().find(|variant| variant.tag == tag) {
                Some(variant) => {
                    let fields = variant.fields.iter();
                    Value::Enum(&variant.name, Fields { of: part, type_name: &ty.name, fields })
                }
                None => Value::Invalid(format!("the tag {tag}, which no variant has")),
            }
        }
        Shape::Slot(of) => {
            if part.ground.bytes(part.at, of.size).iter().all(|&byte| byte == 0) {
                Value::Null
            } else {
                value_of(part.is(of))
            }
        }
        Shape::Slice(_) | Shape::Str => Value::Invalid("held by value, without a size".to_owned()),
    }
}

/// What a type of this crate's own stands for; none if that is what it consists of.
fn own_value<'v>(part: Part<'v>, ty: &'v TypeLayout) -> Option<Result<Value<'v>, String>> {
    let name = ty.name.strip_prefix("pheap::")?;
    if let Some(rule) = Rule::of(ty) {
        return Some(match &rule {
            Rule::Vector(vector) => Sequence::of(vector, part)
                .and_then(|elements| if vector.is_text { text(elements) } else { Ok(list(elements)) }),
            map => Walk::of(map, part.is(ty))?.map(|walk| Value::Map(Entries { walk: Box::new(walk) })),
        });
    }
    let inside = |name| field(ty, &[name]).map(|(at, ty)| value_of(part.at(at).is(ty)));
    let value = match name.split_once('<').map_or(name, |(id, _)| id) {
        "PHashSet" | "PBTreeSet" => match inside("map")? {
            Value::Map(entries) => Value::Set(entries),
            other => other,
        },
        "PBytes" => inside("bytes")?,
        "InlineBytes" => inside("form")?,
        "InlineForm" => match &ty.shape {
            Shape::Enum { tag, variants } => {
                let tag = part.tag(0, *tag);
                let variant = variants.iter().find(|variant| variant.tag == tag)?;
                match &variant.fields[..] {
                    [len, room] => {
                        let len = part.number(len.offset, len.ty.size).min(room.ty.size);
                        Value::Bytes(part.ground.bytes(part.at + room.offset, len))
                    }
                    [_, bytes, _] => value_of(part.at(bytes.offset).is(&bytes.ty)),
                    _ => return None,
                }
            }
            _ => return None,
        },
        "PPriorityQueue" => inside("elements")?,
        "SharedStr" => match inside("text")? {
            Value::Pointer(pointer) => match pointer.target() {
                Ok(target) => target?.value(),
                Err(what) => Value::Invalid(what),
            },
            _ => Value::Invalid("a text that is null".to_owned()),
        },
        "POption" => match &ty.shape {
            Shape::Enum { tag, variants } => {
                let tag = part.tag(0, *tag);
                let variant = variants.iter().find(|variant| variant.tag == tag)?;
                match variant.fields.first() {
                    Some(value) => value_of(part.at(value.offset).is(&value.ty)),
                    None => Value::Null,
                }
            }
            _ => return None,
        },
        "OptionNonZero" => match inside("0")? {
            Value::Unsigned(0) | Value::Signed(0) => Value::Null,
            number => number,
        },
        "Uuid" => Value::Bytes(part.ground.bytes(part.at, ty.size)),
        "NonZero" | "Wrapping" | "Reverse" | "OrderedFloat" => inside("0")?,
        _ => return None,
    };
    Some(Ok(value))
}

/// Elements; bytes are easier to read as such.
fn list(sequence: Sequence<'_>) -> Value<'_> {
    let is_bytes = sequence.elem().shape == Shape::Prim(Prim::U8);
    match sequence.bytes().filter(|_| is_bytes) {
        Some(bytes) => Value::Bytes(bytes),
        None => Value::List(Elements { sequence }),
    }
}

fn text(sequence: Sequence<'_>) -> Result<Value<'_>, String> {
    let bytes = sequence.bytes().ok_or_else(strange)?;
    std::str::from_utf8(bytes).map(Value::Str).map_err(|_| "not UTF-8".to_owned())
}

fn prim_value(part: Part<'_>, prim: Prim) -> Value<'_> {
    let Part { ground, at, .. } = part;
    match prim {
        Prim::Unit => Value::Unit,
        Prim::Bool => match ground.array(at) {
            [byte @ (0 | 1)] => Value::Bool(byte == 1),
            [byte] => Value::Invalid(format!("{byte}, which is no bool")),
        },
        Prim::Char => {
            let code = u32::from_ne_bytes(ground.array(at));
            char::from_u32(code)
                .map_or_else(|| Value::Invalid(format!("{code:#x}, which is no char")), Value::Char)
        }
        Prim::F32 => Value::F32(f32::from_ne_bytes(ground.array(at))),
        Prim::F64 => Value::F64(f64::from_ne_bytes(ground.array(at))),
        Prim::U8 | Prim::U16 | Prim::U32 | Prim::U64 | Prim::U128 => {
            Value::Unsigned(ground.integer(at, prim) as u128)
        }
        Prim::I8 | Prim::I16 | Prim::I32 | Prim::I64 | Prim::I128 => Value::Signed(ground.integer(at, prim)),
    }
}

impl<'v> Iterator for Fields<'v> {
    type Item = Field<'v>;

    fn next(&mut self) -> Option<Field<'v>> {
        let field = self.fields.next()?;
        let value = value_of(self.of.at(field.offset).is(&field.ty));
        Some(Field { name: &field.name, type_name: &field.ty.name, value })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.fields.size_hint()
    }
}

impl ExactSizeIterator for Fields<'_> {}

impl<'v> Fields<'v> {
    /// The name of the type that has them.
    pub fn type_name(&self) -> &'v str {
        self.type_name
    }
}

impl<'v> Elements<'v> {
    /// The name of the elements' type.
    pub fn type_name(&self) -> &'v str {
        &self.sequence.elem().name
    }
}

impl<'v> Iterator for Elements<'v> {
    type Item = Value<'v>;

    fn next(&mut self) -> Option<Value<'v>> {
        self.sequence.next().map(value_of)
    }

    fn nth(&mut self, n: usize) -> Option<Value<'v>> {
        self.sequence.skip(n as u64);
        self.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.sequence.len() as usize, Some(self.sequence.len() as usize))
    }
}

impl<'v> Iterator for Entries<'v> {
    type Item = Entry<'v>;

    fn next(&mut self) -> Option<Entry<'v>> {
        Some(match self.walk.next()? {
            Ok((key, value)) => {
                Entry { key: value_of(key), type_name: &value.ty.name, value: value_of(value) }
            }
            Err(what) => Entry { key: Value::Invalid(what), type_name: "?", value: Value::Unit },
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, None)
    }
}

impl Entries<'_> {
    /// Whether they come in the order that numbers and texts have by themselves, if the keys are such.
    pub fn is_ordered(&self) -> bool {
        self.walk.is_ordered()
    }

    /// How many are still to come, by what the map says of itself.
    pub fn left(&self) -> u64 {
        self.walk.left()
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

impl fmt::Debug for Entries<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone().map(|entry| (entry.key, entry.value))).finish()
    }
}

impl fmt::Debug for Elements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}
