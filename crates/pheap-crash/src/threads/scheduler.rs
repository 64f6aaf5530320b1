//! Who goes on: one thread at a time, the same one until it waits or ends, or a plan says that it is the other's turn.

use std::fmt;
use std::str::FromStr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pheap::sim::{Scheduler, is_late, pass_fence};

/// A thread that makes more steps than this goes on for ever.
const MANY: usize = 20_000;
/// Nor does any program take so long.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where the other thread goes on, though this one could.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Switch {
    /// Before this step, of all that are made.
    pub at: usize,
    /// It does not see yet what this one has stored plainly.
    pub late: bool,
}

/// A schedule: which thread begins, and where it is interrupted. All else follows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The thread that begins.
    pub first: usize,
    /// In order.
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

/// A step that was made.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// By which thread.
    pub thread: usize,
    /// What it was about to do.
    pub what: &'static str,
    /// The other one could have gone on.
    pub switches: bool,
    /// There was something that it would not have seen; and that was a store.
    pub late: (bool, bool),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    /// It can go on. What it has waited for has come to pass, or the time was over.
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
    /// Both have done what they do before the schedule begins.
    begun: bool,
    steps: Vec<Step>,
    /// Switches that are done.
    switched: usize,
    /// Why nobody goes on any more.
    stuck: Option<String>,
}

/// The scheduler of two threads. Before the schedule begins, one after the other does what it likes.
#[derive(Debug)]
pub struct Turns {
    plan: Plan,
    state: Mutex<State>,
    changed: Condvar,
}

impl Turns {
    /// Follows this plan.
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

    /// Gives the other one its turn, and waits for the next one of this thread. For ever, if nobody goes on any more.
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

    /// Waits for the turn of this thread, at the very beginning.
    pub fn enter(&self, me: usize) {
        let mut state = self.lock();
        while state.turn != me {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// This thread has done what comes before the schedule. The last one calls `begin` before it begins.
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

    /// This thread has done all.
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

    /// Waits until both have ended. Returns the steps that were made.
    ///
    /// # Errors
    /// They wait for one another, or go on for ever. Then they are still there, and so is all that they have.
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
            // The other one has waited for longer.
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
