//! Compiles the checks for the objects of a type from its layout, once that layout has been found
//! [possible](check_layout).

use super::rule::{CollectionRule, TypePromise, named, promise_of};
use crate::layout::desc::Prim;
use crate::layout::{FieldLayout, Shape, TypeLayout, VariantLayout, check_layout, slice_header};

/// The checks for objects of a type.
#[derive(Debug)]
pub(super) struct CheckPlan {
    pub(super) align: u64,
    /// The least size of an object in bytes: the size of a value, or that of the part before the elements of
    /// a slice or string.
    pub(super) least: u64,
    /// Bytes of an element; `None` if the type is not a slice or string.
    pub(super) stride: Option<u64>,
    pub(super) is_text: bool,
    /// The checks for the value, or for each element of a slice.
    pub(super) ops: Vec<PartCheck>,
}

/// One check, of the part at byte `at`.
#[derive(Debug)]
pub(super) struct PartCheck {
    pub(super) at: u64,
    pub(super) look: CheckKind,
}

#[derive(Debug)]
pub(super) enum CheckKind {
    Ptr {
        to: u32,
        nullable: bool,
    },
    /// A pointer whose target is never written: see [`TypePromise::Frozen`].
    FrozenPtr(u32),
    /// A pointer that must be the only one to its target.
    OwnedPtr(u32),
    Bool,
    Char,
    /// A number of bytes, of which at least one must not be zero.
    NotZero(u64),
    /// The checks of each variant, in ascending order of the tags.
    Enum {
        tag: Prim,
        variants: Vec<(i128, Vec<PartCheck>)>,
    },
    Repeat {
        stride: u64,
        len: u64,
        ops: Vec<PartCheck>,
    },
    /// A collection, whose nodes are checked by this rule.
    Own(CollectionRule),
    /// A slot: nothing is checked if all `size` bytes are zero.
    Slot {
        size: u64,
        ops: Vec<PartCheck>,
    },
}

impl CheckPlan {
    /// Compiles the plan for `ty`, which is one of `types`. The error describes a wrong layout.
    pub(super) fn compile(ty: &TypeLayout, types: &[TypeLayout]) -> Result<CheckPlan, String> {
        check_layout(ty, &|to| types.get(to as usize).map(|ty| ty.name.as_str()))?;
        let (least, stride, ops) = match &ty.shape {
            Shape::Slice(elem) => (header_of(elem), Some(elem.size), ops_of(elem)),
            Shape::Str => (8, Some(1), Vec::new()),
            _ => (ty.size, None, ops_of(ty)),
        };
        Ok(CheckPlan { align: ty.align, least, stride, is_text: ty.shape == Shape::Str, ops })
    }
}

/// Returns the bytes before the elements of a slice.
pub(super) fn header_of(elem: &TypeLayout) -> u64 {
    slice_header(elem.align as usize) as u64
}

fn ops_of(ty: &TypeLayout) -> Vec<PartCheck> {
    let mut ops = Vec::new();
    compile(ty, 0, &mut ops);
    ops
}

/// Appends the checks for a value of `ty` at byte `at`.
fn compile(ty: &TypeLayout, at: u64, ops: &mut Vec<PartCheck>) {
    let all = |fields: &[FieldLayout], at: u64, ops: &mut Vec<PartCheck>| {
        fields.iter().for_each(|field| compile(&field.ty, at + field.offset, ops));
    };
    let look = match &ty.shape {
        Shape::Ptr { to, nullable } => CheckKind::Ptr { to: *to, nullable: *nullable },
        Shape::Prim(Prim::Bool) => CheckKind::Bool,
        Shape::Prim(Prim::Char) => CheckKind::Char,
        Shape::Prim(_) | Shape::Slice(_) | Shape::Str => return,
        Shape::Struct(fields) => {
            let first = ops.len();
            // The nodes of a collection are checked together with the collection, by its rule.
            match CollectionRule::from_layout(ty) {
                Some(rule) => ops.push(PartCheck { at, look: CheckKind::Own(rule) }),
                None => all(fields, at, ops),
            }
            match promise_of(ty) {
                Some(TypePromise::Key(key)) => {
                    named(fields, key).into_iter().for_each(|key| own(ops, at + key.offset));
                }
                Some(TypePromise::Frozen) => freeze(&mut ops[first..]),
                // Values without bytes are skipped: a forged heap could have more of them than can be
                // visited.
                Some(TypePromise::NotZero) if ty.size > 0 => {
                    ops.push(PartCheck { at, look: CheckKind::NotZero(ty.size) })
                }
                Some(TypePromise::NotZero | TypePromise::Collection(_) | TypePromise::Nothing) | None => {}
            }
            return;
        }
        Shape::Array { elem, len } => {
            let of_elem = ops_of(elem);
            if of_elem.is_empty() || *len == 0 {
                return;
            }
            CheckKind::Repeat { stride: elem.size, len: *len, ops: of_elem }
        }
        Shape::Slot(of) => {
            let of_value = ops_of(of);
            if of_value.is_empty() {
                return;
            }
            CheckKind::Slot { size: of.size, ops: of_value }
        }
        Shape::Enum { tag, variants } => {
            let ops_of = |variant: &VariantLayout| {
                let mut ops = Vec::new();
                all(&variant.fields, 0, &mut ops);
                (variant.tag, ops)
            };
            let mut list: Vec<(i128, Vec<PartCheck>)> = variants.iter().map(ops_of).collect();
            list.sort_unstable_by_key(|(tag, _)| *tag);
            CheckKind::Enum { tag: *tag, variants: list }
        }
    };
    ops.push(PartCheck { at, look });
}

/// Marks the pointers of a [frozen](TypePromise::Frozen) type, such as those in the keys and values of a
/// node, as pointers to objects that are never written. Pointers to nodes are in enum variants, and are not
/// marked.
fn freeze(ops: &mut [PartCheck]) {
    for op in ops {
        match &mut op.look {
            CheckKind::Ptr { to, .. } => op.look = CheckKind::FrozenPtr(*to),
            CheckKind::Repeat { ops, .. } => freeze(ops),
            _ => {}
        }
    }
}

/// Marks the pointer at byte `at` as the only one to its target.
fn own(ops: &mut [PartCheck], at: u64) {
    for op in ops.iter_mut().filter(|op| op.at == at) {
        match &mut op.look {
            CheckKind::Ptr { to, .. } => op.look = CheckKind::OwnedPtr(*to),
            CheckKind::Slot { ops, .. } => own(ops, 0),
            _ => {}
        }
    }
}

/// Returns whether there is a value of `target` at byte `at` of each value of `ty`. Variants of enums do not
/// count, because the value may become another variant.
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
        TypeLayout {
            name: "array".to_owned(),
            size,
            align,
            shape: Shape::Array { elem: Box::new(elem), len },
        }
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
