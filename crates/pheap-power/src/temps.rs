//! Roots that come and go: created, renamed, removed. Each thread has one at most.

use pheap::{Heap, Root};

use crate::content::{Temp, mix, new_temp, step_temp, verify_temp};
use crate::{Result, say, text};

/// The root of a thread, if there is one.
pub struct Life {
    thread: u64,
    root: Option<Alive>,
}

struct Alive {
    kept: bool,
    number: u64,
    root: Root<Temp<'static>>,
}

fn name(kept: bool, thread: u64, number: u64) -> String {
    format!("{} {thread} {number}", if kept { "kept" } else { "temp" })
}

/// What its content is made from.
fn key(thread: u64, number: u64) -> u64 {
    mix(mix(thread) ^ number)
}

impl Life {
    /// Finds and verifies the root of a thread.
    pub fn find(heap: &Heap, thread: u64) -> Result<Life> {
        let mut root = None;
        for info in heap.roots() {
            let words: Vec<&str> = info.name.split(' ').collect();
            let [kind @ ("temp" | "kept"), of, number] = words[..] else { continue };
            let (Ok(of), Ok(number)) = (of.parse::<u64>(), number.parse::<u64>()) else { continue };
            if of != thread {
                continue;
            }
            let handle: Root<Temp<'static>> = heap.existing_root(&info.name).map_err(text)?;
            handle.read(|view, temp| verify_temp(view, temp, key(thread, number))).map_err(text)??;
            if root.replace(Alive { kept: kind == "kept", number, root: handle }).is_some() {
                return Err(format!("thread {thread} has two roots that come and go"));
            }
        }
        Ok(Life { thread, root })
    }

    pub fn exists(&self) -> bool {
        self.root.is_some()
    }

    /// Says what there is.
    pub fn say(&self, word: &str) {
        let thread = self.thread;
        match &self.root {
            None => say(format_args!("{word} {thread} none")),
            Some(Alive { kept, number, .. }) => {
                say(format_args!("{word} {thread} {} {number}", if *kept { "kept" } else { "temp" }));
            }
        }
    }

    /// The next thing in its life. `number` is for a new one.
    pub fn go_on(&mut self, heap: &Heap, number: u64) -> pheap::Result<()> {
        let thread = self.thread;
        match &mut self.root {
            None => {
                let root =
                    heap.root_or(&name(false, thread, number), |tx| new_temp(tx, key(thread, number)))?;
                self.root = Some(Alive { kept: false, number, root });
            }
            Some(alive) if !alive.kept => {
                heap.rename_root(&name(false, thread, alive.number), &name(true, thread, alive.number))?;
                alive.kept = true;
            }
            Some(alive) => {
                heap.remove_root(&name(true, thread, alive.number))?;
                self.root = None;
            }
        }
        self.say("life");
        Ok(())
    }

    /// A transaction on it, if it is there.
    pub fn change(&self) -> pheap::Result<()> {
        self.root.as_ref().map_or(Ok(()), |alive| alive.root.txn(step_temp))
    }
}
