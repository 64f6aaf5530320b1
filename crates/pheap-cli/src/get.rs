//! `pheap get`: prints the values or properties that a path leads to.

use std::io::Write;
use std::path::PathBuf;

use pheap::{Heap, Value};

use crate::path::{self, PathResult, PathStep, find};
use crate::print::{PrintLimits, print};
use crate::{Outcome, Result};

#[derive(clap::Args, Debug)]
pub struct Args {
    /// The file of the heap
    pub file: PathBuf,
    /// The path of the value, such as `jobs.queue[42].state`
    path: String,
    /// Print JSON, also for texts
    #[arg(long)]
    json: bool,
    /// Follow chains of at most this many pointers after the end of the path
    #[arg(long, value_name = "N", default_value_t = 4)]
    depth: u64,
    /// Print at most this many elements of each collection
    #[arg(long, value_name = "N")]
    items: Option<u64>,
}

pub fn get(heap: &Heap, args: &Args, out: &mut dyn Write) -> Result {
    let values = heap.info().file_bytes;
    let limits = PrintLimits { depth: args.depth, items: args.items.unwrap_or(u64::MAX), values };
    heap.objects(|objects| {
        let roots: Vec<&str> = objects.roots().collect();
        let (root, steps) = path::parse(&args.path, &roots)?;
        let are_many = steps.iter().any(|step| matches!(step, PathStep::All | PathStep::Range(..)));
        let mut sound = true;
        find(objects, &root, &steps, &mut |found| {
            match found {
                PathResult::About(serde_json::Value::String(text)) if !args.json => {
                    out.write_all(text.as_bytes())?
                }
                PathResult::About(value) => write!(out, "{value}")?,
                PathResult::Value(value, _) => match text_of(&value).filter(|_| !args.json) {
                    Some(text) => out.write_all(text.as_bytes())?,
                    None => sound &= print(objects, value, limits, are_many, out)?,
                },
            }
            Ok(writeln!(out)?)
        })?;
        Ok(Outcome::of(sound))
    })?
}

/// Returns the text if the value is a text or points to one.
fn text_of<'v>(value: &Value<'v>) -> Option<&'v str> {
    match value {
        Value::Str(text) => Some(text),
        Value::Pointer(pointer) => match pointer.target().ok()??.value() {
            Value::Str(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}
