//! Locks that record nothing.

use super::Want;

#[derive(Debug, Default)]
pub(crate) struct Watch;

impl Watch {
    /// Takes a lock by `wait`.
    #[inline(always)]
    pub(crate) fn take<G>(
        &self,
        _want: Want,
        _attempt: impl FnOnce() -> Option<G>,
        wait: impl FnOnce() -> Option<G>,
    ) -> Option<G> {
        wait()
    }

    #[inline(always)]
    pub(crate) fn enter(&self, _want: Want, _mutated: bool) {}

    #[inline(always)]
    pub(crate) fn leave(&self, _want: Want) {}
}
