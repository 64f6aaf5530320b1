//! The interface between the marker and a heap.

/// A heap to be marked.
///
/// The innermost loop calls all methods except [`marked`](Self::marked): implementations want `#[inline]`.
pub trait Heap {
    /// A marked object to be traced, or a part of one that is traced separately. Values of this type should
    /// be small, because the mark stack may hold many.
    type Object: Copy;

    /// Prefetches the memory that [`mark`](Self::mark) and [`trace`](Self::trace) will read. The call is only
    /// a hint.
    #[inline(always)]
    fn prefetch(&self, _pointer: u64) {}

    /// Marks the object that `pointer` points to or into. Returns the object if it is newly marked and has
    /// pointers. Returns `None` if it was marked before, if it has no pointers (it is marked all the same),
    /// or if there is no object.
    ///
    /// If several threads mark an object at once, exactly one of them gets it.
    fn mark(&self, pointer: u64) -> Option<Self::Object>;

    /// Calls `found` with each pointer of the object that is not null. Traces a bounded part of the object.
    /// If more is left, returns the rest. Another thread may trace it later.
    fn trace(&self, object: Self::Object, found: &mut impl FnMut(u64)) -> Option<Self::Object>;

    /// Calls `visit` with each marked object that has pointers, as a whole. The marker calls this method only
    /// if the mark stack has overflowed, or if a panic may have lost entries of the mark stack.
    ///
    /// `visit` marks other objects. `marked` may visit those, too, but need not.
    fn marked(&self, visit: &mut impl FnMut(Self::Object));

    /// Returns the bytes that [`trace`](Self::trace) will read. They are charged to the
    /// [`Budget`](crate::Budget).
    fn size(&self, object: Self::Object) -> usize;
}
