//! Compares two types, and describes where they differ.
//!
//! The structure is compared: at every level the kind of type, its name, size and alignment (hence also the
//! stride of arrays), lengths, names, offsets and tags; and the types that pointers lead to, in pairs, along
//! every path. A difference is formatted as text.

use std::collections::BTreeSet;
use std::fmt::Display;

use super::describe::{describe, text_of};
use super::graph::{FieldLayout, Shape, TypeLayout, VariantLayout};

/// A list of types, and the number of one of them.
pub(crate) type ListedType<'a> = (&'a [TypeLayout], u32);

/// Returns a text that says where two types differ, or types that they reach along the same path of pointers;
/// `None` if they do not differ. The first type is that in the heap.
pub(crate) fn difference(stored: ListedType<'_>, program: ListedType<'_>) -> Option<String> {
    let mut comparison =
        Comparison { stored: stored.0, program: program.0, pairs: vec![(stored.1, program.1)] };
    let mut seen = BTreeSet::new();
    while let Some(pair) = comparison.pairs.pop() {
        if !seen.insert(pair) {
            continue;
        }
        let Some(old) = stored.0.get(pair.0 as usize) else {
            return Some(format!("  the heap's type table lacks type {}", pair.0));
        };
        let new = &program.0[pair.1 as usize];
        if let Err(difference) = comparison.types(old, new) {
            let (old, new) = (describe(old, stored.0), describe(new, program.0));
            return Some(format!(
                "  in the heap:    {old}\n  in the program: {new}\n  {}",
                difference.text()
            ));
        }
    }
    None
}

struct Comparison<'a> {
    stored: &'a [TypeLayout],
    program: &'a [TypeLayout],
    /// Targets of pointers that are still to be compared.
    pairs: Vec<(u32, u32)>,
}

/// A difference between two types.
#[derive(Default)]
struct TypeDifference {
    /// The path to the place of the difference.
    path: String,
    /// What differs at that place. Empty if the two types as a whole are different: then the struct or
    /// variant that has them as fields, if there is one, describes the difference.
    what: String,
}

impl TypeDifference {
    fn new(what: String) -> TypeDifference {
        TypeDifference { path: String::new(), what }
    }

    fn unequal(what: &str, old: impl Display, new: impl Display) -> TypeDifference {
        TypeDifference::new(format!("the {what} differ: {old} in the heap, {new} in the program"))
    }

    /// Adds a step to the front of the path, as seen from one level further out; not if `what` is empty.
    fn below(mut self, step: impl Display) -> TypeDifference {
        if !self.what.is_empty() {
            self.path.insert_str(0, &step.to_string());
        }
        self
    }

    fn text(self) -> String {
        match (self.path.trim_start_matches('.'), &*self.what) {
            (_, "") => "the two are different types".to_owned(),
            ("", _) => self.what,
            (path, what) => format!("in `{path}`: {what}"),
        }
    }
}

type CompareResult = Result<(), TypeDifference>;

impl Comparison<'_> {
    /// Compares two types without following pointers, and notes the targets of their pointers.
    fn types(&mut self, old: &TypeLayout, new: &TypeLayout) -> CompareResult {
        match (&old.shape, &new.shape) {
            (Shape::Prim(a), Shape::Prim(b)) if a == b => {}
            (Shape::Str, Shape::Str) => {}
            (Shape::Ptr { nullable: a, to: old }, Shape::Ptr { nullable: b, to: new }) if a == b => {
                self.pairs.push((*old, *new));
            }
            (Shape::Array { elem: old, len: a }, Shape::Array { elem: new, len: b }) if a == b => {
                self.types(old, new).map_err(|e| e.below("[_]"))?;
            }
            (Shape::Slice(old), Shape::Slice(new)) => self.types(old, new).map_err(|e| e.below("[_]"))?,
            (Shape::Slot(old), Shape::Slot(new)) => self.types(old, new)?,
            (Shape::Struct(a), Shape::Struct(b)) => self.fields(a, b)?,
            (Shape::Enum { tag: a, variants: old }, Shape::Enum { tag: b, variants: new }) => {
                if a != b {
                    return Err(TypeDifference::unequal("types of the tags", a.name(), b.name()));
                }
                self.variants(old, new)?;
            }
            _ => return Err(TypeDifference::default()),
        }
        if old.name != new.name {
            // The names of types other than structs and enums follow from their parts.
            return Err(match old.shape {
                Shape::Struct(_) | Shape::Enum { .. } => TypeDifference::unequal(
                    "names",
                    format_args!("`{}`", old.name),
                    format_args!("`{}`", new.name),
                ),
                _ => TypeDifference::default(),
            });
        }
        if (old.size, old.align) != (new.size, new.align) {
            let of = |ty: &TypeLayout| format!("{} bytes aligned to {}", ty.size, ty.align);
            return Err(TypeDifference::unequal("sizes or alignments", of(old), of(new)));
        }
        Ok(())
    }

    fn fields(&mut self, old: &[FieldLayout], new: &[FieldLayout]) -> CompareResult {
        for (i, both) in pairs("field", old, new, |field| &field.name).enumerate() {
            let (old, new) = both?;
            let here = (&old.name, old.offset) == (&new.name, new.offset);
            let within = if here { self.types(&old.ty, &new.ty) } else { Err(TypeDifference::default()) };
            match within {
                Err(TypeDifference { what, .. }) if what.is_empty() => {
                    let (stored, program) = (text_of(&old.ty, self.stored), text_of(&new.ty, self.program));
                    return Err(TypeDifference::new(format!(
                        "field {i} differs: `{}: {stored}` at byte {} in the heap, `{}: {program}` at byte {} in the program",
                        old.name, old.offset, new.name, new.offset
                    )));
                }
                within => within.map_err(|e| e.below(format_args!(".{}", old.name)))?,
            }
        }
        Ok(())
    }

    fn variants(&mut self, old: &[VariantLayout], new: &[VariantLayout]) -> CompareResult {
        for (i, both) in pairs("variant", old, new, |variant| &variant.name).enumerate() {
            let (old, new) = both?;
            if (&old.name, old.tag) != (&new.name, new.tag) {
                return Err(TypeDifference::new(format!(
                    "variant {i} differs: `{} = {}` in the heap, `{} = {}` in the program",
                    old.name, old.tag, new.name, new.tag
                )));
            }
            self.fields(&old.fields, &new.fields).map_err(|e| e.below(format_args!(".{}", old.name)))?;
        }
        Ok(())
    }
}

/// Returns the parts of two types in pairs. The first part without a counterpart is the difference.
fn pairs<'a, T>(
    part: &'static str,
    old: &'a [T],
    new: &'a [T],
    name: fn(&T) -> &String,
) -> impl Iterator<Item = Result<(&'a T, &'a T), TypeDifference>> {
    let only = move |one: &T, side: &str| {
        Err(TypeDifference::new(format!("{part} `{}` is in the {side} only", name(one))))
    };
    (0..old.len().max(new.len())).map(move |i| match (old.get(i), new.get(i)) {
        (Some(old), Some(new)) => Ok((old, new)),
        (Some(old), None) => only(old, "heap"),
        (None, new) => only(new.expect("one of the two goes on"), "program"),
    })
}
