//! Vectors, strings and queues: a buffer of slots, some of which have values.

use super::SlotOps;
use crate::heap::check::plan::Parts;
use crate::heap::check::rule::Vector;
use crate::heap::check::trace::{Reached, Tracer};

impl<L: Fn(u64) -> Option<bool>> Tracer<'_, L> {
    pub(super) fn vector(&mut self, vector: Vector, object: &Reached, base: u64) -> Result<(), String> {
        let Vector { head, len, buffer, is_text } = vector;
        let first = head.map_or(0, |at| self.word(object, base + at));
        let len = self.word(object, base + len);
        let buffer = self.take(self.word(object, base + buffer.at), buffer.to)?;
        let map = self.map;
        let capacity = match &buffer {
            Some(buffer) => map
                .len_of(&map.spans[buffer.span as usize], buffer.start)
                .map_err(|len| format!("has a buffer with a length of {len}, which does not fit"))?,
            None => 0,
        };
        if len > capacity || (first >= capacity && first > 0) {
            return Err(format!("has {len} elements from place {first} on, in a buffer for {capacity}"));
        }
        let Some(buffer) = buffer else { return Ok(()) };
        let Parts::Slice { header, stride, ops } = self.parts(&buffer) else { return Err(super::strange()) };
        if is_text && *stride != 1 {
            return Err(super::strange());
        }
        let slots = SlotOps::of(ops);
        if !slots.any.is_empty() {
            for i in 0..capacity {
                let place = header + (first + i) % capacity * stride;
                self.run(if i < len { slots.value } else { slots.any }, &buffer, place);
            }
        }
        if is_text && std::str::from_utf8(self.bytes(&buffer, *header, len)).is_err() {
            return Err("is not UTF-8".to_owned());
        }
        Ok(())
    }
}
