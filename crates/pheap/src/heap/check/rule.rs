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
    /// The field with this name is a key. If the key is a pointer, it is the only pointer to its target.
    Key(&'static str),
    /// The targets of the pointers in a value of this type are never written. So only pointers in values with
    /// the same promise may lead to them.
    Frozen,
    /// At least one byte of each value is not zero.
    NotZero,
    /// The type has no promise: the collections in its values have rules of their own, or its values are
    /// checked together with the collection that they are parts of.
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

/// All lists of pheap's own types. The module `collections` implements this trait, because this module may
/// not import from that one.
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

    /// Returns the promise of a vector: the first `len` slots of `buffer` have values.
    pub(crate) fn vector(ty: &TypeLayout) -> Option<CollectionRule> {
        Vector::from_layout(ty).map(CollectionRule::Vector)
    }

    /// Returns the promise of a text: that of the [vector](Self::vector) in the field `bytes`, whose values
    /// are UTF-8.
    pub(crate) fn text(ty: &TypeLayout) -> Option<CollectionRule> {
        let (offset, bytes) = field(ty, &["bytes"])?;
        let Vector { len, buffer, .. } = Vector::from_layout(bytes)?;
        let buffer = PointerRule { at: offset + buffer.at, ..buffer };
        Some(CollectionRule::Vector(Vector { head: None, len: offset + len, buffer, is_text: true }))
    }

    /// Returns the promise of a queue: that of a [vector](Self::vector), but the values begin in the slot
    /// `head`, and wrap around.
    pub(crate) fn ring(ty: &TypeLayout) -> Option<CollectionRule> {
        let head = Some(number(ty, &["head"], Prim::U64)?);
        Some(CollectionRule::Vector(Vector { head, ..Vector::from_layout(ty)? }))
    }

    /// Returns the promise of a hash map: it has `len` entries, in `few`, which has room for `most_few`, or
    /// in the buckets below `root`, in slots whose tags have at least one of the bits of `tag`.
    pub(crate) fn hash(ty: &TypeLayout, most_few: usize, tag: u16) -> Option<CollectionRule> {
        let (few, root) = (pointer(ty, &["few"])?, pointer(ty, &["root"])?);
        let (len, most_few) = (number(ty, &["len"], Prim::U64)?, most_few as u64);
        Some(CollectionRule::Hash(Hash { len, few, most_few, root, tag }))
    }

    /// Returns the promise of an ordered map: it has `len` entries, in the nodes below `top`. At most
    /// `max_height` inner nodes lead to a leaf.
    pub(crate) fn tree(ty: &TypeLayout, max_height: usize) -> Option<CollectionRule> {
        Tree::from_layout(ty, max_height).map(CollectionRule::Tree)
    }

    /// Returns the promise of a map with versions: that of an [ordered map](Self::tree), with other nodes.
    pub(crate) fn snap(ty: &TypeLayout, max_height: usize) -> Option<CollectionRule> {
        Tree::from_layout(ty, max_height).map(CollectionRule::Snap)
    }
}

/// Returns whether versions of a root of this type are kept until newer ones are durable: whether it is a map
/// with snapshots.
pub(crate) fn has_versions(ty: &TypeLayout) -> bool {
    matches!(CollectionRule::from_layout(ty), Some(CollectionRule::Snap(_)))
}

/// Returns the offset and type of a field of `ty`. `path` has the names of the fields on the way to it, and
/// its own.
pub(in crate::heap) fn field<'t>(ty: &'t TypeLayout, path: &[&str]) -> Option<(u64, &'t TypeLayout)> {
    let (mut at, mut ty) = (0_u64, ty);
    for name in path {
        let Shape::Struct(fields) = &ty.shape else { return None };
        let field = named(fields, name)?;
        // The offsets of an impossible type may overflow. There are no objects of such a type.
        (at, ty) = (at.wrapping_add(field.offset), &field.ty);
    }
    Some((at, ty))
}

pub(in crate::heap) fn named<'t>(fields: &'t [FieldLayout], name: &str) -> Option<&'t FieldLayout> {
    fields.iter().find(|field| field.name == name)
}

/// Returns the offset of the field at `path` in a value of type `ty`, if the field is a number of the kind
/// `prim`.
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

/// The rule of a vector or queue: `len` slots of the buffer have values, from the slot `head` on, wrapping
/// around. The fields `head` and `len` are the offsets of the words that have these numbers, in bytes from
/// the start of the collection.
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

    /// Returns the rule for a buffer whose first slots have entries. The word at the offset `len` has their
    /// number.
    pub(in crate::heap) fn entries(len: u64, buffer: PointerRule) -> Vector {
        Vector { head: None, len, buffer, is_text: false }
    }
}

/// The rule of a hash map: at most `most_few` entries lie in the first slots of the buffer `few`; more of
/// them are below `root`. Offsets are in bytes from the start of the map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hash {
    pub(in crate::heap) len: u64,
    pub(in crate::heap) few: PointerRule,
    pub(in crate::heap) most_few: u64,
    pub(in crate::heap) root: PointerRule,
    pub(in crate::heap) tag: u16,
}

/// The rule of an ordered map: the nodes below the reference at the offset `top` have as many entries as the
/// word at the offset `len` says. Offsets are in bytes from the start of the map.
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

/// The layout of a reference to a node of a tree: an enum with the tag `none`, or a pointer to a leaf or an
/// inner node. Offsets are in bytes from the start of the reference.
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
