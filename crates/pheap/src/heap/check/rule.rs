//! Which types are collections, and where their parts are.
//!
//! Collections are known by the ids of their types, which nobody else can use.

use crate::layout::desc::Prim;
use crate::layout::{FieldLayout, Shape, TypeLayout, VariantLayout};

/// The promise of a collection.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    Vector(Vector),
    Hash(Hash),
    Tree(Tree),
}

/// A pointer in a value: how many bytes from its start, and to what type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pointer {
    pub(super) at: u64,
    pub(super) to: u32,
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
pub(super) fn own_name(ty: &TypeLayout) -> Option<&str> {
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
pub(super) fn field<'t>(ty: &'t TypeLayout, path: &[&str]) -> Option<(u64, &'t TypeLayout)> {
    let (mut at, mut ty) = (0, ty);
    for name in path {
        let Shape::Struct(fields) = &ty.shape else { return None };
        let field = named(fields, name)?;
        (at, ty) = (at + field.offset, &field.ty);
    }
    Some((at, ty))
}

pub(super) fn named<'t>(fields: &'t [FieldLayout], name: &str) -> Option<&'t FieldLayout> {
    fields.iter().find(|field| field.name == name)
}

/// A number of this kind: where it is.
pub(super) fn number(ty: &TypeLayout, path: &[&str], prim: Prim) -> Option<u64> {
    let (at, ty) = field(ty, path)?;
    (ty.shape == Shape::Prim(prim)).then_some(at)
}

pub(super) fn pointer(ty: &TypeLayout, path: &[&str]) -> Option<Pointer> {
    let (at, ty) = field(ty, path)?;
    pointer_at(at, ty)
}

pub(super) fn pointer_at(at: u64, ty: &TypeLayout) -> Option<Pointer> {
    match ty.shape {
        Shape::Ptr { to, .. } => Some(Pointer { at, to }),
        _ => None,
    }
}

/// An array: where it is, of what, and how many.
pub(super) fn array<'t>(ty: &'t TypeLayout, path: &[&str]) -> Option<(u64, &'t TypeLayout, u64)> {
    match field(ty, path)? {
        (at, TypeLayout { shape: Shape::Array { elem, len }, .. }) => Some((at, elem, *len)),
        _ => None,
    }
}

/// A variant of an enum, and the pointer that is its field of this name.
pub(super) fn variant_pointer(
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
pub(super) struct Vector {
    pub(super) head: Option<u64>,
    pub(super) len: u64,
    pub(super) buffer: Pointer,
    /// Whether the values are UTF-8.
    pub(super) is_text: bool,
}

impl Vector {
    pub(super) fn of(ty: &TypeLayout) -> Option<Vector> {
        Some(Vector {
            head: None,
            len: number(ty, &["len"], Prim::U64)?,
            buffer: pointer(ty, &["buffer"])?,
            is_text: false,
        })
    }

    pub(super) fn text(ty: &TypeLayout) -> Option<Vector> {
        let (offset, bytes) = field(ty, &["bytes"])?;
        let Vector { len, buffer, .. } = Vector::of(bytes)?;
        let buffer = Pointer { at: offset + buffer.at, ..buffer };
        Some(Vector { head: None, len: offset + len, buffer, is_text: true })
    }

    pub(super) fn ring(ty: &TypeLayout) -> Option<Vector> {
        Some(Vector { head: Some(number(ty, &["head"], Prim::U64)?), ..Vector::of(ty)? })
    }

    /// Some entries, one behind the other.
    pub(super) fn entries(len: u64, buffer: Pointer) -> Vector {
        Vector { head: None, len, buffer, is_text: false }
    }
}

/// Few entries lie one behind the other, in `few`; more are below `root`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hash {
    pub(super) len: u64,
    pub(super) few: Pointer,
    pub(super) root: Pointer,
}

impl Hash {
    pub(super) fn of(ty: &TypeLayout) -> Option<Hash> {
        Some(Hash {
            len: number(ty, &["len"], Prim::U64)?,
            few: pointer(ty, &["few"])?,
            root: pointer(ty, &["root"])?,
        })
    }
}

/// Where in the map the pointer to its uppermost node is, and the number of its type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tree {
    pub(super) top: u64,
    pub(super) child: TreeChild,
}

/// What leads to a node. Offsets are in bytes from its start.
#[derive(Debug, Clone, Copy)]
pub(super) struct TreeChild {
    pub(super) tag: Prim,
    pub(super) none: i128,
    pub(super) leaf: (i128, Pointer),
    pub(super) inner: (i128, Pointer),
}

impl TreeChild {
    fn of(ty: &TypeLayout) -> Option<TreeChild> {
        let Shape::Enum { tag, variants } = &ty.shape else { return None };
        let variant = |name: &str| {
            let variant = variants.iter().find(|variant| variant.name == name)?;
            Some((variant.tag, named(&variant.fields, "0")?))
        };
        let pointer = |name: &str| {
            let (tag, field) = variant(name)?;
            Some((tag, pointer_at(field.offset, &field.ty)?))
        };
        Some(TreeChild {
            tag: *tag,
            none: variant("None")?.0,
            leaf: pointer("Leaf")?,
            inner: pointer("Inner")?,
        })
    }
}

impl Tree {
    pub(super) fn of(ty: &TypeLayout) -> Option<Tree> {
        let (top, child) = field(ty, &["top"])?;
        Some(Tree { top, child: TreeChild::of(child)? })
    }
}
