//! Gates in front of the shards. A thread that serves clients passes a shard's gate before a command locks
//! the shard, so that the thread does not block in a lock of the heap while another thread's script is slow.
//!
//! While a script holds the gate, other threads wait at the gate, where they can learn that the script has
//! become slow. With only one thread that serves clients and no link to a master, no other thread runs
//! scripts, and the gates are not used.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use smallvec::SmallVec;

use crate::scripts::Scripts;

/// How long a thread waits at a gate before it checks again whether a script has become slow.
const PATIENCE: Duration = Duration::from_millis(5);

/// A gate for each shard, and one for the function libraries.
#[derive(Debug)]
pub struct Gates {
    gates: Vec<RwLock<()>>,
    are_used: AtomicBool,
}

/// A script is slow, so the thread must not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptBusy;

/// Passed gates. Until the pass is dropped, they stay shut to other threads. Gates that were passed as a
/// reader stay open to other readers. If the gates are not used, the pass is empty.
#[derive(Debug)]
#[must_use = "they are open again when this is dropped"]
pub struct GatePass<'g> {
    #[expect(dead_code, reason = "it is what keeps them shut")]
    guards: SmallVec<[GateGuard<'g>; 2]>,
}

#[derive(Debug)]
#[expect(dead_code, reason = "it is what keeps the gate shut")]
enum GateGuard<'g> {
    Shared(RwLockReadGuard<'g, ()>),
    Alone(RwLockWriteGuard<'g, ()>),
}

impl Gates {
    /// Makes `shards` gates. If there is only one thread, the gates are not used until
    /// [`enable`](Self::enable).
    pub fn new(shards: usize, threads: usize) -> Gates {
        let gates = (0..shards).map(|_| RwLock::new(())).collect();
        Gates { gates, are_used: AtomicBool::new(threads > 1) }
    }

    /// Begins to use the gates, because the link to a master will run commands. If the gates were not in use,
    /// the caller is the only thread that serves clients, or no such thread has begun.
    pub fn enable(&self) {
        self.are_used.store(true, Relaxed);
    }

    fn get(&self, shard: usize) -> Option<&RwLock<()>> {
        self.gates.get(shard).filter(|_| self.are_used.load(Relaxed))
    }

    /// Passes the gates of shards: exclusively, or shared with other readers. The caller gives the shards in
    /// ascending order, so that threads cannot wait for each other.
    ///
    /// # Errors
    /// If another thread holds one of these gates, and a script is slow.
    pub fn pass(
        &self,
        shards: impl IntoIterator<Item = usize>,
        is_alone: bool,
        scripts: &Scripts,
    ) -> Result<GatePass<'_>, ScriptBusy> {
        let mut guards = SmallVec::new();
        for gate in shards.into_iter().filter_map(|shard| self.get(shard)) {
            let guard = loop {
                let guard = if is_alone {
                    gate.try_write_for(PATIENCE).map(GateGuard::Alone)
                } else {
                    gate.try_read_for(PATIENCE).map(GateGuard::Shared)
                };
                match guard {
                    Some(guard) => break guard,
                    None if scripts.is_busy() => return Err(ScriptBusy),
                    None => {}
                }
            };
            guards.push(guard);
        }
        Ok(GatePass { guards })
    }

    /// Passes a shard's gate exclusively, if no thread holds it. Returns None if a thread holds it.
    pub fn try_pass(&self, shard: usize) -> Option<GatePass<'_>> {
        let Some(gate) = self.get(shard) else { return Some(GatePass { guards: SmallVec::new() }) };
        let guard = GateGuard::Alone(gate.try_write()?);
        Some(GatePass { guards: SmallVec::from_iter([guard]) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripts::SlowScript;
    use std::sync::Arc;
    use std::time::Instant;

    #[test]
    fn nobody_waits_for_a_slow_script() {
        let (gates, scripts) = (Gates::new(3, 2), Scripts::default());
        let script = gates.pass([0, 2], true, &scripts).unwrap();
        assert!(gates.try_pass(0).is_none() && gates.try_pass(1).is_some());
        let slow = Arc::new(SlowScript {
            is_eval: true,
            is_of_master: false,
            name: String::new(),
            command: Vec::new(),
            started: Instant::now(),
            has_written: false.into(),
            is_killed: false.into(),
        });
        scripts.begin_slow(slow.clone());
        assert_eq!(gates.pass([1, 2], false, &scripts).unwrap_err(), ScriptBusy);
        assert!(gates.try_pass(1).is_some(), "the one that was passed is open again");
        scripts.end_slow(&slow);
        drop(script);
        let others = [gates.pass([2], false, &scripts).unwrap(), gates.pass([2], false, &scripts).unwrap()];
        assert!(gates.try_pass(2).is_none());
        drop(others);
        assert!(gates.try_pass(2).is_some());
    }
}
