//! Transactions on the collections of roots.

use pheap::Error;

use super::Run;
use crate::objects::{found, store};
use crate::ops::collections;
use crate::program::{Shelved, Which};

impl Run {
    /// A transaction on the collections of one root.
    pub(super) fn shelved(&mut self, what: Shelved, which: Which) -> Result<(), String> {
        if what != Shelved::Shelve {
            self.shelve(which)?;
        }
        self.step(|heap, handles, state, value| {
            let name = Run::name(state, which);
            let root = store(heap, handles, &name)?;
            let model = state.roots.get_mut(&name).ok_or(Error::NoSuchRoot(name))?;
            collections::one(&root, model, what, value)
        })
    }

    /// A transaction on the collections of both roots.
    pub(super) fn both_map(&mut self) -> Result<(), String> {
        self.shelve(Which::A)?;
        self.shelve(Which::B)?;
        self.step(|heap, handles, state, value| {
            let names = [Which::A, Which::B].map(|which| Run::name(state, which));
            let (a, b) = (store(heap, handles, &names[0])?, store(heap, handles, &names[1])?);
            let mut models = state.roots.values_mut();
            let models = (models.next().expect("a"), models.next().expect("b"));
            collections::both((&a, &b), models, value)
        })
    }

    /// Gives a root collections, if it has none. Crashes in the midst of that are explored where it is an operation of its own.
    fn shelve(&mut self, which: Which) -> Result<(), String> {
        let heap = self.heap.as_ref().expect("it is open");
        let found = found(heap, &mut self.handles, &Run::name(&self.state, which));
        if found.map_err(|error| error.to_string())?.has_shelf() {
            return Ok(());
        }
        let was_quiet = std::mem::replace(&mut self.quiet, true);
        let done = self.shelved(Shelved::Shelve, which);
        self.quiet = was_quiet;
        done
    }
}
