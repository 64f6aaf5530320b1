//! Reads and writes streams of RDB files.
//!
//! Entries are in listpacks. A listpack begins with counts and the names of some fields: in Redis and here,
//! the fields of its first entry. An entry with just these fields need not repeat the names.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::Read;

use super::decode::many;
use super::listpack::{self, Element, Listpack};
use super::write::{put_bytes, put_length, put_string};
use super::{Error, RdbReader, Result};
use crate::data::streams::{Extent, Id, Past, Progress, id, ms, pack, seq, unpack};
use crate::data::{OwnedGroup, OwnedStream};

/// A flag of an entry: its fields have the names at the beginning of the listpack.
const SAME_FIELDS: i64 = 2;
/// A flag of an entry: it was deleted.
const DELETED: i64 = 1;

/// The most entries of a listpack, and its approximate greatest length in bytes: the defaults of Redis.
const MOST_ENTRIES: usize = 100;
const MOST_BYTES: usize = 4096;

/// The most bytes of field names in the entries of a stream, and how many more for each byte of its
/// listpacks. Without a limit, a payload of a few MiB could become some GiB, because names need not be
/// repeated in it.
const MOST_REPEATED: usize = 16 << 20;
const REPEATED_PER_BYTE: usize = 16;

const DAMAGED: Error = Error::Corrupt("a stream is damaged");

/// Reads a stream. The old form lacks the first id, the greatest deleted id, the number of added entries, and
/// how far groups have read.
pub(super) fn decode<R: Read>(from: &mut RdbReader<R>, is_new: bool) -> Result<OwnedStream> {
    let (mut entries, mut left) = (Vec::new(), MOST_REPEATED);
    let parts = many(from, |from| {
        let base = <[u8; 16]>::try_from(from.string()?).map_err(|_| DAMAGED)?;
        let listpack = from.string()?;
        let elements = listpack::elements(&listpack, &mut from.elements)?;
        left += listpack.len() * REPEATED_PER_BYTE;
        read_entries(Id::from_be_bytes(base), &elements, &mut left, &mut entries)
    })?;
    let len = from.length()?;
    if len > 0 && parts.is_empty() {
        return Err(DAMAGED);
    }
    let mut past = Past { last: read_id(from)?, deleted: 0, added: entries.len() as u64 };
    if is_new {
        // The first id is ignored, because the entries show it.
        read_id(from)?;
        past.deleted = read_id(from)?;
        past.added = from.length()?;
    }
    if entries.last().is_some_and(|(last, _)| *last > past.last) {
        return Err(DAMAGED);
    }
    let first = entries.first().map_or(0, |(first, _)| *first);
    let extent = Extent { len: entries.len() as u64, first, past };
    let groups = many(from, |from| read_group(from, is_new, &extent))?;
    if groups.iter().map(|group| &group.name).collect::<HashSet<_>>().len() != groups.len() {
        return Err(DAMAGED);
    }
    Ok(OwnedStream { entries, past, groups })
}

fn read_id<R: Read>(from: &mut RdbReader<R>) -> Result<Id> {
    Ok(id(from.length()?, from.length()?))
}

/// Decodes the entries of a listpack, whose ids are relative to `base`. The entries may have at most `left`
/// bytes of field names.
fn read_entries(
    base: Id,
    elements: &[Element<'_>],
    left: &mut usize,
    entries: &mut Vec<(Id, Vec<u8>)>,
) -> Result<()> {
    let mut rest = elements.iter().copied();
    let int = |rest: &mut dyn Iterator<Item = Element<'_>>| rest.next().and_then(Element::int).ok_or(DAMAGED);
    let count = |number: i64| {
        let count = usize::try_from(number).ok().filter(|count| *count <= elements.len());
        count.ok_or(DAMAGED)
    };
    let (valid, deleted, fields) = (int(&mut rest)?, int(&mut rest)?, int(&mut rest)?);
    let (all, fields) = (count(valid)? + count(deleted)?, count(fields)?);
    let same_fields: Vec<Cow<'_, [u8]>> = rest.by_ref().take(fields).map(Element::text).collect();
    if same_fields.len() != fields || int(&mut rest)? != 0 {
        return Err(DAMAGED);
    }
    for _ in 0..all {
        let flags = int(&mut rest)?;
        let [ms_after, seq_after] = [int(&mut rest)?, int(&mut rest)?];
        let id = id(ms(base).wrapping_add(ms_after as u64), seq(base).wrapping_add(seq_after as u64));
        let has_same = flags & SAME_FIELDS != 0;
        let fields = if has_same { fields } else { count(int(&mut rest)?)? };
        // The fields and values of the entry, alternating.
        let mut words: Vec<Cow<'_, [u8]>> = Vec::with_capacity(2 * fields);
        for at in 0..fields {
            let field = match same_fields.get(at).filter(|_| has_same) {
                Some(field) => Cow::Borrowed(&**field),
                None => rest.next().ok_or(DAMAGED)?.text(),
            };
            *left = left.checked_sub(field.len()).ok_or(DAMAGED)?;
            words.extend([field, rest.next().ok_or(DAMAGED)?.text()]);
        }
        let elements_before = if has_same { 3 + fields } else { 4 + 2 * fields };
        if int(&mut rest)? != elements_before as i64 {
            return Err(DAMAGED);
        }
        if flags & DELETED != 0 {
            continue;
        }
        if id <= entries.last().map_or(0, |(last, _)| *last) {
            return Err(DAMAGED);
        }
        let words: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
        entries.push((id, pack(&words).to_vec()));
    }
    if rest.next().is_some() { Err(DAMAGED) } else { Ok(()) }
}

fn read_raw_id<R: Read>(from: &mut RdbReader<R>) -> Result<Id> {
    Ok(Id::from_be_bytes(from.array()?))
}

fn read_time<R: Read>(from: &mut RdbReader<R>) -> Result<i64> {
    Ok(i64::from_le_bytes(from.array()?))
}

/// Reads a group: its name, how far it has read, all pending entries, the consumers, and the pending entries
/// of each.
fn read_group<R: Read>(from: &mut RdbReader<R>, is_new: bool, extent: &Extent) -> Result<OwnedGroup> {
    let (name, last) = (from.string()?, read_id(from)?);
    let read = if is_new { from.length()? as i64 } else { extent.position(last).unwrap_or(-1) };
    let mut deliveries = HashMap::new();
    let all = many(from, |from| {
        let (id, at, count) = (read_raw_id(from)?, read_time(from)?, from.length()? as i64);
        deliveries.insert(id, (at, count));
        Ok(id)
    })?;
    if deliveries.len() != all.len() {
        return Err(DAMAGED);
    }
    let (mut pending, mut number) = (Vec::new(), 0);
    let consumers = many(from, |from| {
        let (name, seen) = (from.string()?, read_time(from)?);
        many(from, |from| {
            let id = read_raw_id(from)?;
            // An entry is pending for only one consumer.
            let (at, count) = deliveries.remove(&id).ok_or(DAMAGED)?;
            pending.push((id, number, at, count));
            Ok(())
        })?;
        number += 1;
        Ok((name, seen))
    })?;
    let names: HashSet<&Vec<u8>> = consumers.iter().map(|(name, _)| name).collect();
    if !deliveries.is_empty() || names.len() != consumers.len() {
        return Err(DAMAGED);
    }
    // The heap has the pending entries in the order of their ids.
    pending.sort_unstable();
    Ok(OwnedGroup { name, progress: Progress { last, read }, consumers, pending })
}

/// Appends a stream.
pub(super) fn encode(stream: &OwnedStream, out: &mut Vec<u8>) -> Result<()> {
    let mut parts = Vec::new();
    let mut rest = &stream.entries[..];
    while !rest.is_empty() {
        let (base, listpack);
        (base, listpack, rest) = write_entries(rest)?;
        parts.push((base, listpack));
    }
    put_length(out, parts.len() as u64);
    for (base, listpack) in parts {
        put_bytes(out, &base.to_be_bytes());
        put_bytes(out, &listpack);
    }
    put_length(out, stream.entries.len() as u64);
    let Past { last, deleted, added } = stream.past;
    let first = stream.entries.first().map_or(0, |(first, _)| *first);
    [last, first, deleted].iter().for_each(|id| put_id(out, *id));
    put_length(out, added);
    put_length(out, stream.groups.len() as u64);
    stream.groups.iter().for_each(|group| put_group(out, group));
    Ok(())
}

fn put_id(out: &mut Vec<u8>, id: Id) {
    put_length(out, ms(id));
    put_length(out, seq(id));
}

/// Splits the words of an entry into fields and values.
fn fields_and_values(packed: &[u8]) -> (Vec<&[u8]>, Vec<&[u8]>) {
    let (_, words) = unpack(packed);
    let words: Vec<&[u8]> = words.collect();
    let (pairs, _) = words.as_chunks::<2>();
    (pairs.iter().map(|[field, _]| *field).collect(), pairs.iter().map(|[_, value]| *value).collect())
}

/// Writes a listpack of the first entries. Returns the id to which their ids are relative, the listpack, and
/// the other entries.
#[expect(clippy::type_complexity, reason = "three things that are used at once")]
fn write_entries(entries: &[(Id, Vec<u8>)]) -> Result<(Id, Vec<u8>, &[(Id, Vec<u8>)])> {
    let (base, first) = &entries[0];
    let (same_fields, _) = fields_and_values(first);
    let (mut body, mut count) = (Listpack::new(), 0);
    let mut rest = entries;
    while let [(id, packed), others @ ..] = rest {
        if count > 0 && (count == MOST_ENTRIES || body.len() + packed.len() >= MOST_BYTES) {
            break;
        }
        let (fields, values) = fields_and_values(packed);
        let has_same = fields == same_fields;
        body.push_int(if has_same { SAME_FIELDS } else { 0 });
        body.push_int(ms(*id).wrapping_sub(ms(*base)) as i64);
        body.push_int(seq(*id).wrapping_sub(seq(*base)) as i64);
        if has_same {
            values.iter().try_for_each(|value| body.push(value))?;
            body.push_int(3 + values.len() as i64);
        } else {
            body.push_int(fields.len() as i64);
            for (field, value) in fields.iter().zip(&values) {
                body.push(field)?;
                body.push(value)?;
            }
            body.push_int(4 + 2 * values.len() as i64);
        }
        count += 1;
        rest = others;
    }
    let mut listpack = Listpack::new();
    listpack.push_int(count as i64);
    listpack.push_int(0);
    listpack.push_int(same_fields.len() as i64);
    same_fields.iter().try_for_each(|field| listpack.push(field))?;
    listpack.push_int(0);
    listpack.append(body);
    Ok((*base, listpack.finish()?, rest))
}

fn put_group(out: &mut Vec<u8>, group: &OwnedGroup) {
    put_string(out, &group.name);
    put_id(out, group.progress.last);
    put_length(out, group.progress.read as u64);
    put_length(out, group.pending.len() as u64);
    let mut of_consumers = vec![Vec::new(); group.consumers.len()];
    for &(id, consumer, at, count) in &group.pending {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&at.to_le_bytes());
        put_length(out, count as u64);
        of_consumers[consumer].push(id);
    }
    put_length(out, group.consumers.len() as u64);
    for ((name, seen), ids) in group.consumers.iter().zip(of_consumers) {
        put_string(out, name);
        out.extend_from_slice(&seen.to_le_bytes());
        put_length(out, ids.len() as u64);
        ids.iter().for_each(|id: &Id| out.extend_from_slice(&id.to_be_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a listpack of entries with one field, whose name has `field` bytes.
    fn listpack(entries: i64, field: usize) -> Vec<u8> {
        let mut listpack = Listpack::new();
        [entries, 0, 1].iter().for_each(|number| listpack.push_int(*number));
        listpack.push(&vec![b'f'; field]).unwrap();
        listpack.push_int(0);
        for number in 0..entries {
            [SAME_FIELDS, 0, number].iter().for_each(|number| listpack.push_int(*number));
            listpack.push(b"v").unwrap();
            listpack.push_int(4);
        }
        listpack.finish().unwrap()
    }

    #[test]
    fn names_of_fields_are_not_repeated_without_end() {
        let read = |listpack: &[u8]| {
            let mut entries = Vec::new();
            let elements = listpack::elements(listpack, &mut 2000)?;
            read_entries(1, &elements, &mut MOST_REPEATED.clone(), &mut entries).map(|()| entries.len())
        };
        assert_eq!(read(&listpack(200, 4000)).unwrap(), 200);
        assert!(read(&listpack(200, 1 << 20)).is_err());
    }
}
