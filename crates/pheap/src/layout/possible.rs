//! Checks whether a layout can be that of a type that derives `Persist`, made by a compiler.
//!
//! What follows from other parts is computed again and compared: the names of arrays, pointers and the like,
//! sizes, alignments, and the offsets of fields. So a layout that contradicts itself in one of these is
//! refused.

use super::desc::Prim;
use super::graph::{FieldLayout, Shape, TypeLayout, VariantLayout};
use super::names::is_type_name;

/// A function that returns the names of types by number.
pub(crate) type TypeNames<'a> = &'a dyn Fn(u32) -> Option<&'a str>;

/// Checks the layout of a type. The error describes the problem. `names` has the names of the types that
/// pointers may lead to.
pub(crate) fn check(ty: &TypeLayout, names: TypeNames<'_>) -> Result<(), String> {
    match &ty.shape {
        Shape::Slice(elem) => {
            value(elem, names)?;
            must((ty.size, ty.align) == (0, elem.align), ty, "the size or alignment is not that of a slice")?;
            must(around(ty, "[", "]") == Some(&elem.name), ty, "the name is not that of its elements")
        }
        Shape::Str => {
            must((ty.size, ty.align) == (0, 1), ty, "the size or alignment is not that of a string")?;
            must(ty.name == "str", ty, "the name is not that of a string")
        }
        _ => value(ty, names),
    }
}

/// Returns the part of a type's name between `before` and `after`.
fn around<'t>(ty: &'t TypeLayout, before: &str, after: &str) -> Option<&'t str> {
    ty.name.strip_prefix(before)?.strip_suffix(after)
}

fn must(holds: bool, ty: &TypeLayout, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("`{}`: {what}", ty.name)) }
}

/// Checks a sized type.
fn value(ty: &TypeLayout, names: TypeNames<'_>) -> Result<(), String> {
    // These conditions hold for each type of a compiler for 64-bit machines.
    let sound = ty.align.is_power_of_two()
        && ty.align <= 1 << 29
        && ty.size.is_multiple_of(ty.align)
        && ty.size <= i64::MAX as u64;
    must(sound, ty, "no type has this size and alignment")?;
    let same = (ty.size, ty.align);
    match &ty.shape {
        Shape::Slice(_) | Shape::Str => must(false, ty, "held by value, without a size"),
        Shape::Prim(prim) => {
            must(ty.name == prim.name(), ty, "the name is not that of such a number")?;
            must(same == prim.layout(), ty, "not the size and alignment of such a number")
        }
        Shape::Ptr { nullable, to } => {
            let target = names(*to);
            must(target.is_some(), ty, "points to a type that is not in the type table")?;
            let target = target.unwrap_or_default();
            let (before, after) = if *nullable { ("Option<P<", ">>") } else { ("P<", ">") };
            must(around(ty, before, after) == Some(target), ty, "the name is not that of what it points to")?;
            must(same == (8, 8), ty, "not the size and alignment of a pointer")
        }
        Shape::Array { elem, len } => {
            value(elem, names)?;
            must(ty.name == format!("[{}; {len}]", elem.name), ty, "the name is not that of its elements")?;
            let fits = elem.size.checked_mul(*len) == Some(ty.size) && elem.align == ty.align;
            must(fits, ty, "the size or alignment is not that of its elements")
        }
        Shape::Slot(of) => {
            value(of, names)?;
            must(around(ty, "Slot<", ">") == Some(&of.name), ty, "the name is not that of its value")?;
            must(same == (of.size, of.align), ty, "the size or alignment is not that of its value")
        }
        Shape::Struct(list) => {
            must(is_type_name(&ty.name), ty, "not the name of a type")?;
            fields(list, names)?;
            must(
                is_repr_c(ty, list) || is_transparent(ty, list),
                ty,
                "its fields are not where a compiler puts them, or its size is not the one that follows",
            )
        }
        Shape::Enum { tag, variants } => {
            must(is_type_name(&ty.name), ty, "not the name of a type")?;
            let tags_fit = variants.iter().all(|variant| tag.has_tag(variant.tag));
            must(tags_fit && !variants.is_empty(), ty, "its tags are not numbers of their type")?;
            let mut tags: Vec<i128> = variants.iter().map(|variant| variant.tag).collect();
            tags.sort_unstable();
            must(tags.windows(2).all(|pair| pair[0] < pair[1]), ty, "two variants have one tag")?;
            variants.iter().try_for_each(|variant| fields(&variant.fields, names))?;
            must(
                is_tagged(ty, *tag, variants),
                ty,
                "the fields of a variant are not where a compiler puts them, or its size is not the one that follows",
            )
        }
    }
}

fn fields(list: &[FieldLayout], names: TypeNames<'_>) -> Result<(), String> {
    list.iter().try_for_each(|field| value(&field.ty, names))
}

/// Checks the offsets of fields by the rules of `repr(C)`: each field begins behind the one before it, at the
/// next multiple of its alignment. The first argument is the size and alignment of the part before the
/// fields: a tag, or nothing. Returns the end of the last field and the greatest alignment, or `None` if an
/// offset is wrong.
fn in_order((mut end, mut align): (u64, u64), list: &[FieldLayout]) -> Option<(u64, u64)> {
    for field in list {
        // The rounding cannot overflow: all sizes are less than 2⁶³, and alignments are small.
        if field.offset != end.next_multiple_of(field.ty.align) {
            return None;
        }
        end = field.offset.checked_add(field.ty.size).filter(|&end| end <= i64::MAX as u64)?;
        align = align.max(field.ty.align);
    }
    Some((end, align))
}

/// Returns whether a type with parts up to `end` and their greatest alignment `align` may have this size and
/// alignment. Both may be larger, by `align(..)`.
fn fits(ty: &TypeLayout, end: u64, align: u64) -> bool {
    ty.align >= align && end.next_multiple_of(ty.align) == ty.size
}

fn is_repr_c(ty: &TypeLayout, list: &[FieldLayout]) -> bool {
    in_order((0, 1), list).is_some_and(|(end, align)| fits(ty, end, align))
}

/// Checks for `repr(transparent)`: at most one field of any size, and others of size 0 and alignment 1, which
/// the compiler may put anywhere.
fn is_transparent(ty: &TypeLayout, list: &[FieldLayout]) -> bool {
    let is_trivial = |field: &&FieldLayout| (field.ty.size, field.ty.align) == (0, 1);
    let mut others = list.iter().filter(|field| !is_trivial(field));
    let (size, align) = match (others.next(), others.next()) {
        (None, _) => (0, 1),
        (Some(field), None) if field.offset == 0 => (field.ty.size, field.ty.align),
        _ => return false,
    };
    (ty.size, ty.align) == (size, align) && list.iter().all(|field| field.offset <= size)
}

/// Checks an enum with a primitive representation: it is a union of structs that begin with the tag.
fn is_tagged(ty: &TypeLayout, tag: Prim, variants: &[VariantLayout]) -> bool {
    let mut whole = tag.layout();
    for variant in variants {
        let Some((end, align)) = in_order(tag.layout(), &variant.fields) else { return false };
        whole = (whole.0.max(end), whole.1.max(align));
    }
    fits(ty, whole.0, whole.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prim(prim: Prim) -> TypeLayout {
        let (size, align) = prim.layout();
        TypeLayout { name: prim.name().to_owned(), size, align, shape: Shape::Prim(prim) }
    }

    fn field(name: &str, offset: u64, ty: TypeLayout) -> FieldLayout {
        FieldLayout { name: name.to_owned(), offset, ty }
    }

    fn record(size: u64, align: u64, fields: Vec<FieldLayout>) -> TypeLayout {
        TypeLayout { name: "Record".to_owned(), size, align, shape: Shape::Struct(fields) }
    }

    fn array(elem: TypeLayout, len: u64) -> TypeLayout {
        let (size, align) = (elem.size.wrapping_mul(len), elem.align);
        let name = format!("[{}; {len}]", elem.name);
        TypeLayout { name, size, align, shape: Shape::Array { elem: Box::new(elem), len } }
    }

    fn slice(elem: TypeLayout) -> TypeLayout {
        let name = format!("[{}]", elem.name);
        TypeLayout { name, size: 0, align: elem.align, shape: Shape::Slice(Box::new(elem)) }
    }

    fn variant(name: &str, tag: i128, fields: Vec<FieldLayout>) -> VariantLayout {
        VariantLayout { name: name.to_owned(), tag, fields }
    }

    fn choice(size: u64, align: u64, tag: Prim, variants: Vec<VariantLayout>) -> TypeLayout {
        TypeLayout { name: "Choice".to_owned(), size, align, shape: Shape::Enum { tag, variants } }
    }

    fn pointer(name: &str, nullable: bool) -> TypeLayout {
        TypeLayout { name: name.to_owned(), size: 8, align: 8, shape: Shape::Ptr { nullable, to: 0 } }
    }

    #[test]
    fn what_a_compiler_lays_out_is_possible() {
        let unit = || prim(Prim::Unit);
        let good = [
            record(0, 1, vec![]),
            record(64, 64, vec![field("a", 0, prim(Prim::U8))]),
            record(16, 8, vec![field("a", 0, prim(Prim::U64)), field("b", 8, prim(Prim::Bool))]),
            record(
                8,
                4,
                vec![field("a", 0, prim(Prim::U8)), field("u", 1, unit()), field("b", 4, prim(Prim::Char))],
            ),
            // Structs with `repr(transparent)`.
            record(8, 8, vec![field("u", 0, unit()), field("a", 0, prim(Prim::U64)), field("v", 0, unit())]),
            record(8, 8, vec![field("u", 8, unit()), field("a", 0, prim(Prim::U64))]),
            array(array(prim(Prim::I16), 3), 0),
            array(unit(), u64::MAX),
            slice(array(prim(Prim::U128), 2)),
            choice(1, 1, Prim::I8, vec![variant("A", -128, vec![]), variant("B", 127, vec![])]),
            choice(16, 16, Prim::U8, vec![variant("A", 255, vec![field("0", 4, prim(Prim::U32))])]),
            choice(16, 16, Prim::U128, vec![variant("A", -1, vec![])]),
        ];
        for ty in good {
            assert_eq!(check(&ty, &|_| None), Ok(()));
        }
        let types = [record(0, 1, vec![]), pointer("P<Record>", false), pointer("Option<P<Record>>", true)];
        types.iter().for_each(|ty| assert_eq!(check(ty, &|to| Some(&types[to as usize].name)), Ok(())));
    }

    #[test]
    fn impossible_layouts_are_refused() {
        let wide = || prim(Prim::U64);
        let named = |name: &str, ty: TypeLayout| TypeLayout { name: name.to_owned(), ..ty };
        let bad = [
            record(12, 8, vec![]),
            record(8, 3, vec![]),
            record(8, 8, vec![]),
            record(1 << 63, 1, vec![]),
            record(1 << 30, 1 << 30, vec![]),
            record(24, 8, vec![field("larger than its fields", 0, wide()), field("b", 8, prim(Prim::Bool))]),
            record(8, 8, vec![field("outside", 8, wide())]),
            record(16, 8, vec![field("unaligned", 4, wide())]),
            record(16, 8, vec![field("behind a gap", 8, wide())]),
            record(16, 4, vec![field("aligned better than the struct", 0, wide())]),
            record(16, 8, vec![field("a", 0, wide()), field("upon a", 4, prim(Prim::U32))]),
            record(16, 8, vec![field("in another order", 8, wide()), field("a", 0, wide())]),
            record(8, 8, vec![field("wraps", u64::MAX - 7, wide())]),
            record(8, 8, vec![field("no size", 0, slice(prim(Prim::U8)))]),
            record(8, 8, vec![field("u", 9, prim(Prim::Unit)), field("a", 0, wide())]),
            record(16, 16, vec![field("u", 3, prim(Prim::Unit)), field("a", 0, wide())]),
            named("Record ", record(0, 1, vec![])),
            named("Record { a: u64 @0 }", record(0, 1, vec![])),
            TypeLayout { size: 16, ..array(wide(), 3) },
            TypeLayout { size: 0, ..array(wide(), 1 << 61) },
            TypeLayout { align: 16, size: 32, ..array(wide(), 4) },
            named("[u64; 4]", array(wide(), 3)),
            TypeLayout { size: 4, ..wide() },
            TypeLayout { align: 4, ..wide() },
            named("u32", wide()),
            TypeLayout { size: 8, ..slice(wide()) },
            named("[u32]", slice(wide())),
            slice(slice(wide())),
            named("string", TypeLayout { size: 0, align: 1, shape: Shape::Str, ..wide() }),
            TypeLayout {
                name: "Slot<u64>".to_owned(),
                size: 16,
                align: 8,
                shape: Shape::Slot(Box::new(wide())),
            },
            pointer("P<Record>", false),
            choice(1, 1, Prim::U8, vec![]),
            choice(1, 1, Prim::U8, vec![variant("A", 256, vec![])]),
            choice(1, 1, Prim::I8, vec![variant("A", 128, vec![])]),
            choice(1, 1, Prim::U8, vec![variant("A", 1, vec![]), variant("B", 1, vec![])]),
            choice(1, 1, Prim::Bool, vec![variant("A", 1, vec![])]),
            choice(8, 1, Prim::U8, vec![variant("A", 1, vec![])]),
            choice(8, 4, Prim::U8, vec![variant("A", 1, vec![field("upon the tag", 0, prim(Prim::U32))])]),
            choice(12, 4, Prim::U8, vec![variant("A", 1, vec![field("too far", 8, prim(Prim::U32))])]),
        ];
        for ty in bad {
            assert!(check(&ty, &|_| None).is_err(), "{ty:?}");
        }
        let types = [record(0, 1, vec![]), pointer("Option<P<Record>>", false), pointer("P<Other>", false)];
        types[1..].iter().for_each(|ty| assert!(check(ty, &|to| Some(&types[to as usize].name)).is_err()));
    }
}
