//! Encodes layouts as bytes, for the type table.
//!
//! One byte gives the kind; numbers are LEB128; strings begin with their length.

use super::desc::Prim;
use super::graph::{FieldLayout, MAX_DEPTH, Shape, TypeLayout, VariantLayout};
use super::names::{is_identifier, is_type_name};
use crate::error::{Error, Result};

const ARRAY: u8 = 32;
const PTR: u8 = 33;
const PTR_NULLABLE: u8 = 34;
const STRUCT: u8 = 35;
const ENUM: u8 = 36;
const SLICE: u8 = 37;
const STR: u8 = 38;
const SLOT: u8 = 39;

/// Appends the encoding of `ty` to `out`.
pub(crate) fn encode(ty: &TypeLayout, out: &mut Vec<u8>) {
    encode_as(ty, out, &|to| to);
}

/// Appends the encoding of `ty` to `out`, with the targets of its pointers renumbered.
pub(crate) fn encode_as(ty: &TypeLayout, out: &mut Vec<u8>, renumber: &impl Fn(u32) -> u32) {
    string(out, &ty.name);
    number(out, ty.size as u128);
    number(out, ty.align as u128);
    match &ty.shape {
        Shape::Prim(prim) => out.push(*prim as u8),
        Shape::Array { elem, len } => {
            out.push(ARRAY);
            number(out, *len as u128);
            encode_as(elem, out, renumber);
        }
        Shape::Ptr { nullable, to } => {
            out.push(if *nullable { PTR_NULLABLE } else { PTR });
            number(out, renumber(*to) as u128);
        }
        Shape::Struct(list) => {
            out.push(STRUCT);
            fields(out, list, renumber);
        }
        Shape::Enum { tag, variants } => {
            out.push(ENUM);
            out.push(*tag as u8);
            number(out, variants.len() as u128);
            for variant in variants {
                string(out, &variant.name);
                number(out, variant.tag as u128);
                fields(out, &variant.fields, renumber);
            }
        }
        Shape::Slice(elem) => {
            out.push(SLICE);
            encode_as(elem, out, renumber);
        }
        Shape::Str => out.push(STR),
        Shape::Slot(of) => {
            out.push(SLOT);
            encode_as(of, out, renumber);
        }
    }
}

fn fields(out: &mut Vec<u8>, list: &[FieldLayout], renumber: &impl Fn(u32) -> u32) {
    number(out, list.len() as u128);
    for field in list {
        string(out, &field.name);
        number(out, field.offset as u128);
        encode_as(&field.ty, out, renumber);
    }
}

fn number(out: &mut Vec<u8>, mut n: u128) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn string(out: &mut Vec<u8>, s: &str) {
    number(out, s.len() as u128);
    out.extend_from_slice(s.as_bytes());
}

/// Decodes one layout at the front of `bytes`, and removes it from there.
pub(crate) fn decode(bytes: &mut &[u8]) -> Result<TypeLayout> {
    let mut decoder = Decoder { bytes, no_name: None };
    let ty = decoder.ty(0);
    ty.ok_or_else(|| match decoder.no_name {
        Some(name) => Error::corrupt(format!(
            "a record of the type table has the name {name:?}, with characters that no id has; if an earlier version of pheap has written it, that one can open the heap, and \
             migrate it to types with other ids"
        )),
        None => Error::corrupt("a record of the type table is malformed"),
    })
}

struct Decoder<'a, 'b> {
    bytes: &'a mut &'b [u8],
    /// The text that was found in place of a type's name, if it cannot be the name of a type.
    no_name: Option<String>,
}

impl Decoder<'_, '_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        *self.bytes = rest;
        Some(first)
    }

    fn number(&mut self) -> Option<u128> {
        let mut n = 0u128;
        for shift in (0..128).step_by(7) {
            let byte = self.byte()?;
            n |= u128::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(n);
            }
        }
        None
    }

    fn u64(&mut self) -> Option<u64> {
        self.number()?.try_into().ok()
    }

    /// Reads a count of parts, each of which takes at least a byte. Returns `None` if fewer bytes are left.
    fn count(&mut self) -> Option<usize> {
        let n = usize::try_from(self.number()?).ok()?;
        (n <= self.bytes.len()).then_some(n)
    }

    fn string(&mut self) -> Option<String> {
        let len = self.count()?;
        let (text, rest) = self.bytes.split_at_checked(len)?;
        *self.bytes = rest;
        Some(std::str::from_utf8(text).ok()?.to_owned())
    }

    fn type_name(&mut self) -> Option<String> {
        let name = self.string()?;
        if is_type_name(&name) {
            return Some(name);
        }
        self.no_name = Some(name.chars().take(100).collect());
        None
    }

    fn identifier(&mut self) -> Option<String> {
        self.string().filter(|name| is_identifier(name))
    }

    fn prim(&mut self) -> Option<Prim> {
        Prim::ALL.get(self.byte()? as usize).copied()
    }

    fn fields(&mut self, depth: u32) -> Option<Vec<FieldLayout>> {
        (0..self.count()?)
            .map(|_| Some(FieldLayout { name: self.identifier()?, offset: self.u64()?, ty: self.ty(depth)? }))
            .collect()
    }

    fn ty(&mut self, depth: u32) -> Option<TypeLayout> {
        if depth > MAX_DEPTH {
            return None;
        }
        let (name, size, align) = (self.type_name()?, self.u64()?, self.u64()?);
        let shape = match self.byte()? {
            ARRAY => Shape::Array { len: self.u64()?, elem: Box::new(self.ty(depth + 1)?) },
            PTR => Shape::Ptr { nullable: false, to: self.number()?.try_into().ok()? },
            PTR_NULLABLE => Shape::Ptr { nullable: true, to: self.number()?.try_into().ok()? },
            STRUCT => Shape::Struct(self.fields(depth + 1)?),
            ENUM => {
                let tag = self.prim()?;
                let variants = (0..self.count()?)
                    .map(|_| {
                        Some(VariantLayout {
                            name: self.identifier()?,
                            tag: self.number()? as i128,
                            fields: self.fields(depth + 1)?,
                        })
                    })
                    .collect::<Option<_>>()?;
                Shape::Enum { tag, variants }
            }
            SLICE => Shape::Slice(Box::new(self.ty(depth + 1)?)),
            STR => Shape::Str,
            SLOT => Shape::Slot(Box::new(self.ty(depth + 1)?)),
            code => Shape::Prim(*Prim::ALL.get(code as usize)?),
        };
        Some(TypeLayout { name, size, align, shape })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Layouts of all kinds, most of them impossible: decoding does not check that.
    pub(in crate::layout) fn any_layout() -> impl Strategy<Value = TypeLayout> {
        let name = || "[a-z]{1,9}";
        let number = || prop_oneof![0..70u64, any::<u64>(), Just(u64::MAX), (0..64u32).prop_map(|n| 1 << n)];
        let prim = || prop::sample::select(Prim::ALL.to_vec());
        let leaf = prop_oneof![
            prim().prop_map(Shape::Prim),
            (any::<bool>(), any::<u32>()).prop_map(|(nullable, to)| Shape::Ptr { nullable, to }),
            Just(Shape::Str),
        ];
        let whole = move |shape: BoxedStrategy<Shape>| {
            (name(), number(), number(), shape).prop_map(|(name, size, align, shape)| TypeLayout {
                name,
                size,
                align,
                shape,
            })
        };
        whole(leaf.boxed()).prop_recursive(5, 40, 5, move |inner| {
            let field = (name(), number(), inner.clone()).prop_map(|(name, offset, ty)| FieldLayout {
                name,
                offset,
                ty,
            });
            let fields = prop::collection::vec(field, 0..5);
            let variant = (name(), prop_oneof![-2..4i128, any::<i128>()], fields.clone())
                .prop_map(|(name, tag, fields)| VariantLayout { name, tag, fields });
            let shape = prop_oneof![
                (inner.clone(), number()).prop_map(|(elem, len)| Shape::Array { elem: Box::new(elem), len }),
                inner.clone().prop_map(|elem| Shape::Slice(Box::new(elem))),
                inner.prop_map(|of| Shape::Slot(Box::new(of))),
                fields.prop_map(Shape::Struct),
                (prim(), prop::collection::vec(variant, 0..4))
                    .prop_map(|(tag, variants)| Shape::Enum { tag, variants }),
            ];
            whole(shape.boxed())
        })
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(ty in any_layout()) {
            let mut bytes = Vec::new();
            encode(&ty, &mut bytes);
            let mut rest = bytes.as_slice();
            prop_assert_eq!(decode(&mut rest).unwrap(), ty);
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn what_has_no_name_is_told(name in "[a-z]{1,9}[ (]", ty in any_layout()) {
            let mut bytes = Vec::new();
            encode(&TypeLayout { name: name.clone(), ..ty }, &mut bytes);
            let told = decode(&mut bytes.as_slice()).unwrap_err().to_string();
            prop_assert!(told.contains(&name), "{}", told);
        }

        #[test]
        fn any_bytes_are_an_error_or_a_layout(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&mut bytes.as_slice());
        }
    }
}
