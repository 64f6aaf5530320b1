//! What a program is made of. Places and keys are taken modulo what there is.

use arbitrary::Arbitrary;
use pheap_fuzz::Durable;

/// One input of the fuzzer.
#[derive(Arbitrary, Debug)]
pub struct Program {
    pub in_memory: bool,
    pub pin_undo: bool,
    pub durable: Durable,
    /// Collections begin as soon as anything was allocated, and go on by the smallest of steps.
    pub eager: bool,
    /// Whether the heap is soon full.
    pub small: bool,
    pub ops: Vec<Op>,
}

#[derive(Arbitrary, Debug)]
pub enum Op {
    Txn {
        steps: Vec<Step>,
        end: End,
    },
    Reopen {
        how: How,
        pin_undo: bool,
        durable: Durable,
        /// At another address.
        moves: bool,
        verify: bool,
    },
    Collect,
    Check,
    Checkpoint,
    Remove,
}

#[derive(Arbitrary, Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Commit,
    Abort,
    Panic,
}

#[derive(Arbitrary, Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Close,
    Drop,
    /// As after `kill -9`.
    Killed,
}

#[derive(Arbitrary, Debug)]
pub enum Step {
    Vec(VecStep),
    /// A vector of pointers to objects of their own.
    Boxes(BoxStep),
    Deque(DequeStep),
    Text(TextStep),
    /// A hash map by name, and one by number whose values are vectors.
    Names(MapStep),
    Lists(MapStep),
    HashSet(SetStep),
    /// An ordered map by number whose values are texts, and one by name.
    Tree(MapStep),
    TreeNames(MapStep),
    TreeSet(SetStep),
    /// An ordered map with versions, by name.
    Versions(MapStep),
    /// Compares all of the root with the model.
    CompareAll,
    /// The files as they are now are what a crash leaves.
    Kill,
}

#[derive(Arbitrary, Debug)]
pub enum VecStep {
    Push(u32),
    Pop,
    Set(u8, u32),
    Insert(u8, u32),
    Remove(u8),
    SwapRemove(u8),
    Swap(u8, u8),
    Truncate(u8),
    Clear,
    Reserve(u16),
    Shrink,
    Extend(u16, u32),
    Resize(u16, u32),
    Drain(u8, u8),
    RetainMultiples(u8),
    Dedup,
    Reverse,
    Sort,
    SortBackwards,
    AddTo(u8, u8, u32),
    /// All that is in a second vector.
    Append(u8, u32),
}

#[derive(Arbitrary, Debug)]
pub enum BoxStep {
    Push(u64),
    Pop,
    Insert(u8, u64),
    Remove(u8),
    /// Through the pointer.
    Write(u8, u64),
    Truncate(u8),
    Reverse,
}

#[derive(Arbitrary, Debug)]
pub enum DequeStep {
    PushBack(u16),
    PushFront(u16),
    PopFront,
    PopBack,
    Set(u8, u16),
    Extend(u8, u16),
    Reserve(u8),
    Shrink,
    Clear,
}

#[derive(Arbitrary, Debug)]
pub enum TextStep {
    Push(char),
    PushStr(String),
    Pop,
    Insert(u8, char),
    InsertStr(u8, String),
    Remove(u8),
    Replace(u8, u8, String),
    Truncate(u8),
    Set(String),
    RetainAscii,
    Reserve(u8),
    Shrink,
    Clear,
}

/// A step on a map.
#[derive(Arbitrary, Debug)]
pub enum MapStep {
    Insert(u8, u16),
    Remove(u8),
    Get(u8),
    Change(u8, u16),
    OrInsert(u8, u16),
    RemoveEntry(u8),
    /// So many keys, from the first one on, in this order of steps.
    Extend {
        first: u16,
        len: u8,
        step: u8,
    },
    RemoveMany {
        first: u16,
        len: u8,
    },
    Retain(u8),
    ForEach(u16),
    PopFirst,
    PopLast,
    Range(u8, u8),
    Drain,
    Clear,
    Shrink,
}

#[derive(Arbitrary, Debug)]
pub enum SetStep {
    Insert(u16),
    Remove(u16),
    Contains(u16),
    Extend { first: u16, len: u8, step: u8 },
    Retain(u8),
    PopFirst,
    PopLast,
    Drain,
    Clear,
    Shrink,
}
