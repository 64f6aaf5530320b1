//! Layouts as values: read from the program's descriptions or from a heap's type table, printed, hashed, compared.

use std::collections::{BTreeSet, HashMap};
use std::fmt::{self, Write};

use xxhash_rust::xxh3::xxh3_64;

use super::desc::{Desc, DescFn, Kind, Prim};

/// The layout of one type; `Shape::Ptr::to` counts in a list of such layouts (a [`Graph`] or a type table).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TypeLayout {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) align: u64,
    pub(crate) shape: Shape,
}

/// What a type is made of. Types held by value are spelled out; pointers name their target by number.
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
    /// Zero in all bytes, or a value.
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

/// A type and all types that can be reached from it through pointers. The type itself is number 0.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) types: Vec<TypeLayout>,
}

/// Name of a type with its arguments, as in Rust.
fn name_of(desc: &Desc) -> String {
    match &desc.kind {
        Kind::Array { elem, len } => format!("[{}; {len}]", name_of(elem())),
        Kind::Slice { elem } => format!("[{}]", name_of(elem())),
        Kind::Ptr { nullable: true, to } => format!("Option<P<{}>>", name_of(to())),
        Kind::Ptr { nullable: false, to } => format!("P<{}>", name_of(to())),
        Kind::Slot { of } => format!("Slot<{}>", name_of(of())),
        _ if desc.args.is_empty() => desc.name.as_str().to_owned(),
        _ => {
            let args: Vec<_> = desc.args.iter().map(|arg| name_of(arg())).collect();
            format!("{}<{}>", desc.name.as_str(), args.join(", "))
        }
    }
}

/// How many pointers away a fingerprint looks.
const ROUNDS: usize = 3;

impl Graph {
    /// The graph below a description.
    pub(crate) fn of(root: &'static Desc) -> Graph {
        let mut builder = Builder { numbers: HashMap::new(), queue: Vec::new() };
        builder.number(root);
        let mut types = Vec::new();
        while let Some(desc) = builder.queue.get(types.len()).copied() {
            let layout = builder.layout(desc);
            types.push(layout);
        }
        Graph { types }
    }

    /// A hash of each type together with what lies a few pointers away. Equal for equal types, whatever graph they are seen in; that
    /// unequal ones may share it, [`difference`] finds out.
    pub(crate) fn fingerprints(&self) -> Vec<u64> {
        // Round by round each hash takes in what lies one pointer further away. Several descriptions of one type in a program do not
        // show: only what is seen along a path of pointers counts.
        let mut hashes: Vec<u64> =
            self.types.iter().map(|ty| xxh3_64(describe(ty, &self.types).as_bytes())).collect();
        for _ in 0..ROUNDS {
            let further = |(ty, &own): (&TypeLayout, &u64)| {
                let mut bytes = own.to_le_bytes().to_vec();
                ty.for_each_pointer(&mut |to| bytes.extend(hashes[to as usize].to_le_bytes()));
                xxh3_64(&bytes)
            };
            hashes = self.types.iter().zip(&hashes).map(further).collect();
        }
        hashes
    }
}

struct Builder {
    /// By address: two descriptions of one type only cost a second entry.
    numbers: HashMap<*const Desc, u32>,
    queue: Vec<&'static Desc>,
}

impl Builder {
    fn number(&mut self, desc: &'static Desc) -> u32 {
        *self.numbers.entry(desc).or_insert_with(|| {
            self.queue.push(desc);
            self.queue.len() as u32 - 1
        })
    }

    fn layout(&mut self, desc: &'static Desc) -> TypeLayout {
        let shape = match &desc.kind {
            Kind::Prim(prim) => Shape::Prim(*prim),
            Kind::Array { elem, len } => {
                Shape::Array { elem: Box::new(self.layout(elem())), len: *len as u64 }
            }
            Kind::Ptr { nullable, to } => Shape::Ptr { nullable: *nullable, to: self.number(to()) },
            Kind::Struct { fields } => Shape::Struct(self.fields(fields)),
            Kind::Enum { tag, variants } => Shape::Enum {
                tag: *tag,
                variants: variants
                    .iter()
                    .map(|v| VariantLayout {
                        name: v.name.to_owned(),
                        tag: v.tag,
                        fields: self.fields(v.fields),
                    })
                    .collect(),
            },
            Kind::Slice { elem } => Shape::Slice(Box::new(self.layout(elem()))),
            Kind::Str => Shape::Str,
            Kind::Slot { of } => Shape::Slot(Box::new(self.layout(of()))),
        };
        TypeLayout { name: name_of(desc), size: desc.size as u64, align: desc.align as u64, shape }
    }

    fn fields(&mut self, fields: &'static [super::desc::Field]) -> Vec<FieldLayout> {
        fields
            .iter()
            .map(|field| {
                let ty: DescFn = field.ty;
                FieldLayout {
                    name: field.name.to_owned(),
                    offset: field.offset as u64,
                    ty: self.layout(ty()),
                }
            })
            .collect()
    }
}

impl TypeLayout {
    /// Calls `visit` with the target of each pointer in the type.
    pub(crate) fn for_each_pointer(&self, visit: &mut impl FnMut(u32)) {
        match &self.shape {
            Shape::Ptr { to, .. } => visit(*to),
            Shape::Array { elem, .. } | Shape::Slice(elem) | Shape::Slot(elem) => {
                elem.for_each_pointer(visit)
            }
            Shape::Struct(fields) => fields.iter().for_each(|field| field.ty.for_each_pointer(visit)),
            Shape::Enum { variants, .. } => {
                for field in variants.iter().flat_map(|v| &v.fields) {
                    field.ty.for_each_pointer(visit);
                }
            }
            Shape::Prim(_) | Shape::Str => {}
        }
    }

    /// The type with the targets of its pointers renumbered.
    pub(crate) fn renumbered(&self, renumber: &impl Fn(u32) -> u32) -> TypeLayout {
        let fields = |fields: &[FieldLayout]| -> Vec<FieldLayout> {
            fields.iter().map(|f| FieldLayout { ty: f.ty.renumbered(renumber), ..f.clone() }).collect()
        };
        let shape = match &self.shape {
            Shape::Ptr { nullable, to } => Shape::Ptr { nullable: *nullable, to: renumber(*to) },
            Shape::Array { elem, len } => {
                Shape::Array { elem: Box::new(elem.renumbered(renumber)), len: *len }
            }
            Shape::Slice(elem) => Shape::Slice(Box::new(elem.renumbered(renumber))),
            Shape::Slot(of) => Shape::Slot(Box::new(of.renumbered(renumber))),
            Shape::Struct(list) => Shape::Struct(fields(list)),
            Shape::Enum { tag, variants } => Shape::Enum {
                tag: *tag,
                variants: variants
                    .iter()
                    .map(|v| VariantLayout { name: v.name.clone(), tag: v.tag, fields: fields(&v.fields) })
                    .collect(),
            },
            Shape::Prim(_) | Shape::Str => self.shape.clone(),
        };
        TypeLayout { shape, ..self.clone() }
    }
}

/// The layout as one line, pointers by the name of their target. Two types are the same to a heap if these lines are equal for
/// them and for all types that they reach.
pub(crate) fn describe(ty: &TypeLayout, types: &[TypeLayout]) -> String {
    let mut out = String::new();
    write_type(&mut out, ty, types).expect("a String takes all that is written");
    let _ = write!(out, ", {} bytes, aligned to {}", ty.size, ty.align);
    out
}

fn write_type(out: &mut String, ty: &TypeLayout, types: &[TypeLayout]) -> fmt::Result {
    match &ty.shape {
        Shape::Prim(prim) => out.write_str(prim.name()),
        Shape::Str => out.write_str("str"),
        Shape::Array { elem, len } => {
            out.push('[');
            write_type(out, elem, types)?;
            write!(out, "; {len}]")
        }
        Shape::Slice(elem) => {
            out.push('[');
            write_type(out, elem, types)?;
            out.write_char(']')
        }
        Shape::Slot(of) => {
            out.write_str("Slot<")?;
            write_type(out, of, types)?;
            out.write_char('>')
        }
        Shape::Ptr { nullable, to } => {
            let target = types.get(*to as usize).map_or("?", |ty| ty.name.as_str());
            match nullable {
                true => write!(out, "Option<P<{target}>>"),
                false => write!(out, "P<{target}>"),
            }
        }
        Shape::Struct(fields) => {
            write!(out, "{} ", ty.name)?;
            write_fields(out, fields, types)
        }
        Shape::Enum { tag, variants } => {
            write!(out, "{}: {} {{", ty.name, tag.name())?;
            for (i, variant) in variants.iter().enumerate() {
                write!(out, "{} {}", if i == 0 { "" } else { "," }, variant.name)?;
                write!(out, " = {}", variant.tag)?;
                if !variant.fields.is_empty() {
                    out.push(' ');
                    write_fields(out, &variant.fields, types)?;
                }
            }
            out.write_str(" }")
        }
    }
}

fn write_fields(out: &mut String, fields: &[FieldLayout], types: &[TypeLayout]) -> fmt::Result {
    out.push('{');
    for (i, field) in fields.iter().enumerate() {
        write!(out, "{} {}: ", if i == 0 { "" } else { "," }, field.name)?;
        write_type(out, &field.ty, types)?;
        write!(out, " @{}", field.offset)?;
    }
    out.write_str(" }")
}

/// Types by their number in a list.
pub(crate) type InList<'a> = (&'a [TypeLayout], u32);

/// Where two types, or types that they reach along the same path of pointers, differ, for people; `None` if nowhere. The first is
/// the one in the heap.
pub(crate) fn difference(stored: InList<'_>, program: InList<'_>) -> Option<String> {
    let (old_types, new_types) = (stored.0, program.0);
    let mut seen = BTreeSet::new();
    let mut queue = vec![(stored.1, program.1)];
    while let Some(pair) = queue.pop() {
        if !seen.insert(pair) {
            continue;
        }
        let Some(old) = old_types.get(pair.0 as usize) else {
            return Some(format!("  the heap's type table lacks type {}", pair.0));
        };
        let new = &new_types[pair.1 as usize];
        let (old_text, new_text) = (describe(old, old_types), describe(new, new_types));
        if old_text != new_text {
            let first = first_difference(old, old_types, new, new_types);
            return Some(format!("  in the heap:    {old_text}\n  in the program: {new_text}\n  {first}"));
        }
        let (mut a, mut b) = (Vec::new(), Vec::new());
        old.for_each_pointer(&mut |to| a.push(to));
        new.for_each_pointer(&mut |to| b.push(to));
        queue.extend(a.into_iter().zip(b));
    }
    None
}

fn first_difference(
    old: &TypeLayout,
    old_types: &[TypeLayout],
    new: &TypeLayout,
    new_types: &[TypeLayout],
) -> String {
    let (Shape::Struct(old_fields), Shape::Struct(new_fields)) = (&old.shape, &new.shape) else {
        return "the two are different types".to_owned();
    };
    for i in 0..old_fields.len().max(new_fields.len()) {
        match (old_fields.get(i), new_fields.get(i)) {
            (Some(a), Some(b)) => {
                let mut text = [String::new(), String::new()];
                let _ = write_type(&mut text[0], &a.ty, old_types);
                let _ = write_type(&mut text[1], &b.ty, new_types);
                if (&a.name, a.offset, &text[0]) != (&b.name, b.offset, &text[1]) {
                    return format!(
                        "field {i} differs: `{}: {}` at byte {} in the heap, `{}: {}` at byte {} in the program",
                        a.name, text[0], a.offset, b.name, text[1], b.offset
                    );
                }
            }
            (Some(a), None) => return format!("field `{}` is in the heap only", a.name),
            (None, Some(b)) => return format!("field `{}` is in the program only", b.name),
            (None, None) => {}
        }
    }
    if old.name != new.name {
        return format!("the names differ: `{}` in the heap, `{}` in the program", old.name, new.name);
    }
    format!(
        "the sizes or alignments differ: {} bytes aligned to {} in the heap, {} aligned to {} in the program",
        old.size, old.align, new.size, new.align
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{P, Persist};

    #[test]
    fn a_slice_of_pointers_reaches_their_targets() {
        let graph = Graph::of(<[Option<P<'static, [u64]>>; 3] as Persist>::desc());
        assert_eq!(graph.types[0].name, "[Option<P<[u64]>>; 3]");
        assert_eq!(graph.types[1].name, "[u64]");
        assert_eq!(describe(&graph.types[0], &graph.types), "[Option<P<[u64]>>; 3], 24 bytes, aligned to 8");
    }

    #[test]
    fn fingerprints_see_what_lies_behind_pointers() {
        let print = |desc| Graph::of(desc).fingerprints()[0];
        assert_eq!(print(<P<'static, u64>>::desc()), print(<P<'static, u64>>::desc()));
        assert_ne!(print(<P<'static, u64>>::desc()), print(<P<'static, u32>>::desc()));
        assert_ne!(print(<P<'static, u64>>::desc()), print(<Option<P<'static, u64>>>::desc()));
        assert_ne!(
            print(<P<'static, P<'static, u64>>>::desc()),
            print(<P<'static, P<'static, i64>>>::desc())
        );
    }

    /// Two types of one name can hide behind the pointers of a third.
    #[test]
    fn names_alone_do_not_identify_types() {
        let prim = |prim, size| TypeLayout { name: "u64".into(), size, align: 8, shape: Shape::Prim(prim) };
        let node = |field: TypeLayout| TypeLayout {
            name: "Node".into(),
            size: 8,
            align: 8,
            shape: Shape::Struct(vec![FieldLayout { name: "v".into(), offset: 0, ty: field }]),
        };
        let pointer = |to| TypeLayout {
            name: "P<Node>".into(),
            size: 8,
            align: 8,
            shape: Shape::Ptr { nullable: false, to },
        };
        let pair = |x, y| TypeLayout {
            name: "Pair".into(),
            size: 16,
            align: 8,
            shape: Shape::Struct(vec![
                FieldLayout { name: "x".into(), offset: 0, ty: pointer(x) },
                FieldLayout { name: "y".into(), offset: 8, ty: pointer(y) },
            ]),
        };
        let graph =
            |x, y| Graph { types: vec![pair(x, y), node(prim(Prim::U64, 8)), node(prim(Prim::I64, 8))] };
        let (one, other) = (graph(1, 2), graph(2, 1));
        assert_ne!(one.fingerprints()[0], other.fingerprints()[0]);
        assert!(difference((&one.types, 0), (&other.types, 0)).is_some());
    }

    #[test]
    fn a_difference_is_explained() {
        let old = Graph::of(<[u64; 2] as Persist>::desc());
        let new = Graph::of(<[u64; 3] as Persist>::desc());
        assert!(difference((&old.types, 0), (&old.types, 0)).is_none());
        let text = difference((&old.types, 0), (&new.types, 0)).unwrap();
        assert!(text.contains("[u64; 2]") && text.contains("[u64; 3]"), "{text}");
    }
}
