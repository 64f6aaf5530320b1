//! Running a program on a simulated medium, and what is noted meanwhile.

mod catch;
mod fail;
mod look;
mod restart;
mod shelved;
mod start;

use std::hash::{DefaultHasher, Hash, Hasher};

use pheap::{Durability, Error, Heap, Held, Options, Report, SyncPolicy};

use crate::fault::Failing;
use crate::layouts::{self, Found, Node};
use crate::medium::{Content, Medium, Moment};
use crate::model::{RootState, State};
use crate::objects::{Handles, Seen, base, handle};
use crate::ops;
use crate::program::{Both, Change, One, Op, Program, Setting, Shape, Shelved, Which};
use crate::tuning::SMALL;

pub use catch::{catching, no_panic};
pub use fail::Calls;
pub use start::{Ready, calls, ready, run};

/// Where the heaps of this thread are mapped: the first one, unless they move.
pub(crate) fn bases() -> [u64; 3] {
    [0, 1, 2].map(|number| pheap::sim::base() - (number << 40))
}

/// Bytes of an arena: what two roots need, and a page.
const ARENA: u64 = 64 << 10;
/// How long a log may become, in bytes, and how long a short one.
const LOG: (u64, u64) = (1 << 20, 64 << 10);
/// The third root.
const THIRD: &str = "c";
/// Steps of the operations that repeat themselves, and how many of the last ones are explored.
const BURST: (usize, usize) = (66, 5);
const FILL: (usize, usize) = (22, 4);
const CHURN: (usize, usize) = (20, 12);
const MAP_CHURN: (usize, usize) = (12, 2);

/// What happened between two openings of a heap.
#[derive(Debug, Clone)]
pub struct Phase {
    /// The medium at its beginning.
    pub start: Content,
    /// Where the power may fail, with the number of the operation that was running: 0 for the first opening, 1 for the first
    /// operation. `None` where operations repeat what other points show as well.
    pub points: Vec<(Moment, Option<usize>)>,
}

/// All that happened in a run.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Opening to opening.
    pub phases: Vec<Phase>,
    /// The states after so many steps were acknowledged.
    pub states: Vec<State>,
}

impl Trace {
    /// The states that may be found when the power has failed at this point.
    pub fn allowed(&self, point: &Moment) -> &[State] {
        self.states(point.acknowledged().1, point)
    }

    /// The states that may be found when the process was killed there: when all that is pending was written, or before the last of that, but after
    /// the point before, at which so many steps had been acknowledged.
    pub fn allowed_when_killed(&self, point: &Moment, all: bool, before: usize) -> &[State] {
        self.states(if all { point.acknowledged().0 } else { before }, point)
    }

    /// The states that may be found when the power fails after such a process, before the heap is opened again.
    pub fn allowed_after_kill(&self, point: &Moment, before: usize) -> &[State] {
        self.states(point.acknowledged().1.min(before), point)
    }

    /// All points.
    pub fn moments(self) -> Vec<Moment> {
        self.phases.into_iter().flat_map(|phase| phase.points).map(|(point, _)| point).collect()
    }

    /// From the state after the `first` step on, to that after the step that was running at this point, if one was.
    fn states(&self, first: usize, point: &Moment) -> &[State] {
        let last = point.acknowledged().0 + usize::from(point.at() != ACKNOWLEDGEMENT);
        &self.states[first..=last.min(self.states.len() - 1)]
    }
}

const ACKNOWLEDGEMENT: &str = "acknowledgement";

/// How heaps are opened.
pub(crate) fn options(setting: Setting, base: Option<u64>) -> Options {
    let mut options = Options::new().tuning(SMALL).arena_size(ARENA).reserve(16 << 20).pin_undo(setting.pin);
    // One thread, so that runs can be repeated.
    options = options.collect_threads(1);
    if setting.full {
        options = options.max_size(2 * ARENA);
    }
    if setting.eager {
        options = options.collect_least(1).collect_growth(0);
    }
    if let Some(base) = base {
        options = options.base(base);
    }
    let policy = if setting.lazy { SyncPolicy::OnDemand } else { SyncPolicy::EveryCommit };
    options = options.durability(Durability::Wal).sync_policy(policy);
    let (log, memory) = if setting.small { (LOG.1, ARENA / 2) } else { (LOG.0, 1 << 30) };
    options.log_limit(log).memory_limit(memory)
}

fn first_of(violations: &[String]) -> Result<(), String> {
    match violations.first() {
        Some(first) => Err(format!("{first} ({} such words)", violations.len())),
        None => Ok(()),
    }
}

/// A pointer that is held, and the values of the list that it leads to.
type Chain = (Held<Node<'static>>, Vec<u64>);

/// A run that is going on.
#[derive(Debug)]
pub struct Run {
    how: Opening,
    setting: Setting,
    /// The first value that it writes.
    values: u64,
    medium: Medium,
    heap: Option<Heap>,
    /// Where the heap is opened, if not where it was before.
    base: Option<u64>,
    /// Handles of the roots that were used, by name.
    handles: Handles,
    /// What is held of each root.
    held: [Option<Chain>; 2],
    state: State,
    /// Objects that belong to collections.
    owned: u64,
    trace: Trace,
    /// Number of the operation that is running.
    op: usize,
    /// Points are not to be explored.
    quiet: bool,
    /// Not all that was acknowledged need be there, for it was not durable and the page cache is gone.
    lost: bool,
    /// How many steps are acknowledged, and how many of these must survive a power failure.
    acknowledged: (usize, usize),
    /// What was called on media that are not in use any more, and how many of these calls have failed.
    calls: Calls,
    failed: usize,
}

/// How a heap is opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct Opening {
    setting: Setting,
    /// A call of the disk that fails.
    failing: Option<Failing>,
    /// No points are noted: of what happens then, nobody needs a [`Trace`].
    silent: bool,
}

impl From<Setting> for Opening {
    fn from(setting: Setting) -> Opening {
        Opening { setting, ..Opening::default() }
    }
}

impl Opening {
    /// As a program says.
    pub(crate) fn of(program: &Program) -> Opening {
        Opening { setting: program.setting, failing: program.failing, silent: false }
    }

    /// Nobody looks at the points.
    pub(crate) fn silent(setting: Setting) -> Opening {
        Opening { silent: true, ..setting.into() }
    }
}

/// Finds a root, in a layout that is needed.
type Find<H> = fn(&Heap, &mut Handles, &str) -> pheap::Result<H>;

impl Run {
    /// A run on a medium with this content, which holds `state`; `None` if that is to be read from it. What the run writes are
    /// values of its `generation`: no other run writes the same, for a write that changes nothing is none.
    pub fn open(
        how: impl Into<Opening>,
        content: Content,
        state: Option<State>,
        generation: u64,
    ) -> Result<Run, String> {
        let mut run = Run::begin(how, content, generation)?;
        run.settle(state)?;
        Ok(run)
    }

    /// The first part of [`open`](Run::open): what recovery makes of a medium can be [told](Run::digest), and has not been looked at.
    pub fn begin(how: impl Into<Opening>, content: Content, generation: u64) -> Result<Run, String> {
        let how: Opening = how.into();
        let mut run = Run {
            how,
            setting: how.setting,
            values: generation * 1_000_000,
            medium: Medium::new(Content::default()),
            heap: None,
            base: how.setting.moved.then(|| bases()[generation as usize % bases().len()]),
            handles: Handles::new(),
            held: Default::default(),
            state: State::default(),
            owned: 0,
            trace: Trace::default(),
            op: 0,
            quiet: false,
            lost: false,
            acknowledged: (0, 0),
            calls: Calls::new(),
            failed: 0,
        };
        run.change_medium(content)?;
        run.open_heap()?;
        Ok(run)
    }

    /// The second part: looks at what the heap holds, which should be `state`, if that is known.
    pub fn settle(&mut self, state: Option<State>) -> Result<Option<Report>, String> {
        let Seen { state: found, report } = self.observe_opened()?;
        if let Some(state) = state {
            self.state = state;
            self.compare(&found)?;
        } else {
            self.state = found;
        }
        self.look()?;
        self.trace.states = vec![self.state.clone(), self.state.clone()];
        self.acknowledge_opening();
        Ok(report)
    }

    /// A number that tells apart what recoveries have made of their media: what these hold, and what the heap knows of it.
    pub fn digest(&self) -> u64 {
        let known = self.heap.as_ref().map(|heap| {
            let stats = heap.stats();
            (stats.ready, stats.live_objects, stats.free_bytes)
        });
        let mut hasher = DefaultHasher::new();
        (self.medium.digest(), known, base(self.heap.as_ref().expect("it is open"))).hash(&mut hasher);
        hasher.finish()
    }

    /// Lets the process die.
    pub fn abandon(mut self) -> Result<(), String> {
        self.medium.look();
        if let Some(heap) = self.let_go() {
            heap.abandon();
        }
        first_of(&self.medium.violations())
    }

    /// Takes the heap, of which nothing else is left here.
    fn let_go(&mut self) -> Option<Heap> {
        self.handles.clear();
        self.held = Default::default();
        self.heap.take()
    }

    /// Lets the heap go.
    fn end(&mut self) -> Result<(), String> {
        let heap = self.let_go();
        no_panic(|| drop(heap))
    }

    /// What happened so far.
    pub fn finish(mut self) -> Result<Trace, String> {
        self.collect();
        self.medium.look();
        let violations = self.medium.violations();
        self.end()?;
        first_of(&violations)?;
        Ok(std::mem::take(&mut self.trace))
    }

    /// The state as it should be.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// How the heap was opened.
    pub fn setting(&self) -> Setting {
        self.setting
    }

    /// Whether it has a write-ahead log.
    pub fn is_on_disk(&self) -> bool {
        self.medium.disk().is_some()
    }

    /// Steps that were made.
    fn steps(&self) -> usize {
        self.trace.states.len().saturating_sub(1)
    }

    fn collect(&mut self) {
        // Up to the call that fails, it is like the program in which none does.
        let quiet = self.quiet || (self.how.failing.is_some() && self.failures() == 0);
        let op = (!quiet).then_some(self.op);
        if let Some(phase) = self.trace.phases.last_mut() {
            let points = self.medium.take_points().into_iter();
            let lost = self.lost;
            phase.points.extend(points.map(|point| (if lost { point.without_kills() } else { point }, op)));
        }
    }

    /// Notes that all steps are acknowledged. `safe`: also if the power fails.
    fn tell(&mut self, safe: bool) {
        self.acknowledged.0 = self.steps();
        if safe {
            self.acknowledged.1 = self.steps();
        }
        self.medium.acknowledge(self.acknowledged.0, self.acknowledged.1);
        self.collect();
    }

    /// Notes that a step is done, and checks what the heap holds. `safe`: it and all before survive a power failure. `failures`: so many calls had
    /// failed before it.
    fn acknowledge(&mut self, safe: bool, failures: usize) -> Result<(), String> {
        self.trace.states.push(self.state.clone());
        self.tell(safe);
        let found = match self.observe() {
            // A read waits until what it may show is durable; and who rolls back is not told that something has failed.
            Err(error) if self.failures() > failures => {
                let unknown = Error::OutcomeUnknown { source: std::io::Error::other(error) };
                return self.recover(unknown, self.state.clone());
            }
            found => found?,
        };
        self.compare(&found.state)?;
        self.look()
    }

    /// The medium as it is if the power fails now and nothing more reaches it.
    pub fn durable(&self) -> Content {
        self.medium.durable()
    }

    /// Runs one transaction or change on the open heap.
    fn step(
        &mut self,
        step: impl FnOnce(&Heap, &mut Handles, &mut State, u64) -> pheap::Result<()>,
    ) -> Result<(), String> {
        let value = self.values + 1000 * self.steps() as u64;
        let mut state = self.state.clone();
        let failures = self.failures();
        let heap = self.heap.as_ref().expect("it is open");
        let handles = &mut self.handles;
        match catching(|| Ok(step(heap, handles, &mut state, value)))? {
            Ok(()) => self.state = state,
            Err(Error::OutOfSpace { .. }) if self.setting.full || self.is_failing() => {
                // Nothing has changed.
                self.heal();
            }
            Err(error) if self.is_failing() => return self.recover(error, state),
            Err(error) => return Err(format!("an operation fails: {error}")),
        }
        self.acknowledge(!self.setting.lazy, failures)
    }

    /// Runs one on a root.
    fn step_on<H>(
        &mut self,
        which: Which,
        find: Find<H>,
        step: impl FnOnce(&H, &mut RootState, u64) -> pheap::Result<()>,
    ) -> Result<(), String> {
        self.step(|heap, handles, state, value| {
            let name = Run::name(state, which);
            let root = find(heap, handles, &name)?;
            step(&root, state.roots.get_mut(&name).ok_or(Error::NoSuchRoot(name))?, value)
        })
    }

    /// Runs one on both roots.
    fn step_on_both<H>(
        &mut self,
        find: Find<H>,
        step: impl FnOnce((&H, &H), (&mut RootState, &mut RootState), u64) -> pheap::Result<()>,
    ) -> Result<(), String> {
        self.step(|heap, handles, state, value| {
            let names = [Which::A, Which::B].map(|which| Run::name(state, which));
            let (a, b) = (find(heap, handles, &names[0])?, find(heap, handles, &names[1])?);
            let mut models = state.roots.values_mut();
            step((&a, &b), (models.next().expect("a"), models.next().expect("b")), value)
        })
    }

    /// Whether there is such a root.
    pub fn exists(&self, which: Which) -> bool {
        self.state.roots.contains_key(&Run::name(&self.state, which))
    }

    /// Whether an operation has something to work on. In a sensible program it has, unless the one that should have made it has
    /// found no space, or its disk has failed, or the power has failed before it was made durable.
    pub(crate) fn applies(&self, op: Op) -> bool {
        let mut shape = Shape::default();
        for which in [Which::A, Which::B] {
            let i = which as usize;
            shape.held[i] = self.held[i].is_some();
            if let Some(root) = self.state.roots.get(&Run::name(&self.state, which)) {
                (shape.exists[i], shape.listed[i], shape.big[i]) =
                    (true, root.list.len(), root.big.is_some());
                (shape.mapped[i], shape.sorted[i]) = (root.map.len(), root.tree.len());
                shape.versioned[i] = root.versions.len();
            }
        }
        shape.after(op).is_some()
    }

    /// The name of a root.
    fn name(state: &State, which: Which) -> String {
        match which {
            Which::A => "a".to_owned(),
            Which::B => {
                let others = state.roots.keys().find(|name| !["a", THIRD].contains(&name.as_str()));
                others.cloned().unwrap_or_else(|| "b".to_owned())
            }
        }
    }

    /// A transaction on one root.
    pub fn one(&mut self, what: One, which: Which) -> Result<(), String> {
        let what = match what {
            // A pointer that is held leads to the node: it may not be freed, and its list should stay as it is.
            One::PopFree | One::Cut if self.first_is_held(which) => One::Pop,
            other => other,
        };
        if let One::Shelved(what) = what {
            return self.shelved(what, which);
        }
        if !matches!(what, One::Hold | One::LetGo | One::Relink) {
            return self.step_on(which, handle, |root, model, value| ops::one(root, model, what, value));
        }
        let mut held = self.held[which as usize].take();
        let result = self.step_on(which, handle, |root, model, value| {
            match (what, &held) {
                (One::Hold, _) => {
                    let values = model.list.clone();
                    held = Some((ops::hold(root, model)?, values));
                }
                (One::Relink, Some((pointer, values))) => ops::relink(root, model, (pointer, values), value)?,
                _ => held = None,
            }
            Ok(())
        });
        self.held[which as usize] = held;
        result.and_then(|()| self.look_at_held())
    }

    /// One on a root, if there is such a root.
    pub fn one_if_there(&mut self, what: One, which: Which) -> Result<(), String> {
        if self.exists(which) { self.one(what, which) } else { Ok(()) }
    }

    /// Whether the first node of the list is one of those that are held.
    fn first_is_held(&self, which: Which) -> bool {
        let first = self.state.roots.get(&Run::name(&self.state, which)).and_then(|root| root.list.first());
        let held = self.held[which as usize].as_ref();
        held.is_some_and(|(_, values)| first.is_some_and(|first| values.contains(first)))
    }

    fn create(&mut self, name: &str) -> Result<(), String> {
        self.step(|heap, handles, state, value| {
            state.roots.insert(name.to_owned(), RootState::new(value));
            handles.insert(name.to_owned(), Found::First(ops::create(heap, name, value)?));
            Ok(())
        })
    }

    /// Runs an operation.
    pub fn op(&mut self, op: Op) -> Result<(), String> {
        self.op += 1;
        let may_have_failed = self.setting.full || self.setting.lazy || self.how.failing.is_some();
        if may_have_failed && !self.applies(op) {
            return self.step(|_, _, _, _| Ok(()));
        }
        match op {
            Op::One(what @ (One::Burst | One::Fill | One::Churn), which) => {
                let (steps, explored) = match what {
                    One::Burst => BURST,
                    One::Fill => FILL,
                    _ => CHURN,
                };
                (0..steps).try_for_each(|i| {
                    self.quiet = i + explored < steps;
                    let what = match what {
                        One::Churn if i % 2 == 0 => One::Push,
                        One::Churn => One::PopFree,
                        other => other,
                    };
                    // A push that has failed left nothing to pop.
                    if may_have_failed && !self.applies(Op::One(what, which)) {
                        return self.step(|_, _, _, _| Ok(()));
                    }
                    self.one(what, which)?;
                    // Cycles end in here, and by the time the next one has ended nobody would know.
                    if matches!(op, Op::One(One::Churn, _)) { self.check() } else { Ok(()) }
                })
            }
            Op::One(One::Shelved(Shelved::MapChurn), which) => self.map_churn(which),
            Op::One(what, which) => self.one(what, which),
            Op::Both(Both::Map) => self.both_map(),
            Op::Both(what @ (Both::Three | Both::Last)) => {
                if !self.state.roots.contains_key(THIRD) {
                    self.create(THIRD)?;
                }
                if !self.state.roots.contains_key(THIRD) || !self.applies(op) {
                    return Ok(()); // there was no room for it, or something has failed
                }
                self.step(|heap, handles, state, value| {
                    let b = Run::name(state, Which::B);
                    let [a, b, c] = ["a", &b, THIRD].map(|name| handle(heap, handles, name));
                    let mut models = state.roots.values_mut();
                    let models = std::array::from_fn(|_| models.next().expect("there are three"));
                    ops::three([&a?, &b?, &c?], models, what, value)
                })
            }
            Op::Both(what) => {
                self.step_on_both(handle, |roots, models, value| ops::both(roots, models, what, value))
            }
            Op::Change(Change::CreateA) => self.create("a"),
            Op::Change(Change::Create) => self.create("b"),
            Op::Change(Change::Remove) => {
                self.held[Which::B as usize] = None;
                self.step(|heap, handles, state, _| {
                    let name = Run::name(state, Which::B);
                    handles.remove(&name);
                    state.roots.remove(&name);
                    heap.remove_root(&name)
                })
            }
            Op::Change(Change::Migrate) => self.step(|heap, handles, state, value| {
                let name = Run::name(state, Which::A);
                handles.remove(&name);
                let model = state.roots.get_mut(&name).ok_or(Error::NoSuchRoot(name.clone()))?;
                layouts::change(heap, &name, model, value)
            }),
            Op::Change(Change::Collect) => self.collect_all(),
            Op::Change(Change::Ready) => self.step(|heap, _, _, _| heap.wait_ready()),
            Op::Change(change @ (Change::Sync | Change::Checkpoint)) => {
                let is_sync = change == Change::Sync;
                self.step(|heap, _, _, _| if is_sync { heap.sync() } else { heap.checkpoint() })?;
                // What was before it survives a power failure.
                self.tell(true);
                Ok(())
            }
            Op::Change(Change::Defer) => {
                self.step_on(Which::A, handle, ops::defer)?;
                // Whatever the policy.
                self.tell(true);
                Ok(())
            }
            Op::Change(Change::SetAmid) => self.set_amid_checkpoint(),
            Op::Change(Change::Rename) => self.step(|heap, handles, state, _| {
                let old = Run::name(state, Which::B);
                let new = if old == "b" { "another name" } else { "b" };
                handles.remove(&old);
                let model = state.roots.remove(&old).expect("it was found by its name");
                state.roots.insert(new.to_owned(), model);
                heap.rename_root(&old, new)
            }),
            Op::Change(change) => self.restart(change),
        }
    }
}

impl Drop for Run {
    /// A heap with a bug may panic once more when it is closed.
    fn drop(&mut self) {
        let _ = self.end();
    }
}
