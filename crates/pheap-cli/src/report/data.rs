//! The data of a report page. The size of the data hardly depends on the size of the heap.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use pheap::{Heap, Objects, Purpose, SpanUse};
use serde_json::{Value, json};

use crate::Result;
use crate::graph::collect::Collector;
use crate::progress::Progress;
use crate::text::{brief, short};

/// Number of parts of the file. The page shows each part in a colour.
const PARTS: u64 = 1024;
/// Maximal number of elements of each collection that the page shows.
const ITEMS: usize = 30;
const LARGEST: usize = 24;
/// Maximal number of rows by root and type. One more row has the sums of the rest.
const ROWS: usize = 1000;
const PREVIEW: usize = 80;

/// The number of live objects, and the bytes of live objects, of garbage, and of whole spans.
#[derive(Default, Clone, Copy)]
struct TypeBytes {
    objects: u64,
    live: u64,
    garbage: u64,
    all: u64,
}

impl TypeBytes {
    fn add(&mut self, span: &SpanUse<'_>) {
        self.objects += span.reached;
        self.live += span.reached * span.slot_bytes;
        self.garbage += span.garbage * span.slot_bytes;
        self.all += span.bytes;
    }
}

/// Counters that are collected span by span.
struct HeapSurvey {
    file_bytes: u64,
    by_type: HashMap<(String, String), TypeBytes>,
    of_objects: TypeBytes,
    of_logs: u64,
    of_types: u64,
    /// For each part of the file: bytes of spans, of live objects, and of spans that hold no objects.
    parts: Vec<[u64; 3]>,
    /// Bytes of spans of objects, by the share of their slots that holds live objects, in tenths.
    tenths: [u64; 11],
    /// The bytes of the slots, and the offsets, of the largest objects.
    largest: BinaryHeap<Reverse<(u64, u64)>>,
}

pub fn collect(heap: &Heap, file: &Path, most: usize) -> Result<Value> {
    let (info, stats) = (heap.info(), heap.stats());
    let of_file = file.metadata().ok();
    let time = |time: Option<SystemTime>| Some(time?.duration_since(UNIX_EPOCH).ok()?.as_secs());
    let created = time(of_file.as_ref().and_then(|file| file.created().ok()));
    let modified = time(of_file.as_ref().and_then(|file| file.modified().ok()));
    heap.objects(|objects| {
        let mut survey = HeapSurvey {
            file_bytes: info.file_bytes,
            by_type: HashMap::new(),
            of_objects: TypeBytes::default(),
            of_logs: 0,
            of_types: 0,
            parts: vec![[0; 3]; PARTS as usize],
            tenths: [0; 11],
            largest: BinaryHeap::new(),
        };
        let report = {
            let bar = Progress::of_objects(objects.bound(), "looking at");
            objects.survey(|found| bar.set(found), |span| survey.look_at(span))
        };
        let HeapSurvey { of_objects, of_logs, of_types, parts, tenths, .. } = &survey;
        let free_slots = of_objects.all - of_objects.live - of_objects.garbage;
        let known = of_objects.all + of_logs + of_types + info.free_bytes;
        let (nodes, largest) = browse(objects, survey.largest(), most)?;
        Ok(json!({
            "name": file.file_name().map(|name| name.to_string_lossy()),
            "format": info.format,
            "uuid": format!("{:032x}", info.uuid),
            "state": info.in_use.map(|durability| format!("{durability:?}")),
            "followed": info.followed,
            "created": created,
            "modified": modified,
            "file_bytes": info.file_bytes,
            "objects": report.objects,
            "spans": report.spans,
            "types": info.types,
            "ready": stats.ready,
            "roots": info.roots,
            "clean": report.is_clean(),
            "problems": report.problems,
            "more_problems": report.more_problems,
            "bytes": {
                "live": of_objects.live,
                "garbage": of_objects.garbage,
                "free_slots": free_slots,
                "logs": of_logs,
                "tables": of_types + info.file_bytes.saturating_sub(known),
                "free_pages": info.free_bytes,
            },
            "usage": survey.usage(),
            "parts": { "bytes": info.file_bytes.div_ceil(PARTS), "use": parts },
            "tenths": tenths,
            "growth": info.growth,
            "largest": largest,
            "nodes": nodes,
        }))
    })?
}

impl HeapSurvey {
    fn look_at(&mut self, span: &SpanUse<'_>) {
        self.spread(span);
        match span.purpose {
            Purpose::Objects => {}
            Purpose::Types => return self.of_types += span.bytes,
            _ => return self.of_logs += span.bytes,
        }
        self.of_objects.add(span);
        let key = (span.root.unwrap_or("?").to_owned(), span.type_name.to_owned());
        self.by_type.entry(key).or_default().add(span);
        let tenth = (span.reached * 10).checked_div(span.slots).unwrap_or(0);
        self.tenths[tenth as usize] += span.bytes;
        let least = self.largest.peek().map_or(0, |Reverse((bytes, _))| *bytes);
        if self.largest.len() < LARGEST || span.slot_bytes > least {
            for object in span.objects().take(LARGEST) {
                self.largest.push(Reverse((span.slot_bytes, object.offset())));
                if self.largest.len() > LARGEST {
                    self.largest.pop();
                }
            }
        }
    }

    /// Adds the bytes of a span to the parts of the file that contain it.
    fn spread(&mut self, span: &SpanUse<'_>) {
        let part = self.file_bytes.div_ceil(PARTS).max(1);
        let live = span.reached * span.slot_bytes;
        let end = (span.offset + span.bytes).min(self.file_bytes);
        let mut at = span.offset;
        while at < end {
            let number = at / part;
            let until = end.min((number + 1) * part);
            let here = &mut self.parts[number as usize];
            here[0] += until - at;
            let share = u128::from(live) * u128::from(until - at) / u128::from(span.bytes);
            match span.purpose {
                Purpose::Objects => here[1] += share as u64,
                _ => here[2] += until - at,
            }
            at = until;
        }
    }

    fn largest(&self) -> Vec<(u64, u64)> {
        let mut all: Vec<(u64, u64)> = self.largest.iter().map(|Reverse(object)| *object).collect();
        all.sort_by_key(|&(bytes, offset)| (Reverse(bytes), offset));
        all
    }

    fn usage(&self) -> Value {
        let mut all: Vec<_> = self.by_type.iter().collect();
        all.sort_by(|(a, x), (b, y)| (y.all, a).cmp(&(x.all, b)));
        let row = |root: &str, ty: &str, bytes: &TypeBytes| {
            json!({
                "root": root, "type": ty, "objects": bytes.objects, "bytes": bytes.live,
                "garbage": bytes.garbage, "span_bytes": bytes.all,
            })
        };
        let mut rows: Vec<Value> =
            all.iter().take(ROWS).map(|((root, ty), bytes)| row(root, &short(ty), bytes)).collect();
        if all.len() > ROWS {
            let mut rest = TypeBytes::default();
            for (_, bytes) in &all[ROWS..] {
                rest.objects += bytes.objects;
                rest.live += bytes.live;
                rest.garbage += bytes.garbage;
                rest.all += bytes.all;
            }
            rows.push(row("…", &format!("{} more", all.len() - ROWS), &rest));
        }
        rows.into()
    }
}

/// Returns the objects to browse, with their rows, and the largest objects.
fn browse(objects: &Objects<'_>, sizes: Vec<(u64, u64)>, most: usize) -> Result<(Value, Value)> {
    let mut collector = Collector::new(most.saturating_sub(sizes.len()).max(1), ITEMS);
    for name in objects.roots().take(most / 2) {
        if let Ok(root) = objects.root(name) {
            collector.begin(name, root.pointer());
        }
    }
    let mut largest = Vec::new();
    for (bytes, offset) in sizes {
        let Some(object) = objects.at(offset) else { continue };
        largest.push(json!({
            "bytes": bytes, "offset": offset, "type": short(object.type_name()),
            "preview": brief(&object.value(), PREVIEW), "node": collector.include(object),
        }));
    }
    let graph = collector.collect();
    let nodes = graph.nodes.iter().map(|node| {
        let rows = node.rows.iter().map(|row| json!([row.name, row.value, row.to, row.is_cut]));
        json!([node.title, node.offset, node.bytes, rows.collect::<Vec<_>>()])
    });
    Ok((nodes.collect(), largest.into()))
}
