//! Thresholds at which code takes another path. They affect speed and space, never results.
//!
//! Every build has the same set: [`Tuning::SHIPPED`]. The crash lab sets smaller ones at run time, through a
//! method of `Options` that only it can call, so that its short programs reach both sides of each threshold.
//! So tests run the same code as users, whatever features they are built with.

/// The thresholds. All values give correct results; those of [`SHIPPED`](Self::SHIPPED) are fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(unreachable_pub)] // public in builds with the simulator
pub struct Tuning {
    /// Most copies in a write set; never more than the shipped number, so that their indices fit into 16
    /// bits. Half as many if the undo log needs no fences: logging then costs hardly more than copying.
    pub copies: usize,
    /// Most copies that are searched one by one, without an index; at most as many as a write set always has
    /// room for.
    pub unindexed: usize,
    /// Number of lines covered by redo records that may stay unflushed until the log is emptied. So lines
    /// that are written often are flushed rarely, and emptying the log takes a short time.
    pub kept_lines: usize,
    /// Number of lines that a commit flushes if there are that many more than `kept_lines`; otherwise it
    /// flushes none. A fence that waits for many lines takes little longer than one that waits for a few.
    pub lines_at_a_time: usize,
    /// Most bytes of fresh objects in a redo record. If there are more, they are flushed before it, which
    /// needs a second fence.
    pub fresh_in_record: usize,
    /// Consecutive transactions that do not access again the data that they have written, after which stores
    /// copy single fields.
    pub patience: u32,
    /// Least number of contiguous free bytes whose space in the file is given back.
    pub hole: u64,
    /// Least number of free bytes with space in the file before a checkpoint that was not requested gives
    /// back space.
    pub free_kept: u64,
}

#[allow(unreachable_pub)]
impl Tuning {
    /// The thresholds of every heap.
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
