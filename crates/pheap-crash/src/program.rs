//! Programs: a few operations on a heap with two or three roots, and their text.
//!
//! A program is replayed by its text: `pin: push a; both; kill; set b`. With a failing call of the disk it is
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
        /// Writes two overlapping ranges, neither within the other: the transaction spills.
        Overlap = "overlap",
        /// Writes an element, and reads the slice.
        Widen = "widen",
        /// Writes elements until the transaction gives up its copies.
        Weary = "weary",
        /// Allocates an object that is too large for a redo record.
        Big = "big",
        /// Allocates an object that needs a new arena.
        Grow = "grow",
        /// Writes to places all over the large object: more than the write set takes, and perhaps more than
        /// the log holds.
        Wide = "wide",
        /// Unlinks a node and frees it at commit.
        PopFree = "pop-free",
        /// Unlinks a node, and overwrites its pointer to the next one.
        Cut = "cut",
        /// Unlinks a node and holds a pointer to it, which the run reads after each operation from then on.
        Hold = "hold",
        /// Releases the held pointer.
        LetGo = "let-go",
        /// Links the held node behind a new one, in place of the list.
        Relink = "relink",
        /// Allocates some nodes at once.
        Stuff = "stuff",
        /// Unlinks a node, allocates an object that needs a new arena, and links the node again.
        Carry = "carry",
        /// Replaces the slice by a new one.
        Replace = "replace",
        /// Replaces the slice, and frees the old one at commit.
        ReplaceFree = "replace-free",
        /// Unlinks the large object.
        Unlink = "unlink-big",
        /// Unlinks the large object, and frees it at commit.
        FreeBig = "free-big",
        /// Pushes and pops until a collection ends.
        Churn = "churn",
        /// Frees and allocates, then fails.
        AbortFree = "abort-free",
        /// Allocates objects that are never linked: as many as a span has.
        Waste = "waste",
        /// Allocates, asks for more memory than there is, and fails. The request completes a running
        /// collection.
        TooMuch = "too-much",
        /// Unlinks the list, asks for more memory than there is, goes on without it, and links the list again
        /// behind a new node.
        Without = "without",
        /// Sets all elements of the slice, then does the same.
        WithoutLong = "without-long",
        /// Makes changes, and more in nested parts, of which one fails.
        Nest = "nest",
        /// The same, with a long transaction in the failing part.
        NestLong = "nest-long",
        /// Makes short writes, then fails.
        Abort = "abort",
        /// Makes long writes, then fails.
        AbortLong = "abort-long",
        /// Makes long writes and allocations, then panics.
        Panic = "panic",
        /// Seventy short transactions: the log needs a second segment.
        Burst = "burst",
        /// Wide short transactions, until the log is full and emptied.
        Fill = "fill",
    } or
    /// An operation on the collections of the root.
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
        /// Allocates an object in the first root that is too large for a redo record, and only reads the
        /// second.
        Big = "both-big",
        /// Allocates and links a node in the second root. Takes the list from the first root, asks there for
        /// more than there is, and links the list again behind a new node. Then asks the second root for more
        /// than there is, and leaves garbage in it.
        Without = "both-without",
        /// Replaces both slices.
        Replace = "both-replace",
        /// Writes to both roots, then fails.
        Abort = "both-abort",
        /// Inserts keys into both hash maps.
        Map = "both-map",
        /// Sets a field of each, and of a third root, which it creates if necessary.
        Three = "three",
        /// Reads the first root, and sets a field of the second and of the third.
        Last = "last",
    }
}

named! {
    /// An operation that is not a transaction over existing roots.
    pub enum Change {
        /// Creates the first root.
        CreateA = "create a",
        /// Creates the second root.
        Create = "create b",
        /// Removes the second root.
        Remove = "remove b",
        /// Renames the second root, or gives it its old name again.
        Rename = "rename b",
        /// Closes the heap and opens it again.
        Close = "close",
        /// Kills the process: all stores are there when the heap is opened again.
        Kill = "kill",
        /// Cuts the power: only durable content is there when the heap is opened again.
        Power = "power",
        /// Cuts the power: a random part of the pending changes is there when the heap is opened again.
        Torn = "torn",
        /// Kills the process, and opens the heap at another address.
        Relocate = "relocate",
        /// Closes the heap and opens it at another address.
        Move = "move",
        /// Migrates the first root to its other layout, and sets a field.
        Migrate = "migrate a",
        /// Collects all roots.
        Collect = "collect",
        /// Waits until the live objects are known.
        Ready = "ready",
        /// Sets a field of the first root in a deferred transaction, reads it in a deferred read, then waits
        /// for both.
        Defer = "defer a",
        /// Syncs the heap.
        Sync = "sync",
        /// Makes a checkpoint.
        Checkpoint = "checkpoint",
        /// Makes a checkpoint, and sets a field of the first root in the middle of it.
        SetAmid = "set-amid-checkpoint",
        /// Moves the heap from memory to a disk, as a file that a killed process had mapped; or from a disk
        /// to memory, after an orderly end.
        Convert = "convert",
    }
}

/// An operation. Most are one transaction or change, which takes effect as a whole, or not at all. Some are
/// several of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// A transaction over one root.
    One(One, Which),
    /// A transaction over both roots.
    Both(Both),
    /// An operation of another kind.
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

/// The initial heap of a program, and the way in which it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Setting {
    /// The medium is empty at first, and the program creates the heap. Otherwise there is a heap with two
    /// roots.
    pub empty: bool,
    /// All transactions use undo logging.
    pub pin: bool,
    /// The heap can grow only once.
    pub full: bool,
    /// The second root was created first. Then its log takes the undo entries of transactions over both.
    pub swapped: bool,
    /// The heap is [used](Setting::is_used). A collection begins after any allocation, and takes the smallest
    /// possible step after each transaction.
    pub eager: bool,
    /// The heap is used and was not closed. A collection runs that finds the live objects.
    pub crashed: bool,
    /// The heap is opened at another address than before.
    pub moved: bool,
    /// The heap is on a disk, with a write-ahead log.
    pub wal: bool,
    /// The log is synced on demand.
    pub lazy: bool,
    /// The log is short, and there is little memory for changed pages.
    pub small: bool,
    /// The disk writes fewer bytes at once than requested.
    pub short: bool,
}

impl Setting {
    /// Returns whether the heap has roots with [lists](USED), large objects and garbage.
    pub fn is_used(self) -> bool {
        self.eager || self.crashed
    }

    /// Returns whether the heap is nearly full and a collection runs most of the time.
    pub fn is_short_of_room(self) -> bool {
        self.full && self.is_used()
    }

    /// Combines two settings. Returns `None` for a heap that would be empty and used.
    pub fn and(mut self, mut other: Setting) -> Option<Setting> {
        for ((_, one), (_, other)) in self.flags().into_iter().zip(other.flags()) {
            *one |= *other;
        }
        (!self.empty || !self.is_used()).then_some(self)
    }
}

/// Lengths of the lists of a used heap.
pub const USED: [usize; 2] = [3, 2];

impl Setting {
    /// Returns the settings that have one flag less.
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

/// A sequence of operations.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Program {
    /// The initial heap.
    pub setting: Setting,
    /// The call of the disk that fails, if one does.
    pub failing: Option<Failing>,
    /// The operations.
    pub ops: Vec<Op>,
}

impl Program {
    /// Returns the failures that are possible if the program makes `calls` calls of each kind.
    pub fn failures(&self, calls: impl Fn(File, Call) -> usize) -> Vec<Failing> {
        let mut all = Failing::all(calls);
        // A heap that comes from memory is lost if the page cache forgets it before it is durable.
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
