//! The context of a command: among others, the data that it may read and change.

use std::collections::HashMap;

use indexmap::IndexSet;
use pheap::{P, Shards, Txn, View};

use super::{Args, Command, Keys};
use crate::clients::OUTPUT_BUFFER;
use crate::clients::client::Session;
use crate::clients::pubsub::encode_push;
use crate::clients::tracking::Stale;
use crate::clients::waiting::Signal;
use crate::connections::mailbox::Parcel;
use crate::data::{Change, Db, Shard, Store};
use crate::server::Server;

/// The context of a command.
pub struct Cx<'c> {
    /// State shared by all clients.
    pub server: &'c Server,
    /// The client that sent the command, or the script that runs it.
    pub session: &'c mut Session,
    /// The time, in milliseconds since 1970. It does not change during a transaction.
    pub clock: i64,
    /// Keys whose deadlines are not after this time count as expired. Equal to `clock`, except for commands
    /// of a master: then it is `i64::MIN`, so that no key counts as expired, because the master sends a
    /// deletion when one expires.
    pub now: i64,
    /// Whether the command may wait for a key: not in a transaction, not in a script, and not in the stream
    /// of a master.
    pub may_block: bool,
    /// Effects on clients, applied after the command's transaction.
    pub effects: &'c mut Effects,
    /// The shards that are locked for the command.
    pub keyspace: &'c mut dyn Keyspace,
    /// Serves other clients while a script is slow.
    pub meanwhile: &'c mut dyn Meanwhile,
}

/// Serves other clients while a script is slow.
pub trait Meanwhile {
    /// Serves the clients of this thread that have something to do, once.
    fn serve_others(&mut self);
}

/// Effects of commands on clients, mostly on other clients than the one that sent the commands.
#[derive(Debug, Default)]
pub struct Effects {
    /// Keys at which the clients that wait for them must look again.
    pub signals: IndexSet<Signal>,
    /// Messages to clients (by id), in sending order.
    pub messages: Vec<(u64, Vec<u8>)>,
    /// Bytes of the messages added for each client, by id. They limit further messages, see
    /// [`send`](Self::send).
    told: HashMap<u64, u64>,
    /// Number of changes, for `rdb_changes_since_last_save`.
    pub dirty: u64,
    /// Invalidation notices. They stay if the command fails: the readers of the key are forgotten already,
    /// and a needless notice does no harm.
    pub stale: Stale,
}

impl Effects {
    /// Returns the present numbers of signals, messages and changes, for
    /// [`roll_back_to`](Self::roll_back_to).
    pub fn savepoint(&self) -> (usize, usize, u64) {
        (self.signals.len(), self.messages.len(), self.dirty)
    }

    /// Adds a message of a channel for client `to`. Drops the message if the messages added for this client
    /// before exceed the hard limit of a subscriber's output. They get the client disconnected, and further
    /// ones must not exhaust the memory.
    pub fn send(&mut self, server: &Server, to: u64, parts: &[&[u8]]) {
        self.send_within(server.options.messages.get().hard, to, || encode_push(parts));
    }

    /// Adds a line for each client that uses `MONITOR`, up to the hard limit of a client's output.
    pub fn send_to_monitors(&mut self, server: &Server, line: &str) {
        let hard = server.options.output.get().hard;
        for client in server.monitors() {
            self.send_within(hard, client, || format!("+{line}\r\n").into_bytes());
        }
    }

    fn send_within(&mut self, hard: u64, to: u64, message: impl FnOnce() -> Vec<u8>) {
        let told = self.told.entry(to).or_default();
        if hard == 0 || told.saturating_sub(OUTPUT_BUFFER as u64) <= hard {
            let bytes = message();
            *told += bytes.len() as u64;
            self.messages.push((to, bytes));
        }
    }

    /// Records that the clients that wait for a key, if there are any, must look at the key again.
    pub fn signal(&mut self, server: &Server, db: usize, key: &[u8]) {
        // A client that begins to wait later needs no signal, because it then looks at the key again.
        if server.waiting.has_waiters(db, key) {
            self.signals.insert(Signal { db, key: key.to_vec() });
        }
    }

    /// Records that client `by` (0: none) has changed a key, for the clients that watch the key or may have
    /// it cached.
    pub fn modified(&mut self, server: &Server, by: u64, db: usize, key: &[u8]) {
        server.watched.mark_changed(db, key);
        if server.tracking.is_wanted() {
            server.tracking.changed(&server.clients, by, key, &mut self.stale);
        }
    }

    /// Adds a keyspace notification for the clients that listen for it.
    pub fn notify(&mut self, server: &Server, event: (usize, u8, &str, &[u8])) {
        server.notify(event, &mut |to, parts| self.send(server, to, parts));
    }

    /// Takes the notices and messages to clients, after commands of client `by` (0: none).
    pub fn take_parcels(&mut self, server: &Server, by: u64) -> Vec<(u64, Parcel)> {
        let Stale { notices, changed, .. } = &mut self.stale;
        let broadcast = server.tracking.broadcast(&server.clients, by, changed);
        let notices = std::mem::take(notices).into_iter().map(|(to, notice)| (to, Parcel::Notice(notice)));
        let messages = self.messages.drain(..).map(|(to, bytes)| (to, Parcel::Bytes(bytes)));
        let broadcast = broadcast.into_iter().map(|(to, notice)| (to, Parcel::Notice(notice)));
        notices.chain(messages).chain(broadcast).collect()
    }

    /// Removes the effects added since [`savepoint`](Self::savepoint), except invalidation notices.
    pub fn roll_back_to(&mut self, (signals, messages, dirty): (usize, usize, u64)) {
        self.signals.truncate(signals);
        let kept = messages.min(self.messages.len());
        for (to, bytes) in self.messages.drain(kept..) {
            *self.told.entry(to).or_default() -= bytes.len() as u64;
        }
        self.dirty = dirty;
    }
}

impl Cx<'_> {
    /// Calls `f` with the client's database in the shard of a key, for reading.
    pub fn read<R>(&mut self, key: &[u8], f: impl for<'r> FnOnce(&View<'r>, &Db<'r>) -> R) -> R {
        let (shard, db) = (self.shard_of(key), self.session.db);
        self.read_shard(shard, |view, dbs| f(view, &view[dbs.at(view, db)]))
    }

    /// Calls `f` with the client's database in the shard of a key, for changes. Sends the notification `new`
    /// if the key is new and the notification is wanted.
    pub fn write<R>(&mut self, key: &[u8], f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, Db<'r>>) -> R) -> R {
        let (shard, db, now) = (self.shard_of(key), self.session.db, self.now);
        if !self.server.wants_notification(b'n') {
            return self.write_shard(shard, |tx, dbs| f(tx, dbs.at(tx, db)));
        }
        let (result, is_new) = self.write_shard(shard, |tx, dbs| {
            let was_there = tx[dbs.at(tx, db)].get(tx, key, now).is_some();
            let result = f(tx, dbs.at(tx, db));
            (result, !was_there && tx[dbs.at(tx, db)].get(tx, key, now).is_some())
        });
        if is_new {
            self.notify(b'n', "new", key);
        }
        result
    }

    /// Calls `f` with all databases of a shard, for reading.
    pub fn read_shard<R>(
        &mut self,
        shard: usize,
        f: impl for<'r> FnOnce(&View<'r>, P<'r, [Db<'r>]>) -> R,
    ) -> R {
        let (mut f, mut result) = (Some(f), None);
        self.keyspace.read(shard, &mut |view, root| {
            result = f.take().map(|f| f(view, view[root].dbs));
        });
        result.expect("a keyspace calls the function once")
    }

    /// Calls `f` with all databases of a shard, for changes.
    pub fn write_shard<R>(
        &mut self,
        shard: usize,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, [Db<'r>]>) -> R,
    ) -> R {
        let (mut f, mut result) = (Some(f), None);
        self.keyspace.write(shard, &mut |tx, root| {
            let dbs = tx[root].dbs;
            result = f.take().map(|f| f(tx, dbs));
        });
        result.expect("a keyspace calls the function once")
    }

    /// Removes a key and records the deletion. Returns whether the key existed.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let is_there = self.key_exists(key);
        if is_there {
            self.write(key, |tx, db| _ = db.remove(tx, key));
            self.touched(b'g', "del", key);
        }
        is_there
    }

    /// Returns the shard of a key. If only one shard is locked, it is taken to contain all keys of the
    /// command.
    pub(super) fn shard_of(&self, key: &[u8]) -> usize {
        self.keyspace.only_shard().unwrap_or_else(|| self.store().shard_of(key))
    }

    /// Returns the store, which contains all shards.
    pub fn store(&self) -> &Store {
        &self.server.store
    }

    /// Records a change of a key in the client's database, and sends a keyspace notification. `class` is a
    /// letter of `notify-keyspace-events`.
    pub fn touched(&mut self, class: u8, event: &str, key: &[u8]) {
        let db = self.session.db;
        self.changed(db, key);
        self.notify(class, event, key);
    }

    /// Records a number of changes of a key as [`touched`](Self::touched) does. Does nothing if `changes` is
    /// 0.
    pub fn touched_often(&mut self, class: u8, event: &str, key: &[u8], changes: u64) {
        if changes > 0 {
            self.touched(class, event, key);
            self.effects.dirty += changes - 1;
        }
    }

    /// Counts a change of a key, and records it for the clients that watch the key, have it cached or wait
    /// for it.
    pub fn changed(&mut self, db: usize, key: &[u8]) {
        self.effects.dirty += 1;
        self.modified(db, key);
        self.effects.signal(self.server, db, key);
    }

    /// Records a change of a key for the clients that watch it or have it cached.
    pub fn modified(&mut self, db: usize, key: &[u8]) {
        self.effects.modified(self.server, self.session.id, db, key);
    }

    /// Records that all keys of one or all databases were removed from these shards. Invalidates all keys
    /// that clients have cached, because they are not recorded by database.
    pub fn flushed(&mut self, shards: &[usize]) {
        let server = self.server;
        server.memory.flush(shards);
        if server.tracking.is_wanted() {
            server.tracking.flushed(&server.clients, self.session.id, &mut self.effects.stale);
        }
    }

    /// Records that the clients that wait for a key of the selected database must look at the key again.
    pub fn wake(&mut self, key: &[u8]) {
        self.effects.signal(self.server, self.session.db, key);
    }

    /// Sends a keyspace notification for a key in the client's database, without recording a change.
    pub fn notify(&mut self, class: u8, event: &str, key: &[u8]) {
        self.notify_in(self.session.db, class, event, key);
    }

    /// Sends a keyspace notification for a key in some database, without recording a change.
    pub fn notify_in(&mut self, db: usize, class: u8, event: &str, key: &[u8]) {
        self.effects.notify(self.server, (db, class, event, key));
    }
}

/// Calls `f` with the number of each shard that a command names, until `f` returns false. Returns whether `f`
/// never returned false. The same shard may come several times. A script names the shards of its declared
/// keys, and a command with [`Keys::From`] only the first shard that it needs.
pub fn shards_of(
    store: &Store,
    command: &Command,
    words: &Args<'_>,
    mut f: impl FnMut(usize) -> bool,
) -> bool {
    let shards = store.shards().len();
    match command.keys {
        Keys::None => true,
        Keys::Everything => (0..shards).all(f),
        Keys::Heap => (0..shards + 2).all(f),
        Keys::Perhaps { everything, .. } if everything(words) => (0..shards).all(f),
        Keys::From(first) => f(first(words, shards)),
        Keys::Libraries => f(shards),
        Keys::Range(1, 1, _) => f(store.shard_of(words[1])),
        _ => command.keys(words).into_iter().all(|at| f(store.shard_of(words[at]))),
    }
}

/// The shards that are locked while a command runs.
pub trait Keyspace {
    /// Returns the number of the shard if this kind of keyspace always has exactly one shard.
    fn only_shard(&self) -> Option<usize> {
        None
    }

    /// Returns whether a shard is locked.
    fn has_shard(&self, shard: usize) -> bool {
        self.only_shard() == Some(shard)
    }

    /// Calls `f` once with a shard, for reading.
    ///
    /// # Panics
    /// If this kind of keyspace may have several shards or none, and the shard is not among them.
    fn read(&mut self, shard: usize, f: &mut dyn for<'r> FnMut(&View<'r>, P<'r, Shard<'r>>));

    /// Calls `f` once with a shard, for changes.
    ///
    /// # Panics
    /// If the shards may not be changed, and as for [`read`](Self::read).
    fn write(&mut self, _: usize, _: &mut dyn for<'r> FnMut(&mut Txn<'r>, P<'r, Shard<'r>>)) {
        panic!("the command says that it changes nothing");
    }

    /// Returns whether the shards may be changed.
    fn can_write(&self) -> bool {
        true
    }
}

/// The keyspace of a command that locks no shards.
pub struct NoShards;

impl Keyspace for NoShards {
    fn read(&mut self, _: usize, _: &mut dyn for<'r> FnMut(&View<'r>, P<'r, Shard<'r>>)) {
        panic!("the command says that it has no keys");
    }
}

/// The keyspace of a command that has locked one shard for reading.
pub struct OneRead<'v, 'r> {
    /// Number of the shard.
    pub shard: usize,
    /// View of the shard.
    pub view: &'v View<'r>,
    /// Root of the shard.
    pub root: P<'r, Shard<'r>>,
}

impl Keyspace for OneRead<'_, '_> {
    fn only_shard(&self) -> Option<usize> {
        Some(self.shard)
    }

    fn read(&mut self, _: usize, f: &mut dyn for<'r> FnMut(&View<'r>, P<'r, Shard<'r>>)) {
        f(self.view, self.root);
    }

    fn can_write(&self) -> bool {
        false
    }
}

/// The keyspace of a command that has locked one shard for changes.
pub struct OneTxn<'t, 'r> {
    /// Number of the shard.
    pub shard: usize,
    /// The transaction.
    pub tx: &'t mut Txn<'r>,
    /// Root of the shard.
    pub root: P<'r, Shard<'r>>,
}

impl Keyspace for OneTxn<'_, '_> {
    fn only_shard(&self) -> Option<usize> {
        Some(self.shard)
    }

    fn read(&mut self, _: usize, f: &mut dyn for<'r> FnMut(&View<'r>, P<'r, Shard<'r>>)) {
        f(self.tx, self.root);
    }

    fn write(&mut self, _: usize, f: &mut dyn for<'r> FnMut(&mut Txn<'r>, P<'r, Shard<'r>>)) {
        f(self.tx, self.root);
    }
}

/// The keyspace of a command that has locked several shards for changes.
pub struct SeveralShards<'t, 'a> {
    /// The transaction over the shards.
    pub shards: &'t mut Shards<'a, Shard<'static>>,
    /// Numbers of the shards, in ascending order.
    pub numbers: &'t [usize],
}

impl SeveralShards<'_, '_> {
    fn index(&self, shard: usize) -> usize {
        self.numbers.binary_search(&shard).expect("the command has said which keys it touches")
    }
}

impl Keyspace for SeveralShards<'_, '_> {
    fn has_shard(&self, shard: usize) -> bool {
        self.numbers.binary_search(&shard).is_ok()
    }

    fn read(&mut self, shard: usize, f: &mut dyn for<'r> FnMut(&View<'r>, P<'r, Shard<'r>>)) {
        let index = self.index(shard);
        self.shards.with(index, |tx, root| f(tx, root));
    }

    fn write(&mut self, shard: usize, f: &mut dyn for<'r> FnMut(&mut Txn<'r>, P<'r, Shard<'r>>)) {
        let index = self.index(shard);
        self.shards.with(index, |tx, root| f(tx, root));
    }
}
