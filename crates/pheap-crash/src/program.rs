//! Programs: a few operations on a heap with two roots, and their text.
//!
//! The text of a program is what one types to replay it: `pin: push a; both; kill; set b`, or, with a call of the disk that fails,
//! `wal fail-log-sync-2: push a; set b`.

pub mod alphabet;
mod shape;
mod shelved;

use std::fmt;
use std::str::FromStr;

use pheap::sim::disk::{Call, Which as File};

use crate::fault::Failing;
use crate::named::named;

pub(crate) use shape::Shape;
pub use shelved::{Shelved, THIN, filled_map, filled_tree};

named! {
    /// One of the two roots. The second may be removed, created again and renamed.
    pub enum Which {
        /// The first root.
        A = "a",
        /// The second root.
        B = "b",
    }
}

named! {
    /// A transaction over one root.
    pub enum One {
        /// Sets a field.
        Set = "set",
        /// Sets two fields in different cache lines.
        Pair = "pair",
        /// Sets two bytes of one word, one by one.
        Bytes = "bytes",
        /// Sets a part of the slice.
        Slice = "slice",
        /// Swaps two elements of the slice.
        Swap = "swap",
        /// Allocates a node and links it.
        Push = "push",
        /// Unlinks a node.
        Pop = "pop",
        /// Sets all elements of the slice, one by one: more objects than the write set takes.
        Many = "many",
        /// Writes two ranges, neither of which is within the other: the transaction spills.
        Overlap = "overlap",
        /// Writes an element, and reads the slice.
        Widen = "widen",
        /// Writes elements again and again, until the transaction goes on without copies.
        Weary = "weary",
        /// Allocates an object that is too large for a redo record.
        Big = "big",
        /// Allocates an object that needs a new arena.
        Grow = "grow",
        /// Writes all over the large object: more than the write set takes, and perhaps more than the log holds.
        Wide = "wide",
        /// Unlinks a node and frees it at commit.
        PopFree = "pop-free",
        /// Unlinks a node, and overwrites its pointer to the next one.
        Cut = "cut",
        /// Unlinks a node, but holds a pointer to it, which is read after each operation from then on.
        Hold = "hold",
        /// Lets go of the held pointer.
        LetGo = "let-go",
        /// Links the node that is held: the list is that and one more.
        Relink = "relink",
        /// Allocates some nodes at once.
        Stuff = "stuff",
        /// Unlinks a node, allocates an object that needs a new arena, and links the node again.
        Carry = "carry",
        /// Allocates another slice instead of the one there is.
        Replace = "replace",
        /// And frees the old one at commit.
        ReplaceFree = "replace-free",
        /// Unlinks the large object.
        Unlink = "unlink-big",
        /// And frees it at commit.
        FreeBig = "free-big",
        /// Pushes and pops, so often that a collection comes to an end.
        Churn = "churn",
        /// Fails after what it has freed and allocated.
        AbortFree = "abort-free",
        /// Allocates objects that are never linked: as many as a span has.
        Waste = "waste",
        /// Allocates, and fails when it has asked for more than there is, so that a collection that was running has ended.
        TooMuch = "too-much",
        /// Takes the list off, asks for more than there is, does without, and links the list again, behind a new node.
        Without = "without",
        /// And sets all elements of the slice before.
        WithoutLong = "without-long",
        /// Changes something, and more in nested parts: one of them fails.
        Nest = "nest",
        /// The same, and the part that fails outgrows the copies.
        NestLong = "nest-long",
        /// Fails after short writes.
        Abort = "abort",
        /// Fails after long ones.
        AbortLong = "abort-long",
        /// Panics after long writes and allocations.
        Panic = "panic",
        /// Seventy short transactions: the log needs a second segment.
        Burst = "burst",
        /// Wide short transactions, until the log is full and emptied.
        Fill = "fill",
    } or
    /// Something about its collections.
    Shelved
}

named! {
    /// A transaction over both roots, or all three.
    pub enum Both {
        /// Sets a field of each.
        Set = "both",
        /// Sets all elements of one slice, and a field of the other.
        Many = "both-many",
        /// Allocates a node in each, and links it.
        Push = "both-push",
        /// Allocates an object in the first that is too large for a redo record, and only reads the second.
        Big = "both-big",
        /// Allocates a node in each, asks both for more than there is, and links the nodes.
        Without = "both-without",
        /// Replaces both slices.
        Replace = "both-replace",
        /// Fails after writes to both.
        Abort = "both-abort",
        /// Inserts keys into both hash maps.
        Map = "both-map",
        /// Sets a field of each, and of a third root, which is made if there is none.
        Three = "three",
        /// Reads the first, sets a field of the second and of the third.
        Last = "last",
    }
}

named! {
    /// Something that is not a transaction over existing roots.
    pub enum Change {
        /// Creates the first root.
        CreateA = "create a",
        /// Creates the second root.
        Create = "create b",
        /// Removes the second root.
        Remove = "remove b",
        /// Gives the second root another name, or its old one.
        Rename = "rename b",
        /// Closes the heap and opens it again.
        Close = "close",
        /// The process is killed: all stores are there when the heap is opened again.
        Kill = "kill",
        /// The power fails: only what is durable is there when the heap is opened again.
        Power = "power",
        /// The power fails: a random part of what is not durable is there when the heap is opened again.
        Torn = "torn",
        /// The process is killed, and the heap is opened at another address.
        Relocate = "relocate",
        /// Closes the heap and opens it at another address.
        Move = "move",
        /// Gives the first root another layout, or its first one, and sets a field.
        Migrate = "migrate a",
        /// Collects all roots.
        Collect = "collect",
        /// Waits until it is known what is live.
        Ready = "ready",
        /// Sets a field of the first root without waiting for that, reads it likewise, and waits then.
        Defer = "defer a",
        /// Makes what was committed durable, if it is not.
        Sync = "sync",
        /// Brings the log of a disk to the heap's file.
        Checkpoint = "checkpoint",
        /// Does so, and in the middle of that, sets a field of the first root.
        SetAmid = "set-amid-checkpoint",
        /// From memory to a disk, as a file that a killed process has mapped; or from a disk to memory, after an orderly end.
        Convert = "convert",
    }
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

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::One(one, which) => write!(f, "{} {}", one.name(), which.name()),
            Op::Both(both) => f.write_str(both.name()),
            Op::Change(change) => f.write_str(change.name()),
        }
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(text: &str) -> Result<Op, String> {
        let text = text.trim();
        let one = || {
            let (name, root) = text.rsplit_once(' ')?;
            Some(Op::One(One::named(name.trim())?, Which::named(root)?))
        };
        let found = Both::named(text).map(Op::Both).or_else(|| Change::named(text).map(Op::Change));
        found.or_else(one).ok_or_else(|| format!("there is no operation {text:?}"))
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
    /// The second root was created first. It matters to transactions over both: one log takes their undo entries.
    pub swapped: bool,
    /// Starts with a heap that is [used](Setting::is_used). Collections begin as soon as anything was allocated, and go on by the smallest
    /// of steps, one after each transaction.
    pub eager: bool,
    /// Starts with a used heap that was not closed: a collection is running that finds out what is live.
    pub crashed: bool,
    /// Is opened at another address than before.
    pub moved: bool,
    /// The heap is on a disk, with a write-ahead log.
    pub wal: bool,
    /// The log is synced on demand.
    pub lazy: bool,
    /// The log is short, and there is little memory for changed pages.
    pub small: bool,
    /// The disk writes less at once than it is asked to.
    pub short: bool,
}

impl Setting {
    /// Whether programs start with roots that have [lists](USED) and large objects, and some garbage.
    pub fn is_used(self) -> bool {
        self.eager || self.crashed
    }

    /// Whether the heap is nearly full, and a collection running most of the time.
    pub fn is_short_of_room(self) -> bool {
        self.full && self.is_used()
    }

    /// What both settings say. `None` if that makes no sense: what is empty is not used.
    pub fn and(mut self, mut other: Setting) -> Option<Setting> {
        for ((_, one), (_, other)) in self.flags().into_iter().zip(other.flags()) {
            *one |= *other;
        }
        (!self.empty || !self.is_used()).then_some(self)
    }
}

/// How long the lists of a used heap are.
pub const USED: [usize; 2] = [3, 2];

impl Setting {
    /// The settings with one flag less.
    pub(crate) fn simpler(self) -> Vec<Setting> {
        let mut all = Vec::new();
        for i in 0..self.clone().flags().len() {
            let mut simpler = self;
            let flag = simpler.flags().into_iter().nth(i).expect("there are so many").1;
            if std::mem::take(flag) {
                all.push(simpler);
            }
        }
        all
    }

    /// The flags by name.
    fn flags(&mut self) -> [(&'static str, &mut bool); 11] {
        let Setting { empty, pin, full, swapped, eager, crashed, moved, wal, lazy, small, short } = self;
        [
            ("empty", empty),
            ("pin", pin),
            ("full", full),
            ("swapped", swapped),
            ("eager", eager),
            ("crashed", crashed),
            ("moved", moved),
            ("wal", wal),
            ("lazy", lazy),
            ("small", small),
            ("short", short),
        ]
    }
}

/// Some operations, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Program {
    /// What it starts with.
    pub setting: Setting,
    /// A call of its disk that fails.
    pub failing: Option<Failing>,
    /// The operations.
    pub ops: Vec<Op>,
}

impl Program {
    /// All that can fail in it, if it makes so many calls of each kind.
    pub fn failures(&self, calls: impl Fn(File, Call) -> usize) -> Vec<Failing> {
        let mut all = Failing::all(calls);
        // What comes from memory is lost if it cannot be made durable.
        let converts = self.ops.contains(&Op::Change(Change::Convert));
        all.retain(|failing| !(converts && failing.evict));
        all
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut setting = self.setting;
        let flags = setting.flags().into_iter().filter(|(_, on)| **on).map(|(name, _)| name.to_owned());
        let words: Vec<String> = flags.chain(self.failing.map(|failing| failing.to_string())).collect();
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
        let (mut setting, mut failing) = (Setting::default(), None);
        let mut rest = text;
        if let Some((words, ops)) = text.split_once(':') {
            rest = ops;
            for word in words.split_whitespace() {
                if word.starts_with("fail-") {
                    failing = Some(word.parse()?);
                    continue;
                }
                let flag = setting.flags().into_iter().find(|(name, _)| *name == word);
                *flag.ok_or_else(|| format!("there is no setting {word:?}"))?.1 = true;
            }
        }
        let ops = rest.split(';').map(str::trim).filter(|op| !op.is_empty());
        Ok(Program { setting, failing, ops: ops.map(str::parse).collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::alphabet::{all, settings};
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
        let failing = "wal lazy fail-log-sync-2-evict: set a; sync";
        assert_eq!(failing.parse::<Program>().unwrap().to_string(), failing);
    }
}
