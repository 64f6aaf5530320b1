//! The heap of a program of two threads: the effects of operations, and its content.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pheap::sim::mutant::Noted;
use pheap::sim::step;
use pheap::{Commit, Error, Heap, Options, P, PSnapMap, Persist, Root, Snapshot, SyncPolicy, Txn, View};

use super::model::{Account, Event, Outcome, State, number};
use super::program::{Medium, Op, Program, Which};
use crate::report::Said;
use crate::run::catching;
use crate::tuning::SMALL;

/// Number of elements of the slice.
const SLICE: usize = 8;
/// Number of elements of a large object.
const BIG: usize = 1500;

#[derive(Persist)]
#[repr(C)]
pub(super) struct Record<'r> {
    x: u64,
    last: u64,
    gap: [u64; 14],
    twin: u64,
    slice: Option<P<'r, [u64]>>,
    list: Option<P<'r, Node<'r>>>,
    big: Option<P<'r, [u64]>>,
}

#[derive(Persist)]
#[repr(C)]
struct Node<'r> {
    value: u64,
    next: Option<P<'r, Node<'r>>>,
    gap: [u64; 61],
    twin: u64,
}

type Map = PSnapMap<'static, u64, u64>;

/// Returns the options that the heap of a program is opened with.
pub(super) fn options(program: &Program, base: u64) -> Options {
    let options = Options::new().tuning(SMALL).arena_size(64 << 10).reserve(16 << 20).collect_threads(1);
    let options = options.pin_undo(program.medium == Medium::Undo).base(base).log_limit(1 << 20);
    let options = if program.eager { options.collect_least(1).collect_growth(0) } else { options };
    let lazy = program.medium == Medium::Lazy;
    options.sync_policy(if lazy { SyncPolicy::OnDemand } else { SyncPolicy::EveryCommit })
}

fn create<'r>(tx: &mut Txn<'r>) -> pheap::Result<Record<'r>> {
    let slice = tx.alloc_slice_copy(&[0; SLICE])?;
    let gap = [0; 14];
    Ok(Record { x: 0, last: 0, gap, twin: 0, slice: Some(slice), list: None, big: None })
}

fn create_root(heap: &Heap, which: Which) -> pheap::Result<Root<Record<'static>>> {
    heap.root_or(which.name(), |tx| create(tx))
}

/// Creates the initial roots of a program.
pub(super) fn create_all(heap: &Heap, program: &Program) -> Result<(), String> {
    let a = create_root(heap, Which::A).said()?;
    a.txn(|tx, p| push(tx, p, 1)).said()?;
    if program.has_map() {
        let map = heap.root::<Map>("map").said()?;
        map.txn(|tx, map| map.insert(tx, &1, &1).map(drop)).said()
    } else {
        create_root(heap, Which::B).map(drop).said()
    }
}

fn push<'r>(tx: &mut Txn<'r>, p: P<'r, Record<'r>>, value: u64) -> pheap::Result<()> {
    let next = tx[p].list;
    let node = tx.alloc(Node { value, next, gap: [0; 61], twin: value })?;
    tx[p].list = Some(node);
    Ok(())
}

fn add<'r>(tx: &mut Txn<'r>, p: P<'r, Record<'r>>, number: u64) -> pheap::Result<()> {
    tx[p].x |= 1 << number;
    step("closure");
    tx[p].twin |= 1 << number;
    tx[p].last = number;
    Ok(())
}

/// Makes a short transaction long by taking two overlapping ranges: its copies are then stored in place.
fn spill<'r>(tx: &mut Txn<'r>, p: P<'r, Record<'r>>, number: u64) -> pheap::Result<()> {
    add(tx, p, number)?;
    let slice = tx[p].slice.expect("it was made with one");
    tx.slice_mut(slice, 1..3)[0] = number;
    tx.slice_mut(slice, 2..6)[1] = number;
    step("closure");
    Ok(())
}

fn see<'r>(view: &View<'r>, p: P<'r, Record<'r>>) -> Result<Account, String> {
    let Record { x, last, slice, list, big, .. } = view[p];
    step("closure");
    let twin = view[p].twin;
    let slice = slice.map_or([0; 2], |slice| [view[slice][1], view[slice][3]]);
    let (mut values, mut next) = (Vec::new(), list);
    while let Some(node) = next {
        let Node { value, twin, .. } = view[node];
        if value != twin || values.len() > 100 {
            return Err(format!("a node holds {value} and {twin}"));
        }
        values.push(value);
        next = view[node].next;
    }
    let big = match big.map(|big| &view[big]) {
        None => 0,
        Some(big) if big.len() == BIG && big.iter().all(|value| *value == big[0]) => big[0],
        Some(_) => return Err("a large object is not whole".to_owned()),
    };
    if x != twin {
        return Err(format!("a root holds {x:#x} and {twin:#x}"));
    }
    Ok(Account { x, last, slice, list: values, big })
}

fn see_map(map: &Snapshot<u64, u64>) -> pheap::Result<BTreeMap<u64, u64>> {
    map.read(|map| {
        let first = map.first_key_value().map(|(key, value)| (*key, *value));
        step("closure");
        first.into_iter().chain(map.iter().map(|(key, value)| (*key, *value))).collect()
    })
}

/// Reads a heap that was just opened. Checks it first, so that all pointers are valid.
pub(super) fn look(heap: &Heap) -> Result<State, String> {
    let report = heap.check().said()?;
    if !report.is_clean() {
        return Err(format!("the heap is damaged: {report}"));
    }
    let mut state = State::default();
    for &which in Which::ALL {
        match heap.existing_root::<Record<'_>>(which.name()) {
            Ok(root) => drop(state.roots.insert(which, root.read(see).said()??)),
            Err(Error::NoSuchRoot(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    match heap.existing_root::<Map>("map") {
        Ok(root) => state.map = root.read(|view, map| entries(view, &view[map])).said()?,
        Err(Error::NoSuchRoot(_)) => {}
        Err(error) => return Err(error.to_string()),
    }
    Ok(state)
}

fn entries<'r>(view: &View<'r>, map: &PSnapMap<'r, u64, u64>) -> BTreeMap<u64, u64> {
    map.iter(view).map(|(key, value)| (*key, *value)).collect()
}

/// Uses a recovered heap. Returns its state then, or an error if that is not the expected one.
pub(super) fn use_it(heap: &Heap, state: &State) -> Result<State, String> {
    let mut state = state.clone();
    for (which, account) in &mut state.roots {
        let root = heap.existing_root::<Record<'_>>(which.name()).said()?;
        for number in [1, 0] {
            root.txn(|tx, p| {
                add(tx, p, number)?;
                push(tx, p, number)
            })
            .said()?;
            account.x |= 1 << number;
            account.last = number;
            account.list.insert(0, number);
        }
    }
    heap.collect().said()?;
    let found = look(heap)?;
    if found == state { Ok(state) } else { Err(format!("it should hold {state:?}, and holds {found:?}")) }
}

/// Events and commits that the threads share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) events: Vec<Event>,
    /// The last deferred commit of each thread, and the index of its operation.
    commits: [Option<(usize, Arc<Commit>)>; 2],
    /// The first error.
    pub(super) wrong: Option<String>,
    /// The sites that the threads have come to.
    pub(super) noted: Vec<Noted>,
}

/// Locks the shared data, also after a thread has panicked.
pub(super) fn locked(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The handles of a thread.
pub(super) struct Hands {
    thread: usize,
    program: Program,
    medium: crate::medium::Medium,
    shared: Arc<Mutex<Shared>>,
    heap: Heap,
    a: Root<Record<'static>>,
    b: Option<Root<Record<'static>>>,
    map: Option<Root<Map>>,
    kept: Option<Snapshot<u64, u64>>,
}

impl Hands {
    pub(super) fn new(
        thread: usize,
        program: Program,
        medium: &crate::medium::Medium,
        heap: &Heap,
        shared: &Arc<Mutex<Shared>>,
    ) -> Result<Hands, String> {
        let a = heap.existing_root("a").said()?;
        let (b, map) = if program.has_map() {
            (None, Some(heap.existing_root("map").said()?))
        } else {
            (Some(heap.existing_root("b").said()?), None)
        };
        let (medium, shared, heap) = (medium.clone(), shared.clone(), heap.clone());
        Ok(Hands { thread, program, medium, shared, heap, a, b, map, kept: None })
    }

    fn root(&self, which: Which) -> &Root<Record<'static>> {
        match which {
            Which::A => &self.a,
            Which::B | Which::C => self.b.as_ref().expect("the program has two roots"),
        }
    }

    fn map(&self) -> &Root<Map> {
        self.map.as_ref().expect("the program has a map")
    }

    /// Notes an event.
    fn note(&self, event: Event) {
        let mut shared = locked(&self.shared);
        shared.events.push(event);
        let told = shared.events.len() + 1;
        self.medium.acknowledge(told, told);
    }

    /// Runs the operations before the schedule.
    pub(super) fn prepare(&mut self) -> Result<(), String> {
        let ops = self.program.before[self.thread];
        // The numbers alternate, so that successive operations write different values.
        ops.iter().enumerate().try_for_each(|(i, &op)| self.run(op, 0, i as u64 % 2).map(drop))
    }

    /// Runs the operations of the program.
    pub(super) fn run_all(&mut self) {
        for (i, &op) in self.program.threads[self.thread].iter().enumerate() {
            self.note(Event::Begin(self.thread));
            match self.run(op, i, number(self.thread, i)) {
                Ok((outcome, safe)) => self.note(Event::End(self.thread, outcome, safe)),
                Err(wrong) => {
                    let mut shared = locked(&self.shared);
                    shared.wrong.get_or_insert(format!("{op:?} fails: {wrong}"));
                    return;
                }
            }
        }
    }

    /// Runs an operation, which writes `number`. Returns its result, and whether it survives a power failure.
    fn run(&mut self, op: Op, index: usize, number: u64) -> Result<(Outcome, bool), String> {
        let lazy = self.program.medium == Medium::Lazy;
        let done = |result: pheap::Result<()>| match result {
            Ok(()) => Ok(Outcome::Done),
            Err(Error::Closed | Error::NoSuchRoot(_)) => Ok(Outcome::Gone),
            Err(error) => Err(error.to_string()),
        };
        // A transaction that fails has a value that it has read.
        let rolled_back = |result: pheap::Result<()>, last: u64| match result {
            Err(Error::Aborted(_)) => Ok(Outcome::After(last)),
            Ok(()) => Err("it should have failed".to_owned()),
            other => done(other),
        };
        let seen = |result: pheap::Result<Vec<Result<Account, String>>>| match result {
            Ok(seen) => Ok(Outcome::Seen(seen.into_iter().collect::<Result<_, _>>()?)),
            Err(error) => done(Err(error)),
        };
        let mapped = |result: pheap::Result<BTreeMap<u64, u64>>| match result {
            Ok(map) => Ok(Outcome::Map(map)),
            Err(error) => done(Err(error)),
        };
        let pair = |which: Which| (self.root(which), self.root(which.other()));
        let safe = !lazy;
        let outcome = catching(|| {
            Ok(match op {
                Op::Add(which) => done(self.root(which).txn(|tx, p| add(tx, p, number))),
                Op::Spill(which) => done(self.root(which).txn(|tx, p| spill(tx, p, number))),
                Op::Both(which) => done(pheap::txn(pair(which), |((ta, a), (tb, b))| {
                    add(ta, a, number)?;
                    add(tb, b, number)
                })),
                Op::SpillBoth(which) => done(pheap::txn(pair(which), |((ta, a), (tb, b))| {
                    spill(ta, a, number)?;
                    spill(tb, b, number)
                })),
                Op::Abort(which) | Op::SpillAbort(which) => {
                    let mut last = 0;
                    let result = self.root(which).txn(|tx, p| {
                        last = tx[p].last;
                        if matches!(op, Op::SpillAbort(_)) {
                            spill(tx, p, number)?;
                        } else {
                            add(tx, p, number)?;
                            push(tx, p, number)?;
                        }
                        Err(Error::abort("not today"))
                    });
                    rolled_back(result, last)
                }
                Op::Panic(which) => {
                    let result = catching(|| {
                        Ok(self.root(which).txn(|tx, p| -> pheap::Result<()> {
                            add(tx, p, number)?;
                            panic!("not today")
                        }))
                    });
                    match result {
                        Err(text) if text.contains("not today") => Ok(Outcome::Done),
                        Err(text) => Err(text),
                        Ok(result) => done(result),
                    }
                }
                Op::Read(which) => seen(self.root(which).read(|view, p| vec![see(view, p)])),
                Op::ReadBoth(which) => {
                    let (one, other) = pair(which);
                    let both = one.read(|view, p| {
                        let first = see(view, p);
                        other.read(see).map(|second| vec![first, second])
                    });
                    seen(both.and_then(|both| both))
                }
                Op::Push(which) => done(self.root(which).txn(|tx, p| push(tx, p, number))),
                Op::Pop(which) => done(self.root(which).txn(|tx, p| {
                    if let Some(first) = tx[p].list {
                        tx[p].list = tx[first].next;
                    }
                    Ok(())
                })),
                Op::Grow(which) => done(self.root(which).txn(|tx, p| {
                    let big = tx.alloc_slice(BIG, |_| number)?;
                    tx[p].big = Some(big);
                    Ok(())
                })),
                Op::Insert => done(self.map().txn(|tx, map| {
                    map.insert(tx, &number, &number)?;
                    step("closure");
                    map.insert(tx, &1, &number).map(drop)
                })),
                Op::Remove(which) => done(self.heap.remove_root(which.name())),
                Op::Create => done(create_root(&self.heap, Which::C).map(drop)),
                Op::Collect => done(self.heap.collect()),
                Op::CollectOne(which) => done(self.root(which).collect()),
                Op::Checkpoint => done(self.heap.checkpoint()),
                Op::Sync => done(self.heap.sync()),
                Op::Close => done(self.heap.clone().close()),
                Op::LookAgain => match &self.kept {
                    Some(kept) => mapped(see_map(kept)),
                    None => Ok(Outcome::Gone),
                },
                Op::ReadLater(which) => {
                    seen(self.root(which).read_deferred(|view, p| vec![see(view, p)]).map(|(seen, _)| seen))
                }
                Op::Look | Op::Keep | Op::Defer(_) | Op::DeferBoth(_) | Op::Wait => Ok(Outcome::Done),
            })
        })?;
        let outcome = match op {
            Op::Look | Op::Keep => {
                let snapshot = catching(|| Ok(self.map().read(|view, map| view[map].snapshot(view))))?;
                match snapshot.and_then(|snapshot| snapshot) {
                    Ok(snapshot) => {
                        let seen = catching(|| Ok(see_map(&snapshot)))?;
                        self.kept = Some(snapshot);
                        mapped(seen)
                    }
                    Err(error) => done(Err(error)),
                }
            }
            Op::Defer(_) | Op::DeferBoth(_) => {
                let commit = catching(|| {
                    Ok(match op {
                        Op::DeferBoth(which) => pheap::txn_deferred(pair(which), |((ta, a), (tb, b))| {
                            add(ta, a, number)?;
                            add(tb, b, number)
                        }),
                        Op::Defer(which) => self.root(which).txn_deferred(|tx, p| add(tx, p, number)),
                        _ => unreachable!("one of the two"),
                    })
                })?;
                match commit {
                    Ok(((), commit)) => {
                        let mut shared = locked(&self.shared);
                        shared.commits[self.thread] = Some((index, Arc::new(commit)));
                        return Ok((Outcome::Done, !self.program.medium.is_log()));
                    }
                    Err(error) => done(Err(error)),
                }
            }
            Op::Wait => {
                let commits = {
                    let shared = locked(&self.shared);
                    let of = |thread: usize| shared.commits[thread].clone().map(|commit| (thread, commit));
                    of(1 - self.thread).or_else(|| of(self.thread))
                };
                if let Some((thread, (op, commit))) = commits {
                    catching(|| commit.wait().said())?;
                    self.note(Event::Safe(thread, op));
                }
                Ok(Outcome::Done)
            }
            _ => outcome,
        }?;
        let safe = match op {
            // A deferred read does not wait for the commits that it sees.
            Op::ReadLater(_) => !self.program.medium.is_log(),
            Op::Wait | Op::Collect | Op::CollectOne(_) => false,
            // All operations that had returned when it began are durable.
            Op::Sync | Op::Checkpoint | Op::Close => true,
            _ => safe,
        };
        Ok((outcome, safe))
    }
}
