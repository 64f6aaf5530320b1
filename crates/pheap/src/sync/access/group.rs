//! Upgrades the writer of several regions: waits until the writer is alone in all of them.

use super::RegionLock;
use crate::faults::{Bug, bug};
use crate::sync::gate::ClosedGates;

/// Waits until this thread, which is the writer of all these locks, is alone in all their regions. It waits
/// for the readers of one region at a time, and keeps readers out of no other region during that wait: a
/// reader of the one region may be about to read another one. If another of the regions then has readers,
/// this thread closes the gates of all: threads that arrive later, and have no region, wait until this thread
/// is alone in all regions, or until the deadline of the gates. Otherwise there might always be a reader in
/// one of the regions.
pub(crate) fn upgrade_all(locks: &[&RegionLock]) {
    let mut wait_for = 0;
    let mut gates: Option<ClosedGates<'_>> = None;
    loop {
        locks[wait_for].upgrade();
        let others = || locks.iter().enumerate().filter(|&(i, _)| i != wait_for);
        let Some((failed, _)) = others().find(|(_, lock)| !lock.try_upgrade()) else { return };
        locks[wait_for].downgrade();
        others().take_while(|&(i, _)| i != failed).for_each(|(_, lock)| lock.downgrade());
        wait_for = failed;
        match &mut gates {
            None if bug(Bug::OpenGates) => {}
            None => gates = Some(ClosedGates::close(locks.iter().map(|lock| &lock.gate).collect())),
            Some(gates) => gates.lengthen(),
        }
    }
}
