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
    /// Adds the calls on the current medium to the counters, before the medium is replaced.
    pub(super) fn count(&mut self) {
        for key in fault::kinds() {
            *self.calls.entry(key).or_default() += self.medium.calls(key.0, key.1);
        }
        self.failed += self.medium.failed();
    }

    /// Returns the number of calls of each kind.
    pub(super) fn all_calls(mut self) -> Calls {
        self.count();
        self.calls.clone()
    }

    /// Returns the number of calls that have failed so far.
    pub(crate) fn failures(&self) -> usize {
        self.failed + self.medium.failed()
    }

    /// Sets up the failing call and the short writes of a new medium.
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

    /// Stops failing calls. Returns whether the page cache has forgotten data that was not durable.
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

    /// Checks that a failing disk can cause this error of an opening. A damaged file is not such an error.
    pub(super) fn may_be_said_by_opening(&self, error: &Error) -> Result<(), String> {
        match error {
            Error::Io { .. }
            | Error::Failed { .. }
            | Error::OutOfSpace { .. }
            | Error::OutcomeUnknown { .. } => Ok(()),
            other => Err(format!("opening a heap on a failing disk says: {other}")),
        }
    }

    /// Recovers from an error of an operation that would have led to the state `after`. The heap must refuse
    /// further operations, and have all acknowledged operations when it is opened again.
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
            // Nothing has changed, and the program may try again.
            Error::Io { ref context, .. } if context.starts_with("creating the log") => self.state.clone(),
            Error::Io { .. } if self.state == after => after,
            // The simulator reads mapped pages, where a real heap would get a fault.
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

    /// Checks that reads, transactions, syncs and checkpoints all fail.
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
    /// reached the disk.
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

    /// Runs a transaction in the middle of a checkpoint: its pages are written, and private pages are not
    /// released yet.
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
