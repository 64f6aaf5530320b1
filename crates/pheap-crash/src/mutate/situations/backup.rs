//! A backup: its header says that it was closed, and the logs of its roots are not empty.

use pheap_testkit::{PAGE, patch_header};

use super::{Start, crash_everywhere};
use crate::medium::{Content, Snapshot};
use crate::program::{Op, Setting};
use crate::run::Run;

/// Word of a header that tells how a heap is in use.
const IN_USE: usize = 16;

/// Opens a backup with a write-ahead log several times, and cuts the power at each point.
pub(super) fn with_a_log(start: Start) -> Result<(), String> {
    let set: Op = "set a".parse()?;
    let mut run = Run::open(Setting::default(), start.content, Some(start.state), 1)?;
    run.op(set)?;
    let state = run.state().clone();
    let trace = run.finish()?;
    let phase = trace.phases.last().ok_or("there is no phase")?;
    let mut now = Snapshot::new(phase.start.clone());
    phase.points.iter().for_each(|(point, _)| now.advance(point));
    let (last, _) = phase.points.last().ok_or("there is no point")?;
    let mut image = now.left(last, &vec![true; last.pending()], false).image();
    [0, PAGE].into_iter().for_each(|slot| patch_header(&mut image.data, slot, IN_USE, 0));
    let backup = Content::Disk(image, Vec::new());

    let setting = Setting { wal: true, ..Setting::default() };
    let mut run = Run::open(setting, backup, Some(state), 2)?;
    for op in [set, "close".parse()?, set, "kill".parse()?] {
        run.op(op)?;
    }
    let trace = run.finish()?;
    for phase in &trace.phases {
        let points: Vec<_> = phase.points.iter().map(|(point, _)| point.clone()).collect();
        for point in &points {
            let allowed = trace.allowed(point);
            let is_this = |other: &_| std::ptr::eq(point, other);
            crash_everywhere(phase.start.clone(), &points, is_this, |content| {
                let mut run = Run::open(setting, content, None, 3)?;
                if !allowed.contains(run.state()) {
                    return Err(allowed[0].difference(run.state()));
                }
                run.op(set)?;
                run.op("close".parse()?)?;
                run.finish().map(drop)
            })?;
        }
    }
    Ok(())
}
