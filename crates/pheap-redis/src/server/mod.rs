//! State that all clients share.

pub mod clocks;
pub mod role;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};

use crate::clients::buffers::{self, OutputLimit};
use crate::clients::client::{Name, Session};
use crate::clients::pubsub::{Channels, NotificationClasses, SubscriptionKind};
use crate::clients::tracking::Tracking;
use crate::clients::unsynced::Unsynced;
use crate::clients::waiting::Waiting;
use crate::clients::{Clients, Pause};
use crate::config::Config;
use crate::connections::mailbox::{Mailbox, Message};
use crate::data::memory::Memory;
use crate::data::{Store, explained};
use crate::scripts::Scripts;
use crate::scripts::gates::Gates;
use crate::scripts::libraries::Libraries;
use crate::server::clocks::Clocks;
use crate::server::role::Role;
use crate::stats::counts::{Counts, Sum, Traffic};
use crate::stats::rates::Rates;
use crate::stats::slowlog::{Latency, SlowLog};
use crate::text::random::random;

/// The error reply to a command that needs memory while the data exceed `maxmemory` and no room can be made.
pub const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// The error reply to a client's write on a read-only replica.
pub const READONLY: &str = "READONLY You can't write against a read only replica.";

/// The error reply of a replica that is not connected to its master and may not serve old data.
pub const MASTER_DOWN: &str =
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";

/// The error reply while a replica loads the data of its master.
pub const LOADING: &str = "LOADING Redis is loading the dataset in memory";

/// The shortest time between two log lines about writes for which the heap has no space.
const NO_SPACE_AGAIN: Duration = Duration::from_secs(60);

/// State that all clients share.
pub struct Server {
    /// The stored data.
    pub store: Store,
    /// The options of the server.
    pub config: RwLock<Config>,
    /// The memory that the data need.
    pub memory: Memory,
    /// When and how often keys were used.
    pub clocks: Clocks,
    /// Keys that clients watch for `EXEC`.
    pub watched: WatchedKeys,
    /// The clients that subscribe to each channel.
    pub channels: Channels,
    /// Keys that clients wait for.
    pub waiting: Waiting,
    /// Locks that a thread passes before it locks shards.
    pub gates: Gates,
    /// Keys of which clients may have copies.
    pub tracking: Tracking,
    /// Scripts that all threads share.
    pub scripts: Scripts,
    /// The function libraries.
    pub libraries: Libraries,
    /// Whether this server follows a master, and how far.
    pub role: Role,
    /// Counters and figures of the server.
    pub stats: ServerStats,
    /// The clients that are connected.
    pub clients: Clients,
    /// Slow commands.
    pub slowlog: SlowLog,
    /// Slow events.
    pub latency: Latency,
    /// How often commands failed with each error code. At most 128 codes are counted.
    pub errors: Mutex<BTreeMap<String, u64>>,
    /// Counts of each command, by thread. The last entry is that of the link to a master.
    counts: Vec<Vec<Counts>>,
    /// Bytes read and written, by thread. The last entry is that of the link to a master.
    pub traffic: Vec<Traffic>,
    /// Rates of commands and bytes per second.
    pub rates: Mutex<Rates>,
    /// The ids of the clients that use `MONITOR`.
    monitors: Mutex<Vec<u64>>,
    /// The pause of the clients, if there is one; it may be over. `options.paused` mirrors it.
    paused: Mutex<Option<Pause>>,
    /// The mailboxes of the threads that serve clients.
    pub threads: Vec<Arc<Mailbox>>,
    /// Whether the server has to stop.
    pub stopping: AtomicBool,
    /// When the server started.
    pub started: Instant,
    /// A random id of this run of the server: 40 hexadecimal digits.
    pub run_id: String,
    /// The file of options with which the server started, if any.
    pub config_file: Option<PathBuf>,
    /// The state of the last copy of the heap.
    pub save: Arc<Mutex<SaveState>>,
    /// The id of the next client.
    next_client: AtomicU64,
    /// When the log last reported that the heap has no space.
    told_of_no_space: Mutex<Option<Instant>>,
    /// Options and other values that the server reads often.
    pub options: LiveOptions,
    /// Counts of the writes that are not synced, by the slots of their keys.
    pub unsynced: Unsynced,
}

/// Options and other values that the server reads often. Most are atomics, so that readers need not lock the
/// configuration.
#[derive(Debug, Default)]
pub struct LiveOptions {
    /// The longest argument, in bytes.
    pub bulk: AtomicU64,
    /// The most bytes of input that a client may have sent without a reply, with its commands that wait for
    /// `EXEC`.
    pub input: AtomicU64,
    /// The most bytes that all clients may need together, which also limits each one; 0: no limit.
    pub clients: AtomicU64,
    /// The most bytes of unread output of a client.
    pub output: buffers::SharedOutputLimit,
    /// The most bytes of unread output of a client that subscribes to channels.
    pub messages: buffers::SharedOutputLimit,
    /// Whether replies wait until their writes are durable: there is a log, and `appendfsync` is `always`.
    pub always: AtomicBool,
    /// Whether the heap has a log, so that committed writes may not be durable yet.
    pub has_log: bool,
    /// The wanted keyspace notifications, as the number in [`NotificationClasses`].
    pub notifications: AtomicU32,
    /// The microseconds from which a command counts as slow; negative: never.
    pub slow: AtomicI64,
    /// The milliseconds from which `LATENCY` records an event; 0: never.
    pub latency: AtomicI64,
    /// Whether clients may not write to a replica.
    pub read_only: AtomicBool,
    /// Whether a replica that is not connected to its master refuses to serve data.
    pub silent: AtomicBool,
    /// Whether the server removes expired keys periodically. In any case, a lookup by a command of a client
    /// does not find them.
    pub expires: AtomicBool,
    /// Number of clients that use `MONITOR`.
    pub monitors: AtomicUsize,
    /// 0 if clients are not paused, 1 if their writes are, 2 if all their commands are. The pause may be
    /// over.
    pub paused: AtomicU8,
}

/// Returns the output limit, with a quarter of the [memory](pheap::memory_limit) as the hard limit if the
/// option sets none (0). A client that asks for more, or does not read, must not exhaust the memory.
fn or_of_memory(limit: OutputLimit) -> OutputLimit {
    OutputLimit { hard: if limit.hard == 0 { pheap::memory_limit() / 4 } else { limit.hard }, ..limit }
}

impl LiveOptions {
    /// Sets the values that options determine.
    pub fn apply(&self, config: &Config) {
        self.bulk.store(config.int("proto-max-bulk-len") as u64, Ordering::Relaxed);
        self.input.store(config.int("client-query-buffer-limit") as u64, Ordering::Relaxed);
        self.clients.store(config.client_memory(), Ordering::Relaxed);
        let limits = config.output_limits();
        self.output.set(or_of_memory(limits.normal));
        self.messages.set(or_of_memory(limits.pubsub));
        let wanted = NotificationClasses::parse(config.text("notify-keyspace-events")).unwrap_or_default();
        self.notifications.store(wanted.0, Ordering::Relaxed);
        self.slow.store(config.int("slowlog-log-slower-than"), Ordering::Relaxed);
        self.latency.store(config.int("latency-monitor-threshold"), Ordering::Relaxed);
        self.read_only.store(config.is("replica-read-only"), Ordering::Relaxed);
        self.silent.store(!config.is("replica-serve-stale-data"), Ordering::Relaxed);
        self.always.store(self.has_log && config.text("appendfsync") == "always", Ordering::Relaxed);
    }
}

/// The state of the last copy of the heap (`SAVE`, `BGSAVE`).
#[derive(Debug, Default)]
pub struct SaveState {
    /// When the last copy was complete, in seconds since 1970; before the first copy, when the server
    /// started.
    pub at: i64,
    /// The value of [`ServerStats::dirty`] when the last copy began.
    pub dirty: u64,
    /// Whether a copy is being made, or is about to be.
    pub is_running: bool,
    /// Whether the last attempt failed. An attempt that was refused at once does not count.
    pub failed: bool,
    /// When the copy that is being made began.
    pub began: Option<Instant>,
    /// How long the last attempt took, failed or not. An attempt that was refused at once does not count.
    pub took: Option<Duration>,
    /// Number of copies made.
    pub count: u64,
}

/// Counters since the start of the server or the last `CONFIG RESETSTAT`, and figures that it does not reset.
#[derive(Debug, Default)]
pub struct ServerStats {
    /// Connections accepted and not refused.
    pub connections: AtomicU64,
    /// Clients that wait for keys or for the end of a pause.
    pub blocked: AtomicUsize,
    /// Keys removed because they had expired.
    pub expired: AtomicU64,
    /// Keys evicted because memory was short.
    pub evicted: AtomicU64,
    /// Changes to the data since the start of the server.
    pub dirty: AtomicU64,
    /// Clients disconnected because of `maxmemory-clients`.
    pub evicted_clients: AtomicU64,
    /// Connections refused.
    pub rejected: AtomicU64,
    /// Error replies.
    pub errors: AtomicU64,
    /// The most bytes that the data have needed since the start of the server, as far as sampled.
    pub peak: AtomicU64,
    /// Clients that wait for keys with a timeout.
    pub timed: AtomicUsize,
    /// Microseconds spent on removing expired keys.
    pub expiring: AtomicU64,
    /// Whether an error has shown that the heap cannot be written any more.
    pub has_failed: AtomicBool,
}

impl ServerStats {
    /// Resets the counters, except `dirty`, `peak`, `has_failed` and those of the present state.
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
    /// Makes a server for the data in `store`, with counters for `commands` commands. `threads` are the
    /// mailboxes of the threads that serve clients. The caller starts these.
    pub fn new(store: Store, config: Config, threads: Vec<Arc<Mailbox>>, commands: usize) -> Server {
        let options = LiveOptions {
            has_log: store.heap().durability() == pheap::Durability::Wal,
            expires: AtomicBool::new(true),
            ..LiveOptions::default()
        };
        options.apply(&config);
        // The memory of two more roots is counted: those of the function libraries and of the replication
        // progress.
        let memory = Memory::new(store.shards().len() + 2);
        memory.set_limit(config.int("maxmemory") as u64, &store);
        let tracking = Tracking::default();
        tracking.set_limit(config.int("tracking-table-max-keys") as u64);
        Server {
            clocks: Clocks::new(&config, now()),
            memory,
            config: RwLock::new(config),
            watched: WatchedKeys::default(),
            channels: Channels::default(),
            waiting: Waiting::default(),
            gates: Gates::new(store.shards().len() + 1, threads.len()),
            tracking,
            scripts: Scripts::default(),
            libraries: Libraries::default(),
            role: Role::default(),
            stats: ServerStats::default(),
            clients: Clients::default(),
            slowlog: SlowLog::default(),
            latency: Latency::default(),
            errors: Mutex::default(),
            // There is one entry more than threads, for the commands of a master.
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
            save: Arc::new(Mutex::new(SaveState { at: now() / 1000, ..SaveState::default() })),
            store,
            unsynced: Unsynced::default(),
            next_client: AtomicU64::new(1),
            told_of_no_space: Mutex::default(),
            options,
        }
    }

    /// Returns a new client id.
    pub fn client_id(&self) -> u64 {
        self.next_client.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the counts of a command in a thread.
    pub fn counts(&self, thread: usize, command: usize) -> &Counts {
        &self.counts[thread][command]
    }

    /// Returns the sum of a command's counts over all threads.
    pub fn counted(&self, command: usize) -> Sum {
        let mut sum = Sum::default();
        self.counts.iter().for_each(|thread| sum.add(&thread[command]));
        sum
    }

    /// Returns the sum of all commands' counts over all threads.
    pub fn counted_in_all(&self) -> Sum {
        let mut sum = Sum::default();
        self.counts.iter().flatten().for_each(|counts| sum.add(counts));
        sum
    }

    /// Returns the totals from which [`crate::stats::rates`] computes rates: calls, bytes from clients, bytes
    /// to clients, and bytes from a master.
    pub fn totals(&self) -> [u64; crate::stats::rates::COUNTED] {
        let calls = self.counts.iter().flatten().map(Counts::calls).sum();
        let (master, clients) = self.traffic.split_last().expect("one is that of a master");
        let [input, output] = clients.iter().fold([0; 2], |[input, output], thread| {
            let of_thread = thread.get();
            [input + of_thread.input, output + of_thread.output]
        });
        [calls, input, output, master.get().input]
    }

    /// Returns the bytes that the data need, and raises `peak` to this number if it is higher.
    pub fn used_memory(&self) -> u64 {
        let used =
            if self.memory.limit() > 0 { self.memory.used() } else { self.store.heap().stats().live_bytes };
        self.stats.peak.fetch_max(used, Ordering::Relaxed);
        used
    }

    /// Samples the rates and the peak memory. Called about ten times a second.
    pub fn sample(&self) {
        let live = self.store.shards().iter().map(|root| root.live().bytes).sum();
        self.stats.peak.fetch_max(live, Ordering::Relaxed);
        self.rates.lock().sample(Instant::now(), self.totals());
    }

    /// Resets the counts of commands, bytes and errors, and the counters of `stats`.
    pub fn reset_counts(&self) {
        self.traffic.iter().for_each(Traffic::reset);
        self.counts.iter().flatten().for_each(Counts::reset);
        self.stats.reset();
        self.errors.lock().clear();
    }

    /// Counts an error of a command by its code.
    pub fn count_error(&self, code: &str) {
        let mut errors = self.errors.lock();
        // Commands and scripts choose the codes, so the number of distinct ones is limited.
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
        } else if errors.len() < 128 {
            errors.insert(code.to_owned(), 1);
        }
        drop(errors);
        self.stats.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether clients may not write if this server is a replica.
    pub fn is_read_only(&self) -> bool {
        self.options.read_only.load(Ordering::Relaxed)
    }

    /// Returns whether this server is not connected to its master and may not serve old data.
    pub fn is_stale(&self) -> bool {
        self.options.silent.load(Ordering::Relaxed) && self.role.is_down()
    }

    /// Logs an error of the heap: once if the heap has failed, and at most once a minute if there is no
    /// space. Ignores other errors.
    pub fn look_at(&self, error: &pheap::Error) {
        if matches!(error, pheap::Error::OutOfSpace { .. } | pheap::Error::ReservationFull { .. }) {
            let mut told = self.told_of_no_space.lock();
            if told.is_none_or(|told| told.elapsed() >= NO_SPACE_AGAIN) {
                *told = Some(Instant::now());
                tracing::error!(
                    "a write was refused: {}. The server goes on with other commands, and no data are lost",
                    explained(error),
                );
            }
        }
        let is_the_end = matches!(
            error,
            pheap::Error::Failed { .. }
                | pheap::Error::OutcomeUnknown { .. }
                | pheap::Error::Misplaced { .. }
                | pheap::Error::Io { .. }
        );
        if is_the_end && !self.stats.has_failed.swap(true, Ordering::Relaxed) {
            tracing::error!(
                "writing to the heap has failed: {}. The server reads and writes no data any more, and \
                 writes that were not acknowledged may be lost. Check that the disk works, and that the \
                 files of the heap are in their place, and restart the server",
                explained(error),
            );
        }
    }

    /// Adds a client that uses `MONITOR`.
    pub fn add_monitor(&self, client: u64) {
        let mut monitors = self.monitors.lock();
        if !monitors.contains(&client) {
            monitors.push(client);
        }
        self.options.monitors.store(monitors.len(), Ordering::SeqCst);
    }

    /// Removes a client that used `MONITOR`.
    pub fn remove_monitor(&self, client: u64) {
        let mut monitors = self.monitors.lock();
        monitors.retain(|other| *other != client);
        self.options.monitors.store(monitors.len(), Ordering::SeqCst);
    }

    /// Returns the clients that use `MONITOR`.
    pub fn monitors(&self) -> Vec<u64> {
        self.monitors.lock().clone()
    }

    /// Pauses the clients, or ends the pause, and wakes the threads that serve clients. A new pause during
    /// another one can only make it longer and stricter.
    pub fn pause(&self, pause: Option<Pause>) {
        let mut paused = self.paused.lock();
        *paused = match (pause, *paused) {
            (Some(new), Some(old)) if old.until > Instant::now() => {
                Some(Pause { until: new.until.max(old.until), all: new.all || old.all })
            }
            (pause, _) => pause,
        };
        self.options.paused.store(paused.map_or(0, |pause| 1 + u8::from(pause.all)), Ordering::SeqCst);
        self.threads.iter().for_each(|thread| thread.wake_up());
    }

    /// Returns the pause of the clients, if there is one now.
    pub fn paused(&self) -> Option<Pause> {
        if self.options.paused.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut paused = self.paused.lock();
        if paused.is_some_and(|pause| pause.until <= Instant::now()) {
            *paused = None;
            self.options.paused.store(0, Ordering::SeqCst);
        }
        *paused
    }

    /// Has the clients that need most memory disconnected, so that the others need at most
    /// `maxmemory-clients`. Clients with `CLIENT NO-EVICT` do not count.
    pub fn evict_clients(&self) {
        let limit = self.options.clients.load(Ordering::Relaxed) as usize;
        if limit == 0 {
            return;
        }
        for (profile, bytes) in self.clients.above(limit) {
            tracing::warn!(
                "{} was disconnected: its requests and replies need {bytes} bytes, and those of all clients \
                 more than maxmemory-clients",
                profile.addresses[0]
            );
            self.stats.evicted_clients.fetch_add(1, Ordering::Relaxed);
            self.clients.remove(profile.id);
            self.threads[profile.thread].post(Message::Kill(profile.id));
        }
    }

    /// Removes all watches of a client.
    pub fn unwatch(&self, session: &mut Session) {
        let flag = std::mem::take(&mut session.watched_changed);
        for (db, key) in std::mem::take(&mut session.watched).into_keys() {
            self.watched.remove(db, &key, &flag);
        }
    }

    /// Returns whether notifications of a class are wanted.
    pub fn wants_notification(&self, class: u8) -> bool {
        NotificationClasses(self.options.notifications.load(Ordering::Relaxed)).has(class)
    }

    /// Calls `send` with each client that wants a keyspace notification, and the parts of its message.
    pub fn notify(
        &self,
        (db, class, event, key): (usize, u8, &str, &[u8]),
        send: &mut dyn FnMut(u64, &[&[u8]]),
    ) {
        let wanted = NotificationClasses(self.options.notifications.load(Ordering::Relaxed));
        if wanted.has(class) && wanted.has(b'K') {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
            self.channels.publish(SubscriptionKind::Channel, &channel, event.as_bytes(), send);
        }
        if wanted.has(class) && wanted.has(b'E') {
            let channel = format!("__keyevent@{db}__:{event}");
            self.channels.publish(SubscriptionKind::Channel, channel.as_bytes(), key, send);
        }
    }

    /// Removes all subscriptions of a client.
    pub fn listen_to_nothing(&self, session: &mut Session) {
        for kind in [SubscriptionKind::Channel, SubscriptionKind::Pattern, SubscriptionKind::Shard] {
            for name in std::mem::take(session.listens_to(kind)) {
                self.channels.remove(&name, kind, session.id);
            }
        }
    }

    /// Asks all threads to end.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.memory.wake_collector();
        self.threads.iter().for_each(|thread| thread.wake_up());
        self.role.wake_up();
    }
}

/// Returns the time since 1970, by the system's clock; 0 if that shows an earlier time.
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns the milliseconds since 1970.
pub fn now() -> i64 {
    i64::try_from(since_1970().as_millis()).unwrap_or(i64::MAX)
}

/// Keys that clients watch for `EXEC`, and the flags to set when they are written to.
#[derive(Debug, Default)]
pub struct WatchedKeys {
    count: AtomicUsize,
    keys: Mutex<HashMap<Name, Vec<Arc<AtomicBool>>>>,
}

impl WatchedKeys {
    /// Adds a watch: each later write to the key sets `flag`.
    pub fn add(&self, db: usize, key: &[u8], flag: &Arc<AtomicBool>) {
        self.keys.lock().entry((db, key.to_vec())).or_default().push(flag.clone());
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Removes a watch.
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

    /// Sets the flags of a key that is being written to. The caller must hold the shard's lock. `EXEC` reads
    /// its flag under that lock, so it sees each write.
    pub fn mark_changed(&self, db: usize, key: &[u8]) {
        if self.count.load(Ordering::SeqCst) > 0 {
            for flag in self.keys.lock().get(&(db, key.to_vec())).into_iter().flatten() {
                flag.store(true, Ordering::SeqCst);
            }
        }
    }

    /// Sets the flags of all keys for which `is_concerned` is true.
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
        assert!(or_of_memory(OutputLimit::default()).hard > 1 << 20);
        assert_eq!(or_of_memory(OutputLimit { hard: 7, ..OutputLimit::default() }).hard, 7);
    }
}
