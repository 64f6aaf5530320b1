//! What collections promise beyond their types: their code believes it, so a file from elsewhere has to keep it.
//!
//! Collections are known by the ids of their types, which nobody else can use. What they own is looked at together with them; nothing else
//! may point to it, for it is freed when they give it up.

mod hash;
mod tree;
mod vector;

use super::map::Place;
use super::plan::{Op, Parts};
use super::trace::{Reached, Tracer};
use crate::layout::desc::Prim;
use crate::layout::{FieldLayout, Shape, TypeLayout, VariantLayout};
use hash::Hash;
use tree::Tree;
use vector::Vector;

/// The promise of a collection.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    Vector(Vector),
    Hash(Hash),
    Tree(Tree),
}

/// A pointer in a value: how many bytes from its start, and to what type.
#[derive(Debug, Clone, Copy)]
struct Pointer {
    at: u64,
    to: u32,
}

impl Rule {
    /// The promise of a struct, if it is a collection.
    pub(super) fn of(ty: &TypeLayout) -> Option<Rule> {
        match own_name(ty)? {
            "PVec" => Vector::of(ty).map(Rule::Vector),
            "PString" => Vector::text(ty).map(Rule::Vector),
            "PVecDeque" => Vector::ring(ty).map(Rule::Vector),
            "PHashMap" => Hash::of(ty).map(Rule::Hash),
            "PBTreeMap" => Tree::of(ty).map(Rule::Tree),
            _ => None,
        }
    }
}

/// The name of a type of this crate.
fn own_name(ty: &TypeLayout) -> Option<&str> {
    let name = ty.name.strip_prefix("pheap::")?;
    Some(name.split_once('<').map_or(name, |(name, _)| name))
}

/// The field of a collection's part that is a key. If that is a pointer, it is the only one to its target.
pub(super) fn own_key(ty: &TypeLayout) -> Option<&'static str> {
    match own_name(ty)? {
        "hash::Pair" | "BTreeEntry" => Some("key"),
        "BTreeBranch" => Some("separator"),
        _ => None,
    }
}

/// A field, by the names on the way to it: where it is, and what.
fn field<'t>(ty: &'t TypeLayout, path: &[&str]) -> Option<(u64, &'t TypeLayout)> {
    let (mut at, mut ty) = (0, ty);
    for name in path {
        let Shape::Struct(fields) = &ty.shape else { return None };
        let field = named(fields, name)?;
        (at, ty) = (at + field.offset, &field.ty);
    }
    Some((at, ty))
}

fn named<'t>(fields: &'t [FieldLayout], name: &str) -> Option<&'t FieldLayout> {
    fields.iter().find(|field| field.name == name)
}

/// A number of this kind: where it is.
fn number(ty: &TypeLayout, path: &[&str], prim: Prim) -> Option<u64> {
    let (at, ty) = field(ty, path)?;
    (ty.shape == Shape::Prim(prim)).then_some(at)
}

fn pointer(ty: &TypeLayout, path: &[&str]) -> Option<Pointer> {
    let (at, ty) = field(ty, path)?;
    pointer_at(at, ty)
}

fn pointer_at(at: u64, ty: &TypeLayout) -> Option<Pointer> {
    match ty.shape {
        Shape::Ptr { to, .. } => Some(Pointer { at, to }),
        _ => None,
    }
}

/// An array: where it is, of what, and how many.
fn array<'t>(ty: &'t TypeLayout, path: &[&str]) -> Option<(u64, &'t TypeLayout, u64)> {
    match field(ty, path)? {
        (at, TypeLayout { shape: Shape::Array { elem, len }, .. }) => Some((at, elem, *len)),
        _ => None,
    }
}

/// A variant of an enum, and the pointer that is its field of this name.
fn variant_pointer(variants: &[VariantLayout], name: &str, field: &str) -> Option<(i128, Pointer)> {
    let variant = variants.iter().find(|variant| variant.name == name)?;
    let field = named(&variant.fields, field)?;
    Some((variant.tag, pointer_at(field.offset, &field.ty)?))
}

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
        // SAFETY: the callers name fields of live objects, by the layouts of their types: within their slots, and aligned.
        unsafe { self.map.word(object.start + at) }
    }

    /// A byte of an object.
    fn byte(&self, object: &Reached, at: u64) -> u8 {
        // SAFETY: as above.
        unsafe { self.map.addr(object.start + at).read() }
    }

    /// Two bytes of an object.
    fn half_word(&self, object: &Reached, at: u64) -> u16 {
        // SAFETY: as above.
        unsafe { self.map.addr(object.start + at).cast::<u16>().read() }
    }
}

fn strange() -> String {
    "is a collection whose type is not as this version of pheap makes it".to_owned()
}
