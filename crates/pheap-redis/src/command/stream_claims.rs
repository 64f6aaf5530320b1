//! Streams: `XCLAIM` and `XAUTOCLAIM`, by which a consumer takes over pending entries of another one.

use pheap::{P, field};
use smallvec::SmallVec;

use super::args::{int, value};
use super::stream_parts::{
    CLASS, CREATED_CONSUMER, find_group, no_group, parse_id, parse_range_start, write_entry, write_id,
};
use super::table::{KEY, WRITE_FAST};
use super::{Args, Command, Cx, Done, Fail};
use crate::data::streams::{
    Consumer, Consumers, Delivery, Id, Stream, consumer_or_new, deliver_entry, remove_pending,
};
use crate::data::{Txn, View};
use crate::resp::Reply;
use crate::text::words;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("xautoclaim", -6, WRITE_FAST, KEY, xautoclaim).access("RW delete"),
    Command::new("xclaim", -6, WRITE_FAST, KEY, xclaim).access("RW update"),
];

/// The consumer that takes over entries. The consumer is looked up, and created if necessary, with the first
/// entry.
struct Claimer<'a, 'r> {
    name: &'a [u8],
    consumer: Option<P<'r, Consumer<'r>>>,
    is_new: bool,
}

impl<'a, 'r> Claimer<'a, 'r> {
    fn new(name: &'a [u8]) -> Self {
        Claimer { name, consumer: None, is_new: false }
    }

    fn claim(
        &mut self,
        tx: &mut Txn<'r>,
        group: P<'r, Consumers<'r>>,
        id: Id,
        (at, count): (i64, i64),
        now: i64,
    ) -> pheap::Result<()> {
        let consumer = match self.consumer {
            Some(consumer) => consumer,
            None => {
                let (consumer, is_new) = consumer_or_new(tx, group, self.name, now)?;
                (self.consumer, self.is_new) = (Some(consumer), is_new);
                consumer
            }
        };
        deliver_entry(tx, group, id, Delivery { consumer, at, count })
    }
}

/// Records the number of changes. If the consumer is new, records that, too, and sends the notification.
fn record_claims(cx: &mut Cx<'_>, key: &[u8], (changes, is_new): (u64, bool)) -> Done {
    cx.effects.dirty += changes + u64::from(is_new);
    if is_new {
        cx.notify(CLASS, CREATED_CONSUMER, key);
    }
    Ok(())
}

/// Writes an entry of the stream; only its id if `only_id`, or if the stream does not have it.
fn write<'r>(view: &View<'r>, stream: P<'r, Stream<'r>>, id: Id, only_id: bool, out: &mut Reply) {
    match field!(stream.entries).get(view, &id) {
        Some(&packed) if !only_id => write_entry(out, id, &view[packed]),
        _ => write_id(out, id),
    }
}

fn number(text: &[u8], what: &str, command: &str) -> Result<i64, Fail> {
    int(text).map_err(|_| Fail::err(format_args!("Invalid {what} argument for {command}")))
}

/// The options of `XCLAIM`, which follow the ids.
struct XclaimOptions {
    at: i64,
    count: Option<i64>,
    last: Id,
    force: bool,
    only_ids: bool,
}

impl XclaimOptions {
    fn parse(args: &Args<'_>, now: i64) -> Result<XclaimOptions, Fail> {
        let mut options = XclaimOptions { at: now, count: None, last: 0, force: false, only_ids: false };
        let mut rest = args.iter();
        while let Some(option) = rest.next() {
            match (option.to_ascii_lowercase().as_slice(), rest.len()) {
                (b"force", _) => options.force = true,
                (b"justid", _) => options.only_ids = true,
                (b"idle", 1..) => {
                    options.at = now.wrapping_sub(number(value(&mut rest)?, "IDLE option", "XCLAIM")?);
                }
                (b"time", 1..) => options.at = number(value(&mut rest)?, "TIME option", "XCLAIM")?,
                (b"retrycount", 1..) => {
                    options.count = Some(number(value(&mut rest)?, "RETRYCOUNT option", "XCLAIM")?);
                }
                (b"lastid", 1..) => options.last = parse_id(value(&mut rest)?, 0)?,
                _ => {
                    let option = words::lossy(option);
                    return Err(Fail::err(format_args!("Unrecognized XCLAIM option '{option}'")));
                }
            }
        }
        if !(0..=now).contains(&options.at) {
            options.at = now;
        }
        options.count = options.count.filter(|&count| count >= 0);
        Ok(options)
    }
}

fn xclaim(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, name, now) = (args[1], args[2], cx.clock);
    let claimed = cx.change_value::<Stream, _>(key, |tx, stream| {
        let (Some(stream), Some(group)) = (stream, find_group(tx, stream, name)) else {
            return Err(no_group(key, name, ""));
        };
        let min_idle = number(args[4], "min-idle-time", "XCLAIM")?.max(0);
        let ids: SmallVec<[Id; 8]> = args[5..].iter().map_while(|text| parse_id(text, 0).ok()).collect();
        let options = XclaimOptions::parse(&args[5 + ids.len()..], now)?;
        let progress = field!(group.progress);
        let (mut changes, mut claimer) = (0, Claimer::new(args[3]));
        let moves_on = options.last > tx[progress].last;
        if moves_on {
            tx[progress].last = options.last;
        }
        let (begun, mut count) = (out.defer_len(), 0);
        for id in ids {
            if !field!(stream.entries).contains_key(tx, &id) {
                changes += u64::from(remove_pending(tx, group, id));
                continue;
            }
            let before = match field!(group.pending).get(tx, &id) {
                Some(delivery) if min_idle > 0 && now - delivery.at < min_idle => continue,
                Some(delivery) => delivery.count,
                None if options.force => 1,
                None => continue,
            };
            let deliveries = options.count.unwrap_or(before.saturating_add(i64::from(!options.only_ids)));
            claimer.claim(tx, group, id, (options.at, deliveries), now)?;
            write(tx, stream, id, options.only_ids, out);
            count += 1;
            changes += 1;
        }
        out.end_array(begun, count);
        changes += u64::from(moves_on && changes == 0);
        Ok((changes, claimer.is_new))
    })?;
    record_claims(cx, key, claimed)
}

fn xautoclaim(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, name, now) = (args[1], args[2], cx.clock);
    let min_idle = number(args[4], "min-idle-time", "XAUTOCLAIM")?.max(0);
    let from = parse_range_start(args[5])?;
    let (mut most, mut only_ids, mut rest) = (100, false, args[6..].iter());
    while let Some(option) = rest.next() {
        match option.to_ascii_lowercase().as_slice() {
            b"count" => {
                let count = words::int(value(&mut rest)?);
                let count = count.filter(|count| (1..=i64::MAX / 16).contains(count));
                most = count.ok_or_else(|| Fail::err("COUNT must be > 0"))?;
            }
            b"justid" => only_ids = true,
            _ => return Err(Fail::SYNTAX),
        }
    }
    let claimed = cx.change_value::<Stream, _>(key, |tx, stream| {
        let (Some(stream), Some(group)) = (stream, find_group(tx, stream, name)) else {
            return Err(no_group(key, name, ""));
        };
        // Collects the entries to claim, those that are gone from the stream, and the position for the next
        // call.
        let pending = field!(group.pending);
        let (mut wanted, mut left, mut tries) = (SmallVec::<[(Id, Option<i64>); 32]>::new(), most, 10 * most);
        let mut cursor = 0;
        for (&id, delivery) in pending.range(tx, from..) {
            if tries == 0 || left == 0 {
                cursor = id;
                break;
            }
            tries -= 1;
            let is_there = field!(stream.entries).contains_key(tx, &id);
            if !is_there || min_idle == 0 || now - delivery.at >= min_idle {
                wanted.push((id, is_there.then_some(delivery.count)));
                left -= 1;
            }
        }
        let mut claimer = Claimer::new(args[3]);
        out.array(3);
        write_id(out, cursor);
        let gone = wanted.iter().filter(|(_, deliveries)| deliveries.is_none()).count();
        out.array(wanted.len() - gone);
        for &(id, deliveries) in &wanted {
            let Some(before) = deliveries else {
                remove_pending(tx, group, id);
                continue;
            };
            claimer.claim(tx, group, id, (now, before.saturating_add(i64::from(!only_ids))), now)?;
            write(tx, stream, id, only_ids, out);
        }
        out.array(gone);
        wanted.iter().filter(|(_, deliveries)| deliveries.is_none()).for_each(|(id, _)| write_id(out, *id));
        Ok((wanted.len() as u64, claimer.is_new))
    })?;
    record_claims(cx, key, claimed)
}
