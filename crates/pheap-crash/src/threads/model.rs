//! The oracle: the content of a heap, the effects of operations, and the states that a crash may leave after
//! given results.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::program::{Op, Which};

/// Content of a root.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Account {
    /// A bit for each [`Op::Add`] and similar operation. Its twin is in another cache line.
    pub x: u64,
    /// Number of the last of these operations.
    pub last: u64,
    /// Two elements of the slice that long transactions write.
    pub slice: [u64; 2],
    /// The values of a list.
    pub list: Vec<u64>,
    /// Value of all elements of the large object; 0 if there is none.
    pub big: u64,
}

/// Content of a heap.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct State {
    /// The existing roots.
    pub roots: BTreeMap<Which, Account>,
    /// Content of the map with versions.
    pub map: BTreeMap<u64, u64>,
}

impl State {
    /// Returns a hash of the state.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// Result of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The operation is done.
    Done,
    /// The operation has failed. It had read this number of the last operation.
    After(u64),
    /// The root no longer exists, the heap is closed, or the thread has no snapshot.
    Gone,
    /// The content of roots.
    Seen(Vec<Account>),
    /// The content of the map.
    Map(BTreeMap<u64, u64>),
}

/// A heap, and the snapshots of its threads.
#[derive(Debug, Clone, Default)]
struct Model {
    state: State,
    closed: bool,
    /// The version of the map of which each thread has a snapshot.
    kept: [Option<BTreeMap<u64, u64>>; 2],
}

impl Model {
    fn change(&mut self, which: &[Which], change: impl Fn(&mut Account)) -> Outcome {
        if which.iter().any(|which| !self.state.roots.contains_key(which)) {
            return Outcome::Gone;
        }
        which.iter().for_each(|which| change(self.state.roots.get_mut(which).expect("it is there")));
        Outcome::Done
    }

    fn see(&self, which: &[Which]) -> Outcome {
        let seen = which.iter().map(|which| self.state.roots.get(which).cloned()).collect();
        match seen {
            Some(seen) => Outcome::Seen(seen),
            None => Outcome::Gone,
        }
    }

    /// Applies an operation of a thread, which writes `number`. On a closed heap it changes nothing.
    fn apply(&mut self, op: Op, number: u64, thread: usize) -> Outcome {
        if self.closed && op != Op::Wait {
            return Outcome::Gone;
        }
        let add = |account: &mut Account| {
            account.x |= 1 << number;
            account.last = number;
        };
        match op {
            Op::Add(which) | Op::Defer(which) => self.change(&[which], add),
            Op::Both(which) | Op::DeferBoth(which) => self.change(&[which, which.other()], add),
            Op::Spill(which) => self.change(&[which], |account| {
                add(account);
                account.slice = [number; 2];
            }),
            Op::SpillBoth(which) => self.change(&[which, which.other()], |account| {
                add(account);
                account.slice = [number; 2];
            }),
            Op::Abort(which) | Op::SpillAbort(which) => match self.see(&[which]) {
                Outcome::Seen(seen) => Outcome::After(seen[0].last),
                gone => gone,
            },
            Op::Panic(which) => self.change(&[which], |_| {}),
            Op::Read(which) | Op::ReadLater(which) => self.see(&[which]),
            Op::ReadBoth(which) => self.see(&[which, which.other()]),
            Op::Push(which) => self.change(&[which], |account| account.list.insert(0, number)),
            Op::Pop(which) => self.change(&[which], |account| {
                if !account.list.is_empty() {
                    account.list.remove(0);
                }
            }),
            Op::Grow(which) => self.change(&[which], |account| account.big = number),
            Op::Insert => {
                self.state.map.insert(number, number);
                self.state.map.insert(1, number);
                Outcome::Done
            }
            Op::Look | Op::Keep => {
                self.kept[thread] = Some(self.state.map.clone());
                Outcome::Map(self.state.map.clone())
            }
            Op::LookAgain => match &self.kept[thread] {
                Some(map) => Outcome::Map(map.clone()),
                None => Outcome::Gone,
            },
            Op::Remove(which) => match self.state.roots.remove(&which) {
                Some(_) => Outcome::Done,
                None => Outcome::Gone,
            },
            Op::Create => {
                self.state.roots.insert(Which::C, Account::default());
                Outcome::Done
            }
            Op::Close => {
                self.closed = true;
                Outcome::Done
            }
            Op::Collect | Op::CollectOne(_) | Op::Checkpoint | Op::Sync | Op::Wait => Outcome::Done,
        }
    }
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// A thread has begun its next operation.
    Begin(usize),
    /// The running operation of a thread has returned. The flag tells whether it survives a power failure.
    End(usize, Outcome, bool),
    /// This operation of a thread survives a power failure, with all that it has seen.
    Safe(usize, usize),
}

/// An operation and its events.
#[derive(Debug, Clone)]
struct Seen {
    op: Op,
    number: u64,
    begin: usize,
    end: Option<(usize, Outcome)>,
    safe: bool,
}

/// Returns the number that an operation writes.
pub fn number(thread: usize, op: usize) -> u64 {
    2 + (thread * 8 + op) as u64
}

/// Returns the states that recovery may find after these events. `told`: all operations that have returned
/// must be there, durable or not.
///
/// A state is allowed if some order of operations leads to it. The order has all operations that have
/// returned, with the results that they returned, and perhaps some that were running. No operation comes
/// before one that had returned when it began. The state is that at the start or after one of the operations,
/// and not before the last one that survives a power failure. If there is no such order, the result is empty.
pub fn allowed(start: &State, threads: [&[Op]; 2], events: &[Event], told: bool) -> Vec<State> {
    let mut seen: [Vec<Seen>; 2] = Default::default();
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::Begin(thread) => {
                let op = seen[*thread].len();
                let (op, number) = (threads[*thread][op], number(*thread, op));
                seen[*thread].push(Seen { op, number, begin: at, end: None, safe: false });
            }
            Event::End(thread, outcome, safe) => {
                let last = seen[*thread].last_mut().expect("it has begun");
                last.end = Some((at, outcome.clone()));
                last.safe = *safe || told;
            }
            Event::Safe(thread, op) => seen[*thread][*op].safe = true,
        }
    }
    let mut found = Vec::new();
    let model = Model { state: start.clone(), ..Model::default() };
    let all_safe = is_over(&seen, [0, 0], |seen| seen.safe);
    let first = if all_safe { vec![start.clone()] } else { Vec::new() };
    order(&seen, [0, 0], &model, &first, &mut found);
    found
}

/// Returns whether no operation from `next` on is one of `such`.
fn is_over(seen: &[Vec<Seen>; 2], next: [usize; 2], such: impl Fn(&Seen) -> bool) -> bool {
    seen.iter().zip(next).all(|(seen, next)| !seen[next..].iter().any(&such))
}

/// Continues an order of operations, of which `next` are the first that it does not have yet. `path` has the
/// states so far that recovery may find.
fn order(seen: &[Vec<Seen>; 2], next: [usize; 2], model: &Model, path: &[State], found: &mut Vec<State>) {
    if is_over(seen, next, |seen| seen.end.is_some()) {
        for state in path {
            if !found.contains(state) {
                found.push(state.clone());
            }
        }
    }
    for thread in 0..2 {
        let Some(one) = seen[thread].get(next[thread]) else { continue };
        let comes_before = |other: &Seen| other.end.as_ref().is_some_and(|(end, _)| *end < one.begin);
        if seen[1 - thread][next[1 - thread]..].iter().any(comes_before) {
            continue;
        }
        let mut model = model.clone();
        let outcome = model.apply(one.op, one.number, thread);
        if one.end.as_ref().is_some_and(|(_, seen)| *seen != outcome) {
            continue;
        }
        let mut next = next;
        next[thread] += 1;
        let mut path = path.to_vec();
        if is_over(seen, next, |seen| seen.safe) {
            path.push(model.state.clone());
        }
        order(seen, next, &model, &path, found);
    }
}
