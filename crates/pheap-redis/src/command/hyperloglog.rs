//! Commands for HyperLogLogs.

use super::buffers::buffer;
use super::table::{ADD, ADD_FAST, ALL_KEYS, KEY, READ, SUBKEY};
use super::{Args, Command, Cx, Done, Fail, Flags, Keys, answer, ok, yes_or_no};
use crate::data::{Db, P, Txn, View};
use crate::resp::Reply;
use crate::text::hll::{self, Corrupted, Encoding, REGISTERS, Registers};
use crate::text::words::lossy;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("pfadd", -2, ADD_FAST, KEY, pfadd).access("RW insert"),
    Command::new("pfcount", -2, READ.and(Flags::MAY_REPLICATE), ALL_KEYS, pfcount).access("RW access"),
    Command::new("pfdebug", 3, ADD.and(Flags::ADMIN), SUBKEY, pfdebug),
    Command::new("pfmerge", -2, ADD, ALL_KEYS, pfmerge).accesses("RW access insert", "RO access"),
    Command::new("pfselftest", 1, Flags::ADMIN, Keys::None, pfselftest),
];

impl From<Corrupted> for Fail {
    fn from(_: Corrupted) -> Fail {
        Fail::Error("INVALIDOBJ Corrupted HLL object detected".into())
    }
}

/// Calls `f` with the HyperLogLog of a key, if there is one.
fn with_hll<'r, R>(
    view: &View<'r>,
    db: &Db<'r>,
    key: &[u8],
    now: i64,
    f: impl FnOnce(&[u8], Encoding) -> R,
) -> Result<Option<R>, Fail> {
    let Some(value) = db.get(view, key, now) else { return Ok(None) };
    let look = |bytes: &[u8]| hll::encoding(bytes).map(|encoding| f(bytes, encoding));
    let result = value.with_bytes(view, look).ok_or(Fail::WRONG_TYPE)?;
    let invalid = || Fail::Error("WRONGTYPE Key is not a valid HyperLogLog string value.".into());
    result.ok_or_else(invalid).map(Some)
}

/// Stores a HyperLogLog. Writes only the bytes from the first to the last one that differs from the old
/// bytes, or up to the end if the length changes.
fn store<'r>(tx: &mut Txn<'r>, db: P<'r, Db<'r>>, key: &[u8], now: i64, hll: &[u8]) -> Done {
    let buffer = buffer(tx, db, key, now)?;
    let old = tx[buffer].as_slice(tx, ..);
    let same = |pairs: &mut dyn Iterator<Item = (&u8, &u8)>| pairs.take_while(|(a, b)| a == b).count();
    let before = same(&mut old.iter().zip(hll));
    let behind = if old.len() == hll.len() {
        same(&mut old[before..].iter().rev().zip(hll[before..].iter().rev()))
    } else {
        buffer.resize(tx, hll.len(), 0)?;
        0
    };
    let changed = before..hll.len() - behind;
    buffer.as_mut_slice(tx, changed.clone()).copy_from_slice(&hll[changed]);
    Ok(())
}

/// Returns the maximum length of the sparse encoding, in bytes.
fn most(cx: &Cx<'_>) -> usize {
    cx.server.config.read().int("hll-sparse-max-bytes") as usize
}

fn pfadd(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, elements, now, most) = (args[1], &args[2..], cx.now, most(cx));
    let changes = cx.write(key, |tx, db| {
        let sparse = with_hll(tx, &tx[db], key, now, |bytes, encoding| {
            (encoding == Encoding::Sparse).then(|| bytes.to_vec())
        })?;
        let (mut hll, mut changes) = match sparse {
            Some(Some(sparse)) => (sparse, 0),
            Some(None) => return add_to_dense(tx, db, key, now, elements),
            None => (hll::empty(), 1),
        };
        for element in elements {
            let (register, value) = hll::pattern(element);
            changes += u64::from(hll::set(&mut hll, register, value, most)?);
        }
        if changes > 0 {
            hll::forget(&mut hll[hll::CACHE]);
            store(tx, db, key, now, &hll)?;
        }
        Ok::<_, Fail>(changes)
    })?;
    cx.touched_often(b'$', "pfadd", key, changes);
    yes_or_no(out, changes > 0)
}

/// Adds elements to a HyperLogLog in dense encoding, in place. Returns the number of register changes.
fn add_to_dense<'r>(
    tx: &mut Txn<'r>,
    db: P<'r, Db<'r>>,
    key: &[u8],
    now: i64,
    elements: &Args<'_>,
) -> Result<u64, Fail> {
    let mut changes = 0;
    for element in elements {
        let (register, value) = hll::pattern(element);
        let (bytes, shift) = hll::place(register);
        let is_greater =
            with_hll(tx, &tx[db], key, now, |hll, _| value > hll::get(&hll[bytes.clone()], shift))?;
        if is_greater == Some(true) {
            let buffer = buffer(tx, db, key, now)?;
            hll::put(buffer.as_mut_slice(tx, bytes), shift, value);
            changes += 1;
        }
    }
    if changes > 0 {
        let buffer = buffer(tx, db, key, now)?;
        hll::forget(buffer.as_mut_slice(tx, hll::CACHE));
    }
    Ok(changes)
}

fn pfcount(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    if args.len() > 2 {
        let mut all = Box::new([0; REGISTERS]);
        merge_all(cx, &args[1..], &mut all)?;
        return answer::int(out, hll::estimate(&hll::histogram_of(&all)) as i64);
    }
    let count = cx.read(key, |view, db| {
        with_hll(view, db, key, now, |bytes, _| match hll::cached(bytes) {
            Some(count) => Ok((count, true)),
            None => hll::histogram(bytes).map(|histogram| (hll::estimate(&histogram), false)),
        })
    })?;
    let (count, is_known) = count.transpose()?.unwrap_or((0, true));
    if !is_known && cx.keyspace.can_write() {
        cx.write(key, |tx, db| {
            let buffer = buffer(tx, db, key, now)?;
            buffer.as_mut_slice(tx, hll::CACHE).copy_from_slice(&hll::cache(count));
            Ok::<_, Fail>(())
        })?;
        cx.changed(cx.session.db, key);
    }
    answer::int(out, count as i64)
}

/// Merges the HyperLogLogs of these keys into `all`. Returns whether one of them has the dense encoding.
fn merge_all(cx: &mut Cx<'_>, keys: &Args<'_>, all: &mut Registers) -> Result<bool, Fail> {
    let (now, mut is_dense) = (cx.now, false);
    for key in keys {
        let merged = cx.read(key, |view, db| {
            with_hll(view, db, key, now, |bytes, encoding| {
                is_dense |= encoding == Encoding::Dense;
                hll::merge(all, bytes)
            })
        });
        merged?.transpose()?;
    }
    Ok(is_dense)
}

fn pfmerge(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now, most) = (args[1], cx.now, most(cx));
    let mut all = Box::new([0; REGISTERS]);
    let is_dense = merge_all(cx, &args[1..], &mut all)?;
    cx.write(key, |tx, db| {
        let old = with_hll(tx, &tx[db], key, now, |bytes, _| bytes.to_vec())?;
        let mut hll = old.unwrap_or_else(hll::empty);
        if is_dense {
            hll::make_dense(&mut hll)?;
        }
        for (register, &value) in all.iter().enumerate().filter(|(_, value)| **value > 0) {
            hll::set(&mut hll, register, value, most)?;
        }
        hll::forget(&mut hll[hll::CACHE]);
        store(tx, db, key, now, &hll)
    })?;
    cx.touched(b'$', "pfadd", key);
    ok(out)
}

fn pfdebug(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[2], cx.now);
    let hll = cx.read(key, |view, db| with_hll(view, db, key, now, |bytes, _| bytes.to_vec()))?;
    let mut hll = hll.ok_or_else(|| Fail::err("The specified key does not exist"))?;
    let is_sparse = hll::encoding(&hll) == Some(Encoding::Sparse);
    match args[1].to_ascii_lowercase().as_slice() {
        b"encoding" => out.simple(if is_sparse { "sparse" } else { "dense" }),
        b"decode" if is_sparse => {
            let shown = hll::runs(&hll).map(|(value, len, size)| match (value, size) {
                (0, 1) => format!("z:{len}"),
                (0, _) => format!("Z:{len}"),
                _ => format!("v:{value},{len}"),
            });
            out.bulk(shown.collect::<Vec<_>>().join(" ").as_bytes());
        }
        b"decode" => return Err(Fail::err("HLL encoding is not sparse")),
        what @ (b"getreg" | b"todense") => {
            if hll::make_dense(&mut hll)? {
                cx.write(key, |tx, db| store(tx, db, key, now, &hll))?;
                cx.effects.dirty += 1;
            }
            if what == b"todense" {
                return answer::int(out, i64::from(is_sparse));
            }
            out.array(REGISTERS);
            for register in 0..REGISTERS {
                let (bytes, shift) = hll::place(register);
                out.int(i64::from(hll::get(&hll[bytes], shift)));
            }
        }
        _ => return Err(Fail::err(format_args!("Unknown PFDEBUG subcommand '{}'", lossy(args[1])))),
    }
    Ok(())
}

/// `PFSELFTEST`: checks that both encodings agree, and that the error of the estimates is small.
fn pfselftest(_: &mut Cx<'_>, _: &Args<'_>, out: &mut Reply) -> Done {
    let (mut sparse, mut dense) = (hll::empty(), hll::empty());
    hll::make_dense(&mut dense)?;
    let mut checkpoint = 1;
    for number in 1..=1_000_000_u64 {
        let (register, value) = hll::pattern(&number.to_le_bytes());
        hll::set(&mut sparse, register, value, 3000)?;
        hll::set(&mut dense, register, value, 3000)?;
        if number < checkpoint {
            continue;
        }
        let count = hll::estimate(&hll::histogram(&dense)?);
        if count != hll::estimate(&hll::histogram(&sparse)?) {
            return Err(Fail::Error("TESTFAILED dense/sparse disagree".into()));
        }
        // The greatest allowed error is six times the standard error.
        let (error, most) = (count.abs_diff(number), (number as f64 * 6.0 * 1.04 / 128.0).ceil());
        if error as f64 > most {
            let text = format!("TESTFAILED Too big error. card:{number} abserr:{error}");
            return Err(Fail::Error(text.into()));
        }
        checkpoint *= 10;
    }
    ok(out)
}
