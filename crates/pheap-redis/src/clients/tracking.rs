//! Client-side caching: which clients may have copies of which keys, and the messages about changes of these
//! keys.
//!
//! Readers of a key are recorded, and looked up at a change, while the key's shard is locked. A reader that
//! was found gets a message even if the change is rolled back: dropping a valid copy does no harm.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::clients::client::{Session, TrackingOptions};
use crate::clients::{Clients, Profile};
use crate::resp::Reply;

/// The keys whose copies are invalid. None means all keys.
pub type NoticeKeys = Option<Arc<[Vec<u8>]>>;

/// A message to a client. The client's thread encodes it for the client's protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The client's copies of some keys are invalid.
    Invalid {
        /// The keys whose copies are invalid.
        keys: NoticeKeys,
        /// Whether the copies are those of another client, which redirects its messages to this one.
        redirected: bool,
    },
    /// The client with this id, which should get this client's messages, has disconnected.
    RedirectBroken(u64),
}

/// The invalidation messages that changes of keys cause.
#[derive(Debug, Default)]
pub struct Stale {
    /// Messages, each with the id of the client that gets it.
    pub notices: Vec<(u64, Notice)>,
    /// The changed keys of which the writing client itself gets messages, after its reply. None means all
    /// keys.
    pub own: Vec<Option<Vec<u8>>>,
    /// The changed keys, for the clients in broadcast mode. Empty if no client is in broadcast mode.
    pub changed: BTreeSet<Vec<u8>>,
}

/// The clients that track keys, and the keys that they have read.
#[derive(Debug, Default)]
pub struct Tracking {
    /// Number of clients that track keys. If there are none, no reads are recorded.
    clients: AtomicUsize,
    /// Number of recorded keys.
    keys: AtomicUsize,
    /// Number of different prefixes of the clients in broadcast mode.
    prefixes: AtomicUsize,
    /// The number of recorded keys above which `drop_excess_keys` drops keys; 0: no limit.
    limit: AtomicU64,
    table: Mutex<TrackingTable>,
}

#[derive(Debug, Default)]
struct TrackingTable {
    trackers: HashMap<u64, Tracker>,
    /// The ids of the clients that have read each key. Some of these clients may have disconnected, or have
    /// ended or changed their tracking.
    readers: BTreeMap<Vec<u8>, BTreeSet<u64>>,
    /// The sum of the numbers of readers of all keys.
    items: usize,
    /// The ids of the clients in broadcast mode, by prefix.
    prefixes: BTreeMap<Vec<u8>, BTreeSet<u64>>,
    /// The key that `drop_excess_keys` dropped last; empty at the beginning. Its next call continues behind
    /// this key.
    forgotten: Vec<u8>,
}

/// A client that tracks keys.
#[derive(Debug)]
struct Tracker {
    options: TrackingOptions,
    prefixes: BTreeSet<Vec<u8>>,
    profile: Arc<Profile>,
}

/// The most keys that one call of [`Tracking::drop_excess_keys`] drops.
const MAX_DROPPED: usize = 1000;

/// The channel of the messages to clients in RESP2.
const CHANNEL: &[u8] = b"__redis__:invalidate";

impl Notice {
    /// Encodes the message for the client of `session`. A client in RESP2 gets only messages about the
    /// invalid copies of another client, and only while it has subscriptions; otherwise, writes nothing.
    pub fn write(&self, session: &Session, reply: &mut Reply) {
        match self {
            Notice::Invalid { keys, redirected } => {
                if session.resp3 {
                    reply.push(2);
                    reply.bulk(b"invalidate");
                } else if *redirected && session.subscriptions() > 0 {
                    reply.push(3);
                    reply.bulk(b"message");
                    reply.bulk(CHANNEL);
                } else {
                    return;
                }
                match keys {
                    None => reply.null(),
                    Some(keys) => {
                        reply.array(keys.len());
                        keys.iter().for_each(|key| reply.bulk(key));
                    }
                }
            }
            Notice::RedirectBroken(to) if session.resp3 => {
                reply.push(2);
                reply.bulk(b"tracking-redir-broken");
                reply.int(*to as i64);
            }
            Notice::RedirectBroken(_) => {}
        }
    }
}

impl Tracker {
    /// Returns the message about `keys`, and the id of the client that gets it. If the tracking client
    /// redirects its messages to a client that has disconnected, notes that in the tracking client's profile,
    /// and returns a message to it that says so.
    fn notice(&self, clients: &Clients, keys: NoticeKeys) -> (u64, Notice) {
        match self.options.redirect {
            None => (self.profile.id, Notice::Invalid { keys, redirected: false }),
            Some(to) if clients.get(to).is_some() => (to, Notice::Invalid { keys, redirected: true }),
            Some(to) => {
                self.profile.redirect_is_broken.store(true, Ordering::Relaxed);
                (self.profile.id, Notice::RedirectBroken(to))
            }
        }
    }
}

impl TrackingTable {
    /// Removes and returns the readers of a key.
    fn remove_readers(&mut self, key: &[u8]) -> BTreeSet<u64> {
        let readers = self.readers.remove(key).unwrap_or_default();
        self.items -= readers.len();
        readers
    }

    /// Returns the tracker of a client. None if the client tracks no keys or is in broadcast mode.
    fn reader(&self, client: u64) -> Option<&Tracker> {
        self.trackers.get(&client).filter(|tracker| !tracker.options.broadcast)
    }
}

impl Tracking {
    /// Returns whether any client tracks keys.
    pub fn is_wanted(&self) -> bool {
        self.clients.load(Ordering::Relaxed) > 0
    }

    /// Sets the number of recorded keys above which keys are dropped; 0: no limit.
    pub fn set_limit(&self, keys: u64) {
        self.limit.store(keys, Ordering::Relaxed);
    }

    /// Begins tracking for a client, or changes its options. In broadcast mode, adds these prefixes to those
    /// that the client has; no prefixes mean all keys.
    pub fn enable(&self, session: &mut Session, options: TrackingOptions, prefixes: &[&[u8]]) {
        let (id, profile) = (session.id, &session.profile);
        session.tracking = Some(options);
        profile.redirect_is_broken.store(false, Ordering::Relaxed);
        let mut table = self.table.lock();
        let TrackingTable { trackers, prefixes: all, .. } = &mut *table;
        let new = || Tracker { options, prefixes: BTreeSet::new(), profile: profile.clone() };
        let tracker = trackers.entry(id).or_insert_with(new);
        tracker.options = options;
        if options.broadcast {
            const ALL: &[&[u8]] = &[b""];
            for prefix in if prefixes.is_empty() { ALL } else { prefixes } {
                tracker.prefixes.insert(prefix.to_vec());
                all.entry(prefix.to_vec()).or_default().insert(id);
            }
        }
        self.count(&table);
    }

    /// Ends tracking for a client.
    pub fn disable(&self, session: &mut Session) {
        session.caching = false;
        if session.tracking.take().is_none() {
            return;
        }
        session.profile.redirect_is_broken.store(false, Ordering::Relaxed);
        let mut table = self.table.lock();
        let Some(tracker) = table.trackers.remove(&session.id) else { return };
        for prefix in tracker.prefixes {
            if let Some(clients) = table.prefixes.get_mut(&prefix) {
                clients.remove(&session.id);
                if clients.is_empty() {
                    table.prefixes.remove(&prefix);
                }
            }
        }
        if table.trackers.is_empty() {
            // The end of the last tracking empties the table. While other clients track keys, the recorded
            // reads of this client stay until the keys change or are dropped.
            *table = TrackingTable::default();
        }
        self.count(&table);
    }

    fn count(&self, table: &TrackingTable) {
        self.clients.store(table.trackers.len(), Ordering::SeqCst);
        self.keys.store(table.readers.len(), Ordering::SeqCst);
        self.prefixes.store(table.prefixes.len(), Ordering::SeqCst);
    }

    /// Returns the prefixes of a client in broadcast mode.
    pub fn prefixes_of(&self, client: u64) -> Vec<Vec<u8>> {
        let table = self.table.lock();
        table.trackers.get(&client).map_or(Vec::new(), |tracker| tracker.prefixes.iter().cloned().collect())
    }

    /// Returns four numbers: clients that track keys, recorded keys, the sum of the readers of all keys, and
    /// prefixes.
    pub fn totals(&self) -> [usize; 4] {
        let table = self.table.lock();
        [table.trackers.len(), table.readers.len(), table.items, table.prefixes.len()]
    }

    /// Records that a client reads keys. The caller has locked the keys' shards.
    pub fn remember<'k>(&self, client: u64, keys: impl Iterator<Item = &'k [u8]>) {
        let mut table = self.table.lock();
        for key in keys {
            let is_new = match table.readers.get_mut(key) {
                Some(readers) => readers.insert(client),
                None => table.readers.insert(key.to_vec(), BTreeSet::from([client])).is_none(),
            };
            table.items += usize::from(is_new);
        }
        self.count(&table);
    }

    /// Adds to `stale` the messages about a change of a key by client `by` (0: none), and forgets the key's
    /// readers. For clients in broadcast mode, records the key in `stale.changed`. The caller has locked the
    /// key's shard.
    pub fn changed(&self, clients: &Clients, by: u64, key: &[u8], stale: &mut Stale) {
        if self.prefixes.load(Ordering::SeqCst) > 0 && !stale.changed.contains(key) {
            stale.changed.insert(key.to_vec());
        }
        if self.keys.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut table = self.table.lock();
        let readers = table.remove_readers(key);
        if readers.is_empty() {
            return;
        }
        self.count(&table);
        let keys: Arc<[Vec<u8>]> = Arc::new([key.to_vec()]);
        for reader in readers {
            let Some(tracker) = table.reader(reader) else { continue };
            if reader != by {
                stale.notices.push(tracker.notice(clients, Some(keys.clone())));
            } else if !tracker.options.no_loop {
                stale.own.push(Some(key.to_vec()));
            }
        }
    }

    /// Adds to `stale` the messages about the removal of all keys of one or all databases by client `by`, and
    /// forgets all readers. All copies of all keys become invalid. The caller has locked all shards.
    pub fn flushed(&self, clients: &Clients, by: u64, stale: &mut Stale) {
        let mut table = self.table.lock();
        table.readers.clear();
        table.items = 0;
        self.count(&table);
        for (&client, tracker) in &table.trackers {
            if client == by {
                stale.own.push(None);
            } else {
                stale.notices.push(tracker.notice(clients, None));
            }
        }
    }

    /// Returns the message to a client about its own change of a key, or of all keys if `key` is None, and
    /// the id of the client that gets the message. None if the client does not track keys.
    pub fn own(&self, clients: &Clients, client: u64, key: Option<Vec<u8>>) -> Option<(u64, Notice)> {
        let table = self.table.lock();
        Some(table.trackers.get(&client)?.notice(clients, key.map(|key| Arc::from([key]))))
    }

    /// Returns the messages to clients in broadcast mode about changes by a client.
    pub fn broadcast(&self, clients: &Clients, by: u64, changed: &BTreeSet<Vec<u8>>) -> Vec<(u64, Notice)> {
        let mut notices = Vec::new();
        if changed.is_empty() {
            return notices;
        }
        let table = self.table.lock();
        for (prefix, to) in &table.prefixes {
            let from = (Bound::Included(&prefix[..]), Bound::Unbounded);
            let keys = changed.range::<[u8], _>(from).take_while(|key| key.starts_with(prefix));
            let keys: Arc<[Vec<u8>]> = keys.cloned().collect();
            if keys.is_empty() {
                continue;
            }
            let trackers = to.iter().filter_map(|client| table.trackers.get(client));
            let told = trackers.filter(|tracker| tracker.profile.id != by || !tracker.options.no_loop);
            notices.extend(told.map(|tracker| tracker.notice(clients, Some(keys.clone()))));
        }
        notices
    }

    /// Drops at most `MAX_DROPPED` recorded keys if there are more than the limit. Returns messages to the
    /// readers of the dropped keys, as if these keys had changed.
    pub fn drop_excess_keys(&self, clients: &Clients) -> Vec<(u64, Notice)> {
        let limit = usize::try_from(self.limit.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        let mut notices = Vec::new();
        if limit == 0 || self.keys.load(Ordering::Relaxed) <= limit {
            return notices;
        }
        let mut table = self.table.lock();
        for _ in 0..MAX_DROPPED {
            if table.readers.len() <= limit {
                break;
            }
            let after = (Bound::Excluded(&table.forgotten[..]), Bound::Unbounded);
            let next = table.readers.range::<[u8], _>(after).next().or(table.readers.first_key_value());
            let Some(key) = next.map(|(key, _)| key.clone()) else { break };
            let readers = table.remove_readers(&key);
            let keys: Arc<[Vec<u8>]> = Arc::new([key.clone()]);
            table.forgotten = key;
            let trackers = readers.into_iter().filter_map(|reader| table.reader(reader));
            notices.extend(trackers.map(|tracker| tracker.notice(clients, Some(keys.clone()))));
        }
        self.count(&table);
        notices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: u64, clients: &Clients) -> Session {
        let profile = Arc::new(Profile { id, ..Profile::nobody() });
        clients.add(profile.clone());
        Session::new(profile, true)
    }

    fn invalid(keys: &[&str], redirected: bool) -> Notice {
        let keys = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        Notice::Invalid { keys: Some(keys), redirected }
    }

    #[test]
    fn readers_are_told_once() {
        let (clients, tracking) = (Clients::default(), Tracking::default());
        let [mut one, mut two, mut three] = [1, 2, 3].map(|id| session(id, &clients));
        tracking.enable(&mut one, TrackingOptions::default(), &[]);
        tracking.enable(
            &mut two,
            TrackingOptions { redirect: Some(3), no_loop: true, ..TrackingOptions::default() },
            &[],
        );
        for client in [1, 2] {
            tracking.remember(client, [&b"a"[..], b"b", b"a"].into_iter());
        }
        assert_eq!(tracking.totals(), [2, 2, 4, 0]);
        let mut stale = Stale::default();
        tracking.changed(&clients, 1, b"a", &mut stale);
        assert_eq!(stale.notices, [(3, invalid(&["a"], true))]);
        assert_eq!(stale.own, [Some(b"a".to_vec())]);
        assert_eq!(tracking.own(&clients, 1, Some(b"a".to_vec())), Some((1, invalid(&["a"], false))));
        stale = Stale::default();
        tracking.changed(&clients, 2, b"a", &mut stale);
        assert!(stale.notices.is_empty() && stale.own.is_empty());
        // Client 3, to which client 2 redirects its messages, disconnects.
        tracking.disable(&mut three);
        clients.remove(3);
        tracking.changed(&clients, 1, b"b", &mut stale);
        assert_eq!(stale.notices, [(2, Notice::RedirectBroken(3))]);
        tracking.flushed(&clients, 0, &mut stale);
        assert_eq!(stale.notices.len(), 3);
        tracking.remember(1, [&b"c"[..]].into_iter());
        tracking.disable(&mut one);
        tracking.disable(&mut two);
        assert!(tracking.totals() == [0; 4] && !tracking.is_wanted());
    }

    #[test]
    fn prefixes() {
        let (clients, tracking) = (Clients::default(), Tracking::default());
        let [mut one, mut two] = [1, 2].map(|id| session(id, &clients));
        let options = TrackingOptions { broadcast: true, no_loop: true, ..TrackingOptions::default() };
        tracking.enable(&mut one, options, &[b"a", b"b"]);
        tracking.enable(&mut two, options, &[]);
        assert_eq!(tracking.prefixes_of(2), [b""]);
        let mut stale = Stale::default();
        for key in [&b"b2"[..], b"a1", b"c", b"b1", b"b2"] {
            tracking.changed(&clients, 2, key, &mut stale);
        }
        let notices = tracking.broadcast(&clients, 2, &stale.changed);
        assert_eq!(notices, [(1, invalid(&["a1"], false)), (1, invalid(&["b1", "b2"], false))]);
        tracking.disable(&mut one);
        assert_eq!(tracking.totals(), [1, 0, 0, 1]);
    }

    #[test]
    fn too_many_keys() {
        let (clients, tracking) = (Clients::default(), Tracking::default());
        let mut one = session(1, &clients);
        tracking.enable(&mut one, TrackingOptions { no_loop: true, ..TrackingOptions::default() }, &[]);
        let names: Vec<_> = (0..3000).map(|number| format!("{number:04}").into_bytes()).collect();
        tracking.remember(1, names.iter().map(Vec::as_slice));
        assert!(tracking.drop_excess_keys(&clients).is_empty());
        tracking.set_limit(1500);
        assert_eq!(tracking.drop_excess_keys(&clients).len(), 1000);
        let rest = tracking.drop_excess_keys(&clients);
        assert_eq!((rest.len(), &rest[0].1), (500, &invalid(&["1000"], false)));
        assert!(tracking.drop_excess_keys(&clients).is_empty());
        // The next call of `drop_excess_keys` goes on with later keys, and does not drop the first ones
        // again.
        tracking.remember(1, [&b"0"[..]].into_iter());
        assert_eq!(tracking.drop_excess_keys(&clients), [(1, invalid(&["1500"], false))]);
        assert_eq!(tracking.totals(), [1, 1500, 1500, 0]);
    }

    #[test]
    fn by_both_versions() {
        let clients = Clients::default();
        let mut client = session(1, &clients);
        let written = |client: &Session, notice: &Notice| {
            let mut reply = Reply::new(client.resp3);
            notice.write(client, &mut reply);
            String::from_utf8(reply.take()).unwrap()
        };
        let (own, others) = (invalid(&["k"], false), invalid(&["k"], true));
        assert_eq!(written(&client, &others), "");
        client.listens_to(crate::clients::pubsub::SubscriptionKind::Channel).insert(b"x".to_vec());
        assert_eq!(
            written(&client, &others),
            "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\nk\r\n"
        );
        assert_eq!(written(&client, &own), "");
        assert_eq!(written(&client, &Notice::RedirectBroken(7)), "");
        client.resp3 = true;
        assert_eq!(written(&client, &own), ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n");
        let all = Notice::Invalid { keys: None, redirected: true };
        assert_eq!(written(&client, &all), ">2\r\n$10\r\ninvalidate\r\n_\r\n");
        assert_eq!(
            written(&client, &Notice::RedirectBroken(7)),
            ">2\r\n$21\r\ntracking-redir-broken\r\n:7\r\n"
        );
    }
}
