//! What collections promise beyond their types: their code believes it, so a file from elsewhere has to keep it.
//!
//! What they own is looked at together with them; nothing else
//! may point to it, for it is freed when they give it up.

pub(in crate::heap) mod hash;
mod snap;
mod tree;
mod vector;

use super::map::Place;
use super::plan::{Op, Parts};
use super::rule::Rule;
use super::trace::{Reached, Tracer};
use crate::layout::TypeLayout;
use crate::layout::desc::Prim;

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
            Rule::Snap(tree) => self.snap(tree, object, base),
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

    /// A number of so many bytes in an object.
    fn number(&self, object: &Reached, at: u64, size: u64) -> u64 {
        self.bytes(object, at, size).iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    /// A word of an object.
    fn word(&self, object: &Reached, at: u64) -> u64 {
        self.number(object, at, 8)
    }

    /// The tag of an enum in an object: of an enum of this crate's own, none of which has tags below 0.
    fn tag(&self, object: &Reached, at: u64, prim: Prim) -> i128 {
        let size = match prim {
            Prim::U8 => 1,
            Prim::U16 => 2,
            Prim::U32 => 4,
            _ => 8,
        };
        self.number(object, at, size).into()
    }
}

fn strange() -> String {
    "is a collection whose type is not as this version of pheap makes it".to_owned()
}

/// Whether a map has as many entries as it says.
fn whole(entries: u64, len: u64) -> Result<(), String> {
    if entries == len { Ok(()) } else { Err(format!("has {entries} entries, and says that it has {len}")) }
}
