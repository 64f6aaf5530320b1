//! What to look at in an object, compiled from the layout of its type, once that layout has been found possible.

use std::cmp::Ordering;

use super::own::{Rule, own_key};
use crate::layout::desc::Prim;
use crate::layout::{FieldLayout, Shape, TypeLayout, VariantLayout, slice_header};

/// What to look at in the objects of a type.
#[derive(Debug)]
pub(super) struct Plan {
    /// Bytes of a value; 0 for slices and strings.
    pub(super) size: u64,
    pub(super) align: u64,
    pub(super) parts: Parts,
}

#[derive(Debug)]
pub(super) enum Parts {
    Sized(Vec<Op>),
    /// Elements of `stride` bytes, behind a length and `header` bytes.
    Slice {
        header: u64,
        stride: u64,
        ops: Vec<Op>,
    },
    Str,
}

/// One thing to look at, `at` so many bytes.
#[derive(Debug)]
pub(super) enum Op {
    Ptr {
        at: u64,
        to: u32,
        nullable: bool,
    },
    Bool {
        at: u64,
    },
    Char {
        at: u64,
    },
    /// Variants by tag, in order.
    Enum {
        at: u64,
        tag: Prim,
        variants: Vec<(i128, Vec<Op>)>,
    },
    Repeat {
        at: u64,
        stride: u64,
        len: u64,
        ops: Vec<Op>,
    },
    /// The only pointer to its target.
    OwnedPtr {
        at: u64,
        to: u32,
    },
    /// What a collection promises of its buffers.
    Own {
        at: u64,
        rule: Rule,
    },
    /// Nothing to look at if all of `size` bytes are zero.
    Slot {
        at: u64,
        size: u64,
        ops: Vec<Op>,
    },
}

impl Plan {
    /// The plan for a type, or what is wrong with its layout.
    pub(super) fn of(ty: &TypeLayout) -> Result<Plan, String> {
        let parts = match &ty.shape {
            Shape::Slice(elem) => {
                validate(elem)?;
                if ty.size != 0 || ty.align != elem.align {
                    return Err("the size or alignment is not that of a slice".to_owned());
                }
                Parts::Slice { header: header_of(elem), stride: elem.size, ops: ops_of(elem) }
            }
            Shape::Str if ty.size != 0 || ty.align != 1 => {
                return Err("the size or alignment is not that of a string".to_owned());
            }
            Shape::Str => Parts::Str,
            _ => {
                validate(ty)?;
                Parts::Sized(ops_of(ty))
            }
        };
        Ok(Plan { size: ty.size, align: ty.align, parts })
    }

    /// Bytes that an object needs at least.
    pub(super) fn least(&self) -> u64 {
        match &self.parts {
            Parts::Sized(_) => self.size,
            Parts::Slice { header, .. } => *header,
            Parts::Str => 8,
        }
    }
}

/// Where the elements of a slice begin.
pub(super) fn header_of(elem: &TypeLayout) -> u64 {
    slice_header(elem.align as usize) as u64
}

/// Bytes of a value without parts.
fn size_of_prim(prim: Prim) -> u64 {
    match prim {
        Prim::Unit => 0,
        Prim::U8 | Prim::I8 | Prim::Bool => 1,
        Prim::U16 | Prim::I16 => 2,
        Prim::U32 | Prim::I32 | Prim::F32 | Prim::Char => 4,
        Prim::U64 | Prim::I64 | Prim::F64 => 8,
        Prim::U128 | Prim::I128 => 16,
    }
}

/// Fails unless a sized type is one that a compiler could have laid out.
fn validate(ty: &TypeLayout) -> Result<(), String> {
    let fail = |what: &str| Err(format!("`{}`: {what}", ty.name));
    if !ty.align.is_power_of_two()
        || ty.align > 1 << 29
        || !ty.size.is_multiple_of(ty.align)
        || ty.size >> 47 != 0
    {
        return fail("no type has this size and alignment");
    }
    match &ty.shape {
        Shape::Slice(_) | Shape::Str => return fail("held by value, without a size"),
        Shape::Prim(prim) if ty.size != size_of_prim(*prim) || ty.align > ty.size.max(1) => {
            return fail("not the size and alignment of such a number");
        }
        Shape::Prim(_) => {}
        Shape::Ptr { .. } if (ty.size, ty.align) != (8, 8) => {
            return fail("not the size and alignment of a pointer");
        }
        Shape::Ptr { .. } => {}
        Shape::Array { elem, len } => {
            validate(elem)?;
            if elem.size.checked_mul(*len) != Some(ty.size) || elem.align != ty.align {
                return fail("the size or alignment is not that of its elements");
            }
        }
        Shape::Struct(fields) => validate_fields(ty, 0, fields)?,
        Shape::Slot(of) => {
            validate(of)?;
            if (of.size, of.align) != (ty.size, ty.align) {
                return fail("the size or alignment is not that of its value");
            }
        }
        Shape::Enum { tag, variants } => {
            let integer = !matches!(tag, Prim::Bool | Prim::Char | Prim::Unit | Prim::F32 | Prim::F64);
            let size = size_of_prim(*tag);
            if !integer || size > ty.size {
                return fail("the tag is not an integer that fits");
            }
            for VariantLayout { name, fields, .. } in variants {
                validate_fields(ty, size, fields).map_err(|e| format!("{e} (variant `{name}`)"))?;
            }
            let mut tags: Vec<i128> = variants.iter().map(|variant| variant.tag).collect();
            tags.sort_unstable();
            if tags.windows(2).any(|pair| pair[0] == pair[1]) {
                return fail("two variants have one tag");
            }
        }
    }
    Ok(())
}

/// Fields lie within their type, aligned, behind its tag, and not one upon the other.
fn validate_fields(ty: &TypeLayout, tag: u64, fields: &[FieldLayout]) -> Result<(), String> {
    let mut ranges = Vec::new();
    for field in fields {
        validate(&field.ty)?;
        let end = field.offset.checked_add(field.ty.size);
        let fits = end.is_some_and(|end| end <= ty.size)
            && field.offset.is_multiple_of(field.ty.align)
            && field.ty.align <= ty.align;
        if !fits {
            return Err(format!("`{}`: field `{}` does not fit into it", ty.name, field.name));
        }
        if field.ty.size > 0 {
            ranges.push((field.offset, field.offset + field.ty.size));
        }
    }
    ranges.push((0, tag));
    ranges.sort_unstable();
    if ranges.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return Err(format!("`{}`: its fields overlap", ty.name));
    }
    Ok(())
}

fn ops_of(ty: &TypeLayout) -> Vec<Op> {
    let mut ops = Vec::new();
    compile(ty, 0, &mut ops);
    ops
}

/// Appends what is to be looked at in a value of `ty`, `at` so many bytes.
fn compile(ty: &TypeLayout, at: u64, ops: &mut Vec<Op>) {
    let all = |fields: &[FieldLayout], ops: &mut Vec<Op>| {
        fields.iter().for_each(|field| compile(&field.ty, at + field.offset, ops));
    };
    match &ty.shape {
        Shape::Ptr { to, nullable } => ops.push(Op::Ptr { at, to: *to, nullable: *nullable }),
        Shape::Prim(Prim::Bool) => ops.push(Op::Bool { at }),
        Shape::Prim(Prim::Char) => ops.push(Op::Char { at }),
        Shape::Prim(_) | Shape::Slice(_) | Shape::Str => {}
        Shape::Struct(fields) => {
            // A collection's buffers are looked at together with it.
            match Rule::of(ty) {
                Some(rule) => ops.push(Op::Own { at, rule }),
                None => all(fields, ops),
            }
            let key = own_key(ty).and_then(|key| fields.iter().find(|field| field.name == key));
            if let Some(key) = key {
                own(ops, at + key.offset);
            }
        }
        Shape::Array { elem, len } => {
            let of_elem = ops_of(elem);
            if !of_elem.is_empty() && *len > 0 {
                ops.push(Op::Repeat { at, stride: elem.size, len: *len, ops: of_elem });
            }
        }
        Shape::Slot(of) => {
            let ops_of = ops_of(of);
            if !ops_of.is_empty() {
                ops.push(Op::Slot { at, size: of.size, ops: ops_of });
            }
        }
        Shape::Enum { tag, variants } => {
            let mut list: Vec<(i128, Vec<Op>)> = variants
                .iter()
                .map(|variant| {
                    let mut ops = Vec::new();
                    all(&variant.fields, &mut ops);
                    (variant.tag, ops)
                })
                .collect();
            list.sort_unstable_by_key(|(tag, _)| *tag);
            ops.push(Op::Enum { at, tag: *tag, variants: list });
        }
    }
}

/// The pointer at byte `at` is the only one to its target.
fn own(ops: &mut [Op], at: u64) {
    for op in ops {
        match *op {
            Op::Ptr { at: here, to, .. } if here == at => *op = Op::OwnedPtr { at, to },
            Op::Slot { at: here, ref mut ops, .. } if here == at => own(ops, 0),
            _ => {}
        }
    }
}

/// What has the tag in a list by tag.
#[inline]
pub(super) fn variant<T>(variants: &[(i128, T)], tag: i128) -> Option<&T> {
    // Most enums count from 0.
    match usize::try_from(tag).ok().and_then(|tag| variants.get(tag)) {
        Some((found, variant)) if found.cmp(&tag) == Ordering::Equal => Some(variant),
        _ => variants.binary_search_by_key(&tag, |(tag, _)| *tag).ok().map(|at| &variants[at].1),
    }
}

/// Whether a value of `target` lies at byte `at` of a value of `ty`, whatever the value is: that is, not in a variant of an enum,
/// which may become another one.
pub(super) fn holds(ty: &TypeLayout, at: u64, target: &TypeLayout) -> bool {
    if at == 0 && ty == target {
        return true;
    }
    match &ty.shape {
        Shape::Array { elem, .. } if elem.size > 0 && at < ty.size => holds(elem, at % elem.size, target),
        Shape::Struct(fields) => fields.iter().any(|field| {
            (field.offset..field.offset + field.ty.size).contains(&at)
                && holds(&field.ty, at - field.offset, target)
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prim(prim: Prim) -> TypeLayout {
        let size = size_of_prim(prim);
        TypeLayout { name: prim.name().to_owned(), size, align: size.max(1), shape: Shape::Prim(prim) }
    }

    fn field(name: &str, offset: u64, ty: TypeLayout) -> FieldLayout {
        FieldLayout { name: name.to_owned(), offset, ty }
    }

    fn record(size: u64, align: u64, fields: Vec<FieldLayout>) -> TypeLayout {
        TypeLayout { name: "Record".to_owned(), size, align, shape: Shape::Struct(fields) }
    }

    fn array(elem: TypeLayout, len: u64) -> TypeLayout {
        let (size, align) = (elem.size.wrapping_mul(len), elem.align);
        TypeLayout {
            name: "array".to_owned(),
            size,
            align,
            shape: Shape::Array { elem: Box::new(elem), len },
        }
    }

    #[test]
    fn impossible_layouts_are_refused() {
        let good = record(16, 8, vec![field("a", 0, prim(Prim::U64)), field("b", 8, prim(Prim::Bool))]);
        assert!(Plan::of(&good).is_ok());
        let slice = |elem: TypeLayout| TypeLayout {
            name: "slice".to_owned(),
            size: 0,
            align: elem.align,
            shape: Shape::Slice(Box::new(elem)),
        };
        let bad = [
            record(12, 8, vec![]),
            record(8, 3, vec![]),
            record(8, 8, vec![field("outside", 8, prim(Prim::U64))]),
            record(16, 8, vec![field("unaligned", 4, prim(Prim::U64))]),
            record(16, 4, vec![field("aligned better than the struct", 0, prim(Prim::U64))]),
            record(16, 8, vec![field("a", 0, prim(Prim::U64)), field("upon a", 4, prim(Prim::U32))]),
            record(8, 8, vec![field("wraps", u64::MAX - 7, prim(Prim::U64))]),
            record(8, 8, vec![field("no size", 0, slice(prim(Prim::U8)))]),
            TypeLayout { size: 16, ..array(prim(Prim::U64), 3) },
            TypeLayout { size: 0, ..array(prim(Prim::U64), 1 << 61) },
            TypeLayout { size: 4, ..prim(Prim::U64) },
            TypeLayout { size: 8, ..slice(prim(Prim::U64)) },
            slice(slice(prim(Prim::U64))),
        ];
        for ty in bad {
            assert!(Plan::of(&ty).is_err(), "{ty:?}");
        }
    }

    #[test]
    fn variants_are_found_by_their_tag() {
        let counted = [(0, 'a'), (1, 'b')];
        assert_eq!(
            [0, 1, 2, -1].map(|tag| variant(&counted, tag).copied()),
            [Some('a'), Some('b'), None, None]
        );
        let other = [(-5, 'a'), (1, 'b'), (700, 'c')];
        let found = [-5, 0, 1, 2, 700].map(|tag| variant(&other, tag).copied());
        assert_eq!(found, [Some('a'), None, Some('b'), None, Some('c')]);
    }

    #[test]
    fn values_lie_in_values() {
        let inner = record(16, 8, vec![field("x", 0, prim(Prim::U64)), field("y", 8, prim(Prim::U32))]);
        let outer =
            record(40, 8, vec![field("a", 0, prim(Prim::U64)), field("b", 8, array(inner.clone(), 2))]);
        assert!(holds(&outer, 0, &outer) && holds(&outer, 0, &prim(Prim::U64)));
        assert!(holds(&outer, 8, &inner) && holds(&outer, 24, &inner) && holds(&outer, 32, &prim(Prim::U32)));
        assert!(
            !holds(&outer, 16, &inner) && !holds(&outer, 40, &inner) && !holds(&outer, 4, &prim(Prim::U32))
        );
    }
}
