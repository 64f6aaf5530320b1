//! The choice of the pending changes that a crash leaves, as text of an input.

use std::fmt;

use crate::medium::Moment;
use crate::subset::Piece;

/// The pending changes that a crash leaves. The power fails, except with [`Kill`](Keep::Kill). Numbers are
/// taken modulo the number of possible values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// No pending change.
    None,
    /// All changes.
    All,
    /// Only this change.
    Only(usize),
    /// All changes except this one.
    But(usize),
    /// The first changes, this many.
    First(usize),
    /// The changes whose bit is set. The mask is repeated.
    Mask(Mask),
    /// The same, with a bit for all successive changes of a cache line, or of a page of a disk.
    Groups(Mask),
    /// The process is killed at this moment after the last point. Its writes up to then are there, and not
    /// durable. The same as [`First`](Keep::First) if no process can be killed there.
    Kill(usize),
}

/// Bits, written as hexadecimal digits. The lowest bit of the first digit comes first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mask {
    /// The digits, each below 16.
    pub digits: Vec<u8>,
}

impl Mask {
    /// Largest number of digits that are parsed.
    pub const MAX: usize = 64;

    /// Returns bit `i`. It is not set if there are no digits.
    pub fn bit(&self, i: usize) -> bool {
        let digit = (i / 4).checked_rem(self.digits.len()).map_or(0, |at| self.digits[at]);
        digit >> (i % 4) & 1 == 1
    }

    fn parse(text: &str) -> Mask {
        let digits = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8);
        Mask { digits: digits.take(Mask::MAX).collect() }
    }
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.digits.iter().try_for_each(|digit| write!(f, "{digit:x}"))
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Keep::None => f.write_str("none"),
            Keep::All => f.write_str("all"),
            Keep::Only(n) => write!(f, "only {n}"),
            Keep::But(n) => write!(f, "but {n}"),
            Keep::First(n) => write!(f, "first {n}"),
            Keep::Mask(mask) => write!(f, "mask {mask}"),
            Keep::Groups(mask) => write!(f, "groups {mask}"),
            Keep::Kill(n) => write!(f, "kill {n}"),
        }
    }
}

/// A choice for one point.
#[derive(Debug)]
pub(super) struct Kept {
    /// A flag for each pending change.
    pub(super) chosen: Vec<bool>,
    /// Whether the process is killed.
    pub(super) killed: bool,
}

impl Keep {
    /// Parses the two words of the text behind the number of the point. An unknown word is [`Keep::None`]. A
    /// number that cannot be parsed is 0.
    pub fn parse(word: &str, argument: &str) -> Keep {
        let n = argument.parse().unwrap_or(0);
        match word {
            "all" => Keep::All,
            "only" => Keep::Only(n),
            "but" => Keep::But(n),
            "first" => Keep::First(n),
            "mask" => Keep::Mask(Mask::parse(argument)),
            "groups" => Keep::Groups(Mask::parse(argument)),
            "kill" => Keep::Kill(n),
            _ => Keep::None,
        }
    }

    pub(super) fn choose(&self, point: &Moment) -> Kept {
        let len = point.pending();
        let those =
            |keeps: &dyn Fn(usize) -> bool| Kept { chosen: (0..len).map(keeps).collect(), killed: false };
        let one = |n: &usize| n.checked_rem(len);
        match self {
            Keep::None => those(&|_| false),
            Keep::All => those(&|_| true),
            Keep::Only(n) => those(&|i| Some(i) == one(n)),
            Keep::But(n) => those(&|i| Some(i) != one(n)),
            Keep::First(n) => those(&|i| i < n % (len + 1)),
            Keep::Mask(mask) => those(&|i| mask.bit(i)),
            Keep::Groups(mask) => {
                let groups = groups(point);
                those(&|i| mask.bit(groups[i]))
            }
            Keep::Kill(n) => match point.kill(*n) {
                Some(chosen) => Kept { chosen, killed: true },
                None => Keep::First(*n).choose(point),
            },
        }
    }
}

/// Returns the number of the group of each change, counted from 0. Successive changes with the same
/// [`Piece::group`] are a group.
fn groups(point: &Moment) -> Vec<usize> {
    let of: Vec<u64> = match point {
        Moment::Memory(point) => point.pending.iter().map(Piece::group).collect(),
        Moment::Disk(point) => point.pending.iter().map(Piece::group).collect(),
    };
    let mut numbers = Vec::with_capacity(of.len());
    for (i, group) in of.iter().enumerate() {
        let number = match i.checked_sub(1) {
            None => 0,
            Some(before) => numbers[before] + usize::from(of[before] != *group),
        };
        numbers.push(number);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use pheap::sim::Point;

    fn chosen(keep: &str, len: u32) -> String {
        let point = Point {
            durable: vec![],
            pending: (0..len).map(|i| (i * 4, 1)).collect(),
            // The last change was written first.
            order: (0..len).rev().map(|i| i + 5).collect(),
            before: 5,
            words: 1000,
            acknowledged: 0,
            at: "fence",
        };
        let (word, argument) = keep.split_once(' ').unwrap_or((keep, ""));
        let parsed = Keep::parse(word, argument);
        assert_eq!(parsed.to_string(), keep);
        let chosen = parsed.choose(&Moment::Memory(point)).chosen;
        chosen.iter().map(|&chosen| if chosen { '1' } else { '0' }).collect()
    }

    #[test]
    fn an_input_says_what_is_kept() {
        assert_eq!(chosen("none", 3), "000");
        assert_eq!(chosen("all", 3), "111");
        assert_eq!(chosen("only 5", 4), "0100");
        assert_eq!(chosen("but 5", 4), "1011");
        assert_eq!(chosen("first 7", 4), "1100");
        assert_eq!(chosen("first 4", 4), "1111");
        assert_eq!(chosen("kill 0", 4), "0001");
        assert_eq!(chosen("kill 6", 4), "0111");
        assert_eq!(chosen("mask 31", 10), "1100100011");
        assert_eq!(chosen("mask ", 3), "000");
        // Two words in each line.
        assert_eq!(chosen("groups 5", 10), "1100110011");
        for keep in ["all", "only 1", "but 1", "first 1", "mask a", "groups a", "kill 1"] {
            assert_eq!(chosen(keep, 0), "");
        }
    }
}
