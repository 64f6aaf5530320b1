//! Whether all values of a type in a heap are values of a type of the program that has changed since: what annotations (`#[persist(was = ..)]`, `#[persist(since = ..)]`) and
//! [`Spare`](crate::Spare) are for.
//!
//! Types are compared as in [`compare`](super::compare), in pairs along each path of pointers, but by the program's own descriptions: these know what names things had.

use std::collections::BTreeSet;

use super::desc::{Desc, Field, History, Kind, Variant};
use super::difference;
use super::graph::{FieldLayout, Graph, Shape, TypeLayout, VariantLayout};

/// The id of [`Spare`](crate::Spare), whose bytes are zero.
const SPARE: &str = "pheap::Spare";

/// Parts of collections, and the fields of them by which these find their entries.
const KEYS: [(&str, &str); 4] = [
    ("pheap::hash::Pair", "key"),
    ("pheap::BTreeEntry", "key"),
    ("pheap::BTreeBranch", "separator"),
    ("pheap::SnapNode", "keys"),
];

/// What the objects of a heap are in the program.
pub(crate) type Accepted = Vec<(u32, &'static Desc)>;

/// What each object that a value of a type in the heap leads to is in the program, if it can be taken for that as it is; else what would help.
pub(crate) fn accept(stored: &[TypeLayout], number: u32, program: &'static Desc) -> Result<Accepted, String> {
    let todo = vec![Pair { old: number, new: program, is_key: false }];
    let mut walk = Walk { todo, names: Vec::new() };
    let mut seen = BTreeSet::new();
    let mut accepted = Accepted::new();
    while let Some(pair) = walk.todo.pop() {
        let Pair { old, new, is_key } = pair;
        if !seen.insert((old, std::ptr::from_ref(new).addr(), is_key)) {
            continue;
        }
        let ty = stored.get(old as usize).ok_or_else(|| "the type table lacks a type".to_owned())?;
        walk.types(ty, new, is_key).map_err(Obstacle::text)?;
        if let Some((_, other)) = accepted.iter().find(|(number, _)| *number == old)
            && !are_same(other, new)
        {
            return Err(format!(
                "what was `{}` in the heap would be of two types in the program; {MIGRATE}",
                ty.name
            ));
        }
        accepted.push((old, new));
    }
    // Last, for most arguments of a type are found in its fields, where there is more to say.
    for (name, new) in walk.names {
        if behind_name(name, new) != Some("") {
            return Err(format!(
                "`{name}` is in the heap, and the program has other arguments there; {MIGRATE}"
            ));
        }
    }
    Ok(accepted)
}

/// Whether two descriptions are of one type.
fn are_same(a: &'static Desc, b: &'static Desc) -> bool {
    let graphs = || Some((Graph::of(a).ok()?, Graph::of(b).ok()?));
    std::ptr::eq(a, b) || graphs().is_some_and(|(a, b)| difference((&a.types, 0), (&b.types, 0)).is_none())
}

/// Two types that a pointer leads to.
#[derive(Clone, Copy)]
struct Pair {
    old: u32,
    new: &'static Desc,
    /// Whether a map finds an entry by it.
    is_key: bool,
}

struct Walk<'a> {
    /// Targets of pointers that are to be compared.
    todo: Vec<Pair>,
    /// Names in the heap of types of the program, with their arguments.
    names: Vec<(&'a str, &'static Desc)>,
}

/// Why a value is not to be taken as it is.
#[derive(Default)]
struct Obstacle {
    /// The innermost type with a name, and the way to the place from there.
    within: Option<&'static Desc>,
    path: String,
    /// What to do about it.
    help: String,
}

type Walked = Result<(), Obstacle>;

fn obstacle<T>(help: String) -> Result<T, Obstacle> {
    Err(Obstacle { help, ..Obstacle::default() })
}

impl Obstacle {
    /// Seen from one step further out.
    fn below(mut self, step: &str) -> Obstacle {
        if self.within.is_none() {
            self.path.insert_str(0, step);
        }
        self
    }

    /// Seen from the whole of a type with a name.
    fn within(self, ty: &'static Desc) -> Obstacle {
        Obstacle { within: self.within.or(Some(ty)), ..self }
    }

    fn text(self) -> String {
        let Obstacle { within, path, help } = self;
        match (within, path.trim_start_matches('.')) {
            (Some(ty), "") => format!("in `{}`: {help}", ty.name.as_str()),
            (Some(ty), path) => format!("in `{}`, `{path}`: {help}", ty.name.as_str()),
            (None, _) => help,
        }
    }
}

/// For what no annotation says.
const MIGRATE: &str = "`Heap::migrate` makes a new root from the old one";

impl<'a> Walk<'a> {
    fn types(&mut self, old: &'a TypeLayout, new: &'static Desc, is_key: bool) -> Walked {
        let walked = self.parts(old, new, is_key);
        let is_named = matches!(new.kind, Kind::Struct { .. } | Kind::Enum { .. });
        walked.map_err(|e| if is_named { e.within(new) } else { e })
    }

    fn parts(&mut self, old: &'a TypeLayout, new: &'static Desc, is_key: bool) -> Walked {
        match (&old.shape, &new.kind) {
            (Shape::Prim(a), Kind::Prim(b)) if a == b => {}
            (Shape::Str, Kind::Str) => {}
            // What never was null may be from now on.
            (Shape::Ptr { nullable: a, to: old }, Kind::Ptr { nullable: b, to: new }) if a <= b => {
                self.todo.push(Pair { old: *old, new: new(), is_key });
            }
            (Shape::Array { elem: old, len: a }, Kind::Array { elem: new, len: b }) if *a == *b as u64 => {
                self.types(old, new(), is_key).map_err(|e| e.below("[_]"))?;
            }
            (Shape::Slice(old), Kind::Slice { elem: new }) => {
                self.types(old, new(), is_key).map_err(|e| e.below("[_]"))?;
            }
            (Shape::Slot(old), Kind::Slot { of: new }) => self.types(old, new(), is_key)?,
            (Shape::Struct(a), Kind::Struct { fields: b }) => {
                self.named(old, new)?;
                self.fields(a, b, &|field| is_key || KEYS.contains(&(new.name.as_str(), field)))?;
            }
            (Shape::Enum { tag: a, variants: old_variants }, Kind::Enum { tag: b, variants }) if a == b => {
                self.named(old, new)?;
                self.variants(old_variants, variants, is_key)?;
            }
            _ => return obstacle(format!("this is of another type; {MIGRATE}")),
        }
        if (old.size, old.align) != (new.size as u64, new.align as u64) {
            return obstacle(format!(
                "the size or the alignment has changed; what is new must fit into a field of type `Spare`, else {MIGRATE}"
            ));
        }
        Ok(())
    }

    /// Fails unless the program's type has or had the name of that in the heap.
    fn named(&mut self, old: &'a TypeLayout, new: &'static Desc) -> Walked {
        let name = old.name.split('<').next().unwrap_or_default();
        if !is_called(name, new.name.as_str(), &new.history) {
            return obstacle(format!(
                "the type is `{name}` in the heap; `#[persist(was = \"{name}\")]` on the type if it had this name"
            ));
        }
        self.names.push((&old.name, new));
        Ok(())
    }

    fn fields(
        &mut self,
        old: &'a [FieldLayout],
        new: &'static [Field],
        is_key: &dyn Fn(&str) -> bool,
    ) -> Walked {
        let mut left: Vec<&FieldLayout> = old.iter().filter(|field| field.ty.name != SPARE).collect();
        let mut missing = Vec::new();
        for field in new {
            let ty = (field.ty)();
            let found = left.iter().position(|old| is_called(&old.name, field.name, &field.history));
            if ty.name.as_str() == SPARE {
                missing.push(field);
            } else if let Some(found) = found {
                let old = left.remove(found);
                if old.offset != field.offset as u64 {
                    return obstacle(format!("field `{}` is in another place; {MIGRATE}", field.name));
                }
                let step = format!(".{}", field.name);
                self.types(&old.ty, ty, is_key(field.name)).map_err(|e| e.below(&step))?;
            } else {
                missing.push(field);
            }
        }
        check_versions(new, &missing)?;
        for field in missing {
            let ty = (field.ty)();
            if ty.name.as_str() != SPARE && !field.history.is_new() {
                return obstacle(unknown_field(field.name, &left));
            }
            if is_key(field.name) {
                return obstacle(format!(
                    "a key of a map gets no field, such as `{}`; {MIGRATE}",
                    field.name
                ));
            }
            let (start, end) = (field.offset as u64, (field.offset + ty.size) as u64);
            let fits = old
                .iter()
                .any(|old| old.ty.name == SPARE && old.offset <= start && end <= old.offset + old.ty.size);
            if !fits {
                return obstacle(format!(
                    "field `{}` is new, and not where a field of type `Spare` was; {MIGRATE}",
                    field.name
                ));
            }
            if !may_be_zero(ty) {
                return obstacle(format!("field `{}` is new, and cannot be zero; {MIGRATE}", field.name));
            }
        }
        match left.first() {
            None => Ok(()),
            Some(old) => obstacle(format!(
                "field `{0}` is in the heap only; `#[persist(was = \"{0}\")]` on the field that it is now, if it has another name, else {MIGRATE}",
                old.name
            )),
        }
    }

    fn variants(&mut self, old: &'a [VariantLayout], new: &'static [Variant], is_key: bool) -> Walked {
        let mut left: Vec<&VariantLayout> = old.iter().collect();
        for variant in new {
            let name = variant.name;
            match left.iter().position(|old| is_called(&old.name, name, &variant.history)) {
                Some(found) => {
                    let old = left.remove(found);
                    if old.tag != variant.tag {
                        return obstacle(format!(
                            "variant `{name}` was number {} and is {}; give it its old number (`{name} = {}`), and add variants behind the others",
                            old.tag, variant.tag, old.tag
                        ));
                    }
                    let step = format!(".{name}");
                    self.fields(&old.fields, variant.fields, &|_| is_key).map_err(|e| e.below(&step))?;
                }
                None if variant.history.is_new() => {
                    if let Some(old) = old.iter().find(|old| old.tag == variant.tag) {
                        return obstacle(format!(
                            "variant `{name}` has the number {}, which is that of `{}` in the heap",
                            old.tag, old.name
                        ));
                    }
                }
                None => {
                    return obstacle(format!(
                        "variant `{name}` is in the program only; `#[persist(since = 2)]` on it if it is new, `#[persist(was = \"..\")]` if it had another name"
                    ));
                }
            }
        }
        match left.first() {
            None => Ok(()),
            Some(old) => obstacle(format!(
                "variant `{0}` is in the heap only, and values may be of it; `#[persist(was = \"{0}\")]` on the variant that it is now, if it has another name, else {MIGRATE}",
                old.name
            )),
        }
    }
}

/// Whether something has this name in the heap.
fn is_called(old: &str, name: &str, history: &History) -> bool {
    old == name || history.was.contains(&old)
}

/// What is behind the name of a type, with its arguments, if the text begins with one that it has or had.
fn behind_name<'t>(text: &'t str, desc: &'static Desc) -> Option<&'t str> {
    let around = |before: &str, inner: &'static Desc, behind: &str| {
        behind_name(text.strip_prefix(before)?, inner)?.strip_prefix(behind)
    };
    match &desc.kind {
        Kind::Array { elem, len } => around("[", elem(), &format!("; {len}]")),
        Kind::Slice { elem } => around("[", elem(), "]"),
        Kind::Ptr { nullable: true, to } => around("Option<P<", to(), ">>"),
        Kind::Ptr { nullable: false, to } => around("P<", to(), ">"),
        Kind::Slot { of } => around("Slot<", of(), ">"),
        _ => {
            let end = text.find(['<', '>', ',', ';', ']']).unwrap_or(text.len());
            let (id, mut rest) = text.split_at(end);
            if !is_called(id, desc.name.as_str(), &desc.history) {
                return None;
            }
            for (i, arg) in desc.args.iter().enumerate() {
                rest = behind_name(rest.strip_prefix(if i == 0 { "<" } else { ", " })?, arg())?;
            }
            if desc.args.is_empty() { Some(rest) } else { rest.strip_prefix('>') }
        }
    }
}

/// What helps where a field is in the program only, if these are in the heap only.
fn unknown_field(name: &str, left: &[&FieldLayout]) -> String {
    let was = left.first().map_or("..", |old| old.name.as_str());
    format!(
        "field `{name}` is in the program only; `#[persist(was = \"{was}\")]` on it if that is its old name, `#[persist(since = 2)]` if it is new"
    )
}

/// A heap has all fields of a version, or none.
fn check_versions(all: &'static [Field], missing: &[&'static Field]) -> Walked {
    let is_missing = |field: &Field| missing.iter().any(|other| std::ptr::eq(*other, field));
    let dated = |field: &&Field| field.history.is_new();
    let newest =
        all.iter().filter(dated).filter(|field| !is_missing(field)).max_by_key(|field| field.history.since);
    let oldest = missing.iter().copied().filter(dated).min_by_key(|field| field.history.since);
    match (newest, oldest) {
        (Some(there), Some(field)) if field.history.since <= there.history.since => obstacle(format!(
            "field `{}`, since version {}, is not in the heap, but `{}`, since version {}, is",
            field.name, field.history.since, there.name, there.history.since
        )),
        _ => Ok(()),
    }
}

/// Whether zero in all bytes is a value.
fn may_be_zero(ty: &'static Desc) -> bool {
    let all = |fields: &'static [Field]| fields.iter().all(|field| may_be_zero((field.ty)()));
    match &ty.kind {
        Kind::Prim(_) | Kind::Slot { .. } => true,
        Kind::Ptr { nullable, .. } => *nullable,
        Kind::Array { elem, len } => *len == 0 || may_be_zero(elem()),
        Kind::Struct { fields } => ty.name.as_str() != "pheap::NonZero" && all(fields),
        Kind::Enum { variants, .. } => {
            variants.iter().find(|variant| variant.tag == 0).is_some_and(|variant| all(variant.fields))
        }
        Kind::Slice { .. } | Kind::Str => false,
    }
}
