//! Keys, whatever they stand for.

use super::args::{Scan, cursor, int};
use super::{Args, Command, Cx, Done, Fail, Flags, Keys, Signal};
use crate::data::Change;
use crate::resp::Reply;
use crate::words;

const KEY: Keys = Keys::Range(1, 1, 1);
const ALL_KEYS: Keys = Keys::Range(1, -1, 1);
const WRITE: &[Flags] = &[Flags::WRITE, Flags::FAST];
const READ: &[Flags] = &[Flags::READONLY, Flags::FAST];

pub(super) const COMMANDS: &[Command] = &[
    Command::new("dbsize", 1, READ, Keys::Everything, dbsize),
    Command::new("del", -2, &[Flags::WRITE], ALL_KEYS, del),
    Command::new("exists", -2, READ, ALL_KEYS, exists),
    Command::new("expire", 3, WRITE, KEY, |cx, args, out| expire(cx, args, 1000, false, out)),
    Command::new("expireat", 3, WRITE, KEY, |cx, args, out| expire(cx, args, 1000, true, out)),
    Command::new("expiretime", 2, READ, KEY, |cx, args, out| ttl(cx, args, 1000, true, out)),
    Command::new("flushall", -1, &[Flags::WRITE], Keys::Everything, |cx, args, out| {
        flush(cx, args, true, out)
    }),
    Command::new("flushdb", -1, &[Flags::WRITE], Keys::Everything, |cx, args, out| {
        flush(cx, args, false, out)
    }),
    Command::new("keys", 2, &[Flags::READONLY], Keys::Everything, keys),
    Command::new("persist", 2, WRITE, KEY, persist),
    Command::new("pexpire", 3, WRITE, KEY, |cx, args, out| expire(cx, args, 1, false, out)),
    Command::new("pexpireat", 3, WRITE, KEY, |cx, args, out| expire(cx, args, 1, true, out)),
    Command::new("pexpiretime", 2, READ, KEY, |cx, args, out| ttl(cx, args, 1, true, out)),
    Command::new("pttl", 2, READ, KEY, |cx, args, out| ttl(cx, args, 1, false, out)),
    Command::new("scan", -2, &[Flags::READONLY], Keys::Shard(scan_shard), scan),
    Command::new("ttl", 2, READ, KEY, |cx, args, out| ttl(cx, args, 1000, false, out)),
    Command::new("type", 2, READ, KEY, type_of),
    Command::new("unlink", -2, WRITE, ALL_KEYS, del),
];

fn is_there(cx: &mut Cx<'_>, key: &[u8]) -> bool {
    let now = cx.now;
    cx.read(key, |view, db| db.get(view, key, now).is_some())
}

fn exists(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    out.count(args[1..].iter().filter(|key| is_there(cx, key)).count());
    Ok(())
}

fn del(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let mut count = 0;
    for key in &args[1..] {
        if is_there(cx, key) {
            cx.write(key, |tx, db| _ = db.remove(tx, key));
            cx.touched(b'g', "del", key);
            count += 1;
        }
    }
    out.count(count);
    Ok(())
}

fn type_of(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    out.simple(cx.read(key, |view, db| db.get(view, key, now).map_or("none", |value| value.type_name())));
    Ok(())
}

fn expire(cx: &mut Cx<'_>, args: &Args<'_>, unit_ms: i64, is_time: bool, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    let invalid = || {
        Fail::err(format_args!("invalid expire time in '{}' command", words::lossy(args[0]).to_lowercase()))
    };
    let ms = int(args[2])?.checked_mul(unit_ms).ok_or_else(invalid)?;
    let deadline = if is_time { ms } else { ms.checked_add(now).ok_or_else(invalid)? };
    if !is_there(cx, key) {
        out.int(0);
        return Ok(());
    }
    if deadline <= now {
        cx.write(key, |tx, db| _ = db.remove(tx, key));
        cx.touched(b'g', "del", key);
    } else {
        cx.write(key, |tx, db| db.set_deadline(tx, key, Some(deadline)))?;
        cx.touched(b'g', "expire", key);
    }
    out.int(1);
    Ok(())
}

fn persist(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let key = args[1];
    let has_one = is_there(cx, key) && cx.read(key, |view, db| db.deadline(view, key).is_some());
    if has_one {
        cx.write(key, |tx, db| db.set_deadline(tx, key, None))?;
        cx.touched(b'g', "persist", key);
    }
    out.int(i64::from(has_one));
    Ok(())
}

fn ttl(cx: &mut Cx<'_>, args: &Args<'_>, unit_ms: i64, is_time: bool, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    if !is_there(cx, key) {
        out.int(-2);
        return Ok(());
    }
    out.int(match cx.read(key, |view, db| db.deadline(view, key)) {
        None => -1,
        Some(at) if is_time => at / unit_ms,
        Some(at) => (at - now + unit_ms / 2) / unit_ms, // rounded
    });
    Ok(())
}

fn dbsize(cx: &mut Cx<'_>, _: &Args<'_>, out: &mut Reply) -> Done {
    let (db, shards) = (cx.session.db, cx.store().shards().len());
    let sizes = (0..shards).map(|shard| cx.read_shard(shard, |view, dbs| view[dbs.at(db)].len()));
    out.count(sizes.sum());
    Ok(())
}

fn keys(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (pattern, db, now, shards) = (args[1], cx.session.db, cx.now, cx.store().shards().len());
    let (begun, mut count) = (out.begin(), 0);
    for shard in 0..shards {
        cx.read_shard(shard, |view, dbs| {
            let db = &view[dbs.at(db)];
            for (key, _) in db.iter(view) {
                if words::matches(pattern, key) && db.get(view, key, now).is_some() {
                    out.bulk(key);
                    count += 1;
                }
            }
        });
    }
    out.end_array(begun, count);
    Ok(())
}

fn flush(cx: &mut Cx<'_>, args: &Args<'_>, all: bool, out: &mut Reply) -> Done {
    match args[1..] {
        [] => {}
        [how] if how.eq_ignore_ascii_case(b"sync") || how.eq_ignore_ascii_case(b"async") => {}
        _ => return Err(Fail::SYNTAX),
    }
    let (own, now, shards, server) = (cx.session.db, cx.now, cx.store().shards().len(), cx.server);
    for shard in 0..shards {
        cx.write_shard(shard, |tx, dbs| {
            for number in (0..dbs.len()).filter(|&number| all || number == own) {
                let db = dbs.at(number);
                let is_concerned =
                    |watched: usize, key: &[u8]| watched == number && tx[db].get(tx, key, now).is_some();
                server.watched.touch_all(is_concerned);
                if !tx[db].is_empty() {
                    db.clear(tx);
                }
            }
        });
    }
    // Some wait only as long as the key exists.
    let waited_for = server.waiting.keys().into_iter().filter(|&(db, _)| all || db == own);
    cx.effects.signals.extend(waited_for.map(|(db, key)| Signal { db, key }));
    cx.effects.dirty += 1;
    out.ok();
    Ok(())
}

/// Bits of a `SCAN` cursor that are the number of the shard. The others are where to go on in it; the lowest bits of that are zero, for no map is so deep.
const SHARD_BITS: u32 = 10;

fn scan_shard(args: &Args<'_>, shards: usize) -> usize {
    (cursor(args[1]).unwrap_or_default() & ((1 << SHARD_BITS) - 1)) as usize % shards
}

fn scan(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let asked = Scan::parse(&args[1..], true)?;
    let (number, now, shards) = (cx.session.db, cx.now, cx.store().shards().len());
    let shard = scan_shard(args, shards);
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let next = cx.read_shard(shard, |view, dbs| {
        let db = &view[dbs.at(number)];
        let (mut at, mut seen) = (asked.from >> SHARD_BITS << SHARD_BITS, 0);
        loop {
            let (some, next) = db.scan(view, at);
            for (key, entry) in some {
                seen += 1;
                let is_kind =
                    asked.kind.as_deref().is_none_or(|kind| kind == entry.value.type_name().as_bytes());
                if is_kind && asked.wants(key) && db.get(view, key, now).is_some() {
                    keys.push(key.to_vec());
                }
            }
            at = next;
            if at == 0 || seen >= asked.count {
                return at;
            }
        }
    });
    // Where there is no more in this shard, the next one begins.
    let next = match next {
        0 if shard + 1 == shards => 0,
        0 => shard as u64 + 1,
        at => at | shard as u64,
    };
    out.array(2);
    out.bulk(next.to_string().as_bytes());
    out.array(keys.len());
    keys.iter().for_each(|key| out.bulk(key));
    Ok(())
}
