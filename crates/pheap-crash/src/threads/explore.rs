//! Runs a program under one schedule after the other, and crashes it at each point.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use pheap::sim::mutant::{Mutant, Noted, Site};
use pheap::sim::{Mistake, mutant, schedule, set_bug, set_mistake};

use super::model::{Event, State, allowed};
use super::program::Program;
use super::scheduler::{Plan, Step, Switch, Turns};
use super::world::{Hands, Shared, create_all, locked, look, options, use_it};
use crate::medium::{Content, Medium, Moment, Snapshot};
use crate::report::Said;
use crate::run::{catching, no_panic};
use crate::subset::Breadth;
use pheap_testkit::Rng;
use pheap_testkit::rng::mix;

/// Limits of the exploration of a program.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Largest number of interruptions of a thread that could go on, in one schedule.
    pub preemptions: usize,
    /// Largest number of schedules. Those with fewer interruptions come first, in random order.
    pub schedules: usize,
    /// After this many opened images, no further schedule is run.
    pub images: u64,
    /// Subsets at each point.
    pub breadth: Breadth,
    /// About one in this many opened images is used, crashed again, and opened once more.
    pub after_every: u64,
    /// Seed of random choices.
    pub seed: u64,
}

/// What is switched on in both threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seed {
    /// A mistake in how threads meet.
    pub mistake: Option<Mistake>,
    /// A mistake in a protocol.
    pub bug: Option<pheap::sim::Bug>,
    /// A mutant of one place in the source.
    pub mutant: Option<Mutant>,
    /// Whether the sites that the threads come to are recorded.
    pub notes: bool,
}

/// Counters of an exploration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Programs explored.
    pub programs: u64,
    /// Schedules run.
    pub schedules: u64,
    /// Programs all of whose schedules were run, up to the limit of interruptions.
    pub complete: u64,
    /// Steps of threads.
    pub steps: u64,
    /// Points that no earlier schedule had come to.
    pub points: u64,
    /// Images of crashes at these points, compared with the results that threads had got.
    pub images: u64,
    /// The same, with the images of points that several schedules come to counted as often.
    pub repeated: u64,
    /// Images that were opened, because they equalled no earlier one, or an earlier one had led to a state
    /// that is not allowed for them.
    pub opened: u64,
    /// Programs that failed.
    pub failures: u64,
}

/// A program that fails.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The program.
    pub program: &'static str,
    /// The schedule.
    pub plan: Plan,
    /// The crash, if there was one, and the error.
    pub message: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Failure { program, plan, message } = self;
        writeln!(f, "FAILURE of `{program}`, schedule {plan}")?;
        message.lines().try_for_each(|line| writeln!(f, "  {line}"))?;
        write!(f, "  replay: pheap-crash threads --only \"{program}\" --schedule {plan}")
    }
}

/// Number of heaps that threads which wait for ever keep, together with their addresses.
static LOST: AtomicU64 = AtomicU64::new(0);

fn base() -> u64 {
    (0x5c00 - LOST.load(Ordering::Relaxed)) << 32
}

/// Record of a run under one schedule.
struct Execution {
    moments: Vec<Moment>,
    events: Vec<Event>,
    steps: Vec<Step>,
    /// The first error that a thread has reported; if there is none, the first violation of the medium.
    wrong: Option<String>,
}

/// The exploration of a program.
pub struct Exploration {
    program: Program,
    limits: Limits,
    seed: Seed,
    base: u64,
    start: Content,
    totals: Totals,
    /// [`State::digest`] of the recovered state, by the hash of the image.
    known: HashMap<u64, u64>,
    /// Number of images of the points explored, by a hash of the point.
    points: HashMap<u64, u64>,
    /// Digests of the states that recovery may find, by a hash of the events.
    allowed: HashMap<u64, Arc<Vec<u64>>>,
    /// The sites that threads have come to, if these are recorded.
    noted: Vec<Noted>,
}

fn hash_of(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

impl Exploration {
    /// Prepares the exploration of a program.
    ///
    /// # Errors
    /// If the initial heap cannot be made.
    pub fn new(program: Program, limits: Limits, seed: Seed) -> Result<Exploration, String> {
        let base = base();
        let medium = Medium::new(Content::default());
        medium.be_silent();
        let heap = medium.open(&options(&program, base)).said()?;
        create_all(&heap, &program)?;
        heap.close().said()?;
        let content = medium.durable();
        let start = if program.medium.is_log() { content.on_disk() } else { content };
        let totals = Totals { programs: 1, ..Totals::default() };
        let (known, points, allowed, noted) = Default::default();
        Ok(Exploration { program, limits, seed, base, start, totals, known, points, allowed, noted })
    }

    /// Returns the sites that the threads have come to since the last call, if these are recorded.
    pub fn sites(&mut self) -> Vec<Site> {
        mutant::note_sites(true);
        self.noted.drain(..).for_each(mutant::add_noted);
        let sites = mutant::sites().into_keys().collect();
        mutant::note_sites(false);
        sites
    }

    /// Returns the totals so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Explores schedules up to the limits, those with fewer interruptions first.
    ///
    /// # Errors
    /// The first failure.
    pub fn explore(&mut self) -> Result<(), Box<Failure>> {
        let plan = |first| Plan { first, switches: Vec::new() };
        let mut level: Vec<Plan> = vec![plan(0), plan(1)];
        let mut rng = Rng::new(&[self.limits.seed]);
        for preemptions in 0..=self.limits.preemptions {
            let is_last = preemptions == self.limits.preemptions;
            let mut next = Vec::new();
            // In random order, so that the schedules that the limits leave out are spread evenly.
            for i in 0..level.len() {
                let other = i + rng.below(level.len() - i);
                level.swap(i, other);
            }
            for plan in level {
                let left = self.totals.schedules < self.limits.schedules as u64;
                if !left || self.totals.opened >= self.limits.images {
                    return Ok(());
                }
                let steps = self.run(&plan)?;
                if !is_last {
                    next.extend(interruptions(&plan, &steps));
                }
            }
            level = next;
        }
        self.totals.complete = 1;
        Ok(())
    }

    /// Runs one schedule, and crashes it at each point. Returns its steps.
    ///
    /// # Errors
    /// The first failure.
    pub fn run(&mut self, plan: &Plan) -> Result<Vec<Step>, Box<Failure>> {
        self.totals.schedules += 1;
        let result = self.execute(plan).and_then(|execution| {
            self.totals.steps += execution.steps.len() as u64;
            self.crash_everywhere(&execution)?;
            match execution.wrong {
                Some(wrong) => Err(wrong),
                None => Ok(execution.steps),
            }
        });
        result.map_err(|message| {
            self.totals.failures += 1;
            Box::new(Failure { program: self.program.name, plan: plan.clone(), message })
        })
    }

    fn execute(&mut self, plan: &Plan) -> Result<Execution, String> {
        let medium = Medium::new(self.start.clone());
        let heap = medium.open(&options(&self.program, self.base)).said()?;
        let shared: Arc<Mutex<Shared>> = Arc::default();
        let turns = Arc::new(Turns::new(plan.clone()));
        let hands = [0, 1].map(|thread| Hands::new(thread, self.program, &medium, &heap, &shared));
        let heap = (!self.program.closes).then_some(heap);
        let mut threads = Vec::new();
        for (number, hands) in hands.into_iter().enumerate() {
            let mut hands = hands?;
            let (turns, shared, medium) = (turns.clone(), shared.clone(), medium.clone());
            let (seed, closes) = (self.seed, self.program.closes);
            let work = move || {
                schedule(Some((turns.clone(), number)));
                set_bug(seed.bug);
                set_mistake(seed.mistake);
                mutant::set_mutant(seed.mutant);
                mutant::note_sites(seed.notes);
                turns.enter(number);
                let prepared = hands.prepare();
                turns.arrive(number, || medium.acknowledge(1, 1));
                let ended = prepared.and_then(|()| no_panic(|| hands.run_all()));
                let (hands, dropped) =
                    if closes { (None, no_panic(|| drop(hands))) } else { (Some(hands), Ok(())) };
                for wrong in [dropped.err(), ended.err()].into_iter().flatten() {
                    locked(&shared).wrong.get_or_insert(wrong);
                }
                schedule(None);
                if seed.notes {
                    locked(&shared).noted.push(mutant::take_noted());
                }
                turns.end(number);
                hands
            };
            threads.push(thread::Builder::new().spawn(work).said()?);
        }
        let steps = turns.join().inspect_err(|_| {
            // The threads keep their heap for ever.
            LOST.fetch_add(1, Ordering::Relaxed);
        });
        let steps = match steps {
            Ok(steps) => steps,
            Err(stuck) => {
                std::mem::forget(heap);
                return Err(stuck);
            }
        };
        let hands: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        let moments = medium.take_points();
        if let Some(heap) = heap {
            medium.look();
            drop(hands);
            no_panic(|| heap.abandon())?;
        }
        let mut shared = locked(&shared);
        let wrong = shared.wrong.take().or_else(|| medium.violations().first().cloned());
        let events = std::mem::take(&mut shared.events);
        self.noted.append(&mut shared.noted);
        Ok(Execution { moments, events, steps, wrong })
    }

    /// Returns the digests of the states that recovery may find after these events. `told`: all operations
    /// that have returned must be there.
    fn allowed(&mut self, start: &State, events: &[Event], told: bool) -> Arc<Vec<u64>> {
        let key = hash_of(&(events, told));
        let program = self.program;
        let states =
            || Arc::new(allowed(start, program.threads, events, told).iter().map(State::digest).collect());
        self.allowed.entry(key).or_insert_with(states).clone()
    }

    fn crash_everywhere(&mut self, execution: &Execution) -> Result<(), String> {
        let begin = execution.moments.iter().position(|moment| moment.acknowledged().0 > 0);
        let Some(begin) = begin else { return Err("the schedule never began".to_owned()) };
        let mut image = Snapshot::new(self.start.clone());
        execution.moments[..begin].iter().for_each(|moment| image.advance(moment));
        let mut start: Option<State> = None;
        let mut before = 0;
        for (at, moment) in execution.moments.iter().enumerate().skip(begin) {
            image.advance(moment);
            // Changes made before the schedule begins are part of its initial state.
            let start = match &start {
                Some(start) => start.clone(),
                None => {
                    let all = vec![true; moment.pending()];
                    let found = self.open(image.left(moment, &all, true), 0)?;
                    start.insert(found).clone()
                }
            };
            let events = &execution.events[..moment.acknowledged().0 - 1];
            // A process that was killed since the last point had no more results than at that point.
            let told = std::mem::replace(&mut before, events.len());
            let is_told = self.program.medium == super::program::Medium::Lazy;
            let failed = self.allowed(&start, events, false);
            let killed = {
                let mut known = events[..told].to_vec();
                let begun = |event: &&Event| matches!(event, Event::Begin(_));
                known.extend(events[told..].iter().filter(begun).cloned());
                self.allowed(&start, &known, is_told)
            };
            if failed.is_empty() {
                return Err(format!("no order explains what was returned:\n{events:#?}"));
            }
            let none = vec![false; moment.pending()];
            let all = vec![true; moment.pending()];
            let point = hash_of(&(
                image.hash(moment, &none, false),
                image.hash(moment, &all, true),
                &failed,
                &killed,
            ));
            if let Some(images) = self.points.get(&point) {
                self.totals.repeated += images;
                continue;
            }
            let images = self.totals.images;
            self.totals.points += 1;
            let mut rng = Rng::new(&[self.limits.seed, point]);
            let breadth = self.limits.breadth;
            let mut done = moment
                .subsets(breadth, &mut rng, |chosen| self.crash(&image, moment, chosen, &failed, false));
            for chosen in moment.kills(breadth.corners, &mut rng) {
                if done.is_continue() {
                    done = self.crash(&image, moment, &chosen, &killed, true);
                }
            }
            if let ControlFlow::Break((wrong, chosen, killed)) = done {
                let reached = chosen.iter().filter(|chosen| **chosen).count();
                let how = if killed { "the process is killed" } else { "the power fails" };
                return Err(format!(
                    "{how} at point {at} ({}), when {reached} of {} changes had been written, after\n{events:?}\n{wrong}",
                    moment.at(),
                    chosen.len()
                ));
            }
            let images = self.totals.images - images;
            self.totals.repeated += images;
            self.points.insert(point, images);
        }
        Ok(())
    }

    fn crash(
        &mut self,
        image: &Snapshot,
        moment: &Moment,
        chosen: &[bool],
        allowed: &[u64],
        killed: bool,
    ) -> ControlFlow<(String, Vec<bool>, bool)> {
        self.totals.images += 1;
        let hash = image.hash(moment, chosen, killed);
        let found = match self.known.get(&hash) {
            Some(found) if allowed.contains(found) => return ControlFlow::Continue(()),
            _ => {
                self.totals.opened += 1;
                self.open(image.left(moment, chosen, killed), hash)
            }
        };
        let wrong = match found {
            Ok(state) if allowed.contains(&state.digest()) => {
                self.known.insert(hash, state.digest());
                return ControlFlow::Continue(());
            }
            Ok(state) => format!("nobody expects {state:?}"),
            Err(error) => error,
        };
        ControlFlow::Break((wrong, chosen.to_vec(), killed))
    }

    /// Opens the image of a crash, and returns its state. In some of the cases, which `hash` decides, uses
    /// the heap, crashes it again, and compares.
    fn open(&self, content: Content, hash: u64) -> Result<State, String> {
        let uses = hash != 0 && mix(hash).is_multiple_of(self.limits.after_every);
        let medium = Medium::new(content);
        medium.be_silent();
        let options = options(&self.program, self.base);
        catching(|| {
            let heap = medium.opened(&options)?;
            let state = look(&heap)?;
            if !uses {
                heap.abandon();
                return Ok(state);
            }
            let used = use_it(&heap, &state)?;
            if self.program.medium.is_log() {
                heap.sync().said()?;
            }
            let left = medium.durable();
            heap.abandon();
            let medium = Medium::new(left);
            medium.be_silent();
            let heap = medium.opened(&options)?;
            let found = look(&heap)?;
            heap.abandon();
            if found == used {
                Ok(state)
            } else {
                Err(format!(
                    "after a recovery, transactions and another crash: it should hold {used:?}, and holds {found:?}"
                ))
            }
        })
    }
}

/// Returns the schedules that have one interruption more.
fn interruptions(plan: &Plan, steps: &[Step]) -> Vec<Plan> {
    let from = plan.switches.last().map_or(0, |last| last.at + 1);
    let mut more = Vec::new();
    for (at, step) in steps.iter().enumerate().skip(from).filter(|(_, step)| step.switches) {
        for late in [false, true] {
            // If there are late changes and none is a store, the other thread cannot tell the two variants
            // apart. Then only the late one is taken, which leaves more images.
            let (anything, store) = step.late;
            if late && anything || !late && (store || !anything) {
                let switches = [&plan.switches[..], &[Switch { at, late }]].concat();
                more.push(Plan { switches, ..*plan });
            }
        }
    }
    more
}
