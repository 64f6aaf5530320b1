//! Decodes values in the format of RDB files.

use std::collections::HashSet;
use std::io::Read;

use super::listpack::{self, Element};
use super::read::score;
use super::{Error, RdbReader, Result, kinds, old, streams};
use crate::data::Owned;

/// Reads a value of the type with the number `kind`.
///
/// # Errors
/// If there is no valid value. After [`Error::Empty`], the reader is at the end of the value; after other
/// errors, it may be anywhere.
pub fn decode<R: Read>(kind: u8, from: &mut RdbReader<R>) -> Result<Owned> {
    let value = match kind {
        kinds::STRING => Owned::String(from.string()?),
        kinds::LIST => Owned::List(many(from, RdbReader::string)?),
        kinds::SET => Owned::Set(many(from, RdbReader::string)?),
        kinds::ZSET => Owned::Sorted(many(from, |from| Ok((from.string()?, from.text_double()?)))?),
        kinds::ZSET_2 => Owned::Sorted(many(from, |from| Ok((from.string()?, from.double()?)))?),
        kinds::HASH => Owned::Hash(many(from, |from| Ok((from.string()?, from.string()?)))?),
        kinds::HASH_ZIPMAP => Owned::Hash(packed(from, old::zipmap, pairs)?),
        kinds::LIST_ZIPLIST => Owned::List(packed(from, old::ziplist, texts)?),
        kinds::SET_INTSET => Owned::Set(packed(from, old::intset, texts)?),
        kinds::ZSET_ZIPLIST => Owned::Sorted(packed(from, old::ziplist, scores)?),
        kinds::ZSET_LISTPACK => Owned::Sorted(packed(from, listpack::elements, scores)?),
        kinds::HASH_ZIPLIST => Owned::Hash(packed(from, old::ziplist, pairs)?),
        kinds::HASH_LISTPACK => Owned::Hash(packed(from, listpack::elements, pairs)?),
        kinds::LIST_QUICKLIST => Owned::List(quicklist(from, false)?),
        kinds::LIST_QUICKLIST_2 => Owned::List(quicklist(from, true)?),
        kinds::STREAM_LISTPACKS => return streams::decode(from, false).map(Owned::Stream),
        kinds::STREAM_LISTPACKS_2 => return streams::decode(from, true).map(Owned::Stream),
        kinds::MODULE | kinds::MODULE_2 => return Err(Error::Unknown("a value of a module")),
        _ => return Err(Error::Unknown("a value of another type")),
    };
    let (len, distinct) = match &value {
        Owned::List(elements) => (elements.len(), elements.len()),
        Owned::Set(members) => (members.len(), distinct(members.iter())),
        Owned::Sorted(members) => (members.len(), distinct(members.iter().map(|(member, _)| member))),
        Owned::Hash(pairs) => (pairs.len(), distinct(pairs.iter().map(|(field, _)| field))),
        Owned::String(_) | Owned::Stream(_) => return Ok(value),
    };
    if len == 0 {
        return Err(Error::Empty);
    }
    if len == distinct { Ok(value) } else { Err(Error::Corrupt("an element occurs twice")) }
}

/// Reads a count, and then calls `one` to read each of that many items.
pub(super) fn many<R: Read, T>(
    from: &mut RdbReader<R>,
    mut one: impl FnMut(&mut RdbReader<R>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = from.length()?;
    // Each item has at least a byte. The count may be wrong, so the memory for the items is not allocated
    // yet.
    if count > from.left() {
        return Err(Error::Truncated);
    }
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(one(from)?);
    }
    Ok(all)
}

fn distinct<'v>(all: impl ExactSizeIterator<Item = &'v Vec<u8>>) -> usize {
    all.collect::<HashSet<_>>().len()
}

/// Reads a string, decodes its elements by `read`, and converts them by `make`.
fn packed<R: Read, T>(
    from: &mut RdbReader<R>,
    read: for<'d> fn(&'d [u8], &mut u64) -> Result<Vec<Element<'d>>>,
    make: fn(&[Element<'_>]) -> Result<T>,
) -> Result<T> {
    let string = from.string()?;
    make(&read(&string, &mut from.elements)?)
}

fn texts(elements: &[Element<'_>]) -> Result<Vec<Vec<u8>>> {
    Ok(elements.iter().map(|element| element.to_vec()).collect())
}

/// Returns pairs of elements: a string, and the result of `second` for the next element.
fn with_second<T>(
    elements: &[Element<'_>],
    second: impl Fn(Element<'_>) -> Result<T>,
) -> Result<Vec<(Vec<u8>, T)>> {
    let (pairs, rest) = elements.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Error::Corrupt("a field has no value"));
    }
    pairs.iter().map(|&[first, other]| Ok((first.to_vec(), second(other)?))).collect()
}

fn pairs(elements: &[Element<'_>]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    with_second(elements, |value| Ok(value.to_vec()))
}

fn scores(elements: &[Element<'_>]) -> Result<Vec<(Vec<u8>, f64)>> {
    with_second(elements, |number| match number {
        Element::Int(number) => Ok(number as f64),
        Element::Bytes(text) => score(text),
    })
}

/// Reads a list in parts, each of which is a ziplist; in new lists, a listpack or a single element.
fn quicklist<R: Read>(from: &mut RdbReader<R>, is_new: bool) -> Result<Vec<Vec<u8>>> {
    const ONE_ELEMENT: u64 = 1;
    const PACKED: u64 = 2;
    let parts = many(from, |from| {
        let container = if is_new { from.length()? } else { PACKED };
        let part = from.string()?;
        match container {
            _ if part.is_empty() => Err(Error::Corrupt("a part of a list is empty")),
            ONE_ELEMENT => Ok(vec![part]),
            PACKED if is_new => texts(&listpack::elements(&part, &mut from.elements)?),
            PACKED => texts(&old::ziplist(&part, &mut from.elements)?),
            _ => Err(Error::Corrupt("a part of a list has an unknown encoding")),
        }
    })?;
    Ok(parts.into_iter().flatten().collect())
}
