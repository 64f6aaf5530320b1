//! What a client has: its database, its transaction, what it watches and listens to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use crate::clients::Profile;
use crate::server::Name;

/// A client, as commands see it.
#[derive(Debug)]
pub struct Session {
    /// Its number. No other client of this server has had it.
    pub id: u64,
    /// The database that its commands are about.
    pub db: usize,
    /// What others may know of it.
    pub profile: Arc<Profile>,
    /// Whether it may do more than say who it is.
    pub authenticated: bool,
    /// Commands that wait for `EXEC`.
    pub multi: Option<Multi>,
    /// Keys that `EXEC` depends on, and whether their time had come before.
    pub watched: BTreeMap<Name, bool>,
    /// Whether one of them was written to.
    pub watched_changed: Arc<AtomicBool>,
    /// Channels that it listens to.
    pub channels: BTreeSet<Vec<u8>>,
    /// Patterns of such channels.
    pub patterns: BTreeSet<Vec<u8>>,
    /// Which of its commands are answered.
    pub replies: Replies,
    /// Whether its connection is closed when everything was sent.
    pub closing: bool,
    /// Whether replies are RESP3.
    pub resp3: bool,
    /// Whether it watches all commands.
    pub monitors: bool,
    /// Whether it is spared when clients need too much memory.
    pub never_evicted: bool,
    /// Its last command.
    pub last_command: &'static str,
    /// Bytes of what it has sent that were not answered when its commands began to run.
    pub input: usize,
    /// Bytes that were to be sent to it then.
    pub output: usize,
    /// The key that was written to, while a command is run again that waits for it: it looks at no other, and waits on if this one has another type than it is for.
    pub woken_by: Option<Vec<u8>>,
    /// Whether a command is run again that has waited for a key.
    pub resumes: bool,
}

/// Commands that wait for `EXEC`.
#[derive(Debug, Default)]
pub struct Multi {
    /// Their arguments.
    pub queue: Vec<Vec<Vec<u8>>>,
    /// Bytes of these.
    pub bytes: usize,
    /// One of them was refused, so `EXEC` will be.
    pub refused: bool,
}

/// Which commands are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replies {
    /// All.
    On,
    /// None.
    Off,
    /// Not the next one.
    SkipNext,
    /// Not this one, but those after it.
    Skip,
}

impl Session {
    /// One that has done nothing yet.
    pub fn new(profile: Arc<Profile>, authenticated: bool) -> Session {
        Session {
            id: profile.id,
            profile,
            db: 0,
            authenticated,
            multi: None,
            watched: BTreeMap::new(),
            watched_changed: Arc::default(),
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            replies: Replies::On,
            closing: false,
            resp3: false,
            monitors: false,
            never_evicted: false,
            last_command: "NULL",
            input: 0,
            output: 0,
            woken_by: None,
            resumes: false,
        }
    }

    /// Lets others know what it does.
    pub fn publish(&self) {
        let mut state = self.profile.state.lock();
        state.db = self.db;
        state.listens = [self.channels.len(), self.patterns.len(), 0];
        state.queued = self.multi.as_ref().map(|multi| (multi.queue.len(), multi.bytes));
        state.flags.clear();
        let flags = [
            ('O', self.monitors),
            ('P', self.subscriptions() > 0),
            ('x', self.multi.is_some()),
            ('d', self.watched_changed.load(SeqCst)),
            ('c', self.closing),
            ('e', self.never_evicted),
        ];
        state.flags.extend(flags.into_iter().filter(|(_, is_so)| *is_so).map(|(letter, _)| letter));
        (state.input, state.output) = (self.input, self.output);
        state.command = self.last_command;
        state.resp3 = self.resp3;
    }

    /// How much it listens to.
    pub fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// Whether a command that waits for keys looks at this one.
    pub fn looks_at(&self, key: &[u8]) -> bool {
        self.woken_by.as_deref().is_none_or(|woken_by| woken_by == key)
    }

    /// Whether it may do nothing but listen: so it is in RESP2 while it listens.
    pub fn only_listens(&self) -> bool {
        !self.resp3 && self.subscriptions() > 0
    }
}
