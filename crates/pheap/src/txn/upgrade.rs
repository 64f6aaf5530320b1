//! Keeps readers out while a transaction stores to memory that they see.

use super::context::Context;
use crate::sync::RegionLock;
use crate::sync::access::upgrade_all;

impl Context {
    /// Waits until no thread reads. From then on, until the lock is downgraded or released, this transaction
    /// may store to memory that readers see.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn upgrade(&self) {
        self.front().lock.upgrade();
    }

    /// [`upgrade`](Self::upgrade) for all contexts of a transaction.
    #[inline(always)]
    pub(super) fn upgrade_all(contexts: &[&mut Context]) {
        match contexts {
            [context] => context.upgrade(),
            _ => upgrade_all(&contexts.iter().map(|one| &one.front().lock).collect::<Vec<&RegionLock>>()),
        }
    }
}
