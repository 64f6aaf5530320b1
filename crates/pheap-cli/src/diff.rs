//! `pheap diff`: the differences of two heaps in types, roots, and values by their paths.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::PathBuf;

use pheap::{Entries, Entry, Heap, Object, Objects, TypeInfo, Value};
use serde_json::json;

use crate::path::{self, PathResult, find_one};
use crate::progress::Progress;
use crate::text::{brief, key_text, short};
use crate::{Failure, Outcome, Result};

/// Approximate maximal lengths of a printed value, in bytes, and of a path, in characters.
const VALUE: usize = 100;
const PATH: usize = 300;

#[derive(clap::Args, Debug)]
pub struct Args {
    /// The file of one heap
    pub a: PathBuf,
    /// The file of the other heap
    pub b: PathBuf,
    /// A root or a path, as for `get`; all roots if left out
    path: Option<String>,
    /// Print the differences as JSON
    #[arg(long)]
    json: bool,
    /// Print at most this many differences of values, and count the others
    #[arg(long, value_name = "N", default_value_t = 1000)]
    most: usize,
}

/// A path and the value there, or the name of a type and its layouts, in either heap; `None` if a heap has
/// none.
struct ValueDifference {
    path: String,
    a: Option<String>,
    b: Option<String>,
}

pub fn diff(a: &Heap, b: &Heap, args: &Args, out: &mut dyn Write) -> Result {
    let types = if args.path.is_none() { types(&a.types(), &b.types()) } else { Vec::new() };
    let spinner = Progress::spinner("comparing");
    let found = pheap::with_several_heaps(|| a.objects(|a| b.objects(|b| values(a, b, args))))???;
    drop(spinner);
    let same = types.is_empty() && found.list.is_empty();
    if args.json {
        let as_json = |list: &[ValueDifference], what: &str| -> serde_json::Value {
            list.iter().map(|d| json!({ what: d.path, "a": d.a, "b": d.b })).collect()
        };
        let value = json!({
            "same": same, "types": as_json(&types, "type"), "values": as_json(&found.list, "path"),
            "more": found.more,
        });
        writeln!(out, "{value:#}")?;
    } else {
        for (what, list) in [("type ", &types), ("", &found.list)] {
            for ValueDifference { path, a, b } in list {
                match (a, b) {
                    (Some(a), Some(b)) => writeln!(out, "~ {what}{path}: {a} → {b}")?,
                    (Some(a), None) => writeln!(out, "- {what}{path}: {a}")?,
                    (None, b) => writeln!(out, "+ {what}{path}: {}", b.as_deref().unwrap_or_default())?,
                }
            }
        }
        if found.more > 0 {
            writeln!(out, "and {} more; see `--most`", found.more)?;
        }
    }
    Ok(Outcome::of(same))
}

/// Returns the names of types that only one heap has, or that have different layouts.
fn types(a: &[TypeInfo], b: &[TypeInfo]) -> Vec<ValueDifference> {
    let by_name = |types: &[TypeInfo]| -> BTreeMap<String, Vec<String>> {
        let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for ty in types {
            let layouts = all.entry(short(&ty.name)).or_default();
            let layout = short(&ty.layout);
            if !layouts.contains(&layout) {
                layouts.push(layout);
            }
        }
        all
    };
    let (a, b) = (by_name(a), by_name(b));
    let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let layouts =
        |types: &BTreeMap<String, Vec<String>>, name| types.get(name).map(|layouts| layouts.join(" or "));
    let both = names.into_iter().map(|name| (name, layouts(&a, name), layouts(&b, name)));
    both.filter(|(_, a, b)| a != b).map(|(name, a, b)| ValueDifference { path: name.clone(), a, b }).collect()
}

fn values<'a, 'b>(a: &Objects<'a>, b: &Objects<'b>, args: &Args) -> Result<Differences> {
    let mut differences = Differences { list: Vec::new(), more: 0, most: args.most };
    let mut walk =
        DiffWalk { partners: HashMap::new(), many: Vec::new(), bound: a.bound(), steps: Vec::new() };
    let roots = |objects: &[&str]| objects.iter().map(|name| (*name).to_owned()).collect::<HashSet<String>>();
    let (in_a, in_b): (Vec<&str>, Vec<&str>) = (a.roots().collect(), b.roots().collect());
    if let Some(path) = &args.path {
        let (root, steps) = path::parse(path, &in_a)?;
        let (of_b, steps_in_b) = path::parse(path, &in_b)?;
        match (find_one(a, &root, &steps)?, find_one(b, &of_b, &steps_in_b)?) {
            (PathResult::Value(x, _), PathResult::Value(y, _)) => walk.compare(path, x, y, &mut differences),
            (PathResult::About(x), PathResult::About(y)) if x != y => {
                differences.add(path, Some(x.to_string()), Some(y.to_string()));
            }
            (PathResult::About(_), PathResult::About(_)) => {}
            _ => {
                return Err(Failure::Other(format!(
                    "`{path}` leads to a value in one heap and to a property, such as `..len`, in the other; \
                     they cannot be compared"
                )));
            }
        }
        return Ok(differences);
    }
    let (names_a, names_b) = (roots(&in_a), roots(&in_b));
    let mut names: Vec<&String> = names_a.union(&names_b).collect();
    names.sort();
    for name in names {
        let about = |object: Object<'_>| format!("root of type {}", short(object.type_name()));
        match (names_a.contains(name), names_b.contains(name)) {
            (true, true) => {
                let (x, y) =
                    (Value::Pointer(a.root(name)?.pointer()), Value::Pointer(b.root(name)?.pointer()));
                walk.compare(name, x, y, &mut differences);
            }
            (true, false) => differences.add(name, Some(about(a.root(name)?)), None),
            _ => differences.add(name, None, Some(about(b.root(name)?))),
        }
    }
    Ok(differences)
}

/// The differences to print, and the number of differences beyond `most`.
struct Differences {
    list: Vec<ValueDifference>,
    more: usize,
    most: usize,
}

impl Differences {
    fn add(&mut self, path: &str, a: Option<String>, b: Option<String>) {
        if self.list.len() >= self.most {
            return self.more += 1;
        }
        let path = match path.char_indices().nth_back(PATH) {
            Some((at, _)) => format!("…{}", &path[at..]),
            None => path.to_owned(),
        };
        self.list.push(ValueDifference { path, a, b });
    }
}

/// Iterates over corresponding parts of two values: the segment of the path, and the part in either heap.
type PartPairs<'a, 'b> = Box<dyn Iterator<Item = (String, Option<Value<'a>>, Option<Value<'b>>)> + 'b>;

/// Compares values part by part. It has an explicit stack, because long lists would overflow the thread's
/// stack.
struct DiffWalk<'a, 'b> {
    /// For each object of heap `a`, by number: the offset of the object of heap `b` that it was compared
    /// with. If there are many objects, `many` replaces the map. `many` has an entry for each slot, which is
    /// 0 if the object was not compared yet. Objects without a number stay in the map.
    partners: HashMap<u64, u64>,
    many: Vec<u64>,
    bound: u64,
    /// Parts that are still to be compared, and the length of the path to them.
    steps: Vec<(PartPairs<'a, 'b>, usize)>,
}

impl<'a: 'b, 'b> DiffWalk<'a, 'b> {
    fn compare(&mut self, path: &str, a: Value<'a>, b: Value<'b>, out: &mut Differences) {
        let mut path = path.to_owned();
        self.one(&path, a, b, out);
        while let Some((pairs, len)) = self.steps.last_mut() {
            let Some((segment, a, b)) = pairs.next() else {
                self.steps.pop();
                continue;
            };
            path.truncate(*len);
            path.push_str(&segment);
            match (a, b) {
                (Some(a), Some(b)) => self.one(&path, a, b, out),
                (a, b) => out.add(&path, a.map(|a| brief(&a, VALUE)), b.map(|b| brief(&b, VALUE))),
            }
        }
    }

    /// Compares two values, and pushes their parts onto the stack.
    fn one(&mut self, path: &str, a: Value<'a>, b: Value<'b>, out: &mut Differences) {
        let differ = |out: &mut Differences, a: &Value<'_>, b: &Value<'_>| {
            out.add(path, Some(brief(a, VALUE)), Some(brief(b, VALUE)));
        };
        let pairs: PartPairs<'a, 'b> = match (a, b) {
            (Value::Pointer(p), Value::Pointer(q)) => match (p.target(), q.target()) {
                (Ok(Some(x)), Ok(Some(y))) => {
                    match self.partner(&x, y.offset()) {
                        Some(other) if other == y.offset() => {}
                        Some(_) if !x.is_text() => {
                            let leads = |object: Object<'_>| {
                                format!("→{} at {:#x}", short(object.type_name()), object.offset())
                            };
                            out.add(path, Some(leads(x)), Some(leads(y)));
                        }
                        _ => self.one(path, x.value(), y.value(), out),
                    }
                    return;
                }
                (Ok(None), Ok(None)) => return,
                _ => return differ(out, &Value::Pointer(p), &Value::Pointer(q)),
            },
            (Value::Struct(x), Value::Struct(y)) => fields(x.collect(), y.collect()),
            (Value::Enum(v, x), Value::Enum(w, y)) => {
                if v != w {
                    return differ(out, &Value::Enum(v, x), &Value::Enum(w, y));
                }
                fields(x.collect(), y.collect())
            }
            (Value::List(mut x), Value::List(mut y)) => {
                let mut index = 0usize;
                Box::new(std::iter::from_fn(move || {
                    let (a, b) = (x.next(), y.next());
                    let segment = format!("[{index}]");
                    index += 1;
                    (a.is_some() || b.is_some()).then_some((segment, a, b))
                }))
            }
            (Value::Map(x), Value::Map(y)) => entries(x, y),
            (Value::Set(x), Value::Set(y)) => entries(x, y),
            (a, b) => {
                if !is_same(&a, &b) {
                    differ(out, &a, &b);
                }
                return;
            }
        };
        self.steps.push((pairs, path.len()));
    }

    /// Returns the offset of the object of heap `b` that `object` was compared with before. If there is none,
    /// records `offset` as that of its partner.
    fn partner(&mut self, object: &Object<'a>, offset: u64) -> Option<u64> {
        let key = object.number().unwrap_or(1 << 63 | object.offset());
        if let Some(partner) = self.many.get_mut(key as usize) {
            let before = std::mem::replace(partner, if *partner == 0 { offset } else { *partner });
            return (before != 0).then_some(before);
        }
        let before = *self.partners.entry(key).or_insert(0);
        if before == 0 {
            self.partners.insert(key, offset);
        }
        // An entry of the map takes as much memory as several words, so many entries take more memory than a
        // word for each slot.
        if self.many.is_empty() && self.partners.len() as u64 > self.bound / 4 + 1024 {
            self.many = vec![0; self.bound as usize];
            let bound = self.bound;
            self.partners.retain(|&key, partner| {
                if key < bound {
                    self.many[key as usize] = *partner;
                }
                key >= bound
            });
        }
        (before != 0).then_some(before)
    }
}

fn fields<'a: 'b, 'b>(a: Vec<pheap::Field<'a>>, b: Vec<pheap::Field<'b>>) -> PartPairs<'a, 'b> {
    let mut all: Vec<(String, Option<Value<'a>>, Option<Value<'b>>)> = Vec::new();
    let mut of_b: Vec<Option<pheap::Field<'b>>> = b.into_iter().map(Some).collect();
    for field in a {
        let other =
            of_b.iter_mut().find(|other| other.as_ref().is_some_and(|other| other.name == field.name));
        let other = other.and_then(Option::take).map(|other| other.value);
        all.push((format!(".{}", field.name), Some(field.value), other));
    }
    let rest = of_b.into_iter().flatten().map(|field| (format!(".{}", field.name), None, Some(field.value)));
    all.extend(rest);
    Box::new(all.into_iter())
}

/// Pairs the entries of two maps that have equal keys. Keeps no entries in memory as long as the next keys of
/// both maps are equal, or both maps are ordered by keys that [`order_of`] can compare.
fn entries<'a: 'b, 'b>(mut a: Entries<'a>, mut b: Entries<'b>) -> PartPairs<'a, 'b> {
    let (mut next_a, mut next_b) = (a.next(), b.next());
    let mut rest: Option<UnorderedEntries<'a, 'b>> = None;
    Box::new(std::iter::from_fn(move || {
        if let Some(rest) = &mut rest {
            return rest.next();
        }
        let order = match (&next_a, &next_b) {
            (Some(x), Some(y)) if is_same_key(&x.key, &y.key) => Some(Ordering::Equal),
            (Some(x), Some(y)) if a.is_ordered() && b.is_ordered() => order_of(&x.key, &y.key),
            (Some(_), Some(_)) => None,
            (Some(_), None) => Some(Ordering::Less),
            (None, Some(_)) => Some(Ordering::Greater),
            (None, None) => return None,
        };
        match order {
            Some(Ordering::Equal) => {
                let (x, y) = (next_a.take()?, next_b.take()?);
                (next_a, next_b) = (a.next(), b.next());
                Some(pair(Some(x), Some(y)))
            }
            Some(Ordering::Less) => {
                let x = next_a.take();
                next_a = a.next();
                Some(pair(x, None))
            }
            Some(Ordering::Greater) => {
                let y = next_b.take();
                next_b = b.next();
                Some(pair(None, y))
            }
            // From here on, entries of the second map are looked up by their keys.
            None => {
                let of_a = next_a.take().into_iter().chain(a.clone());
                let of_b = next_b.take().into_iter().chain(b.clone());
                rest = Some(UnorderedEntries::new(of_a, of_b, b.left() / INDEXED + 1));
                rest.as_mut().and_then(UnorderedEntries::next)
            }
        }
    }))
}

/// Approximate number of entries that are in memory at a time to be looked up.
const INDEXED: u64 = 1 << 20;

/// Pairs the entries of two maps that come in any order. It divides the entries into parts by a hash of their
/// keys, and reads one part at a time, so that about [`INDEXED`] entries are in memory.
struct UnorderedEntries<'a, 'b> {
    all_of_a: EntryChain<'a>,
    all_of_b: EntryChain<'b>,
    part: u64,
    parts: u64,
    of_a: EntryChain<'a>,
    of_b: BTreeMap<String, Entry<'b>>,
}

/// An entry that was read already, and the entries behind it.
type EntryChain<'v> = std::iter::Chain<std::option::IntoIter<Entry<'v>>, Entries<'v>>;

impl<'a: 'b, 'b> UnorderedEntries<'a, 'b> {
    fn new(of_a: EntryChain<'a>, of_b: EntryChain<'b>, parts: u64) -> UnorderedEntries<'a, 'b> {
        let mut rest = UnorderedEntries {
            all_of_a: of_a.clone(),
            all_of_b: of_b,
            part: 0,
            parts,
            of_a,
            of_b: BTreeMap::new(),
        };
        rest.index();
        rest
    }

    /// Indexes the entries of the current part.
    fn index(&mut self) {
        self.of_a = self.all_of_a.clone();
        let (part, parts) = (self.part, self.parts);
        let of_b = self.all_of_b.clone().map(|entry| (key_text(&entry.key), entry));
        self.of_b = of_b.filter(|(key, _)| part_of(key, parts) == part).collect();
    }

    fn next(&mut self) -> Option<(String, Option<Value<'a>>, Option<Value<'b>>)> {
        loop {
            for entry in self.of_a.by_ref() {
                let key = key_text(&entry.key);
                if part_of(&key, self.parts) == self.part {
                    let other = self.of_b.remove(&key);
                    return Some(pair(Some(entry), other));
                }
            }
            if let Some((_, entry)) = self.of_b.pop_first() {
                return Some(pair(None, Some(entry)));
            }
            self.part += 1;
            if self.part >= self.parts {
                return None;
            }
            self.index();
        }
    }
}

/// Returns the part that a key belongs to.
fn part_of(key: &str, parts: u64) -> u64 {
    if parts == 1 {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish() % parts
}

fn pair<'a, 'b>(
    a: Option<Entry<'a>>,
    b: Option<Entry<'b>>,
) -> (String, Option<Value<'a>>, Option<Value<'b>>) {
    let key = match (&a, &b) {
        (Some(entry), _) => key_text(&entry.key),
        (None, Some(entry)) => key_text(&entry.key),
        (None, None) => String::new(),
    };
    (format!("[{key}]"), a.map(value_of), b.map(value_of))
}

/// Returns the value of an entry, or the reason why its key is invalid.
fn value_of(entry: Entry<'_>) -> Value<'_> {
    if matches!(entry.key, Value::Invalid(_)) { entry.key } else { entry.value }
}

fn is_same_key(a: &Value<'_>, b: &Value<'_>) -> bool {
    !matches!(a, Value::Invalid(_)) && key_text(a) == key_text(b)
}

/// Returns the order of two keys in ordered maps, or `None` for keys of other kinds.
fn order_of(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    let text = |value: &Value<'_>| match value {
        Value::Pointer(pointer) => match pointer.target().ok()??.value() {
            Value::Str(text) => Some(text.as_bytes().to_vec()),
            Value::Bytes(bytes) => Some(bytes.to_vec()),
            _ => None,
        },
        Value::Str(text) => Some(text.as_bytes().to_vec()),
        Value::Bytes(bytes) => Some(bytes.to_vec()),
        _ => None,
    };
    match (a, b) {
        (Value::Unsigned(a), Value::Unsigned(b)) => Some(a.cmp(b)),
        (Value::Signed(a), Value::Signed(b)) => Some(a.cmp(b)),
        (Value::Char(a), Value::Char(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (a, b) => Some(text(a)?.cmp(&text(b)?)),
    }
}

/// Returns whether two values without parts are equal; floating-point numbers, bit by bit.
fn is_same(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::Unit, Value::Unit) | (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Char(a), Value::Char(b)) => a == b,
        (Value::Unsigned(a), Value::Unsigned(b)) => a == b,
        (Value::Signed(a), Value::Signed(b)) => a == b,
        (Value::F32(a), Value::F32(b)) => a.to_bits() == b.to_bits(),
        (Value::F64(a), Value::F64(b)) => a.to_bits() == b.to_bits(),
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        _ => false,
    }
}
