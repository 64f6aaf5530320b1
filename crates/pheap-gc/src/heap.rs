//! What the marker needs to know of a heap.

/// The heap as the collector sees it.
///
/// All methods are called in the innermost loop: implementations want `#[inline]`.
pub trait Heap {
    /// An object that was marked and is to be traced; or a part of one that is traced on its own. Best if small.
    type Object: Copy;

    /// Asks the processor to fetch what [`mark`](Self::mark) and [`trace`](Self::trace) will look at. A hint.
    #[inline(always)]
    fn prefetch(&self, _pointer: u64) {}

    /// Marks the object that `pointer` points into, be it to its inside. `None` if it was marked before, has no pointers (then it is
    /// marked all the same), or if there is no object.
    ///
    /// If several threads mark at once, one of them gets the object.
    fn mark(&self, pointer: u64) -> Option<Self::Object>;

    /// Calls `found` with the pointers of the object, without null ones. Traces a bounded part of it: if there is more, returns the rest, to
    /// be traced later, maybe by another thread.
    fn trace(&self, object: Self::Object, found: &mut impl FnMut(u64)) -> Option<Self::Object>;

    /// Calls `visit` with each marked object that has pointers, all of it. Used only after the mark stack has overflowed.
    ///
    /// `visit` marks others. Whether those are visited, too, does not matter.
    fn marked(&self, visit: &mut impl FnMut(Self::Object));

    /// Bytes that [`trace`](Self::trace) will look at: what a [`Budget`](crate::Budget) is spent on.
    fn size(&self, object: Self::Object) -> usize;
}
