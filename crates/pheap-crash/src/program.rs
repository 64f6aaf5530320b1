//! Programs: a few operations on a heap with up to three roots, and their text.
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
    /// One of the first two roots. The second may be removed, created again and renamed.
    pub enum Which {
        /// The first root.
        A = "a",
        /// The second root.
        B = "b",
    }
}

named! {
    /// An operation on one root: one transaction, or several for [`Churn`](One::Churn),
    /// [`Burst`](One::Burst), [`Fill`](One::Fill) and [`MapChurn`](Shelved::MapChurn).
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
        /// Sets all elements of the slice, one by one: more copies than the write set takes.
        Many = "many",
        /// Takes two overlapping ranges, neither within the other, so that the transaction spills, and
        /// writes.
        Overlap = "overlap",
        /// Writes an element, reads the slice, and writes another element.
        Widen = "widen",
        /// Writes four elements of the slice many times.
        Weary = "weary",
        /// Allocates an object that is too large for a redo record.
        Big = "big",
        /// Allocates an object for which a heap of one arena must grow.
        Grow = "grow",
        /// Takes the whole large object, which is longer than a copy may be, and writes to places all over
        /// it.
        Wide = "wide",
        /// Unlinks a node and frees it at commit.
        PopFree = "pop-free",
        /// Unlinks a node, and overwrites its pointer to the next one.
        Cut = "cut",
        /// Unlinks a node and holds a pointer to it. The run reads the held list after each step until the
        /// pointer is released.
        Hold = "hold",
        /// Releases the held pointer.
        LetGo = "let-go",
        /// Links the held list behind a new node, in place of the list.
        Relink = "relink",
        /// Allocates some nodes at once.
        Stuff = "stuff",
        /// Unlinks a node, allocates an object for which a heap of one arena must grow, and links the node
        /// again behind a new one.
        Carry = "carry",
        /// Replaces the slice by a new one.
        Replace = "replace",
        /// Replaces the slice, and frees the old one at commit.
        ReplaceFree = "replace-free",
        /// Unlinks the large object.
        Unlink = "unlink-big",
        /// Unlinks the large object, and frees it at commit.
        FreeBig = "free-big",
        /// Pushes a node and frees it again, ten times. In an eager heap, collections may end meanwhile.
        Churn = "churn",
        /// Frees and allocates, then fails.
        AbortFree = "abort-free",
        /// Allocates some objects that are never linked.
        Waste = "waste",
        /// Allocates, asks for more memory than there is, and fails. The request completes a running
        /// collection.
        TooMuch = "too-much",
        /// Unlinks the list, asks for more memory than there is, goes on without it, and links the list again
        /// behind a new node.
        Without = "without",
        /// Sets all elements of the slice, then does the same.
        WithoutLong = "without-long",
        /// Makes changes, and more in nested parts, of which some fail.
        Nest = "nest",
        /// The same, with writes in the failing parts that make the transaction long.
        NestLong = "nest-long",
        /// Makes short writes, then fails.
        Abort = "abort",
        /// Makes long writes, then fails.
        AbortLong = "abort-long",
        /// Makes long writes and allocations, then panics.
        Panic = "panic",
        /// Sixty-six short transactions, which set a field.
        Burst = "burst",
        /// Twenty-two transactions that write a whole large object. The first allocates it if there is none
        /// of this length.
        Fill = "fill",
    } or
    /// An operation on the collections of the root.
    Shelved
}

named! {
    /// A transaction over the first two roots, or all three.
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
        /// Sets a field of each, and of a third root. Another transaction creates that before if necessary.
        Three = "three",
        /// Sets a field of the second root and of the third, and changes nothing in the first. The third is
        /// created as for `Three`.
        Last = "last",
    }
}

named! {
    /// An operation of another kind.
    pub enum Change {
        /// Creates the first root.
        CreateA = "create a",
        /// Creates the second root, with its first name.
        Create = "create b",
        /// Removes the second root.
        Remove = "remove b",
        /// Renames the second root, or gives it its old name again.
        Rename = "rename b",
        /// Closes the heap and opens it again.
        Close = "close",
        /// Kills the process: all its stores and writes are there when the heap is opened again.
        Kill = "kill",
        /// Cuts the power: only durable content is there when the heap is opened again.
        Power = "power",
        /// Cuts the power: a random part of the pending changes is there when the heap is opened again.
        Torn = "torn",
        /// Kills the process, and opens the heap at another address.
        Relocate = "relocate",
        /// Closes the heap and opens it at another address.
        Move = "move",
        /// Migrates the first root from one of its layouts to the other, and sets a field.
        Migrate = "migrate a",
        /// Waits until the live objects are known, and collects all roots.
        Collect = "collect",
        /// Waits until the live objects are known.
        Ready = "ready",
        /// Sets a field of the first root in a deferred transaction, makes a deferred read, then waits for
        /// both.
        Defer = "defer a",
        /// Syncs the heap.
        Sync = "sync",
        /// Makes a checkpoint.
        Checkpoint = "checkpoint",
        /// Makes a checkpoint, and sets a field of the first root in the middle of it; or after it, if the
        /// checkpoint does not sync the heap's file.
        SetAmid = "set-amid-checkpoint",
        /// Moves the heap from memory to a disk, as a file that a killed process had mapped; or from a disk
        /// to memory, after an orderly end.
        Convert = "convert",
    }
}

/// An operation. Most are one transaction or change, which takes effect as a whole, or not at all. Some are
/// several of these; each of them takes effect as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// An operation on one root.
    One(One, Which),
    /// A transaction over several roots.
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
    /// The medium is empty at first, and opening it creates the heap. Otherwise there is a heap with two
    /// roots.
    pub empty: bool,
    /// All transactions use undo logging.
    pub pin: bool,
    /// The heap can have two arenas at most.
    pub full: bool,
    /// The second root was created first. Has no effect on a used or empty heap.
    pub swapped: bool,
    /// The initial heap is [used](Setting::is_used). A collection of a root begins as soon as it has
    /// allocated anything, and takes short steps.
    pub eager: bool,
    /// The initial heap is used and was not closed. A collection runs that finds the live objects.
    pub crashed: bool,
    /// The heap is opened at the address that the generation of the run chooses, mostly another one than
    /// before.
    pub moved: bool,
    /// The heap is on a disk, with a write-ahead log.
    pub wal: bool,
    /// A write-ahead log is synced on demand.
    pub lazy: bool,
    /// A write-ahead log is short, and there is little memory for changed pages.
    pub small: bool,
    /// The disk writes a random number of the requested sectors at once.
    pub short: bool,
}

impl Setting {
    /// Returns whether the initial heap has roots with [lists](USED), a large object and garbage.
    pub fn is_used(self) -> bool {
        self.eager || self.crashed
    }

    /// Returns whether the size of the heap is limited and its initial content is that of a used one.
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
    /// Returns each setting that has one flag less than this one.
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
    /// Returns the failures to try if the program makes `calls` calls of each kind on each file.
    pub fn failures(&self, calls: impl Fn(File, Call) -> usize) -> Vec<Failing> {
        let mut all = Failing::all(calls);
        // A program that converts its heap may lose it if the page cache forgets it before it is durable.
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
