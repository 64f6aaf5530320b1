//! Transactions on the collections of roots.

use super::{MAP_CHURN, Run};
use crate::objects::{found, store};
use crate::ops::collections;
use crate::program::{One, Op, Shelved, Which};
use crate::report::Said;

impl Run {
    /// Runs an operation of one step on the collections of one root.
    pub(super) fn shelved(&mut self, what: Shelved, which: Which) -> Result<(), String> {
        if what != Shelved::Shelve {
            self.shelve(which)?;
        }
        self.step_on(which, store, |root, model, value| collections::one(root, model, what, value))
    }

    /// Runs the steps of [`Shelved::MapChurn`].
    pub(super) fn map_churn(&mut self, which: Which) -> Result<(), String> {
        let (steps, explored) = MAP_CHURN;
        self.shelve(which)?;
        for i in 0..steps {
            let what = [Shelved::MapClear, Shelved::MapFill, Shelved::MapInsert][i % 3];
            self.quiet = i + explored < steps;
            // The map may already be empty.
            if self.applies(Op::One(One::Shelved(what), which)) {
                self.shelved(what, which)?;
            }
        }
        Ok(())
    }

    /// Runs a transaction on the collections of both roots.
    pub(super) fn both_map(&mut self) -> Result<(), String> {
        self.shelve(Which::A)?;
        self.shelve(Which::B)?;
        self.step_on_both(store, collections::both)
    }

    /// Runs one of a few operations, by number, on the first two roots, where a root has collections and the
    /// operation has something to work on.
    pub fn use_collections(&mut self, number: usize) -> Result<(), String> {
        use Shelved::{
            MapClear, MapFill, MapInsert, MapRemove, SnapFill, SnapThin, StringSet, TreeFill, TreeRemove,
            VecGrow, VecPush,
        };
        let all = [
            MapInsert, MapFill, TreeFill, SnapFill, VecPush, VecGrow, MapRemove, TreeRemove, SnapThin,
            MapClear, StringSet,
        ];
        let what = all[number % all.len()];
        for which in [Which::A, Which::B] {
            let applies = self.exists(which) && self.applies(Op::One(One::Shelved(what), which));
            if applies && self.has_shelf(which)? {
                self.shelved(what, which)?;
            }
        }
        Ok(())
    }

    fn has_shelf(&mut self, which: Which) -> Result<bool, String> {
        let heap = self.heap.as_ref().expect("it is open");
        let found = found(heap, &mut self.handles, &Run::name(&self.state, which));
        Ok(found.said()?.has_shelf())
    }

    /// Gives a root collections, if it has none. The points of this step are not explored: those of the
    /// operation `shelve` are.
    fn shelve(&mut self, which: Which) -> Result<(), String> {
        if self.has_shelf(which)? {
            return Ok(());
        }
        let was_quiet = std::mem::replace(&mut self.quiet, true);
        let done = self.shelved(Shelved::Shelve, which);
        self.quiet = was_quiet;
        done
    }
}
