//! Values, decoded by the heap's type table, or by the types of a view, without the program's code. A
//! collection is shown by its elements or entries, and not by its nodes.

#![allow(unsafe_code)]

use std::fmt;

use crate::heap::check::decode::part::{ObjectPart, ObjectSource, SlotRun, TypedPart, ViewedObjects};
use crate::heap::check::decode::{DecodedNode, KeyValue, NodeKind, NodeWalk};
use crate::heap::check::rule::{CollectionRule, field};
use crate::layout::desc::Prim;
use crate::layout::{FieldLayout, Shape, TypeLayout, VariantLayout};

/// An object, or a value inside an object that a pointer leads to.
#[derive(Clone, Copy)]
pub struct Object<'v> {
    pub(super) part: ObjectPart<'v>,
    /// The number of the object's type in the type table, or the position of the type among the types of a
    /// view.
    pub(super) target: u32,
}

/// A value, decoded as far as possible without the program that made it.
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
    /// A string: a `str` that a pointer leads to, a `PString` or a `SharedStr`.
    Str(&'v str),
    /// A slice, vector or `PPriorityQueue` of `u8`, a `PBytes`, an `InlineBytes` or a `Uuid`; also a
    /// `PVecDeque` of `u8` whose first element is at the beginning of its buffer.
    Bytes(&'v [u8]),
    /// A pointer that is not null.
    Pointer(Pointer<'v>),
    /// `None`, or a slot for an element whose bytes are all zero, such as an unused one.
    Null,
    /// A struct.
    Struct(Fields<'v>),
    /// An enum: the name and the fields of its variant.
    Enum(&'v str, Fields<'v>),
    /// An array or slice, a `PVec`, a `PVecDeque` or a `PPriorityQueue`, unless it is
    /// [bytes](Value::Bytes).
    List(Elements<'v>),
    /// A `PHashMap`, `PBTreeMap` or `PSnapMap`.
    Map(Entries<'v>),
    /// A `PHashSet` or `PBTreeSet`: entries whose values are [`Unit`](Value::Unit).
    Set(Entries<'v>),
    /// Not a valid value of its type; the text says why.
    Invalid(String),
}

/// A pointer in a heap.
#[derive(Clone, Copy)]
pub struct Pointer<'v> {
    /// A part of the object that the pointer is in.
    pub(super) from: ObjectPart<'v>,
    pub(super) addr: u64,
    pub(super) target: u32,
}

/// The fields of a struct or variant, in the order of their declaration.
#[derive(Clone)]
pub struct Fields<'v> {
    of: ObjectPart<'v>,
    type_name: &'v str,
    fields: std::slice::Iter<'v, FieldLayout>,
}

/// A field: its name (`0`, `1`, … in a tuple) and its value.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Field<'v> {
    /// The name of the field.
    pub name: &'v str,
    /// The name of the field's type.
    pub type_name: &'v str,
    /// The value of the field.
    pub value: Value<'v>,
}

/// The elements of an array, slice, vector or queue.
#[derive(Clone)]
pub struct Elements<'v> {
    node: DecodedNode<'v>,
    next: u64,
}

/// The entries of a map or set, in its order. If the map is damaged, the last entry has a key that is
/// [`Invalid`](Value::Invalid).
#[derive(Clone)]
pub struct Entries<'v> {
    /// The state of the iteration. It is in a box, because it is much larger than all other forms of a value.
    walk: Box<MapWalk<'v>>,
}

#[derive(Clone)]
struct MapWalk<'v> {
    nodes: NodeWalk<'v>,
    /// The node that the iteration has reached, and the place of its next entry there.
    here: Option<(DecodedNode<'v>, u64)>,
    /// Number of entries left, by the map's own length.
    left: u64,
    /// Number of nodes that may still be visited. A map that is not damaged has no object twice, so the
    /// number of slots is a bound.
    budget: u64,
    is_ordered: bool,
    is_done: bool,
}

/// An entry of a map.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Entry<'v> {
    /// The key of the entry.
    pub key: Value<'v>,
    /// The name of the type of the entry's value.
    pub type_name: &'v str,
    /// The value of the entry; [`Unit`](Value::Unit) in a set.
    pub value: Value<'v>,
}

impl<'v> Object<'v> {
    /// Returns the object to which a pointer of a view leads, a value of the first type of `sight`.
    ///
    /// # Safety
    /// `addr` is the address of a live object of the view of `sight`, which is a value of the first type of
    /// `sight`. The view and the object stay unchanged while the returned `Object`, or a value from it, is in
    /// use.
    pub(crate) unsafe fn from_view(sight: &'v dyn ViewedObjects, addr: u64) -> Object<'v> {
        Object {
            part: ObjectPart { ground: ObjectSource::View(sight), at: addr, span: 0, region: 0 },
            target: 0,
        }
    }

    /// Returns the object's offset in the file, or its address if it is seen through a view. The result
    /// identifies the object.
    pub fn offset(&self) -> u64 {
        self.part.at
    }

    fn layout(&self) -> &'v TypeLayout {
        &self.part.ground.types()[self.target as usize]
    }

    /// Returns the name of the object's type.
    pub fn type_name(&self) -> &'v str {
        &self.layout().name
    }

    /// Returns a number below [`bound`](crate::Objects::bound) that no other object has; `None` for a part of
    /// an object, and for an object that is seen through a view.
    pub fn number(&self) -> Option<u64> {
        let (slot, inside) = self.part.ground.map()?.spans[self.part.span as usize].slot_at(self.part.at);
        (inside == 0).then_some(slot)
    }

    /// Returns whether this object is a `str` or a slice of bytes.
    pub fn is_text(&self) -> bool {
        match &self.layout().shape {
            Shape::Str => true,
            Shape::Slice(elem) => elem.shape == Shape::Prim(Prim::U8),
            _ => false,
        }
    }

    /// Returns a pointer to this object.
    pub fn pointer(&self) -> Pointer<'v> {
        let at = self.part.at;
        let addr = self.part.ground.map().map_or(at, |map| map.addr(at).addr() as u64);
        Pointer { from: self.part, addr, target: self.target }
    }

    /// Returns the size of the object's slot in bytes; 0 if it is not known, as for an object that is seen
    /// through a view.
    pub fn slot_bytes(&self) -> u64 {
        self.part.ground.map().map_or(0, |map| map.spans[self.part.span as usize].slot)
    }

    /// Returns the object's value.
    pub fn value(&self) -> Value<'v> {
        let (part, ty) = (self.part, self.layout());
        let value = match &ty.shape {
            Shape::Slice(elem) => part.elements(elem).map(|slots| list(DecodedNode::array(part, slots))),
            Shape::Str => part.text().map(Value::Str),
            _ => Ok(value_of(part.typed_as(ty))),
        };
        value.unwrap_or_else(Value::Invalid)
    }
}

impl<'v> Pointer<'v> {
    /// Returns the offset of the target in the file; its address, if that is outside the heap, or if the
    /// pointer is seen through a view.
    pub fn offset(&self) -> u64 {
        let offset = self.from.ground.map().map(|map| (map, map.offset_of(self.addr)));
        offset.filter(|(map, at)| *at < map.mapped).map_or(self.addr, |(_, at)| at)
    }

    /// Returns the name of the target's type.
    pub fn type_name(&self) -> &'v str {
        self.from.layout(self.target).map_or("?", |ty| &ty.name)
    }

    /// Returns the target; `None` if there is no object because its type is zero-sized.
    ///
    /// # Errors
    /// A text that says why the pointer is invalid.
    pub fn target(&self) -> Result<Option<Object<'v>>, String> {
        let place = self.from.locate(self.addr, self.target)?;
        Ok(place.map(|(part, _)| Object { part, target: self.target }))
    }
}

/// Decodes the value of type `ty` at the beginning of `part`.
fn value_of<'v>(TypedPart { part, ty }: TypedPart<'v>) -> Value<'v> {
    if let Some(own) = own_value(part, ty) {
        return own.unwrap_or_else(Value::Invalid);
    }
    match &ty.shape {
        Shape::Prim(prim) => prim_value(part, *prim),
        Shape::Ptr { to, .. } => match part.read_word(0) {
            0 => Value::Null,
            addr => Value::Pointer(Pointer { from: part, addr, target: *to }),
        },
        Shape::Struct(fields) => {
            Value::Struct(Fields { of: part, type_name: &ty.name, fields: fields.iter() })
        }
        Shape::Array { elem, len } => {
            let node = DecodedNode::array(part, SlotRun { first: 0, ty: elem, count: *len });
            Value::List(Elements { node, next: 0 })
        }
        Shape::Enum { tag, .. } => match variant_of(part, ty) {
            Some(variant) => {
                let fields = variant.fields.iter();
                Value::Enum(&variant.name, Fields { of: part, type_name: &ty.name, fields })
            }
            None => Value::Invalid(format!("the tag {}, which no variant has", part.integer(0, *tag))),
        },
        Shape::Slot(of) => {
            if part.bytes(0, of.size).iter().all(|&byte| byte == 0) {
                Value::Null
            } else {
                value_of(part.typed_as(of))
            }
        }
        Shape::Slice(_) | Shape::Str => Value::Invalid("held by value, without a size".to_owned()),
    }
}

/// Decodes a value of one of pheap's own types. Returns `None` if the type has no special form, so that its
/// values are shown by their fields.
fn own_value<'v>(part: ObjectPart<'v>, ty: &'v TypeLayout) -> Option<Result<Value<'v>, String>> {
    let name = ty.name.strip_prefix("pheap::")?;
    match CollectionRule::from_layout(ty) {
        None => {}
        Some(CollectionRule::Vector(vector)) => {
            return Some(DecodedNode::buffer(&vector, part).and_then(|(buffer, _)| {
                if vector.is_text { buffer.text().map(Value::Str) } else { Ok(list(buffer)) }
            }));
        }
        Some(rule) => {
            let is_ordered = !matches!(rule, CollectionRule::Hash(_)) && !ty.name.contains("pheap::Reverse<");
            return Some(NodeWalk::from_owner(&rule, part).map(|nodes| {
                let (left, budget) = (nodes.len, part.ground.map().map_or(u64::MAX, |map| map.slots));
                let walk = MapWalk { nodes, here: None, left, budget, is_ordered, is_done: false };
                Value::Map(Entries { walk: Box::new(walk) })
            }));
        }
    }
    let inside = |name| field(ty, &[name]).map(|(at, ty)| value_of(part.offset_by(at).typed_as(ty)));
    let value = match name.split_once('<').map_or(name, |(id, _)| id) {
        "PHashSet" | "PBTreeSet" => match inside("map")? {
            Value::Map(entries) => Value::Set(entries),
            other => other,
        },
        "PBytes" => inside("bytes")?,
        "InlineBytes" => inside("form")?,
        "InlineForm" => match &variant_of(part, ty)?.fields[..] {
            [len, room] if len.ty.size == 1 => {
                let [len] = part.array(len.offset);
                Value::Bytes(part.bytes(room.offset, room.ty.size.min(u64::from(len))))
            }
            [_, bytes, _] => value_of(part.offset_by(bytes.offset).typed_as(&bytes.ty)),
            _ => return None,
        },
        "PPriorityQueue" => inside("elements")?,
        "SharedStr" => match inside("text")? {
            Value::Pointer(pointer) => match pointer.target() {
                Ok(target) => match target? {
                    target if target.layout().shape == Shape::Str => target.value(),
                    _ => Value::Invalid("a text that leads to something else".to_owned()),
                },
                Err(what) => Value::Invalid(what),
            },
            _ => Value::Invalid("a text that is null".to_owned()),
        },
        "POption" => match variant_of(part, ty)?.fields.first() {
            Some(value) => value_of(part.offset_by(value.offset).typed_as(&value.ty)),
            None => Value::Null,
        },
        "OptionNonZero" => match inside("0")? {
            Value::Unsigned(0) | Value::Signed(0) => Value::Null,
            number => number,
        },
        "Uuid" => Value::Bytes(part.bytes(0, ty.size)),
        "NonZero" | "Wrapping" | "Reverse" | "OrderedFloat" => inside("0")?,
        _ => return None,
    };
    Some(Ok(value))
}

/// Returns the variant that an enum has; `None` if the tag is that of no variant.
fn variant_of<'v>(part: ObjectPart<'_>, ty: &'v TypeLayout) -> Option<&'v VariantLayout> {
    let Shape::Enum { tag, variants } = &ty.shape else { return None };
    let tag = part.integer(0, *tag);
    variants.iter().find(|variant| variant.tag == tag)
}

/// Returns the elements of `node` as a list; as bytes, if they are of type `u8` and lie one behind the other.
fn list(node: DecodedNode<'_>) -> Value<'_> {
    let is_bytes = node.slots.ty.shape == Shape::Prim(Prim::U8);
    match node.bytes().filter(|_| is_bytes) {
        Some(bytes) => Value::Bytes(bytes),
        None => Value::List(Elements { node, next: 0 }),
    }
}

fn prim_value(part: ObjectPart<'_>, prim: Prim) -> Value<'_> {
    match prim {
        Prim::Unit => Value::Unit,
        Prim::Bool => match part.array(0) {
            [byte @ (0 | 1)] => Value::Bool(byte == 1),
            [byte] => Value::Invalid(format!("{byte}, which is no bool")),
        },
        Prim::Char => {
            let code = u32::from_ne_bytes(part.array(0));
            char::from_u32(code)
                .map_or_else(|| Value::Invalid(format!("{code:#x}, which is no char")), Value::Char)
        }
        Prim::F32 => Value::F32(f32::from_ne_bytes(part.array(0))),
        Prim::F64 => Value::F64(f64::from_ne_bytes(part.array(0))),
        Prim::U8 | Prim::U16 | Prim::U32 | Prim::U64 | Prim::U128 => {
            Value::Unsigned(part.integer(0, prim) as u128)
        }
        Prim::I8 | Prim::I16 | Prim::I32 | Prim::I64 | Prim::I128 => Value::Signed(part.integer(0, prim)),
    }
}

impl<'v> Iterator for Fields<'v> {
    type Item = Field<'v>;

    fn next(&mut self) -> Option<Field<'v>> {
        let field = self.fields.next()?;
        let value = value_of(self.of.offset_by(field.offset).typed_as(&field.ty));
        Some(Field { name: &field.name, type_name: &field.ty.name, value })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.fields.size_hint()
    }
}

impl ExactSizeIterator for Fields<'_> {}

impl<'v> Fields<'v> {
    /// Returns the name of the type that has these fields.
    pub fn type_name(&self) -> &'v str {
        self.type_name
    }
}

impl<'v> Elements<'v> {
    /// Returns the name of the elements' type.
    pub fn type_name(&self) -> &'v str {
        &self.node.slots.ty.name
    }
}

impl<'v> Iterator for Elements<'v> {
    type Item = Value<'v>;

    fn next(&mut self) -> Option<Value<'v>> {
        self.nth(0)
    }

    fn nth(&mut self, n: usize) -> Option<Value<'v>> {
        let place = self.next.saturating_add(n as u64).min(self.node.places());
        let is_there = place < self.node.places();
        self.next = place + u64::from(is_there);
        is_there.then(|| value_of(self.node.value(place)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.node.places() - self.next) as usize;
        (left, Some(left))
    }
}

impl<'v> MapWalk<'v> {
    fn read_entry(&mut self) -> Result<Option<KeyValue<'v>>, String> {
        loop {
            if let Some((node, place)) = &mut self.here {
                while *place < node.places() {
                    *place += 1;
                    if let Some(entry) = node.entry(*place - 1)? {
                        return Ok(Some(entry));
                    }
                }
            }
            let Some(node) = self.nodes.next()? else { return Ok(None) };
            self.budget = self.budget.checked_sub(1).ok_or("has a cycle")?;
            self.here = (node.kind == NodeKind::Values).then_some((node, 0));
        }
    }
}

impl<'v> Iterator for Entries<'v> {
    type Item = Entry<'v>;

    fn next(&mut self) -> Option<Entry<'v>> {
        let walk = &mut *self.walk;
        if walk.is_done {
            return None;
        }
        let what = match walk.read_entry() {
            Ok(Some((key, value))) if walk.left > 0 => {
                walk.left -= 1;
                let (type_name, key) = (&value.ty.name, value_of(key));
                return Some(Entry { key, type_name, value: value_of(value) });
            }
            Ok(None) if walk.left == 0 => None,
            Ok(Some(_)) => Some("has more entries than its length".to_owned()),
            Ok(None) => Some(format!("has {} entries fewer than its length", walk.left)),
            Err(what) => Some(what),
        };
        (walk.is_done, walk.left) = (true, 0);
        what.map(|what| Entry { key: Value::Invalid(what), type_name: "?", value: Value::Unit })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, None)
    }
}

impl Entries<'_> {
    /// Returns whether the entries come in the natural order of their keys, if these are numbers or texts.
    pub fn is_ordered(&self) -> bool {
        self.walk.is_ordered
    }

    /// Returns the number of entries left, by the map's own length.
    pub fn left(&self) -> u64 {
        self.walk.left
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
