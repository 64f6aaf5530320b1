//! `pheap report`: writes a page that shows the objects of a heap and the use of its bytes. The page needs no
//! other file.

mod data;

use std::io::Write;
use std::path::PathBuf;

use pheap::Heap;

use crate::{Outcome, Result, write_text};

#[derive(clap::Args, Debug)]
pub struct Args {
    /// The file of the heap
    pub file: PathBuf,
    /// The page to write, instead of the standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print what the page shows as JSON
    #[arg(long)]
    json: bool,
    /// Include at most this many objects to browse: those that are the fewest pointers away from the roots,
    /// and the largest
    #[arg(long, value_name = "N", default_value_t = 1500)]
    objects: usize,
}

/// The template of the page. The style, the data and the script replace the comments `/*STYLE*/`, `/*DATA*/`
/// and `/*SCRIPT*/` in it.
const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

pub fn report(heap: &Heap, args: &Args, out: &mut dyn Write) -> Result {
    let data = data::collect(heap, &args.file, args.objects)?;
    let is_sound = data["clean"] == true;
    let text = if args.json { format!("{data:#}\n") } else { page(&data) };
    write_text(args.output.as_deref(), &text, out)?;
    Ok(Outcome::of(is_sound))
}

fn page(data: &serde_json::Value) -> String {
    // Without a `<`, the data cannot end the element that contains them.
    let data = data.to_string().replace('<', "\\u003c");
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + SCRIPT.len() + data.len());
    let mut rest = PAGE;
    for (name, part) in [("/*STYLE*/", STYLE), ("/*DATA*/", data.as_str()), ("/*SCRIPT*/", SCRIPT)] {
        let (before, after) = rest.split_once(name).expect("the page has a place for each part");
        page.push_str(before);
        page.push_str(part);
        rest = after;
    }
    page + rest
}
