//! What all clients have in common.

pub mod clocks;
pub mod role;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};

use crate::clients::buffers::{self, Limit};
use crate::clients::client::{Name, Session};
use crate::clients::pubsub::{Channels, Kind, Listener, Wanted};
use crate::clients::tracking::Tracking;
use crate::clients::unsynced::Unsynced;
use crate::clients::waiting::Waiting;
use crate::clients::{Clients, Pause};
use crate::config::Config;
use crate::connections::mailbox::{Mailbox, Message};
use crate::data::Store;
use crate::data::memory::Memory;
use crate::scripts::Scripts;
use crate::scripts::gates::Gates;
use crate::scripts::libraries::Libraries;
use crate::server::clocks::Clocks;
use crate::server::role::Role;
use crate::stats::counts::{Counts, Sum, Traffic};
use crate::stats::rates::Rates;
use crate::stats::slowlog::{Latency, SlowLog};
use crate::stats::usage;
use crate::text::random::random;

/// What a client is told whose command needs memory where there is none.
pub const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// What a client is told that wants to write to a replica.
pub const READONLY: &str = "READONLY You can't write against a read only replica.";

/// What a client is told by a replica that has lost its master, and may not say what is old.
pub const MASTER_DOWN: &str =
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";

/// What a client is told while the data of a master come.
pub const LOADING: &str = "LOADING Redis is loading the dataset in memory";

/// How long nothing is logged of writes for which there is no space, once it was.
const NO_SPACE_AGAIN: Duration = Duration::from_secs(60);

/// What all clients have in common.
pub struct Server {
    /// The data.
    pub store: Store,
    /// The options.
    pub config: RwLock<Config>,
    /// How much memory the data need.
    pub memory: Memory,
    /// When keys were used.
    pub clocks: Clocks,
    /// Keys that `EXEC` depends on.
    pub watched: Watched,
    /// Who listens to channels.
    pub channels: Channels,
    /// Keys that clients wait for.
    pub waiting: Waiting,
    /// Where threads wait for shards.
    pub gates: Gates,
    /// Keys that clients may have copies of.
    pub tracking: Tracking,
    /// Scripts that all threads know.
    pub scripts: Scripts,
    /// Libraries of functions.
    pub libraries: Libraries,
    /// Whether it follows another server.
    pub role: Role,
    /// What was counted.
    pub stats: Stats,
    /// The clients that are connected.
    pub clients: Clients,
    /// Commands that took long.
    pub slowlog: SlowLog,
    /// Events that took long.
    pub latency: Latency,
    /// How often clients were told of which error.
    pub errors: Mutex<BTreeMap<String, u64>>,
    /// For each thread: what was counted of each command.
    counts: Vec<Vec<Counts>>,
    /// For each thread, and behind them for the link to a master: what was read and written.
    pub traffic: Vec<Traffic>,
    /// How much is done in a second.
    pub rates: Mutex<Rates>,
    /// Who watches all commands.
    monitors: Mutex<Vec<u64>>,
    /// How long clients are not served.
    paused: Mutex<Option<Pause>>,
    /// Where messages to threads are left.
    pub threads: Vec<Arc<Mailbox>>,
    /// Set when the server is to stop.
    pub stopping: AtomicBool,
    /// When it was started.
    pub started: Instant,
    /// A name that no other run of a server has: 40 hexadecimal digits.
    pub run_id: String,
    /// The file of options that it was started with, if any.
    pub config_file: Option<PathBuf>,
    /// What is known of the last copy of the heap.
    pub save: Arc<Mutex<Save>>,
    /// Numbers that clients were given.
    next_client: AtomicU64,
    /// When it was last logged that there is no space.
    told_of_no_space: Mutex<Option<Instant>>,
    /// Options that are looked at for each command.
    pub limits: Limits,
    /// Which keys were written to since the log was synced.
    pub unsynced: Unsynced,
}

/// Options that are looked at for each command, so that they have a place of their own.
#[derive(Debug, Default)]
pub struct Limits {
    /// Longest argument, in bytes.
    pub bulk: AtomicU64,
    /// Bytes that a client may have sent that were not answered.
    pub input: AtomicU64,
    /// Bytes that all clients may need together, and so one of them; 0: as many as there are.
    pub clients: AtomicU64,
    /// Bytes that may wait to be sent to a client.
    pub output: buffers::Shared,
    /// The same, of clients that listen to channels.
    pub messages: buffers::Shared,
    /// Whether replies are held back until what they tell is durable: if there is a log, and each write is to be.
    pub always: AtomicBool,
    /// Whether there is a log, and so what is committed may not be durable.
    pub has_log: bool,
    /// Which keyspace notifications are wanted: the number in [`Wanted`].
    pub notifications: AtomicU32,
    /// From how many microseconds on a command is slow. Negative: never.
    pub slow: AtomicI64,
    /// From how many milliseconds on an event is told by `LATENCY`. 0: never.
    pub latency: AtomicI64,
    /// Whether clients may not write to a replica.
    pub read_only: AtomicBool,
    /// Whether a replica is silent that has lost its master.
    pub silent: AtomicBool,
    /// Whether keys are removed when their time has come, and not only when somebody asks for them.
    pub expires: AtomicBool,
    /// Number of clients that watch all commands.
    pub monitors: AtomicUsize,
    /// Whether clients are not served: 0 all are, 1 only if they change nothing, 2 none is.
    pub paused: AtomicU8,
}

/// A limit that also holds where the option sets none (0): a quarter of the machine's memory. A client that asks for
/// more, or does not read, must not end the server.
fn or_of_machine(limit: Limit) -> Limit {
    let (_, machine) = usage::memory();
    Limit { hard: if limit.hard == 0 { machine / 4 } else { limit.hard }, ..limit }
}

impl Limits {
    /// Does what the options say.
    pub fn follow(&self, config: &Config) {
        self.bulk.store(config.int("proto-max-bulk-len") as u64, Ordering::Relaxed);
        self.input.store(config.int("client-query-buffer-limit") as u64, Ordering::Relaxed);
        self.clients.store(config.client_memory(), Ordering::Relaxed);
        let limits = config.output_limits();
        self.output.set(or_of_machine(limits.normal));
        self.messages.set(or_of_machine(limits.pubsub));
        let wanted = Wanted::parse(config.text("notify-keyspace-events")).unwrap_or_default();
        self.notifications.store(wanted.0, Ordering::Relaxed);
        self.slow.store(config.int("slowlog-log-slower-than"), Ordering::Relaxed);
        self.latency.store(config.int("latency-monitor-threshold"), Ordering::Relaxed);
        self.read_only.store(config.is("replica-read-only"), Ordering::Relaxed);
        self.silent.store(!config.is("replica-serve-stale-data"), Ordering::Relaxed);
        self.always.store(self.has_log && config.text("appendfsync") == "always", Ordering::Relaxed);
    }
}

/// What is known of the last copy of the heap (`SAVE`, `BGSAVE`).
#[derive(Debug, Default)]
pub struct Save {
    /// When it was made, in seconds since 1970; or when the server was started.
    pub at: i64,
    /// Changes until then.
    pub dirty: u64,
    /// One is being made.
    pub is_running: bool,
    /// The last attempt failed.
    pub failed: bool,
    /// When the one that is being made began.
    pub began: Option<Instant>,
    /// How long the last one took.
    pub took: Option<Duration>,
    /// How many were made.
    pub count: u64,
}

/// What was counted since the server was started.
#[derive(Debug, Default)]
pub struct Stats {
    /// Connections.
    pub connections: AtomicU64,
    /// Clients that wait for keys.
    pub blocked: AtomicUsize,
    /// Keys that were removed because their time had come.
    pub expired: AtomicU64,
    /// Keys that were removed because there was no memory.
    pub evicted: AtomicU64,
    /// Changes.
    pub dirty: AtomicU64,
    /// Clients that were disconnected because of `maxmemory-clients`.
    pub evicted_clients: AtomicU64,
    /// Connections that were refused.
    pub rejected: AtomicU64,
    /// Errors that clients were told of.
    pub errors: AtomicU64,
    /// The most bytes that the data have needed.
    pub peak: AtomicU64,
    /// Clients that wait for keys, and give up at some time.
    pub timed: AtomicUsize,
    /// Microseconds that were spent on keys whose time had come.
    pub expiring: AtomicU64,
    /// Writing to the heap has failed, so nothing is changed any more.
    pub has_failed: AtomicBool,
}

impl Stats {
    /// Begins anew, but for what is now.
    fn reset(&self) {
        let all = [
            &self.connections,
            &self.expired,
            &self.evicted,
            &self.evicted_clients,
            &self.errors,
            &self.rejected,
            &self.expiring,
        ];
        for number in all {
            number.store(0, Ordering::Relaxed);
        }
    }
}

impl Server {
    /// One that serves what is in `store`, in threads with these mailboxes, and counts the calls of so many commands.
    pub fn new(store: Store, config: Config, threads: Vec<Arc<Mailbox>>, commands: usize) -> Server {
        let limits = Limits {
            has_log: store.heap().durability() == pheap::Durability::Wal,
            expires: AtomicBool::new(true),
            ..Limits::default()
        };
        limits.follow(&config);
        // Behind the last shard are libraries of functions, and how far a master was followed.
        let memory = Memory::new(store.shards().len() + 2);
        memory.set_limit(config.int("maxmemory") as u64, &store);
        let tracking = Tracking::default();
        tracking.set_limit(config.int("tracking-table-max-keys") as u64);
        Server {
            clocks: Clocks::new(&config, now()),
            memory,
            config: RwLock::new(config),
            watched: Watched::default(),
            channels: Channels::default(),
            waiting: Waiting::default(),
            gates: Gates::new(store.shards().len() + 1, threads.len()),
            tracking,
            scripts: Scripts::default(),
            libraries: Libraries::default(),
            role: Role::default(),
            stats: Stats::default(),
            clients: Clients::default(),
            slowlog: SlowLog::default(),
            latency: Latency::default(),
            errors: Mutex::default(),
            // One more, for what a master sends.
            counts: (0..=threads.len()).map(|_| (0..commands).map(|_| Counts::default()).collect()).collect(),
            traffic: (0..=threads.len()).map(|_| Traffic::default()).collect(),
            rates: Mutex::default(),
            monitors: Mutex::default(),
            paused: Mutex::default(),
            threads,
            stopping: AtomicBool::new(false),
            started: Instant::now(),
            config_file: None,
            run_id: (0..5).map(|_| format!("{:08x}", random() as u32)).collect(),
            save: Arc::new(Mutex::new(Save { at: now() / 1000, ..Save::default() })),
            store,
            unsynced: Unsynced::default(),
            next_client: AtomicU64::new(1),
            told_of_no_space: Mutex::default(),
            limits,
        }
    }

    /// A number for a client. Its thread can be told from it.
    pub fn client_id(&self) -> u64 {
        self.next_client.fetch_add(1, Ordering::Relaxed)
    }

    /// What a thread has counted of a command.
    pub fn counts(&self, thread: usize, command: usize) -> &Counts {
        &self.counts[thread][command]
    }

    /// What all threads have counted of a command.
    pub fn counted(&self, command: usize) -> Sum {
        let mut sum = Sum::default();
        self.counts.iter().for_each(|thread| sum.add(&thread[command]));
        sum
    }

    /// What all threads have counted of all commands.
    pub fn counted_in_all(&self) -> Sum {
        let mut sum = Sum::default();
        self.counts.iter().flatten().for_each(|counts| sum.add(counts));
        sum
    }

    /// How many commands were called, and how many bytes came and went: see [`crate::stats::rates`].
    pub fn totals(&self) -> [u64; crate::stats::rates::COUNTED] {
        let calls = self.counts.iter().flatten().map(Counts::calls).sum();
        let (master, clients) = self.traffic.split_last().expect("one is that of a master");
        let [input, output] = clients.iter().fold([0; 2], |[input, output], thread| {
            let of_thread = thread.get();
            [input + of_thread.input, output + of_thread.output]
        });
        [calls, input, output, master.get().input]
    }

    /// Bytes that the data need.
    pub fn used_memory(&self) -> u64 {
        let used =
            if self.memory.limit() > 0 { self.memory.used() } else { self.store.heap().stats().live_bytes };
        self.stats.peak.fetch_max(used, Ordering::Relaxed);
        used
    }

    /// Takes note of how much is done, and waits for nobody. Called about ten times a second.
    pub fn sample(&self) {
        let live = self.store.shards().iter().map(|root| root.live().bytes).sum();
        self.stats.peak.fetch_max(live, Ordering::Relaxed);
        self.rates.lock().sample(Instant::now(), self.totals());
    }

    /// Begins to count anew.
    pub fn reset_counts(&self) {
        self.traffic.iter().for_each(Traffic::reset);
        self.counts.iter().flatten().for_each(Counts::reset);
        self.stats.reset();
        self.errors.lock().clear();
    }

    /// A client was told of an error.
    pub fn count_error(&self, code: &str) {
        let mut errors = self.errors.lock();
        // The codes come from commands, and scripts: there is an end to how many are told apart.
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
        } else if errors.len() < 128 {
            errors.insert(code.to_owned(), 1);
        }
        drop(errors);
        self.stats.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether clients may not write if this server is a replica.
    pub fn is_read_only(&self) -> bool {
        self.limits.read_only.load(Ordering::Relaxed)
    }

    /// Whether it has lost its master, and may not say what is old.
    pub fn is_stale(&self) -> bool {
        self.limits.silent.load(Ordering::Relaxed) && self.role.is_down()
    }

    /// Looks at an error of the heap. If nothing can be changed any more, that is logged, once; if there is no space, once a minute.
    pub fn look_at(&self, error: &pheap::Error) {
        if matches!(error, pheap::Error::OutOfSpace { .. } | pheap::Error::ReservationFull { .. }) {
            let mut told = self.told_of_no_space.lock();
            if told.is_none_or(|told| told.elapsed() >= NO_SPACE_AGAIN) {
                *told = Some(Instant::now());
                tracing::error!("a write was refused: {error}. All else goes on, and nothing is lost");
            }
        }
        let is_the_end = matches!(
            error,
            pheap::Error::Failed { .. } | pheap::Error::OutcomeUnknown { .. } | pheap::Error::Io { .. }
        );
        if is_the_end && !self.stats.has_failed.swap(true, Ordering::Relaxed) {
            tracing::error!(
                "writing to the heap has failed: {error}. Nothing is changed any more, and what was not acknowledged may be lost; see to the disk, and start the server again"
            );
        }
    }

    /// A client watches all commands from now on.
    pub fn add_monitor(&self, client: u64) {
        let mut monitors = self.monitors.lock();
        if !monitors.contains(&client) {
            monitors.push(client);
        }
        self.limits.monitors.store(monitors.len(), Ordering::SeqCst);
    }

    /// No longer.
    pub fn remove_monitor(&self, client: u64) {
        let mut monitors = self.monitors.lock();
        monitors.retain(|other| *other != client);
        self.limits.monitors.store(monitors.len(), Ordering::SeqCst);
    }

    /// A line about a command, for all who watch.
    pub fn monitored(&self, line: &str) -> Vec<(u64, Vec<u8>)> {
        let line = format!("+{line}\r\n").into_bytes();
        self.monitors.lock().iter().map(|client| (*client, line.clone())).collect()
    }

    /// Clients are not served for some time, or are served again. What is asked for while they are not served only makes that longer, and stricter.
    pub fn pause(&self, pause: Option<Pause>) {
        let mut paused = self.paused.lock();
        *paused = match (pause, *paused) {
            (Some(new), Some(old)) if old.until > Instant::now() => {
                Some(Pause { until: new.until.max(old.until), all: new.all || old.all })
            }
            (pause, _) => pause,
        };
        self.limits.paused.store(paused.map_or(0, |pause| 1 + u8::from(pause.all)), Ordering::SeqCst);
        self.threads.iter().for_each(|thread| thread.wake_up());
    }

    /// How long clients are not served, if it is so now.
    pub fn paused(&self) -> Option<Pause> {
        if self.limits.paused.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut paused = self.paused.lock();
        if paused.is_some_and(|pause| pause.until <= Instant::now()) {
            *paused = None;
            self.limits.paused.store(0, Ordering::SeqCst);
        }
        *paused
    }

    /// Disconnects the clients that need most memory, until the others need no more than `maxmemory-clients`.
    pub fn evict_clients(&self) {
        let limit = self.limits.clients.load(Ordering::Relaxed) as usize;
        if limit == 0 {
            return;
        }
        for (profile, bytes) in self.clients.above(limit) {
            tracing::warn!(
                "{} was closed: it needs {bytes} bytes; see maxmemory-clients",
                profile.addresses[0]
            );
            self.stats.evicted_clients.fetch_add(1, Ordering::Relaxed);
            self.clients.remove(profile.id);
            self.threads[profile.thread].post(Message::Kill(profile.id));
        }
    }

    /// A client watches nothing any more.
    pub fn unwatch(&self, session: &mut Session) {
        let flag = std::mem::take(&mut session.watched_changed);
        for (db, key) in std::mem::take(&mut session.watched).into_keys() {
            self.watched.remove(db, &key, &flag);
        }
    }

    /// Whether notifications of a class are wanted.
    pub fn wants(&self, class: u8) -> bool {
        Wanted(self.limits.notifications.load(Ordering::Relaxed)).has(class)
    }

    /// Calls `send` with each client that wants a keyspace notification, and the parts of its message.
    pub fn notify(
        &self,
        (db, class, event, key): (usize, u8, &str, &[u8]),
        send: &mut dyn FnMut(Listener, &[&[u8]]),
    ) {
        let wanted = Wanted(self.limits.notifications.load(Ordering::Relaxed));
        if wanted.has(class) && wanted.has(b'K') {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
            self.channels.publish(Kind::Channel, &channel, event.as_bytes(), send);
        }
        if wanted.has(class) && wanted.has(b'E') {
            let channel = format!("__keyevent@{db}__:{event}");
            self.channels.publish(Kind::Channel, channel.as_bytes(), key, send);
        }
    }

    /// A client listens to nothing any more.
    pub fn listen_to_nothing(&self, session: &mut Session) {
        for kind in [Kind::Channel, Kind::Pattern, Kind::Shard] {
            for name in std::mem::take(session.listens_to(kind)) {
                self.channels.remove(&name, kind, session.id);
            }
        }
    }

    /// Lets all threads end.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.memory.wake_collector();
        self.threads.iter().for_each(|thread| thread.wake_up());
        self.role.wake_up();
    }
}

/// The time since 1970.
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The same, in milliseconds.
pub fn now() -> i64 {
    i64::try_from(since_1970().as_millis()).unwrap_or(i64::MAX)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_limit_the_machine_sets_one() {
        assert!(or_of_machine(Limit::default()).hard > 1 << 20);
        assert_eq!(or_of_machine(Limit { hard: 7, ..Limit::default() }).hard, 7);
    }
}
