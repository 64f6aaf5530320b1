//! `BITFIELD`: integers of any width within a string.

use super::args::{int, value, word};
use super::bits::offset;
use super::buffers::{StringLimit, buffer};
use super::table::{ADD, KEY, READ_FAST};
use super::{Args, Command, Cx, Done, Fail};
use crate::resp::Reply;
use crate::text::words;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("bitfield", -2, ADD, KEY, bitfield),
    Command::new("bitfield_ro", -2, READ_FAST, KEY, |cx, args, out| {
        let subcommands = parse(args, StringLimit::of_client(cx))?;
        Fail::err_when(
            subcommands.iter().any(|subcommand| subcommand.what != BitfieldOp::Get),
            "BITFIELD_RO only supports the GET subcommand",
        )?;
        read_fields(cx, args[1], &subcommands, out)
    }),
];

/// Type of an integer: signed (two's complement) or unsigned, and its width in bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct IntegerType {
    is_signed: bool,
    bits: u32,
}

/// What `BITFIELD` does with a number that does not fit the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overflow {
    /// Only the lowest bits of the number are kept.
    Wrap,
    /// The number becomes the greatest or the least that fits.
    Saturate,
    /// Nothing is stored, and the answer is null.
    Fail,
}

const OVERFLOWS: &[(&str, Overflow)] =
    &[("wrap", Overflow::Wrap), ("sat", Overflow::Saturate), ("fail", Overflow::Fail)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BitfieldOp {
    Get,
    Set(i64),
    Increase(i64),
}

/// A parsed subcommand of `BITFIELD`.
#[derive(Debug, Clone, Copy)]
struct BitfieldSubcommand {
    what: BitfieldOp,
    kind: IntegerType,
    offset: u64,
    overflow: Overflow,
}

impl IntegerType {
    fn parse(text: &[u8]) -> Result<IntegerType, Fail> {
        let (is_signed, bits) = match text {
            [b'i', bits @ ..] => (true, bits),
            [b'u', bits @ ..] => (false, bits),
            _ => (false, &b""[..]),
        };
        let most = if is_signed { 64 } else { 63 };
        let bits = words::int(bits).filter(|bits| (1..=most).contains(bits));
        let bits = bits.ok_or_else(|| {
            Fail::err("Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.")
        })?;
        Ok(IntegerType { is_signed, bits: bits as u32 })
    }

    /// Returns the number of this type whose bits are the lowest ones of `bits`.
    fn number(self, bits: u64) -> i64 {
        let unused = 64 - self.bits;
        if self.is_signed { (bits << unused) as i64 >> unused } else { (bits << unused >> unused) as i64 }
    }

    /// Returns the number of this type that `number` becomes, or `None` if it does not fit and `overflow` is
    /// `Fail`.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i64> {
        let (least, most) = if self.is_signed {
            (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1)
        } else {
            (0, (1 << self.bits) - 1)
        };
        match overflow {
            _ if (least..=most).contains(&number) => Some(number as i64),
            Overflow::Wrap => Some(self.number(number as u64)),
            Overflow::Saturate => Some(number.clamp(least, most) as i64),
            Overflow::Fail => None,
        }
    }
}

impl BitfieldSubcommand {
    /// Returns the range of bytes that contains the number, and the distance in bits of its lowest bit
    /// from the end of that range.
    fn place(self) -> (usize, usize, u32) {
        let end = self.offset + u64::from(self.kind.bits);
        ((self.offset / 8) as usize, end.div_ceil(8) as usize, (end.next_multiple_of(8) - end) as u32)
    }

    /// Reads the subcommand's number from the string `bytes`. Bytes after the end of the string count as
    /// zeros.
    fn get(self, bytes: &[u8]) -> i64 {
        let (from, to, shift) = self.place();
        let window = (from..to)
            .fold(0, |window: u128, at| window << 8 | u128::from(bytes.get(at).copied().unwrap_or_default()));
        self.kind.number((window >> shift) as u64)
    }

    /// Stores a number. `bytes` begins at the byte that contains the number's first bit.
    fn set(self, bytes: &mut [u8], number: i64) {
        let (from, to, shift) = self.place();
        let mask = (u64::MAX >> (64 - self.kind.bits)) as u128;
        let window = bytes[..to - from].iter().fold(0, |window: u128, byte| window << 8 | u128::from(*byte));
        let mut window = window & !(mask << shift) | (number as u128 & mask) << shift;
        for byte in bytes[..to - from].iter_mut().rev() {
            *byte = window as u8;
            window >>= 8;
        }
    }
}

fn parse(args: &Args<'_>, limit: StringLimit) -> Result<Vec<BitfieldSubcommand>, Fail> {
    let (mut subcommands, mut overflow) = (Vec::new(), Overflow::Wrap);
    let mut rest = args[2..].iter();
    while let Some(name) = rest.next() {
        match (name.to_ascii_lowercase().as_slice(), rest.len()) {
            (b"overflow", 1..) => {
                overflow = word(value(&mut rest)?, OVERFLOWS)
                    .ok_or_else(|| Fail::err("Invalid OVERFLOW type specified"))?;
            }
            (name @ b"get", 2..) | (name @ (b"set" | b"incrby"), 3..) => {
                let kind = IntegerType::parse(value(&mut rest)?)?;
                let offset = offset(value(&mut rest)?, Some(kind.bits), limit)?;
                let what = match name {
                    b"get" => BitfieldOp::Get,
                    b"set" => BitfieldOp::Set(int(value(&mut rest)?)?),
                    _ => BitfieldOp::Increase(int(value(&mut rest)?)?),
                };
                subcommands.push(BitfieldSubcommand { what, kind, offset, overflow });
            }
            _ => return Err(Fail::SYNTAX),
        }
    }
    Ok(subcommands)
}

/// Answers with the number at the place of each subcommand.
fn read_fields(cx: &mut Cx<'_>, key: &[u8], subcommands: &[BitfieldSubcommand], out: &mut Reply) -> Done {
    cx.read_string(key, |bytes| {
        out.array(subcommands.len());
        subcommands.iter().for_each(|subcommand| out.int(subcommand.get(bytes.unwrap_or_default())));
        Ok(())
    })
}

fn bitfield(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    let subcommands = parse(args, StringLimit::of_client(cx))?;
    let changing = subcommands.iter().filter(|subcommand| subcommand.what != BitfieldOp::Get);
    let Some(len) = changing.map(|subcommand| subcommand.place().1).max() else {
        return read_fields(cx, key, &subcommands, out);
    };
    let changes = cx.write(key, |tx, db| {
        let buffer = buffer(tx, db, key, now)?;
        let grows = tx[buffer].len() < len;
        if grows {
            buffer.resize(tx, len, 0)?;
        }
        out.array(subcommands.len());
        let mut changes = 0;
        for subcommand in &subcommands {
            let old = subcommand.get(tx[buffer].as_slice(tx, ..));
            // For an unsigned type, a negative argument of `SET` is taken as a large unsigned number.
            let (new, tells_new) = match subcommand.what {
                BitfieldOp::Get => {
                    out.int(old);
                    continue;
                }
                BitfieldOp::Set(number) if subcommand.kind.is_signed => (i128::from(number), false),
                BitfieldOp::Set(number) => (i128::from(number as u64), false),
                BitfieldOp::Increase(by) => (i128::from(old) + i128::from(by), true),
            };
            let Some(new) = subcommand.kind.fit(new, subcommand.overflow) else {
                out.null();
                continue;
            };
            out.int(if tells_new { new } else { old });
            if new != old {
                let (from, to, _) = subcommand.place();
                subcommand.set(buffer.as_mut_slice(tx, from..to), new);
            }
            changes += u64::from(grows || new != old);
        }
        Ok::<_, Fail>(changes)
    })?;
    cx.touched_often(b'$', "setbit", key, changes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_anywhere() {
        for bits in 1..=64 {
            for offset in 0..20 {
                let kind = IntegerType { is_signed: true, bits };
                let subcommand =
                    BitfieldSubcommand { what: BitfieldOp::Get, kind, offset, overflow: Overflow::Wrap };
                let (from, to, _) = subcommand.place();
                for number in [0, -1, i64::MIN, i64::MAX, 0x0123_4567_89ab_cdef] {
                    let number = kind.number(number as u64);
                    for background in [0, 0xff] {
                        let mut bytes = [background; 12];
                        subcommand.set(&mut bytes[from..to], number);
                        assert_eq!(subcommand.get(&bytes), number, "{bits} {offset}");
                        subcommand.set(&mut bytes[from..to], if background == 0 { 0 } else { -1 });
                        assert_eq!(bytes, [background; 12], "{bits} {offset}: only there");
                    }
                }
            }
        }
    }

    #[test]
    fn numbers_that_do_not_fit() {
        let (i8, u8) = (IntegerType { is_signed: true, bits: 8 }, IntegerType { is_signed: false, bits: 8 });
        for (kind, number, wrapped, saturated) in
            [(i8, 128, -128, 127), (i8, -129, 127, -128), (u8, 256, 0, 255), (u8, -1, 255, 0)]
        {
            assert_eq!(kind.fit(number, Overflow::Wrap), Some(wrapped));
            assert_eq!(kind.fit(number, Overflow::Saturate), Some(saturated));
            assert_eq!(kind.fit(number, Overflow::Fail), None);
        }
        let i64 = IntegerType { is_signed: true, bits: 64 };
        assert_eq!(i64.fit(1 << 63, Overflow::Wrap), Some(i64::MIN));
    }
}
