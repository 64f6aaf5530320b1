//! Floating-point numbers of the x87 with 64 significant bits, the `long double` of C on x86-64. Redis adds
//! with such numbers, so sums of this type have the same text as in Redis.

/// A finite number with 64 significant bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extended {
    is_negative: bool,
    /// The significant bits as a whole number. The highest bit is set, unless the number is 0.
    mantissa: u64,
    /// The power of 2 by which the mantissa is multiplied.
    exponent: i32,
}

/// The highest bit of a number is worth less than 2 to this power.
const MOST: i64 = 16384;
/// The highest bit of a number is worth at least 2 to this power.
const LEAST: i64 = -16446;

/// Texts of this length or longer are refused.
const LONGEST: usize = 5 * 1024;

impl Extended {
    /// Zero.
    pub const ZERO: Extended = Extended { is_negative: false, mantissa: 0, exponent: 0 };

    /// Parses a number in the syntax of `strtold`, without spaces: decimal, hexadecimal, or `inf`, which
    /// returns `Some(None)`. Returns None if the text is something else (such as `nan`) or too long, or the
    /// number is out of range.
    pub fn parse(text: &[u8]) -> Option<Option<Extended>> {
        if text.len() >= LONGEST {
            return None;
        }
        let (is_negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        if digits.eq_ignore_ascii_case(b"inf") || digits.eq_ignore_ascii_case(b"infinity") {
            return Some(None);
        }
        let magnitude = match digits {
            [b'0', b'x' | b'X', rest @ ..] => hexadecimal(rest)?,
            _ => decimal(digits)?,
        };
        Some(Some(Extended { is_negative, ..magnitude }))
    }

    /// Converts a whole number.
    pub fn of(number: i64) -> Extended {
        let rounded = round(u128::from(number.unsigned_abs()), 0).unwrap_or(Extended::ZERO);
        Extended { is_negative: number < 0, ..rounded }
    }

    /// Returns the sum; None if it is out of range.
    pub fn plus(self, other: Extended) -> Option<Extended> {
        let (large, small) = match (self.mantissa, other.mantissa) {
            (0, _) => return Some(other),
            (_, 0) => return Some(self),
            _ if self.exponent >= other.exponent => (self, other),
            _ => (other, self),
        };
        // Bits of the smaller number that are far behind the last bit of the result matter only by not being
        // all 0.
        let (a, wide) = (u128::from(large.mantissa) << 63, u128::from(small.mantissa) << 63);
        let shift = large.exponent.abs_diff(small.exponent);
        let kept = wide.checked_shr(shift).unwrap_or(0);
        let b = kept | u128::from(kept.checked_shl(shift).unwrap_or(0) != wide);
        let (is_negative, sum) = if large.is_negative == small.is_negative {
            (large.is_negative, a + b)
        } else if a >= b {
            (large.is_negative, a - b)
        } else {
            (small.is_negative, b - a)
        };
        Some(Extended { is_negative, ..round(sum, i64::from(large.exponent) - 63)? })
    }

    /// Returns the text that Redis shows to people: up to 17 decimal places, without trailing zeros.
    pub fn show(self) -> String {
        let (whole, fraction) = match u32::try_from(-self.exponent) {
            Err(_) => (Big::of(u128::from(self.mantissa)).shifted(self.exponent as usize).to_string(), 0),
            Ok(shift) => {
                let scale = 10u128.pow(17);
                let wide = u128::from(self.mantissa) * scale;
                let (kept, rest) = match shift {
                    0 => (wide, 0),
                    1..128 => (wide >> shift, wide << (128 - shift)),
                    _ => (0, 0), // less than half of the last digit
                };
                // Round to nearest, ties to even.
                let half = 1 << 127;
                let kept = kept + u128::from(rest > half || rest == half && kept % 2 == 1);
                ((kept / scale).to_string(), kept % scale)
            }
        };
        let mut text = whole;
        if fraction > 0 {
            text = format!("{text}.{fraction:017}");
            text.truncate(text.trim_end_matches('0').len());
        }
        if self.is_negative && text != "0" {
            text.insert(0, '-');
        }
        text
    }
}

/// Rounds `number` times 2 to the power of `exponent` to 64 significant bits. Returns None if the result is
/// out of range.
fn round(number: u128, exponent: i64) -> Option<Extended> {
    if number == 0 {
        return Some(Extended::ZERO);
    }
    let excess = 64 - i64::from(number.leading_zeros());
    let mut exponent = exponent + excess;
    let mut mantissa = if excess <= 0 { (number << -excess) as u64 } else { (number >> excess) as u64 };
    if excess > 0 {
        let (rest, half) = (number & ((1 << excess) - 1), 1 << (excess - 1));
        if rest > half || rest == half && mantissa % 2 == 1 {
            mantissa = mantissa.checked_add(1).unwrap_or_else(|| {
                exponent += 1;
                1 << 63
            });
        }
    }
    let is_in_range = (LEAST..MOST).contains(&(exponent + 63));
    is_in_range.then_some(Extended { is_negative: false, mantissa, exponent: exponent as i32 })
}

/// Parses digits with an optional point. Returns the digits without leading zeros, how many digits are behind
/// the point, and the rest of the text. Returns None if there is no digit.
fn digits(text: &[u8], radix: u32) -> Option<(Vec<u32>, i64, &[u8])> {
    let (mut digits, mut behind, mut is_behind, mut any) = (Vec::new(), 0, false, false);
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        match char::from(*byte).to_digit(radix) {
            Some(digit) => {
                any = true;
                if digit > 0 || !digits.is_empty() {
                    digits.push(digit);
                }
                behind += i64::from(is_behind);
            }
            None if *byte == b'.' && !is_behind => is_behind = true,
            None => break,
        }
        rest = after;
    }
    any.then_some((digits, behind, rest))
}

/// Parses an exponent behind this letter (`e` or `p`). Returns 0 if the text is empty. Limits large
/// exponents. Returns None if the text is something else.
fn exponent(text: &[u8], letter: u8) -> Option<i64> {
    match text {
        [] => Some(0),
        [first, rest @ ..] if first.eq_ignore_ascii_case(&letter) => {
            let (is_negative, digits) = match rest {
                [b'-', digits @ ..] => (true, digits),
                [b'+', digits @ ..] => (false, digits),
                _ => (false, rest),
            };
            if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                return None;
            }
            let add = |sum: i64, digit: &u8| (sum * 10 + i64::from(digit - b'0')).min(1 << 40);
            let exponent = digits.iter().fold(0, add);
            Some(if is_negative { -exponent } else { exponent })
        }
        _ => None,
    }
}

fn decimal(text: &[u8]) -> Option<Extended> {
    let (digits, behind, rest) = digits(text, 10)?;
    let exponent = exponent(rest, b'e')? - behind;
    if digits.is_empty() {
        return Some(Extended::ZERO);
    }
    // The number is far out of range.
    if !(-5000..5000).contains(&(digits.len() as i64 + exponent)) {
        return None;
    }
    let mut big = Big::default();
    digits.iter().for_each(|&digit| big.multiply(10, digit));
    if exponent >= 0 {
        (0..exponent).for_each(|_| big.multiply(10, 0));
        return big.rounded(0);
    }
    // The number is shifted by so many bits that more than 64 significant bits remain after the divisions.
    let bits = (-exponent * 10 / 3 + 100) as usize;
    let (mut big, mut is_exact) = (big.shifted(bits), true);
    (0..-exponent).for_each(|_| is_exact &= big.divide(10) == 0);
    if !is_exact {
        big = big.shifted(1);
        big.multiply(1, 1);
        return big.rounded(-(bits as i64) - 1);
    }
    big.rounded(-(bits as i64))
}

fn hexadecimal(text: &[u8]) -> Option<Extended> {
    let (digits, behind, rest) = digits(text, 16)?;
    let exponent = exponent(rest, b'p')?;
    let mut big = Big::default();
    digits.iter().for_each(|&digit| big.multiply(16, digit));
    big.rounded(exponent - 4 * behind)
}

/// A whole number of any size: digits to the base 2³², the lowest first.
#[derive(Default)]
struct Big(Vec<u32>);

impl Big {
    fn of(number: u128) -> Big {
        Big((0..4).map(|i| (number >> (32 * i)) as u32).collect())
    }

    /// Multiplies the number by `factor`, and adds `more`.
    fn multiply(&mut self, factor: u32, more: u32) {
        let mut carry = u64::from(more);
        for digit in &mut self.0 {
            carry += u64::from(*digit) * u64::from(factor);
            *digit = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    /// Divides the number by `divisor`. Returns the remainder.
    fn divide(&mut self, divisor: u32) -> u32 {
        let mut rest = 0;
        for digit in self.0.iter_mut().rev() {
            let dividend = rest << 32 | u64::from(*digit);
            *digit = (dividend / u64::from(divisor)) as u32;
            rest = dividend % u64::from(divisor);
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        rest as u32
    }

    /// Returns the number times 2 to the power of `bits`.
    fn shifted(&self, bits: usize) -> Big {
        let mut shifted = Big([vec![0; bits / 32], self.0.clone()].concat());
        shifted.multiply(1 << (bits % 32), 0);
        shifted
    }

    /// Rounds the number times 2 to the power of `exponent` to 64 significant bits. Returns None if the
    /// result is out of range.
    fn rounded(&self, exponent: i64) -> Option<Extended> {
        let highest = self.0.iter().rposition(|&digit| digit > 0).map_or(0, |at| at + 1);
        let lowest = highest.saturating_sub(4);
        let top = self.0[lowest..highest].iter().rev().fold(0, |top, &digit| top << 32 | u128::from(digit));
        // If there are lower digits, `top` has at least 97 bits. The lower digits then matter only if the
        // bits behind the mantissa are exactly one half.
        let below = self.0[..lowest].iter().any(|&digit| digit > 0);
        round(top | u128::from(below), exponent + 32 * lowest as i64)
    }
}

impl std::fmt::Display for Big {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (mut rest, mut parts) = (Big(self.0.clone()), Vec::new());
        while rest.0.iter().any(|&digit| digit > 0) {
            parts.push(rest.divide(1_000_000_000));
        }
        write!(f, "{}", parts.pop().unwrap_or(0))?;
        parts.iter().rev().try_for_each(|part| write!(f, "{part:09}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Extended {
        Extended::parse(text.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn sums_have_the_texts_of_redis() {
        for (a, b, sum) in [
            ("1", "1.1", "2.1"),
            ("3.0", "1.000000000000000005", "4.00000000000000001"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("1", "-1.1", "-0.1"),
            ("17179869184", "1.5", "17179869185.5"),
            ("0", "1e-18", "0"),
            ("0", "-1e-18", "0"),
            ("0x10", "0x.8p1", "17"),
            ("1e30", "1", "1000000000000000000024696061952"),
            ("3", "-3", "0"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("18446744073709551615", ".5", "18446744073709551616"),
            ("18446744073709551614", ".5", "18446744073709551614"),
            (".1", ".2", "0.3"),
        ] {
            assert_eq!(read(a).plus(read(b)).unwrap().show(), sum, "{a} + {b}");
        }
        assert_eq!(read("1e4932").plus(read("1e4932")), None);
        assert_eq!(read("1e4000").show().len(), 4000);
        assert_eq!(Extended::of(i64::MIN), read("-9223372036854775808"));
        assert_eq!(Extended::of(0).show(), "0");
    }

    #[test]
    fn what_is_no_number() {
        for text in ["", " 1", "1 ", "1e", "e1", ".", "1.2.3", "nan", "0x", "1e5000", "1e-5000", "-", "1e+"] {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(Extended::parse(b"-inf"), Some(None));
        assert_eq!(read("0e99999999999999999999"), Extended::ZERO);
        assert!(Extended::parse(b"1e-4940").is_some());
    }
}
