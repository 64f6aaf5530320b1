//! `KEYS`, and `SCAN`, which visits all keys in steps.

use super::args::{Scan, cursor};
use super::table::READ;
use super::{Args, Command, Cx, Done, Fail, Keys, answer};
use crate::resp::Reply;
use crate::text::words;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("keys", 2, READ, Keys::Everything, keys),
    Command::new("scan", -2, READ, Keys::From(first_shard), scan),
];

fn keys(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (pattern, db, now, shards) = (args[1], cx.session.db, cx.now, cx.store().shards().len());
    let (begun, mut count) = (out.defer_len(), 0);
    for shard in 0..shards {
        cx.read_shard(shard, |view, dbs| {
            let db = &view[dbs.at(view, db)];
            for (key, _) in db.keys().iter(view) {
                if out.is_too_long() {
                    return;
                }
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

/// The lowest bits of a `SCAN` cursor are the number of the shard. The other bits are the position in the
/// shard, with the order of its bits reversed.
const SHARD_BITS: u32 = 10;

fn first_shard(args: &Args<'_>, shards: usize) -> usize {
    (cursor(args[1]).unwrap_or_default() & ((1 << SHARD_BITS) - 1)) as usize % shards
}

/// Scans shard after shard until it has seen as many keys as requested, or all shards.
fn scan(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let asked = Scan::parse(&args[1..], true)?;
    let (number, now, shards) = (cx.session.db, cx.now, cx.store().shards().len());
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let (mut shard, mut at) = (first_shard(args, shards), (asked.from >> SHARD_BITS).reverse_bits());
    let mut seen = 0;
    while seen < asked.count && shard < shards {
        if !cx.keyspace.has_shard(shard) {
            return Err(Fail::MoreShards);
        }
        at = cx.read_shard(shard, |view, dbs| {
            let db = &view[dbs.at(view, number)];
            loop {
                let (some, next) = db.keys().scan(view, at);
                for (key, entry) in some {
                    seen += 1;
                    let is_kind =
                        asked.kind.as_deref().is_none_or(|kind| kind == entry.value.type_name().as_bytes());
                    if is_kind && asked.matches_pattern(key) && db.get(view, key, now).is_some() {
                        keys.push(key.to_vec());
                    }
                }
                at = next;
                if at == 0 || seen >= asked.count {
                    return at;
                }
            }
        });
        shard += usize::from(at == 0);
    }
    let next = if shard == shards { 0 } else { at.reverse_bits() << SHARD_BITS | shard as u64 };
    out.array(2);
    out.bulk(next.to_string().as_bytes());
    answer::bulks(out, keys.iter())
}
