//! Gates before the shards: where a thread waits that must not wait for a slow script of another one.
//!
//! Who has passed a shard's gate finds the shard free, or free soon. So nobody is stuck in a lock of the heap while a script goes on and on: he is still at the gate, and learns that the script has
//! become slow. If there is one thread only, and no link to a master, there is nobody to wait for, and the gates stay open.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use smallvec::SmallVec;

use crate::scripts::Scripts;

/// How long a thread waits until it asks again whether a script has become slow.
const PATIENCE: Duration = Duration::from_millis(5);

/// A gate for each shard.
#[derive(Debug)]
pub struct Gates {
    gates: Vec<RwLock<()>>,
    are_used: AtomicBool,
}

/// A script is slow, so nobody waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy;

/// Gates that were passed.
#[derive(Debug)]
#[must_use = "they are open again when this is dropped"]
pub struct Passed<'g> {
    #[expect(dead_code, reason = "it is what keeps them shut")]
    guards: SmallVec<[Guard<'g>; 2]>,
}

#[derive(Debug)]
#[expect(dead_code, reason = "it is what keeps the gate shut")]
enum Guard<'g> {
    Shared(RwLockReadGuard<'g, ()>),
    Alone(RwLockWriteGuard<'g, ()>),
}

impl Gates {
    /// Gates for so many shards. They are not used if there is one thread.
    pub fn new(shards: usize, threads: usize) -> Gates {
        let gates = (0..shards).map(|_| RwLock::new(())).collect();
        Gates { gates, are_used: AtomicBool::new(threads > 1) }
    }

    /// There is one more thread, from now on: they are used. Called by the only other one, or before there are any.
    pub fn begin(&self) {
        self.are_used.store(true, Relaxed);
    }

    fn get(&self, shard: usize) -> Option<&RwLock<()>> {
        self.gates.get(shard).filter(|_| self.are_used.load(Relaxed))
    }

    /// Passes the gates of shards, in ascending order: alone, or with others who only look.
    ///
    /// # Errors
    /// If a slow script is behind one of them.
    pub fn pass(
        &self,
        shards: impl IntoIterator<Item = usize>,
        is_alone: bool,
        scripts: &Scripts,
    ) -> Result<Passed<'_>, Busy> {
        let mut guards = SmallVec::new();
        for gate in shards.into_iter().filter_map(|shard| self.get(shard)) {
            let guard = loop {
                let guard = if is_alone {
                    gate.try_write_for(PATIENCE).map(Guard::Alone)
                } else {
                    gate.try_read_for(PATIENCE).map(Guard::Shared)
                };
                match guard {
                    Some(guard) => break guard,
                    None if scripts.is_busy() => return Err(Busy),
                    None => {}
                }
            };
            guards.push(guard);
        }
        Ok(Passed { guards })
    }

    /// Passes a shard's gate alone, if nobody is behind it.
    pub fn try_pass(&self, shard: usize) -> Option<Passed<'_>> {
        let Some(gate) = self.get(shard) else { return Some(Passed { guards: SmallVec::new() }) };
        let guard = Guard::Alone(gate.try_write()?);
        Some(Passed { guards: SmallVec::from_iter([guard]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripts::Slow;
    use std::sync::Arc;
    use std::time::Instant;

    #[test]
    fn nobody_waits_for_a_slow_script() {
        let (gates, scripts) = (Gates::new(3, 2), Scripts::default());
        let script = gates.pass([0, 2], true, &scripts).unwrap();
        assert!(gates.try_pass(0).is_none() && gates.try_pass(1).is_some());
        let slow = Arc::new(Slow {
            is_eval: true,
            is_of_master: false,
            name: String::new(),
            command: Vec::new(),
            started: Instant::now(),
            has_written: false.into(),
            is_killed: false.into(),
        });
        scripts.begin_slow(slow.clone());
        assert_eq!(gates.pass([1, 2], false, &scripts).unwrap_err(), Busy);
        assert!(gates.try_pass(1).is_some(), "the one that was passed is open again");
        scripts.end_slow(&slow);
        drop(script);
        let others = [gates.pass([2], false, &scripts).unwrap(), gates.pass([2], false, &scripts).unwrap()];
        assert!(gates.try_pass(2).is_none());
        drop(others);
        assert!(gates.try_pass(2).is_some());
    }
}
