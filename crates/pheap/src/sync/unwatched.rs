//! Locks in builds without the simulator, and in models: they do not record where they are taken.

use super::LockMode;

#[derive(Debug, Default)]
pub(crate) struct LockWatch;

impl LockWatch {
    /// Takes a lock by `wait`, and records nothing.
    #[inline(always)]
    pub(crate) fn acquire_watched<G>(
        &self,
        _want: LockMode,
        _attempt: impl FnOnce() -> Option<G>,
        wait: impl FnOnce() -> Option<G>,
    ) -> Option<G> {
        wait()
    }

    #[inline(always)]
    pub(crate) fn record_entry(&self, _want: LockMode, _mutated: bool) {}

    #[inline(always)]
    pub(crate) fn leave(&self, _want: LockMode) {}
}
