//! `pheap graph`: draws the objects and their pointers, for Graphviz, as SVG, or as JSON.

pub mod collect;
mod dot;
mod layout;
mod svg;

use std::io::Write;
use std::path::PathBuf;

use pheap::Heap;
use serde_json::json;

use crate::path::{self, PathResult, find};
use crate::{Failure, Outcome, Result, write_text};
use collect::{Collector, Graph};

#[derive(clap::Args, Debug)]
pub struct Args {
    /// The file of the heap
    pub file: PathBuf,
    /// Where to begin: a path, as for `get`; all roots if left out
    path: Option<String>,
    /// The file to write, instead of the standard output; the endings `.svg` and `.json` set the format
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The format of the drawing
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The same as `--format json`
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Show at most this many objects: those that are the fewest pointers away
    #[arg(long, value_name = "N", default_value_t = 60)]
    nodes: usize,
    /// Show at most this many elements of each collection
    #[arg(long, value_name = "N", default_value_t = 6)]
    items: usize,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Format {
    /// For Graphviz: `| dot -Tpng`
    Dot,
    /// A picture, in light and dark
    Svg,
    /// Objects and pointers as JSON
    Json,
}

impl Args {
    fn format(&self) -> Format {
        let extension = self.output.as_ref().and_then(|path| path.extension()).and_then(|name| name.to_str());
        match (self.format, extension) {
            (Some(format), _) => format,
            (None, _) if self.json => Format::Json,
            (None, Some("svg")) => Format::Svg,
            (None, Some("json")) => Format::Json,
            (None, _) => Format::Dot,
        }
    }
}

pub fn graph(heap: &Heap, args: &Args, out: &mut dyn Write) -> Result {
    let graph = heap.objects(|objects| {
        let mut collector = Collector::new(args.nodes.max(1), args.items);
        let roots: Vec<&str> = objects.roots().collect();
        match &args.path {
            None => {
                // The picture begins at so few roots that most nodes can be objects.
                let most = (args.nodes / 3).max(1);
                for name in roots.iter().take(most) {
                    collector.begin(name, objects.root(name)?.pointer());
                }
                collector.leave_out(roots.len().saturating_sub(most));
            }
            Some(path) => {
                let (root, steps) = path::parse(path, &roots)?;
                let object = objects.root(&root)?;
                if steps.is_empty() {
                    collector.begin(path, object.pointer());
                } else {
                    find(objects, &root, &steps, &mut |found| match found {
                        PathResult::Value(value, type_name) => {
                            collector.begin_at(path, value, &type_name);
                            Ok(())
                        }
                        PathResult::About(_) => Err(Failure::Other(format!(
                            "`{path}` leads to no object that could be drawn; leave out `..len` and the like"
                        ))),
                    })?;
                }
            }
        }
        Ok::<Graph, Failure>(collector.collect())
    })??;
    let text = match args.format() {
        Format::Dot => dot::draw(&graph),
        Format::Svg => svg::draw(&graph),
        Format::Json => format!("{:#}\n", as_json(&graph)),
    };
    write_text(args.output.as_deref(), &text, out)?;
    Ok(Outcome::of(graph.is_sound))
}

fn as_json(graph: &Graph) -> serde_json::Value {
    let nodes = graph.nodes.iter().map(|node| {
        let rows = node.rows.iter().map(|row| json!({ "name": row.name, "value": row.value, "to": row.to }));
        json!({
            "title": node.title, "offset": node.offset, "bytes": node.bytes, "distance": node.level,
            "rows": rows.collect::<Vec<_>>(),
        })
    });
    json!({ "nodes": nodes.collect::<Vec<_>>(), "left_out": graph.left_out })
}
