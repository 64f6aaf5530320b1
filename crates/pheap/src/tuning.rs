//! Thresholds that say when something is done in another way. They affect speed, never what is right.
//!
//! There is one set of them in every build: [`Tuning::SHIPPED`]. The crash lab gives smaller ones at run time, through a door of `Options` that only it has, so
//! that its short programs come to both sides of each. So tests run what users run, whatever features they are built with.

/// When what is done in another way. Any values are right; those of [`SHIPPED`](Self::SHIPPED) are fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(unreachable_pub)] // public in builds with the simulator
pub struct Tuning {
    /// Copies that a write set takes, at most as many as it can number; half as many where a fence costs nothing.
    pub copies: usize,
    /// Copies that are looked at one by one, rather than through an index; at most as many as there is always room for.
    pub unindexed: usize,
    /// Lines that redo records cover and that may wait until the log is emptied, so that those that are written all the time are flushed seldom, and
    /// the emptying is short.
    pub kept_lines: usize,
    /// Lines beyond these that are flushed at a commit, or none: a fence that waits for many takes little longer than one that waits for a few.
    pub lines_at_a_time: usize,
    /// Bytes of fresh objects that go into a redo record at most; more are flushed before it. A second fence takes about as long as writing so much twice.
    pub fresh_in_record: usize,
    /// Transactions in a row that do not look again at what they have written, before stores take copies of fields.
    pub patience: u32,
    /// Bytes of free pages side by side, at least, whose space the file gives back.
    pub hole: u64,
    /// Free bytes that have space in the file, at least, before a checkpoint that nobody has asked for gives any back.
    pub free_kept: u64,
}

#[allow(unreachable_pub)]
impl Tuning {
    /// What every heap gets.
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
