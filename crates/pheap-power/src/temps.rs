//! Temporary roots: a thread creates, renames and removes one, again and again.

use pheap::{Heap, Persist, Root};

use pheap_testkit::rng::mix;

use crate::content::{Temp, new_temp, step_temp, verify_temp};
use crate::{Result, say, text};

/// The temporary root of a thread, if it has one.
pub struct Life {
    thread: u64,
    /// Number of steps so far. After `3 k` steps there is no root. The next step creates root `k`, and the
    /// one after that renames it.
    steps: u64,
    root: Option<Root<Temp<'static>>>,
}

/// Counts a step, in a separate transaction, before the step is made. After a power cut, the count includes
/// steps whose lines were lost in the machine.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Steps {
    begun: u64,
}

/// Returns the name of the root after this number of steps, if there is one.
fn name(thread: u64, steps: u64) -> Option<String> {
    let kind = [None, Some("temp"), Some("kept")][(steps % 3) as usize]?;
    Some(format!("{kind} {thread} {}", steps / 3))
}

/// Returns the number that the content of the root is computed from.
fn key(thread: u64, steps: u64) -> u64 {
    mix(mix(thread) ^ (steps / 3))
}

/// Returns the name of the root that counts the steps.
fn steps_name(thread: u64) -> String {
    format!("steps {thread}")
}

impl Life {
    /// Finds and verifies the temporary root of a thread. Also returns the names of all roots of the thread.
    pub fn find(heap: &Heap, thread: u64) -> Result<(Life, Vec<String>)> {
        let count = heap.existing_root::<Steps>(&steps_name(thread));
        let begun = match count {
            Ok(count) => count.read(|view, steps| view[steps].begun).map_err(text)?,
            Err(pheap::Error::NoSuchRoot(_)) => {
                return Ok((Life { thread, steps: 0, root: None }, Vec::new()));
            }
            Err(error) => return Err(text(error)),
        };
        let there =
            |steps| name(thread, steps).filter(|name| heap.roots().iter().any(|root| root.name == *name));
        let mut names = vec![steps_name(thread)];
        // The last step that was begun was made, or was not. If `begun` is not 0, and there is no root after
        // one of the two, there is one after the other.
        let before = begun.saturating_sub(1);
        let (steps, root) = match (there(begun), there(before)) {
            (Some(name), _) => (begun, Some(name)),
            (None, Some(name)) if before < begun => (before, Some(name)),
            _ if begun % 3 == 0 => (begun, None),
            _ if before % 3 == 0 => (before, None),
            _ => return Err(format!("lost: thread {thread} has no root after {before} or {begun} steps")),
        };
        let root = match root {
            None => None,
            Some(name) => {
                let root: Root<Temp<'static>> = heap.existing_root(&name).map_err(text)?;
                root.read(|view, temp| verify_temp(view, temp, key(thread, steps))).map_err(text)??;
                names.push(name);
                Some(root)
            }
        };
        Ok((Life { thread, steps, root }, names))
    }

    /// Prints this word, the thread and the number of its steps.
    pub fn say(&self, word: &str) {
        say(format_args!("{word} {} {}", self.thread, self.steps));
    }

    /// Makes the next step.
    pub fn go_on(&mut self, heap: &Heap) -> pheap::Result<()> {
        let (thread, steps) = (self.thread, self.steps + 1);
        let count: Root<Steps> = heap.root(&steps_name(thread))?;
        count.txn(|tx, count| {
            tx[count].begun = steps;
            Ok(())
        })?;
        match (name(thread, self.steps), name(thread, steps)) {
            (None, Some(new)) => {
                self.root = Some(heap.root_or(&new, |tx| new_temp(tx, key(thread, steps)))?);
            }
            (Some(old), Some(new)) => heap.rename_root(&old, &new)?,
            (Some(old), None) => {
                heap.remove_root(&old)?;
                self.root = None;
            }
            (None, None) => unreachable!("of three steps, one leaves no root"),
        }
        self.steps = steps;
        self.say("life");
        Ok(())
    }

    /// Runs a transaction on the root, if there is one.
    pub fn change(&self) -> pheap::Result<()> {
        self.root.as_ref().map_or(Ok(()), |root| root.txn(step_temp))
    }
}
