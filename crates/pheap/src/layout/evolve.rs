//! Finds out what the values of a heap's type become in the program, if types have changed. The values keep
//! their bytes, if annotations (`#[persist(was = ..)]`, `#[persist(since = ..)]`) and [`Spare`](crate::Spare)
//! allow that; or a [`Conversion`] converts them.
//!
//! Types are compared as in [`compare`](super::compare), in pairs along each path of pointers, but by the
//! program's descriptions, which know old names.

use std::collections::BTreeSet;

use super::convert::{Conversion, ConvertOp, ConvertStep, Converter, VacantSlots, same};
use super::desc::{Desc, Field, History, Kind, Variant};
use super::graph::{FieldLayout, Graph, Shape, TypeLayout, VariantLayout};
use super::{difference, slice_header};
use crate::units::PAGE;

/// The id of [`Spare`](crate::Spare), whose bytes are zero.
const SPARE: &str = "pheap::Spare";

/// Parts of collections, and those of their fields by which a collection finds its entries.
const KEYS: [(&str, &str); 4] = [
    ("pheap::hash::Pair", "key"),
    ("pheap::BTreeEntry", "key"),
    ("pheap::BTreeBranch", "separator"),
    ("pheap::SnapNode", "keys"),
];

/// Parts of collections whose arrays have slots without values, and the fields that say which slots these
/// are.
const NODES: [(&str, VacantBy); 3] = [
    ("pheap::hash::Bucket", VacantBy::Tags(&["head", "tags", "tags"])),
    ("pheap::BTreeNode", VacantBy::Order(&["head", "order", "len"], &["head", "order", "slots"])),
    ("pheap::SnapNode", VacantBy::Len(&["len"])),
];

/// The paths of the fields that say which slots have no values; see [`VacantSlots`].
enum VacantBy {
    Tags(&'static [&'static str]),
    Order(&'static [&'static str], &'static [&'static str]),
    Len(&'static [&'static str]),
}

/// The type that the objects of a type in the heap become.
pub(crate) struct Successor {
    pub(crate) old: u32,
    pub(crate) new: &'static Desc,
    /// How the objects are converted; `None` if their bytes stay.
    pub(crate) conversion: Option<Conversion>,
}

/// Returns the successor of each type that is reachable from a value of type `number` in the heap, itself
/// included. The error is a text that says what is wrong, or what would help.
pub(crate) fn successors(
    stored: &[TypeLayout],
    number: u32,
    program: &'static Desc,
    converters: &[Converter],
) -> Result<Vec<Successor>, String> {
    let todo = vec![TypePair { old: number, new: program, is_key: false }];
    let mut walk = TypeWalk { converters, todo, names: Vec::new() };
    let mut seen = BTreeSet::new();
    let mut found: Vec<Successor> = Vec::new();
    while let Some(pair) = walk.todo.pop() {
        let TypePair { old, new, is_key } = pair;
        if !seen.insert((old, std::ptr::from_ref(new).addr(), is_key)) {
            continue;
        }
        let ty = stored.get(old as usize).ok_or_else(|| "the type table lacks a type".to_owned())?;
        let conversion = walk.object(ty, new, is_key).map_err(Obstacle::text)?;
        if let Some(other) = found.iter().find(|other| other.old == old) {
            if !are_same(other.new, new) {
                return Err(format!(
                    "`{}` in the heap would become two types in the program; {MIGRATE}",
                    ty.name
                ));
            }
            continue;
        }
        found.push(Successor { old, new, conversion });
    }
    // Names with arguments are checked last: most arguments of a type are found in its fields, where a more
    // precise error is possible.
    for (name, new) in walk.names {
        if behind_name(name, new) != Some("") {
            return Err(format!(
                "the heap has `{name}`, and the program has this type with other arguments; {MIGRATE}"
            ));
        }
    }
    Ok(found)
}

/// Returns whether two descriptions are of the same type.
fn are_same(a: &'static Desc, b: &'static Desc) -> bool {
    let graphs = || Some((Graph::from_root(a).ok()?, Graph::from_root(b).ok()?));
    std::ptr::eq(a, b) || graphs().is_some_and(|(a, b)| difference((&a.types, 0), (&b.types, 0)).is_none())
}

/// Two types in the same place, in the heap and in the program: of the root, or of a pointer's target.
#[derive(Clone, Copy)]
struct TypePair {
    old: u32,
    new: &'static Desc,
    /// Whether a collection finds an entry by this object.
    is_key: bool,
}

struct TypeWalk<'a> {
    converters: &'a [Converter],
    /// The root and targets of pointers that are still to be compared.
    todo: Vec<TypePair>,
    /// Names of types in the heap, with their arguments, and the program's types in the same place.
    names: Vec<(&'a str, &'static Desc)>,
}

/// The reason why a value cannot become one of the program's type.
#[derive(Default)]
struct Obstacle {
    /// The innermost type with a name, and the path from there to the place of the obstacle.
    within: Option<&'static Desc>,
    path: String,
    /// What is wrong, or what the program can do about it.
    help: String,
}

/// The ops that convert a value; `None` if its bytes stay. Offsets are within the value.
type TypeWalkResult = Result<Option<Vec<ConvertOp>>, Obstacle>;

fn obstacle<T>(help: String) -> Result<T, Obstacle> {
    Err(Obstacle { help, ..Obstacle::default() })
}

impl Obstacle {
    /// Adds a step to the front of the path, as seen from one level further out, unless the path has ended.
    fn below(mut self, step: &str) -> Obstacle {
        if self.within.is_none() {
            self.path.insert_str(0, step);
        }
        self
    }

    /// Ends the path at a type with a name, unless it has ended before.
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

/// The help if no annotation can cover the difference.
const MIGRATE: &str = "`impl Migrate<Old> for New` and `Heap::evolve` convert it, or `Heap::migrate` makes a new root from the old one";

impl<'a> TypeWalk<'a> {
    fn object(
        &mut self,
        old: &'a TypeLayout,
        new: &'static Desc,
        is_key: bool,
    ) -> Result<Option<Conversion>, Obstacle> {
        let (Shape::Slice(old), Kind::Slice { elem: new }) = (&old.shape, &new.kind) else {
            let ops = self.types(old, new, is_key)?;
            check_alignment(new)?;
            return Ok(ops.map(|ops| Conversion::sized(ops, new)));
        };
        let new = new();
        let ops = self.types(old, new, is_key).map_err(|e| e.below("[_]"))?;
        check_alignment(new)?;
        let headers = (slice_header(old.align as usize) as u64, slice_header(new.align) as u64);
        Ok(match ops {
            None if headers.0 == headers.1 => None,
            ops => Some(Conversion::slice(headers, or_copy(ops, old), old.size, new)),
        })
    }

    fn types(&mut self, old: &'a TypeLayout, new: &'static Desc, is_key: bool) -> TypeWalkResult {
        if let Some(converted) = self.converted(old, new) {
            return if is_key { obstacle(KEY.to_owned()) } else { Ok(Some(converted)) };
        }
        let walked = self.parts(old, new, is_key);
        let is_named = matches!(new.kind, Kind::Struct { .. } | Kind::Enum { .. });
        walked.map_err(|e| if is_named { e.within(new) } else { e })
    }

    /// Returns the ops that call a function of the program, if there is one for these types.
    fn converted(&mut self, old: &'a TypeLayout, new: &'static Desc) -> Option<Vec<ConvertOp>> {
        let is_for = |converter: &&Converter| are_same(converter.new, new) && !are_same(converter.old, new);
        for converter in self.converters.iter().filter(is_for) {
            let (todo, names) = (self.todo.len(), self.names.len());
            // The pointers in the old value become pointers to the successors of their targets.
            if let Ok(None) = self.parts(old, converter.old, false) {
                let (call, pointers) = (converter.call, converter.pointers.clone());
                return Some(vec![ConvertOp::here(ConvertStep::Call { call, pointers })]);
            }
            self.todo.truncate(todo);
            self.names.truncate(names);
        }
        None
    }

    fn parts(&mut self, old: &'a TypeLayout, new: &'static Desc, is_key: bool) -> TypeWalkResult {
        let is_as_large = (old.size, old.align) == (new.size as u64, new.align as u64);
        let ops = match (&old.shape, &new.kind) {
            (Shape::Prim(a), Kind::Prim(b)) if a == b => None,
            (Shape::Str, Kind::Str) => None,
            // A pointer that could not be null may be null from now on.
            (Shape::Ptr { nullable: a, to: old }, Kind::Ptr { nullable: b, to: new }) if a <= b => {
                self.todo.push(TypePair { old: *old, new: new(), is_key });
                None
            }
            (Shape::Array { elem, len: a }, Kind::Array { elem: new, len: b }) if *a == *b as u64 => {
                let new = new();
                let ops = self.types(elem, new, is_key).map_err(|e| e.below("[_]"))?;
                let (strides, len) = ((elem.size, new.size as u64), *a);
                ops.map(|ops| vec![ConvertOp::here(ConvertStep::Repeat { strides, len, vacant: None, ops })])
            }
            (Shape::Slot(of), Kind::Slot { of: new }) => {
                self.types(of, new(), is_key)?.map(|ops| vacant_or(ops, of))
            }
            (Shape::Struct(a), Kind::Struct { fields: b }) => {
                self.named(old, new)?;
                let is_key = |field: &str| is_key || KEYS.contains(&(new.name.as_str(), field));
                let ops = self.fields(a, b, new.history.removed, &is_key)?;
                match (ops, NODES.iter().find(|(name, _)| *name == new.name.as_str())) {
                    (Some(ops), Some((_, by))) => Some(in_slots(ops, vacant_by(by, a)?)),
                    (ops, _) => ops,
                }
            }
            (Shape::Enum { tag: a, variants: old_variants }, Kind::Enum { tag: b, variants }) if a == b => {
                self.named(old, new)?;
                self.variants(old_variants, variants, a.tag_bytes().unwrap_or(1), is_key, is_as_large)?
            }
            _ => return obstacle(format!("this is of another type; {MIGRATE}")),
        };
        if ops.is_some() && is_key {
            return obstacle(KEY.to_owned());
        }
        Ok(match ops {
            None if !is_as_large => Some(or_copy(None, old)),
            ops => ops,
        })
    }

    /// Fails unless the program's type has, or had, the name of the type in the heap.
    fn named(&mut self, old: &'a TypeLayout, new: &'static Desc) -> Result<(), Obstacle> {
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
        removed: &[&str],
        is_key: &dyn Fn(&str) -> bool,
    ) -> TypeWalkResult {
        let is_lost =
            |field: &&FieldLayout| field.ty.name != SPARE && !removed.contains(&field.name.as_str());
        let mut left: Vec<&FieldLayout> = old.iter().filter(is_lost).collect();
        let mut missing = Vec::new();
        let mut ops = Vec::new();
        let mut is_same = old.iter().all(|field| !removed.contains(&field.name.as_str()));
        // Older fields are looked up first, because a new field may have the former name of an older field
        // that was renamed.
        let mut in_order: Vec<&Field> = new.iter().collect();
        in_order.sort_by_key(|field| field.history.since);
        for field in in_order {
            let ty = (field.ty)();
            // The field of the same name is preferred, because a former name may be that of another field
            // now.
            let own = left.iter().position(|old| old.name == field.name);
            let was = |&place: &usize| field.history.was.contains(&left[place].name.as_str());
            // Among former names, those that no other field has or had are preferred.
            let is_free = |&place: &usize| {
                let is_it = |other: &Field| is_called(&left[place].name, other.name, &other.history);
                !new.iter().any(|other| !std::ptr::eq(other, field) && is_it(other))
            };
            let mut earlier: Vec<usize> = (0..left.len()).filter(was).collect();
            if earlier.iter().any(is_free) {
                earlier.retain(is_free);
            }
            if let (None, [one, other, ..]) = (own, &earlier[..]) {
                let (one, other) = (&left[*one].name, &left[*other].name);
                return obstacle(format!(
                    "field `{}` was `{one}` or `{other}`, and the heap has both; keep `was` for the one that \
                     became this field, and declare the other one with `#[persist(removed = \"..\")]` on the \
                     type (or variant)",
                    field.name
                ));
            }
            let found = own.or(earlier.first().copied());
            let Some(found) = found.filter(|_| ty.name.as_str() != SPARE) else {
                missing.push(field);
                continue;
            };
            let old = left.remove(found);
            let step = format!(".{}", field.name);
            let of_field = self.types(&old.ty, ty, is_key(field.name)).map_err(|e| e.below(&step))?;
            is_same &= of_field.is_none() && old.offset == field.offset as u64;
            ops.extend(
                or_copy(of_field, &old.ty).into_iter().map(|op| op.moved(old.offset, field.offset as u64)),
            );
        }
        check_versions(new, &missing)?;
        for field in missing {
            let ty = (field.ty)();
            let is_spare = ty.name.as_str() == SPARE;
            if !is_spare && !field.history.is_new() {
                return obstacle(unknown_field(field.name, &left));
            }
            if is_key(field.name) {
                return obstacle(KEY.to_owned());
            }
            let (start, end) = (field.offset as u64, (field.offset + ty.size) as u64);
            let is_within = |old: &FieldLayout| {
                old.ty.name == SPARE && old.offset <= start && end <= old.offset + old.ty.size
            };
            is_same &= old.iter().any(is_within);
            if let Some(write) = field.history.default {
                is_same = false;
                ops.push(ConvertOp { from: 0, to: start, step: ConvertStep::Default(write) });
            } else if !Graph::from_root(ty).is_ok_and(|graph| has_zero(&graph.types[0])) {
                return obstacle(format!(
                    "field `{}` is new, and cannot be zero; `#[persist(since = {}, default = ..)]` gives it another value",
                    field.name, field.history.since
                ));
            }
        }
        match left.first() {
            None => Ok((!is_same).then_some(ops)),
            Some(old) => obstacle(format!(
                "field `{0}` is in the heap only; if it was renamed, put `#[persist(was = \"{0}\")]` on the \
                 field with the new name; if it was removed, put `#[persist(removed = \"{0}\")]` on the type \
                 (or variant)",
                old.name
            )),
        }
    }

    fn variants(
        &mut self,
        old: &'a [VariantLayout],
        new: &'static [Variant],
        tag: usize,
        is_key: bool,
        is_as_large: bool,
    ) -> TypeWalkResult {
        let mut left: Vec<&VariantLayout> = old.iter().collect();
        let (mut of_variants, mut is_same) = (Vec::new(), is_as_large);
        for variant in new {
            let name = variant.name;
            // A variant with the same number is preferred, because a former name may be that of another
            // variant now.
            let is_it = |old: &VariantLayout, new: &Variant| is_called(&old.name, new.name, &new.history);
            let is_of = |old: &VariantLayout, new: &Variant| old.tag == new.tag && is_it(old, new);
            let found = left.iter().position(|old| is_of(old, variant)).or_else(|| {
                left.iter().position(|old| is_it(old, variant) && !new.iter().any(|new| is_of(old, new)))
            });
            match found {
                Some(found) => {
                    let old = left.remove(found);
                    if old.tag != variant.tag {
                        return obstacle(format!(
                            "variant `{name}` was number {} and is {}; give it its old number (`{name} = {}`), and add variants behind the others",
                            old.tag, variant.tag, old.tag
                        ));
                    }
                    let step = format!(".{name}");
                    let fields =
                        self.fields(&old.fields, variant.fields, variant.history.removed, &|_| is_key);
                    let ops = fields.map_err(|e| e.below(&step))?;
                    is_same &= ops.is_none();
                    let as_they_are =
                        || old.fields.iter().map(|field| same(field.offset, field.ty.size)).collect();
                    of_variants.push((old.tag, ops.unwrap_or_else(as_they_are)));
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
            None => Ok((!is_same).then(|| vec![ConvertOp::variants(tag, of_variants)])),
            Some(old) => obstacle(format!(
                "variant `{0}` is in the heap only, and values may have it; if it was renamed, put \
                 `#[persist(was = \"{0}\")]` on the variant with the new name; else {MIGRATE}",
                old.name
            )),
        }
    }
}

/// Fails if a heap has no place for an object of this type, because of its alignment.
fn check_alignment(ty: &'static Desc) -> Result<(), Obstacle> {
    if ty.align as u64 <= PAGE {
        return Ok(());
    }
    obstacle(format!(
        "`{}` is aligned to {} bytes, and objects can be aligned to {PAGE} at most",
        ty.name.as_str(),
        ty.align
    ))
}

/// Keys of maps keep their bytes, because a map finds its entries by them.
const KEY: &str = "the key of a map may get other names and variants, but no other bytes; insert the entries into a new map";

/// Returns `ops`, or else an op that copies the whole value.
fn or_copy(ops: Option<Vec<ConvertOp>>, old: &TypeLayout) -> Vec<ConvertOp> {
    ops.unwrap_or_else(|| vec![same(0, old.size)])
}

/// Returns the ops for a slot whose value `ops` convert. They do nothing if all bytes are zero, unless zero
/// bytes are a value of this type.
fn vacant_or(ops: Vec<ConvertOp>, of: &TypeLayout) -> Vec<ConvertOp> {
    if has_zero(of) { ops } else { vec![ConvertOp::here(ConvertStep::UnlessZero { size: of.size, ops })] }
}

/// Marks the slots of a node's arrays, some of which may have no value.
fn in_slots(mut ops: Vec<ConvertOp>, by: VacantSlots) -> Vec<ConvertOp> {
    for op in &mut ops {
        if let ConvertStep::Repeat { vacant, .. } = &mut op.step {
            *vacant = Some((op.from, by));
        }
    }
    ops
}

/// Returns where a node with these fields says which slots have no value.
fn vacant_by(by: &VacantBy, fields: &[FieldLayout]) -> Result<VacantSlots, Obstacle> {
    let at = |path: &[&str]| {
        let (mut at, mut fields) = (0, fields);
        for name in path {
            let field = fields.iter().find(|field| field.name == *name)?;
            at += field.offset;
            fields = if let Shape::Struct(fields) = &field.ty.shape { fields } else { &[] };
        }
        Some(at)
    };
    let vacant = match by {
        VacantBy::Tags(tags) => at(tags).map(|tags| VacantSlots::Untagged { tags }),
        VacantBy::Order(len, order) => {
            at(len).zip(at(order)).map(|(len, order)| VacantSlots::Unordered { len, order })
        }
        VacantBy::Len(len) => at(len).map(|len| VacantSlots::Behind { len }),
    };
    vacant.map_or_else(|| obstacle(MIGRATE.to_owned()), Ok)
}

/// Returns whether `old` is `name`, or one of the former names in `history`.
fn is_called(old: &str, name: &str, history: &History) -> bool {
    old == name || history.was.contains(&old)
}

/// If the text begins with a present or former name of the type, with its arguments, returns the rest of the
/// text.
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

/// Returns the help for a field that is in the program only; the fields `left` are in the heap only.
fn unknown_field(name: &str, left: &[&FieldLayout]) -> String {
    let was = left.first().map_or("..", |old| old.name.as_str());
    format!(
        "field `{name}` is in the program only; `#[persist(was = \"{was}\")]` on it if that is its old name, `#[persist(since = 2)]` if it is new"
    )
}

/// Fails if the heap has a field of a version, and lacks a field of the same version or an earlier one.
fn check_versions(all: &'static [Field], missing: &[&'static Field]) -> Result<(), Obstacle> {
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

/// The id of numbers that are never zero.
const NON_ZERO: &str = "pheap::NonZero";

/// Returns whether a value of this type may have only zero bytes.
fn has_zero(ty: &TypeLayout) -> bool {
    let all = |fields: &[FieldLayout]| fields.iter().all(|field| has_zero(&field.ty));
    match &ty.shape {
        Shape::Prim(_) | Shape::Slot(_) => true,
        Shape::Ptr { nullable, .. } => *nullable,
        Shape::Array { elem, len } => *len == 0 || has_zero(elem),
        Shape::Struct(fields) => !ty.name.starts_with(NON_ZERO) && all(fields),
        Shape::Enum { variants, .. } => {
            variants.iter().find(|variant| variant.tag == 0).is_some_and(|variant| all(&variant.fields))
        }
        Shape::Slice(_) | Shape::Str => false,
    }
}
