//! What the types of this crate's own promise beyond their layouts, and where their parts are.
//!
//! A collection says itself what it promises: its room has a list of [`OwnType`]s, and all lists come together in the implementation of [`OwnTypes`]. In a file
//! a type is known by its id, which begins with `pheap::` and which no type of anybody else can have.

use crate::layout::desc::{DescFn, Prim};
use crate::layout::{FieldLayout, Persist, Shape, TypeLayout, VariantLayout};

/// The id of the type that a root has while its objects are being converted to other types. Pointers may lead to others than they say then.
pub(crate) const UNFINISHED: &str = "pheap::Evolution";

/// A type of this crate's own that files have.
pub(crate) struct OwnType {
    desc: DescFn,
    promise: Promise,
}

/// What a type promises beyond its layout.
#[derive(Clone, Copy)]
pub(crate) enum Promise {
    /// It owns what its pointers lead to, by a rule that is made of its layout.
    Collection(fn(&TypeLayout) -> Option<Rule>),
    /// This field of it is a key. If that is a pointer, it is the only one to its target.
    Key(&'static str),
    /// What its pointers lead to nobody writes. So such an object has no other pointers than those of values that promise the same.
    Frozen,
    /// Some byte of it is not zero.
    NotZero,
    /// Nothing: collections that it consists of have rules of their own, or it is looked at together with the collection that it is a part of.
    Nothing,
}

impl OwnType {
    /// The type, with any arguments.
    pub(crate) const fn of<T: Persist>(promise: Promise) -> OwnType {
        OwnType { desc: T::desc, promise }
    }

    /// The id that it has in files.
    pub(crate) fn id(&self) -> &'static str {
        (self.desc)().name.as_str()
    }
}

/// All of them. Implemented by the room of collections, which is above this one.
pub(crate) trait OwnTypes {
    const LISTS: &'static [&'static [OwnType]];
}

/// For which [`OwnTypes`] is implemented.
pub(crate) struct Known;

/// What a type of this crate's own promises; none for other types.
pub(super) fn promise_of(ty: &TypeLayout) -> Option<Promise> {
    if !ty.name.starts_with("pheap::") {
        return None;
    }
    let id = ty.name.split_once('<').map_or(ty.name.as_str(), |(id, _)| id);
    Known::LISTS.iter().copied().flatten().find(|own| own.id() == id).map(|own| own.promise)
}

/// The promise of a collection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    Vector(Vector),
    Hash(Hash),
    Tree(Tree),
    Snap(Tree),
}

/// A pointer in a value: how many bytes from its start, and to what type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pointer {
    pub(in crate::heap) at: u64,
    pub(in crate::heap) to: u32,
}

impl Rule {
    /// The promise of a struct, if it is a collection.
    pub(in crate::heap) fn of(ty: &TypeLayout) -> Option<Rule> {
        let Promise::Collection(rule) = promise_of(ty)? else { return None };
        rule(ty)
    }

    /// As many slots of `buffer` as `len` says have values.
    pub(crate) fn vector(ty: &TypeLayout) -> Option<Rule> {
        Vector::of(ty).map(Rule::Vector)
    }

    /// The same, of the vector in the field `bytes`, whose values are UTF-8.
    pub(crate) fn text(ty: &TypeLayout) -> Option<Rule> {
        let (offset, bytes) = field(ty, &["bytes"])?;
        let Vector { len, buffer, .. } = Vector::of(bytes)?;
        let buffer = Pointer { at: offset + buffer.at, ..buffer };
        Some(Rule::Vector(Vector { head: None, len: offset + len, buffer, is_text: true }))
    }

    /// The same, but from the slot on that `head` says, and round.
    pub(crate) fn ring(ty: &TypeLayout) -> Option<Rule> {
        let head = Some(number(ty, &["head"], Prim::U64)?);
        Some(Rule::Vector(Vector { head, ..Vector::of(ty)? }))
    }

    /// As many entries as `len` says: in `few`, which has room for `most_few`, or in the buckets that `root`
    /// leads to, in slots whose tags have bits of `tag`.
    pub(crate) fn hash(ty: &TypeLayout, most_few: usize, tag: u16) -> Option<Rule> {
        let (few, root) = (pointer(ty, &["few"])?, pointer(ty, &["root"])?);
        let (len, most_few) = (number(ty, &["len"], Prim::U64)?, most_few as u64);
        Some(Rule::Hash(Hash { len, few, most_few, root, tag }))
    }

    /// As many entries as `len` says, in the nodes that `top` leads to. At most `max_height` of them lead to
    /// a leaf.
    pub(crate) fn tree(ty: &TypeLayout, max_height: usize) -> Option<Rule> {
        Tree::of(ty, max_height).map(Rule::Tree)
    }

    /// The same, in nodes of another kind.
    pub(crate) fn snap(ty: &TypeLayout, max_height: usize) -> Option<Rule> {
        Tree::of(ty, max_height).map(Rule::Snap)
    }
}

/// Whether versions of a root of this type are kept until newer ones are durable: a map of which snapshots are taken.
pub(crate) fn has_versions(ty: &TypeLayout) -> bool {
    matches!(Rule::of(ty), Some(Rule::Snap(_)))
}

/// A field, by the names on the way to it: where it is, and what.
pub(in crate::heap) fn field<'t>(ty: &'t TypeLayout, path: &[&str]) -> Option<(u64, &'t TypeLayout)> {
    let (mut at, mut ty) = (0_u64, ty);
    for name in path {
        let Shape::Struct(fields) = &ty.shape else { return None };
        let field = named(fields, name)?;
        // What an impossible type says may be too much: it has no objects.
        (at, ty) = (at.wrapping_add(field.offset), &field.ty);
    }
    Some((at, ty))
}

pub(in crate::heap) fn named<'t>(fields: &'t [FieldLayout], name: &str) -> Option<&'t FieldLayout> {
    fields.iter().find(|field| field.name == name)
}

/// A number of this kind: where it is.
pub(in crate::heap) fn number(ty: &TypeLayout, path: &[&str], prim: Prim) -> Option<u64> {
    let (at, ty) = field(ty, path)?;
    (ty.shape == Shape::Prim(prim)).then_some(at)
}

pub(in crate::heap) fn pointer(ty: &TypeLayout, path: &[&str]) -> Option<Pointer> {
    let (at, ty) = field(ty, path)?;
    pointer_at(at, ty)
}

pub(in crate::heap) fn pointer_at(at: u64, ty: &TypeLayout) -> Option<Pointer> {
    match ty.shape {
        Shape::Ptr { to, .. } => Some(Pointer { at, to }),
        _ => None,
    }
}

/// A variant of an enum, and the pointer that is its field of this name.
pub(in crate::heap) fn variant_pointer(
    variants: &[VariantLayout],
    name: &str,
    field: &str,
) -> Option<(i128, Pointer)> {
    let variant = variants.iter().find(|variant| variant.name == name)?;
    let field = named(&variant.fields, field)?;
    Some((variant.tag, pointer_at(field.offset, &field.ty)?))
}

/// As many slots have values as the length says, from the head on, and round. Offsets are in bytes from the start of the collection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vector {
    pub(in crate::heap) head: Option<u64>,
    pub(in crate::heap) len: u64,
    pub(in crate::heap) buffer: Pointer,
    /// Whether the values are UTF-8.
    pub(in crate::heap) is_text: bool,
}

impl Vector {
    fn of(ty: &TypeLayout) -> Option<Vector> {
        Some(Vector::entries(number(ty, &["len"], Prim::U64)?, pointer(ty, &["buffer"])?))
    }

    /// Some entries, one behind the other.
    pub(in crate::heap) fn entries(len: u64, buffer: Pointer) -> Vector {
        Vector { head: None, len, buffer, is_text: false }
    }
}

/// Few entries lie one behind the other, in `few`; more are below `root`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hash {
    pub(in crate::heap) len: u64,
    pub(in crate::heap) few: Pointer,
    pub(in crate::heap) most_few: u64,
    pub(in crate::heap) root: Pointer,
    pub(in crate::heap) tag: u16,
}

/// The nodes below `top` have as many entries as the length says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tree {
    pub(in crate::heap) len: u64,
    pub(in crate::heap) top: u64,
    pub(in crate::heap) child: TreeChild,
    pub(in crate::heap) max_height: usize,
}

impl Tree {
    fn of(ty: &TypeLayout, max_height: usize) -> Option<Tree> {
        let (top, child) = field(ty, &["top"])?;
        let len = number(ty, &["len"], Prim::U64)?;
        Some(Tree { len, top, child: TreeChild::of(child)?, max_height })
    }
}

/// What leads to a node. Offsets are in bytes from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TreeChild {
    pub(in crate::heap) tag: Prim,
    pub(in crate::heap) none: i128,
    pub(in crate::heap) leaf: (i128, Pointer),
    pub(in crate::heap) inner: (i128, Pointer),
}

impl TreeChild {
    pub(in crate::heap) fn of(ty: &TypeLayout) -> Option<TreeChild> {
        let Shape::Enum { tag, variants } = &ty.shape else { return None };
        Some(TreeChild {
            tag: *tag,
            none: variants.iter().find(|variant| variant.name == "None")?.tag,
            leaf: variant_pointer(variants, "Leaf", "0")?,
            inner: variant_pointer(variants, "Inner", "0")?,
        })
    }
}
