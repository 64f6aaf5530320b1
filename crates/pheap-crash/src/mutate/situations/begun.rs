//! A closed heap gets a log. Its content may be in the page cache only, because a sync of the process that
//! closed it failed.

use crate::report::Said;

use pheap::sim::disk::{Call, Fault, Which as File};
use pheap::{Durability, Error, Heap};

use super::mapped::{EIO, disk};
use super::{crash_everywhere, must_hold};
use crate::medium::{Content, Medium, Moment};
use crate::model::State;
use crate::objects::{Handles, handle, observe};
use crate::ops;
use crate::program::{One, Setting};
use crate::run::{Ready, Run, options};
use pheap_testkit::Rng;

/// Fails each sync of a heap's file once, while the heap is open as `Process`, changed and closed. Another
/// process opens it with a log, perhaps syncs it, and changes it. Between the opening and the sync, the page
/// cache may forget data of the failed sync.
pub(super) fn explore([_, _, (content, state), _]: &Ready) -> Result<(), String> {
    for (syncs, evicts) in [(false, false), (false, true), (true, false), (true, true)] {
        for after in 0.. {
            let disk = disk(content.clone().image());
            disk.fail(Fault { which: File::Data, call: Call::Datasync, after, times: 1, error: EIO });
            let logged = options(Setting::default(), None).verify(true);
            let mut second = state.clone();
            let mapped = logged.clone().durability(Durability::Process).simulate_disk(&disk);
            let closed = mapped.and_then(|heap| {
                set(&heap, &mut second, 5)?;
                heap.close()
            });
            let failed = disk.failed() > 0;
            if let (Err(error), false) = (closed, failed) {
                return Err(error.to_string());
            }
            disk.heal();
            let wrong = |error| {
                format!("sync {after} of a process fails (syncs: {syncs}, evicts: {evicts}): {error}")
            };
            let medium = Medium::Disk(disk.clone());
            medium.take_points();
            let before = medium.durable();
            let heap = logged.simulate_disk(&disk).said().map_err(wrong)?;
            if evicts {
                let mut rng = Rng::new(&[after as u64]);
                disk.evict(|| rng.chance(128));
            }
            let first = observe(&heap, &mut Handles::new())?;
            if syncs {
                heap.sync().said().map_err(wrong)?;
                medium.acknowledge(1, 1);
            }
            let mut last = first.clone();
            set(&heap, &mut last, 6).said().map_err(wrong)?;
            medium.acknowledge(2, 2);
            heap.close().said().map_err(wrong)?;
            look(before, &medium.take_points(), [state, &second, &first, &last]).map_err(wrong)?;
            if !failed {
                break;
            }
        }
    }
    Ok(())
}

/// Sets a field of the first root.
fn set(heap: &Heap, state: &mut State, value: u64) -> pheap::Result<()> {
    let root = handle(heap, &mut Handles::new(), "a")?;
    ops::one(&root, state.roots.get_mut("a").expect("there is one"), One::Set, value)
}

/// Cuts the power at each point. After the change was acknowledged, the heap must have the last state. After
/// the sync was acknowledged, it must have one of the last two. Before, it may have any of the states. It may
/// also be refused because it was not closed, and only for that reason, even if the disk has torn writes.
fn look(before: Content, points: &[Moment], states: [&State; 4]) -> Result<(), String> {
    let refused = Error::NotClosed.to_string();
    let told = |number: usize| move |point: &Moment| point.acknowledged().1 == number;
    let holds = |content, states: &[&State]| {
        let run = Run::open(Setting::default(), content, None, 3)?;
        if states.contains(&run.state()) {
            run.finish().map(drop)
        } else {
            Err(states[0].difference(run.state()))
        }
    };
    crash_everywhere(before.clone(), points, told(0), |content| match holds(content, &states) {
        Err(error) if error.contains(&refused) => Ok(()),
        held => held,
    })?;
    crash_everywhere(before.clone(), points, told(1), |content| holds(content, &states[2..]))
        .map_err(|error| format!("synced, {error}"))?;
    crash_everywhere(before, points, told(2), |content| must_hold(content, states[3]))
        .map_err(|error| format!("changed, {error}"))
}
