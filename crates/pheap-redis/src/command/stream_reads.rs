//! Streams: `XREAD` and `XREADGROUP`.

use std::borrow::Cow;

use pheap::field;
use smallvec::SmallVec;

use super::args::{int, timeout_ms, value};
use super::stream_parts::{
    CLASS, CREATED_CONSUMER, find_group, no_group, parse_id, write_entry, write_id, write_range,
};
use super::table::{READ, WRITE};
use super::{Args, Block, Command, Cx, Done, Fail, Flags, Keys, answer};
use crate::data::streams::{Delivery, Extent, Id, Stream, consumer_or_new, deliver_entry};
use crate::resp::Reply;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("xread", -4, READ.and(Flags::BLOCKING), Keys::Find(find_keys), xread),
    Command::new("xreadgroup", -7, WRITE.and(Flags::BLOCKING), Keys::Find(find_keys), xreadgroup)
        .access("RO access"),
];

/// The most entries that a client which has waited gets of a stream, if it has given no count.
const AFTER_WAITING: usize = 1000;

/// Stands for the id `>` of `XREADGROUP`, which means entries that no consumer of the group has received.
const NEW: Id = Id::MAX;

fn find_keys(args: &Args<'_>, keys: &mut Vec<usize>) {
    let mut at = 1;
    while let Some(option) = args.get(at) {
        at += match option.to_ascii_lowercase().as_slice() {
            b"block" | b"count" => 2,
            b"group" => 3,
            b"noack" => 1,
            b"streams" => {
                keys.extend(at + 1..at + 1 + (args.len() - at - 1) / 2);
                return;
            }
            _ => return,
        };
    }
}

/// The parsed arguments of `XREAD` or `XREADGROUP`.
#[derive(Default)]
struct Read<'a> {
    /// Milliseconds to wait if there are no entries. 0: for ever. `None`: not at all.
    block: Option<u64>,
    /// Maximum number of entries of each stream. 0: no limit.
    count: usize,
    /// The group and the consumer.
    group: Option<[&'a [u8]; 2]>,
    no_ack: bool,
    keys: &'a [&'a [u8]],
    ids: &'a [&'a [u8]],
}

impl<'a> Read<'a> {
    fn parse(args: &'a Args<'a>, in_group: bool, in_script: bool) -> Result<Read<'a>, Fail> {
        let mut read = Read::default();
        let only_in_groups = |option: &str| {
            Fail::err_when(
                !in_group,
                format_args!(
                    "The {option} option is only supported by XREADGROUP. You called XREAD instead."
                ),
            )
        };
        let mut rest = args[1..].iter();
        while let Some(option) = rest.next() {
            match (option.to_ascii_lowercase().as_slice(), rest.len()) {
                (b"block", 1..) if in_script => {
                    return Err(Fail::err(format_args!(
                        "{} command is not allowed with BLOCK option from scripts",
                        crate::text::words::lossy(args[0])
                    )));
                }
                (b"block", 1..) => read.block = Some(timeout_ms(value(&mut rest)?)?),
                (b"count", 1..) => read.count = int(value(&mut rest)?)?.max(0) as usize,
                (b"streams", more @ 1..) => {
                    Fail::err_when(
                        !more.is_multiple_of(2),
                        "Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
                    )?;
                    Fail::err_when(in_group && read.group.is_none(), "Missing GROUP option for XREADGROUP")?;
                    (read.keys, read.ids) = rest.as_slice().split_at(more / 2);
                    return Ok(read);
                }
                (b"group", 2..) => {
                    only_in_groups("GROUP")?;
                    read.group = Some([value(&mut rest)?, value(&mut rest)?]);
                }
                (b"noack", _) => {
                    only_in_groups("NOACK")?;
                    read.no_ack = true;
                }
                _ => return Err(Fail::SYNTAX),
            }
        }
        Err(Fail::SYNTAX)
    }

    /// Makes the command wait for entries after these ids, if the option `BLOCK` is given and the command may
    /// block. Otherwise answers with a null array.
    fn wait(&self, cx: &Cx<'_>, ids: &[Id], out: &mut Reply) -> Done {
        let Some(ms) = self.block.filter(|_| cx.may_block) else {
            return answer::null_array(out);
        };
        let mut instead: Vec<Vec<u8>> = Vec::with_capacity(2 * self.keys.len() + 9);
        if let Some([group, consumer]) = self.group {
            instead.extend([&b"xreadgroup"[..], b"group", group, consumer].map(<[u8]>::to_vec));
            instead.extend(self.no_ack.then(|| b"noack".to_vec()));
        } else {
            instead.push(b"xread".to_vec());
        }
        let count = if self.count == 0 { AFTER_WAITING } else { self.count };
        instead.extend([b"count".to_vec(), count.to_string().into_bytes()]);
        instead.extend([b"block".to_vec(), ms.to_string().into_bytes(), b"streams".to_vec()]);
        let keys = instead.len()..instead.len() + self.keys.len();
        instead.extend(self.keys.iter().map(|key| key.to_vec()));
        instead.extend(ids.iter().map(|&id| match (id, &self.group) {
            (NEW, Some(_)) => b">".to_vec(),
            (id, _) => format!("{}-{}", id >> 64, id as u64).into_bytes(),
        }));
        Err(Fail::Block(Block {
            keys,
            has_ids: true,
            is_counted: false,
            timeout: (ms > 0).then_some(ms as f64 / 1000.0),
            needs_keys: self.group.is_some(),
            instead: Some(instead),
        }))
    }

    /// Delivers the entries behind the group's position to the consumer. Returns whether the consumer is new.
    fn new_entries(&self, cx: &mut Cx<'_>, key: &[u8], streams: &mut Streams<'_>) -> Result<bool, Fail> {
        let ([name, consumer], now) = (self.group.unwrap_or_default(), cx.clock);
        cx.change_value::<Stream, _>(key, |tx, stream| {
            let (Some(stream), Some(group)) = (stream, find_group(tx, stream, name)) else {
                return Ok(false);
            };
            let progress = field!(group.progress);
            let mut reached = tx[progress];
            let top = field!(stream.entries).iter(tx).next_back();
            if top.is_none_or(|(&top, _)| top <= reached.last) {
                return Ok(false);
            }
            streams.key(key);
            let (extent, mut seen) = (Extent::of(tx, stream), SmallVec::<[Id; 32]>::new());
            let range = (reached.last + 1, Id::MAX);
            write_range(tx, stream, range, self.count, false, streams.out, |id| {
                extent.advance(&mut reached, id);
                seen.push(id);
            });
            tx[progress] = reached;
            let (consumer, is_new) = consumer_or_new(tx, group, consumer, now)?;
            if !self.no_ack {
                for id in seen {
                    deliver_entry(tx, group, id, Delivery { consumer, at: now, count: 1 })?;
                }
            }
            Ok(is_new)
        })
    }

    /// Delivers again the pending entries of a consumer from `from` on. Returns whether the consumer is new.
    fn history(
        &self,
        cx: &mut Cx<'_>,
        key: &[u8],
        from: Id,
        streams: &mut Streams<'_>,
    ) -> Result<bool, Fail> {
        let ([name, consumer], now) = (self.group.unwrap_or_default(), cx.clock);
        cx.change_value::<Stream, _>(key, |tx, stream| {
            let (Some(stream), Some(group)) = (stream, find_group(tx, stream, name)) else {
                return Ok(false);
            };
            streams.key(key);
            let (consumer, is_new) = consumer_or_new(tx, group, consumer, now)?;
            let out = &mut *streams.out;
            let (begun, mut written, mut again) = (out.defer_len(), 0, SmallVec::<[Id; 32]>::new());
            for &id in field!(consumer.pending).range(tx, from..) {
                if let Some(&packed) = field!(stream.entries).get(tx, &id) {
                    write_entry(out, id, &tx[packed]);
                    again.push(id);
                } else {
                    out.array(2);
                    write_id(out, id);
                    out.null_array();
                }
                written += 1;
                if written == self.count {
                    break;
                }
            }
            out.end_array(begun, written);
            for id in again {
                if let Some(delivery) = field!(group.pending).get_mut(tx, &id) {
                    delivery.at = now;
                    delivery.count = delivery.count.saturating_add(1);
                }
            }
            Ok(is_new)
        })
    }
}

/// Streams in a reply, by key: a map, or in RESP2 an array of pairs.
struct Streams<'o> {
    out: &'o mut Reply,
    begun: crate::resp::reply::DeferredLen,
    len: usize,
}

impl<'o> Streams<'o> {
    fn begin(out: &'o mut Reply) -> Self {
        let begun = out.defer_len();
        Streams { out, begun, len: 0 }
    }

    fn key(&mut self, key: &[u8]) {
        if !self.out.is_resp3() {
            self.out.array(2);
        }
        self.out.bulk(key);
        self.len += 1;
    }

    fn end(self) {
        if self.out.is_resp3() {
            self.out.end_map(self.begun, self.len)
        } else {
            self.out.end_array(self.begun, self.len)
        }
    }
}

fn xread(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let read = Read::parse(args, false, cx.session.is_script)?;
    let resumes = cx.session.resumes;
    let mut ids: SmallVec<[Id; 8]> = SmallVec::new();
    for (key, text) in read.keys.iter().zip(read.ids) {
        // A resumed command has explicit ids, and ignores keys whose types have changed.
        let last = if resumes {
            0
        } else {
            cx.read_value::<Stream, _>(key, |view, stream| {
                Ok(stream.map_or(0, |stream| view[field!(stream.past)].last))
            })?
        };
        ids.push(match *text {
            b"$" => last,
            b">" => {
                return Err(Fail::err(
                    "The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
                ));
            }
            text => parse_id(text, 0)?,
        });
    }
    let mut streams = Streams::begin(out);
    for (key, &after) in read.keys.iter().zip(&ids) {
        let written = cx.read_value::<Stream, _>(key, |view, stream| {
            let Some(stream) = stream else { return Ok(()) };
            let top = field!(stream.entries).iter(view).next_back();
            if top.is_some_and(|(&top, _)| top > after) {
                streams.key(key);
                write_range(view, stream, (after + 1, Id::MAX), read.count, false, streams.out, |_| {});
            }
            Ok(())
        });
        if !resumes {
            written?;
        } else if streams.len > 0 {
            break;
        }
    }
    if streams.len == 0 {
        return read.wait(cx, &ids, out);
    }
    streams.end();
    Ok(())
}

fn xreadgroup(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let read = Read::parse(args, true, cx.session.is_script)?;
    let (resumes, [name, _]) = (cx.session.resumes, read.group.unwrap_or_default());
    let mut ids: SmallVec<[Id; 8]> = SmallVec::new();
    for (key, text) in read.keys.iter().zip(read.ids) {
        let found = cx.read_value::<Stream, _>(key, |view, stream| {
            Ok((stream.is_some(), find_group(view, stream, name).is_some()))
        });
        match found {
            Ok((true, true)) => {}
            Ok((true, false)) if resumes => {
                return Err(Fail::Error(Cow::Borrowed(
                    "NOGROUP the consumer group this client was blocked on no longer exists",
                )));
            }
            _ if resumes => {
                return Err(Fail::Error(Cow::Borrowed("UNBLOCKED the stream key no longer exists")));
            }
            Ok(_) => return Err(no_group(key, name, " in XREADGROUP with GROUP option")),
            Err(fail) => return Err(fail),
        }
        ids.push(match *text {
            b"$" => {
                return Err(Fail::err(
                    "The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
                ));
            }
            b">" => NEW,
            text => parse_id(text, 0)?,
        });
    }
    let mut streams = Streams::begin(out);
    for (key, &id) in read.keys.iter().zip(&ids) {
        let before = streams.len;
        let is_new = if id == NEW {
            read.new_entries(cx, key, &mut streams)?
        } else {
            read.history(cx, key, id + 1, &mut streams)?
        };
        if is_new {
            cx.effects.dirty += 1;
            cx.notify(CLASS, CREATED_CONSUMER, key);
        }
        if streams.len > before {
            cx.effects.dirty += 1;
            if resumes {
                break;
            }
        }
    }
    if streams.len == 0 {
        return read.wait(cx, &ids, out);
    }
    streams.end();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found() {
        let keys = |line: &str| {
            let (words, mut keys): (Vec<&[u8]>, _) = (line.split(' ').map(str::as_bytes).collect(), vec![]);
            find_keys(&words, &mut keys);
            keys
        };
        assert_eq!(keys("xread count 5 block 0 streams a b 0 0"), [6, 7]);
        assert_eq!(keys("xreadgroup group streams streams noack streams streams >"), [6]);
        assert_eq!(keys("xread streams a b 0"), [2]);
        assert_eq!(keys("xread count streams a 0"), [0; 0]);
        assert_eq!(keys("xread nothing streams a 0"), [0; 0]);
    }
}
