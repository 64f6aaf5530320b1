//! Collects the objects of a picture, and the rows of each object.

use std::collections::{HashMap, HashSet, VecDeque};

use pheap::{Object, Pointer, Value};

use crate::print::is_scalar;
use crate::text::{brief, key_text, short};

/// Maximal characters of a value and of a name, and about the maximal rows of an object. Large `items` allow
/// more rows.
const VALUE: usize = 28;
const NAME: usize = 24;
const ROWS: usize = 40;
/// Maximal number of rows for a list of scalars.
const SCALAR_ROWS: usize = 3;
/// Maximal nesting of structs and collections whose parts have separate rows.
const NESTED: usize = 6;

/// A picture: names at which it begins, and objects, in the order in which they were found.
pub struct Graph {
    pub nodes: Vec<GraphNode>,
    /// Number of roots outside the picture, plus the number of objects outside that objects in the picture
    /// point to.
    pub left_out: usize,
    pub is_sound: bool,
}

/// An object, or the name at which the picture begins.
pub struct GraphNode {
    pub title: String,
    /// The offset of the object; `None` for the name of a root or a path.
    pub offset: Option<u64>,
    pub bytes: u64,
    /// Number of pointers from a name to the object, 0 for a name; 1 for an object that was included.
    pub level: usize,
    pub rows: Vec<NodeRow>,
}

/// A row of a node.
pub struct NodeRow {
    pub name: String,
    pub value: String,
    /// Number of the node that the row points to.
    pub to: Option<usize>,
    /// Whether the row points to an object outside the picture.
    pub is_cut: bool,
}

pub struct Collector<'v> {
    graph: Graph,
    most: usize,
    items: usize,
    most_rows: usize,
    /// Number of each node by offset and type. The offset is not enough: an object and its first field have
    /// the same offset.
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

    /// Adds a node for a name that stands for an object: see [`begin_at`](Self::begin_at).
    pub fn begin(&mut self, name: &str, pointer: Pointer<'v>) {
        self.begin_at(name, Value::Pointer(pointer), "");
    }

    /// Adds a node for the name of a root or of a path, at which the picture begins. Its rows show `value`;
    /// objects that the value points to become nodes, too, while there is room.
    pub fn begin_at(&mut self, name: &str, value: Value<'v>, type_name: &str) {
        let number = self.graph.nodes.len();
        let title = cut(name, 2 * NAME);
        self.graph.nodes.push(GraphNode { title, offset: None, bytes: 0, level: 0, rows: Vec::new() });
        let name =
            if matches!(value, Value::Pointer(_)) { String::new() } else { cut(&short(type_name), NAME) };
        let mut rows = Vec::new();
        self.rows(&mut rows, name, value, 1, 0);
        self.graph.nodes[number].rows = rows;
    }

    /// Adds a number of roots that the picture does not show to the number of objects left out.
    pub fn leave_out(&mut self, roots: usize) {
        self.graph.left_out += roots;
    }

    /// Adds a node for an object that has none yet, even if the picture is full. Returns the number of its
    /// node.
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

    /// Adds the rows of the objects in the queue, whose nodes have no rows yet.
    fn follow(&mut self) {
        while let Some((number, object)) = self.queue.pop_front() {
            let level = self.graph.nodes[number].level + 1;
            let mut rows = Vec::new();
            self.rows(&mut rows, String::new(), object.value(), level, 0);
            self.graph.nodes[number].rows = rows;
        }
    }

    /// Appends the rows of a value. Objects that the value points to become nodes of this level, unless they
    /// are in the graph already.
    fn rows(&mut self, rows: &mut Vec<NodeRow>, name: String, value: Value<'v>, level: usize, nested: usize) {
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
                        // An object that the key points to gets no node: `key` stands for it.
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

    /// Appends the row above the elements of a collection.
    fn head(&self, rows: &mut Vec<NodeRow>, name: &str, len: u64, what: &str) {
        let s = if len == 1 { "" } else { "s" };
        rows.push(plain(cut(name, NAME), format!("{len} {what}{s}")));
    }

    /// Returns the number of an object's node. Adds the node if there is room; otherwise returns `None`.
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
        self.graph.nodes.push(GraphNode {
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

    fn pointer(&mut self, rows: &mut Vec<NodeRow>, name: String, pointer: Pointer<'v>, level: usize) {
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
        rows.push(NodeRow { name, value, to, is_cut: to.is_none() });
    }
}

/// Appends the rows of a list of scalars, several in a row.
fn scalars<'v>(rows: &mut Vec<NodeRow>, name: &str, elements: pheap::Elements<'v>) {
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

fn plain(name: String, value: String) -> NodeRow {
    NodeRow { name, value, to: None, is_cut: false }
}

fn more(rows: &mut Vec<NodeRow>, more: u64) {
    if rows.last().is_some_and(|row| row.value == "…") {
        return; // the last row says already that there are more
    }
    if more > 0 {
        rows.push(plain(String::new(), format!("… {more} more")));
    }
}

/// Shortens a text to at most `most` characters.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most - 1).chain(['…']).collect(),
    }
}
