//! The promises of pheap's own types beyond their layouts, and where the parts of these types are.
//!
//! The module of a collection defines its promise: it has a list of [`OwnType`]s, and the implementation of
//! [`OwnTypes`] has all lists. In a file, such a type is known by its id, which begins with `pheap::`. No
//! type of a program can have such an id.

use crate::layout::desc::{DescFn, Prim};
use crate::layout::{FieldLayout, Persist, Shape, TypeLayout, VariantLayout};

/// The id of a root's type while its objects are being converted. Pointers may then lead to objects of other
/// types than they say.
pub(crate) const UNFINISHED: &str = "pheap::Evolution";

/// One of pheap's own types, as files have it.
pub(crate) struct OwnType {
    desc: DescFn,
    promise: TypePromise,
}

/// The promise of a type beyond its layout.
#[derive(Clone, Copy)]
pub(crate) enum TypePromise {
    /// The type owns the targets of its pointers, by a rule that is made from its layout.
    Collection(fn(&TypeLayout) -> Option<CollectionRule>),
    /// This field of the type is a key. If the key is a pointer, it is the only one to its target.
    Key(&'static str),
    /// The targets of its pointers are never written. So only pointers of values with the same promise may
    /// lead to them.
    Frozen,
    /// At least one byte of it is not zero.
    NotZero,
    /// No promise: the collections in it have rules themselves, or it is checked together with the collection
    /// that it is a part of.
    Nothing,
}

impl OwnType {
    /// Makes an entry for the type `T`, with any arguments.
    pub(crate) const fn for_type<T: Persist>(promise: TypePromise) -> OwnType {
        OwnType { desc: T::desc, promise }
    }

    /// Returns the id of the type in files.
    pub(crate) fn id(&self) -> &'static str {
        (self.desc)().name.as_str()
    }
}

/// All lists of such types. The module of the collections implements it, because this module may not use that
/// one.
pub(crate) trait OwnTypes {
    const LISTS: &'static [&'static [OwnType]];
}

/// The type for which [`OwnTypes`] is implemented.
pub(crate) struct CollectionTypes;

/// Returns the promise of one of pheap's own types; `None` for other types.
pub(super) fn promise_of(ty: &TypeLayout) -> Option<TypePromise> {
    if !ty.name.starts_with("pheap::") {
        return None;
    }
    let id = ty.name.split_once('<').map_or(ty.name.as_str(), |(id, _)| id);
    CollectionTypes::LISTS.iter().copied().flatten().find(|own| own.id() == id).map(|own| own.promise)
}

/// The promise of a collection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CollectionRule {
    Vector(Vector),
    Hash(Hash),
    Tree(Tree),
    Snap(Tree),
}

/// A pointer in a value: its offset in bytes from the start of the value, and the number of its target's
/// type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PointerRule {
    pub(in crate::heap) at: u64,
    pub(in crate::heap) to: u32,
}

impl CollectionRule {
    /// Returns the promise of a struct, if it is a collection.
    pub(in crate::heap) fn from_layout(ty: &TypeLayout) -> Option<CollectionRule> {
        let TypePromise::Collection(rule) = promise_of(ty)? else { return None };
        rule(ty)
    }

    /// The first `len` slots of `buffer` have values.
    pub(crate) fn vector(ty: &TypeLayout) -> Option<CollectionRule> {
        Vector::from_layout(ty).map(CollectionRule::Vector)
    }

    /// Like [`vector`](Self::vector), for the vector in the field `bytes`, whose values are UTF-8.
    pub(crate) fn text(ty: &TypeLayout) -> Option<CollectionRule> {
        let (offset, bytes) = field(ty, &["bytes"])?;
        let Vector { len, buffer, .. } = Vector::from_layout(bytes)?;
        let buffer = PointerRule { at: offset + buffer.at, ..buffer };
        Some(CollectionRule::Vector(Vector { head: None, len: offset + len, buffer, is_text: true }))
    }

    /// Like [`vector`](Self::vector), but the values begin in the slot `head`, and wrap around.
    pub(crate) fn ring(ty: &TypeLayout) -> Option<CollectionRule> {
        let head = Some(number(ty, &["head"], Prim::U64)?);
        Some(CollectionRule::Vector(Vector { head, ..Vector::from_layout(ty)? }))
    }

    /// There are `len` entries: in `few`, which has room for `most_few`, or in the buckets below `root`, in
    /// slots whose tags have bits of `tag`.
    pub(crate) fn hash(ty: &TypeLayout, most_few: usize, tag: u16) -> Option<CollectionRule> {
        let (few, root) = (pointer(ty, &["few"])?, pointer(ty, &["root"])?);
        let (len, most_few) = (number(ty, &["len"], Prim::U64)?, most_few as u64);
        Some(CollectionRule::Hash(Hash { len, few, most_few, root, tag }))
    }

    /// There are `len` entries, in the nodes below `top`. At most `max_height` inner nodes lead to a leaf.
    pub(crate) fn tree(ty: &TypeLayout, max_height: usize) -> Option<CollectionRule> {
        Tree::from_layout(ty, max_height).map(CollectionRule::Tree)
    }

    /// Like [`tree`](Self::tree), with the nodes of a map with versions.
    pub(crate) fn snap(ty: &TypeLayout, max_height: usize) -> Option<CollectionRule> {
        Tree::from_layout(ty, max_height).map(CollectionRule::Snap)
    }
}

/// Returns whether versions of a root of this type are kept until newer ones are durable: whether it is a map
/// with snapshots.
pub(crate) fn has_versions(ty: &TypeLayout) -> bool {
    matches!(CollectionRule::from_layout(ty), Some(CollectionRule::Snap(_)))
}

/// Returns the offset and type of a field. `path` has the names on the way to it.
pub(in crate::heap) fn field<'t>(ty: &'t TypeLayout, path: &[&str]) -> Option<(u64, &'t TypeLayout)> {
    let (mut at, mut ty) = (0_u64, ty);
    for name in path {
        let Shape::Struct(fields) = &ty.shape else { return None };
        let field = named(fields, name)?;
        // The offsets of an impossible type may overflow; it has no objects.
        (at, ty) = (at.wrapping_add(field.offset), &field.ty);
    }
    Some((at, ty))
}

pub(in crate::heap) fn named<'t>(fields: &'t [FieldLayout], name: &str) -> Option<&'t FieldLayout> {
    fields.iter().find(|field| field.name == name)
}

/// Returns the offset of a field, if it is a number of this kind.
pub(in crate::heap) fn number(ty: &TypeLayout, path: &[&str], prim: Prim) -> Option<u64> {
    let (at, ty) = field(ty, path)?;
    (ty.shape == Shape::Prim(prim)).then_some(at)
}

pub(in crate::heap) fn pointer(ty: &TypeLayout, path: &[&str]) -> Option<PointerRule> {
    let (at, ty) = field(ty, path)?;
    pointer_at(at, ty)
}

pub(in crate::heap) fn pointer_at(at: u64, ty: &TypeLayout) -> Option<PointerRule> {
    match ty.shape {
        Shape::Ptr { to, .. } => Some(PointerRule { at, to }),
        _ => None,
    }
}

/// Returns the tag of the variant `name`, and the pointer that is its field `field`.
pub(in crate::heap) fn variant_pointer(
    variants: &[VariantLayout],
    name: &str,
    field: &str,
) -> Option<(i128, PointerRule)> {
    let variant = variants.iter().find(|variant| variant.name == name)?;
    let field = named(&variant.fields, field)?;
    Some((variant.tag, pointer_at(field.offset, &field.ty)?))
}

/// `len` slots have values, from the slot `head` on, wrapping around. Offsets are in bytes from the start of
/// the collection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vector {
    pub(in crate::heap) head: Option<u64>,
    pub(in crate::heap) len: u64,
    pub(in crate::heap) buffer: PointerRule,
    /// Whether the values are UTF-8.
    pub(in crate::heap) is_text: bool,
}

impl Vector {
    fn from_layout(ty: &TypeLayout) -> Option<Vector> {
        Some(Vector::entries(number(ty, &["len"], Prim::U64)?, pointer(ty, &["buffer"])?))
    }

    /// Entries in consecutive slots.
    pub(in crate::heap) fn entries(len: u64, buffer: PointerRule) -> Vector {
        Vector { head: None, len, buffer, is_text: false }
    }
}

/// Few entries lie in consecutive slots of `few`; more of them are below `root`. Offsets are in bytes from
/// the start of the map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hash {
    pub(in crate::heap) len: u64,
    pub(in crate::heap) few: PointerRule,
    pub(in crate::heap) most_few: u64,
    pub(in crate::heap) root: PointerRule,
    pub(in crate::heap) tag: u16,
}

/// The nodes below `top` have `len` entries. Offsets are in bytes from the start of the map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tree {
    pub(in crate::heap) len: u64,
    pub(in crate::heap) top: u64,
    pub(in crate::heap) child: TreeChild,
    pub(in crate::heap) max_height: usize,
}

impl Tree {
    fn from_layout(ty: &TypeLayout, max_height: usize) -> Option<Tree> {
        let (top, child) = field(ty, &["top"])?;
        let len = number(ty, &["len"], Prim::U64)?;
        Some(Tree { len, top, child: TreeChild::from_layout(child)?, max_height })
    }
}

/// A reference to a node of a tree. Offsets are in bytes from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TreeChild {
    pub(in crate::heap) tag: Prim,
    pub(in crate::heap) none: i128,
    pub(in crate::heap) leaf: (i128, PointerRule),
    pub(in crate::heap) inner: (i128, PointerRule),
}

impl TreeChild {
    pub(in crate::heap) fn from_layout(ty: &TypeLayout) -> Option<TreeChild> {
        let Shape::Enum { tag, variants } = &ty.shape else { return None };
        Some(TreeChild {
            tag: *tag,
            none: variants.iter().find(|variant| variant.name == "None")?.tag,
            leaf: variant_pointer(variants, "Leaf", "0")?,
            inner: variant_pointer(variants, "Inner", "0")?,
        })
    }
}
