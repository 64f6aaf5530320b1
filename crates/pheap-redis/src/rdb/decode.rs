//! Values, read.

use std::collections::HashSet;
use std::io::Read;

use super::listpack::{self, Element};
use super::read::score;
use super::{Error, Reader, Result, kinds, old, streams};
use crate::data::Owned;

/// Two strings that belong together.
type Pair = (Vec<u8>, Vec<u8>);

/// Reads a value of this type (as a number).
///
/// # Errors
/// If there is none. Only if it is [`Error::Empty`], it was read to its end.
pub fn decode<R: Read>(kind: u8, from: &mut Reader<R>) -> Result<Owned> {
    let value = match kind {
        kinds::STRING => Owned::String(from.string()?),
        kinds::LIST => Owned::List(many(from, Reader::string)?),
        kinds::SET => Owned::Set(many(from, Reader::string)?),
        kinds::ZSET => Owned::Sorted(many(from, |from| Ok((from.string()?, from.text_double()?)))?),
        kinds::ZSET_2 => Owned::Sorted(many(from, |from| Ok((from.string()?, from.double()?)))?),
        kinds::HASH => Owned::Hash(many(from, |from| Ok((from.string()?, from.string()?)))?),
        kinds::HASH_ZIPMAP => {
            let pairs = from.string()?;
            let pairs = old::zipmap(&pairs, &mut from.elements)?.into_iter();
            Owned::Hash(pairs.map(|(field, value)| (field.to_vec(), value.to_vec())).collect())
        }
        kinds::LIST_ZIPLIST => Owned::List(texts(&old::ziplist(&from.string()?, &mut from.elements)?)),
        kinds::SET_INTSET => {
            let numbers = old::intset(&from.string()?, &mut from.elements)?.into_iter();
            Owned::Set(numbers.map(|number| Element::Int(number).to_vec()).collect())
        }
        kinds::ZSET_ZIPLIST => Owned::Sorted(scores(&old::ziplist(&from.string()?, &mut from.elements)?)?),
        kinds::ZSET_LISTPACK => {
            Owned::Sorted(scores(&listpack::elements(&from.string()?, &mut from.elements)?)?)
        }
        kinds::HASH_ZIPLIST => Owned::Hash(pairs(&old::ziplist(&from.string()?, &mut from.elements)?)?),
        kinds::HASH_LISTPACK => {
            Owned::Hash(pairs(&listpack::elements(&from.string()?, &mut from.elements)?)?)
        }
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
    if len == distinct { Ok(value) } else { Err(Error::Corrupt("an element is there twice")) }
}

/// A number, and so many of what `one` reads.
pub(super) fn many<R: Read, T>(
    from: &mut Reader<R>,
    mut one: impl FnMut(&mut Reader<R>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = from.length()?;
    // Each has a byte at least. What comes is not known yet, so the memory is not asked for now.
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

fn texts(elements: &[Element<'_>]) -> Vec<Vec<u8>> {
    elements.iter().map(|element| element.to_vec()).collect()
}

const ODD: Error = Error::Corrupt("a field has no value");

fn pairs(elements: &[Element<'_>]) -> Result<Vec<Pair>> {
    let (pairs, rest) = elements.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(ODD);
    }
    Ok(pairs.iter().map(|[field, value]| (field.to_vec(), value.to_vec())).collect())
}

fn scores(elements: &[Element<'_>]) -> Result<Vec<(Vec<u8>, f64)>> {
    let (pairs, rest) = elements.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(ODD);
    }
    let one = |[member, number]: &[Element<'_>; 2]| {
        let number = match number {
            Element::Int(number) => *number as f64,
            Element::Bytes(text) => score(text)?,
        };
        Ok((member.to_vec(), number))
    };
    pairs.iter().map(one).collect()
}

/// A list in parts, each of which is a ziplist; or, in new ones, a listpack or one element.
fn quicklist<R: Read>(from: &mut Reader<R>, is_new: bool) -> Result<Vec<Vec<u8>>> {
    const ONE_ELEMENT: u64 = 1;
    const PACKED: u64 = 2;
    let parts = many(from, |from| {
        let container = if is_new { from.length()? } else { PACKED };
        let part = from.string()?;
        match container {
            _ if part.is_empty() => Err(Error::Corrupt("a part of a list is empty")),
            ONE_ELEMENT => Ok(vec![part]),
            PACKED if is_new => Ok(texts(&listpack::elements(&part, &mut from.elements)?)),
            PACKED => Ok(texts(&old::ziplist(&part, &mut from.elements)?)),
            _ => Err(Error::Corrupt("a part of a list is of an unknown kind")),
        }
    })?;
    Ok(parts.into_iter().flatten().collect())
}
