//! Renames, moves and copies keys, and swaps databases.

use super::args::{database, int, value};
use super::table::{ADD, KEY, TWO_KEYS, WRITE, WRITE_FAST};
use super::{Args, Command, Cx, Done, Fail, Keys, ok, yes_or_no};
use crate::data::{Change, Owned};
use crate::resp::Reply;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("copy", -3, ADD, TWO_KEYS, copy).accesses("RO access", "OW update"),
    Command::new("move", 3, WRITE_FAST, KEY, move_to),
    Command::new("rename", 3, WRITE, TWO_KEYS, |cx, args, out| {
        rename(cx, args, false)?;
        ok(out)
    })
    .accesses("RW access delete", "OW update"),
    Command::new("renamenx", 3, WRITE_FAST, TWO_KEYS, |cx, args, out| {
        yes_or_no(out, rename(cx, args, true)?)
    })
    .accesses("RW access delete", "OW insert"),
    Command::new("swapdb", 3, WRITE_FAST, Keys::Everything, swapdb),
];

/// A key in a database.
#[derive(Clone, Copy, PartialEq)]
struct DbKey<'k> {
    db: usize,
    key: &'k [u8],
}

fn store(
    cx: &mut Cx<'_>,
    DbKey { db, key }: DbKey<'_>,
    value: &Owned,
    deadline: Option<i64>,
) -> pheap::Result<()> {
    let shard = cx.shard_of(key);
    cx.write_shard(shard, |tx, dbs| {
        let value = value.store(tx)?;
        dbs.at(tx, db).set(tx, key, value)?;
        dbs.at(tx, db).set_deadline(tx, key, deadline)
    })
}

/// Moves the value of an existing key, and its deadline, to another key or database, replacing any value
/// there. Within a shard, the contents of the value are not copied.
fn relocate(cx: &mut Cx<'_>, from: DbKey<'_>, to: DbKey<'_>) -> pheap::Result<()> {
    let [shard, target] = [from.key, to.key].map(|key| cx.shard_of(key));
    if shard == target {
        return cx.write_shard(shard, |tx, dbs| {
            let Some((value, deadline)) = dbs.at(tx, from.db).remove(tx, from.key) else { return Ok(()) };
            dbs.at(tx, to.db).set(tx, to.key, value)?;
            dbs.at(tx, to.db).set_deadline(tx, to.key, deadline)
        });
    }
    let Some((value, deadline)) = cx.copy_in(from.db, from.key) else { return Ok(()) };
    store(cx, to, &value, deadline)?;
    cx.write_shard(shard, |tx, dbs| _ = dbs.at(tx, from.db).remove(tx, from.key));
    Ok(())
}

/// Sends the notification `new` for a key, unless the key existed before.
fn tell_if_new(cx: &mut Cx<'_>, to: DbKey<'_>, was_there: bool) {
    if !was_there {
        cx.notify_in(to.db, b'n', "new", to.key);
    }
}

/// Renames a key. Returns whether it was renamed: not to its own name, and with `only_if_free` not to the
/// name of an existing key.
fn rename(cx: &mut Cx<'_>, args: &Args<'_>, only_if_free: bool) -> Result<bool, Fail> {
    let db = cx.session.db;
    let (from, to) = (DbKey { db, key: args[1] }, DbKey { db, key: args[2] });
    Fail::NO_SUCH_KEY.when(!cx.key_exists_in(from.db, from.key))?;
    let was_there = cx.key_exists_in(to.db, to.key);
    if from == to || only_if_free && was_there {
        return Ok(false);
    }
    relocate(cx, from, to)?;
    tell_if_new(cx, to, was_there);
    cx.changed(db, from.key);
    cx.changed(db, to.key);
    cx.notify(b'g', "rename_from", from.key);
    cx.notify(b'g', "rename_to", to.key);
    Ok(true)
}

const SAME: Fail = Fail::Error(std::borrow::Cow::Borrowed("ERR source and destination objects are the same"));

fn move_to(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let db = database(cx, args[2])?;
    let (from, to) = (DbKey { db: cx.session.db, key: args[1] }, DbKey { db, key: args[1] });
    SAME.when(from == to)?;
    let is_possible = cx.key_exists_in(from.db, from.key) && !cx.key_exists_in(to.db, to.key);
    if is_possible {
        relocate(cx, from, to)?;
        tell_if_new(cx, to, false);
        cx.changed(from.db, from.key);
        cx.changed(to.db, to.key);
        cx.notify_in(from.db, b'g', "move_from", from.key);
        cx.notify_in(to.db, b'g', "move_to", to.key);
    }
    yes_or_no(out, is_possible)
}

fn copy(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (mut db, mut replaces) = (cx.session.db, false);
    let mut options = args[3..].iter();
    while let Some(option) = options.next() {
        match option.to_ascii_lowercase().as_slice() {
            b"replace" => replaces = true,
            b"db" => db = database(cx, value(&mut options)?)?,
            _ => return Err(Fail::SYNTAX),
        }
    }
    let (from, to) = (DbKey { db: cx.session.db, key: args[1] }, DbKey { db, key: args[2] });
    SAME.when(from == to)?;
    let is_possible = cx.key_exists_in(from.db, from.key) && (replaces || !cx.key_exists_in(to.db, to.key));
    if let Some((value, deadline)) = is_possible.then(|| cx.copy_in(from.db, from.key)).flatten() {
        let was_there = cx.key_exists_in(to.db, to.key);
        store(cx, to, &value, deadline)?;
        tell_if_new(cx, to, was_there);
        cx.changed(to.db, to.key);
        cx.notify_in(to.db, b'g', "copy_to", to.key);
    }
    yes_or_no(out, is_possible)
}

fn swapdb(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    for (text, which) in [(args[1], "first"), (args[2], "second")] {
        let is_number = int(text).is_ok_and(|number| i32::try_from(number).is_ok());
        Fail::err_when(!is_number, format_args!("invalid {which} DB index"))?;
    }
    let (first, second) = (database(cx, args[1])?, database(cx, args[2])?);
    if first == second {
        return ok(out);
    }
    let (now, shards, server) = (cx.now, cx.store().shards().len(), cx.server);
    for shard in 0..shards {
        cx.write_shard(shard, |tx, dbs| {
            // A watched key changes if it exists in either database.
            let is_concerned = |watched: usize, key: &[u8]| {
                (watched == first || watched == second)
                    && [first, second].iter().any(|&db| tx[dbs.at(tx, db)].get(tx, key, now).is_some())
            };
            server.watched.touch_all(is_concerned);
            tx.swap(dbs.at(tx, first), dbs.at(tx, second));
        });
    }
    cx.effects.dirty += 1;
    // A client that waits for a key in one of the databases may find it now.
    for db in [first, second] {
        let signals = server.waiting.keys_in(db, |key| cx.key_exists_in(db, key));
        cx.effects.signals.extend(signals);
    }
    ok(out)
}
