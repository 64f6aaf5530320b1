//! Runs one thread at a time: the same one until it waits, ends, or is interrupted by the plan.

use std::fmt;
use std::str::FromStr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pheap::sim::{Scheduler, is_late, pass_fence};

/// If both threads together make more steps than this, one is taken to run for ever.
const MANY: usize = 20_000;
/// If no thread makes a step in two consecutive periods of this length, they are taken to be stuck.
const PATIENCE: Duration = Duration::from_secs(20);

/// An interruption: the other thread goes on although this one could.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Switch {
    /// Number of the step at which it happens, before what follows it. The steps of both threads are counted.
    pub at: usize,
    /// Whether the other thread does not see the late stores of this one yet.
    pub late: bool,
}

/// A schedule: the thread that begins, and the interruptions. They determine the run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The thread that begins.
    pub first: usize,
    /// The interruptions, in order.
    pub switches: Vec<Switch>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        let late = |late| if late { "l" } else { "" };
        self.switches.iter().try_for_each(|switch| write!(f, ",{}{}", switch.at, late(switch.late)))
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Plan, String> {
        let error = || format!("{text:?} is no schedule: it looks like \"0,12,30l\"");
        let mut parts = text.split(',');
        let first = parts.next().and_then(|first| first.parse().ok()).filter(|first| *first < 2);
        let switch = |part: &str| {
            let at = part.trim_end_matches('l');
            Ok(Switch { at: at.parse().map_err(|_| error())?, late: at.len() < part.len() })
        };
        Ok(Plan {
            first: first.ok_or_else(error)?,
            switches: parts.map(switch).collect::<Result<_, String>>()?,
        })
    }
}

/// A step of a thread.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// The thread.
    pub thread: usize,
    /// The operation that follows the step.
    pub what: &'static str,
    /// Whether the other thread could have gone on instead.
    pub switches: bool,
    /// Whether the thread had late changes, and whether one of them was a store.
    pub late: (bool, bool),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    /// The thread can go on. `woken` is false if its time limit was over.
    Ready {
        woken: bool,
    },
    Waits {
        address: usize,
        limited: bool,
    },
    Ended,
}

#[derive(Debug)]
struct State {
    turn: usize,
    status: [Status; 2],
    /// Whether both threads have done the operations before the schedule.
    begun: bool,
    steps: Vec<Step>,
    /// Number of interruptions that have happened.
    switched: usize,
    /// Reason why the run was given up. No thread goes on then.
    stuck: Option<String>,
}

/// The scheduler of two threads. Before the schedule begins, the threads run one after the other.
#[derive(Debug)]
pub struct Turns {
    plan: Plan,
    state: Mutex<State>,
    changed: Condvar,
}

impl Turns {
    /// Makes a scheduler that follows this plan.
    pub fn new(plan: Plan) -> Turns {
        let state = State {
            turn: 0,
            status: [Status::Ready { woken: true }; 2],
            begun: false,
            steps: Vec::new(),
            switched: 0,
            stuck: None,
        };
        Turns { plan, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the other thread run, and waits for the next turn of this one. It waits for ever if the threads
    /// are stuck.
    fn switch(&self, mut state: MutexGuard<'_, State>, me: usize) {
        state.turn = 1 - me;
        self.changed.notify_all();
        while state.turn != me || state.stuck.is_some() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn get_stuck(&self, mut state: MutexGuard<'_, State>, why: String) {
        state.stuck.get_or_insert(why);
        self.changed.notify_all();
        loop {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for the first turn of this thread.
    pub fn enter(&self, me: usize) {
        let mut state = self.lock();
        while state.turn != me {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes that this thread has done the operations before the schedule, and waits for its turn. Thread 1,
    /// which is the last, calls `begin` and starts the schedule.
    pub fn arrive(&self, me: usize, begin: impl FnOnce()) {
        let mut state = self.lock();
        if me == 1 {
            begin();
            state.begun = true;
            if self.plan.first == me {
                return;
            }
        }
        self.switch(state, me);
    }

    /// Notes that this thread has ended.
    pub fn end(&self, me: usize) {
        let mut state = self.lock();
        state.status[me] = Status::Ended;
        match state.status[1 - me] {
            Status::Ended | Status::Ready { .. } => {}
            Status::Waits { limited: true, .. } => state.status[1 - me] = Status::Ready { woken: false },
            Status::Waits { .. } => {
                state.stuck = Some("one thread has ended, and the other one waits for ever".to_owned());
            }
        }
        state.turn = 1 - me;
        self.changed.notify_all();
    }

    /// Waits until both threads have ended. Returns their steps.
    ///
    /// # Errors
    /// If a thread waits, or seems to wait, for what never comes, or seems to run for ever. The threads then
    /// still exist, and keep their heap.
    pub fn join(&self) -> Result<Vec<Step>, String> {
        let mut state = self.lock();
        let mut before = usize::MAX;
        while state.status != [Status::Ended; 2] && state.stuck.is_none() {
            let (next, waited) =
                self.changed.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            state = next;
            if waited.timed_out() && std::mem::replace(&mut before, state.steps.len()) == state.steps.len() {
                state.stuck = Some(format!("a thread waits, and the scheduler does not know: {:?}", *state));
            }
        }
        match &state.stuck {
            Some(why) => Err(why.clone()),
            None => Ok(std::mem::take(&mut state.steps)),
        }
    }
}

impl Scheduler for Turns {
    fn step(&self, me: usize, what: &'static str) {
        let mut state = self.lock();
        if !state.begun {
            return;
        }
        let number = state.steps.len();
        let switches = matches!(state.status[1 - me], Status::Ready { .. });
        state.steps.push(Step { thread: me, what, switches, late: is_late(me) });
        if number > MANY {
            return self.get_stuck(state, "a thread goes on for ever".to_owned());
        }
        let Some(next) = self.plan.switches.get(state.switched) else { return };
        if next.at == number && switches {
            state.switched += 1;
            if !next.late {
                pass_fence(me);
            }
            self.switch(state, me);
        }
    }

    fn wait(&self, me: usize, address: usize, limited: bool) -> bool {
        let mut state = self.lock();
        state.status[me] = Status::Waits { address, limited };
        match state.status[1 - me] {
            Status::Ready { .. } if state.begun => {}
            // The other thread has waited for longer.
            Status::Waits { limited: true, .. } => state.status[1 - me] = Status::Ready { woken: false },
            _ if limited => {
                state.status[me] = Status::Ready { woken: true };
                return false;
            }
            _ => {
                let why = "a thread waits for something, and no other one can go on".to_owned();
                self.get_stuck(state, why);
                return false;
            }
        }
        self.switch(state, me);
        matches!(self.lock().status[me], Status::Ready { woken: true })
    }

    fn wake(&self, what: usize) {
        for status in &mut self.lock().status {
            if matches!(status, Status::Waits { address, .. } if *address == what) {
                *status = Status::Ready { woken: true };
            }
        }
    }
}
