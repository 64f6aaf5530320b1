//! `pheap info`, `roots`, `types`, `stats` and `collect`: tables or JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use pheap::Heap;
use serde_json::{Value, json};

use crate::progress::Progress;
use crate::text::short;
use crate::{Outcome, Result};

/// Prints rows with aligned columns. Columns from `numbers` on are aligned to the right.
fn table(out: &mut dyn Write, rows: &[Vec<String>], numbers: usize) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let padding = " ".repeat(width - cell.chars().count());
            line += if column > 0 { "  " } else { "" };
            line += &if column >= numbers { padding + cell } else { format!("{cell}{padding}") };
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn row<const N: usize>(cells: [&dyn ToString; N]) -> Vec<String> {
    cells.map(|cell| cell.to_string()).to_vec()
}

fn print(out: &mut dyn Write, as_json: bool, value: &Value, rows: &[Vec<String>]) -> Result {
    if as_json {
        writeln!(out, "{value:#}")?
    } else {
        table(out, rows, 2)?
    }
    Ok(Outcome::Well)
}

pub fn info(heap: &Heap, as_json: bool, out: &mut dyn Write) -> Result {
    let info = heap.info();
    let stats = heap.stats();
    let state = match info.in_use {
        None => "closed".to_owned(),
        Some(durability) => format!("{durability:?}").to_lowercase(),
    };
    let in_words = match info.in_use {
        None => "closed".to_owned(),
        Some(durability) if info.followed => {
            format!("in use with `Durability::{durability:?}` (or its last user was killed)")
        }
        Some(durability) => {
            format!("not closed: its last user, with `Durability::{durability:?}`, was killed")
        }
    };
    let uuid = format!("{:032x}", info.uuid);
    let base = format!("{:#x}", info.base);
    let value = json!({
        "format": info.format,
        "uuid": uuid,
        "base": base,
        "reserved": info.reserved,
        "file_bytes": info.file_bytes,
        "free_bytes": info.free_bytes,
        "arena_size": info.arena_size,
        "arenas": info.arenas,
        "state": state,
        "followed": info.followed,
        "offered": info.offered.map(|durability| format!("{durability:?}").to_lowercase()),
        "replayed_records": stats.replayed_records,
        "rolled_back_entries": stats.rolled_back_entries,
        "types": info.types,
        "roots": info.roots,
    });
    let bytes = |n: u64| format!("{n} bytes ({})", human(n));
    let mut rows = vec![
        row([&"format", &format!("version {}", info.format)]),
        row([&"uuid", &uuid]),
        row([&"base address", &base]),
        row([&"reserved", &bytes(info.reserved)]),
        row([&"file", &bytes(info.file_bytes)]),
        row([&"free", &bytes(info.free_bytes)]),
        row([&"arenas", &format!("{}, of {} each or more", info.arenas, human(info.arena_size))]),
        row([&"state", &in_words]),
    ];
    if let Some(offered) = info.offered {
        rows.push(row([&"durability", &format!("`Durability::Auto` chooses `{offered:?}` here")]));
    }
    if stats.replayed_records + stats.rolled_back_entries > 0 {
        let (redo, undo) = (stats.replayed_records, stats.rolled_back_entries);
        rows.push(row([
            &"logs",
            &format!("{redo} redo records to replay, {undo} undo entries to roll back"),
        ]));
    }
    rows.push(row([&"types", &info.types]));
    rows.push(row([&"roots", &info.roots]));
    print(out, as_json, &value, &rows)
}

pub fn roots(heap: &Heap, as_json: bool, out: &mut dyn Write) -> Result {
    let roots = heap.roots();
    let value: Vec<Value> =
        roots.iter().map(|root| json!({ "name": root.name, "type": root.type_name })).collect();
    let rows: Vec<_> = roots.iter().map(|root| row([&root.name, &root.type_name])).collect();
    print(out, as_json, &Value::Array(value), &rows)
}

pub fn types(heap: &Heap, as_json: bool, out: &mut dyn Write) -> Result {
    let types = heap.types();
    let value = types.iter().map(|ty| {
        json!({
            "number": ty.number, "name": ty.name, "size": ty.size, "align": ty.align, "layout": ty.layout,
        })
    });
    let rows: Vec<_> = types.iter().map(|ty| row([&ty.number, &ty.layout])).collect();
    print(out, as_json, &Value::Array(value.collect()), &rows)
}

/// Prints the layouts of programs' types that only one of two heaps has, by the name of the type.
pub fn differences(heap: &Heap, other: &Heap, as_json: bool, out: &mut dyn Write) -> Result {
    let layouts = |heap: &Heap| {
        let mut layouts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        // The layouts of collections, slices and so on follow from the types that they contain.
        for ty in
            heap.types().into_iter().filter(|ty| !ty.name.starts_with("pheap::") && !ty.name.starts_with('['))
        {
            layouts.entry(ty.name).or_default().insert(ty.layout);
        }
        layouts
    };
    let (here, there) = (layouts(heap), layouts(other));
    let only =
        |name: &String, of: &BTreeMap<String, BTreeSet<String>>, not: &BTreeMap<String, BTreeSet<String>>| {
            let is_new = |layout: &&String| not.get(name).is_none_or(|layouts| !layouts.contains(*layout));
            of.get(name).into_iter().flatten().filter(is_new).cloned().collect::<Vec<_>>()
        };
    let names: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
    let (mut values, mut rows) = (Vec::new(), Vec::new());
    for name in names {
        let (a, b) = (only(name, &here, &there), only(name, &there, &here));
        if a.is_empty() && b.is_empty() {
            continue;
        }
        rows.extend(a.iter().map(|layout| row([&"-", layout])));
        rows.extend(b.iter().map(|layout| row([&"+", layout])));
        values.push(json!({ "name": name, "here": a, "there": b }));
    }
    print(out, as_json, &Value::Array(values), &rows)
}

pub fn stats(heap: &Heap, as_json: bool, out: &mut dyn Write) -> Result {
    let report = {
        let _spinner = Progress::spinner("counting");
        heap.check()?
    };
    let stats = heap.stats();
    let usage = report.usage.iter().map(|usage| {
        json!({
            "root": usage.root, "type": usage.type_name,
            "objects": usage.objects, "bytes": usage.bytes, "span_bytes": usage.span_bytes,
        })
    });
    let value = json!({
        "file_bytes": stats.file_bytes,
        "free_bytes": stats.free_bytes,
        "objects": report.objects,
        "bytes": report.bytes,
        "spans": report.spans,
        "clean": report.is_clean(),
        "usage": usage.collect::<Vec<_>>(),
    });
    let mut rows = vec![row([&"root", &"type", &"objects", &"bytes", &"of spans"])];
    rows.extend(report.usage.iter().map(|usage| {
        row([&usage.root, &short(&usage.type_name), &usage.objects, &usage.bytes, &usage.span_bytes])
    }));
    rows.push(row([&"", &"", &report.objects, &report.bytes]));
    print(out, as_json, &value, &rows)?;
    if !as_json {
        writeln!(out, "{} of {} in the file are free", human(stats.free_bytes), human(stats.file_bytes))?;
    }
    if report.is_clean() {
        return Ok(Outcome::Well);
    }
    eprintln!("pheap: objects that only damaged pointers led to are missing here; see `pheap check`");
    Ok(Outcome::Unsound)
}

pub fn collect(heap: &Heap, as_json: bool, out: &mut dyn Write) -> Result {
    heap.wait_ready()?;
    let before = heap.stats();
    {
        let _spinner = Progress::spinner("collecting");
        heap.collect()?;
    }
    let after = heap.stats();
    let objects = before.live_objects.saturating_sub(after.live_objects);
    let bytes = before.live_bytes.saturating_sub(after.live_bytes);
    let value = json!({
        "freed_objects": objects,
        "freed_bytes": bytes,
        "live_objects": after.live_objects,
        "live_bytes": after.live_bytes,
        "free_bytes": after.free_bytes,
        "free_bytes_before": before.free_bytes,
    });
    let rows = [
        row([&"freed", &format!("{objects} objects, {}", human(bytes))]),
        row([&"live", &format!("{} objects, {}", after.live_objects, human(after.live_bytes))]),
        row([&"free pages", &format!("{}, {} before", human(after.free_bytes), human(before.free_bytes))]),
    ];
    print(out, as_json, &value, &rows)
}

/// Returns a number of bytes in a suitable unit.
fn human(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let unit = ((bytes.max(1).ilog2() / 10) as usize).min(units.len() - 1);
    match unit {
        0 => format!("{bytes} bytes"),
        _ => format!("{:.1} {}", bytes as f64 / (1u64 << (10 * unit)) as f64, units[unit]),
    }
}
