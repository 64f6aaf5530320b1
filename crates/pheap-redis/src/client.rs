//! What a client has: its database, its transaction, what it watches and listens to.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A client, as commands see it.
#[derive(Debug)]
pub struct Session {
    /// Its number. No other client of this server has had it.
    pub id: u64,
    /// The database that its commands are about.
    pub db: usize,
    /// What it calls itself.
    pub name: Vec<u8>,
    /// Whether it may do more than say who it is.
    pub authenticated: bool,
    /// Commands that wait for `EXEC`.
    pub multi: Option<Multi>,
    /// Keys that `EXEC` depends on.
    pub watched: BTreeSet<(usize, Vec<u8>)>,
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
    /// Whether a command is run again that has waited for a key.
    pub resumes: bool,
}

/// Commands that wait for `EXEC`.
#[derive(Debug, Default)]
pub struct Multi {
    /// Their arguments.
    pub queue: Vec<Vec<Vec<u8>>>,
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
    pub fn new(id: u64, authenticated: bool) -> Session {
        Session {
            id,
            db: 0,
            name: Vec::new(),
            authenticated,
            multi: None,
            watched: BTreeSet::new(),
            watched_changed: Arc::default(),
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            replies: Replies::On,
            closing: false,
            resp3: false,
            resumes: false,
        }
    }

    /// How much it listens to.
    pub fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// Whether it may do nothing but listen: so it is in RESP2 while it listens.
    pub fn only_listens(&self) -> bool {
        !self.resp3 && self.subscriptions() > 0
    }
}
