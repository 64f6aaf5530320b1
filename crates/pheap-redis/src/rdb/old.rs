//! Decodes ziplists and zipmaps, which older versions of Redis used instead of listpacks, and intsets.

use super::listpack::{Element, number, spend, string, take};
use super::{Error, Result};

const ZIPLIST: Error = Error::Corrupt("a ziplist is damaged");

/// Takes an element of a ziplist, without the length before it.
fn zip_element<'d>(rest: &mut &'d [u8]) -> Result<Element<'d>> {
    let [first] = *take(rest, ZIPLIST)?;
    let len = match first {
        0..0x40 => usize::from(first),
        0x40..0x80 => usize::from(first & 63) << 8 | usize::from(take::<1>(rest, ZIPLIST)?[0]),
        0x80 => u32::from_be_bytes(*take(rest, ZIPLIST)?) as usize,
        _ => {
            return Ok(Element::Int(match first {
                0xc0 => number(take::<2>(rest, ZIPLIST)?),
                0xd0 => number(take::<4>(rest, ZIPLIST)?),
                0xe0 => number(take::<8>(rest, ZIPLIST)?),
                0xf0 => number(take::<3>(rest, ZIPLIST)?),
                0xfe => number(take::<1>(rest, ZIPLIST)?),
                0xf1..=0xfd => i64::from(first & 15) - 1,
                _ => return Err(ZIPLIST),
            }));
        }
    };
    string(rest, len, ZIPLIST).map(Element::Bytes)
}

/// Decodes a ziplist: its length, the offset of its last element, the number of elements, and the elements.
/// The length of the previous element precedes each.
pub(super) fn ziplist<'d>(ziplist: &'d [u8], left: &mut u64) -> Result<Vec<Element<'d>>> {
    const END: u8 = 255;
    const MANY: u16 = u16::MAX;
    let mut rest = ziplist;
    let len = u32::from_le_bytes(*take(&mut rest, ZIPLIST)?);
    let last = u32::from_le_bytes(*take(&mut rest, ZIPLIST)?);
    let count = u16::from_le_bytes(*take(&mut rest, ZIPLIST)?);
    if len as usize != ziplist.len() {
        return Err(ZIPLIST);
    }
    let (mut elements, mut at, mut len_before) = (Vec::new(), ziplist.len() - rest.len(), 0);
    while rest.first().ok_or(ZIPLIST)? != &END {
        at = ziplist.len() - rest.len();
        let [mut before] = (*take(&mut rest, ZIPLIST)?).map(usize::from);
        if before == 254 {
            before = u32::from_le_bytes(*take(&mut rest, ZIPLIST)?) as usize;
        }
        if before != len_before {
            return Err(ZIPLIST);
        }
        spend(left)?;
        elements.push(zip_element(&mut rest)?);
        len_before = ziplist.len() - rest.len() - at;
    }
    if rest.len() != 1 || last as usize != at || count != MANY && usize::from(count) != elements.len() {
        return Err(ZIPLIST);
    }
    Ok(elements)
}

/// Decodes a zipmap to alternating fields and values: the number of pairs, then each field and value with its
/// length. Behind a value's length is the number of unused bytes that follow the value.
pub(super) fn zipmap<'d>(zipmap: &'d [u8], left: &mut u64) -> Result<Vec<Element<'d>>> {
    const ZIPMAP: Error = Error::Corrupt("a zipmap is damaged");
    const END: u8 = 255;
    const LONG: u8 = 254;
    let mut rest = zipmap;
    let [count] = *take(&mut rest, ZIPMAP)?;
    let len = |rest: &mut &[u8]| match *take(rest, ZIPMAP)? {
        [LONG] => Ok(u32::from_le_bytes(*take(rest, ZIPMAP)?) as usize),
        [END] => Err(ZIPMAP),
        [len] => Ok(usize::from(len)),
    };
    let mut elements = Vec::new();
    while rest.first().ok_or(ZIPMAP)? != &END {
        let field_len = len(&mut rest)?;
        let field = string(&mut rest, field_len, ZIPMAP)?;
        let value_len = len(&mut rest)?;
        let [free] = *take(&mut rest, ZIPMAP)?;
        let value = string(&mut rest, value_len, ZIPMAP)?;
        string(&mut rest, usize::from(free), ZIPMAP)?;
        spend(left)?;
        elements.extend([field, value].map(Element::Bytes));
    }
    if rest.len() != 1 || count != LONG && 2 * usize::from(count) != elements.len() {
        return Err(ZIPMAP);
    }
    Ok(elements)
}

/// Decodes an intset: the size of each number in bytes, the number of numbers, and the numbers in ascending
/// order.
pub(super) fn intset<'d>(intset: &'d [u8], left: &mut u64) -> Result<Vec<Element<'d>>> {
    const INTSET: Error = Error::Corrupt("a set of numbers is damaged");
    let mut rest = intset;
    let size = u32::from_le_bytes(*take(&mut rest, INTSET)?) as usize;
    let count = u32::from_le_bytes(*take(&mut rest, INTSET)?) as usize;
    if ![2, 4, 8].contains(&size) || count.checked_mul(size) != Some(rest.len()) || count == 0 {
        return Err(INTSET);
    }
    (0..count).try_for_each(|_| spend(left))?;
    let numbers: Vec<i64> = rest.chunks_exact(size).map(number).collect();
    if !numbers.is_sorted_by(|a, b| a < b) {
        return Err(INTSET);
    }
    Ok(numbers.into_iter().map(Element::Int).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ziplists() {
        let bytes = b"\x1d\0\0\0\x18\0\0\0\x06\0\x00\x01a\x03\xf1\x02\xfe\xff\x03\xf0\x00\x00\x80\x05\xc0\x00\x01\x04\xfd\xff";
        let bytes = {
            let mut bytes = bytes.to_vec();
            let (len, last) = (bytes.len() as u32, bytes.len() as u32 - 3);
            bytes[..4].copy_from_slice(&len.to_le_bytes());
            bytes[4..8].copy_from_slice(&last.to_le_bytes());
            bytes
        };
        let expected = [
            Element::Bytes(b"a"),
            Element::Int(0),
            Element::Int(-1),
            Element::Int(-0x80_0000),
            Element::Int(256),
            Element::Int(12),
        ];
        assert_eq!(ziplist(&bytes, &mut 100).unwrap(), expected);
        assert!((0..bytes.len()).all(|len| ziplist(&bytes[..len], &mut 100).is_err()));
        for at in [0, 4, 8, 10, 13, bytes.len() - 1] {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            assert!(ziplist(&wrong, &mut 100).is_err(), "{at}");
        }
    }

    #[test]
    fn zipmaps() {
        let bytes = b"\x02\x03foo\x03\x02bar--\x05hello\xfe\x05\0\0\0\x00world\xff";
        assert_eq!(
            zipmap(bytes, &mut 100).unwrap(),
            [&b"foo"[..], b"bar", b"hello", b"world"].map(Element::Bytes)
        );
        assert!((0..bytes.len()).all(|len| zipmap(&bytes[..len], &mut 100).is_err()));
        assert_eq!(zipmap(b"\0\xff", &mut 100).unwrap(), []);
        assert!(zipmap(b"\x01\xff", &mut 100).is_err());
    }

    #[test]
    fn sets_of_numbers() {
        assert_eq!(
            intset(b"\x02\0\0\0\x02\0\0\0\xff\xff\x01\x00", &mut 100).unwrap(),
            [-1, 1].map(Element::Int)
        );
        assert_eq!(
            intset(b"\x04\0\0\0\x01\0\0\0\xff\xff\xff\x7f", &mut 100).unwrap(),
            [0x7fff_ffff].map(Element::Int)
        );
        for wrong in [
            &b"\x02\0\0\0\x02\0\0\0\x01\0\x01\0"[..],
            b"\x02\0\0\0\x02\0\0\0\xff\xff\x01",
            b"\x02\0\0\0\0\0\0\0",
            b"\x03\0\0\0\x01\0\0\0\0\0\0",
            b"\0\0\0\0\0\0\0\0",
            b"\x02\0\0",
        ] {
            assert!(intset(wrong, &mut 100).is_err());
        }
    }
}
