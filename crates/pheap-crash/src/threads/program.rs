//! Programs of two threads: operations on a heap with two roots, or with one root and a map.

use std::fmt;

use crate::named::named;

named! {
    /// A root.
    pub enum Which {
        /// The first one.
        A = "a",
        /// The second one.
        B = "b",
        /// A root that the program creates.
        C = "c",
    }
}

impl Which {
    /// Returns the other one of the first two.
    pub fn other(self) -> Which {
        if self == Which::A { Which::B } else { Which::A }
    }
}

/// An operation of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// A short transaction, which changes fields in two lines.
    Add(Which),
    /// The same over two roots, this one named first.
    Both(Which),
    /// A transaction that begins short and becomes long, which stores its earlier copies in place.
    Spill(Which),
    /// The same over two roots.
    SpillBoth(Which),
    /// A short transaction that fails, and returns a value that it has read.
    Abort(Which),
    /// The same with a long transaction.
    SpillAbort(Which),
    /// A transaction that panics.
    Panic(Which),
    /// A read.
    Read(Which),
    /// A read of the other root within a read of this one.
    ReadBoth(Which),
    /// A deferred read: it does not wait until the data is durable.
    ReadLater(Which),
    /// A deferred transaction.
    Defer(Which),
    /// A deferred transaction over two roots.
    DeferBoth(Which),
    /// Waits for the last deferred transaction of the other thread, or of this one if the other has none yet.
    Wait,
    /// Adds a new object to a list.
    Push(Which),
    /// Removes an object from a list, if there is one.
    Pop(Which),
    /// Allocates a large object and links it.
    Grow(Which),
    /// Changes the map in two places.
    Insert,
    /// Takes a snapshot of the map, and reads it.
    Look,
    /// The same, in a program that reads it again.
    Keep,
    /// Reads the snapshot again, if there is one.
    LookAgain,
    /// Removes a root.
    Remove(Which),
    /// Creates the third root.
    Create,
    /// Collects all roots.
    Collect,
    /// Collects one root.
    CollectOne(Which),
    /// Makes a checkpoint.
    Checkpoint,
    /// Syncs the heap.
    Sync,
    /// Closes the heap.
    Close,
}

/// The medium of a heap, and its durability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Persistent memory.
    Memory,
    /// The same, with undo logging only.
    Undo,
    /// A disk, with a write-ahead log.
    Log,
    /// The same, with a log that is synced on demand.
    Lazy,
}

impl Medium {
    /// Returns whether there is a write-ahead log.
    pub fn is_log(self) -> bool {
        matches!(self, Medium::Log | Medium::Lazy)
    }
}

/// A program.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Name of the program.
    pub name: &'static str,
    /// Medium of the heap.
    pub medium: Medium,
    /// Operations of each thread before the schedule begins.
    pub before: [&'static [Op]; 2],
    /// Operations of each thread under the schedule.
    pub threads: [&'static [Op]; 2],
    /// Whether collections begin as soon as anything was allocated.
    pub eager: bool,
    /// Whether the last thread that ends closes the heap.
    pub closes: bool,
}

impl Program {
    /// Returns whether the heap has a map, and no second root.
    pub fn has_map(&self) -> bool {
        let ops = self.before.iter().chain(&self.threads).flat_map(|ops| ops.iter());
        ops.into_iter().any(|op| matches!(op, Op::Insert | Op::Look | Op::Keep | Op::LookAgain))
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Program { name, medium, threads: [one, other], .. } = self;
        write!(f, "{name} ({medium:?}): {one:?} beside {other:?}")
    }
}

use Medium::{Lazy, Log, Memory, Undo};
use Op::{
    Abort, Add, Both, Checkpoint, Close, Collect, CollectOne, Create, Defer, DeferBoth, Grow, Insert, Keep,
    Look, LookAgain, Panic, Pop, Push, Read, ReadBoth, ReadLater, Remove, Spill, SpillAbort, SpillBoth, Sync,
    Wait,
};
use Which::{A, B};

const fn program(name: &'static str, medium: Medium, one: &'static [Op], other: &'static [Op]) -> Program {
    Program { name, medium, before: [&[], &[]], threads: [one, other], eager: false, closes: false }
}

impl Program {
    const fn after(self, one: &'static [Op], other: &'static [Op]) -> Program {
        Program { before: [one, other], ..self }
    }

    const fn eager(self) -> Program {
        Program { eager: true, ..self }
    }

    const fn closing(self) -> Program {
        Program { closes: true, ..self }
    }
}

/// After these operations, the thread is the owner of the lock.
const OWNS: &[Op] = &[Add(A)];
/// After these operations, the lock has no owner.
const REVOKES: &[Op] = &[Read(A)];

/// All programs.
pub const PROGRAMS: &[Program] = &[
    program("two writers", Memory, &[Add(A), Add(A)], &[Add(A), Add(A)]),
    program("two writers, longer", Memory, &[Add(A), Push(A), Spill(A)], &[Add(A), Add(A), Pop(A)]),
    program("two writers, logged", Log, &[Add(A), Add(A)], &[Add(A)]),
    program("two writers, undo", Undo, &[Add(A)], &[Add(A), Add(A)]),
    program("two writers, on demand", Lazy, &[Add(A), Sync], &[Add(A), Add(A)]),
    program("two writers without a sync", Lazy, &[Add(A)], &[Add(A)]),
    program("two roots", Memory, &[Add(A), Add(A)], &[Add(B), Add(B)]),
    program("two roots, longer", Memory, &[Add(A), Push(A), Add(A)], &[Push(B), Add(B), Spill(B)]),
    program("two roots, logged", Log, &[Add(A), Add(A)], &[Add(B)]),
    program("two roots, undo", Undo, &[Add(A)], &[Add(B)]),
    program("two roots, on demand", Lazy, &[Add(A), Add(A)], &[Add(B), Add(B)]),
    program("two roots beside a sync", Lazy, &[Add(A), Sync], &[Add(B), Add(B)]),
    program("both beside one", Memory, &[Both(A)], &[Add(B), Add(A)]),
    program("both beside one, longer", Memory, &[Add(B), Both(A), Push(A)], &[Push(B), Add(B), Add(A)]),
    program("both beside one, logged", Log, &[Both(A)], &[Add(B)]),
    program("both beside one, undo", Undo, &[Both(A)], &[Add(B)]),
    program("both beside both", Memory, &[Both(A)], &[Both(B)]),
    program("both beside both, logged", Log, &[Both(A)], &[Both(B)]),
    program("both, spilled", Memory, &[SpillBoth(A)], &[Add(B), Read(A)]),
    program("both, spilled, logged", Log, &[SpillBoth(B)], &[Add(A)]),
    program("reader", Memory, &[Add(A), Add(A)], &[Read(A), Read(A)]),
    program("reader, logged", Log, &[Add(A)], &[Read(A), Read(A)]),
    program("reader, on demand", Lazy, &[Add(A), Sync], &[Read(A), Read(A)]),
    program("reader of both", Memory, &[Both(A)], &[ReadBoth(A), ReadBoth(B)]),
    program("reader of both, logged", Log, &[Both(A)], &[ReadBoth(B)]),
    program("nested readers beside both", Memory, &[Add(A), ReadBoth(A)], &[Add(B), ReadBoth(B)]),
    program("long beside reader", Memory, &[Spill(A), Add(A)], &[Read(A), Read(A)]),
    program("long beside reader, logged", Log, &[Spill(A)], &[Read(A), Read(A)]),
    program("long beside reader, undo", Undo, &[Add(A), Abort(A)], &[Read(A), Read(A)]),
    program("rolled back", Memory, &[Abort(A), SpillAbort(A)], &[Add(A), Read(A)]),
    program("rolled back, logged", Log, &[SpillAbort(A), Abort(A)], &[Add(A)]),
    program("panics", Memory, &[Panic(A), Add(A)], &[Add(A)]),
    program("panics, logged", Log, &[Panic(A), Read(A)], &[Add(A)]),
    program("an owner and a writer", Memory, &[Add(A), Add(A)], &[Add(A)]).after(OWNS, &[]),
    program("an owner and a writer, logged", Log, &[Add(A)], &[Add(A)]).after(OWNS, &[]),
    program("an owner and a reader", Memory, &[Add(A), Add(A)], &[Read(A)]).after(OWNS, &[]),
    program("an owner and a reader, logged", Log, &[Add(A)], &[Read(A)]).after(OWNS, &[]),
    program("an owner that is long", Memory, &[Spill(A)], &[Read(A), Add(A)]).after(OWNS, &[]),
    program("an owner and both", Memory, &[Add(A)], &[Both(A)]).after(OWNS, &[]),
    program("a writer and an owner that reads", Memory, &[Add(A)], &[Read(A), Read(A)]).after(&[], OWNS),
    program("a writer and an owner that reads, logged", Log, &[Add(A)], &[Read(A)]).after(&[], OWNS),
    program("a writer and a reader, revoked", Memory, &[Add(A), Add(A)], &[Read(A), Read(A)])
        .after(OWNS, REVOKES),
    program("two writers, revoked", Memory, &[Add(A), Add(A)], &[Add(A)]).after(OWNS, REVOKES),
    program("garbage beside a cycle", Memory, &[Push(A), Pop(A)], &[CollectOne(A)]),
    program("garbage whose pages others use", Memory, &[Grow(A), CollectOne(A)], &[Grow(B)])
        .after(&[Grow(A)], &[]),
    program("garbage whose pages others use, logged", Log, &[Grow(A), CollectOne(A)], &[Grow(B)])
        .after(&[Grow(A)], &[]),
    program("garbage beside slices", Memory, &[Pop(A), Push(A)], &[Pop(A), Push(A)]).eager(),
    program("readers beside slices", Memory, &[Pop(A), Push(A)], &[Read(A), Read(A)]).eager(),
    program("a cycle, logged", Log, &[Pop(A), Push(A)], &[Collect]),
    program("a reader beside a cycle", Memory, &[Pop(A), Collect], &[Read(A), Push(A)]),
    program("checkpoint", Log, &[Add(A), Add(A)], &[Checkpoint]),
    program("checkpoint beside a reader", Log, &[Add(A), Checkpoint], &[Read(A)]),
    program("checkpoint on demand", Lazy, &[Add(A), Add(A)], &[Checkpoint]),
    program("two checkpoints", Log, &[Add(A), Checkpoint], &[Checkpoint]),
    program("deferred", Log, &[Defer(A), Defer(A), Defer(A)], &[Wait, Wait]),
    program("deferred and waited for", Log, &[Defer(A), Wait], &[Defer(B), Wait]),
    program("deferred over both", Log, &[DeferBoth(A), Defer(B)], &[Defer(A), Wait]),
    program("deferred beside a commit", Log, &[Defer(A), Defer(A)], &[Add(A)]),
    program("deferred beside a reader", Log, &[Defer(A), Defer(A)], &[ReadLater(A), Read(A)]),
    program("deferred beside a checkpoint", Log, &[Defer(A), Defer(B)], &[Checkpoint]),
    program("deferred in memory", Memory, &[Defer(A), Wait], &[Add(A)]),
    program("snapshots", Memory, &[Insert, Insert], &[Look, Look]),
    program("snapshots, logged", Log, &[Insert, Insert], &[Look]),
    program("a snapshot that is kept", Memory, &[Insert, Insert, Collect], &[Keep, LookAgain]),
    program("a snapshot that is kept, logged", Log, &[Insert, Checkpoint], &[Keep, LookAgain]),
    program("snapshots of two writers", Memory, &[Insert, Look], &[Insert]),
    program("growth beside a writer", Memory, &[Grow(A)], &[Add(B), Push(B)]),
    program("growth beside growth", Memory, &[Grow(A)], &[Grow(B)]),
    program("growth, logged", Log, &[Grow(A)], &[Add(B)]),
    program("removed", Memory, &[Remove(B)], &[Add(A), Add(A)]),
    program("removed, logged", Log, &[Remove(B)], &[Add(A)]),
    program("removed beside its user", Memory, &[Remove(B)], &[Add(B), Read(B)]),
    program("removed beside its user, logged", Log, &[Remove(B)], &[Add(B)]),
    program("removed, and its pages used", Memory, &[Remove(B), Create], &[Add(A)]),
    program("removed, and its pages used, logged", Log, &[Remove(B), Create], &[Add(A)]),
    program("removed, and its pages used by another one", Memory, &[Remove(B)], &[Push(A), Grow(A)]),
    program("removed beside both", Memory, &[Remove(B)], &[Both(A)]),
    program("created", Memory, &[Create], &[Add(A), Add(A)]),
    program("created beside growth", Memory, &[Create, Add(A)], &[Grow(A), Push(B)]),
    program("created, logged", Log, &[Create], &[Add(A)]),
    program("created and removed", Memory, &[Create], &[Remove(B)]),
    program("closed by the last one", Memory, &[Add(A)], &[Add(A)]).closing(),
    program("closed by the last one, logged", Log, &[Add(A)], &[Defer(A)]).closing(),
    program("closed beside a writer", Memory, &[Close], &[Add(A), Add(B)]),
    program("closed beside a writer, logged", Log, &[Close], &[Add(A)]),
    program("closed beside a snapshot", Memory, &[Insert, Close], &[Keep, LookAgain]),
];
