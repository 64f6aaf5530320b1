//! Streams: consumer groups and pending entries.

use pheap::field;

use super::args::{int, value};
use super::stream_parts::{
    CLASS, CREATED_CONSUMER, find_group, no_group, no_such_group, parse_id, parse_id_or_extreme,
    parse_range_end, parse_range_start, write_id,
};
use super::table::{ADD, KEY, LOOK, READ, SUBKEY, WRITE, WRITE_FAST, tell_subcommands};
use super::values::{get, get_or_new};
use super::{Args, Command, Cx, Done, Fail, Keys, answer, ok, yes_or_no};
use crate::data::streams::{Consumers, Id, Progress, Stream, consumer_or_new, remove_pending};
use crate::resp::Reply;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("xack", -4, WRITE_FAST, KEY, xack).access("RW update"),
    Command::container("xgroup"),
    Command::new("xgroup|create", -5, ADD, SUBKEY, create).access("RW insert"),
    Command::new("xgroup|createconsumer", 5, ADD, SUBKEY, create_consumer).access("RW insert"),
    Command::new("xgroup|delconsumer", 5, WRITE, SUBKEY, delete_consumer).access("RW delete"),
    Command::new("xgroup|destroy", 4, WRITE, SUBKEY, destroy).access("RW delete"),
    Command::new("xgroup|help", 2, LOOK, Keys::None, |_, args, out| tell_subcommands(args, HELP, out)),
    Command::new("xgroup|setid", -5, WRITE, SUBKEY, set_id).access("RW update"),
    Command::new("xpending", -3, READ, KEY, xpending),
];

const HELP: &[&str] = &[
    "CREATE <key> <groupname> <id|$> [MKSTREAM] [ENTRIESREAD <n>]",
    "    Makes a group that gets what is behind the id. MKSTREAM makes the stream if there is none.",
    "CREATECONSUMER <key> <groupname> <consumer>",
    "    Makes a consumer of the group.",
    "DELCONSUMER <key> <groupname> <consumer>",
    "    Removes a consumer of the group, with its pending entries.",
    "DESTROY <key> <groupname>",
    "    Removes a group.",
    "SETID <key> <groupname> <id|$> [ENTRIESREAD <n>]",
    "    Lets the group go on behind another id.",
];

/// Parses the options of `CREATE` and `SETID`: whether to create the stream, and the number of entries read
/// (-1: unknown).
fn parse_create_options(args: &Args<'_>, can_make: bool) -> Result<(bool, i64), Fail> {
    let (mut makes, mut read, mut rest) = (false, -1, args[5..].iter());
    while let Some(option) = rest.next() {
        match (option.to_ascii_lowercase().as_slice(), rest.len()) {
            (b"mkstream", _) if can_make => makes = true,
            (b"entriesread", 1..) => {
                read = int(value(&mut rest)?)?;
                Fail::err_when(read < -1, "value for ENTRIESREAD must be positive or -1")?;
            }
            _ => return Err(Fail::bad_subcommand(args)),
        }
    }
    Ok((makes, read))
}

fn missing_key() -> Fail {
    Fail::err(
        "The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.",
    )
}

/// Counts a change of a group, and sends the notification.
fn record_group_change(cx: &mut Cx<'_>, event: &str, key: &[u8]) {
    cx.effects.dirty += 1;
    cx.notify(CLASS, event, key);
}

fn create(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (makes, read) = parse_create_options(args, true)?;
    let (key, name, now) = (args[2], args[3], cx.now);
    let is_made = cx.write(key, |tx, db| {
        let there = get::<Stream>(tx, &tx[db], key, now)?;
        if there.is_none() && !makes {
            return Err(missing_key());
        }
        if args.len() > 8 {
            return Err(Fail::bad_subcommand(args));
        }
        let last = match args[4] {
            b"$" => there.map_or(0, |stream| tx[field!(stream.past)].last),
            text => parse_id(text, 0)?,
        };
        if find_group(tx, there, name).is_some() {
            return Err(Fail::Error("BUSYGROUP Consumer Group name already exists".into()));
        }
        let stream = get_or_new::<Stream>(tx, db, key, now)?;
        let group = tx.alloc(Consumers { progress: Progress { last, read }, ..Consumers::default() })?;
        field!(stream.groups).insert(tx, name, group)?;
        Ok(there.is_none())
    })?;
    if is_made {
        cx.modified(cx.session.db, key);
        cx.wake(key);
    }
    record_group_change(cx, "xgroup-create", key);
    ok(out)
}

fn set_id(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (_, read) = parse_create_options(args, false)?;
    let (key, name) = (args[2], args[3]);
    cx.change_value::<Stream, _>(key, |tx, there| {
        let stream = there.ok_or_else(missing_key)?;
        let group = find_group(tx, there, name).ok_or_else(|| no_such_group(key, name))?;
        if args.len() > 7 {
            return Err(Fail::bad_subcommand(args));
        }
        let last = match args[4] {
            b"$" => tx[field!(stream.past)].last,
            text => parse_id_or_extreme(text, 0)?,
        };
        tx[field!(group.progress)] = Progress { last, read };
        Ok(())
    })?;
    record_group_change(cx, "xgroup-setid", key);
    ok(out)
}

fn destroy(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, name) = (args[2], args[3]);
    let is_gone = cx.change_value::<Stream, _>(key, |tx, stream| {
        let stream = stream.ok_or_else(missing_key)?;
        Ok(field!(stream.groups).remove(tx, name).is_some())
    })?;
    if is_gone {
        record_group_change(cx, "xgroup-destroy", key);
        // Clients that wait for entries of the group get an error.
        cx.wake(key);
    }
    yes_or_no(out, is_gone)
}

fn create_consumer(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, name, consumer, now) = (args[2], args[3], args[4], cx.clock);
    let is_new = cx.change_value::<Stream, _>(key, |tx, there| {
        there.ok_or_else(missing_key)?;
        let group = find_group(tx, there, name).ok_or_else(|| no_such_group(key, name))?;
        Ok(field!(group.names).get(tx, consumer).is_none() && consumer_or_new(tx, group, consumer, now)?.1)
    })?;
    if is_new {
        record_group_change(cx, CREATED_CONSUMER, key);
    }
    yes_or_no(out, is_new)
}

fn delete_consumer(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, name, consumer) = (args[2], args[3], args[4]);
    let pending = cx.change_value::<Stream, _>(key, |tx, there| {
        there.ok_or_else(missing_key)?;
        let group = find_group(tx, there, name).ok_or_else(|| no_such_group(key, name))?;
        let Some(consumer) = field!(group.names).remove(tx, consumer) else { return Ok(None) };
        let pending = field!(consumer.pending);
        let mut count = 0;
        while let Some(id) = pending.pop_first(tx) {
            field!(group.pending).remove(tx, &id);
            count += 1;
        }
        Ok(Some(count))
    })?;
    if pending.is_some() {
        record_group_change(cx, "xgroup-delconsumer", key);
    }
    answer::int(out, pending.unwrap_or(0))
}

fn xack(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, name) = (args[1], args[2]);
    let count = cx.change_value::<Stream, _>(key, |tx, stream| {
        let Some(group) = find_group(tx, stream, name) else { return Ok(0) };
        for text in &args[3..] {
            parse_id(text, 0)?;
        }
        let mut count = 0;
        for text in &args[3..] {
            count += u64::from(remove_pending(tx, group, parse_id(text, 0)?));
        }
        Ok(count)
    })?;
    cx.effects.dirty += count;
    answer::int(out, count as i64)
}

/// The pending entries that `XPENDING` lists one by one.
struct PendingQuery<'a> {
    idle: i64,
    range: (Id, Id),
    count: i64,
    consumer: Option<&'a [u8]>,
}

impl<'a> PendingQuery<'a> {
    fn parse(args: &Args<'a>) -> Result<Option<PendingQuery<'a>>, Fail> {
        match args.len() {
            3 => return Ok(None),
            6..=9 => {}
            _ => return Err(Fail::SYNTAX),
        }
        let (mut idle, mut at) = (0, 3);
        if args[3].eq_ignore_ascii_case(b"idle") {
            idle = int(args[4])?;
            Fail::SYNTAX.when(args.len() < 8)?;
            at = 5;
        }
        let count = int(args[at + 2])?.max(0);
        let range = (parse_range_start(args[at])?, parse_range_end(args[at + 1])?);
        Ok(Some(PendingQuery { idle, range, count, consumer: args.get(at + 3).copied() }))
    }
}

fn xpending(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let wanted = PendingQuery::parse(args)?;
    let (key, name, now) = (args[1], args[2], cx.clock);
    cx.read_value::<Stream, _>(key, |view, stream| {
        let group = find_group(view, stream, name).ok_or_else(|| no_group(key, name, ""))?;
        let group: &Consumers<'_> = &view[group];
        let Some(wanted) = wanted else {
            out.array(4);
            out.count(group.pending.len());
            let mut ids = group.pending.iter(view).map(|(id, _)| *id);
            let Some(first) = ids.next() else {
                out.null();
                out.null();
                return answer::null_array(out);
            };
            write_id(out, first);
            write_id(out, ids.next_back().unwrap_or(first));
            let (begun, mut count) = (out.defer_len(), 0);
            for (name, &consumer) in group.names.iter(view) {
                let pending = view[consumer].pending.len();
                if pending > 0 {
                    out.array(2);
                    out.bulk(name);
                    out.bulk_int(pending as i64);
                    count += 1;
                }
            }
            out.end_array(begun, count);
            return Ok(());
        };
        let (begun, mut count) = (out.defer_len(), 0);
        let (from, to) = wanted.range;
        let (mut of_all, mut of_one) = (None, None);
        match wanted.consumer.map(|name| group.names.get(view, name)) {
            _ if from > to || wanted.count == 0 => {}
            None => of_all = Some(group.pending.range(view, from..=to).map(|(id, _)| *id)),
            Some(None) => {}
            Some(Some(&consumer)) => of_one = Some(view[consumer].pending.range(view, from..=to).copied()),
        }
        for id in of_all.into_iter().flatten().chain(of_one.into_iter().flatten()) {
            let Some(delivery) = group.pending.get(view, &id) else { continue };
            let idle = now - delivery.at;
            if wanted.idle != 0 && idle < wanted.idle {
                continue;
            }
            out.array(4);
            write_id(out, id);
            out.bulk(&view[view[delivery.consumer].name]);
            out.int(idle.max(0));
            out.int(delivery.count);
            count += 1;
            if count as i64 == wanted.count {
                break;
            }
        }
        out.end_array(begun, count);
        Ok(())
    })
}
