//! Formats layouts as text, for messages.

use super::graph::{FieldLayout, Shape, TypeLayout, VariantLayout};

/// Formats a layout as one line. Pointers are shown by the name of their target, so the text does not have
/// everything: types are [compared](super::difference) by their structure.
pub(crate) fn describe(ty: &TypeLayout, types: &[TypeLayout]) -> String {
    format!("{}, {} bytes, aligned to {}", text_of(ty, types), ty.size, ty.align)
}

/// Formats a layout without size and alignment.
pub(super) fn text_of(ty: &TypeLayout, types: &[TypeLayout]) -> String {
    match &ty.shape {
        Shape::Prim(prim) => prim.name().to_owned(),
        Shape::Str => "str".to_owned(),
        Shape::Array { elem, len } => format!("[{}; {len}]", text_of(elem, types)),
        Shape::Slice(elem) => format!("[{}]", text_of(elem, types)),
        Shape::Slot(of) => format!("Slot<{}>", text_of(of, types)),
        Shape::Ptr { nullable, to } => {
            let target = types.get(*to as usize).map_or("?", |ty| ty.name.as_str());
            if *nullable { format!("Option<P<{target}>>") } else { format!("P<{target}>") }
        }
        Shape::Struct(fields) => format!("{} {}", ty.name, fields_of(fields, types)),
        Shape::Enum { tag, variants } => {
            let variant = |v: &VariantLayout| match &v.fields[..] {
                [] => format!(" {} = {}", v.name, v.tag),
                fields => format!(" {} = {} {}", v.name, v.tag, fields_of(fields, types)),
            };
            format!("{}: {} {{{} }}", ty.name, tag.name(), listed(variants, variant))
        }
    }
}

fn fields_of(fields: &[FieldLayout], types: &[TypeLayout]) -> String {
    let field = |f: &FieldLayout| format!(" {}: {} @{}", f.name, text_of(&f.ty, types), f.offset);
    format!("{{{} }}", listed(fields, field))
}

fn listed<T>(parts: &[T], text: impl Fn(&T) -> String) -> String {
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}
