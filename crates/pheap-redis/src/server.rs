//! What all clients have in common.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};

use crate::client::Session;
use crate::config::Config;
use crate::data::Store;
use crate::gates::Gates;
use crate::libraries::Libraries;
use crate::mailbox::Mailbox;
use crate::pubsub::{Channels, Wanted};
use crate::scripts::Scripts;

/// What all clients have in common.
pub struct Server {
    /// The data.
    pub store: Store,
    /// The options.
    pub config: RwLock<Config>,
    /// Keys that `EXEC` depends on.
    pub watched: Watched,
    /// Who listens to channels.
    pub channels: Channels,
    /// Keys that clients wait for.
    pub waiting: Waiting,
    /// Where threads wait for shards.
    pub gates: Gates,
    /// Scripts that all threads know.
    pub scripts: Scripts,
    /// Libraries of functions.
    pub libraries: Libraries,
    /// What was counted.
    pub stats: Stats,
    /// Where messages to threads are left.
    pub threads: Vec<Arc<Mailbox>>,
    /// Set when the server is to stop.
    pub stopping: AtomicBool,
    /// When it was started.
    pub started: Instant,
    /// Numbers that clients were given.
    next_client: AtomicU64,
    /// Options that are looked at for each command.
    pub limits: Limits,
}

/// Options that are looked at for each command, so that they have a place of their own.
#[derive(Debug)]
pub struct Limits {
    /// Longest argument, in bytes.
    pub bulk: AtomicU64,
    /// Whether replies are held back until what they tell is durable.
    pub always: AtomicBool,
    /// Which keyspace notifications are wanted: [`Wanted::bits`].
    pub notifications: AtomicU32,
}

impl Limits {
    /// Does what the options say.
    pub fn follow(&self, config: &Config) {
        self.bulk.store(config.int("proto-max-bulk-len") as u64, Ordering::Relaxed);
        let wanted = Wanted::parse(config.text("notify-keyspace-events")).unwrap_or_default();
        self.notifications.store(wanted.bits(), Ordering::Relaxed);
        self.always.store(config.text("appendfsync") == "always", Ordering::Relaxed);
    }
}

/// What was counted since the server was started.
#[derive(Debug, Default)]
pub struct Stats {
    /// Commands.
    pub commands: AtomicU64,
    /// Connections.
    pub connections: AtomicU64,
    /// Clients that are connected.
    pub clients: AtomicUsize,
    /// Clients that wait for keys.
    pub blocked: AtomicUsize,
    /// Keys that were removed because their time had come.
    pub expired: AtomicU64,
    /// Changes.
    pub dirty: AtomicU64,
}

impl Server {
    /// One that serves what is in `store`, in so many threads.
    pub fn new(store: Store, config: Config, threads: Vec<Arc<Mailbox>>) -> Server {
        let limits = Limits {
            bulk: AtomicU64::new(0),
            always: AtomicBool::new(true),
            notifications: AtomicU32::new(0),
        };
        limits.follow(&config);
        Server {
            config: RwLock::new(config),
            watched: Watched::default(),
            channels: Channels::default(),
            waiting: Waiting::default(),
            // Libraries of functions are behind the last one.
            gates: Gates::new(store.shards().len() + 1, threads.len()),
            scripts: Scripts::default(),
            libraries: Libraries::default(),
            stats: Stats::default(),
            threads,
            stopping: AtomicBool::new(false),
            started: Instant::now(),
            store,
            next_client: AtomicU64::new(1),
            limits,
        }
    }

    /// A number for a client. Its thread can be told from it.
    pub fn client_id(&self) -> u64 {
        self.next_client.fetch_add(1, Ordering::Relaxed)
    }

    /// A client watches nothing any more.
    pub fn unwatch(&self, session: &mut Session) {
        let flag = std::mem::take(&mut session.watched_changed);
        for (db, key) in std::mem::take(&mut session.watched) {
            self.watched.remove(db, &key, &flag);
        }
    }

    /// The messages of a keyspace notification, to those who want it.
    pub fn notification(&self, db: usize, class: u8, event: &str, key: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let wanted = Wanted::from_bits(self.limits.notifications.load(Ordering::Relaxed));
        let mut messages = Vec::new();
        if wanted.has(class) && wanted.has(b'K') {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
            messages.extend(self.channels.publish(&channel, event.as_bytes()));
        }
        if wanted.has(class) && wanted.has(b'E') {
            let channel = format!("__keyevent@{db}__:{event}");
            messages.extend(self.channels.publish(channel.as_bytes(), key));
        }
        messages
    }

    /// A client listens to nothing any more.
    pub fn listen_to_nothing(&self, session: &mut Session) {
        std::mem::take(&mut session.channels)
            .iter()
            .for_each(|name| self.channels.remove(name, false, session.id));
        std::mem::take(&mut session.patterns)
            .iter()
            .for_each(|name| self.channels.remove(name, true, session.id));
    }

    /// Lets all threads end.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.threads.iter().for_each(|thread| thread.wake_up());
    }
}

/// The time, in milliseconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A database, and a key in it.
type Name = (usize, Vec<u8>);

/// Keys that `EXEC` depends on, and flags that are set when they are written to.
#[derive(Debug, Default)]
pub struct Watched {
    count: AtomicUsize,
    keys: Mutex<HashMap<Name, Vec<Arc<AtomicBool>>>>,
}

impl Watched {
    /// Sets `flag` when the key is written to.
    pub fn add(&self, db: usize, key: &[u8], flag: &Arc<AtomicBool>) {
        self.keys.lock().entry((db, key.to_vec())).or_default().push(flag.clone());
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// No longer.
    pub fn remove(&self, db: usize, key: &[u8], flag: &Arc<AtomicBool>) {
        let mut keys = self.keys.lock();
        let name = (db, key.to_vec());
        let Some(flags) = keys.get_mut(&name) else { return };
        let before = flags.len();
        flags.retain(|other| !Arc::ptr_eq(other, flag));
        self.count.fetch_sub(before - flags.len(), Ordering::SeqCst);
        if flags.is_empty() {
            keys.remove(&name);
        }
    }

    /// A key is being written to. Called while its shard is locked, so that `EXEC`, which looks with the shard locked, cannot miss it.
    pub fn touch(&self, db: usize, key: &[u8]) {
        if self.count.load(Ordering::SeqCst) > 0 {
            for flag in self.keys.lock().get(&(db, key.to_vec())).into_iter().flatten() {
                flag.store(true, Ordering::SeqCst);
            }
        }
    }

    /// All keys of these databases for which `is_concerned` are being written to.
    pub fn touch_all(&self, mut is_concerned: impl FnMut(usize, &[u8]) -> bool) {
        if self.count.load(Ordering::SeqCst) > 0 {
            for ((db, key), flags) in &*self.keys.lock() {
                if is_concerned(*db, key) {
                    flags.iter().for_each(|flag| flag.store(true, Ordering::SeqCst));
                }
            }
        }
    }
}

/// Keys that clients wait for.
#[derive(Debug, Default)]
pub struct Waiting {
    count: AtomicUsize,
    /// Who came first is first.
    keys: Mutex<HashMap<Name, Vec<Waiter>>>,
}

/// A client that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiter {
    /// Its number.
    pub client: u64,
    /// The number of its thread.
    pub thread: usize,
}

impl Waiting {
    /// Waits for a key.
    pub fn add(&self, db: usize, key: &[u8], waiter: Waiter) {
        let mut keys = self.keys.lock();
        let waiters = keys.entry((db, key.to_vec())).or_default();
        if !waiters.contains(&waiter) {
            waiters.push(waiter);
            self.count.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// No longer.
    pub fn remove(&self, db: usize, key: &[u8], waiter: Waiter) {
        let mut keys = self.keys.lock();
        let name = (db, key.to_vec());
        let Some(waiters) = keys.get_mut(&name) else { return };
        let before = waiters.len();
        waiters.retain(|other| *other != waiter);
        self.count.fetch_sub(before - waiters.len(), Ordering::SeqCst);
        if waiters.is_empty() {
            keys.remove(&name);
        }
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// Who waits for a key.
    pub fn for_key(&self, db: usize, key: &[u8]) -> Vec<Waiter> {
        if self.is_empty() {
            return Vec::new();
        }
        self.keys.lock().get(&(db, key.to_vec())).cloned().unwrap_or_default()
    }
}
