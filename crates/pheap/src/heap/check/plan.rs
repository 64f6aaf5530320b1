//! What to look at in an object, compiled from the layout of its type, once that layout has been found [possible](check_layout).

use std::cmp::Ordering;

use super::rule::{Rule, is_frozen, is_not_zero, own_key};
use crate::layout::desc::Prim;
use crate::layout::{FieldLayout, Shape, TypeLayout, check_layout, slice_header};

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
    /// Some of `size` bytes is not zero.
    NotZero {
        at: u64,
        size: u64,
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
    /// See [`Promise::Frozen`](super::rule::Promise::Frozen).
    FrozenPtr {
        at: u64,
        to: u32,
    },
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
    /// The plan for a type of a list, or what is wrong with its layout.
    pub(super) fn of(ty: &TypeLayout, types: &[TypeLayout]) -> Result<Plan, String> {
        check_layout(ty, &|to| types.get(to as usize).map(|ty| ty.name.as_str()))?;
        let parts = match &ty.shape {
            Shape::Slice(elem) => {
                Parts::Slice { header: header_of(elem), stride: elem.size, ops: ops_of(elem) }
            }
            Shape::Str => Parts::Str,
            _ => Parts::Sized(ops_of(ty)),
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
            let first = ops.len();
            // A collection's buffers are looked at together with it.
            match Rule::of(ty) {
                Some(rule) => ops.push(Op::Own { at, rule }),
                None => all(fields, ops),
            }
            let key = own_key(ty).and_then(|key| fields.iter().find(|field| field.name == key));
            if let Some(key) = key {
                own(ops, at + key.offset);
            }
            if is_frozen(ty) {
                freeze(&mut ops[first..]);
            }
            if is_not_zero(ty) {
                ops.push(Op::NotZero { at, size: ty.size });
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

/// Nobody writes what these pointers lead to: those of keys and values, not those to other nodes, which are in variants.
fn freeze(ops: &mut [Op]) {
    for op in ops {
        match *op {
            Op::Ptr { at, to, .. } => *op = Op::FrozenPtr { at, to },
            Op::Repeat { ref mut ops, .. } => freeze(ops),
            _ => {}
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
    use crate::layout::prim_layout;

    fn prim(prim: Prim) -> TypeLayout {
        let (size, align) = prim_layout(prim);
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
        TypeLayout {
            name: "array".to_owned(),
            size,
            align,
            shape: Shape::Array { elem: Box::new(elem), len },
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
