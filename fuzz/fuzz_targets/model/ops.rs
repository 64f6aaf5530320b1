//! Programs, which are the inputs of the fuzzer.

use arbitrary::Arbitrary;
use pheap::Error;
use pheap_fuzz::Durable;

use crate::store::{Cell, Kind};

/// Names that roots can have.
pub const NAMES: [&str; 4] = ["a", "b", "c", "a root with a long name: d"];

/// One input of the fuzzer.
#[derive(Arbitrary, Debug)]
pub struct Program {
    pub in_memory: bool,
    pub pin_undo: bool,
    pub durable: Durable,
    /// Exponent, modulo 4: the size of the arenas is 32 KiB times this power of two.
    pub arena: u8,
    /// Whether the heap may have 400 KiB only, and is soon full.
    pub small: bool,
    /// Whether transactions continue after a step has failed.
    pub stubborn: bool,
    pub ops: Vec<Op>,
}

/// A root, as an index in [`NAMES`], modulo its length.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub struct Which(pub u8);

#[derive(Arbitrary, Debug)]
pub enum Op {
    One {
        root: Which,
        steps: Vec<Step>,
        end: End,
    },
    /// A transaction on two roots. A step with `true` is on the second one.
    Two {
        roots: (Which, Which),
        steps: Vec<(bool, Step)>,
        end: End,
    },
    /// A transaction on all roots.
    All {
        steps: Vec<(u8, Step)>,
        end: End,
    },
    Rename {
        from: Which,
        to: Which,
    },
    Remove(Which),
    Reopen {
        how: How,
        pin_undo: bool,
        durable: Durable,
        /// Whether the heap moves to another address.
        moves: bool,
    },
    /// Collects all roots.
    Collect,
    Checkpoint,
}

#[derive(Arbitrary, Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Commit,
    Abort,
}

impl End {
    pub fn result(self) -> pheap::Result<()> {
        match self {
            End::Commit => Ok(()),
            End::Abort => Err(Error::abort("as the program says")),
        }
    }
}

#[derive(Arbitrary, Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Close,
    Drop,
    /// Simulates `kill -9`.
    Killed,
    /// Simulates `kill -9`, and first opens the heap read-only, which must not change the files.
    ReadOnly,
}

/// A step of a transaction. Places are taken modulo the length of the sequence.
#[derive(Arbitrary, Debug)]
pub enum Step {
    SetNumber {
        at: u8,
        to: u64,
    },
    AddNumber {
        at: u8,
        by: u64,
    },
    /// Sorts the numbers through `&mut [u64; 4]`.
    SortNumbers,
    Flag(bool),
    Push {
        value: u32,
        kind: Kind,
    },
    Pop,
    SetNode {
        at: u8,
        value: u32,
    },
    /// Changes the node through `&mut Node`.
    ReplaceKind {
        at: u8,
        kind: Kind,
    },
    NewWords {
        len: u16,
        first: u64,
    },
    SetWord {
        at: u16,
        to: u64,
    },
    /// Writes through a pointer to the element.
    SetWordAt {
        at: u16,
        to: u64,
    },
    FillWords {
        from: u16,
        to: u16,
        with: u64,
    },
    SwapWords {
        a: u16,
        b: u16,
    },
    SortWords,
    NewCells(Vec<Cell>),
    ManyCells {
        len: u8,
        cell: Cell,
    },
    SetCell {
        at: u8,
        to: Cell,
    },
    SetCellPart {
        at: u8,
        to: u32,
    },
    CopyCells {
        from: u8,
        to: u8,
        with: Cell,
    },
    SwapCells {
        a: u8,
        b: u8,
    },
    NewText(String),
    /// Allocates an object that is never linked.
    Garbage(u16),
    Hold(u8),
    /// Compares the whole root with the model.
    Check,
    Shared,
    Nested,
    /// Copies the files, if there are any and no earlier step did. After the transaction, the process counts
    /// as killed at the moment of the copy.
    Kill,
}
