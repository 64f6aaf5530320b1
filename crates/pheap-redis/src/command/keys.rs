//! Commands for keys of any type.

use super::args::{SYNC_OR_ASYNC, last_word};
use super::table::{ALL_KEYS, GLANCE_FAST, KEY, READ, READ_FAST, WRITE, WRITE_FAST};
use super::{Args, Command, Cx, Done, Fail, Keys, answer, ok};
use crate::data::{Change, DATABASES};
use crate::resp::Reply;
use crate::text::random::{random, weighted};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("dbsize", 1, READ_FAST, Keys::Everything, dbsize),
    Command::new("del", -2, WRITE, ALL_KEYS, del).access("RM delete"),
    Command::new("exists", -2, GLANCE_FAST, ALL_KEYS, exists).access("RO"),
    Command::new("flushall", -1, WRITE, Keys::Everything, |cx, args, out| flush(cx, args, true, out)),
    Command::new("flushdb", -1, WRITE, Keys::Everything, |cx, args, out| flush(cx, args, false, out)),
    Command::new("randomkey", 1, READ, Keys::Everything, randomkey),
    Command::new("touch", -2, READ_FAST, ALL_KEYS, exists).access("RO"),
    Command::new("type", 2, GLANCE_FAST, KEY, type_of).access("RO"),
    Command::new("unlink", -2, WRITE_FAST, ALL_KEYS, del).access("RM delete"),
];

fn exists(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    answer::count(out, args[1..].iter().filter(|key| cx.key_exists(key)).count())
}

fn del(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    answer::count(out, args[1..].iter().filter(|key| cx.remove(key)).count())
}

fn type_of(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    let name = cx.read(key, |view, db| db.get(view, key, now).map_or("none", |value| value.type_name()));
    answer::simple(out, name)
}

/// Returns the number of keys of the selected database in each shard, including expired keys.
fn sizes(cx: &mut Cx<'_>) -> Vec<usize> {
    let (db, shards) = (cx.session.db, cx.store().shards().len());
    (0..shards).map(|shard| cx.read_shard(shard, |view, dbs| view[dbs.at(view, db)].len())).collect()
}

fn dbsize(cx: &mut Cx<'_>, _: &Args<'_>, out: &mut Reply) -> Done {
    answer::count(out, sizes(cx).iter().sum())
}

fn randomkey(cx: &mut Cx<'_>, _: &Args<'_>, out: &mut Reply) -> Done {
    let (db, now, sizes) = (cx.session.db, cx.now, sizes(cx));
    // Expired keys are skipped. If 100 random keys have all expired, the first key that has not expired is
    // answered.
    for _ in 0..100 {
        let Some(shard) = weighted(&sizes) else { break };
        let is_found = cx.read_shard(shard, |view, dbs| {
            let db = &view[dbs.at(view, db)];
            let key = db.keys().choose(view, random).map(|(key, _)| key);
            key.filter(|key| db.get(view, key, now).is_some()).map(|key| out.bulk(key)).is_some()
        });
        if is_found {
            return Ok(());
        }
    }
    for shard in 0..sizes.len() {
        let is_found = cx.read_shard(shard, |view, dbs| {
            let db = &view[dbs.at(view, db)];
            let key = db.keys().iter(view).map(|(key, _)| key).find(|key| db.get(view, key, now).is_some());
            key.map(|key| out.bulk(key)).is_some()
        });
        if is_found {
            return Ok(());
        }
    }
    answer::null(out)
}

fn flush(cx: &mut Cx<'_>, args: &Args<'_>, all: bool, out: &mut Reply) -> Done {
    last_word(&args[1..], (), SYNC_OR_ASYNC).ok_or(Fail::SYNTAX)?;
    let (own, now, shards, server) = (cx.session.db, cx.now, cx.store().shards().len(), cx.server);
    let mut flushed = Vec::new();
    for shard in 0..shards {
        let had_keys = cx.write_shard(shard, |tx, dbs| {
            let mut had_keys = false;
            for number in (0..dbs.len(tx)).filter(|&number| all || number == own) {
                let db = dbs.at(tx, number);
                let is_concerned =
                    |watched: usize, key: &[u8]| watched == number && tx[db].get(tx, key, now).is_some();
                server.watched.touch_all(is_concerned);
                if !tx[db].is_empty() {
                    db.clear(tx);
                    had_keys = true;
                }
            }
            had_keys
        });
        if had_keys {
            flushed.push(shard);
        }
    }
    cx.flushed(&flushed);
    // A client that needs a key to exist while it waits must look again, so that it gets its error.
    let dbs = if all { 0..DATABASES } else { own..own + 1 };
    dbs.for_each(|db| cx.effects.signals.extend(server.waiting.keys_in(db, |_| false)));
    cx.effects.dirty += 1;
    ok(out)
}
