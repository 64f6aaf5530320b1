//! Situations that programs of one thread and known types do not reach: other threads, files of other heaps,
//! large types.

mod backup;
mod begun;
mod deferred;
mod durable;
mod logs;
mod mapped;
mod types;

use crate::report::Said;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use pheap::sim::disk::{DiskImage, SimDisk, Which as File, differences};
use pheap::sim::mutant::{add_noted, mutant, note_sites, notes_sites, set_mutant, take_noted};
use pheap::sim::{seeded_bug, set_bug};
use pheap::{Error, Heap, Root};

use crate::layouts::Record;
use crate::medium::{Content, Medium, Moment, Snapshot};
use crate::model::State;
use crate::named::named;
use crate::program::{One, Program, Setting, Which};
use crate::run::{Ready, Run, catching, options, ready};
use crate::subset::Breadth;
use pheap_testkit::Rng;

/// Time that another thread has to do something forbidden.
const PATIENCE: Duration = Duration::from_millis(100);
const BREADTH: Breadth = Breadth { exhaustive: 8, corners: 4, random: 8 };

named! {
    /// A situation.
    pub enum Situation {
        /// A thread reads data whose commit another thread still waits for.
        Read = "a reader waits",
        /// The thread reads it in a transaction that changes nothing.
        Commit = "a reading transaction waits",
        /// In a transaction that fails.
        GiveUp = "a failing transaction waits",
        /// In a transaction over two roots that fails.
        GiveUpBoth = "a failing transaction over two roots waits",
        /// In a transaction over two roots that changes nothing.
        CommitBoth = "a reading transaction over two roots waits",
        /// The thread checks the heap.
        Check = "a check waits",
        /// The thread finds that the other thread has removed the root.
        Removed = "a handle of a root that is removed waits",
        /// The thread finds that the other thread has migrated the root.
        Migrated = "a handle of a root that is migrated waits",
        /// A heap that was closed without a sync gets a write-ahead log.
        Unsynced = "a file that nobody has synced",
        /// The write-ahead log belongs to another heap, is an older one, or is damaged.
        ForeignLog = "a log of another heap",
        /// The log belongs to a copy of the heap.
        Twins = "a log of a copy",
        /// The log of an open heap is removed.
        LogRemoved = "a log that is removed",
        /// A crash may leave spans without an owner, and an object takes the pages of many of them.
        Reused = "pages that a crash has left",
        /// The same on a disk.
        ReusedOnDisk = "pages that a crash has left on a disk",
        /// Unsynced transactions after a checkpoint write to segments of the log that were used before.
        Recycled = "segments that are used again",
        /// A type whose description is so large that the type table needs another extent.
        Types = "a large type",
        /// A heap is opened as `Process` after a sync has failed, or a process was killed.
        Mapped = "a file that is mapped when a sync has failed",
        /// A heap gets a log after the process that closed it had a failed sync.
        Begun = "a log that begins when a sync has failed",
        /// Deferred transactions: a thread waits for some of them, later.
        Deferred = "deferred commits",
        /// Snapshots of durable versions during such transactions.
        Durable = "durable snapshots",
        /// A backup whose logs are not empty gets a write-ahead log.
        Backup = "a backup with a log",
    }
}

/// Initial state of a situation.
#[derive(Debug)]
pub struct Start {
    content: Content,
    state: State,
    /// Files of other heaps: the heap, and its log.
    files: Vec<(Vec<u8>, Vec<u8>)>,
    /// The initial heaps of programs.
    ready: Ready,
}

impl Situation {
    /// Makes the initial state.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn start(self) -> Result<Start, String> {
        let ready = ready()?;
        let (content, state) = ready[2].clone();
        let files = if self == Situation::ForeignLog { logs::files()? } else { Vec::new() };
        Ok(Start { content, state, files, ready })
    }

    /// Runs the situation.
    ///
    /// # Errors
    /// The first failure.
    pub fn explore(self, start: Start) -> Result<(), String> {
        catching(|| match self {
            Situation::ForeignLog => logs::foreign_log(&start.files),
            Situation::LogRemoved => logs::log_removed(start),
            Situation::Twins => logs::twins(start),
            Situation::Types => types::explore(&start),
            Situation::Deferred => deferred::explore(start),
            Situation::Durable => durable::explore(start),
            Situation::Backup => backup::with_a_log(start),
            Situation::Mapped => mapped::explore(&start.ready),
            Situation::Begun => begun::explore(&start.ready),
            Situation::Reused => reused(&start, false),
            Situation::ReusedOnDisk => reused(&start, true),
            Situation::Recycled => recycled(start),
            Situation::Unsynced => unsynced(start),
            _ => self.waits(start),
        })
    }

    /// Lets a thread look at a root while a commit of another thread is being synced. The thread must not get
    /// the result within [`PATIENCE`]: the sync ends after that.
    fn waits(self, start: Start) -> Result<(), String> {
        let image = start.content.image();
        let disk = Arc::new(SimDisk::new(image));
        let heap = opened(&disk)?;
        let root = |name: &str| record(&heap, name);
        let (a, b) = (root("a")?, root("b")?);
        // Creates and syncs the log, so that the following transaction does not do it.
        b.txn(|_, _| Ok(())).said()?;
        let (told, heard) = channel();
        let (result, done) = channel();
        let other = (a.clone(), b, heap.clone());
        let (mutant, notes, bug) = (mutant(), notes_sites(), seeded_bug());
        let amid = move || {
            let reader = std::thread::spawn(move || {
                set_mutant(mutant);
                note_sites(notes);
                set_bug(bug);
                let seen = self.look(&other.0, &other.1, &other.2);
                drop(other);
                let _ = told.send(seen);
                take_noted()
            });
            let early = heard.recv_timeout(PATIENCE).ok();
            let _ = result.send((early, reader));
        };
        disk.amid_sync(File::Log, Some(Box::new(amid)));
        let done_here = match self {
            Situation::Removed => heap.remove_root("a"),
            Situation::Migrated => heap.migrate::<Record, u64>("a", |_, _| Ok(7)).map(drop),
            _ => set_x(&a, 77),
        };
        done_here.said()?;
        let (early, reader) = done.recv().map_err(|_| "nothing was synced".to_owned())?;
        add_noted(reader.join().map_err(|_| "the other thread panics".to_owned())?);
        drop((a, heap));
        match early {
            Some(Some(77)) => Err("what is not durable has been told".to_owned()),
            _ => Ok(()),
        }
    }

    /// Looks at the first root. Returns the value 77 if the change is visible.
    fn look(self, a: &Root<Record<'static>>, b: &Root<Record<'static>>, heap: &Heap) -> Option<u64> {
        let mut seen = None;
        match self {
            Situation::Check => seen = heap.check().ok().map(|_| 77),
            Situation::Removed | Situation::Migrated => {
                let told = |result: pheap::Result<()>| {
                    matches!(result, Err(Error::Closed | Error::Migrated { .. } | Error::NoSuchRoot(_)))
                };
                let by_handle = told(a.txn(|_, _| Ok(())));
                let by_name =
                    || self == Situation::Removed && told(heap.existing_root::<Record>("a").map(drop));
                seen = (by_handle || by_name()).then_some(77);
            }
            Situation::Read => seen = a.read(|view, p| view[p].x).ok(),
            Situation::Commit => {
                let _ = a.txn(|tx, p| {
                    seen = Some(tx[p].x);
                    Ok(())
                });
            }
            Situation::GiveUp => {
                let _ = a.txn(|tx, p| {
                    seen = Some(tx[p].x);
                    Err::<(), _>(Error::abort("as it should"))
                });
            }
            _ => {
                let _ = pheap::txn((a, b), |((tx, a), _)| {
                    seen = Some(tx[a].x);
                    match self {
                        Situation::CommitBoth => Ok(()),
                        _ => Err(Error::abort("as it should")),
                    }
                });
            }
        }
        seen
    }
}

/// Opens the heap of a disk.
fn opened(disk: &Arc<SimDisk>) -> Result<Heap, String> {
    Medium::Disk(disk.clone()).opened(&options(Setting::default(), None))
}

fn set_x(root: &Root<Record<'static>>, x: u64) -> pheap::Result<()> {
    root.txn(|tx, p| {
        tx[p].x = x;
        Ok(())
    })
}

fn record(heap: &Heap, name: &str) -> Result<Root<Record<'static>>, String> {
    heap.existing_root(name).said()
}

/// Cuts the power at each wanted point of a medium that began with `start`, and checks some of the images.
fn crash_everywhere(
    start: Content,
    points: &[Moment],
    wanted: impl Fn(&Moment) -> bool,
    holds: impl Fn(Content) -> Result<(), String>,
) -> Result<(), String> {
    let mut image = Snapshot::new(start);
    for (at, point) in points.iter().enumerate() {
        image.advance(point);
        if !wanted(point) {
            continue;
        }
        let mut rng = Rng::new(&[at as u64]);
        let done = point.subsets(BREADTH, &mut rng, |chosen| match holds(image.left(point, chosen, false)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        });
        if let ControlFlow::Break(error) = done {
            return Err(format!("when the power fails at point {at} ({}), {error}", point.at()));
        }
    }
    Ok(())
}

/// Opens a heap that must hold `state`, and uses it.
fn must_hold(content: Content, state: &State) -> Result<(), String> {
    let mut run = Run::open(Setting::default(), content, Some(state.clone()), 3)?;
    run.check()?;
    run.one(One::Push, Which::A)?;
    run.collect_all()?;
    run.finish().map(|_| ())
}

/// The file of a heap is in the page cache only. The disk still has its content from before: zeros.
fn unsynced(start: Start) -> Result<(), String> {
    let image = start.content.image();
    let nothing = DiskImage { data: vec![0; image.data.len()], log: None };
    let written = differences(File::Data, &nothing.data, &image.data);
    let before = Content::Disk(nothing, written);
    let setting = Setting { wal: true, ..Setting::default() };
    let mut run = Run::open(setting, before.clone(), Some(start.state), 1)?;
    run.one(One::Set, Which::A)?;
    let state = run.state().clone();
    let trace = run.finish()?;
    let last = trace.states.len() - 1;
    let points = trace.moments();
    let acknowledged = |point: &Moment| point.acknowledged().1 == last;
    crash_everywhere(before, &points, acknowledged, |content| must_hold(content, &state))
}

/// Programs that leave adjacent spans of many sizes.
const BEFORE: [&str; 4] = [
    "stuff a; stuff a; push b; push b; push b; push b; push b; stuff a",
    "stuff a; push b; stuff a; stuff b; stuff b; stuff a; stuff b",
    "big b; big b; big b; big b; stuff a; stuff a; big b",
    "stuff b; stuff b; stuff a; stuff a; stuff a; replace b; replace b",
];

fn reused(start: &Start, wal: bool) -> Result<(), String> {
    for text in BEFORE {
        let program: Program = format!("{text}; remove b").parse()?;
        let content = start.content.clone();
        let content = if wal { content.on_disk() } else { content };
        let setting = Setting { wal, ..Setting::default() };
        let mut run = Run::open(setting, content, Some(start.state.clone()), 1)?;
        program.ops.iter().try_for_each(|&op| run.op(op))?;
        let trace = run.finish()?;
        let phase = trace.phases.last().ok_or("there is no phase")?;
        let mut image = Snapshot::new(phase.start.clone());
        for (point, op) in &phase.points {
            image.advance(point);
            if *op != Some(program.ops.len()) {
                continue;
            }
            // Tries none of the pending changes, a quarter, half, three quarters, and all. With a log this
            // can leave one of two records.
            for part in 0..=4 {
                let chosen: Vec<bool> =
                    (0..point.pending()).map(|i| i * 4 < point.pending() * part).collect();
                push_after(image.left(point, &chosen, false))
                    .map_err(|error| format!("after `{program}`, a crash, and pushes, {error}"))?;
            }
        }
    }
    Ok(())
}

/// Opens the image of a crash, allocates small objects, and a large one that takes the pages of many spans.
fn push_after(left: Content) -> Result<(), String> {
    let mut run = Run::open(Setting::default(), left.clone(), None, 2)?;
    let mut states = vec![run.state().clone()];
    for what in [One::Push, One::Push, One::Big, One::Push, One::Push] {
        run.one(what, Which::A)?;
        states.push(run.state().clone());
    }
    let trace = run.finish()?;
    let points = trace.moments();
    crash_everywhere(
        left,
        &points,
        |_| true,
        |content| {
            let run = Run::open(Setting::default(), content, None, 3)?;
            let state = run.state().clone();
            run.check()?;
            run.finish()?;
            if states.contains(&state) { Ok(()) } else { Err(states[0].difference(&state)) }
        },
    )
}

/// After a checkpoint, unsynced transactions go to segments that were used before. The images have the newest
/// of their writes.
fn recycled(start: Start) -> Result<(), String> {
    let setting = Setting { wal: true, lazy: true, ..Setting::default() };
    let mut run = Run::open(setting, start.content.on_disk(), Some(start.state), 1)?;
    for op in ["set a", "set a", "fill a", "fill a", "set a", "checkpoint"] {
        run.op(op.parse()?)?;
    }
    let mut states = vec![run.state().clone()];
    for _ in 0..30 {
        run.one(One::Fill, Which::A)?;
        states.push(run.state().clone());
    }
    let trace = run.finish()?;
    let phase = trace.phases.last().ok_or("there is no phase")?;
    let mut image = Snapshot::new(phase.start.clone());
    for (point, _) in &phase.points {
        image.advance(point);
        // Some of the points after the checkpoint are enough.
        let (done, safe) = point.acknowledged();
        if safe + states.len() != trace.states.len() || !done.is_multiple_of(5) {
            continue;
        }
        for first in (0..point.pending()).rev() {
            let chosen: Vec<bool> = (0..point.pending()).map(|i| i >= first).collect();
            let run = Run::open(Setting::default(), image.left(point, &chosen, false), None, 3)
                .map_err(|error| format!("when the power fails after a checkpoint, {error}"))?;
            if !states.contains(run.state()) {
                return Err(format!("an older state is there:\n{}", states[0].difference(run.state())));
            }
            run.finish()?;
        }
    }
    Ok(())
}
