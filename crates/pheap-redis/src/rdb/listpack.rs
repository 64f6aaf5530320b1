//! Listpacks: numbers and strings, one after the other in one string. The length of each element follows it,
//! so that a listpack can also be read backwards.

use std::borrow::Cow;

use super::{Error, Result};
use crate::text::words;

/// An element of a packed string.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Element<'d> {
    /// A number.
    Int(i64),
    /// A string.
    Bytes(&'d [u8]),
}

impl<'d> Element<'d> {
    /// Returns the element as a string.
    pub(super) fn text(self) -> Cow<'d, [u8]> {
        match self {
            Element::Int(number) => Cow::Owned(words::decimal(number, &mut [0; 20]).to_vec()),
            Element::Bytes(bytes) => Cow::Borrowed(bytes),
        }
    }

    /// Returns the element as an owned string.
    pub(super) fn to_vec(self) -> Vec<u8> {
        self.text().into_owned()
    }

    /// Returns the number, if the element is a number or a string of one.
    pub(super) fn int(self) -> Option<i64> {
        match self {
            Element::Int(number) => Some(number),
            Element::Bytes(bytes) => words::int(bytes),
        }
    }
}

/// Bytes of the header: the total length, and the number of elements.
const HEADER: usize = 4 + 2;

/// The number of elements in the header if there are this many or more.
const MANY: u16 = u16::MAX;

const END: u8 = 255;

const DAMAGED: Error = Error::Corrupt("a listpack is damaged");

/// Returns how many bytes encode the length of an element. Some lengths get more bytes than they need.
fn backward_len(len: usize) -> usize {
    match len {
        ..128 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// Appends the length of an element for backward reading: 7 bits in each byte, the lowest last. All bytes
/// except the first have the top bit set.
fn put_backward(out: &mut Vec<u8>, len: usize) {
    for at in (0..backward_len(len)).rev() {
        let is_first = at == backward_len(len) - 1;
        out.push((len >> (7 * at)) as u8 & 127 | if is_first { 0 } else { 128 });
    }
}

/// Takes the next `N` bytes.
pub(super) fn take<'d, const N: usize>(rest: &mut &'d [u8], damaged: Error) -> Result<&'d [u8; N]> {
    let (taken, after) = rest.split_first_chunk().ok_or(damaged)?;
    *rest = after;
    Ok(taken)
}

/// Takes the next `len` bytes.
pub(super) fn string<'d>(rest: &mut &'d [u8], len: usize, damaged: Error) -> Result<&'d [u8]> {
    let (taken, after) = rest.split_at_checked(len).ok_or(damaged)?;
    *rest = after;
    Ok(taken)
}

/// Decodes a signed little-endian number of at most 8 bytes.
pub(super) fn number(bytes: &[u8]) -> i64 {
    let mut whole = [0; 8];
    whole[8 - bytes.len()..].copy_from_slice(bytes);
    i64::from_le_bytes(whole) >> (64 - 8 * bytes.len())
}

/// Takes the element at the beginning of `rest`, without the length behind it.
fn element<'d>(rest: &mut &'d [u8]) -> Result<Element<'d>> {
    let [first] = *take(rest, DAMAGED)?;
    Ok(Element::Int(match first {
        0..=0x7f => i64::from(first),
        0x80..=0xbf => return string(rest, usize::from(first & 63), DAMAGED).map(Element::Bytes),
        0xc0..=0xdf => {
            let [second] = *take(rest, DAMAGED)?;
            // The shifts extend the sign.
            i64::from((u16::from(first) << 11 | u16::from(second) << 3) as i16 >> 3)
        }
        0xe0..=0xef => {
            let [second] = *take(rest, DAMAGED)?;
            let len = usize::from(first & 15) << 8 | usize::from(second);
            return string(rest, len, DAMAGED).map(Element::Bytes);
        }
        0xf0 => {
            let len = u32::from_le_bytes(*take(rest, DAMAGED)?);
            return string(rest, len as usize, DAMAGED).map(Element::Bytes);
        }
        0xf1 => number(take::<2>(rest, DAMAGED)?),
        0xf2 => number(take::<3>(rest, DAMAGED)?),
        0xf3 => number(take::<4>(rest, DAMAGED)?),
        0xf4 => number(take::<8>(rest, DAMAGED)?),
        _ => return Err(DAMAGED),
    }))
}

/// Counts an element of a packed string, which may have been compressed. `left` is the number of further
/// elements that are allowed.
pub(super) fn spend(left: &mut u64) -> Result<()> {
    *left = left.checked_sub(1).ok_or(Error::Corrupt("it has too many elements for its length"))?;
    Ok(())
}

/// Decodes all elements of a listpack. `left` is the number of further elements that are allowed.
pub(super) fn elements<'d>(listpack: &'d [u8], left: &mut u64) -> Result<Vec<Element<'d>>> {
    let mut rest = listpack;
    let len = u32::from_le_bytes(*take(&mut rest, DAMAGED)?);
    let count = u16::from_le_bytes(*take(&mut rest, DAMAGED)?);
    if len as usize != listpack.len() {
        return Err(DAMAGED);
    }
    let (mut elements, mut backward) = (Vec::new(), Vec::new());
    while rest.first().ok_or(DAMAGED)? != &END {
        let before = rest.len();
        spend(left)?;
        elements.push(element(&mut rest)?);
        backward.clear();
        put_backward(&mut backward, before - rest.len());
        rest = rest.strip_prefix(&backward[..]).ok_or(DAMAGED)?;
    }
    if rest.len() != 1 || count != MANY && usize::from(count) != elements.len() {
        return Err(DAMAGED);
    }
    Ok(elements)
}

/// A listpack that is being written.
#[derive(Debug)]
pub(super) struct Listpack {
    bytes: Vec<u8>,
    count: usize,
}

impl Listpack {
    /// Makes a listpack without elements.
    pub(super) fn new() -> Listpack {
        Listpack { bytes: vec![0; HEADER], count: 0 }
    }

    /// Returns the present length in bytes, with the header and without the end.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends a string, or a number if the string is one.
    pub(super) fn push(&mut self, text: &[u8]) -> Result<()> {
        if let Some(number) = words::int(text) {
            self.push_int(number);
            return Ok(());
        }
        let start = self.bytes.len();
        match text.len() {
            len @ ..64 => self.bytes.push(0x80 | len as u8),
            len @ ..4096 => self.bytes.extend_from_slice(&(0xe000 | len as u16).to_be_bytes()),
            len => {
                let len = u32::try_from(len).map_err(|_| Error::TooLarge)?;
                self.bytes.push(0xf0);
                self.bytes.extend_from_slice(&len.to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(text);
        self.end(start);
        Ok(())
    }

    /// Appends a number.
    pub(super) fn push_int(&mut self, number: i64) {
        let start = self.bytes.len();
        match number {
            0..128 => self.bytes.push(number as u8),
            -4096..4096 => self.bytes.extend_from_slice(&(0xc000 | number as u16 & 0x1fff).to_be_bytes()),
            _ => {
                let (first, len) = match number {
                    -0x8000..0x8000 => (0xf1, 2),
                    -0x80_0000..0x80_0000 => (0xf2, 3),
                    -0x8000_0000..0x8000_0000 => (0xf3, 4),
                    _ => (0xf4, 8),
                };
                self.bytes.push(first);
                self.bytes.extend_from_slice(&number.to_le_bytes()[..len]);
            }
        }
        self.end(start);
    }

    fn end(&mut self, start: usize) {
        let len = self.bytes.len() - start;
        put_backward(&mut self.bytes, len);
        self.count += 1;
    }

    /// Appends the elements of another listpack.
    pub(super) fn append(&mut self, other: Listpack) {
        self.bytes.extend_from_slice(&other.bytes[HEADER..]);
        self.count += other.count;
    }

    /// Returns the complete listpack.
    pub(super) fn finish(mut self) -> Result<Vec<u8>> {
        self.bytes.push(END);
        let len = u32::try_from(self.bytes.len()).map_err(|_| Error::TooLarge)?;
        self.bytes[..4].copy_from_slice(&len.to_le_bytes());
        let count = u16::try_from(self.count).unwrap_or(MANY);
        self.bytes[4..HEADER].copy_from_slice(&count.to_le_bytes());
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listpack_round_trip() {
        let mut listpack = Listpack::new();
        let mut expected: Vec<Vec<u8>> = Vec::new();
        for shift in 0..63 {
            for number in [(1_i64 << shift) - 1, 1 << shift, -(1 << shift), -(1 << shift) - 1, i64::MIN] {
                listpack.push_int(number);
                expected.push(number.to_string().into_bytes());
            }
        }
        for len in [0, 1, 63, 64, 127, 128, 4095, 4096, 16_380, 16_381, 16_400, 2_097_140, 2_097_150] {
            let text = vec![b'x'; len];
            listpack.push(&text).unwrap();
            expected.push(text);
        }
        listpack.push(b"-4096").unwrap();
        expected.push(b"-4096".to_vec());
        let bytes = listpack.finish().unwrap();
        let read: Vec<Vec<u8>> =
            elements(&bytes, &mut 100_000).unwrap().into_iter().map(Element::to_vec).collect();
        assert!(read == expected);
    }

    #[test]
    fn as_redis_writes_them() {
        // Redis writes these bytes after `RPUSH k 1 -5 300 a`.
        let bytes = b"\x12\x00\x00\x00\x04\x00\x01\x01\xdf\xfb\x02\xc1\x2c\x02\x81a\x02\xff";
        let mut listpack = Listpack::new();
        [&b"1"[..], b"-5", b"300", b"a"].iter().for_each(|text| listpack.push(text).unwrap());
        assert_eq!(listpack.finish().unwrap(), bytes);
        let expected = [Element::Int(1), Element::Int(-5), Element::Int(300), Element::Bytes(b"a")];
        assert_eq!(elements(bytes, &mut 100_000).unwrap(), expected);
        // The bytes at the excluded positions are part of an element's value, and changing them makes another
        // valid element.
        for at in (0..bytes.len()).filter(|at| ![6, 9, 11, 12, 14, 15].contains(at)) {
            let mut wrong = *bytes;
            wrong[at] ^= 0x40;
            assert!(elements(&wrong, &mut 100_000).is_err(), "{at}");
        }
        assert!((0..bytes.len()).all(|len| elements(&bytes[..len], &mut 100_000).is_err()));
    }
}
