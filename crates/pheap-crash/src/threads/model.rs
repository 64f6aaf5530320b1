//! The oracle: what a heap holds, what operations do to it, and which states the power may leave, given what threads were told.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::program::{Op, Which};

/// What a root holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Account {
    /// A bit for each operation that has added one; its twin is in another line.
    pub x: u64,
    /// The operation that has been the last one.
    pub last: u64,
    /// Two elements of a slice, which long transactions write.
    pub slice: [u64; 2],
    /// The values of a list.
    pub list: Vec<u64>,
    /// What a large object is full of.
    pub big: u64,
}

/// What a heap holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct State {
    /// The roots that there are.
    pub roots: BTreeMap<Which, Account>,
    /// A map with versions.
    pub map: BTreeMap<u64, u64>,
}

impl State {
    /// A number that tells states apart.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// What an operation has returned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It has failed, and tells which operation was the last one.
    After(u64),
    /// There is no such root any more, or the heap is closed.
    Gone,
    /// What was read.
    Seen(Vec<Account>),
    /// The same of the map.
    Map(BTreeMap<u64, u64>),
}

/// A heap, and what its threads have of it.
#[derive(Debug, Clone, Default)]
struct Model {
    state: State,
    closed: bool,
    /// Versions of the map that threads keep.
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

    /// Applies what the operation with this number does, of this thread. A heap that is closed does nothing.
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

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// A thread has begun its next operation.
    Begin(usize),
    /// That has returned. `safe`: a power failure takes nothing of it away.
    End(usize, Outcome, bool),
    /// A power failure takes nothing of this operation of a thread away, nor of those that it has seen.
    Safe(usize, usize),
}

/// An operation as it was seen from outside.
#[derive(Debug, Clone)]
struct Seen {
    op: Op,
    number: u64,
    begin: usize,
    end: Option<(usize, Outcome)>,
    safe: bool,
}

/// The number by which an operation writes.
pub fn number(thread: usize, op: usize) -> u64 {
    2 + (thread * 8 + op) as u64
}

/// The states that may be found after a crash when this has happened, as digests. `told`: all that has returned is there, whether it is safe or not.
///
/// They are those of an order of all operations that have returned, and perhaps some of those that are running, in which each returns what it has returned, and none comes before
/// one that had returned when it began; up to one of them, and at least up to the last one that is safe. Empty, if there is no such order.
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

/// Whether all `such` operations come before these.
fn is_over(seen: &[Vec<Seen>; 2], next: [usize; 2], such: impl Fn(&Seen) -> bool) -> bool {
    seen.iter().zip(next).all(|(seen, next)| !seen[next..].iter().any(&such))
}

/// Goes on with an order from these operations on. `path`: the states that may be found of those before.
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
