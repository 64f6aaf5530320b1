//! Whether this server follows a master, and how far. The position must outlive the process, so the heap has
//! it too (`data::Progress`).

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};

use crate::config::Master;
use crate::connections::mailbox::Mailbox;
use crate::data::Position;

/// The stage of the link to the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    /// There is no link. If there is a master, the thread of the link tries to connect again.
    #[default]
    Down,
    /// The connection is being made.
    Connecting,
    /// The servers exchange greetings.
    Handshake,
    /// The master sends all its data.
    Sync,
    /// The master sends its commands as it runs them.
    Connected,
}

impl Stage {
    /// Returns the name of the stage, as `ROLE` replies it.
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

/// The state of the link to the master.
#[derive(Debug, Default)]
pub struct LinkState {
    /// The master; None if this server follows none.
    pub master: Option<Master>,
    /// The stage of the link.
    pub stage: Stage,
    /// Why the link was lost or could not be made.
    pub error: Option<String>,
    /// The position in the master's stream up to which the heap has the commands; None if there is none.
    pub position: Option<Position>,
    /// The offset in the stream up to which this server had read when it last applied a part of the stream.
    pub read: u64,
    /// When the master last sent something, as of the last update of this state.
    pub heard: Option<Instant>,
    /// The time since which the link is down; None if it is up, or no attempt to connect has failed yet.
    pub down: Option<Instant>,
    /// While the master sends all its data: the bytes that have come, and the size of the data if the master
    /// has sent it.
    pub data: (u64, Option<u64>),
}

const FOLLOWS: u8 = 1;
const LOADING: u8 = 2;
const CONNECTED: u8 = 4;

/// Whether this server follows a master, and how far.
#[derive(Debug, Default)]
pub struct Role {
    /// `FOLLOWS`, `LOADING` and `CONNECTED`; 0 if this server follows no master.
    flags: AtomicU8,
    /// Number of changes of the master. The number changes while the whole heap is locked, or before the
    /// server has clients. A thread applies the commands of a master only if it finds the number unchanged
    /// with the shards locked.
    generation: AtomicU64,
    link: Mutex<LinkState>,
    thread: OnceLock<Arc<Mailbox>>,
}

impl Role {
    /// Returns whether this server follows a master.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.flags.load(Ordering::SeqCst) != 0
    }

    /// Returns whether a transfer of all data of the master has begun and is not complete.
    pub fn is_loading(&self) -> bool {
        self.flags.load(Ordering::SeqCst) & LOADING != 0
    }

    /// Returns whether this server follows a master and does not get its stream of commands.
    pub fn is_down(&self) -> bool {
        let flags = self.flags.load(Ordering::SeqCst);
        flags & FOLLOWS != 0 && flags & CONNECTED == 0
    }

    /// Returns the number of changes of the master.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Changes the master, or follows none. The caller has locked the whole heap, or the server has no
    /// clients yet.
    pub fn set_master(&self, master: Option<Master>, position: Option<Position>) {
        let read = position.as_ref().map_or(0, |position| position.offset);
        let mut link = self.link.lock();
        self.flags.store(if master.is_some() { FOLLOWS } else { 0 }, Ordering::SeqCst);
        self.generation.fetch_add(1, Ordering::SeqCst);
        *link = LinkState { master, position, read, ..LinkState::default() };
        drop(link);
        self.wake_up();
    }

    /// Notes whether a transfer of all data of the master is incomplete.
    pub fn set_loading(&self, is_loading: bool) {
        if is_loading {
            self.flags.fetch_or(LOADING, Ordering::SeqCst);
        } else {
            self.flags.fetch_and(!LOADING, Ordering::SeqCst);
        }
    }

    /// Sets the stage of the link, and calls `change`, unless the master has changed since `generation`.
    pub fn set_stage(&self, stage: Stage, generation: u64, change: impl FnOnce(&mut LinkState)) {
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

    /// Locks and returns the state of the link.
    pub fn link(&self) -> MutexGuard<'_, LinkState> {
        self.link.lock()
    }

    /// Sets the mailbox of the link's thread.
    pub fn set_thread(&self, mailbox: Arc<Mailbox>) {
        // The result is ignored: this function is called once, so the mailbox is not set yet.
        let _ = self.thread.set(mailbox);
    }

    /// Wakes the thread of the link, if it is set, to look for changes.
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
        role.set_master(master(1), None);
        let old = role.generation();
        role.set_stage(Stage::Connected, old, |_| ());
        assert!(role.is_replica() && !role.is_down());
        role.set_master(master(2), None);
        role.set_stage(Stage::Connected, old, |_| ());
        assert!(role.is_down() && role.link().stage == Stage::Down);
        role.set_master(None, None);
        role.set_stage(Stage::Connected, old, |_| ());
        assert!(!role.is_replica() && !role.is_down());
    }
}
