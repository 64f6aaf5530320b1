//! `pheap dump`: the objects of a root, or of a part of it, as JSON, JSON lines or CSV.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use pheap::{Entry, Heap, Objects, Value};

use crate::path::{self, PathResult, find_one};
use crate::print::{PrintLimits, print};
use crate::progress::Progress;
use crate::text::{hex, key_text, kind};
use crate::{Failure, Outcome, Result};

pub const HELP: &str = r#"How values are printed:
  structs              objects; the fields of tuples are "0", "1", ...
  enums                "Variant", or {"Variant": {fields}}
  arrays, vectors      arrays; so are queues and sets
  maps                 objects, with keys as text; if those are structs, arrays of {"key": …, "value": …}
  strings, char        strings, wherever something points to them
  bytes                strings, if they are text; {"$bytes": "hexadecimal digits"} if not
  numbers              numbers with all digits; a reader of JSON may round u64 and larger ones
  NaN, infinities      strings: "NaN", "inf", "-inf"
  None, (), unused     null; `Some` is what is in it
  P<T>                 the object, at the place that is the fewest pointers away from the root; elsewhere
                       {"$ref": "0x…"}. The object has that offset in the file as "$id": among its fields, or, if it
                       is not a struct, in {"$id": "0x…", "$value": …}.
                       An object more than --depth pointers away is a "$ref" without an "$id".
  invalid values       {"$invalid": "why"}, and the exit status is 1"#;

#[derive(clap::Args, Debug)]
pub struct Args {
    /// The file of the heap
    pub file: PathBuf,
    /// The name of the root, or a path, as for `get`; optional if there is only one root
    path: Option<String>,
    /// `jsonl` and `csv` print a line for each element of a collection, and need little memory however many
    /// there are
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Follow chains of at most this many pointers
    #[arg(long, value_name = "N", default_value_t = 8)]
    depth: u64,
    /// Print at most this many elements of each collection; in JSON, "$more" is the number of the others
    #[arg(long, value_name = "N")]
    items: Option<u64>,
    /// Print no spaces or line breaks
    #[arg(long)]
    compact: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq)]
enum Format {
    /// One JSON value
    #[default]
    Json,
    /// A line with a JSON value for each element
    Jsonl,
    /// A line for each element, with a column for each of its fields
    Csv,
}

pub fn dump(heap: &Heap, args: &Args, out: &mut dyn Write) -> Result {
    let values = heap.info().file_bytes;
    let limits = PrintLimits { depth: args.depth, items: args.items.unwrap_or(u64::MAX), values };
    heap.objects(|objects| {
        let roots: Vec<&str> = objects.roots().collect();
        let path = args.path.as_deref().unwrap_or_default();
        let (root, steps) = path::parse(path, &roots)?;
        let (value, type_name) = match (&steps[..], args.format) {
            // A root that is printed as a whole gets an `$id` if an object refers to it.
            ([], Format::Json) => return whole(objects, &root, limits, args.compact, out),
            _ => match find_one(objects, &root, &steps)? {
                PathResult::Value(value, type_name) => (value, type_name),
                PathResult::About(value) => {
                    writeln!(out, "{value}")?;
                    return Ok(Outcome::Well);
                }
            },
        };
        let sound = match args.format {
            Format::Json => {
                let sound = print(objects, value, limits, args.compact, out)?;
                writeln!(out)?;
                sound
            }
            Format::Jsonl => lines(objects, value, limits, out)?,
            Format::Csv => {
                let (value, type_name) = behind(value, &type_name);
                table(objects, value, &type_name, limits, out)?
            }
        };
        Ok(Outcome::of(sound))
    })?
}

fn whole(
    objects: &Objects<'_>,
    root: &str,
    limits: PrintLimits,
    compact: bool,
    out: &mut dyn Write,
) -> Result {
    let value = Value::Pointer(objects.root(root)?.pointer());
    let sound = print(objects, value, limits, compact, out)?;
    writeln!(out)?;
    Ok(Outcome::of(sound))
}

/// Returns the object that a pointer leads to, and its type. Returns any other value, and a pointer that
/// leads to no object, unchanged.
fn behind<'v>(value: Value<'v>, type_name: &str) -> (Value<'v>, String) {
    match &value {
        Value::Pointer(pointer) => match pointer.target() {
            Ok(Some(target)) => (target.value(), target.type_name().to_owned()),
            _ => (value, type_name.to_owned()),
        },
        _ => (value, type_name.to_owned()),
    }
}

/// A progress bar, unless the output goes to a terminal, and the number of printed elements.
struct CountedProgress(Option<Progress>, u64);

impl CountedProgress {
    fn new(value: &Value<'_>) -> CountedProgress {
        let len = match value {
            Value::List(elements) => elements.len() as u64,
            Value::Map(entries) | Value::Set(entries) => entries.left(),
            _ => 0,
        };
        let bar = || Progress::of_objects(len, "printing");
        CountedProgress((!std::io::stdout().is_terminal()).then(bar), 0)
    }

    fn one(&mut self) {
        self.1 += 1;
        if let (Some(bar), 0) = (&self.0, self.1 % 1024) {
            bar.set(self.1);
        }
    }
}

/// Prints a line for each element, or one line for a value without elements. Returns whether all values were
/// valid.
fn lines<'v>(
    objects: &Objects<'v>,
    value: Value<'v>,
    limits: PrintLimits,
    out: &mut dyn Write,
) -> Result<bool> {
    let mut sound = true;
    let items = usize::try_from(limits.items).unwrap_or(usize::MAX);
    let (value, _) = behind(value, "");
    let mut counted = CountedProgress::new(&value);
    let one = |element| {
        counted.one();
        sound &= print(objects, element, limits, true, out)?;
        Ok::<_, Failure>(writeln!(out)?)
    };
    match value {
        Value::List(elements) => elements.take(items).try_for_each(one)?,
        Value::Set(entries) => entries.take(items).map(|entry| entry.key).try_for_each(one)?,
        Value::Map(entries) => {
            for Entry { key, value, .. } in entries.take(items) {
                counted.one();
                write!(out, "{{\"key\":")?;
                sound &= print(objects, key, limits, true, out)?;
                write!(out, ",\"value\":")?;
                sound &= print(objects, value, limits, true, out)?;
                writeln!(out, "}}")?;
            }
        }
        value => {
            sound = print(objects, value, limits, true, out)?;
            writeln!(out)?;
        }
    }
    Ok(sound)
}

/// Prints CSV: a line with names, and a line for each element of a collection, with a cell for each field.
/// Returns whether all values were valid. Fails if the value is no collection.
fn table<'v>(
    objects: &Objects<'v>,
    value: Value<'v>,
    type_name: &str,
    limits: PrintLimits,
    out: &mut dyn Write,
) -> Result<bool> {
    let items = usize::try_from(limits.items).unwrap_or(usize::MAX);
    let mut rows =
        DumpRows { objects, limits, columns: None, sound: true, counted: CountedProgress::new(&value) };
    match value {
        Value::List(elements) => elements.take(items).try_for_each(|value| rows.row(None, value, out))?,
        Value::Set(entries) => {
            entries.take(items).try_for_each(|entry| rows.row(None, entry.key, out))?;
        }
        Value::Map(entries) => {
            entries.take(items).try_for_each(|entry| rows.row(Some(entry.key), entry.value, out))?;
        }
        value => {
            let mut inner = Vec::new();
            if let Value::Struct(fields) = &value {
                for field in fields.clone() {
                    let (value, _) = behind(field.value, field.type_name);
                    if matches!(value, Value::List(_) | Value::Map(_) | Value::Set(_)) {
                        inner.push(format!("`.{}`", field.name));
                    }
                }
            }
            let hint =
                if inner.is_empty() { String::new() } else { format!("; it has {}", inner.join(", ")) };
            return Err(Failure::Other(format!(
                "`--format csv` needs a collection, and the path leads to {}{hint}",
                kind(&value, type_name)
            )));
        }
    }
    Ok(rows.sound)
}

struct DumpRows<'o, 'v> {
    objects: &'o Objects<'v>,
    limits: PrintLimits,
    /// Number of columns for values; `None` before the first row.
    columns: Option<usize>,
    sound: bool,
    counted: CountedProgress,
}

impl<'v> DumpRows<'_, 'v> {
    fn row(&mut self, key: Option<Value<'v>>, value: Value<'v>, out: &mut dyn Write) -> Result<()> {
        self.counted.one();
        let (value, _) = behind(value, "");
        if let Some(Value::Invalid(why)) = &key {
            self.sound = false;
            writeln!(out, "{}", cell(&format!("invalid: {why}")))?;
            return Ok(());
        }
        let (names, values): (Vec<&str>, Vec<Value<'v>>) = match value {
            Value::Struct(fields) => fields.map(|field| (field.name, field.value)).unzip(),
            value => (vec!["value"], vec![value]),
        };
        if self.columns.is_none() {
            let names = key.iter().map(|_| "key").chain(names.iter().copied()).map(cell);
            writeln!(out, "{}", names.collect::<Vec<_>>().join(","))?;
            self.columns = Some(values.len());
        }
        let mut cells = Vec::new();
        if let Some(key) = key {
            cells.push(cell(&key_text(&key)));
        }
        for value in values {
            let text = self.text(value)?;
            cells.push(cell(&text));
        }
        Ok(writeln!(out, "{}", cells.join(","))?)
    }

    fn text(&mut self, value: Value<'v>) -> Result<String> {
        let mut json = Vec::new();
        match behind(value.clone(), "").0 {
            Value::Str(text) => return Ok(text.to_owned()),
            Value::Unit | Value::Null => return Ok(String::new()),
            _ => match &value {
                Value::Pointer(pointer) if self.limits.depth == 0 => {
                    return Ok(serde_json::json!({ "$ref": hex(pointer.offset()) }).to_string());
                }
                Value::Pointer(_) => {
                    let limits = PrintLimits { depth: self.limits.depth - 1, ..self.limits };
                    self.sound &= print(self.objects, value, limits, true, &mut json)?;
                }
                _ => self.sound &= print(self.objects, value, self.limits, true, &mut json)?,
            },
        }
        let json = String::from_utf8_lossy(&json).into_owned();
        Ok(match serde_json::from_str(&json) {
            Ok(serde_json::Value::String(text)) => text,
            _ => json,
        })
    }
}

/// Returns the cell of a CSV line for a text, in quotes if necessary.
fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
