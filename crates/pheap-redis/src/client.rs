//! What a client has: its database, its transaction, what it watches and listens to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use crate::clients::Profile;
use crate::pubsub::Kind;
use crate::server::Name;
use crate::tracking::{Options, Reads};

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
    /// Channels, patterns of such, and channels of shards that it listens to.
    pub listens: [BTreeSet<Vec<u8>>; 3],
    /// Which of its commands are answered.
    pub replies: Replies,
    /// Whether its connection is closed when everything was sent.
    pub closing: bool,
    /// Whether replies are RESP3.
    pub resp3: bool,
    /// The error that its command has given was counted already.
    pub error_is_counted: bool,
    /// Whether it is a script that runs commands.
    pub is_script: bool,
    /// Whether it watches all commands.
    pub monitors: bool,
    /// Whether it is spared when clients need too much memory.
    pub never_evicted: bool,
    /// How it is told of changes to keys that it has read, if it is.
    pub tracking: Option<Options>,
    /// It has said `CLIENT CACHING` about what it reads next.
    pub caching: bool,
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
            listens: Default::default(),
            replies: Replies::On,
            closing: false,
            resp3: false,
            error_is_counted: false,
            is_script: false,
            monitors: false,
            never_evicted: false,
            tracking: None,
            caching: false,
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
        state.listens = self.listens.each_ref().map(BTreeSet::len);
        state.queued = self.multi.as_ref().map(|multi| (multi.queue.len(), multi.bytes));
        state.flags.clear();
        let flags = [
            ('O', self.monitors),
            ('P', self.subscriptions() > 0),
            ('x', self.multi.is_some()),
            ('t', self.tracking.is_some()),
            ('B', self.tracking.is_some_and(|options| options.broadcast)),
            ('d', self.watched_changed.load(SeqCst)),
            ('c', self.closing),
            ('e', self.never_evicted),
        ];
        state.flags.extend(flags.into_iter().filter(|(_, is_so)| *is_so).map(|(letter, _)| letter));
        (state.input, state.output) = (self.input, self.output);
        state.command = self.last_command;
        state.resp3 = self.resp3;
        state.redirects_to = self.redirects_to();
    }

    /// How much it listens to.
    pub fn subscriptions(&self) -> usize {
        self.listens.iter().map(BTreeSet::len).sum()
    }

    /// What it listens to of this kind.
    pub fn listens_to(&mut self, kind: Kind) -> &mut BTreeSet<Vec<u8>> {
        &mut self.listens[kind as usize]
    }

    /// Who gets the messages about keys that it has read: -1 if it wants none, 0 itself, or another client.
    pub fn redirects_to(&self) -> i64 {
        self.tracking.map_or(-1, |options| options.redirect.unwrap_or(0) as i64)
    }

    /// Whether it is told of changes to what it reads now.
    pub fn keeps_copies(&self) -> bool {
        self.tracking.is_some_and(|options| {
            !options.broadcast
                && match options.reads {
                    Reads::All => true,
                    Reads::OptIn => self.caching,
                    Reads::OptOut => !self.caching,
                }
        })
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
