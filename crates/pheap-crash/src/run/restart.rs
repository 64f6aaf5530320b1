//! Opens heaps, ends processes, and opens the heaps again.

use super::{Phase, Run, bases, catching, first_of, no_panic};
use crate::medium::{Content, Medium, Snapshot};
use crate::model::State;
use crate::objects::{Seen, base, see};
use crate::program::Change;
use pheap_testkit::Rng;

impl Run {
    /// Replaces the medium by one with this content, which begins a phase. Returns an error if a word of the
    /// old medium changed that was not announced.
    pub(super) fn change_medium(&mut self, content: Content) -> Result<(), String> {
        first_of(&self.medium.violations())?;
        self.count();
        let start = if self.how.silent { Content::default() } else { content.clone() };
        self.medium = Medium::new(content);
        self.spoil();
        if self.how.silent {
            self.medium.be_silent();
        }
        self.trace.phases.push(Phase { start, points: Vec::new() });
        self.medium.acknowledge(self.acknowledged.0, self.acknowledged.1);
        Ok(())
    }

    /// Opens the heap, and reads it.
    pub(super) fn reopen(&mut self) -> Result<State, String> {
        self.open_heap()?;
        Ok(self.observe_opened()?.state)
    }

    /// Reads a heap that was just opened. If a call of the disk has failed, stops failing calls, opens the
    /// heap again, and reads it once more.
    pub(super) fn observe_opened(&mut self) -> Result<Seen, String> {
        match self.observe() {
            // Reading may check the heap, and a check writes pending changes.
            Err(_) if self.is_failing() => {
                self.end()?;
                self.heal();
                self.open_heap()?;
                self.observe()
            }
            found => found,
        }
    }

    /// Opens the heap. If a call of the disk fails, stops failing calls and opens it once more.
    pub(super) fn open_heap(&mut self) -> Result<(), String> {
        let options = super::options(self.setting, self.base);
        let open = |medium: &Medium| catching(|| Ok(medium.open(&options)));
        let heap = match open(&self.medium)? {
            Err(error) if self.is_failing() => {
                self.may_be_said_by_opening(&error)?;
                self.heal();
                open(&self.medium)?.map_err(|error| format!("opening fails, and fails again: {error}"))
            }
            result => result.map_err(|error| format!("opening fails: {error}")),
        };
        self.heap = Some(heap?);
        Ok(())
    }

    /// Notes that the heap was opened and its state is known.
    pub(super) fn acknowledge_opening(&mut self) {
        self.collect();
        self.lost = false;
        self.tell(true);
    }

    pub(super) fn observe(&mut self) -> Result<Seen, String> {
        let heap = self.heap.as_ref().expect("it is open");
        let seen = catching(|| see(heap, &mut self.handles))?;
        self.owned = seen.owned();
        Ok(seen)
    }

    /// Ends the process in one of the ways, and opens the heap again.
    pub(super) fn restart(&mut self, how: Change) -> Result<(), String> {
        let heap = self.let_go().expect("it is open");
        let free = heap.stats().free_bytes;
        if matches!(how, Change::Relocate | Change::Move) {
            let bases = bases();
            let now = bases.iter().position(|&at| at == base(&heap)).expect("it is at one of these");
            self.base = Some(bases[(now + 1) % bases.len()]);
        }
        let on_disk = self.medium.disk().is_some();
        let was_quiet = self.quiet;
        let content = if matches!(how, Change::Close | Change::Move) || (on_disk && how == Change::Convert) {
            if let Err(error) = catching(|| Ok(heap.close()))? {
                if !self.is_failing() {
                    return Err(format!("closing fails: {error}"));
                }
                return self.open_after(self.state.clone());
            }
            self.acknowledged.1 = self.acknowledged.0;
            if on_disk {
                self.medium.acknowledge(self.acknowledged.0, self.acknowledged.1);
            }
            self.collect();
            let content = self.medium.end();
            if how == Change::Convert { content.in_memory(self.failures() == 0)? } else { content }
        } else {
            self.collect();
            let content = self.left(how);
            // Closes the heap, on a medium that is no longer used.
            no_panic(|| drop(heap))?;
            content
        };
        // A heap that moves from memory to a disk is not durable before it is opened there: it is lost if the
        // power fails. So these points are not explored.
        self.quiet |= how == Change::Convert && !on_disk;
        let newest_may_be_gone = self.setting.lazy && matches!(how, Change::Power | Change::Torn);
        self.lost |= newest_may_be_gone;
        self.change_medium(content)?;
        let found = self.reopen()?;
        self.collect();
        self.quiet = was_quiet;
        if newest_may_be_gone && self.trace.states[self.acknowledged.1..].contains(&found) {
            self.state = found.clone();
        }
        self.trace.states.push(self.state.clone());
        self.acknowledge_opening();
        let free_now = self.heap.as_ref().map_or(0, |heap| heap.stats().free_bytes);
        // Memory that a collection has freed may be garbage again if the records of that are not durable.
        let forgets = self.setting.lazy && !matches!(how, Change::Close | Change::Move);
        if free_now < free && self.failures() == 0 && !forgets {
            return Err(format!("{} bytes of pages are lost", free - free_now));
        }
        self.compare(&found)
    }

    /// Returns the content that the next process finds if this one ends in this way, which is not an orderly
    /// one.
    fn left(&self, how: Change) -> Content {
        let phase = self.trace.phases.last().expect("there is one");
        let (point, _) = phase.points.last().expect("the last step was acknowledged");
        let mut rng = Rng::new(&[self.steps() as u64]);
        let killed = matches!(how, Change::Kill | Change::Relocate | Change::Convert);
        let chosen: Vec<bool> = match how {
            _ if killed => vec![true; point.pending()],
            Change::Power => vec![false; point.pending()],
            _ => (0..point.pending()).map(|_| rng.chance(128)).collect(),
        };
        let now = Snapshot::new(self.medium.durable());
        let left = now.left(point, &chosen, killed);
        match (how, left) {
            (Change::Convert, left @ Content::Memory(..)) => phase.start.clone().mapped(&left.words()),
            (_, left) => left,
        }
    }
}
