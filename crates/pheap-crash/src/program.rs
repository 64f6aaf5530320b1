//! Programs: a few operations on a heap with two roots, and their text.
//!
//! The text of a program is what one types to replay it: `pin: push a; both; kill; set b`.

use std::fmt;
use std::str::FromStr;

/// One of the two roots. The second may be removed, created again and renamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Which {
    /// The first root.
    A,
    /// The second root.
    B,
}

/// A transaction over one root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum One {
    /// Sets a field.
    Set,
    /// Sets two fields in different cache lines.
    Pair,
    /// Sets two bytes of one word, one by one.
    Bytes,
    /// Sets a part of the slice.
    Slice,
    /// Swaps two elements of the slice.
    Swap,
    /// Allocates a node and links it.
    Push,
    /// Unlinks a node.
    Pop,
    /// Sets all elements of the slice, one by one: more objects than the write set takes.
    Many,
    /// Sets an element, then reads the whole slice, which overlaps it: the transaction spills.
    Overlap,
    /// Allocates an object that is too large for a redo record.
    Big,
    /// Allocates an object that needs a new arena.
    Grow,
    /// Writes all over the large object: more than the write set takes, and perhaps more than the log holds.
    Wide,
    /// Fails after short writes.
    Abort,
    /// Fails after long ones.
    AbortLong,
    /// Panics after long writes and allocations.
    Panic,
    /// Seventy short transactions: the log needs a second segment.
    Burst,
    /// Wide short transactions, until the log is full and emptied.
    Fill,
}

/// A transaction over both roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Both {
    /// Sets a field of each.
    Set,
    /// Sets all elements of one slice, and a field of the other.
    Many,
    /// Allocates a node in each, and links it.
    Push,
    /// Fails after writes to both.
    Abort,
}

/// Something that is not a transaction over existing roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// Creates the first root.
    CreateA,
    /// Creates the second root.
    Create,
    /// Removes the second root.
    Remove,
    /// Gives the second root another name, or its old one.
    Rename,
    /// Closes the heap and opens it again.
    Close,
    /// The process is killed: all stores are there when the heap is opened again.
    Kill,
    /// The power fails: only what is durable is there when the heap is opened again.
    Power,
    /// The power fails: a random part of what is not durable is there when the heap is opened again.
    Torn,
}

/// An operation. All of them happen as a whole, or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// A transaction over one root.
    One(One, Which),
    /// A transaction over both roots.
    Both(Both),
    /// Something else.
    Change(Change),
}

const ONE: [(One, &str); 17] = [
    (One::Set, "set"),
    (One::Pair, "pair"),
    (One::Bytes, "bytes"),
    (One::Slice, "slice"),
    (One::Swap, "swap"),
    (One::Push, "push"),
    (One::Pop, "pop"),
    (One::Many, "many"),
    (One::Overlap, "overlap"),
    (One::Big, "big"),
    (One::Grow, "grow"),
    (One::Wide, "wide"),
    (One::Abort, "abort"),
    (One::AbortLong, "abort-long"),
    (One::Panic, "panic"),
    (One::Burst, "burst"),
    (One::Fill, "fill"),
];

const OTHERS: [(Op, &str); 12] = [
    (Op::Both(Both::Set), "both"),
    (Op::Both(Both::Many), "both-many"),
    (Op::Both(Both::Push), "both-push"),
    (Op::Both(Both::Abort), "both-abort"),
    (Op::Change(Change::CreateA), "create a"),
    (Op::Change(Change::Create), "create b"),
    (Op::Change(Change::Remove), "remove b"),
    (Op::Change(Change::Rename), "rename b"),
    (Op::Change(Change::Close), "close"),
    (Op::Change(Change::Kill), "kill"),
    (Op::Change(Change::Power), "power"),
    (Op::Change(Change::Torn), "torn"),
];

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Op::One(one, which) = self {
            let (_, name) = ONE.iter().find(|(other, _)| other == one).expect("each has a name");
            let root = match which {
                Which::A => "a",
                Which::B => "b",
            };
            return write!(f, "{name} {root}");
        }
        let (_, name) = OTHERS.iter().find(|(other, _)| other == self).expect("each has a name");
        f.write_str(name)
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(text: &str) -> Result<Op, String> {
        let text = text.trim();
        if let Some((op, _)) = OTHERS.iter().find(|(_, name)| *name == text) {
            return Ok(*op);
        }
        let one = |name: &str, which| {
            ONE.iter().find(|(_, other)| *other == name).map(|(one, _)| Op::One(*one, which))
        };
        let found = match text.rsplit_once(' ') {
            Some((name, "a")) => one(name.trim(), Which::A),
            Some((name, "b")) => one(name.trim(), Which::B),
            _ => None,
        };
        found.ok_or_else(|| format!("there is no operation {text:?}"))
    }
}

/// What a program starts with, and how its heap is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Setting {
    /// Starts with an empty medium, so that the heap is created, instead of a heap with two roots.
    pub empty: bool,
    /// All transactions take the long path.
    pub pin: bool,
    /// The heap can grow once only.
    pub full: bool,
    /// The second root was created first. It matters to transactions over both, for one log takes their entries.
    pub swapped: bool,
}

impl Setting {
    /// The flags by name.
    fn flags(&mut self) -> [(&'static str, &mut bool); 4] {
        let Setting { empty, pin, full, swapped } = self;
        [("empty", empty), ("pin", pin), ("full", full), ("swapped", swapped)]
    }
}

/// Some operations, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Program {
    /// What it starts with.
    pub setting: Setting,
    /// The operations.
    pub ops: Vec<Op>,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut setting = self.setting;
        let words: Vec<&str> =
            setting.flags().into_iter().filter(|(_, on)| **on).map(|(name, _)| name).collect();
        if !words.is_empty() {
            write!(f, "{}: ", words.join(" "))?;
        }
        for (i, op) in self.ops.iter().enumerate() {
            write!(f, "{}{op}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl FromStr for Program {
    type Err = String;

    fn from_str(text: &str) -> Result<Program, String> {
        let mut setting = Setting::default();
        let mut rest = text;
        if let Some((words, ops)) = text.split_once(':') {
            rest = ops;
            for word in words.split_whitespace() {
                let flag = setting.flags().into_iter().find(|(name, _)| *name == word);
                *flag.ok_or_else(|| format!("there is no setting {word:?}"))?.1 = true;
            }
        }
        let ops = rest.split(';').map(str::trim).filter(|op| !op.is_empty());
        Ok(Program { setting, ops: ops.map(str::parse).collect::<Result<_, _>>()? })
    }
}

/// What must be known of a heap to tell whether an operation does anything.
#[derive(Debug, Clone, Copy)]
struct Shape {
    exists: [bool; 2],
    listed: [usize; 2],
    big: [bool; 2],
}

impl Shape {
    fn start(setting: Setting) -> Shape {
        Shape { exists: [!setting.empty; 2], listed: [0; 2], big: [false; 2] }
    }

    /// What the heap is like after `op`; `None` if that has nothing to work on.
    fn after(mut self, op: Op) -> Option<Shape> {
        match op {
            Op::One(one, which) => {
                let i = which as usize;
                if !self.exists[i] {
                    return None;
                }
                match one {
                    One::Push => self.listed[i] += 1,
                    One::Pop => self.listed[i] = self.listed[i].checked_sub(1)?,
                    One::Big | One::Grow | One::Fill => self.big[i] = true,
                    One::Wide if !self.big[i] => return None,
                    _ => {}
                }
            }
            Op::Both(_) if self.exists != [true; 2] => return None,
            Op::Both(Both::Push) => self.listed = self.listed.map(|n| n + 1),
            Op::Both(_) => {}
            Op::Change(Change::CreateA) if self.exists[0] => return None,
            Op::Change(Change::CreateA) => self.exists[0] = true,
            Op::Change(Change::Create) if self.exists[1] => return None,
            Op::Change(Change::Create) => self.exists[1] = true,
            Op::Change(Change::Remove | Change::Rename) if !self.exists[1] => return None,
            Op::Change(Change::Remove) => {
                (self.exists[1], self.listed[1], self.big[1]) = (false, 0, false);
            }
            Op::Change(_) => {}
        }
        Some(self)
    }
}

impl Program {
    /// Whether each operation has something to work on: no root that does not exist, no list that is empty.
    pub fn is_sensible(&self) -> bool {
        let shape = self.ops.iter().try_fold(Shape::start(self.setting), |shape, &op| shape.after(op));
        shape.is_some()
    }
}

/// The settings that programs are enumerated in.
pub fn settings() -> [Setting; 5] {
    let setting = Setting::default();
    [
        setting,
        Setting { pin: true, ..setting },
        Setting { full: true, ..setting },
        Setting { empty: true, ..setting },
        Setting { swapped: true, ..setting },
    ]
}

/// The operations that programs are enumerated from. Operations that are the same in a setting are left out, and so are most on
/// the second root, which is like the first.
pub fn alphabet(setting: Setting) -> Vec<Op> {
    use Which::{A, B};
    let one = |ops: &[One], which| ops.iter().map(|&op| Op::One(op, which)).collect::<Vec<_>>();
    let others = |names: &[&str]| {
        names.iter().map(|name| name.parse().expect("it is an operation")).collect::<Vec<Op>>()
    };
    let Setting { empty, pin, full, swapped } = setting;
    if swapped {
        let both = others(&["both", "both-many", "both-push", "both-abort", "power"]);
        return [one(&[One::Set, One::Push], A), one(&[One::Set, One::Push], B), both].concat();
    }
    if empty {
        return [others(&["create a", "create b", "both", "close", "kill", "power"]), one(&[One::Push], A)]
            .concat();
    }
    if full {
        return [
            one(&[One::Set, One::Push, One::Big, One::Grow, One::Wide, One::Burst], A),
            one(&[One::Set, One::Grow], B),
            others(&["both-many", "remove b", "create b", "power"]),
        ]
        .concat();
    }
    if pin {
        return [
            one(
                &[
                    One::Pair,
                    One::Bytes,
                    One::Push,
                    One::Pop,
                    One::Big,
                    One::Grow,
                    One::Wide,
                    One::Abort,
                    One::Panic,
                ],
                A,
            ),
            one(&[One::Set, One::Push], B),
            others(&["both", "both-push", "both-abort", "remove b", "create b", "close", "kill", "torn"]),
        ]
        .concat();
    }
    [
        one(&ONE.map(|(one, _)| one), A),
        one(&[One::Set, One::Push, One::Many, One::Big], B),
        others(&[
            "both",
            "both-many",
            "both-push",
            "both-abort",
            "create b",
            "remove b",
            "rename b",
            "close",
            "kill",
            "power",
            "torn",
        ]),
    ]
    .concat()
}

/// All sensible programs of `len` operations in this setting.
pub fn all(setting: Setting, len: usize) -> impl Iterator<Item = Program> {
    let alphabet = alphabet(setting);
    (0..alphabet.len().pow(len as u32)).filter_map(move |number| {
        let mut number = number;
        let mut ops = vec![alphabet[0]; len];
        for op in ops.iter_mut().rev() {
            *op = alphabet[number % alphabet.len()];
            number /= alphabet.len();
        }
        let program = Program { setting, ops };
        program.is_sensible().then_some(program)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_its_text() {
        for setting in settings() {
            for program in all(setting, 2) {
                assert_eq!(program.to_string().parse(), Ok(program));
            }
        }
        assert!("both; nonsense".parse::<Program>().is_err());
        assert!("odd: both".parse::<Program>().is_err());
    }

    #[test]
    fn programs_make_sense() {
        let sensible = |text: &str| text.parse::<Program>().unwrap().is_sensible();
        assert!(sensible("remove b; create b; push b; pop b"));
        assert!(
            !sensible("remove b; set b")
                && !sensible("pop a")
                && !sensible("create b")
                && !sensible("wide a")
        );
        assert!(!sensible("empty: both") && sensible("empty: create b; create a; both"));
    }
}
