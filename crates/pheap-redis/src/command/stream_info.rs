//! Streams: `XINFO`.

use pheap::P;

use super::args::int;
use super::stream_parts::{find_group, no_such_group, write_entry, write_id, write_range};
use super::table::{LOOK, READ, SUBKEY, tell_subcommands};
use super::{Args, Command, Cx, Done, Fail, Keys};
use crate::data::View;
use crate::data::streams::{Consumers, Extent, Id, Progress, Stream};
use crate::resp::Reply;

pub(super) const COMMANDS: &[Command] = &[
    Command::container("xinfo"),
    Command::new("xinfo|consumers", 4, READ, SUBKEY, consumers),
    Command::new("xinfo|groups", 3, READ, SUBKEY, groups),
    Command::new("xinfo|help", 2, LOOK, Keys::None, |_, args, out| tell_subcommands(args, HELP, out)),
    Command::new("xinfo|stream", -3, READ, SUBKEY, info),
];

const HELP: &[&str] = &[
    "CONSUMERS <key> <groupname>",
    "    Tells about the consumers of a group.",
    "GROUPS <key>",
    "    Tells about the groups of a stream.",
    "STREAM <key> [FULL [COUNT <count>]]",
    "    Tells about a stream.",
];

fn consumers(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, name, now) = (args[2], args[3], cx.clock);
    cx.read_value::<Stream, _>(key, |view, stream| {
        stream.ok_or(Fail::NO_SUCH_KEY)?;
        let group = find_group(view, stream, name).ok_or_else(|| no_such_group(key, name))?;
        let names = &view[group].names;
        out.array(names.len());
        for (name, &consumer) in names.iter(view) {
            let consumer = &view[consumer];
            out.map(3);
            out.field("name").bulk(name);
            out.field("pending").count(consumer.pending.len());
            out.field("idle").int((now - consumer.seen).max(0));
        }
        Ok(())
    })
}

/// Writes the position of a group, and how many entries it has read and has not read yet, if that is known.
fn write_progress(extent: Extent, progress: Progress, out: &mut Reply) {
    let write = |number: Option<i64>, out: &mut Reply| match number {
        Some(number) => out.int(number),
        None => out.null(),
    };
    write_id(out.field("last-delivered-id"), progress.last);
    write(Some(progress.read).filter(|&read| read >= 0), out.field("entries-read"));
    write(extent.lag(progress), out.field("lag"));
}

fn groups(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    cx.read_value::<Stream, _>(args[2], |view, stream| {
        let stream = stream.ok_or(Fail::NO_SUCH_KEY)?;
        let (extent, groups) = (Extent::of(view, stream), &view[stream].groups);
        out.array(groups.len());
        for (name, &group) in groups.iter(view) {
            let group = &view[group];
            out.map(6);
            out.field("name").bulk(name);
            out.field("consumers").count(group.names.len());
            out.field("pending").count(group.pending.len());
            write_progress(extent, group.progress, out);
        }
        Ok(())
    })
}

/// Parses the options `FULL` and `COUNT` of `XINFO STREAM`. Returns the count, which is 10 by default, or
/// `None` without `FULL`.
fn full(args: &Args<'_>) -> Result<Option<usize>, Fail> {
    match args[3..] {
        [] => Ok(None),
        [full] if full.eq_ignore_ascii_case(b"full") => Ok(Some(10)),
        [full, word, count] if full.eq_ignore_ascii_case(b"full") && word.eq_ignore_ascii_case(b"count") => {
            Ok(Some(usize::try_from(int(count)?).unwrap_or(10)))
        }
        _ => Err(Fail::bad_subcommand(args)),
    }
}

fn info(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let block = cx.server.config.read().int("stream-node-max-entries").max(1) as usize;
    cx.read_value::<Stream, _>(args[2], |view, stream| {
        let stream = stream.ok_or(Fail::NO_SUCH_KEY)?;
        let full = full(args)?;
        let (extent, groups) = (Extent::of(view, stream), &view[stream].groups);
        let blocks = view[stream].entries.len().div_ceil(block);
        out.map(if full.is_some() { 9 } else { 10 });
        out.field("length").int(extent.len as i64);
        // The stream is not stored as a radix tree here, so the numbers of keys and nodes are estimates.
        out.field("radix-tree-keys").count(blocks);
        out.field("radix-tree-nodes").count(blocks + 1);
        write_id(out.field("last-generated-id"), extent.past.last);
        write_id(out.field("max-deleted-entry-id"), extent.past.deleted);
        out.field("entries-added").int(extent.past.added as i64);
        write_id(out.field("recorded-first-entry-id"), extent.first);
        if let Some(count) = full {
            write_range(view, stream, (0, Id::MAX), count, false, out.field("entries"), |_| {});
            out.field("groups").array(groups.len());
            for (name, &group) in groups.iter(view) {
                out.map(7);
                out.field("name").bulk(name);
                write_progress(extent, view[group].progress, out);
                write_group(view, group, count, out);
            }
            return Ok(());
        }
        out.field("groups").count(groups.len());
        let mut entries = view[stream].entries.iter(view);
        let (first, last) = (entries.next(), view[stream].entries.iter(view).next_back());
        for (what, entry) in [("first-entry", first), ("last-entry", last)] {
            out.bulk(what.as_bytes());
            match entry {
                Some((&id, &packed)) => write_entry(out, id, &view[packed]),
                None => out.null(),
            }
        }
        Ok(())
    })
}

/// Writes the pending entries and the consumers of a group for `XINFO STREAM FULL`: at most `count` pending
/// entries of the group, and of each consumer (0: all).
fn write_group<'r>(view: &View<'r>, group: P<'r, Consumers<'r>>, count: usize, out: &mut Reply) {
    let group = &view[group];
    let most = |len: usize| if count == 0 { len } else { len.min(count) };
    out.field("pel-count").count(group.pending.len());
    out.bulk(b"pending");
    let shown = most(group.pending.len());
    out.array(shown);
    for (&id, delivery) in group.pending.iter(view).take(shown) {
        out.array(4);
        write_id(out, id);
        out.bulk(&view[view[delivery.consumer].name]);
        out.int(delivery.at);
        out.int(delivery.count);
    }
    out.field("consumers").array(group.names.len());
    for (name, &consumer) in group.names.iter(view) {
        let consumer = &view[consumer];
        out.map(4);
        out.field("name").bulk(name);
        out.field("seen-time").int(consumer.seen);
        out.field("pel-count").count(consumer.pending.len());
        out.bulk(b"pending");
        let (begun, mut shown) = (out.defer_len(), 0);
        let ids = consumer.pending.iter(view).take(most(consumer.pending.len()));
        for (&id, delivery) in ids.filter_map(|id| Some((id, group.pending.get(view, id)?))) {
            out.array(3);
            write_id(out, id);
            out.int(delivery.at);
            out.int(delivery.count);
            shown += 1;
        }
        out.end_array(begun, shown);
    }
}
