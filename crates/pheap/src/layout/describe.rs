//! Layouts as text, for people.

use std::fmt::{self, Write};

use super::graph::{FieldLayout, Shape, TypeLayout};

/// The layout as one line, pointers by the name of their target. It does not say everything: types are [compared](super::difference) as what they are.
pub(crate) fn describe(ty: &TypeLayout, types: &[TypeLayout]) -> String {
    format!("{}, {} bytes, aligned to {}", text_of(ty, types), ty.size, ty.align)
}

/// The same without size and alignment.
pub(super) fn text_of(ty: &TypeLayout, types: &[TypeLayout]) -> String {
    let mut out = String::new();
    write_type(&mut out, ty, types).expect("a String takes all that is written");
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
