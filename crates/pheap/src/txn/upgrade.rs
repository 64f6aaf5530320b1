//! When readers are kept away: from the first store to where they look, until the transaction has ended.

use super::context::Context;
use crate::sync::Access;
use crate::sync::access::upgrade_all;

impl Context {
    /// Waits until nobody reads: from here on this transaction may store to where readers look.
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
            _ => upgrade_all(&contexts.iter().map(|one| &one.front().lock).collect::<Vec<&Access>>()),
        }
    }
}
