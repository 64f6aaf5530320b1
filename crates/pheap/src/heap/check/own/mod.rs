//! What collections promise beyond their types: their code believes it, so a file from elsewhere has to keep it.
//!
//! What they own is looked at together with them; nothing else
//! may point to it, for it is freed when they give it up.

mod hash;
mod tree;
mod vector;

use super::map::Place;
use super::plan::{Op, Parts};
use super::rule::Rule;
use super::trace::{Reached, Tracer};
use crate::layout::TypeLayout;

/// What is to be looked at in a slot, and in one that has a value.
#[derive(Clone, Copy)]
struct SlotOps<'m> {
    any: &'m [Op],
    value: &'m [Op],
}

impl<'m> SlotOps<'m> {
    fn of(ops: &'m [Op]) -> SlotOps<'m> {
        match ops {
            [Op::Slot { ops: value, .. }] => SlotOps { any: ops, value },
            _ => SlotOps { any: ops, value: ops },
        }
    }
}

impl<'m, L: Fn(u64) -> Option<bool>> Tracer<'m, L> {
    /// Looks at a collection, `base` bytes inside of an object, and at all that it owns.
    pub(super) fn collection(&mut self, rule: Rule, object: &Reached, base: u64) {
        let result = match rule {
            Rule::Vector(vector) => self.vector(vector, object, base),
            Rule::Hash(hash) => self.hash(hash, object, base),
            Rule::Tree(tree) => self.tree(tree, object, base),
        };
        if let Err(what) = result {
            self.complain(object, base, || what);
        }
    }

    /// What a pointer leads to that is the only one to it. `None` if it is null.
    pub(super) fn take(&mut self, addr: u64, target: u32) -> Result<Option<Reached>, String> {
        let map = self.map;
        let place = match map.locate(addr, target, self.root.region) {
            Ok(Some(place)) => place,
            Ok(None) if addr == 0 => return Ok(None),
            Ok(None) => return Err("points to nothing".to_owned()),
            Err(astray) => return Err(map.explain(addr, &astray)),
        };
        let Place { span, start, inside, .. } = place;
        if inside > 0 || !self.own(place) {
            return Err("points to what belongs to something else, too".to_owned());
        }
        let object = Reached { span, start };
        self.must_be_live(&object);
        Ok(Some(object))
    }

    /// The layout of a type.
    fn layout(&self, ty: u32) -> &'m TypeLayout {
        &self.map.types[ty as usize]
    }

    /// What is to be looked at in the objects of a type.
    fn parts(&self, object: &Reached) -> &'m Parts {
        let map = self.map;
        &map.plan(&map.spans[object.span as usize]).parts
    }

    /// A word of an object.
    fn word(&self, object: &Reached, at: u64) -> u64 {
        self.map.word(object.start + at)
    }

    /// A byte of an object.
    fn byte(&self, object: &Reached, at: u64) -> u8 {
        self.map.array::<1>(object.start + at)[0]
    }

    /// Two bytes of an object.
    fn half_word(&self, object: &Reached, at: u64) -> u16 {
        u16::from_ne_bytes(self.map.array(object.start + at))
    }
}

fn strange() -> String {
    "is a collection whose type is not as this version of pheap makes it".to_owned()
}
