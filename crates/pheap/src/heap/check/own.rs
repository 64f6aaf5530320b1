//! What collections promise beyond their types: their code believes it, so a file from elsewhere has to keep it.
//!
//! Collections are known by the ids of their types, which nobody else can use.

use super::plan::{Op, Parts};
use super::trace::{Reached, Tracer};
use crate::layout::{FieldLayout, Shape, TypeLayout};

/// A promise. Offsets are in bytes from the start of the value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// The first elements of the buffer have values: as many as the length says.
    Vector { len: u64, buffer: Pointer },
    /// The bytes of a vector are UTF-8.
    Text { len: u64, buffer: Pointer },
    /// Elements of the buffer have values, from the head on, and round.
    Ring { head: u64, len: u64, buffer: Pointer },
}

/// A pointer to a buffer: where it is, and to what type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pointer {
    at: u64,
    to: u32,
}

impl Rule {
    /// The promise of a struct that is a collection.
    pub(super) fn of(ty: &TypeLayout, fields: &[FieldLayout]) -> Option<Rule> {
        let name = ty.name.strip_prefix("pheap::")?;
        let name = name.split_once('<').map_or(name, |(name, _)| name);
        let field = |name: &str| fields.iter().find(|field| field.name == name);
        let at = |name: &str| field(name).map(|field| field.offset);
        let pointer = |name: &str| match field(name) {
            Some(FieldLayout { offset, ty: TypeLayout { shape: Shape::Ptr { to, .. }, .. }, .. }) => {
                Some(Pointer { at: *offset, to: *to })
            }
            _ => None,
        };
        match name {
            "PVec" => Some(Rule::Vector { len: at("len")?, buffer: pointer("buffer")? }),
            "PString" => {
                let bytes = field("bytes")?;
                let Shape::Struct(fields) = &bytes.ty.shape else { return None };
                match Rule::of(&bytes.ty, fields)? {
                    Rule::Vector { len, buffer: Pointer { at, to } } => Some(Rule::Text {
                        len: bytes.offset + len,
                        buffer: Pointer { at: bytes.offset + at, to },
                    }),
                    _ => None,
                }
            }
            "PVecDeque" => {
                Some(Rule::Ring { head: at("head")?, len: at("len")?, buffer: pointer("buffer")? })
            }
            _ => None,
        }
    }
}

/// A buffer that was found.
struct Buffer<'m> {
    object: Reached,
    len: u64,
    header: u64,
    stride: u64,
    /// What is to be looked at in a slot, and in a slot that has a value.
    slot: &'m [Op],
    value: &'m [Op],
}

impl<'m, L: Fn(u64) -> Option<bool>> Tracer<'m, L> {
    /// Looks at a collection, `base` bytes inside of an object, and at its buffer.
    pub(super) fn keeps(&mut self, rule: Rule, object: &Reached, base: u64) {
        // SAFETY: a field of a live object, hence within its slot, and aligned.
        let word = |at: u64| unsafe { self.map.word(object.start + base + at) };
        let (first, len, pointer) = match rule {
            Rule::Vector { len, buffer } | Rule::Text { len, buffer } => (0, word(len), buffer),
            Rule::Ring { head, len, buffer } => (word(head), word(len), buffer),
        };
        let buffer = match self.buffer(word(pointer.at), pointer.to) {
            Ok(buffer) => buffer,
            Err(what) => return self.complain(object, base + pointer.at, || what),
        };
        let capacity = buffer.as_ref().map_or(0, |buffer| buffer.len);
        if len > capacity || (first >= capacity && first > 0) {
            return self.complain(object, base, || {
                format!("has {len} elements from place {first} on, in a buffer for {capacity}")
            });
        }
        let Some(Buffer { object: buffer, header, stride, slot, value, .. }) = buffer else { return };
        if !slot.is_empty() {
            for i in 0..capacity {
                let place = header + (first + i) % capacity * stride;
                self.run(if i < len { value } else { slot }, &buffer, place);
            }
        }
        if let Rule::Text { .. } = rule {
            // SAFETY: within the buffer, whose length was compared with its slot; nobody writes it.
            let text =
                unsafe { std::slice::from_raw_parts(self.map.addr(buffer.start + header), len as usize) };
            if std::str::from_utf8(text).is_err() {
                self.complain(object, base, || "is not UTF-8".to_owned());
            }
        }
    }

    /// The buffer that a pointer leads to, if it is not null. It has not been reached before: each belongs to one collection, which will free it.
    fn buffer(&mut self, addr: u64, target: u32) -> Result<Option<Buffer<'m>>, String> {
        let map = self.map;
        let place = match map.locate(addr, target, self.root.region) {
            Ok(Some(place)) => place,
            Ok(None) => return Ok(None),
            Err(astray) => return Err(map.explain(addr, &astray)),
        };
        if !self.is_first(place) || place.inside > 0 {
            return Err("points to the buffer of another collection".to_owned());
        }
        let span = &map.spans[place.span as usize];
        let object = Reached { span: place.span, start: place.start };
        self.must_be_live(&object);
        let len = map.len_of(span, place.start).map_err(|len| {
            format!("points to a buffer with a length of {len}, in a slot of {} bytes", span.slot)
        })?;
        let Parts::Slice { header, stride, ops: slot } = &map.plan(span).parts else {
            return Err("points to something that is no buffer".to_owned());
        };
        let value = match slot.as_slice() {
            [Op::Slot { ops, .. }] => ops,
            _ => slot,
        };
        Ok(Some(Buffer { object, len, header: *header, stride: *stride, slot, value }))
    }
}
