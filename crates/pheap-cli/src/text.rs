//! Values as short texts: keys, summaries and descriptions.

use std::fmt::Write;

use pheap::Value;

use crate::print::is_scalar;

/// Returns an offset in hexadecimal.
pub fn hex(offset: u64) -> String {
    format!("{offset:#x}")
}

/// Returns bytes as text if they are UTF-8 without control characters other than tabs and line ends.
/// Otherwise returns their hexadecimal digits as the error.
pub fn of_bytes(bytes: &[u8]) -> Result<&str, String> {
    let is_plain = |text: &&str| !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r'));
    std::str::from_utf8(bytes).ok().filter(is_plain).ok_or_else(|| {
        bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut digits, byte| {
            let _ = write!(digits, "{byte:02x}");
            digits
        })
    })
}

/// Returns a key of a map as text, as it is written in a path, or as the name of a member of a JSON object.
pub fn key_text(key: &Value<'_>) -> String {
    match key {
        Value::Str(text) => (*text).to_owned(),
        Value::Bytes(bytes) => of_bytes(bytes).map_or_else(|digits| format!("0x{digits}"), str::to_owned),
        Value::Char(c) => c.to_string(),
        Value::Enum(name, fields) if fields.len() == 0 => (*name).to_owned(),
        Value::Pointer(pointer) => match pointer.target() {
            Ok(Some(target)) => match target.value() {
                Value::Pointer(_) => hex(target.offset()),
                value => key_text(&value),
            },
            _ => "?".to_owned(),
        },
        other => brief(other, usize::MAX),
    }
}

/// Returns a value as a text of about `most` bytes, similar to JSON. Of the objects that the value points to,
/// only texts are included.
pub fn brief(value: &Value<'_>, most: usize) -> String {
    let mut text = String::new();
    write_brief(&mut text, value, most, 0);
    text
}

const NESTED: u32 = 16;

fn write_brief(out: &mut String, value: &Value<'_>, most: usize, depth: u32) {
    if out.len() > most || depth > NESTED {
        out.push('…');
        return;
    }
    let mut list = |brackets: [&str; 2], members: &mut dyn Iterator<Item = (Option<String>, Value<'_>)>| {
        out.push_str(brackets[0]);
        for (i, (key, member)) in members.enumerate() {
            out.push_str(if i > 0 { "," } else { "" });
            if out.len() > most {
                out.push('…');
                break;
            }
            if let Some(key) = key {
                let _ = write!(out, "{}:", quoted(&key, most));
            }
            write_brief(out, &member, most, depth + 1);
        }
        out.push_str(brackets[1]);
    };
    match value {
        Value::Unit | Value::Null => out.push_str("null"),
        Value::Bool(b) => drop(write!(out, "{b}")),
        Value::Unsigned(n) => drop(write!(out, "{n}")),
        Value::Signed(n) => drop(write!(out, "{n}")),
        Value::F32(x) => drop(write!(out, "{x:?}")),
        Value::F64(x) => drop(write!(out, "{x:?}")),
        Value::Char(c) => out.push_str(&quoted(&c.to_string(), most)),
        Value::Str(text) => out.push_str(&quoted(text, most)),
        Value::Bytes(bytes) => {
            let most_bytes = &bytes[..bytes.len().min(most)];
            match of_bytes(most_bytes) {
                Ok(text) => out.push_str(&quoted(text, most)),
                Err(digits) => out.push_str(&quoted(&format!("0x{digits}"), most)),
            }
        }
        Value::Pointer(pointer) => match pointer.target() {
            Ok(Some(target)) if target.is_text() => write_brief(out, &target.value(), most, depth + 1),
            Ok(Some(target)) => drop(write!(out, "→{}", short(target.type_name()))),
            Ok(None) => out.push_str("null"),
            Err(why) => drop(write!(out, "invalid: {why}")),
        },
        Value::Struct(fields) => {
            list(["{", "}"], &mut fields.clone().map(|field| (Some(field.name.to_owned()), field.value)))
        }
        Value::Enum(name, fields) if fields.len() == 0 => out.push_str(&quoted(name, most)),
        Value::Enum(name, fields) => {
            let _ = write!(out, "{{{}:", quoted(name, most));
            write_brief(out, &Value::Struct(fields.clone()), most, depth + 1);
            out.push('}');
        }
        Value::List(elements) => list(["[", "]"], &mut elements.clone().map(|element| (None, element))),
        Value::Set(entries) => list(["[", "]"], &mut entries.clone().map(|entry| (None, entry.key))),
        Value::Map(entries) => {
            list(["{", "}"], &mut entries.clone().map(|entry| (Some(key_text(&entry.key)), entry.value)))
        }
        Value::Invalid(why) => drop(write!(out, "invalid: {why}")),
        _ => out.push('?'),
    }
}

fn quoted(text: &str, most: usize) -> String {
    if text.len() <= most {
        return serde_json::Value::from(text).to_string();
    }
    let end = (0..=most).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    serde_json::Value::from(format!("{}…", &text[..end])).to_string()
}

/// Returns the name of a type without each `pheap::` in it.
pub fn short(type_name: &str) -> String {
    type_name.replace("pheap::", "")
}

/// Describes a value for a message, such as: a `PHashMap<u64, Job>` of 3 entries.
pub fn kind(value: &Value<'_>, type_name: &str) -> String {
    let name = short(type_name);
    let some = |n: u64, one: &str, more: &str| format!("{n} {}", if n == 1 { one } else { more });
    match value {
        Value::Null => format!("null (a `{name}`)"),
        Value::Str(text) => format!("a text of {}", some(text.len() as u64, "byte", "bytes")),
        Value::Bytes(bytes) => some(bytes.len() as u64, "byte", "bytes"),
        Value::List(elements) => {
            format!("a `{name}` of {}", some(elements.len() as u64, "element", "elements"))
        }
        Value::Map(entries) => format!("a `{name}` of {}", some(entries.left(), "entry", "entries")),
        Value::Set(entries) => format!("a `{name}` of {}", some(entries.left(), "element", "elements")),
        Value::Struct(_) => format!("a struct `{name}`"),
        Value::Enum(variant, _) => format!("the variant `{variant}` of `{name}`"),
        Value::Invalid(why) => format!("invalid: it {why}"),
        value if is_scalar(value) => format!("a `{name}`, {}", brief(value, 40)),
        _ => format!("a `{name}`"),
    }
}
