//! A heap that is opened as `Process` in a file on a disk. Its content may be in the page cache only, because
//! a sync failed or a process was killed.

use crate::report::Said;
use std::sync::Arc;

use pheap::sim::disk::{Call, DiskImage, Fault, SimDisk, Which as File};
use pheap::{Durability, Error};

use super::{crash_everywhere, must_hold};
use crate::medium::{Content, Medium, Moment, Snapshot};
use crate::model::State;
use crate::objects::{Handles, handle, observe};
use crate::ops;
use crate::program::{One, Setting};
use crate::run::{Ready, Run, bases, options};
use pheap_testkit::Rng;

pub(super) const EIO: i32 = 5;
/// The `few` of [`Moment::kills`]: at most this number of killed processes at a point, and two more.
const KILLS: usize = 1;

/// Fails each sync of a heap's file once, while the heap is prepared for a log, has one, and is closed.
pub(super) fn explore([_, _, closed, crashed]: &Ready) -> Result<(), String> {
    for (what, (content, state), base) in [
        ("a closed heap", closed, None),
        ("a closed heap that moves", closed, Some(bases()[1])),
        ("a heap that was not closed", crashed, None),
    ] {
        let image = content.clone().image();
        for after in 0.. {
            let wrong = |error| format!("{what}, of which sync {after} fails: {error}");
            let disk = disk(image.clone());
            disk.fail(Fault { which: File::Data, call: Call::Datasync, after, times: 1, error: EIO });
            let logged = options(Setting::default(), base).simulate_disk(&disk).and_then(|heap| heap.close());
            let failed = disk.failed() > 0;
            if let (Err(error), false) = (logged, failed) {
                return Err(wrong(error.to_string()));
            }
            disk.heal();
            let points = use_mapped(&disk, state, 5).map_err(wrong)?;
            if !failed {
                killed(&points, state)?;
                break;
            }
        }
    }
    Ok(())
}

pub(super) fn disk(image: DiskImage) -> Arc<SimDisk> {
    let disk = SimDisk::new(image);
    disk.tear();
    Arc::new(disk)
}

/// Opens the heap as `Process`, changes it to `value`, closes it, and cuts the power at each point. Returns
/// the durable content before, and the points.
fn use_mapped(disk: &Arc<SimDisk>, state: &State, value: u64) -> Result<(Content, Vec<Moment>), String> {
    let medium = Medium::Disk(disk.clone());
    medium.take_points();
    let before = medium.durable();
    // In the same boot as the last use.
    let mapped = options(Setting::default(), None).durability(Durability::Process).verify(true);
    let heap =
        mapped.simulate_disk(disk).map_err(|error| format!("opening it as `Process` fails: {error}"))?;
    let mut handles = Handles::new();
    let first = observe(&heap, &mut handles)?;
    let set = |last: &mut State, value: u64| {
        let root = handle(&heap, &mut Handles::new(), "a").said()?;
        let model = last.roots.get_mut("a").ok_or("there is no root")?;
        ops::one(&root, model, One::Set, value).said()
    };
    let (mut last, mut expected) = (first.clone(), state.clone());
    set(&mut last, value)?;
    set(&mut expected, value)?; // a process that was killed may have set another value
    if expected != last {
        return Err(expected.difference(&last));
    }
    handles.clear();
    heap.close().map_err(|error| format!("closing it fails: {error}"))?;
    medium.acknowledge(1, 1);
    let points = medium.take_points();
    let closed = |point: &Moment| point.acknowledged().1 == 1;
    crash_everywhere(before.clone(), &points, closed, |content| must_hold(content, &last))
        .map_err(|error| format!("closed, {error}"))?;
    // Before the close, the heap may be refused because it was not closed, and only for that reason, even if
    // the disk has torn writes.
    let refused = Error::NotClosed.to_string();
    let whole = |content| match Run::open(Setting::default(), content, None, 3) {
        Err(error) if error.contains(&refused) => Ok(()),
        Err(error) => Err(error),
        Ok(run) if [state, &first, &last].contains(&run.state()) => run.finish().map(drop),
        Ok(run) => Err(state.difference(run.state())),
    };
    crash_everywhere(before.clone(), &points, |_| true, whole)?;
    Ok((before, points))
}

/// Kills that process at each point, at a few moments. Another process opens the content that the kernel has
/// then.
fn killed((before, points): &(Content, Vec<Moment>), state: &State) -> Result<(), String> {
    let mut now = Snapshot::new(before.clone());
    for (at, point) in points.iter().enumerate() {
        now.advance(point);
        for chosen in point.kills(KILLS, &mut Rng::new(&[at as u64])) {
            let Content::Disk(image, pending) = now.left(point, &chosen, true) else {
                unreachable!("it is one")
            };
            let disk = SimDisk::with_pending(image, &pending);
            disk.tear();
            use_mapped(&Arc::new(disk), state, 6)
                .map_err(|error| format!("a process is killed at point {at} ({}): {error}", point.at()))?;
        }
    }
    Ok(())
}
