//! `pheap dump`: the objects of a root as JSON.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Write};
use std::path::PathBuf;

use pheap::{Elements, Fields, Heap, Object, Pointer, Value};

use crate::json::Writer;
use crate::{Failure, Outcome, Result};

pub const HELP: &str = r#"How values are printed:
  structs              objects; the fields of tuples are "0", "1", ...
  enums                "Variant", or {"Variant": {fields}}
  arrays, slices       arrays
  strings, char        strings, wherever something points to them
  numbers              numbers with all digits; a reader of JSON may round u64 and larger ones
  NaN, infinities      strings: "NaN", "inf", "-inf"
  None, (), unused     null
  P<T>                 the object, at the place that is the fewest pointers away from the root; elsewhere
                       {"$ref": "0x…"}. The object has that offset in the file as "$id": among its fields, or, if it
                       is not a struct, in {"$id": "0x…", "$value": …}.
                       An object more than --depth pointers away is a "$ref" without an "$id".
  invalid values       {"$invalid": "why"}, and the exit status is 1"#;

#[derive(clap::Args, Debug)]
pub struct Args {
    /// The heap
    pub file: PathBuf,
    /// The name of the root; optional if there is only one
    root: Option<String>,
    /// Follow chains of at most this many pointers
    #[arg(long, value_name = "N", default_value_t = 8)]
    depth: u64,
    /// Print at most this many elements of each array and slice; {"$more": n} stands for the others
    #[arg(long, value_name = "N")]
    items: Option<u64>,
    /// Print no spaces or line breaks
    #[arg(long)]
    compact: bool,
}

pub fn dump(heap: &Heap, args: &Args, out: &mut dyn Write) -> Result {
    let root = match &args.root {
        Some(root) => root.clone(),
        None => only_root(heap)?,
    };
    heap.inspect(&root, |object| {
        let items = args.items.unwrap_or(u64::MAX);
        let plan = Plan::of(object, args.depth, items);
        let mut printer = Printer {
            json: Writer::new(out, args.compact),
            plan,
            printed: HashSet::new(),
            open: Vec::new(),
            current: object.offset(),
            items,
            unsound: false,
        };
        printer.print(object)?;
        let unsound = printer.unsound;
        writeln!(out)?;
        Ok(if unsound { Outcome::Unsound } else { Outcome::Well })
    })?
}

fn only_root(heap: &Heap) -> Result<String> {
    let roots = heap.roots();
    match &roots[..] {
        [root] => Ok(root.name.clone()),
        [] => Err(Failure::Other("the heap has no roots".to_owned())),
        roots => {
            let names: Vec<String> = roots.iter().map(|root| format!("{:?}", root.name)).collect();
            Err(Failure::Other(format!("say which root: {}", names.join(", "))))
        }
    }
}

/// Where each object is printed: as near to the root as possible.
struct Plan {
    /// Object → the one that it is printed in. Both by offset.
    home: HashMap<u64, u64>,
    /// Objects that something else refers to, too.
    shared: HashSet<u64>,
}

impl Plan {
    fn of(root: Object<'_>, depth: u64, items: u64) -> Plan {
        let mut plan = Plan { home: HashMap::from([(root.offset(), root.offset())]), shared: HashSet::new() };
        let mut queue = VecDeque::from([(root, 0)]);
        while let Some((object, away)) = queue.pop_front() {
            pointers(object.value(), items, &mut |pointer| {
                let Ok(Some(target)) = pointer.target() else { return };
                if matches!(target.value(), Value::Str(_)) {
                    return;
                }
                match plan.home.entry(target.offset()) {
                    Entry::Occupied(_) => drop(plan.shared.insert(target.offset())),
                    Entry::Vacant(home) if away < depth => {
                        home.insert(object.offset());
                        queue.push_back((target, away + 1));
                    }
                    Entry::Vacant(_) => {}
                }
            });
        }
        plan
    }
}

/// The pointers in a value.
fn pointers<'v>(value: Value<'v>, items: u64, visit: &mut impl FnMut(Pointer<'v>)) {
    match value {
        Value::Pointer(pointer) => visit(pointer),
        Value::Struct(fields) | Value::Enum(_, fields) => {
            fields.for_each(|field| pointers(field.value, items, visit));
        }
        Value::List(elements) => {
            let mut elements = elements.take(usize::try_from(items).unwrap_or(usize::MAX));
            if let Some(first) = elements.next()
                && !is_scalar(&first)
            {
                pointers(first, items, visit);
                elements.for_each(|element| pointers(element, items, visit));
            }
        }
        _ => {}
    }
}

/// Whether values of this type have no parts and no pointers.
fn is_scalar(value: &Value<'_>) -> bool {
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

/// Something that is not closed yet.
enum Open<'v> {
    Fields(Fields<'v>),
    /// Elements, and how many of them are to be printed.
    Elements(Elements<'v>, u64),
    /// Nothing is left but to close it.
    Last,
    /// The end of an object, and the one that it is printed in.
    Object(u64),
}

struct Printer<'w, 'v> {
    json: Writer<'w>,
    plan: Plan,
    printed: HashSet<u64>,
    /// An explicit stack, because long lists would overflow that of the thread.
    open: Vec<Open<'v>>,
    /// The object that is being printed.
    current: u64,
    items: u64,
    unsound: bool,
}

impl<'v> Printer<'_, 'v> {
    fn print(&mut self, root: Object<'v>) -> io::Result<()> {
        self.object(root)?;
        while let Some(open) = self.open.last_mut() {
            match open {
                Open::Fields(fields) => match fields.next() {
                    Some(field) => {
                        self.json.key(field.name)?;
                        self.value(field.value)?;
                    }
                    None => self.close()?,
                },
                Open::Elements(elements, 0) => {
                    let more = elements.len();
                    if more > 0 {
                        self.marked("$more", |json| json.plain(more))?;
                    }
                    self.close()?;
                }
                Open::Elements(elements, left) => match elements.next() {
                    Some(element) => {
                        *left -= 1;
                        self.value(element)?;
                    }
                    None => self.close()?,
                },
                Open::Last => self.close()?,
                Open::Object(outer) => {
                    self.current = *outer;
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

    /// Begins to print an object; its content follows from the stack.
    fn object(&mut self, object: Object<'v>) -> io::Result<()> {
        let offset = object.offset();
        self.printed.insert(offset);
        self.open.push(Open::Object(std::mem::replace(&mut self.current, offset)));
        if !self.plan.shared.contains(&offset) {
            return self.value(object.value());
        }
        self.json.begin(['{', '}'], true)?;
        self.json.key("$id")?;
        self.json.text(&hex(offset))?;
        if let Value::Struct(fields) = object.value() {
            self.open.push(Open::Fields(fields));
            return Ok(());
        }
        self.json.key("$value")?;
        self.open.push(Open::Last);
        self.value(object.value())
    }

    /// Begins to print a value.
    fn value(&mut self, value: Value<'v>) -> io::Result<()> {
        match value {
            Value::Unit | Value::Null => self.json.plain("null"),
            Value::Bool(b) => self.json.plain(b),
            Value::Char(c) => self.json.text(c.encode_utf8(&mut [0; 4])),
            Value::Unsigned(n) => self.json.plain(n),
            Value::Signed(n) => self.json.plain(n),
            // `?` prints the shortest digits that identify the number.
            Value::F32(x) if x.is_finite() => self.json.plain(format_args!("{x:?}")),
            Value::F64(x) if x.is_finite() => self.json.plain(format_args!("{x:?}")),
            Value::F32(x) => self.json.text(&x.to_string()),
            Value::F64(x) => self.json.text(&x.to_string()),
            Value::Str(text) => self.json.text(text),
            Value::Pointer(pointer) => self.pointer(pointer),
            Value::Struct(fields) => {
                self.json.begin(['{', '}'], true)?;
                self.open.push(Open::Fields(fields));
                Ok(())
            }
            Value::Enum(name, fields) if fields.len() == 0 => self.json.text(name),
            Value::Enum(name, fields) => {
                self.json.begin(['{', '}'], true)?;
                self.json.key(name)?;
                self.open.push(Open::Last);
                self.value(Value::Struct(fields))
            }
            Value::List(elements) => {
                let lines = elements.clone().next().is_some_and(|first| !is_scalar(&first));
                self.json.begin(['[', ']'], lines)?;
                self.open.push(Open::Elements(elements, self.items));
                Ok(())
            }
            Value::Invalid(why) => self.invalid(&why),
            _ => self.invalid("of a kind that this program does not know"),
        }
    }

    fn pointer(&mut self, pointer: Pointer<'v>) -> io::Result<()> {
        let target = match pointer.target() {
            Ok(Some(target)) => target,
            Ok(None) => return self.json.plain("null"),
            Err(why) => return self.invalid(&why),
        };
        let offset = target.offset();
        if let Value::Str(text) = target.value() {
            self.json.text(text)
        } else if self.plan.home.get(&offset) == Some(&self.current) && !self.printed.contains(&offset) {
            self.object(target)
        } else {
            self.marked("$ref", |json| json.text(&hex(offset)))
        }
    }

    fn invalid(&mut self, why: &str) -> io::Result<()> {
        self.unsound = true;
        self.marked("$invalid", |json| json.text(why))
    }

    /// `{"$what": value}`
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

fn hex(offset: u64) -> String {
    format!("{offset:#x}")
}
