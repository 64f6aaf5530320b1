//! Layouts of types as values: made from the program's descriptions, or read from a heap's type table.

use std::collections::HashMap;

use super::desc::{Desc, DescFn, Kind, Prim};
use crate::error::{Error, Result};

/// The deepest nesting of types by value. A deeper one is refused in a program, and is corruption in a type
/// table.
pub(super) const MAX_DEPTH: u32 = 64;

/// Most bytes of the descriptions of a type, and of all types that it reaches, in a type table. The limit is
/// needed because types by value are described in place, so a description could double with each level of
/// nesting.
pub(crate) const MAX_BYTES: usize = 64 << 20;

/// An upper bound of the encoded bytes of a type, field or variant, without its name.
const PART: usize = 64;

/// The layout of one type. `Shape::Ptr::to` is an index into a list of such layouts (a [`Graph`] or a type
/// table).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TypeLayout {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) align: u64,
    pub(crate) shape: Shape,
}

/// The parts of a type. Types held by value are described in place; pointers name their target by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    Prim(Prim),
    Array {
        elem: Box<TypeLayout>,
        len: u64,
    },
    Ptr {
        nullable: bool,
        to: u32,
    },
    Struct(Vec<FieldLayout>),
    Enum {
        tag: Prim,
        variants: Vec<VariantLayout>,
    },
    Slice(Box<TypeLayout>),
    Str,
    /// A place for a value in a collection: its bytes are all zero, or it has a value.
    Slot(Box<TypeLayout>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldLayout {
    pub(crate) name: String,
    pub(crate) offset: u64,
    pub(crate) ty: TypeLayout,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VariantLayout {
    pub(crate) name: String,
    pub(crate) tag: i128,
    pub(crate) fields: Vec<FieldLayout>,
}

/// A type and all types that are reachable from it through pointers. The type itself is number 0.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) types: Vec<TypeLayout>,
}

impl Graph {
    /// Makes the graph below a description.
    ///
    /// # Errors
    /// [`Error::UnsupportedType`] if a type table cannot hold the descriptions of these types.
    pub(crate) fn from_root(root: &'static Desc) -> Result<Graph> {
        let mut builder = GraphBuilder { numbers: HashMap::new(), queue: Vec::new(), room: MAX_BYTES };
        builder.number(root);
        let mut types = Vec::new();
        while let Some(desc) = builder.queue.get(types.len()).copied() {
            let layout = builder.layout(desc, 0).map_err(|why| unsupported(desc, why))?;
            types.push(layout);
        }
        Ok(Graph { types })
    }
}

fn unsupported(desc: &'static Desc, why: &str) -> Error {
    let mut type_name = String::new();
    if write_name(&mut type_name, desc, 200).is_none() {
        type_name.push('…');
    }
    Error::UnsupportedType { type_name, why: why.to_owned() }
}

/// Appends the name of a type with its arguments, as in Rust. Returns `None`, with a part of the name
/// appended, if the name of an argument begins beyond `limit` bytes.
fn write_name(out: &mut String, desc: &Desc, limit: usize) -> Option<()> {
    if out.len() > limit {
        return None;
    }
    let mut around = |before: &str, inner: DescFn, behind: &str| {
        out.push_str(before);
        write_name(out, inner(), limit)?;
        out.push_str(behind);
        Some(())
    };
    match &desc.kind {
        Kind::Array { elem, len } => around("[", *elem, &format!("; {len}]")),
        Kind::Slice { elem } => around("[", *elem, "]"),
        Kind::Ptr { nullable: true, to } => around("Option<P<", *to, ">>"),
        Kind::Ptr { nullable: false, to } => around("P<", *to, ">"),
        Kind::Slot { of } => around("Slot<", *of, ">"),
        _ => {
            out.push_str(desc.name.as_str());
            for (i, arg) in desc.args.iter().enumerate() {
                out.push_str(if i == 0 { "<" } else { ", " });
                write_name(out, arg(), limit)?;
            }
            out.push_str(if desc.args.is_empty() { "" } else { ">" });
            Some(())
        }
    }
}

/// The error says why a type cannot be described.
type DescribeResult<T> = std::result::Result<T, &'static str>;

const TOO_DEEP: &str = "it holds values within values, more than 64 levels deep; put a part of it into an object of its own, behind a `P`";
const TOO_LONG: &str = "its description is longer than 64 MiB; put parts of it into objects of their own, behind a `P`, or give its types shorter ids";

struct GraphBuilder {
    /// Numbers of types by the address of their description. Two descriptions of one type only cost a second
    /// entry.
    numbers: HashMap<*const Desc, u32>,
    queue: Vec<&'static Desc>,
    /// Bytes that are left of [`MAX_BYTES`].
    room: usize,
}

impl GraphBuilder {
    fn number(&mut self, desc: &'static Desc) -> u32 {
        *self.numbers.entry(desc).or_insert_with(|| {
            self.queue.push(desc);
            self.queue.len() as u32 - 1
        })
    }

    fn layout(&mut self, desc: &'static Desc, depth: u32) -> DescribeResult<TypeLayout> {
        if depth > MAX_DEPTH {
            return Err(TOO_DEEP);
        }
        let mut name = String::new();
        write_name(&mut name, desc, self.room).ok_or(TOO_LONG)?;
        self.spend(&name)?;
        let mut inner = |desc: DescFn| self.layout(desc(), depth + 1).map(Box::new);
        let shape = match &desc.kind {
            Kind::Prim(prim) => Shape::Prim(*prim),
            Kind::Array { elem, len } => Shape::Array { elem: inner(*elem)?, len: *len as u64 },
            Kind::Ptr { nullable, to } => Shape::Ptr { nullable: *nullable, to: self.number(to()) },
            Kind::Struct { fields } => Shape::Struct(self.fields(fields, depth + 1)?),
            Kind::Enum { tag, variants } => {
                let variant = |v: &super::desc::Variant| {
                    self.spend(v.name)?;
                    let fields = self.fields(v.fields, depth + 1)?;
                    Ok(VariantLayout { name: v.name.to_owned(), tag: v.tag, fields })
                };
                Shape::Enum {
                    tag: *tag,
                    variants: variants.iter().map(variant).collect::<DescribeResult<_>>()?,
                }
            }
            Kind::Slice { elem } => Shape::Slice(inner(*elem)?),
            Kind::Str => Shape::Str,
            Kind::Slot { of } => Shape::Slot(inner(*of)?),
        };
        Ok(TypeLayout { name, size: desc.size as u64, align: desc.align as u64, shape })
    }

    fn fields(
        &mut self,
        fields: &'static [super::desc::Field],
        depth: u32,
    ) -> DescribeResult<Vec<FieldLayout>> {
        let field = |field: &super::desc::Field| {
            self.spend(field.name)?;
            let ty = self.layout((field.ty)(), depth)?;
            Ok(FieldLayout { name: field.name.to_owned(), offset: field.offset as u64, ty })
        };
        fields.iter().map(field).collect()
    }

    /// Takes room for the encoding of a type, field or variant with this name.
    fn spend(&mut self, name: &str) -> DescribeResult<()> {
        self.room = self.room.checked_sub(PART + name.len()).ok_or(TOO_LONG)?;
        Ok(())
    }
}

impl TypeLayout {
    /// Calls `visit` with the target of each pointer in the type.
    pub(crate) fn for_each_pointer(&self, visit: &mut impl FnMut(u32)) {
        let mut visit = |ty: &TypeLayout| {
            if let Shape::Ptr { to, .. } = ty.shape {
                visit(to);
            }
        };
        visit(self);
        self.for_each_part(&mut visit);
    }

    /// Returns whether a part of a value, at any depth, is of a type with this name.
    pub(crate) fn has_part(&self, name: &str) -> bool {
        let mut found = false;
        self.for_each_part(&mut |part| found |= part.name == name);
        found
    }

    /// Calls `visit` with the type of each part of a value, at any depth.
    pub(crate) fn for_each_part<'t>(&'t self, visit: &mut impl FnMut(&'t TypeLayout)) {
        let mut part = |ty: &'t TypeLayout| {
            visit(ty);
            ty.for_each_part(visit);
        };
        match &self.shape {
            Shape::Array { elem, .. } | Shape::Slice(elem) | Shape::Slot(elem) => part(elem),
            Shape::Struct(fields) => fields.iter().for_each(|field| part(&field.ty)),
            Shape::Enum { variants, .. } => {
                variants.iter().flat_map(|variant| &variant.fields).for_each(|field| part(&field.ty))
            }
            Shape::Ptr { .. } | Shape::Prim(_) | Shape::Str => {}
        }
    }

    /// Returns whether a value has no bytes. A pointer to such a type leads to no object.
    pub(crate) fn is_empty(&self) -> bool {
        self.size == 0 && !matches!(self.shape, Shape::Slice(_) | Shape::Str)
    }

    /// Returns whether a value is a primitive, or an array of primitives.
    pub(crate) fn is_number(&self) -> bool {
        match &self.shape {
            Shape::Array { elem, .. } => elem.is_number(),
            shape => matches!(shape, Shape::Prim(_)),
        }
    }

    /// Returns the type with numbers in place of all pointers except those to type `number`.
    pub(crate) fn with_pointers_to(&self, number: u32) -> TypeLayout {
        self.with_pointers(&|_, to| to == number)
    }

    /// Returns the type with numbers in place of all pointers for which `keep` returns `false`. `keep` gets
    /// the name of the struct or enum that the pointer is a field of, the offset of the field (`""` and 0 if
    /// it is not a field), and the pointer's target.
    pub(crate) fn with_pointers(&self, keep: &dyn Fn((&str, u64), u32) -> bool) -> TypeLayout {
        self.mapped(("", 0), &|place, nullable, to| match keep(place, to) {
            true => Shape::Ptr { nullable, to },
            false => Shape::Prim(Prim::U64),
        })
    }

    /// Returns the type with the targets of its pointers renumbered.
    pub(crate) fn renumbered(&self, renumber: &impl Fn(u32) -> u32) -> TypeLayout {
        self.mapped(("", 0), &|_, nullable, to| Shape::Ptr { nullable, to: renumber(to) })
    }

    /// Returns the type with another shape for each pointer. `map` gets the pointer's place, whether it may
    /// be null, and its target.
    fn mapped(&self, place: (&str, u64), map: &impl Fn((&str, u64), bool, u32) -> Shape) -> TypeLayout {
        let inner = |ty: &TypeLayout| Box::new(ty.mapped(("", 0), map));
        let fields = |fields: &[FieldLayout]| {
            let of = |field: &FieldLayout| FieldLayout {
                name: field.name.clone(),
                offset: field.offset,
                ty: field.ty.mapped((&self.name, field.offset), map),
            };
            fields.iter().map(of).collect()
        };
        let shape = match &self.shape {
            Shape::Ptr { nullable, to } => map(place, *nullable, *to),
            Shape::Array { elem, len } => Shape::Array { elem: inner(elem), len: *len },
            Shape::Slice(elem) => Shape::Slice(inner(elem)),
            Shape::Slot(of) => Shape::Slot(inner(of)),
            Shape::Struct(list) => Shape::Struct(fields(list)),
            Shape::Enum { tag, variants } => {
                let of = |v: &VariantLayout| VariantLayout {
                    name: v.name.clone(),
                    tag: v.tag,
                    fields: fields(&v.fields),
                };
                Shape::Enum { tag: *tag, variants: variants.iter().map(of).collect() }
            }
            Shape::Prim(prim) => Shape::Prim(*prim),
            Shape::Str => Shape::Str,
        };
        TypeLayout { name: self.name.clone(), size: self.size, align: self.align, shape }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{describe, difference};
    use super::*;
    use crate::layout::fingerprints;
    use crate::{P, Persist};

    #[test]
    fn a_slice_of_pointers_reaches_their_targets() {
        let graph = Graph::from_root(<[Option<P<'static, [u64]>>; 3] as Persist>::desc()).unwrap();
        assert_eq!(graph.types[0].name, "[Option<P<[u64]>>; 3]");
        assert_eq!(graph.types[1].name, "[u64]");
        assert_eq!(describe(&graph.types[0], &graph.types), "[Option<P<[u64]>>; 3], 24 bytes, aligned to 8");
    }

    #[test]
    fn fingerprints_see_what_lies_behind_pointers() {
        let print = |desc| fingerprints(&Graph::from_root(desc).unwrap().types)[0];
        assert_eq!(print(<P<'static, u64>>::desc()), print(<P<'static, u64>>::desc()));
        assert_ne!(print(<P<'static, u64>>::desc()), print(<P<'static, u32>>::desc()));
        assert_ne!(print(<P<'static, u64>>::desc()), print(<Option<P<'static, u64>>>::desc()));
        assert_ne!(
            print(<P<'static, P<'static, u64>>>::desc()),
            print(<P<'static, P<'static, i64>>>::desc())
        );
    }

    /// Behind the pointers of a third type there may be two types of one name.
    #[test]
    fn names_alone_do_not_identify_types() {
        let ty = |name: &str, size, shape| TypeLayout { name: name.to_owned(), size, align: 8, shape };
        let field = |name: &str, offset, ty| FieldLayout { name: name.to_owned(), offset, ty };
        let node = |prim| ty("Node", 8, Shape::Struct(vec![field("v", 0, ty("u64", 8, Shape::Prim(prim)))]));
        let pointer = |to| ty("P<Node>", 8, Shape::Ptr { nullable: false, to });
        let graph = |x, y| {
            let pair = Shape::Struct(vec![field("x", 0, pointer(x)), field("y", 8, pointer(y))]);
            Graph { types: vec![ty("Pair", 16, pair), node(Prim::U64), node(Prim::I64)] }
        };
        let (one, other) = (graph(1, 2), graph(2, 1));
        assert_ne!(fingerprints(&one.types)[0], fingerprints(&other.types)[0]);
        assert!(difference((&one.types, 0), (&other.types, 0)).is_some());
    }

    #[test]
    fn a_difference_is_explained() {
        let old = Graph::from_root(<[u64; 2] as Persist>::desc()).unwrap();
        let new = Graph::from_root(<[u64; 3] as Persist>::desc()).unwrap();
        assert!(difference((&old.types, 0), (&old.types, 0)).is_none());
        let text = difference((&old.types, 0), (&new.types, 0)).unwrap();
        assert!(text.contains("[u64; 2]") && text.contains("[u64; 3]"), "{text}");
    }
}
