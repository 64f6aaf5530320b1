//! When readers are kept away: from the first store to where they look, until the transaction has ended.

use super::context::Context;
use crate::sync::Access;
use crate::sync::access::upgrade_all;

impl Context {
    /// Waits until nobody reads: from here on this transaction may store to where readers look.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn upgrade(&mut self) {
        if !self.upgraded {
            self.front().lock.upgrade();
            self.upgraded = true;
        }
    }

    /// [`upgrade`](Self::upgrade), if nobody reads, or not for long.
    pub(super) fn try_upgrade(&mut self) -> bool {
        self.upgraded = self.upgraded || self.front().lock.try_upgrade();
        self.upgraded
    }

    /// Lets readers in again, if they are kept away.
    pub(super) fn downgrade(&mut self) {
        if std::mem::take(&mut self.upgraded) {
            self.front().lock.downgrade();
        }
    }

    /// Whether readers are kept away; they are let in by who lets go of the region.
    #[inline(always)]
    pub(crate) fn take_upgraded(&mut self) -> bool {
        std::mem::take(&mut self.upgraded)
    }

    /// [`upgrade`](Self::upgrade) for all contexts of a transaction.
    pub(super) fn upgrade_all(contexts: &mut [&mut Context]) {
        if let [context] = contexts {
            return context.upgrade();
        }
        let locks: Vec<&Access> =
            contexts.iter().filter(|one| !one.upgraded).map(|one| &one.front().lock).collect();
        if !locks.is_empty() {
            upgrade_all(&locks);
        }
        contexts.iter_mut().for_each(|context| context.upgraded = true);
    }
}
