//! Prints values as JSON. Each object other than a text is printed at most once, at the place that is the
//! fewest pointers away from the start.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};

use pheap::{Elements, Entries, Fields, Object, Objects, Pointer, Value};

use crate::json::Writer;
use crate::text::{hex, key_text, of_bytes};

/// Limits of the printed output.
#[derive(Clone, Copy)]
pub struct PrintLimits {
    /// Maximal length of a chain of pointers. In an object, a collection within more than this many others is
    /// printed without its elements.
    pub depth: u64,
    /// Maximal number of elements of each collection.
    pub items: u64,
    /// Maximal number of values; the size of the heap in bytes. In a damaged heap, collections may own each
    /// other in a circle, and would have no end.
    pub values: u64,
}

/// What a search or a printer knows about an object.
#[derive(Clone, Copy, Default)]
struct ObjectMark {
    /// Number of pointers from the start to the object, plus 1; 0 if it was not found, or is too far away.
    level: u32,
    /// Whether more than one pointer was found that leads to the object. The start counts as one.
    shared: bool,
    printed: bool,
}

/// If the limit of the depth is less than this number, a level and the two flags of an [`ObjectMark`] fit
/// into a byte.
const NEAR: u64 = 61;

/// The marks of objects: a map while there are few, and a byte for each slot of the heap when there are many
/// and `is_near` is set. Objects without a number stay in the map.
struct ObjectMarks {
    few: HashMap<u64, ObjectMark>,
    many: Vec<u8>,
    bound: u64,
    is_near: bool,
}

impl ObjectMarks {
    fn key(object: &Object<'_>) -> u64 {
        object.number().unwrap_or(1 << 63 | object.offset())
    }

    fn get(&self, object: &Object<'_>) -> ObjectMark {
        let key = ObjectMarks::key(object);
        match self.many.get(key as usize) {
            Some(byte) => {
                ObjectMark { level: u32::from(byte >> 2), shared: byte & 1 != 0, printed: byte & 2 != 0 }
            }
            None => self.few.get(&key).copied().unwrap_or_default(),
        }
    }

    fn set(&mut self, object: &Object<'_>, mark: ObjectMark) {
        self.put(ObjectMarks::key(object), mark);
        // An entry of the map takes a few dozen bytes, so many entries take more memory than a byte for each
        // slot.
        if self.is_near && self.many.is_empty() && self.few.len() as u64 > self.bound / 32 + 1024 {
            self.many = vec![0; self.bound as usize];
            std::mem::take(&mut self.few).into_iter().for_each(|(key, mark)| self.put(key, mark));
        }
    }

    fn put(&mut self, key: u64, mark: ObjectMark) {
        match self.many.get_mut(key as usize) {
            Some(byte) => {
                *byte = (mark.level << 2) as u8 | u8::from(mark.shared) | u8::from(mark.printed) << 1
            }
            None => drop(self.few.insert(key, mark)),
        }
    }
}

/// Finds the level of each object, breadth first.
struct LevelSearch<'l, 'v> {
    marks: ObjectMarks,
    limits: &'l PrintLimits,
    /// Offsets of objects whose pointers are still to be followed.
    queue: VecDeque<u64>,
    /// Objects that are parts of other objects, by offset.
    inside: HashMap<u64, Object<'v>>,
}

impl<'v> LevelSearch<'_, 'v> {
    fn made(mut self, objects: &Objects<'v>, start: &Value<'v>) -> ObjectMarks {
        let left = &mut self.limits.values.clone();
        match start {
            Value::Pointer(pointer) => {
                if let Ok(Some(root)) = pointer.target() {
                    self.marks.set(&root, ObjectMark { level: 1, ..ObjectMark::default() });
                    self.look_at(root.value(), 1, left);
                }
            }
            value => self.look_at(value.clone(), 1, left),
        }
        while let Some(offset) = self.queue.pop_front() {
            if let Some(object) = self.inside.get(&offset).copied().or_else(|| objects.at(offset)) {
                let level = self.marks.get(&object).level;
                self.look_at(object.value(), level, left);
            }
        }
        self.marks
    }

    /// Marks the objects that an object of this level points to.
    fn look_at(&mut self, value: Value<'v>, level: u32, left: &mut u64) {
        let limits = self.limits;
        pointers(value, limits, 0, left, &mut |pointer| {
            let Ok(Some(target)) = pointer.target() else { return };
            if target.is_text() {
                return;
            }
            let mark = self.marks.get(&target);
            if mark.level > 0 {
                self.marks.set(&target, ObjectMark { shared: true, ..mark });
            } else if u64::from(level) <= limits.depth {
                self.marks.set(&target, ObjectMark { level: level + 1, ..mark });
                self.queue.push_back(target.offset());
                if target.number().is_none() {
                    self.inside.insert(target.offset(), target);
                }
            }
        });
    }
}

/// An object, array or value that is not printed completely.
enum OpenValue<'v> {
    Fields(Fields<'v>),
    /// Elements, and how many of them may still be printed.
    Elements(Elements<'v>, u64),
    /// The keys of a set, and how many of them may still be printed.
    Keys(Entries<'v>, u64),
    /// The entries of a map as members of an object, and how many of them may still be printed.
    Members(Entries<'v>, u64),
    /// The entries of a map as a list of keys and values, and how many of them may still be printed.
    Pairs(Entries<'v>, u64),
    /// A bracket that is only to be closed.
    Last,
    /// The value of an entry whose key was printed, and the name of the value's member.
    Value(&'static str, Value<'v>),
    /// The end of an object, and the level of the object around it.
    Object(u32),
}

pub struct Printer<'w, 'v> {
    json: Writer<'w>,
    marks: ObjectMarks,
    /// The values that are not printed completely, the innermost last. This is an explicit stack, because
    /// long lists would overflow the thread's stack.
    open: Vec<OpenValue<'v>>,
    /// For each object that is being printed, the number of its open collections.
    collections: Vec<u64>,
    /// The level of the object that is being printed.
    level: u32,
    limits: PrintLimits,
    left: u64,
    unsound: bool,
}

/// Prints a value. Returns whether all of it was valid.
pub fn print<'v>(
    objects: &Objects<'v>,
    value: Value<'v>,
    limits: PrintLimits,
    compact: bool,
    out: &mut dyn Write,
) -> io::Result<bool> {
    let is_near = limits.depth < NEAR;
    let marks = ObjectMarks { few: HashMap::new(), many: Vec::new(), bound: objects.bound(), is_near };
    let marks = LevelSearch { marks, limits: &limits, queue: VecDeque::new(), inside: HashMap::new() }
        .made(objects, &value);
    let mut printer = Printer {
        json: Writer::new(out, compact),
        marks,
        open: Vec::new(),
        collections: vec![0],
        level: 1,
        limits,
        left: limits.values,
        unsound: false,
    };
    printer.all(value)?;
    Ok(!printer.unsound)
}

impl<'v> Printer<'_, 'v> {
    fn all(&mut self, start: Value<'v>) -> io::Result<()> {
        match &start {
            Value::Pointer(pointer) => match pointer.target() {
                Ok(Some(root)) if !root.is_text() => self.object(root)?,
                _ => self.value(start)?,
            },
            _ => self.value(start)?,
        }
        while let Some(open) = self.open.last_mut() {
            match open {
                OpenValue::Fields(fields) => match fields.next() {
                    Some(field) => {
                        self.json.key(field.name)?;
                        self.value(field.value)?;
                    }
                    None => self.close()?,
                },
                OpenValue::Elements(elements, left) => match step(left).then(|| elements.next()).flatten() {
                    Some(element) => self.value(element)?,
                    None => {
                        let more = elements.len() as u64;
                        self.more(more)?;
                    }
                },
                OpenValue::Keys(entries, left) => match step(left).then(|| entries.next()).flatten() {
                    Some(entry) => self.value(entry.key)?,
                    None => {
                        let more = entries.left();
                        self.more(more)?;
                    }
                },
                OpenValue::Members(entries, left) => match step(left).then(|| entries.next()).flatten() {
                    Some(entry) => {
                        if let Value::Invalid(why) = &entry.key {
                            self.unsound = true;
                            self.json.key("$invalid")?;
                            self.json.text(why)?;
                        } else {
                            self.json.key(&key_text(&entry.key))?;
                            self.value(entry.value)?;
                        }
                    }
                    None => {
                        let more = entries.left();
                        if more > 0 {
                            self.json.key("$more")?;
                            self.json.plain(more)?;
                        }
                        self.close_collection()?;
                    }
                },
                OpenValue::Pairs(entries, left) => match step(left).then(|| entries.next()).flatten() {
                    Some(entry) => {
                        if let Value::Invalid(why) = &entry.key {
                            self.invalid(why)?;
                        } else {
                            self.json.begin(['{', '}'], false)?;
                            self.json.key("key")?;
                            self.open.push(OpenValue::Last);
                            self.open.push(OpenValue::Value("value", entry.value));
                            self.value(entry.key)?;
                        }
                    }
                    None => {
                        let more = entries.left();
                        self.more(more)?;
                    }
                },
                OpenValue::Value(..) => {
                    if let Some(OpenValue::Value(key, value)) = self.open.pop() {
                        self.json.key(key)?;
                        self.value(value)?;
                    }
                }
                OpenValue::Last => self.close()?,
                OpenValue::Object(outer) => {
                    self.level = *outer;
                    self.collections.pop();
                    self.open.pop();
                }
            }
        }
        Ok(())
    }

    fn close(&mut self) -> io::Result<()> {
        self.open.pop();
        self.json.end()
    }

    fn close_collection(&mut self) -> io::Result<()> {
        if let Some(collections) = self.collections.last_mut() {
            *collections -= 1;
        }
        self.close()
    }

    /// Ends a list. `more` is the number of elements that were not printed.
    fn more(&mut self, more: u64) -> io::Result<()> {
        if more > 0 {
            self.marked("$more", |json| json.plain(more))?;
        }
        self.close_collection()
    }

    /// Begins to print an object, and pushes its content onto the stack.
    fn object(&mut self, object: Object<'v>) -> io::Result<()> {
        let mark = self.marks.get(&object);
        self.marks.set(&object, ObjectMark { printed: true, ..mark });
        self.open.push(OpenValue::Object(std::mem::replace(&mut self.level, mark.level)));
        self.collections.push(0);
        if !mark.shared {
            return self.value(object.value());
        }
        self.json.begin(['{', '}'], true)?;
        self.json.key("$id")?;
        self.json.text(&hex(object.offset()))?;
        if let Value::Struct(fields) = object.value() {
            self.open.push(OpenValue::Fields(fields));
            return Ok(());
        }
        self.json.key("$value")?;
        self.open.push(OpenValue::Last);
        self.value(object.value())
    }

    /// Prints a value, or begins to print it and pushes its parts onto the stack.
    fn value(&mut self, value: Value<'v>) -> io::Result<()> {
        let Some(left) = self.left.checked_sub(1) else { return self.invalid(CIRCLES) };
        self.left = left;
        match value {
            Value::Unit | Value::Null => self.json.plain("null"),
            Value::Bool(b) => self.json.plain(b),
            Value::Char(c) => self.json.text(c.encode_utf8(&mut [0; 4])),
            Value::Unsigned(n) => self.json.plain(n),
            Value::Signed(n) => self.json.plain(n),
            // The format `{:?}` prints the fewest digits that identify the number.
            Value::F32(x) if x.is_finite() => self.json.plain(format_args!("{x:?}")),
            Value::F64(x) if x.is_finite() => self.json.plain(format_args!("{x:?}")),
            Value::F32(x) => self.json.text(&x.to_string()),
            Value::F64(x) => self.json.text(&x.to_string()),
            Value::Str(text) => self.json.text(text),
            Value::Bytes(bytes) => match of_bytes(bytes) {
                Ok(text) => self.json.text(text),
                Err(digits) => self.marked("$bytes", |json| json.text(&digits)),
            },
            Value::Pointer(pointer) => self.pointer(pointer),
            Value::Struct(fields) => {
                self.json.begin(['{', '}'], true)?;
                self.open.push(OpenValue::Fields(fields));
                Ok(())
            }
            Value::Enum(name, fields) if fields.len() == 0 => self.json.text(name),
            Value::Enum(name, fields) => {
                self.json.begin(['{', '}'], true)?;
                self.json.key(name)?;
                self.open.push(OpenValue::Last);
                self.value(Value::Struct(fields))
            }
            Value::List(elements) => {
                let lines = elements.clone().next().is_some_and(|first| !is_scalar(&first));
                self.collection(['[', ']'], lines, |items| OpenValue::Elements(elements, items))
            }
            Value::Set(entries) => {
                let lines = entries.clone().next().is_some_and(|first| !is_scalar(&first.key));
                self.collection(['[', ']'], lines, |items| OpenValue::Keys(entries, items))
            }
            Value::Map(entries) if has_text_keys(&entries) => {
                self.collection(['{', '}'], true, |items| OpenValue::Members(entries, items))
            }
            Value::Map(entries) => {
                self.collection(['[', ']'], true, |items| OpenValue::Pairs(entries, items))
            }
            Value::Invalid(why) => self.invalid(&why),
            _ => self.invalid("of a kind that this program does not know"),
        }
    }

    fn collection(
        &mut self,
        brackets: [char; 2],
        lines: bool,
        open: impl FnOnce(u64) -> OpenValue<'v>,
    ) -> io::Result<()> {
        let is_deep = self.collections.last().is_some_and(|&open| open > self.limits.depth);
        if let Some(collections) = self.collections.last_mut() {
            *collections += 1;
        }
        self.json.begin(brackets, lines)?;
        self.open.push(open(if is_deep { 0 } else { self.limits.items }));
        Ok(())
    }

    fn pointer(&mut self, pointer: Pointer<'v>) -> io::Result<()> {
        let target = match pointer.target() {
            Ok(Some(target)) => target,
            Ok(None) => return self.json.plain("null"),
            Err(why) => return self.invalid(&why),
        };
        if target.is_text() {
            return self.value(target.value());
        }
        let mark = self.marks.get(&target);
        if mark.level == self.level + 1 && !mark.printed {
            self.object(target)
        } else {
            self.marked("$ref", |json| json.text(&hex(target.offset())))
        }
    }

    fn invalid(&mut self, why: &str) -> io::Result<()> {
        self.unsound = true;
        self.marked("$invalid", |json| json.text(why))
    }

    /// Prints an object with one member: the key `what`, such as `$ref`, and a value.
    fn marked(
        &mut self,
        what: &str,
        value: impl FnOnce(&mut Writer<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.json.begin(['{', '}'], false)?;
        self.json.key(what)?;
        value(&mut self.json)?;
        self.json.end()
    }
}

const CIRCLES: &str = "more values than the heap has bytes: several of its collections own the same objects";

/// Decrements `left` unless it is 0. Returns whether it was greater than 0.
fn step(left: &mut u64) -> bool {
    let is_left = *left > 0;
    *left = left.saturating_sub(1);
    is_left
}

/// Returns whether the keys of a map are printed as text. The first key decides; the answer is true for an
/// empty map.
pub fn has_text_keys(entries: &Entries<'_>) -> bool {
    let Some(entry) = entries.clone().next() else { return true };
    let key = match &entry.key {
        Value::Pointer(pointer) => match pointer.target() {
            Ok(Some(target)) => target.value(),
            _ => return false,
        },
        key => key.clone(),
    };
    match key {
        Value::Str(_) | Value::Bytes(_) => true,
        Value::Enum(_, fields) => fields.len() == 0,
        key => is_scalar(&key),
    }
}

/// Calls `visit` with each pointer in the parts of a value that the limits allow. `within` is the number of
/// collections around the value. A list whose first element is a scalar counts as one without pointers.
fn pointers<'v>(
    value: Value<'v>,
    limits: &PrintLimits,
    within: u64,
    left: &mut u64,
    visit: &mut impl FnMut(Pointer<'v>),
) {
    let Some(rest) = left.checked_sub(1) else { return };
    *left = rest;
    let items = if within > limits.depth { 0 } else { usize::try_from(limits.items).unwrap_or(usize::MAX) };
    match value {
        Value::Pointer(pointer) => visit(pointer),
        Value::Struct(fields) | Value::Enum(_, fields) => {
            fields.for_each(|field| pointers(field.value, limits, within, left, visit));
        }
        Value::List(elements) => {
            let mut elements = elements.take(items);
            if let Some(first) = elements.next()
                && !is_scalar(&first)
            {
                pointers(first, limits, within + 1, left, visit);
                elements.for_each(|element| pointers(element, limits, within + 1, left, visit));
            }
        }
        Value::Map(entries) | Value::Set(entries) => {
            for entry in entries.take(items) {
                pointers(entry.key, limits, within + 1, left, visit);
                pointers(entry.value, limits, within + 1, left, visit);
            }
        }
        _ => {}
    }
}

/// Returns whether a value is a number, a bool, a char or `()`.
pub fn is_scalar(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Unit
            | Value::Bool(_)
            | Value::Char(_)
            | Value::Unsigned(_)
            | Value::Signed(_)
            | Value::F32(_)
            | Value::F64(_)
    )
}
