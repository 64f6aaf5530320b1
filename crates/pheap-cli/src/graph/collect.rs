//! Which objects a picture shows, and what of them.

use std::collections::{HashMap, HashSet, VecDeque};

use pheap::{Object, Pointer, Value};

use crate::print::is_scalar;
use crate::text::{brief, key_text, short};

/// Letters of a value, of a name, and rows of an object, if there are few items.
const VALUE: usize = 28;
const NAME: usize = 24;
const ROWS: usize = 40;
/// Lines of numbers.
const SCALAR_ROWS: usize = 3;
/// Structs and collections within one another that have rows of their own.
const NESTED: usize = 6;

/// Objects, in the order of their distance from the start.
pub struct Graph {
    pub nodes: Vec<Node>,
    /// Roots that are not in the picture, and objects that something in it points to.
    pub left_out: usize,
    pub is_sound: bool,
}

/// An object, or where it all begins.
pub struct Node {
    pub title: String,
    /// None if it is no object, but the name of a root or a path.
    pub offset: Option<u64>,
    pub bytes: u64,
    /// Pointers between it and the start.
    pub level: usize,
    pub rows: Vec<Row>,
}

/// A line of an object.
pub struct Row {
    pub name: String,
    pub value: String,
    /// Number of the node that it points to.
    pub to: Option<usize>,
    /// It points to something that is not in the picture.
    pub is_cut: bool,
}

pub struct Collector<'v> {
    graph: Graph,
    most: usize,
    items: usize,
    most_rows: usize,
    /// Nodes by offset and type: the first field of an object has its offset, too.
    known: HashMap<(u64, &'v str), usize>,
    beyond: HashSet<(u64, &'v str)>,
    queue: VecDeque<(usize, Object<'v>)>,
}

impl<'v> Collector<'v> {
    pub fn new(most: usize, items: usize) -> Collector<'v> {
        let graph = Graph { nodes: Vec::new(), left_out: 0, is_sound: true };
        let (known, beyond) = (HashMap::new(), HashSet::new());
        let most_rows = ROWS.max(4 * items);
        Collector { graph, most, items, most_rows, known, beyond, queue: VecDeque::new() }
    }

    /// Begins at an object that has a name.
    pub fn begin(&mut self, name: &str, pointer: Pointer<'v>) {
        self.begin_at(name, Value::Pointer(pointer), "");
    }

    /// Begins at a value.
    pub fn begin_at(&mut self, name: &str, value: Value<'v>, type_name: &str) {
        let number = self.graph.nodes.len();
        let title = cut(name, 2 * NAME);
        self.graph.nodes.push(Node { title, offset: None, bytes: 0, level: 0, rows: Vec::new() });
        let name =
            if matches!(value, Value::Pointer(_)) { String::new() } else { cut(&short(type_name), NAME) };
        let mut rows = Vec::new();
        self.rows(&mut rows, name, value, 1, 0);
        self.graph.nodes[number].rows = rows;
    }

    /// Notes that so many roots are not shown.
    pub fn leave_out(&mut self, roots: usize) {
        self.graph.left_out += roots;
    }

    /// Shows an object, too, whatever else there is room for. Returns its number.
    pub fn include(&mut self, object: Object<'v>) -> Option<usize> {
        self.follow();
        self.most = self.graph.nodes.len() + 1;
        self.node(object, 1)
    }

    pub fn collect(mut self) -> Graph {
        self.follow();
        self.graph.left_out += self.beyond.iter().filter(|key| !self.known.contains_key(*key)).count();
        self.graph
    }

    /// Looks at the objects that were found and not looked at yet.
    fn follow(&mut self) {
        while let Some((number, object)) = self.queue.pop_front() {
            let level = self.graph.nodes[number].level + 1;
            let mut rows = Vec::new();
            self.rows(&mut rows, String::new(), object.value(), level, 0);
            self.graph.nodes[number].rows = rows;
        }
    }

    /// Appends the rows of a value. What it points to has this level.
    fn rows(&mut self, rows: &mut Vec<Row>, name: String, value: Value<'v>, level: usize, nested: usize) {
        if rows.len() >= self.most_rows {
            if rows.len() == self.most_rows {
                rows.push(plain(String::new(), "…".to_owned()));
            }
            return;
        }
        let inner = |part: &str| match (name.as_str(), part.starts_with('[')) {
            ("", _) => part.to_owned(),
            (name, true) => format!("{name}{part}"),
            (name, false) => format!("{name}.{part}"),
        };
        match value {
            Value::Pointer(pointer) => self.pointer(rows, name, pointer, level),
            Value::Struct(fields) if nested < NESTED => {
                for field in fields {
                    self.rows(rows, inner(field.name), field.value, level, nested + 1);
                }
            }
            Value::Enum(variant, fields) if fields.len() > 0 && nested < NESTED => {
                rows.push(plain(name.clone(), cut(variant, VALUE)));
                for field in fields {
                    self.rows(rows, inner(field.name), field.value, level, nested + 1);
                }
            }
            Value::List(elements) if nested < NESTED => {
                let len = elements.len();
                self.head(rows, &name, len as u64, "element");
                if elements.clone().next().is_some_and(|first| is_scalar(&first)) {
                    return scalars(rows, &inner("[0]"), elements);
                }
                for (i, element) in elements.take(self.items).enumerate() {
                    self.rows(rows, inner(&format!("[{i}]")), element, level, nested + 1);
                }
                more(rows, len.saturating_sub(self.items) as u64);
            }
            Value::Map(entries) if nested < NESTED => {
                let len = entries.left();
                self.head(rows, &name, len, "key");
                for entry in entries.take(self.items) {
                    let key = format!("[{}]", cut(&key_text(&entry.key), NAME));
                    match entry.key {
                        Value::Invalid(why) => {
                            self.rows(rows, inner("[?]"), Value::Invalid(why), level, nested)
                        }
                        // What a key points to is shown as text, or as what it is.
                        _ => self.rows(rows, inner(&key), entry.value, level, nested + 1),
                    }
                }
                more(rows, len.saturating_sub(self.items as u64));
            }
            Value::Set(entries) if nested < NESTED => {
                let len = entries.left();
                self.head(rows, &name, len, "element");
                for entry in entries.take(self.items) {
                    self.rows(rows, String::new(), entry.key, level, nested + 1);
                }
                more(rows, len.saturating_sub(self.items as u64));
            }
            value => {
                self.graph.is_sound &= !matches!(value, Value::Invalid(_));
                rows.push(plain(cut(&name, NAME), cut(&brief(&value, VALUE), VALUE)));
            }
        }
    }

    /// The line above the elements of a collection that is a part of something.
    fn head(&self, rows: &mut Vec<Row>, name: &str, len: u64, what: &str) {
        let s = if len == 1 { "" } else { "s" };
        rows.push(plain(cut(name, NAME), format!("{len} {what}{s}")));
    }

    /// The number of an object, if there is room for it.
    fn node(&mut self, object: Object<'v>, level: usize) -> Option<usize> {
        let key = (object.offset(), object.type_name());
        if let Some(number) = self.known.get(&key) {
            return Some(*number);
        }
        if self.graph.nodes.len() >= self.most {
            self.beyond.insert(key);
            return None;
        }
        let number = self.graph.nodes.len();
        self.graph.nodes.push(Node {
            title: cut(&short(object.type_name()), 2 * NAME),
            offset: Some(object.offset()),
            bytes: object.slot_bytes(),
            level,
            rows: Vec::new(),
        });
        self.known.insert(key, number);
        self.queue.push_back((number, object));
        Some(number)
    }

    fn pointer(&mut self, rows: &mut Vec<Row>, name: String, pointer: Pointer<'v>, level: usize) {
        let name = cut(&name, NAME);
        let target = match pointer.target() {
            Ok(Some(target)) => target,
            Ok(None) => return rows.push(plain(name, "null".to_owned())),
            Err(why) => {
                self.graph.is_sound = false;
                return rows.push(plain(name, cut(&format!("invalid: {why}"), VALUE)));
            }
        };
        if target.is_text() {
            return rows.push(plain(name, cut(&brief(&target.value(), VALUE), VALUE)));
        }
        let to = self.node(target, level);
        let value = if to.is_some() { String::new() } else { cut(&short(target.type_name()), VALUE) };
        rows.push(Row { name, value, to, is_cut: to.is_none() });
    }
}

/// Some numbers, or the like: several in a line.
fn scalars<'v>(rows: &mut Vec<Row>, name: &str, elements: pheap::Elements<'v>) {
    let (mut left, mut shown) = (elements.len(), 0);
    let mut elements = elements.map(|element| brief(&element, VALUE)).peekable();
    let stem = name.trim_end_matches("[0]");
    for _ in 0..SCALAR_ROWS {
        let (first, mut line) = (shown, String::new());
        while let Some(next) = elements.next_if(|next| line.is_empty() || line.len() + next.len() + 1 < VALUE)
        {
            line = if line.is_empty() { next } else { format!("{line} {next}") };
            shown += 1;
            left -= 1;
        }
        if !line.is_empty() {
            rows.push(plain(cut(&format!("{stem}[{first}]"), NAME), cut(&line, VALUE)));
        }
    }
    more(rows, left as u64);
}

fn plain(name: String, value: String) -> Row {
    Row { name, value, to: None, is_cut: false }
}

fn more(rows: &mut Vec<Row>, more: u64) {
    if rows.last().is_some_and(|row| row.value == "…") {
        return; // there is no room even for what comes before
    }
    if more > 0 {
        rows.push(plain(String::new(), format!("… {more} more")));
    }
}

/// A text of so many letters at most.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most - 1).chain(['…']).collect(),
    }
}
