//! Threads that look while another one ends that, in a model.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use super::Accesses;
use crate::sync::model::explore;

/// Those who look, and what they look at.
struct Region {
    accesses: Accesses,
    memory: UnsafeCell<bool>,
}

// SAFETY: `accesses` says who may touch the memory: that is what is tested.
unsafe impl Sync for Region {}

/// Nobody sees what is done to memory after the end.
#[test]
fn nobody_looks_after_the_end() {
    explore(|| {
        let region = Arc::new(Region { accesses: Accesses::default(), memory: UnsafeCell::new(true) });
        let look = |region: &Region| {
            if let Some(_access) = region.accesses.begin() {
                // SAFETY: nobody writes before the end; the model looks whether that is so.
                assert!(region.memory.with(|memory| unsafe { *memory }));
            }
        };
        let other = region.clone();
        let reader = thread::spawn(move || look(&other));
        let other = region.clone();
        let second = thread::spawn(move || look(&other));
        region.accesses.end();
        // SAFETY: nobody looks after the end; the model looks whether that is so.
        region.memory.with_mut(|memory| unsafe { *memory = false });
        reader.join().unwrap();
        second.join().unwrap();
    });
}
