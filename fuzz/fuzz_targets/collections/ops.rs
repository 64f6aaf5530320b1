//! Programs, which are the inputs of the fuzzer. Most places are taken modulo the length of the collection.

use arbitrary::Arbitrary;
use pheap_fuzz::Durable;

/// One input of the fuzzer.
#[derive(Arbitrary, Debug)]
pub struct Program {
    pub in_memory: bool,
    pub pin_undo: bool,
    pub durable: Durable,
    /// Whether garbage collections begin as soon as possible, and work in short slices.
    pub eager: bool,
    /// Whether the heap may have 256 KiB only, and is soon full.
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
        /// Whether the heap moves to another address.
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
    /// Simulates `kill -9`.
    Killed,
}

#[derive(Arbitrary, Debug)]
pub enum Step {
    Vec(VecStep),
    /// A vector of pointers to separate objects.
    Boxes(BoxStep),
    Deque(DequeStep),
    Text(TextStep),
    /// A hash map by name. The next one is by number, with vectors as values.
    Names(MapStep),
    Lists(MapStep),
    HashSet(SetStep),
    /// An ordered map by number, with texts as values. The next one is by name.
    Tree(MapStep),
    TreeNames(MapStep),
    TreeSet(SetStep),
    /// An ordered map with versions, by name.
    Versions(MapStep),
    /// Compares the whole root with the model.
    CompareAll,
    /// Copies the files, if there are any and no earlier step did. After the transaction, the process counts
    /// as killed at the moment of the copy.
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
    /// Appends all elements of a second vector.
    Append(u8, u32),
}

#[derive(Arbitrary, Debug)]
pub enum BoxStep {
    Push(u64),
    Pop,
    Insert(u8, u64),
    Remove(u8),
    /// Writes through the pointer.
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
    /// Inserts up to `len` keys from `first` on. `step` determines their distance.
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
