//! Numbers with 64 significant bits: C's `long double` on x86, in which Redis adds fractions, so that 0.1 and 0.2 are 0.3.

use crate::words;

/// A finite number: so many times a power of two. The highest bit of `bits` is set, unless it is 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extended {
    is_negative: bool,
    bits: u64,
    exponent: i32,
}

/// The greatest numbers are less than two to this power.
const GREATEST: i32 = 16384;
/// Powers of ten beyond this one are too large, or too small.
const MOST_TENS: i64 = 4940;

impl Extended {
    /// Nothing.
    pub const ZERO: Extended = Extended { is_negative: false, bits: 0, exponent: 0 };

    /// The number that a text means, if it is a finite one.
    pub fn parse(text: &[u8]) -> Option<Extended> {
        let as_float = words::float(text)?;
        let text = std::str::from_utf8(text).ok()?;
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        let is_negative = text.starts_with('-');
        if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
            return None; // infinity
        }
        if digits.get(..2).is_some_and(|prefix| prefix.eq_ignore_ascii_case("0x")) {
            return Some(Extended {
                is_negative,
                ..Extended::of(Big::from(as_float.abs() as u128), 0, false)?
            });
        }
        let (digits, tens) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let mut number = Big::from(0);
        for digit in whole.bytes().chain(fraction.bytes()) {
            number.multiply(10);
            number.add(u32::from(digit - b'0'));
        }
        if number.len() == 0 {
            return Some(Extended { is_negative, ..Extended::ZERO });
        }
        let tens = tens.parse::<i64>().ok()?.checked_sub(fraction.len() as i64)?;
        if tens.abs() > MOST_TENS + digits.len() as i64 {
            return None;
        }
        if tens >= 0 {
            (0..tens).for_each(|_| number.multiply(10));
            return Extended::of(number, 0, false).map(|number| Extended { is_negative, ..number });
        }
        // So many bits that 64 are left, and more.
        let more = (4 * -tens + 66) as usize;
        number.shift_left(more);
        let mut is_inexact = false;
        (0..-tens).for_each(|_| is_inexact |= number.divide(10) != 0);
        let number = Extended::of(number, -(more as i32), is_inexact)?;
        (number.bits != 0).then_some(Extended { is_negative, ..number })
    }

    /// The nearest number; the even one, if there are two. There is something more than `number`, but less than its last bit, if it `is_inexact`.
    fn of(number: Big, exponent: i32, is_inexact: bool) -> Option<Extended> {
        let len = number.len();
        if len == 0 {
            return Some(Extended::ZERO);
        }
        let (bits, exponent) = if len <= 64 {
            (number.bits_from(0) << (64 - len), exponent - (64 - len) as i32)
        } else {
            let dropped = len - 64;
            let (bits, exponent) = (number.bits_from(dropped), exponent + dropped as i32);
            let is_half = number.bit(dropped - 1);
            let is_more = is_inexact || number.has_bits_below(dropped - 1);
            match bits.checked_add(u64::from(is_half && (is_more || bits & 1 == 1))) {
                Some(bits) => (bits, exponent),
                None => (1 << 63, exponent + 1),
            }
        };
        (exponent + 64 <= GREATEST).then_some(Extended { is_negative: false, bits, exponent })
    }

    /// The sum, if it is finite.
    pub fn plus(self, other: Extended) -> Option<Extended> {
        let (more, less) = if (self.bits == 0, -self.exponent, !self.bits)
            <= (other.bits == 0, -other.exponent, !other.bits)
        {
            (self, other)
        } else {
            (other, self)
        };
        if less.bits == 0 {
            return Some(more);
        }
        // 62 bits more than are kept. What is lost of the lesser one is less than the last of them.
        let apart = (more.exponent - less.exponent) as u32;
        let (great, small) = (u128::from(more.bits) << 62, u128::from(less.bits) << 62);
        let shifted = small.checked_shr(apart).unwrap_or(0);
        let is_inexact = shifted.checked_shl(apart).unwrap_or(0) != small;
        let sum = if more.is_negative == less.is_negative {
            great + shifted
        } else {
            great - shifted - u128::from(is_inexact)
        };
        let sum = Extended::of(Big::from(sum), more.exponent - 62, is_inexact)?;
        Some(Extended { is_negative: more.is_negative && sum.bits != 0, ..sum })
    }

    /// As C's `%.17Lf` shows it, without zeros at the end.
    pub fn show(self) -> String {
        let mut number = Big::from(u128::from(self.bits));
        (0..17).for_each(|_| number.multiply(10));
        if self.exponent >= 0 {
            number.shift_left(self.exponent as usize);
        } else {
            number.shift_right_rounded(self.exponent.unsigned_abs() as usize);
        }
        let mut digits = Vec::new();
        while number.len() > 0 || digits.len() < 18 {
            digits.push(b'0' + number.divide(10) as u8);
        }
        let digits: String = digits.iter().rev().map(|&digit| char::from(digit)).collect();
        let (whole, fraction) = digits.split_at(digits.len() - 17);
        let fraction = fraction.trim_end_matches('0');
        let is_zero = whole == "0" && fraction.is_empty();
        let sign = if self.is_negative && !is_zero { "-" } else { "" };
        let point = if fraction.is_empty() { "" } else { "." };
        format!("{sign}{whole}{point}{fraction}")
    }
}

/// A whole number of any size, in words of 32 bits, the lowest first.
struct Big(Vec<u32>);

impl Big {
    fn from(number: u128) -> Big {
        Big((0..4).map(|word| (number >> (32 * word)) as u32).collect())
    }

    /// Number of bits up to the highest that is set.
    fn len(&self) -> usize {
        let highest = self.0.iter().rposition(|&word| word != 0);
        highest.map_or(0, |at| 32 * at + (32 - self.0[at].leading_zeros() as usize))
    }

    fn word(&self, at: usize) -> u32 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn bit(&self, at: usize) -> bool {
        self.word(at / 32) >> (at % 32) & 1 == 1
    }

    fn has_bits_below(&self, at: usize) -> bool {
        self.0.iter().take(at / 32).any(|&word| word != 0)
            || self.word(at / 32) & ((1u32 << (at % 32)) - 1) != 0
    }

    /// 64 bits, from this one on.
    fn bits_from(&self, at: usize) -> u64 {
        let words = (0..3).map(|i| u128::from(self.word(at / 32 + i)) << (32 * i)).sum::<u128>();
        (words >> (at % 32)) as u64
    }

    fn multiply(&mut self, by: u32) {
        let mut carry = 0;
        for word in &mut self.0 {
            let product = u64::from(*word) * u64::from(by) + carry;
            (*word, carry) = (product as u32, product >> 32);
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn add(&mut self, number: u32) {
        let mut carry = number;
        for word in &mut self.0 {
            let (sum, is_more) = word.overflowing_add(carry);
            (*word, carry) = (sum, u32::from(is_more));
        }
        if carry > 0 {
            self.0.push(carry);
        }
    }

    /// Divides, and returns the remainder.
    fn divide(&mut self, by: u32) -> u32 {
        let mut rest = 0;
        for word in self.0.iter_mut().rev() {
            let number = rest << 32 | u64::from(*word);
            (*word, rest) = ((number / u64::from(by)) as u32, number % u64::from(by));
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        rest as u32
    }

    fn shift_left(&mut self, by: usize) {
        (0..by % 32).for_each(|_| self.multiply(2));
        self.0.splice(0..0, std::iter::repeat_n(0, by / 32));
    }

    /// Shifts to the right, to the nearest number; to the even one, if there are two.
    fn shift_right_rounded(&mut self, by: usize) {
        let is_half = self.bit(by - 1);
        let is_more = self.has_bits_below(by - 1);
        self.0.drain(..(by / 32).min(self.0.len()));
        self.divide_by_power(by % 32);
        if is_half && (is_more || self.bit(0)) {
            self.add(1);
        }
    }

    fn divide_by_power(&mut self, bits: usize) {
        if bits > 0 {
            self.divide(1 << bits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(one: &str, two: &str) -> Option<String> {
        let (one, two) = (Extended::parse(one.as_bytes())?, Extended::parse(two.as_bytes())?);
        Some(one.plus(two)?.show())
    }

    /// What Redis 7.0.15 answers on x86.
    #[test]
    fn sums_are_those_of_redis() {
        for (one, two, expected) in [
            ("0.1", "0.2", "0.3"),
            ("1.23", "1.1", "2.33"),
            ("5.0e3", "2.0e2", "5200"),
            ("17179869184", "1.5", "17179869185.5"),
            ("1234567.1", "0", "1234567.10000000000002274"),
            ("3", "-3", "0"),
            ("-0.1", "0.3", "0.2"),
            ("-1", "0.25", "-0.75"),
            ("1e-18", "0", "0"),
            ("-1e-18", "0", "0"),
            ("1e30", "1", "1000000000000000000024696061952"),
            ("99999999999999999999", "0.5", "100000000000000000000"),
            ("0x10", "-.5", "15.5"),
            ("18446744073709551615", "1", "18446744073709551616"),
        ] {
            assert_eq!(sum(one, two).as_deref(), Some(expected), "{one} + {two}");
        }
        for text in ["", "x", "inf", "-inf", "nan", "1e5000", "1e-5000", "1 "] {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text}");
        }
        let greatest = Extended::parse(b"1.1e4932").unwrap();
        assert_eq!(greatest.plus(greatest), None);
    }
}
