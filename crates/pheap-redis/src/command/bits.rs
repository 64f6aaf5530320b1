//! Bits of strings: `GETBIT`, `SETBIT`, `BITCOUNT`, `BITPOS`, `BITOP`.

use super::args::{byte_range, int, one_of};
use super::buffers::{StringLimit, buffer};
use super::table::{ADD, KEY, READ, READ_FAST};
use super::{Args, Command, Cx, Done, Fail, Keys, yes_or_no};
use crate::data::Owned;
use crate::resp::Reply;
use crate::text::words;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("bitcount", -2, READ, KEY, bitcount),
    Command::new("bitop", -4, ADD, Keys::Range(2, -1, 1), bitop).accesses("OW update", "RO access"),
    Command::new("bitpos", -3, READ, KEY, bitpos),
    Command::new("getbit", 3, READ_FAST, KEY, getbit),
    Command::new("setbit", 4, ADD, KEY, setbit),
];

/// Parses the position of a bit. Bit 0 is the highest bit of the first byte. If `bits` is given, `#n` means
/// the position of field number `n` from 0 on, where each field has that many bits.
pub(super) fn offset(text: &[u8], bits: Option<u32>, limit: StringLimit) -> Result<u64, Fail> {
    let (number, unit) = match (text, bits) {
        ([b'#', number @ ..], Some(bits)) => (number, i64::from(bits)),
        _ => (text, 1),
    };
    let offset = words::int(number).and_then(|number| number.checked_mul(unit));
    let offset = offset.and_then(|offset| u64::try_from(offset).ok());
    let is_possible = |offset: &u64| limit.check((offset / 8) as usize, 1).is_ok();
    offset.filter(is_possible).ok_or_else(|| Fail::err("bit offset is not an integer or out of range"))
}

/// Returns whether a bit is set. Bits after the last byte count as not set.
fn is_set(bytes: &[u8], offset: u64) -> bool {
    bytes.get((offset / 8) as usize).is_some_and(|byte| byte << (offset % 8) & 0x80 != 0)
}

fn getbit(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let offset = offset(args[2], None, StringLimit::of_client(cx))?;
    let bit = cx.read_string(args[1], |bytes| Ok(bytes.is_some_and(|bytes| is_set(bytes, offset))));
    bit.map(|bit| out.int(i64::from(bit)))
}

fn setbit(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    let offset = offset(args[2], None, StringLimit::of_client(cx))?;
    let bit = words::int(args[3]).filter(|bit| matches!(bit, 0 | 1));
    let bit = bit.ok_or_else(|| Fail::err("bit is not an integer or out of range"))? == 1;
    let at = (offset / 8) as usize;
    let (old, is_changed) = cx.write(key, |tx, db| {
        let (len, old) = match tx[db].get(tx, key, now) {
            None => (0, false),
            Some(value) => {
                let look = |bytes: &[u8]| (bytes.len(), is_set(bytes, offset));
                value.with_bytes(tx, look).ok_or(Fail::WRONG_TYPE)?
            }
        };
        if at < len && old == bit {
            return Ok::<_, Fail>((old, false));
        }
        let buffer = buffer(tx, db, key, now)?;
        if at >= len {
            buffer.resize(tx, at + 1, 0)?;
        }
        let mask = 0x80 >> (offset % 8);
        if let Some(byte) = buffer.get_mut(tx, at) {
            *byte = if bit { *byte | mask } else { *byte & !mask };
        }
        Ok((old, true))
    })?;
    if is_changed {
        cx.touched(b'$', "setbit", key);
    }
    yes_or_no(out, old)
}

/// Parses the unit of a range. Returns whether it is `BIT`.
fn is_of_bits(unit: &[u8]) -> Result<bool, Fail> {
    one_of(unit, &[("bit", true), ("byte", false)])
}

/// Returns the first and the last bit of a range of bits or bytes, in which negative numbers count from the
/// end, or `None` if the range is empty.
fn bits_of(start: i64, end: i64, is_of_bits: bool, bytes: usize) -> Option<(u64, u64)> {
    let (unit, len) = if is_of_bits { (1, 8 * bytes) } else { (8, bytes) };
    let places = byte_range(start, end, len);
    (!places.is_empty()).then(|| (unit * places.start as u64, unit * places.end as u64 - 1))
}

/// Returns the number of bits that are set from `first` to `last`, inclusive.
fn count(bytes: &[u8], first: u64, last: u64) -> u64 {
    let (from, to) = ((first / 8) as usize, (last / 8) as usize);
    let words = bytes[from..=to].chunks_exact(8);
    let rest: u32 = words.remainder().iter().map(|byte| byte.count_ones()).sum();
    let all: u64 = words.map(|word| u64::from(ones(word))).sum::<u64>() + u64::from(rest);
    let before = bytes[from] & !(0xff >> (first % 8));
    let behind = bytes[to] & (0x7f >> (last % 8));
    all - u64::from(before.count_ones()) - u64::from(behind.count_ones())
}

fn ones(word: &[u8]) -> u32 {
    word.try_into().map_or(0, |word| u64::from_ne_bytes(word).count_ones())
}

fn bitcount(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let ones = cx.read_string(args[1], |bytes| {
        let Some(bytes) = bytes else { return Ok(0) };
        let bits = match args[2..] {
            [] => bits_of(0, -1, false, bytes.len()),
            [start, end, ref unit @ ..] if unit.len() < 2 => {
                let (start, end) = (int(start)?, int(end)?);
                if start < 0 && end < 0 && start > end {
                    return Ok(0);
                }
                let is_of_bits = unit.first().map_or(Ok(false), |unit| is_of_bits(unit))?;
                bits_of(start, end, is_of_bits, bytes.len())
            }
            _ => return Err(Fail::SYNTAX),
        };
        Ok(bits.map_or(0, |(first, last)| count(bytes, first, last)))
    });
    ones.map(|ones| out.int(ones as i64))
}

/// Returns the position of the first bit from `first` to `last`, inclusive, that equals `bit`.
fn find(bytes: &[u8], bit: bool, first: u64, last: u64) -> Option<u64> {
    let flip = if bit { 0 } else { 0xff };
    let (from, to) = ((first / 8) as usize, (last / 8) as usize);
    let place = |at: usize, byte: u8| Some(8 * at as u64 + u64::from(byte.leading_zeros()));
    let in_first = (bytes[from] ^ flip) & (0xff >> (first % 8));
    let found = if in_first != 0 {
        place(from, in_first)
    } else {
        let rest = &bytes[from + 1..=to];
        // Skips eight bytes at a time while none of their bits equals `bit`.
        let skipped = 8 * rest.chunks_exact(8).take_while(|word| **word == [flip; 8]).count();
        let at = rest[skipped..].iter().position(|&byte| byte != flip);
        at.and_then(|at| place(from + 1 + skipped + at, rest[skipped + at] ^ flip))
    };
    found.filter(|&at| at <= last)
}

fn bitpos(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let bit = match int(args[2])? {
        0 => false,
        1 => true,
        _ => return Err(Fail::err("The bit argument must be 1 or 0.")),
    };
    let place = cx.read_string(args[1], |bytes| {
        let Some(bytes) = bytes else { return Ok(if bit { -1 } else { 0 }) };
        let (start, end, is_of_bits) = match args[3..] {
            [] => (0, None, false),
            [start] => (int(start)?, None, false),
            [start, end] => (int(start)?, Some(int(end)?), false),
            [start, end, unit] => {
                let (start, is_of_bits) = (int(start)?, is_of_bits(unit)?);
                (start, Some(int(end)?), is_of_bits)
            }
            _ => return Err(Fail::SYNTAX),
        };
        let Some((first, last)) = bits_of(start, end.unwrap_or(-1), is_of_bits, bytes.len()) else {
            return Ok(-1);
        };
        Ok(match find(bytes, bit, first, last) {
            Some(place) => place as i64,
            // If the command gives no end, the string counts as followed by zeros.
            None if !bit && end.is_none() => 8 * bytes.len() as i64,
            None => -1,
        })
    });
    place.map(|place| out.int(place))
}

/// Operation of `BITOP`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BitOp {
    And,
    Or,
    Xor,
    Not,
}

/// Combines `all` with `more`, as if zeros followed the shorter one.
fn combine(op: BitOp, all: &mut Vec<u8>, more: &[u8]) {
    if all.len() < more.len() {
        all.resize(more.len(), 0);
    }
    let pairs = all.iter_mut().zip(more);
    match op {
        BitOp::And => pairs.for_each(|(byte, other)| *byte &= other),
        BitOp::Or => pairs.for_each(|(byte, other)| *byte |= other),
        BitOp::Xor => pairs.for_each(|(byte, other)| *byte ^= other),
        BitOp::Not => {}
    }
    if op == BitOp::And {
        all[more.len()..].fill(0);
    }
}

fn bitop(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let keys = &args[3..];
    let op = match args[1].to_ascii_lowercase().as_slice() {
        b"and" => BitOp::And,
        b"or" => BitOp::Or,
        b"xor" => BitOp::Xor,
        b"not" if keys.len() == 1 => BitOp::Not,
        b"not" => return Err(Fail::err("BITOP NOT must be called with a single source key.")),
        _ => return Err(Fail::SYNTAX),
    };
    let mut result = Vec::new();
    for (i, key) in keys.iter().enumerate() {
        cx.read_string(key, |bytes| {
            let bytes = bytes.unwrap_or_default();
            if i == 0 {
                result.extend_from_slice(bytes)
            } else {
                combine(op, &mut result, bytes)
            }
            Ok(())
        })?;
    }
    if op == BitOp::Not {
        result.iter_mut().for_each(|byte| *byte = !*byte);
    }
    out.count(result.len());
    cx.replace_value(args[2], b'$', "set", &Owned::String(result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_and_found_as_if_one_by_one() {
        let texts: [&[u8]; 6] = [
            &[0; 30],
            &[0xff; 30],
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0xff, 1],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xef, 0],
            b"hello, world",
            b"x",
        ];
        for bytes in texts {
            let len = 8 * bytes.len() as u64;
            for (first, last) in (0..len).flat_map(|first| (first..len).map(move |last| (first, last))) {
                let ones = (first..=last).filter(|&at| is_set(bytes, at)).count();
                assert_eq!(count(bytes, first, last), ones as u64, "{bytes:?} {first} {last}");
                for bit in [false, true] {
                    let place = (first..=last).find(|&at| is_set(bytes, at) == bit);
                    assert_eq!(find(bytes, bit, first, last), place, "{bytes:?} {bit} {first} {last}");
                }
            }
        }
    }

    #[test]
    fn what_is_missing_are_zeros() {
        let all = |op, a: &[u8], b: &[u8]| {
            let mut all = a.to_vec();
            combine(op, &mut all, b);
            all
        };
        assert_eq!(all(BitOp::And, b"\xff\xff", b"\x0f"), b"\x0f\0");
        assert_eq!(all(BitOp::And, b"\x0f", b"\xff\xff"), b"\x0f\0");
        assert_eq!(all(BitOp::Or, b"\xf0", b"\x0f\x01"), b"\xff\x01");
        assert_eq!(all(BitOp::Xor, b"\xff\xff", b"\x0f"), b"\xf0\xff");
    }
}
