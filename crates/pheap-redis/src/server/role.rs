//! Whether this server follows another one (its master), and how far it is with that. How far that is must outlive the process, so it is in the heap (`data::Progress`), too.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};

use crate::config::Master;
use crate::connections::mailbox::Mailbox;
use crate::data::Position;

/// How far the link to the master is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    /// There is none. It is tried again.
    #[default]
    Down,
    /// It is being connected.
    Connecting,
    /// They greet each other.
    Handshake,
    /// The data come, as a whole.
    Sync,
    /// What the master does comes as it is done.
    Connected,
}

impl Stage {
    /// Its name, as `ROLE` tells it.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Down => "connect",
            Stage::Connecting => "connecting",
            Stage::Handshake => "handshake",
            Stage::Sync => "sync",
            Stage::Connected => "connected",
        }
    }
}

/// What is known of the link to the master.
#[derive(Debug, Default)]
pub struct Link {
    /// The master. None: this server follows none.
    pub master: Option<Master>,
    /// How far the link is.
    pub stage: Stage,
    /// Why it was lost, or could not be made.
    pub error: Option<String>,
    /// How far the master's stream is in the heap.
    pub position: Option<Position>,
    /// How far it was read.
    pub read: u64,
    /// When something has last come.
    pub heard: Option<Instant>,
    /// Since when it is down.
    pub down: Option<Instant>,
    /// Bytes of the data that have come, and how many there are, if the master has said so.
    pub data: (u64, Option<u64>),
}

const FOLLOWS: u8 = 1;
const LOADING: u8 = 2;
const CONNECTED: u8 = 4;

/// Whether this server follows another one, and how far it is with that.
#[derive(Debug, Default)]
pub struct Role {
    /// What is asked for each command. 0 of a server that follows none.
    flags: AtomicU8,
    /// Counts the changes of whom it follows. It changes while the whole heap is locked, and what a master sends is run only if it is still the same with the shards locked.
    generation: AtomicU64,
    link: Mutex<Link>,
    thread: OnceLock<Arc<Mailbox>>,
}

impl Role {
    /// Whether it follows a master.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.flags.load(Ordering::SeqCst) != 0
    }

    /// Whether a part of the master's data is there, and the rest is still to come.
    pub fn is_loading(&self) -> bool {
        self.flags.load(Ordering::SeqCst) & LOADING != 0
    }

    /// Whether it follows a master, and has no link to it.
    pub fn is_down(&self) -> bool {
        let flags = self.flags.load(Ordering::SeqCst);
        flags & FOLLOWS != 0 && flags & CONNECTED == 0
    }

    /// How often it has changed whom it follows.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// It follows another master now, or none. Called while the whole heap is locked, or before anybody is served.
    pub fn follow(&self, master: Option<Master>, position: Option<Position>) {
        let read = position.as_ref().map_or(0, |position| position.offset);
        let mut link = self.link.lock();
        self.flags.store(if master.is_some() { FOLLOWS } else { 0 }, Ordering::SeqCst);
        self.generation.fetch_add(1, Ordering::SeqCst);
        *link = Link { master, position, read, ..Link::default() };
        drop(link);
        self.wake_up();
    }

    /// Data of the master begin to come, or are complete. Called while the whole heap is locked.
    pub fn set_loading(&self, is_loading: bool) {
        if is_loading {
            self.flags.fetch_or(LOADING, Ordering::SeqCst);
        } else {
            self.flags.fetch_and(!LOADING, Ordering::SeqCst);
        }
    }

    /// The link is so far, unless another master is followed by now than in this generation.
    pub fn set_stage(&self, stage: Stage, generation: u64, change: impl FnOnce(&mut Link)) {
        let mut link = self.link.lock();
        if self.generation() != generation {
            return;
        }
        if stage == Stage::Connected {
            self.flags.fetch_or(CONNECTED, Ordering::SeqCst);
        } else {
            self.flags.fetch_and(!CONNECTED, Ordering::SeqCst);
        }
        if stage == Stage::Down && link.stage == Stage::Connected {
            link.down = Some(Instant::now());
        }
        link.stage = stage;
        change(&mut link);
    }

    /// What is known of the link.
    pub fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock()
    }

    /// The thread that has the link is woken by this.
    pub fn set_thread(&self, mailbox: Arc<Mailbox>) {
        // There is one link.
        let _ = self.thread.set(mailbox);
    }

    /// Lets the thread of the link look what has changed.
    pub fn wake_up(&self) {
        if let Some(thread) = self.thread.get() {
            thread.wake_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_old_link_says_does_not_count() {
        let role = Role::default();
        let master = |port| Some(Master { host: "h".into(), port });
        role.follow(master(1), None);
        let old = role.generation();
        role.set_stage(Stage::Connected, old, |_| ());
        assert!(role.is_replica() && !role.is_down());
        role.follow(master(2), None);
        role.set_stage(Stage::Connected, old, |_| ());
        assert!(role.is_down() && role.link().stage == Stage::Down);
        role.follow(None, None);
        role.set_stage(Stage::Connected, old, |_| ());
        assert!(!role.is_replica() && !role.is_down());
    }
}
