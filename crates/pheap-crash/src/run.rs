//! Runs a program on a simulated medium, and records its points and states.

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

/// Returns the addresses at which runs of this thread map heaps. New heaps are at the first one unless they
/// move.
pub(crate) fn bases() -> [u64; 3] {
    [0, 1, 2].map(|number| pheap::sim::base() - (number << 40))
}

/// Bytes of an arena.
const ARENA: u64 = 64 << 10;
/// Limit of a write-ahead log in bytes, by default and with [`Setting::small`].
const LOG: (u64, u64) = (1 << 20, 64 << 10);
/// Name of the third root.
const THIRD: &str = "c";
/// Steps of the operations that repeat themselves, and the number of last steps that are explored.
const BURST: (usize, usize) = (66, 5);
const FILL: (usize, usize) = (22, 4);
const CHURN: (usize, usize) = (20, 12);
const MAP_CHURN: (usize, usize) = (12, 2);

/// The part of a run on one medium. It begins with an opening; after a call of a disk has failed, it may have
/// further ones.
#[derive(Debug, Clone)]
pub struct Phase {
    /// Content of the medium at its beginning. A run that notes no points leaves it empty.
    pub start: Content,
    /// The points, each with the number of the operation that was running: 0 for the first opening, 1 for the
    /// first operation. `None` for points that are not explored: those of most repeated steps and of some
    /// steps that prepare others, and those before the failing call.
    pub points: Vec<(Moment, Option<usize>)>,
}

/// Record of a run.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// The phases, in order.
    pub phases: Vec<Phase>,
    /// The state after each step: element `n` is the state after `n` steps. Openings count as steps.
    pub states: Vec<State>,
}

impl Trace {
    /// Returns the states that recovery may find after a power failure at this point.
    pub fn allowed(&self, point: &Moment) -> &[State] {
        self.states(point.acknowledged().1, point)
    }

    /// Returns the states that recovery may find if the process was killed at this point. `all`: all pending
    /// changes were written. Otherwise the process was killed earlier, but after the previous point, when
    /// `before` steps were acknowledged.
    pub fn allowed_when_killed(&self, point: &Moment, all: bool, before: usize) -> &[State] {
        self.states(if all { point.acknowledged().0 } else { before }, point)
    }

    /// Returns the states that recovery may find if the process was killed and the power then failed before
    /// the heap was opened again.
    pub fn allowed_after_kill(&self, point: &Moment, before: usize) -> &[State] {
        self.states(point.acknowledged().1.min(before), point)
    }

    /// Returns all points.
    pub fn moments(self) -> Vec<Moment> {
        self.phases.into_iter().flat_map(|phase| phase.points).map(|(point, _)| point).collect()
    }

    /// Returns the states from the one after step `first` to the one after the step that was running at this
    /// point.
    fn states(&self, first: usize, point: &Moment) -> &[State] {
        let last = point.acknowledged().0 + usize::from(point.at() != ACKNOWLEDGEMENT);
        &self.states[first..=last.min(self.states.len() - 1)]
    }
}

const ACKNOWLEDGEMENT: &str = "acknowledgement";

/// Returns the options that heaps are opened with.
pub(crate) fn options(setting: Setting, base: Option<u64>) -> Options {
    let mut options = Options::new().tuning(SMALL).arena_size(ARENA).reserve(16 << 20).pin_undo(setting.pin);
    // One thread, so that a run can be repeated exactly.
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

/// A held pointer, and the values of the list that began there when it was taken.
type Chain = (Held<Node<'static>>, Vec<u64>);

/// A run in progress.
#[derive(Debug)]
pub struct Run {
    how: Opening,
    setting: Setting,
    /// The value of a step is this number plus 1000 for each step before it.
    values: u64,
    medium: Medium,
    heap: Option<Heap>,
    /// Address at which the heap is opened, if the run chooses one.
    base: Option<u64>,
    /// Handles of the roots, by name.
    handles: Handles,
    /// The held pointer of each of the first two roots.
    held: [Option<Chain>; 2],
    state: State,
    /// Number of objects that belonged to collections when the heap was read last.
    owned: u64,
    trace: Trace,
    /// Number of the operation that is running; 0 for the opening.
    op: usize,
    /// Whether the points of the current step are left out of the exploration.
    quiet: bool,
    /// Whether acknowledged steps may be missing, because they were not durable when the power failed or the
    /// page cache forgot data.
    lost: bool,
    /// Number of acknowledged steps, and how many of these must survive a power failure.
    acknowledged: (usize, usize),
    /// Number of calls of each kind on media that are no longer in use, and how many of all these failed.
    calls: Calls,
    failed: usize,
}

/// The way in which a heap is opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct Opening {
    setting: Setting,
    /// The call of the disk that fails, if one does.
    failing: Option<Failing>,
    /// Whether no points are noted, because no [`Trace`] is needed.
    silent: bool,
}

impl From<Setting> for Opening {
    fn from(setting: Setting) -> Opening {
        Opening { setting, ..Opening::default() }
    }
}

impl Opening {
    /// Returns the opening of a program.
    pub(crate) fn of(program: &Program) -> Opening {
        Opening { setting: program.setting, failing: program.failing, silent: false }
    }

    /// Returns an opening that notes no points.
    pub(crate) fn silent(setting: Setting) -> Opening {
        Opening { silent: true, ..setting.into() }
    }
}

/// A function that finds a root by name, and gives it the layout that an operation needs.
type Find<H> = fn(&Heap, &mut Handles, &str) -> pheap::Result<H>;

impl Run {
    /// Starts a run on a medium with this content. The heap must hold `state`; if that is `None`, the state
    /// is read from the heap. The values that the steps write depend on `generation`. Runs that write to the
    /// same heap one after the other should have different generations, so that new values differ from old
    /// ones.
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

    /// The first part of [`open`](Run::open): opens the heap without reading it. Its [digest](Run::digest) is
    /// available then.
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

    /// The second part of [`open`](Run::open): reads the heap, and compares it with `state` if that is given.
    /// Returns the report of the check, if a root has collections.
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

    /// Returns a hash of the recovered heap: of the content of the medium, and of the heap's address and some
    /// statistics. The heap must be open.
    pub fn digest(&self) -> u64 {
        let known = self.heap.as_ref().map(|heap| {
            let stats = heap.stats();
            (stats.ready, stats.live_objects, stats.free_bytes)
        });
        let mut hasher = DefaultHasher::new();
        (self.medium.digest(), known, base(self.heap.as_ref().expect("it is open"))).hash(&mut hasher);
        hasher.finish()
    }

    /// Abandons the heap as a process that dies does. Returns an error if a word changed that was not
    /// announced.
    pub fn abandon(mut self) -> Result<(), String> {
        self.medium.look();
        if let Some(heap) = self.let_go() {
            heap.abandon();
        }
        first_of(&self.medium.violations())
    }

    /// Drops the handles and held pointers, and takes the heap out of the run.
    fn let_go(&mut self) -> Option<Heap> {
        self.handles.clear();
        self.held = Default::default();
        self.heap.take()
    }

    /// Drops the heap. Returns an error if that panics.
    fn end(&mut self) -> Result<(), String> {
        let heap = self.let_go();
        no_panic(|| drop(heap))
    }

    /// Ends the run, which closes the heap. Returns its record, without the points of that close.
    pub fn finish(mut self) -> Result<Trace, String> {
        self.collect();
        self.medium.look();
        let violations = self.medium.violations();
        self.end()?;
        first_of(&violations)?;
        Ok(std::mem::take(&mut self.trace))
    }

    /// Returns the expected state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the setting that the heap was opened with.
    pub fn setting(&self) -> Setting {
        self.setting
    }

    /// Returns whether the heap is on a disk, with a write-ahead log.
    pub fn is_on_disk(&self) -> bool {
        self.medium.disk().is_some()
    }

    /// Returns the number of steps made. An opening is one.
    fn steps(&self) -> usize {
        self.trace.states.len().saturating_sub(1)
    }

    fn collect(&mut self) {
        // Until the call fails, the points are those of the program without a failing call.
        let quiet = self.quiet || (self.how.failing.is_some() && self.failures() == 0);
        let op = (!quiet).then_some(self.op);
        if let Some(phase) = self.trace.phases.last_mut() {
            let points = self.medium.take_points().into_iter();
            let lost = self.lost;
            phase.points.extend(points.map(|point| (if lost { point.without_kills() } else { point }, op)));
        }
    }

    /// Notes that all steps are acknowledged. `safe`: they also survive a power failure.
    fn tell(&mut self, safe: bool) {
        self.acknowledged.0 = self.steps();
        if safe {
            self.acknowledged.1 = self.steps();
        }
        self.medium.acknowledge(self.acknowledged.0, self.acknowledged.1);
        self.collect();
    }

    /// Notes that a step is done, and compares the heap with the model. `safe`: this step and all before it
    /// survive a power failure. `failures` is the number of calls that had failed before the step.
    fn acknowledge(&mut self, safe: bool, failures: usize) -> Result<(), String> {
        self.trace.states.push(self.state.clone());
        self.tell(safe);
        let found = match self.observe() {
            // A call may also fail while the heap is read: a read waits until the data that it returns is
            // durable.
            Err(error) if self.failures() > failures => {
                let unknown = Error::OutcomeUnknown { source: std::io::Error::other(error) };
                return self.recover(unknown, self.state.clone());
            }
            found => found?,
        };
        self.compare(&found.state)?;
        self.look()
    }

    /// Returns the content of the medium if the power fails now and no pending change reaches it.
    pub fn durable(&self) -> Content {
        self.medium.durable()
    }

    /// Runs a transaction or a change on the open heap, and acknowledges it.
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
                // The step has changed nothing.
                self.heal();
            }
            Err(error) if self.is_failing() => return self.recover(error, state),
            Err(error) => return Err(format!("an operation fails: {error}")),
        }
        self.acknowledge(!self.setting.lazy, failures)
    }

    /// Runs a transaction or a change on one of the first two roots.
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

    /// Runs a transaction on the first two roots.
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

    /// Returns whether the root exists.
    pub fn exists(&self, which: Which) -> bool {
        self.state.roots.contains_key(&Run::name(&self.state, which))
    }

    /// Returns whether the operation has something to work on. In a sensible program it may have nothing if
    /// an earlier operation found no space, the disk has failed, or the power failed before an earlier
    /// operation was durable.
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

    /// Returns the current name of a root.
    fn name(state: &State, which: Which) -> String {
        match which {
            Which::A => "a".to_owned(),
            Which::B => {
                let others = state.roots.keys().find(|name| !["a", THIRD].contains(&name.as_str()));
                others.cloned().unwrap_or_else(|| "b".to_owned())
            }
        }
    }

    /// Runs an operation of one step on one root.
    pub fn one(&mut self, what: One, which: Which) -> Result<(), String> {
        let what = match what {
            // A held node may not be freed, and the list behind it must stay as it is.
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

    /// Runs an operation of one step on one root if the root exists.
    pub fn one_if_there(&mut self, what: One, which: Which) -> Result<(), String> {
        if self.exists(which) { self.one(what, which) } else { Ok(()) }
    }

    /// Returns whether the first node of the list has the value of a held node, or of one behind it.
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

    /// Runs an operation. If it has nothing to work on after a failure of an earlier one, a step does
    /// nothing.
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
                    // A push that failed may have left no node to pop.
                    if may_have_failed && !self.applies(Op::One(what, which)) {
                        return self.step(|_, _, _, _| Ok(()));
                    }
                    self.one(what, which)?;
                    // Checks each step, because a cycle may end in it. The next cycle could hide its
                    // mistakes.
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
                    return Ok(()); // no room for the third root, or a call has failed
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
                // This step and those before it survive a power failure.
                self.tell(true);
                Ok(())
            }
            Op::Change(Change::Defer) => {
                self.step_on(Which::A, handle, ops::defer)?;
                // The operation has waited for its commit, so this holds with every sync policy.
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
    /// Ignores a panic: a heap with a seeded bug may panic once more when it is closed.
    fn drop(&mut self) {
        let _ = self.end();
    }
}
