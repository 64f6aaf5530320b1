//! Calls that fail: the errors of the heap, and its state after the next opening.

use std::collections::HashMap;
use std::sync::mpsc::channel;

use pheap::Error;
use pheap::sim::disk::{Call, Which as File};

use super::{Run, catching};
use crate::fault;
use crate::layouts::Found;
use crate::model::State;
use crate::objects::{found, handle};
use crate::ops;
use crate::program::{One, Which};
use pheap_testkit::Rng;

/// Number of calls of each kind on each file.
pub type Calls = HashMap<(File, Call), usize>;

impl Run {
    /// Adds the calls on the current medium to the counters of earlier media. The medium must not be used
    /// afterwards.
    pub(super) fn count(&mut self) {
        for key in fault::kinds() {
            *self.calls.entry(key).or_default() += self.medium.calls(key.0, key.1);
        }
        self.failed += self.medium.failed();
    }

    /// Returns the number of calls of each kind on each file, on all media of the run.
    pub(super) fn all_calls(mut self) -> Calls {
        self.count();
        self.calls.clone()
    }

    /// Returns the number of calls that have failed so far.
    pub(crate) fn failures(&self) -> usize {
        self.failed + self.medium.failed()
    }

    /// Sets up the short writes of a new medium, and the failing call unless a call has failed already.
    pub(super) fn spoil(&self) {
        let failing = self.how.failing.filter(|_| self.failures() == 0).and_then(|failing| {
            failing.on_disk(self.calls.get(&(failing.which, failing.call)).copied().unwrap_or(0))
        });
        self.medium.spoil(failing, self.setting.short);
    }

    /// Returns whether errors are expected: a call on this medium has failed.
    pub(super) fn is_failing(&self) -> bool {
        self.medium.failed() > 0
    }

    /// Stops failing calls. If the failing call evicts, also makes the page cache of the disk forget the data
    /// of a failed sync, and returns true.
    pub(super) fn heal(&mut self) -> bool {
        let evicts = self.how.failing.is_some_and(|failing| failing.evict);
        if evicts {
            self.collect();
            self.lost |= self.setting.lazy;
        }
        let Some(disk) = self.medium.disk() else { return false };
        disk.heal();
        if evicts {
            let mut rng = Rng::new(&[self.steps() as u64]);
            disk.evict(|| rng.chance(128));
        }
        evicts
    }

    /// Returns an error unless a failing disk can cause this error of an opening. A failing disk cannot make
    /// the file look damaged.
    pub(super) fn may_be_said_by_opening(&self, error: &Error) -> Result<(), String> {
        match error {
            Error::Io { .. }
            | Error::Failed { .. }
            | Error::OutOfSpace { .. }
            | Error::OutcomeUnknown { .. } => Ok(()),
            other => Err(format!("opening a heap on a failing disk says: {other}")),
        }
    }

    /// Recovers from an error of an operation that would have led to the state `after`: drops the heap and
    /// opens it again. Before that, after most errors the heap must refuse further operations. See
    /// [`open_after`](Run::open_after) for the states that it may then have.
    pub(super) fn recover(&mut self, error: Error, after: State) -> Result<(), String> {
        let expected = match error {
            Error::OutcomeUnknown { .. } => after,
            // An earlier call has failed, so the operation has changed nothing.
            Error::Failed { .. } => self.state.clone(),
            // The sync of a longer file may have failed to write back pages of a checkpoint.
            Error::Io { ref context, .. } if context.starts_with("growing") => {
                self.must_be_shut()?;
                self.state.clone()
            }
            // Nothing has changed, and the heap need not refuse further operations.
            Error::Io { ref context, .. } if context.starts_with("creating the log") => self.state.clone(),
            Error::Io { .. } if self.state == after => after,
            // A real heap maps its file, and would get a fault where the simulator's read fails.
            Error::Io { .. } if self.how.failing.is_some_and(|failing| failing.call == Call::Read) => {
                self.state.clone()
            }
            other => return Err(format!("on a failing disk, an operation says: {other:?}")),
        };
        if !matches!(error, Error::Io { .. }) {
            self.must_be_shut()?;
        }
        self.end()?;
        self.open_after(expected)
    }

    /// Checks that syncs and checkpoints fail. If the first root can be found, checks that reads fail, and,
    /// if it has its first layout, transactions.
    fn must_be_shut(&mut self) -> Result<(), String> {
        let heap = self.heap.as_ref().expect("it is open");
        let name = Run::name(&self.state, Which::A);
        let said = |what: &str, result: Result<pheap::Result<()>, String>| match result? {
            Err(Error::Failed { .. }) => Ok(()),
            other => Err(format!("after the disk has failed, {what} says {other:?}")),
        };
        said("a sync", catching(|| Ok(heap.sync())))?;
        said("a checkpoint", catching(|| Ok(heap.checkpoint())))?;
        if self.state.roots.contains_key(&name)
            && let Ok(root) = found(heap, &mut self.handles, &name)
        {
            said("a read", catching(|| Ok(root.read(|_| ()))))?;
            let Found::First(root) = root else { return Ok(()) };
            let mut model = self.state.roots[&name].clone();
            said("a transaction", catching(|| Ok(ops::one(&root, &mut model, One::Set, 1))))?;
        }
        Ok(())
    }

    /// Opens a heap that was closed because its disk had failed. `after` is its state if all writes have
    /// reached the disk. The heap must hold the state after the last acknowledged step, or a later one. If
    /// the page cache has forgotten data, the last step that survives a power failure counts instead.
    pub(super) fn open_after(&mut self, after: State) -> Result<(), String> {
        self.trace.states.push(after);
        let evicted = self.heal();
        let found = self.reopen()?;
        let (acknowledged, safe) = self.acknowledged;
        let allowed = &self.trace.states[if evicted { safe } else { acknowledged }..];
        if !allowed.contains(&found) {
            let text = allowed.iter().map(|state| state.difference(&found)).collect::<Vec<_>>().join(" or\n");
            return Err(format!(
                "after a call of the disk has failed, the heap does not hold what it should:\n{text}"
            ));
        }
        self.state = found.clone();
        self.trace.states.push(found);
        self.acknowledge_opening();
        self.look()
    }

    /// Makes a checkpoint, and runs a transaction in the middle of its first sync of the heap's file. If
    /// there was no such sync, runs the transaction after a checkpoint that succeeds.
    pub(super) fn set_amid_checkpoint(&mut self) -> Result<(), String> {
        let medium = self.medium.clone();
        self.step(|heap, handles, state, value| {
            let name = Run::name(state, Which::A);
            let root = handle(heap, handles, &name)?;
            let mut model = state.roots[&name].clone();
            let (told, done) = channel();
            let set = {
                let (root, mut model) = (root.clone(), model.clone());
                move || told.send(ops::one(&root, &mut model, One::Set, value)).expect("it is waited for")
            };
            let disk = medium.disk();
            if let Some(disk) = disk {
                disk.amid_sync(File::Data, Some(Box::new(set)));
            }
            let checkpoint = heap.checkpoint();
            if let Some(disk) = disk {
                disk.amid_sync(File::Data, None);
            }
            let set = match done.try_recv() {
                Ok(set) => {
                    ops::set_model(&mut model, value);
                    set
                }
                Err(_) if checkpoint.is_ok() => ops::one(&root, &mut model, One::Set, value),
                Err(_) => Ok(()),
            };
            state.roots.insert(name, model);
            match (set, checkpoint) {
                // The transaction is committed, but the operation is not complete.
                (Ok(()), Err(Error::Failed { reason })) => {
                    Err(Error::OutcomeUnknown { source: std::io::Error::other(reason) })
                }
                (set, checkpoint) => set.and(checkpoint),
            }
        })
    }
}
