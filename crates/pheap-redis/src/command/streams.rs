//! Streams: adding, reading and removing entries.

use pheap::field;

use super::args::{int, value};
use super::stream_parts::{
    CLASS, NewId, parse_id, parse_range_end, parse_range_start, write_id, write_range,
};
use super::table::{ADD_FAST, KEY, READ, READ_FAST, WRITE, WRITE_FAST};
use super::values::{self, get, get_or_new};
use super::{Args, Command, Cx, Done, Fail, answer, ok};
use crate::data::streams::{ApproximateTrim, Id, Past, Stream, Trim, TrimTo, append, id, ms, seq, trim};
use crate::resp::Reply;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("xadd", -5, ADD_FAST, KEY, xadd).access("RW update"),
    Command::new("xdel", -3, WRITE_FAST, KEY, xdel).access("RW delete"),
    Command::new("xlen", 2, READ_FAST, KEY, values::answer_len::<Stream>).access("RO"),
    Command::new("xrange", -4, READ, KEY, |cx, args, out| xrange(cx, args, [args[2], args[3]], false, out)),
    Command::new("xrevrange", -4, READ, KEY, |cx, args, out| xrange(cx, args, [args[3], args[2]], true, out)),
    Command::new("xsetid", -3, ADD_FAST, KEY, xsetid).access("RW update"),
    Command::new("xtrim", -4, WRITE, KEY, xtrim).access("RW delete"),
];

/// Maximum number of bytes of an entry's fields and values together.
const MAX_ENTRY: usize = 1 << 30;

/// The options of `XADD`, which precede the fields, or of `XTRIM`, which follow the key.
struct XaddOptions {
    trim: Option<Trim>,
    id: NewId,
    only_if_there: bool,
    /// For `XADD`: the index of the first field in the arguments. Beyond their end if the id is missing.
    end: usize,
}

impl XaddOptions {
    fn parse(cx: &Cx<'_>, args: &Args<'_>, is_xadd: bool) -> Result<XaddOptions, Fail> {
        let mut options =
            XaddOptions { trim: None, id: NewId::Any, only_if_there: false, end: args.len() + 1 };
        let (mut is_approximate, mut limit) = (false, None);
        let mut rest = args[2..].iter();
        while let Some(option) = rest.next() {
            match (option.to_ascii_lowercase().as_slice(), rest.len()) {
                (strategy @ (b"maxlen" | b"minid"), more @ 1..) => {
                    Fail::err_when(
                        options.trim.is_some(),
                        "syntax error, MAXLEN and MINID options at the same time are not compatible",
                    )?;
                    let mut bound = value(&mut rest)?;
                    is_approximate = more > 1 && bound == b"~";
                    if is_approximate || more > 1 && bound == b"=" {
                        bound = value(&mut rest)?;
                    }
                    let to = if strategy == b"minid" {
                        TrimTo::Id(parse_id(bound, 0)?)
                    } else {
                        let len = u64::try_from(int(bound)?);
                        TrimTo::Len(len.map_err(|_| Fail::err("The MAXLEN argument must be >= 0."))?)
                    };
                    options.trim = Some(Trim { to, approximate: None });
                }
                (b"limit", 1..) => {
                    let number = u64::try_from(int(value(&mut rest)?)?);
                    limit = Some(number.map_err(|_| Fail::err("The LIMIT argument must be >= 0."))?);
                }
                (b"nomkstream", _) if is_xadd => options.only_if_there = true,
                _ if is_xadd => {
                    options.id = NewId::parse(option)?;
                    options.end = args.len() - rest.len();
                    break;
                }
                _ => return Err(Fail::SYNTAX),
            }
        }
        if cx.session.is_master {
            // A master sends an approximate trim as an exact one, but with the original `LIMIT`, which must
            // not count.
            limit = None;
        }
        let has_trim = options.trim.is_some();
        Fail::err_when(
            !has_trim && limit.is_some_and(|limit| limit > 0),
            "syntax error, LIMIT cannot be used without specifying a trimming strategy",
        )?;
        Fail::err_when(!has_trim && !is_xadd, "syntax error, XTRIM must be called with a trimming strategy")?;
        Fail::err_when(
            limit.is_some() && !is_approximate,
            "syntax error, LIMIT cannot be used without the special ~ option",
        )?;
        if let Some(trim) = options.trim.as_mut().filter(|_| is_approximate) {
            let config = cx.server.config.read();
            let block = config.int("stream-node-max-entries") as u64;
            let usual = if block == 0 { 10_000 } else { block.saturating_mul(100).min(1_000_000) };
            trim.approximate = Some(ApproximateTrim {
                block: if block == 0 { 100 } else { block },
                block_bytes: config.int("stream-node-max-bytes") as u64,
                most: limit.unwrap_or(usual),
            });
        }
        Ok(options)
    }
}

/// Returns the id of a new entry, which must be greater than `last`.
fn new_id(wanted: NewId, last: Id, now: i64) -> Result<Id, Fail> {
    Fail::err_when(
        last == Id::MAX,
        "The stream has exhausted the last possible ID, unable to add more items",
    )?;
    let new = match wanted {
        NewId::Any => id(now as u64, 0).max(last + 1),
        NewId::In(wanted) if wanted == ms(last) && seq(last) == u64::MAX => last,
        NewId::In(wanted) if wanted == ms(last) => last + 1,
        NewId::In(wanted) => id(wanted, 0),
        NewId::This(id) => id,
    };
    if new > last {
        return Ok(new);
    }
    Err(Fail::err("The ID specified in XADD is equal or smaller than the target stream top item"))
}

fn xadd(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let options = XaddOptions::parse(cx, args, true)?;
    let fields = args.get(options.end..).unwrap_or_default();
    if fields.is_empty() || fields.len() % 2 == 1 {
        return Err(Fail::arity("xadd"));
    }
    Fail::err_when(options.id == NewId::This(0), "The ID specified in XADD must be greater than 0-0")?;
    let (key, now, clock) = (args[1], cx.now, cx.clock);
    let added = cx.write(key, |tx, db| {
        let there = get::<Stream>(tx, &tx[db], key, now)?;
        if there.is_none() && options.only_if_there {
            return Ok::<_, Fail>(None);
        }
        let last = there.map_or(0, |stream| tx[field!(stream.past)].last);
        let id = new_id(options.id, last, clock)?;
        Fail::err_when(
            fields.iter().map(|field| field.len()).sum::<usize>() > MAX_ENTRY,
            "Elements are too large to be stored",
        )?;
        let stream = there.map_or_else(|| get_or_new::<Stream>(tx, db, key, now), Ok)?;
        append(tx, stream, id, fields)?;
        let trimmed = options.trim.map_or(0, |how| trim(tx, stream, how));
        Ok(Some((id, trimmed)))
    })?;
    let Some((id, trimmed)) = added else {
        return answer::null(out);
    };
    cx.touched(CLASS, "xadd", key);
    if trimmed > 0 {
        cx.notify(CLASS, "xtrim", key);
    }
    write_id(out, id);
    Ok(())
}

fn xtrim(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let XaddOptions { trim: Some(how), .. } = XaddOptions::parse(cx, args, false)? else {
        return Err(Fail::SYNTAX);
    };
    let key = args[1];
    let trimmed =
        cx.change_value::<Stream, _>(key, |tx, stream| Ok(stream.map_or(0, |stream| trim(tx, stream, how))))?;
    cx.touched_often(CLASS, "xtrim", key, trimmed);
    answer::int(out, trimmed as i64)
}

fn xdel(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let key = args[1];
    let count = cx.change_value::<Stream, _>(key, |tx, stream| {
        let Some(stream) = stream else { return Ok(0) };
        for text in &args[2..] {
            parse_id(text, 0)?;
        }
        let (mut count, mut greatest) = (0, 0);
        for text in &args[2..] {
            let id = parse_id(text, 0)?;
            if field!(stream.entries).remove(tx, &id).is_some() {
                greatest = id.max(greatest);
                count += 1;
            }
        }
        let past = field!(stream.past);
        if greatest > tx[past].deleted {
            tx[past].deleted = greatest;
        }
        Ok(count)
    })?;
    cx.touched_often(CLASS, "xdel", key, count);
    answer::int(out, count as i64)
}

fn xrange(
    cx: &mut Cx<'_>,
    args: &Args<'_>,
    [from, to]: [&[u8]; 2],
    backwards: bool,
    out: &mut Reply,
) -> Done {
    let range = (parse_range_start(from)?, parse_range_end(to)?);
    let mut count = None;
    let mut options = args[4..].chunks_exact(2);
    for option in &mut options {
        Fail::SYNTAX.when(!option[0].eq_ignore_ascii_case(b"count"))?;
        count = Some(int(option[1])?.max(0) as usize);
    }
    Fail::SYNTAX.when(!options.remainder().is_empty())?;
    cx.read_value::<Stream, _>(args[1], |view, stream| {
        match stream {
            None => out.array(0),
            Some(_) if count == Some(0) => out.null_array(),
            Some(stream) => write_range(view, stream, range, count.unwrap_or(0), backwards, out, |_| {}),
        }
        Ok(())
    })
}

fn xsetid(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let key = args[1];
    let last = parse_id(args[2], 0)?;
    let (mut added, mut deleted) = (None, 0);
    let mut options = args[3..].chunks_exact(2);
    for option in &mut options {
        match option[0].to_ascii_lowercase().as_slice() {
            b"entriesadded" => {
                let number = u64::try_from(int(option[1])?);
                added = Some(number.map_err(|_| Fail::err("entries_added must be positive"))?);
            }
            b"maxdeletedid" => {
                deleted = parse_id(option[1], 0)?;
                Fail::err_when(
                    last < deleted,
                    "The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                )?;
            }
            _ => return Err(Fail::SYNTAX),
        }
    }
    Fail::SYNTAX.when(!options.remainder().is_empty())?;
    cx.change_value::<Stream, _>(key, |tx, stream| {
        let stream = stream.ok_or(Fail::NO_SUCH_KEY)?;
        let entries = field!(stream.entries);
        if let Some((&top, _)) = entries.iter(tx).next_back() {
            Fail::err_when(
                last < top,
                "The ID specified in XSETID is smaller than the target stream top item",
            )?;
            Fail::err_when(
                added.is_some_and(|added| added < tx[entries].len() as u64),
                "The entries_added specified in XSETID is smaller than the target stream length",
            )?;
        }
        let past = field!(stream.past);
        let old = tx[past];
        tx[past] = Past {
            last,
            deleted: if deleted > 0 { deleted } else { old.deleted },
            added: added.unwrap_or(old.added),
        };
        Ok(())
    })?;
    cx.effects.dirty += 1;
    cx.notify(CLASS, "xsetid", key);
    ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow() {
        let new = |wanted, last| new_id(wanted, last, 1000).ok();
        assert_eq!(new(NewId::Any, 0), Some(id(1000, 0)));
        assert_eq!(new(NewId::Any, id(1000, 7)), Some(id(1000, 8)));
        assert_eq!(new(NewId::Any, id(2000, u64::MAX)), Some(id(2001, 0)));
        assert_eq!(new(NewId::Any, Id::MAX), None);
        assert_eq!(new(NewId::In(0), 0), Some(id(0, 1)));
        assert_eq!(new(NewId::In(5), id(5, u64::MAX)), None);
        assert_eq!(new(NewId::In(6), id(5, u64::MAX)), Some(id(6, 0)));
        assert_eq!(new(NewId::In(4), id(5, 0)), None);
        assert_eq!(new(NewId::This(id(5, 1)), id(5, 1)), None);
        assert_eq!(new(NewId::This(id(5, 2)), id(5, 1)), Some(id(5, 2)));
    }
}
