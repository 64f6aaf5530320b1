//! When a transaction leaves its write set although everything fits: the undo log is cheaper for what it does.
//!
//! Copies spare a transaction the fences of an undo log, but each access to one is a look-up. Behind the undo log an access is a look at a bit, or nothing, and
//! costs a fence or two for each block of an object that is changed. So there are two signs that a transaction is on the wrong path: it comes back to its copies
//! [again and again](super::context::Context::should_spill), or they lie [close together](super::context::Context) in large objects. In both cases the change is made when the copies have
//! cost about as much as it will, so that nobody pays more than about twice what the better choice would have cost.

/// How long a transaction stays with its copies.
#[derive(Debug)]
pub(crate) struct SpillPolicy {
    /// Looks at copies until it is asked next.
    pub(super) looks: u32,
    /// And until it is asked the first time: a spill costs as much as so many.
    pub(super) first_looks: u32,
    /// How many more there may be for each copy, which may need a fence of its own then.
    pub(super) each: u32,
    /// Copies that are made before it is asked the first time, and at most.
    pub(super) first: usize,
    pub(super) most: usize,
}

impl SpillPolicy {
    /// For write sets of at most so many copies. (It is a small number in the crash lab, whose programs are short, and half as many as otherwise where a spill has
    /// no fences.)
    pub(crate) fn new(most: usize) -> SpillPolicy {
        let first_looks = (most as u32 / 16).max(84);
        let each = (most as u32 / 512).max(2);
        SpillPolicy { looks: first_looks, first_looks, each, first: (most / 64).max(8), most }
    }

    /// Copies before it is asked the first time.
    #[inline(always)]
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// Whether the `looks`th look at a copy is one of those at which it is asked.
    #[inline(always)]
    pub(crate) fn is_asked(&self, looks: u32) -> bool {
        looks >= self.looks
    }

    #[inline(always)]
    pub(crate) fn end_transaction(&mut self) {
        self.looks = self.first_looks;
    }
}
