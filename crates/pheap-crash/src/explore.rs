//! The explorer: crashes programs at their points, recovers, and compares with the oracle.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::{ControlFlow, Range};

use crate::medium::{Content, Moment, Snapshot};
use crate::model::State;
use crate::program::{Change, One, Op, Program, Setting, Which};
use crate::report::{Crash, Totals, write_crashes};
use crate::run::{Opening, Ready, Run, Trace, calls, ready, run};
use crate::subset::Breadth;
use pheap_testkit::rng::{Rng, mix};

/// How thoroughly to explore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Name of the limits on the command line.
    pub name: &'static str,
    /// Subsets at each point of a program.
    pub breadth: Breadth,
    /// Subsets at each point of a recovery.
    pub nested: Breadth,
    /// Of the recovered heaps that are examined, transactions run on one in this many, and the power fails
    /// again. The others run one transaction and a collection.
    pub after_every: u64,
    /// One in this many recoveries of a program is explored as well, with the operations that run after it.
    pub deep_every: u64,
    /// Seed of the random subsets.
    pub seed: u64,
}

impl Limits {
    fn new(
        name: &'static str,
        breadth: [usize; 3],
        nested: [usize; 3],
        after_every: u64,
        seed: u64,
    ) -> Limits {
        let of = |[exhaustive, corners, random]: [usize; 3]| Breadth { exhaustive, corners, random };
        Limits { name, breadth: of(breadth), nested: of(nested), after_every, deep_every: 64, seed }
    }

    /// For many programs.
    pub fn quick(seed: u64) -> Limits {
        Limits::new("quick", [3, 2, 6], [1, 0, 1], 2, seed)
    }

    /// For some programs.
    pub fn wide(seed: u64) -> Limits {
        Limits::new("wide", [8, 8, 16], [3, 2, 4], 4, seed)
    }

    /// For one program, or for a night: all images of points with up to 14 pending changes.
    pub fn thorough(seed: u64) -> Limits {
        Limits::new("thorough", [14, 32, 128], [4, 4, 6], 2, seed)
    }

    /// Returns the limits with this name.
    ///
    /// # Errors
    /// A message, if no limits have this name.
    pub fn named(name: &str, seed: u64) -> Result<Limits, String> {
        let all = [Limits::quick(seed), Limits::wide(seed), Limits::thorough(seed)];
        let found = all.into_iter().find(|limits| limits.name == name);
        found.ok_or_else(|| format!("{name:?} is none of quick, wide, thorough"))
    }
}

/// A program that fails.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The program.
    pub program: Program,
    pub(crate) limits: Limits,
    /// The crash, and perhaps one during the recovery from it. Empty if the program fails without a crash.
    pub crashes: Vec<Crash>,
    /// The error, for people.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "FAILURE of the program `{}`", self.program)?;
        write_crashes(f, &self.crashes, &self.message)?;
        write!(
            f,
            "  replay: cargo run --release -p pheap-crash -- --program \"{}\" --limits {} --seed {}",
            self.program, self.limits.name, self.limits.seed
        )
    }
}

/// Result of an image that was examined.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// [`State::digest`] of the state that recovery found in the image.
    state: u64,
    /// Whether the recovery from it was explored.
    deep: bool,
}

/// Error of an image.
#[derive(Debug)]
struct Wrong {
    message: String,
    /// The crashes that lead to the image, the last one first.
    crashes: Vec<Crash>,
}

impl From<String> for Wrong {
    fn from(message: String) -> Wrong {
        Wrong { message, crashes: Vec::new() }
    }
}

/// The states that recovery may find. There may be more digests than states.
struct Allowed<'t> {
    states: &'t [State],
    digests: Vec<u64>,
}

impl Allowed<'_> {
    fn new<'t>(states: &'t [State], more: &[State]) -> Allowed<'t> {
        Allowed { states, digests: states.iter().chain(more).map(State::digest).collect() }
    }
}

/// Explores programs, and remembers the images that it has examined.
#[derive(Debug)]
pub struct Explorer {
    limits: Limits,
    ready: Ready,
    known: HashMap<u64, Known>,
    /// [`State::digest`] of the state that a recovery found, by [`Run::digest`] of the recovered heap. Such a
    /// heap was checked, and perhaps examined.
    examined: HashMap<u64, u64>,
    /// The current point has so many images that the explorer examines only some of the recovered heaps.
    crowded: bool,
    totals: Totals,
}

/// A point whose subsets are all visited is crowded if it has at least this many pending changes.
const CROWD: usize = 9;

/// Images and recovered heaps that an explorer remembers at most when a program begins.
const MEMORY: usize = 1 << 22;

impl Explorer {
    /// Makes a new explorer. Switch seeded bugs on afterwards, so that they do not damage the heaps that
    /// programs start with.
    ///
    /// # Errors
    /// If one of the initial heaps cannot be made.
    pub fn new(limits: Limits) -> Result<Explorer, String> {
        Ok(Explorer::with(limits, ready()?))
    }

    fn with(limits: Limits, ready: Ready) -> Explorer {
        let (known, examined) = (HashMap::new(), HashMap::new());
        Explorer { limits, ready, known, examined, crowded: false, totals: Totals::default() }
    }

    /// Returns an explorer that remembers no images and has the same heaps to start with.
    pub fn anew(&self, limits: Limits) -> Explorer {
        Explorer::with(limits, self.ready.clone())
    }

    /// Sets the limits of the following programs.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns the totals so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Runs a program without a crash.
    ///
    /// # Errors
    /// The first error of the program.
    pub fn run(&self, program: &Program) -> Result<Trace, String> {
        run(program, &self.ready)
    }

    /// Returns copies of the program, each with a call of its disk that fails: one or two copies for each
    /// call that it makes.
    ///
    /// # Errors
    /// The error of the program if it fails without a failing call.
    pub fn failing(&self, program: &Program) -> Result<Vec<Program>, String> {
        let calls = calls(program, &self.ready)?;
        let with = |failing| Program { failing: Some(failing), ..program.clone() };
        let all = program.failures(|file, call| calls.get(&(file, call)).copied().unwrap_or(0));
        Ok(all.into_iter().map(with).collect())
    }

    /// Explores a program. `last_only` limits this to its last operation, for programs whose other operations
    /// are explored elsewhere.
    ///
    /// # Errors
    /// The first failure.
    pub fn explore(&mut self, program: &Program, last_only: bool) -> Result<(), Box<Failure>> {
        if self.known.len() + self.examined.len() > MEMORY {
            self.known.clear();
            self.examined.clear();
        }
        self.totals.programs += 1;
        self.totals.wal_programs += u64::from(program.setting.wal);
        self.totals.faults += u64::from(program.failing.is_some());
        let from = if last_only { program.ops.len() } else { 0 };
        let result = run(program, &self.ready).map_err(Wrong::from).and_then(|trace| {
            let mut name = DefaultHasher::new();
            program.to_string().hash(&mut name);
            self.trace(&trace, from, &[self.limits.seed, name.finish()], Level::Program, &[])
        });
        result.map_err(|Wrong { message, mut crashes }| {
            self.totals.failures += 1;
            crashes.reverse();
            Box::new(Failure { program: program.clone(), limits: self.limits, crashes, message })
        })
    }

    /// Explores the points of a trace from operation `from` on, if they are to be explored. Until the first
    /// opening is acknowledged, the states in `first` are allowed as well.
    fn trace(
        &mut self,
        trace: &Trace,
        from: usize,
        seeds: &[u64],
        level: Level,
        first: &[State],
    ) -> Result<(), Wrong> {
        let breadth = match level {
            Level::Program => self.limits.breadth,
            Level::Recovery => self.limits.nested,
        };
        for (number, phase) in trace.phases.iter().enumerate() {
            let explored = |op: &Option<usize>| op.is_some_and(|op| op >= from);
            if !phase.points.iter().any(|(_, op)| explored(op)) {
                continue;
            }
            let mut image = Snapshot::new(phase.start.clone());
            let mut before = 0;
            for (at, (point, op)) in phase.points.iter().enumerate() {
                image.advance(point);
                let since = std::mem::replace(&mut before, point.acknowledged().0);
                if !explored(op) {
                    continue;
                }
                self.totals.points += 1;
                self.crowded = (CROWD..=breadth.exhaustive).contains(&point.pending());
                let mut rng = Rng::new(&[seeds, &[number as u64, at as u64]].concat());
                let first = if point.acknowledged().0 == 0 { first } else { &[] };
                let allowed = Allowed::new(trace.allowed(point), first);
                let mut done = point.subsets(breadth, &mut rng, |chosen| {
                    self.crash(&image, point, chosen, &allowed, None, level)
                });
                for chosen in point.kills(breadth.corners, &mut rng) {
                    if done.is_break() {
                        break;
                    }
                    let all = chosen.iter().all(|chosen| *chosen);
                    let allowed = Allowed::new(trace.allowed_when_killed(point, all, since), first);
                    let later = trace.allowed_after_kill(point, since);
                    done = self.crash(&image, point, &chosen, &allowed, Some(later), level);
                }
                if let ControlFlow::Break((mut wrong, chosen, killed)) = done {
                    wrong.crashes.push(Crash::new(number, at, point, &chosen, killed));
                    return Err(wrong);
                }
            }
        }
        Ok(())
    }

    /// Crashes at a point, recovers unless the image is known, and compares. If `killed` is given, the
    /// process is killed: the chosen changes can be read and are not durable. If the power then fails before
    /// they are durable, recovery may find one of the states in `killed`.
    fn crash(
        &mut self,
        image: &Snapshot,
        point: &Moment,
        chosen: &[bool],
        allowed: &Allowed<'_>,
        killed: Option<&[State]>,
        level: Level,
    ) -> ControlFlow<(Wrong, Vec<bool>, bool)> {
        let hash = image.hash(point, chosen, killed.is_some());
        let left = || image.left(point, chosen, killed.is_some());
        let deep = match level {
            Level::Program => hash.is_multiple_of(self.limits.deep_every),
            Level::Recovery => false,
        };
        let known = self.known.get(&hash).filter(|known| known.deep || !deep);
        if known.is_some_and(|known| allowed.digests.contains(&known.state)) {
            self.totals.duplicates += 1;
            return ControlFlow::Continue(());
        }
        let first = killed.unwrap_or(&[]);
        let wrong = match self.recover(left(), hash, deep, level, first) {
            Ok(state) if allowed.digests.contains(&state) => {
                self.known.insert(hash, Known { state, deep });
                return ControlFlow::Continue(());
            }
            Ok(_) => match Run::open(Opening::silent(Setting::default()), left(), None, 2) {
                Ok(run) => Wrong::from(not_allowed(allowed.states, run.state())),
                Err(error) => Wrong::from(error),
            },
            Err(wrong) => wrong,
        };
        ControlFlow::Break((wrong, chosen.to_vec(), killed.is_some()))
    }

    /// Opens an image, and returns the [digest](State::digest) of its state. If no equal heap was recovered
    /// before, the heap is checked and [examined](Self::examine); of a crowd, and of crashes during recovery,
    /// only about one in eight is examined. A few repeated ones are treated as if they were new. With `deep`,
    /// transactions run on the heap instead, and the recovery is crashed; [`trace`](Self::trace) explains
    /// `first`.
    fn recover(
        &mut self,
        mut image: Content,
        hash: u64,
        deep: bool,
        level: Level,
        first: &[State],
    ) -> Result<u64, Wrong> {
        self.totals.images += 1;
        let bits = Bits(hash);
        if bits.all(53..59) {
            image = image.on_disk();
        }
        let wal = matches!(image, Content::Disk(..));
        self.totals.wal_images += u64::from(wal);
        if deep {
            let run = Run::open(bits.setting(wal), image, None, level.generation())?;
            let state = run.state().clone();
            let trace = self.go_on(run, bits, true)?;
            self.totals.deep += 1;
            self.trace(&trace, 0, &[self.limits.seed, hash], Level::Recovery, first)?;
            return Ok(state.digest());
        }
        let setting = Setting { moved: bits.all(34..37), ..Setting::default() };
        let mut run = Run::begin(Opening::silent(setting), image, level.generation())?;
        let outcome = run.digest();
        if let Some(&state) = self.examined.get(&outcome)
            && !bits.all(48..52)
        {
            run.abandon()?;
            return Ok(state);
        }
        let report = run.settle(None)?;
        run.check_settled(report)?;
        let (state, left) = (run.state().clone(), run.durable());
        run.abandon()?;
        let digest = state.digest();
        let bits = Bits(mix(outcome));
        if !(self.crowded || matches!(level, Level::Recovery)) || bits.all(60..63) {
            self.examine(left, state, bits, level)?;
            self.totals.examined += 1;
        }
        self.examined.insert(outcome, digest);
        Ok(digest)
    }

    /// Opens a recovered heap once more after a power failure, and uses it.
    fn examine(&mut self, left: Content, state: State, bits: Bits, level: Level) -> Result<(), Wrong> {
        let setting = bits.setting(matches!(left, Content::Disk(..)));
        let mut run = Run::open(Opening::silent(setting), left, Some(state), level.generation())
            .map_err(|error| format!("after a recovery and another crash, {error}"))?;
        if (bits.0 >> 8).is_multiple_of(self.limits.after_every) {
            return self.go_on(run, bits, false).map(drop);
        }
        let collect = |run: &mut Run| {
            run.one_if_there(One::Replace, Which::A)?;
            run.collect_all()
        };
        collect(&mut run).map_err(after)?;
        run.finish()?;
        Ok(())
    }

    /// Runs a few transactions on a recovered heap, and compares it after a power failure at one or two
    /// moments. `all` adds the second moment, after a collection and more transactions; else some heaps get
    /// it.
    fn go_on(&mut self, mut run: Run, bits: Bits, all: bool) -> Result<Trace, Wrong> {
        let ends = use_it(&mut run, bits, all).map_err(after)?;
        let trace = run.finish()?;
        for (expected, end) in ends {
            let how = Opening::silent(Setting::default());
            Run::open(how, end, Some(expected), 4).and_then(Run::finish).map_err(|error| {
                format!("after a recovery, transactions that were acknowledged and another crash, {error}")
            })?;
        }
        Ok(trace)
    }
}

/// Uses a recovered heap. Returns its expected state and its durable content at one or two moments.
fn use_it(run: &mut Run, bits: Bits, all: bool) -> Result<Vec<(State, Content)>, String> {
    // A short transaction on each root, and sometimes another operation on the first.
    let more = [One::Push, One::Many, One::Overlap, One::Big, One::Grow, One::Stuff, One::Replace]
        .get((bits.0 >> 1 & 15) as usize)
        .copied();
    // In half of these cases the other operation comes first, when only recovery has made anything durable.
    let (first, more) = if bits.all(50..51) { (more, None) } else { (None, more) };
    first.map_or(Ok(()), |first| run.one_if_there(first, Which::A))?;
    run.one_if_there(One::Set, Which::A)?;
    run.one_if_there(One::Set, Which::B)?;
    more.map_or(Ok(()), |more| run.one_if_there(more, Which::A))?;
    run.use_collections((bits.0 >> 46) as usize)?;
    if run.exists(Which::A) && !run.exists(Which::B) {
        // The creation or removal of the root may have been interrupted, or recovery may have freed its
        // pages.
        run.one(One::Push, Which::A)?;
        run.op(Op::Change(Change::Create))?;
    }
    if run.setting().lazy {
        run.op(Op::Change(Change::Sync))?;
    }
    let mut ends = vec![(run.state().clone(), run.durable())];
    if all || bits.all(36..37) {
        run.check()?;
        run.collect_all()?;
        // Allocates after the collection has freed memory.
        run.one_if_there(One::Stuff, Which::A)?;
        run.one_if_there(One::Replace, Which::A)?;
        if run.is_on_disk() {
            let how = if bits.all(45..46) { Change::Checkpoint } else { Change::Sync };
            run.op(Op::Change(how))?;
        }
        ends.push((run.state().clone(), run.durable()));
    }
    Ok(ends)
}

fn after(error: String) -> String {
    format!("after a recovery, {error}")
}

/// Decisions by the bits of the hash of an image or of a recovered heap, so that they do not depend on what
/// was explored before.
#[derive(Debug, Clone, Copy)]
struct Bits(u64);

impl Bits {
    /// Returns whether all of these bits are set.
    fn all(self, mut bits: Range<u32>) -> bool {
        bits.all(|n| self.0 >> n & 1 == 1)
    }

    /// Returns the setting with which the heap is opened if it is used.
    fn setting(self, wal: bool) -> Setting {
        Setting {
            pin: self.all(0..1),
            eager: self.all(32..34),
            moved: self.all(34..36),
            lazy: wal && self.all(40..42),
            small: wal && self.all(42..43),
            short: wal && self.all(43..45),
            ..Setting::default()
        }
    }
}

/// Kind of run whose points are crashed.
#[derive(Debug, Clone, Copy)]
enum Level {
    Program,
    Recovery,
}

impl Level {
    /// Returns the generation of the values that runs on recovered heaps write; see [`Run::open`].
    fn generation(self) -> u64 {
        match self {
            Level::Program => 2,
            Level::Recovery => 3,
        }
    }
}

fn not_allowed(allowed: &[State], found: &State) -> String {
    let mut text = "the state is neither that before nor that after the operation\n".to_owned();
    let names = ["before".to_owned(), "after".to_owned()].into_iter();
    for (name, state) in names.chain((2..).map(|n| format!("{n} steps after"))).zip(allowed) {
        text += &format!(" {name}:\n{}", state.difference(found));
    }
    text
}
