//! Paths to values in a heap, such as `jobs.queue[42].state`.

use std::borrow::Cow;

use pheap::{Entries, Object, Objects, Pointer, Value};

use crate::text::{key_text, kind, short};
use crate::{Failure, Result};

pub const HELP: &str = r#"Paths:
  jobs                 the root of that name; it may be left out if there is only one, as in `.state`
  .state               a field of a struct, or of the variant that an enum has; the value of a key
  [42], [-1]           an element of a list: from 0 on, or from its end
  [2..5]               some elements
  [42], ["a b"]        the value of a key of a map; a key that is no text, number, bool or variant is written as JSON
  [*]                  each element, or each value of a map
  ..len                how many there are, or bytes of a text
  ..keys               the keys of a map, the fields of a struct
  ..type, ..offset     the type; where the object is in the file
Pointers are followed, and `Some` is what is in it."#;

/// A step of a path.
#[derive(Debug, Clone, PartialEq)]
pub enum PathStep {
    Field(String),
    /// A key or an index, in brackets.
    Key(PathKey),
    Range(i128, i128),
    All,
    Len,
    Keys,
    Type,
    Offset,
}

#[derive(Debug, Clone, PartialEq)]
pub enum PathKey {
    /// A key that is a text in quotes.
    Text(String),
    /// A key or index without quotes: a number, `true`, a word, a variant, or JSON.
    Plain(String),
}

impl PathKey {
    fn text(&self) -> &str {
        match self {
            PathKey::Text(text) | PathKey::Plain(text) => text,
        }
    }
}

/// Returns the root that a path begins with, or the only root, and the steps behind it.
pub fn parse(path: &str, roots: &[&str]) -> Result<(String, Vec<PathStep>)> {
    let begins = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
    let root = roots
        .iter()
        .filter(|root| path.strip_prefix(**root).is_some_and(begins))
        .max_by_key(|root| root.len());
    let (root, rest) = match (root, roots) {
        (Some(root), _) => (*root, &path[root.len()..]),
        (None, [only]) if begins(path) => (*only, path),
        _ => {
            let first = path.split(['.', '[']).next().unwrap_or_default();
            let names = listed(roots.iter().map(|root| format!("{root:?}")));
            return Err(Failure::Other(match nearest(first, roots) {
                _ if roots.is_empty() => "the heap has no roots".to_owned(),
                _ if first.is_empty() => format!("the path must begin with a root: {names}"),
                Some(near) => format!("there is no root {first:?}; is it {near:?}?"),
                None => format!("there is no root {first:?}; there are {names}"),
            }));
        }
    };
    let steps = steps(rest).map_err(|what| Failure::Other(format!("in the path `{path}`: {what}")))?;
    Ok((root.to_owned(), steps))
}

fn steps(mut rest: &str) -> Result<Vec<PathStep>, String> {
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("..") {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            steps.push(match &after[..end] {
                "len" => PathStep::Len,
                "keys" => PathStep::Keys,
                "type" => PathStep::Type,
                "offset" => PathStep::Offset,
                other => {
                    return Err(format!(
                        "there is no `..{other}`; there are `..len`, `..keys`, `..type` and `..offset`"
                    ));
                }
            });
            rest = &after[end..];
        } else if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            if end == 0 {
                return Err("a field or key is missing behind a dot".to_owned());
            }
            steps.push(PathStep::Field(after[..end].to_owned()));
            rest = &after[end..];
        } else if let Some(after) = rest.strip_prefix('[') {
            let end = closing(after).ok_or("a `]` is missing")?;
            steps.push(bracket(after[..end].trim())?);
            rest = &after[end + 1..];
        } else {
            return Err(format!("`.` or `[` was expected before `{rest}`"));
        }
    }
    Ok(steps)
}

/// Returns the index of the `]` in `text` that closes the bracket before `text`.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '[' | '{' => depth += 1,
            ']' if depth == 0 => return Some(at),
            ']' | '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracket(text: &str) -> Result<PathStep, String> {
    if text == "*" {
        return Ok(PathStep::All);
    }
    if text.is_empty() {
        return Err("an index or a key is missing in `[]`".to_owned());
    }
    if text.starts_with('"') {
        let key =
            serde_json::from_str(text).map_err(|_| format!("{text} is not a text in quotes, as in JSON"))?;
        return Ok(PathStep::Key(PathKey::Text(key)));
    }
    if let Some((from, to)) = text.split_once("..") {
        let bound = |text: &str, else_| if text.is_empty() { Ok(else_) } else { text.trim().parse() };
        let (from, to) = (bound(from, 0), bound(to, i128::MAX));
        if let (Ok(from), Ok(to)) = (from, to) {
            return Ok(PathStep::Range(from, to));
        }
    }
    let is_json = text.starts_with(['{', '[']) && serde_json::from_str::<serde_json::Value>(text).is_ok();
    let plain = if is_json { without_blanks(text) } else { text.to_owned() };
    Ok(PathStep::Key(PathKey::Plain(plain)))
}

/// Returns JSON in the form of printed keys: without blanks between its parts, the members of objects in the
/// given order.
fn without_blanks(json: &str) -> String {
    let (mut quoted, mut escaped) = (false, false);
    let is_part = |c: &char| {
        let is_part = quoted || !c.is_ascii_whitespace();
        quoted ^= *c == '"' && !escaped;
        escaped = *c == '\\' && quoted && !escaped;
        is_part
    };
    json.chars().filter(is_part).collect()
}

/// A value or property that a path leads to.
#[derive(Clone)]
pub enum PathResult<'v> {
    /// A value in the heap, and the name of its type.
    Value(Value<'v>, Cow<'v, str>),
    /// A property of a value: a number or a text.
    About(serde_json::Value),
}

/// Calls `visit` with each result of a path.
pub fn find<'v>(
    objects: &Objects<'v>,
    root: &str,
    steps: &[PathStep],
    visit: &mut dyn FnMut(PathResult<'v>) -> Result<()>,
) -> Result<()> {
    let object = objects.root(root)?;
    let place = PathPlace { value: object.value(), type_name: object.type_name().into(), object };
    place.go(root.to_owned(), steps, visit)
}

/// Returns the result of a path. Fails if there are several or none.
pub fn find_one<'v>(objects: &Objects<'v>, root: &str, steps: &[PathStep]) -> Result<PathResult<'v>> {
    let mut found = None;
    find(objects, root, steps, &mut |this| match found.replace(this) {
        None => Ok(()),
        Some(_) => Err(Failure::Other(
            "the path leads to several values, and this command needs one; use an index or a key instead of \
             `[*]` or a range"
                .to_owned(),
        )),
    })?;
    found.ok_or_else(|| Failure::Other("the path leads to no value".to_owned()))
}

/// A value along a path, and the object that contains it.
#[derive(Clone)]
struct PathPlace<'v> {
    value: Value<'v>,
    type_name: Cow<'v, str>,
    object: Object<'v>,
}

impl<'v> PathPlace<'v> {
    fn go(
        mut self,
        so_far: String,
        steps: &[PathStep],
        visit: &mut dyn FnMut(PathResult<'v>) -> Result<()>,
    ) -> Result<()> {
        let Some((step, rest)) = steps.split_first() else {
            return visit(PathResult::Value(self.value, self.type_name));
        };
        // A chain of pointers to pointers may be a ring, so fewer than 1,000 of them are followed.
        let mut followed = 0;
        while let Value::Pointer(pointer) = &self.value {
            followed += 1;
            match target(pointer).map_err(|why| fail(&so_far, &format!("is invalid: it {why}")))? {
                Some(object) if followed < 1000 => {
                    self = PathPlace { value: object.value(), type_name: object.type_name().into(), object };
                }
                _ => break,
            }
        }
        let what = kind(&self.value, &self.type_name);
        let about = |value: serde_json::Value, visit: &mut dyn FnMut(PathResult<'v>) -> Result<()>| {
            if rest.is_empty() {
                visit(PathResult::About(value))
            } else {
                Err(fail(
                    &so_far,
                    "is followed by `..len`, `..keys`, `..type` or `..offset`, which must be the end of the \
                     path",
                ))
            }
        };
        let put = |value: Value<'v>, type_name: &'v str| PathPlace {
            value,
            type_name: type_name.into(),
            ..self.clone()
        };
        match step {
            PathStep::Type => about(short(&self.type_name).into(), visit),
            PathStep::Offset => about(self.object.offset().into(), visit),
            PathStep::Len => match &self.value {
                Value::List(elements) => about(elements.len().into(), visit),
                Value::Map(entries) | Value::Set(entries) => about(entries.left().into(), visit),
                Value::Str(text) => about(text.len().into(), visit),
                Value::Bytes(bytes) => about(bytes.len().into(), visit),
                _ => Err(fail(&so_far, &format!("is {what}, which has no length"))),
            },
            PathStep::Keys => match self.value.clone() {
                Value::Struct(fields) | Value::Enum(_, fields) => {
                    let mut names = fields.map(|field| field.name.to_owned());
                    names.try_for_each(|name| about(name.into(), visit))
                }
                Value::Map(mut entries) | Value::Set(mut entries) => {
                    entries.try_for_each(|entry| about(key_text(&entry.key).into(), visit))
                }
                _ => Err(fail(&so_far, &format!("is {what}, which has no keys"))),
            },
            PathStep::All => match self.value.clone() {
                Value::List(elements) => {
                    let ty = elements.type_name();
                    for (i, element) in elements.enumerate() {
                        put(element, ty).go(format!("{so_far}[{i}]"), rest, visit)?;
                    }
                    Ok(())
                }
                Value::Map(entries) => {
                    for entry in entries {
                        let here = format!("{so_far}[{}]", key_text(&entry.key));
                        if let Value::Invalid(why) = entry.key {
                            return Err(fail(&so_far, &why));
                        }
                        put(entry.value, entry.type_name).go(here, rest, visit)?;
                    }
                    Ok(())
                }
                Value::Set(entries) => {
                    for entry in entries {
                        let here = format!("{so_far}[{}]", key_text(&entry.key));
                        put(entry.key, "?").go(here, rest, visit)?;
                    }
                    Ok(())
                }
                _ => Err(fail(&so_far, &format!("is {what}, which has no elements"))),
            },
            PathStep::Range(from, to) => match self.value.clone() {
                Value::List(elements) => {
                    let len = elements.len() as i128;
                    let bound = |at: i128| (if at < 0 { at + len } else { at }).clamp(0, len) as usize;
                    let (from, to) = (bound(*from), bound(*to));
                    let ty = elements.type_name();
                    for (element, i) in elements.skip(from).zip(from..to) {
                        put(element, ty).go(format!("{so_far}[{i}]"), rest, visit)?;
                    }
                    Ok(())
                }
                _ => Err(fail(&so_far, &format!("is {what}, which has no ranges"))),
            },
            PathStep::Field(name) => {
                let next = self.field(&so_far, name, &what)?;
                next.go(format!("{so_far}.{name}"), rest, visit)
            }
            PathStep::Key(key) => {
                let next = self.key(&so_far, key, &what)?;
                next.go(format!("{so_far}[{}]", key.text()), rest, visit)
            }
        }
    }

    fn field(&self, so_far: &str, name: &str, what: &str) -> Result<PathPlace<'v>> {
        let (fields, variant) = match &self.value {
            Value::Struct(fields) => (fields, None),
            Value::Enum(variant, fields) => (fields, Some(*variant)),
            Value::Map(entries) => {
                return self.entry(so_far, entries, &PathKey::Plain(name.to_owned()), what);
            }
            Value::List(_) => {
                return Err(fail(so_far, &format!("is {what}; its elements are `{so_far}[0]` and so on")));
            }
            _ => return Err(fail(so_far, &format!("is {what}, which has no field `{name}`"))),
        };
        if variant == Some(name) {
            return Ok(PathPlace { value: Value::Struct(fields.clone()), ..self.clone() });
        }
        let mut all = fields.clone();
        if let Some(field) = all.find(|field| field.name == name) {
            return Ok(PathPlace {
                value: field.value,
                type_name: field.type_name.into(),
                object: self.object,
            });
        }
        let names: Vec<&str> = fields.clone().map(|field| field.name).collect();
        let hint = match nearest(name, &names) {
            Some(near) => format!("; is it `{near}`?"),
            None if names.is_empty() => String::new(),
            None => format!("; it has {}", listed(names.iter().map(|name| format!("`{name}`")))),
        };
        Err(fail(so_far, &format!("is {what}, which has no field `{name}`{hint}")))
    }

    fn key(&self, so_far: &str, key: &PathKey, what: &str) -> Result<PathPlace<'v>> {
        let len = match &self.value {
            Value::List(elements) => elements.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Map(entries) | Value::Set(entries) => return self.entry(so_far, entries, key, what),
            // `["name"]` selects a field whose name a path cannot contain otherwise.
            Value::Struct(_) | Value::Enum(..) => return self.field(so_far, key.text(), what),
            _ => return Err(fail(so_far, &format!("is {what}, which has no elements"))),
        };
        let PathKey::Plain(text) = key else {
            return Err(fail(so_far, &format!("is {what}; its elements have numbers, such as `[0]`")));
        };
        let index: i128 = text.parse().map_err(|_| {
            fail(so_far, &format!("is {what}; its elements have numbers, and `{text}` is none"))
        })?;
        let index = if index < 0 { index + len as i128 } else { index };
        let index = usize::try_from(index).ok().filter(|&index| index < len);
        let index = index.ok_or_else(|| fail(so_far, &format!("is {what}: there is no [{text}]")))?;
        match &self.value {
            Value::List(elements) => {
                let value = elements.clone().nth(index).unwrap_or(Value::Null);
                Ok(PathPlace { value, type_name: elements.type_name().into(), object: self.object })
            }
            Value::Bytes(bytes) => {
                let value = Value::Unsigned(bytes[index].into());
                Ok(PathPlace { value, type_name: "u8".into(), object: self.object })
            }
            _ => Err(fail(so_far, &format!("is {what}, which has no elements"))),
        }
    }

    fn entry(&self, so_far: &str, entries: &Entries<'v>, key: &PathKey, what: &str) -> Result<PathPlace<'v>> {
        let mut some = Vec::new();
        for entry in entries.clone() {
            if let Value::Invalid(why) = &entry.key {
                return Err(fail(so_far, &format!("is a damaged map: it {why}")));
            }
            let text = key_text(&entry.key);
            if text == key.text() {
                return Ok(match &self.value {
                    Value::Set(_) => {
                        PathPlace { value: entry.key, type_name: "?".into(), object: self.object }
                    }
                    _ => PathPlace {
                        value: entry.value,
                        type_name: entry.type_name.into(),
                        object: self.object,
                    },
                });
            }
            if some.len() < 4 {
                some.push(text);
            }
        }
        let such = match some.len() {
            0 => String::new(),
            4 => format!(
                "; there are keys such as {}",
                listed(some.iter().take(3).map(|key| format!("`{key}`")))
            ),
            _ => format!("; there are {}", listed(some.iter().map(|key| format!("`{key}`")))),
        };
        Err(fail(so_far, &format!("is {what}, which has no key `{}`{such}", key.text())))
    }
}

/// Returns the object that a pointer leads to, or the reason why the pointer is invalid.
pub fn target<'v>(pointer: &Pointer<'v>) -> Result<Option<Object<'v>>, String> {
    pointer.target()
}

fn fail(place: &str, what: &str) -> Failure {
    Failure::Other(format!("`{place}` {what}"))
}

fn listed(names: impl Iterator<Item = String>) -> String {
    const MOST: usize = 12;
    let mut names: Vec<String> = names.collect();
    let more = names.len().saturating_sub(MOST);
    names.truncate(MOST);
    let text = names.join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}

/// Returns the most similar name, if it is similar enough to be meant.
fn nearest<'n>(name: &str, names: &[&'n str]) -> Option<&'n str> {
    let near = names.iter().map(|other| (distance(name, other), *other)).min()?;
    (near.0 <= 1 + name.len() / 5).then_some(near.1)
}

/// Returns the least number of characters to insert, remove or replace that turns `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(path: &str) -> (String, Vec<PathStep>) {
        parse(path, &["jobs", "a.b", "a"]).unwrap_or_else(|_| panic!("{path} is a path"))
    }

    #[test]
    fn paths_are_read() {
        let field = |name: &str| PathStep::Field(name.to_owned());
        let key = |key: &str| PathStep::Key(PathKey::Plain(key.to_owned()));
        let text = |key: &str| PathStep::Key(PathKey::Text(key.to_owned()));
        assert_eq!(parsed("jobs"), ("jobs".to_owned(), vec![]));
        assert_eq!(parsed("jobs.all[42].state").1, [field("all"), key("42"), field("state")]);
        assert_eq!(parsed("a.b[\"x ]\\\"\"]..len"), ("a.b".to_owned(), vec![text("x ]\""), PathStep::Len]));
        assert_eq!(parsed("a.c"), ("a".to_owned(), vec![field("c")]));
        assert_eq!(parsed("a[*][-1][1..3]").1, [PathStep::All, key("-1"), PathStep::Range(1, 3)]);
        assert_eq!(parsed("a[{\"x\": [1, 2]}]").1, [key("{\"x\":[1,2]}")]);
        for wrong in ["b", "a.", "a[", "a[]", "a..size", "jobs.x[1]y", ""] {
            assert!(parse(wrong, &["jobs", "a"]).is_err(), "{wrong}");
        }
        assert!(parse(".x", &["only"]).is_ok_and(|(root, _)| root == "only"));
    }

    #[test]
    fn names_are_near() {
        assert_eq!(nearest("stat", &["owner", "state"]), Some("state"));
        assert_eq!(nearest("x", &["owner", "state"]), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
