//! Thresholds at which the engine takes another path through its code. They affect speed and space, never
//! results.
//!
//! Every build has the same set of thresholds: [`Tuning::SHIPPED`]. The crash lab sets other, mostly smaller
//! thresholds at run time, so that its short programs reach both sides of each threshold. It does so through
//! a method of `Options` that exists only in builds with the simulator. So tests run the same code as users,
//! whatever features the tests are built with.

/// A set of thresholds. Each set gives correct results; [`SHIPPED`](Self::SHIPPED) is the fast one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(unreachable_pub)] // public in builds with the simulator
pub struct Tuning {
    /// Largest number of copies of objects in the write set of a transaction. A number above the shipped one
    /// counts as the shipped one, so that the index of a copy fits into 16 bits. If the undo log needs no
    /// fences, a write set has half as many copies at most, because logging then costs hardly more than
    /// copying.
    pub copies: usize,
    /// Largest number of copies in a write set that a lookup searches one by one. A write set with more
    /// copies has an index.
    pub unindexed: usize,
    /// About the number of cache lines, among those that redo records cover, that may stay unflushed until
    /// the log of the region is emptied. So lines that are written often are flushed rarely, and emptying the
    /// log takes a short time.
    pub kept_lines: usize,
    /// Number of cache lines that a commit flushes once the unflushed lines exceed `kept_lines` by this
    /// number; until then, a commit flushes none of them. A fence that waits for many lines takes little
    /// longer than a fence that waits for a few.
    pub lines_at_a_time: usize,
    /// Largest number of bytes of fresh objects in a redo record. If a transaction has more, its commit
    /// flushes the fresh objects before the record instead, which needs a second fence.
    pub fresh_in_record: usize,
    /// Number of consecutive transactions on a root that have not accessed again any data that they had
    /// written. After so many of them, a store to a field copies the field only, and not the whole object.
    pub patience: u32,
    /// Least length in bytes of a run of free pages whose space in the heap's file is given back to the disk.
    pub hole: u64,
    /// Least number of bytes of free pages that still have space in the heap's file. With fewer, only
    /// `Heap::checkpoint` gives back space.
    pub free_kept: u64,
}

#[allow(unreachable_pub)]
impl Tuning {
    /// The thresholds of every heap outside of the crash lab.
    pub const SHIPPED: Tuning = Tuning {
        copies: 8192,
        unindexed: 16,
        kept_lines: 1024,
        lines_at_a_time: 32,
        fresh_in_record: 512,
        patience: 8,
        hole: 1 << 20,
        free_kept: 64 << 20,
    };
}
