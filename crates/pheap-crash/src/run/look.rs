//! Checks of a run in addition to the content of the roots: of held pointers, of live objects, and of the
//! whole heap.

use crate::report::Said;
use pheap::{Heap, Report};

use super::{Run, THIRD, catching};
use crate::model::State;
use crate::objects::{found, list, owned};
use crate::program::Which;

impl Run {
    fn heap(&self) -> &Heap {
        self.heap.as_ref().expect("it is open")
    }

    pub(super) fn compare(&self, found: &State) -> Result<(), String> {
        if *found == self.state {
            return Ok(());
        }
        Err(format!("the heap holds something else than was written:\n{}", self.state.difference(found)))
    }

    /// Checks the held pointers, and that at least as many objects count as live as can be reached, if the
    /// heap is ready.
    pub(super) fn look(&mut self) -> Result<(), String> {
        self.look_at_held()?;
        let (stats, objects) = (self.heap().stats(), self.objects());
        if stats.ready && stats.live_objects < objects {
            return Err(format!("{objects} objects can be reached, but {} are live", stats.live_objects));
        }
        Ok(())
    }

    /// Returns the number of objects that are reachable from roots and held pointers. The model has those
    /// outside of collections. The last reading counted those of collections.
    fn objects(&self) -> u64 {
        let of = |which: Which| {
            let root = self.state.roots.get(&Run::name(&self.state, which))?;
            let held = self.held[which as usize].as_ref();
            Some(root.objects(held.map_or(&[], |(_, values)| values)))
        };
        let third = self.state.roots.get(THIRD).map(|root| root.objects(&[]));
        [of(Which::A), of(Which::B), third].into_iter().flatten().sum::<u64>() + self.owned
    }

    /// Checks that the lists behind held pointers are unchanged.
    pub(super) fn look_at_held(&mut self) -> Result<(), String> {
        let heap = self.heap.as_ref().expect("it is open");
        for which in [Which::A, Which::B] {
            let Some((held, values)) = &self.held[which as usize] else { continue };
            let name = Run::name(&self.state, which);
            let root = found(heap, &mut self.handles, &name).said()?;
            let read = || root.read(|view| list(heap, view, view.get(held).said()?)).said()?;
            let found = catching(read)?;
            if found != *values {
                return Err(format!("what is held of {name:?} is {found:?}, should be {values:?}"));
            }
        }
        Ok(())
    }

    /// Collects all garbage. Then as many objects must be live as can be reached. That is not checked if a
    /// call of the disk fails.
    pub fn collect_all(&mut self) -> Result<(), String> {
        let failures = self.failures();
        self.step(|heap, _, _, _| {
            heap.wait_ready()?;
            heap.collect()
        })?;
        if self.failures() > failures {
            return Ok(()); // the heap was opened again, and not collected
        }
        let (stats, objects) = (self.heap.as_ref().expect("it is open").stats(), self.objects());
        if !stats.ready || stats.live_objects != objects {
            return Err(format!(
                "after a collection, {} objects are live, not {objects}",
                stats.live_objects
            ));
        }
        Ok(())
    }

    /// Checks the consistency of the heap, and the number of its objects.
    pub fn check(&self) -> Result<(), String> {
        self.check_settled(None)
    }

    /// Does the same with the report of a check, if there was one after the last change of the heap.
    pub fn check_settled(&self, report: Option<Report>) -> Result<(), String> {
        let check = || catching(|| self.heap().check().said());
        let report = report.map_or_else(check, Ok)?;
        let objects: u64 = self.state.roots.values().map(|root| root.objects(&[])).sum();
        let owned = owned(&report);
        if !report.is_clean() || report.objects != objects + owned {
            let expected = format!("{objects} objects and {owned} of collections");
            return Err(format!("a check of the heap, which should have {expected}, says: {report}"));
        }
        Ok(())
    }
}
