//! What a command may touch.

use std::collections::HashMap;

use indexmap::IndexSet;
use pheap::{P, Shards, Txn, View};

use super::{Args, Command, Keys};
use crate::clients::client::Session;
use crate::clients::pubsub::{Listener, push};
use crate::clients::tracking::Stale;
use crate::clients::waiting::Signal;
use crate::connections::mailbox::Parcel;
use crate::data::{Change, Db, Shard, Store};
use crate::server::Server;

/// What a command may touch.
pub struct Cx<'c> {
    /// What all clients have in common.
    pub server: &'c Server,
    /// Who asks.
    pub session: &'c mut Session,
    /// The time, in milliseconds since 1970. It stands still in a transaction.
    pub clock: i64,
    /// Keys have expired whose time came until then: that is `clock`, but for what a master sends. For that, no key has expired, because the master says so when one has.
    pub now: i64,
    /// Whether it may wait for a key. It may not in a transaction, nor in a script.
    pub may_block: bool,
    /// What others are to be told, once the command's transaction has been committed.
    pub effects: &'c mut Effects,
    /// The shards that the command's keys are in.
    pub keyspace: &'c mut dyn Keyspace,
    /// Who serves other clients while a script does not come to its end.
    pub meanwhile: &'c mut dyn Meanwhile,
}

/// Who serves other clients while a script does not come to its end.
pub trait Meanwhile {
    /// Serves those who wait for something now.
    fn serve_others(&mut self);
}

/// What others are to be told of a command.
#[derive(Debug, Default)]
pub struct Effects {
    /// Keys that were written to, and that somebody waits for.
    pub signals: IndexSet<Signal>,
    /// Messages to clients, in the order in which they are sent.
    pub messages: Vec<(u64, Vec<u8>)>,
    /// Bytes of messages of channels to each client.
    told: HashMap<u64, u64>,
    /// Changes, as `rdb_changes_since_last_save` counts them.
    pub dirty: u64,
    /// Copies of keys that are to be thrown away. They stay if the command fails: who has a copy is told once, and no harm is done if that was needless.
    pub stale: Stale,
}

impl Effects {
    /// How much there is.
    pub fn mark(&self) -> (usize, usize, u64) {
        (self.signals.len(), self.messages.len(), self.dirty)
    }

    /// Sends a message of a channel. A client gets no more of them, in one request, than the hard limit of its output: with the
    /// message that reaches the limit it will be disconnected.
    pub fn send(&mut self, server: &Server, to: Listener, parts: &[&[u8]]) {
        let most = server.limits.messages.get().hard;
        let told = self.told.entry(to.client).or_default();
        if most == 0 || *told < most {
            let bytes = push(to.resp3, parts);
            *told += bytes.len() as u64;
            self.messages.push((to.client, bytes));
        }
    }

    /// Notes that the clients that wait for a key, if there are any, must look at it again.
    pub fn signal(&mut self, server: &Server, db: usize, key: &[u8]) {
        // A client that begins to wait later looks at the key itself, when this transaction has ended.
        if server.waiting.has(db, key) {
            self.signals.insert(Signal { db, key: key.to_vec() });
        }
    }

    /// Clients that watch a key, or have copies of it, are told that it was written to by a client (0: by nobody).
    pub fn modified(&mut self, server: &Server, by: u64, db: usize, key: &[u8]) {
        server.watched.touch(db, key);
        if server.tracking.is_wanted() {
            server.tracking.changed(&server.clients, by, key, &mut self.stale);
        }
    }

    /// Sends a keyspace notification to whom it concerns.
    pub fn notify(&mut self, server: &Server, event: (usize, u8, &str, &[u8])) {
        server.notify(event, &mut |to, parts| self.send(server, to, parts));
    }

    /// What is sent to others, after commands of a client (0: of nobody).
    pub fn parcels(&mut self, server: &Server, by: u64) -> Vec<(u64, Parcel)> {
        let Stale { notices, changed, .. } = &mut self.stale;
        let broadcast = server.tracking.broadcast(&server.clients, by, changed);
        let notices = std::mem::take(notices).into_iter().map(|(to, notice)| (to, Parcel::Notice(notice)));
        let messages = self.messages.drain(..).map(|(to, bytes)| (to, Parcel::Bytes(bytes)));
        let broadcast = broadcast.into_iter().map(|(to, notice)| (to, Parcel::Notice(notice)));
        notices.chain(messages).chain(broadcast).collect()
    }

    /// Forgets what has come since [`mark`](Self::mark).
    pub fn go_back(&mut self, (signals, messages, dirty): (usize, usize, u64)) {
        self.signals.truncate(signals);
        if self.messages.len() > messages {
            self.messages.truncate(messages);
            self.told.clear();
            for (to, bytes) in &self.messages {
                *self.told.entry(*to).or_default() += bytes.len() as u64;
            }
        }
        self.dirty = dirty;
    }
}

impl Cx<'_> {
    /// Looks at the shard of a key, in the client's database.
    pub fn read<R>(&mut self, key: &[u8], f: impl for<'r> FnOnce(&View<'r>, &Db<'r>) -> R) -> R {
        let (shard, db) = (self.shard_of(key), self.session.db);
        self.read_shard(shard, |view, dbs| f(view, &view[dbs.at(db)]))
    }

    /// Changes the shard of a key, in the client's database. Whoever wants to know that a key is new is told if it is.
    pub fn write<R>(&mut self, key: &[u8], f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, Db<'r>>) -> R) -> R {
        let (shard, db, now) = (self.shard_of(key), self.session.db, self.now);
        if !self.server.wants(b'n') {
            return self.write_shard(shard, |tx, dbs| f(tx, dbs.at(db)));
        }
        let (result, is_new) = self.write_shard(shard, |tx, dbs| {
            let was_there = tx[dbs.at(db)].get(tx, key, now).is_some();
            let result = f(tx, dbs.at(db));
            (result, !was_there && tx[dbs.at(db)].get(tx, key, now).is_some())
        });
        if is_new {
            self.notify(b'n', "new", key);
        }
        result
    }

    /// Looks at all databases of a shard.
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

    /// Changes all databases of a shard.
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

    /// Removes a key, if it is there, and says so. Whether it was.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        let is_there = self.has(key);
        if is_there {
            self.write(key, |tx, db| _ = db.remove(tx, key));
            self.touched(b'g', "del", key);
        }
        is_there
    }

    /// The shard that a key is in: the one that is locked, if there is only one, for the command has said
    /// so.
    pub(super) fn shard_of(&self, key: &[u8]) -> usize {
        self.keyspace.only().unwrap_or_else(|| self.store().shard_of(key))
    }

    /// The heap's shards.
    pub fn store(&self) -> &Store {
        &self.server.store
    }

    /// A key of the client's database was written to: clients that watch it are told, those that wait for it go on, and who listens gets a keyspace notification, of this class
    /// (a letter of `notify-keyspace-events`) and name.
    pub fn touched(&mut self, class: u8, event: &str, key: &[u8]) {
        let db = self.session.db;
        self.changed(db, key);
        self.notify(class, event, key);
    }

    /// The same for so many changes at once. Nothing has happened if there are none.
    pub fn touched_often(&mut self, class: u8, event: &str, key: &[u8], changes: u64) {
        if changes > 0 {
            self.touched(class, event, key);
            self.effects.dirty += changes - 1;
        }
    }

    /// A key of some database was written to: clients that watch it, or have copies of it, are told, and those that wait for it go on.
    pub fn changed(&mut self, db: usize, key: &[u8]) {
        self.effects.dirty += 1;
        self.modified(db, key);
        self.effects.signal(self.server, db, key);
    }

    /// Clients that watch a key, or have copies of it, are told that it was written to.
    pub fn modified(&mut self, db: usize, key: &[u8]) {
        self.effects.modified(self.server, self.session.id, db, key);
    }

    /// All keys were removed, of this database or of all, which were in these shards. Copies of keys know nothing of databases.
    pub fn flushed(&mut self, shards: &[usize]) {
        let server = self.server;
        server.memory.flush(shards);
        if server.tracking.is_wanted() {
            server.tracking.flushed(&server.clients, self.session.id, &mut self.effects.stale);
        }
    }

    /// Lets those look at a key again who wait for it.
    pub fn wake(&mut self, key: &[u8]) {
        self.effects.signal(self.server, self.session.db, key);
    }

    /// A keyspace notification about something that is no change of the value.
    pub fn notify(&mut self, class: u8, event: &str, key: &[u8]) {
        self.notify_in(self.session.db, class, event, key);
    }

    /// The same of some database.
    pub fn notify_in(&mut self, db: usize, class: u8, event: &str, key: &[u8]) {
        self.effects.notify(self.server, (db, class, event, key));
    }
}

/// Calls `f` with the number of each shard that a command touches, until that is false. Whether it never was.
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

/// Shards, locked for as long as a command runs.
pub trait Keyspace {
    /// The shard, if there is only one.
    fn only(&self) -> Option<usize> {
        None
    }

    /// Whether a shard is among them.
    fn has(&self, shard: usize) -> bool {
        self.only() == Some(shard)
    }

    /// Looks at a shard: calls `f` once.
    fn read(&mut self, shard: usize, f: &mut dyn for<'r> FnMut(&View<'r>, P<'r, Shard<'r>>));

    /// Changes a shard: calls `f` once.
    fn write(&mut self, _: usize, _: &mut dyn for<'r> FnMut(&mut Txn<'r>, P<'r, Shard<'r>>)) {
        panic!("the command says that it changes nothing");
    }

    /// Whether shards may be changed.
    fn can_write(&self) -> bool {
        true
    }
}

/// No shard.
pub struct Nothing;

impl Keyspace for Nothing {
    fn read(&mut self, _: usize, _: &mut dyn for<'r> FnMut(&View<'r>, P<'r, Shard<'r>>)) {
        panic!("the command says that it has no keys");
    }
}

/// A shard that is read.
pub struct OneRead<'v, 'r> {
    /// Its number.
    pub shard: usize,
    /// The view of it.
    pub view: &'v View<'r>,
    /// Its root.
    pub root: P<'r, Shard<'r>>,
}

impl Keyspace for OneRead<'_, '_> {
    fn only(&self) -> Option<usize> {
        Some(self.shard)
    }

    fn read(&mut self, _: usize, f: &mut dyn for<'r> FnMut(&View<'r>, P<'r, Shard<'r>>)) {
        f(self.view, self.root);
    }

    fn can_write(&self) -> bool {
        false
    }
}

/// A shard that may be changed.
pub struct OneTxn<'t, 'r> {
    /// Its number.
    pub shard: usize,
    /// The transaction.
    pub tx: &'t mut Txn<'r>,
    /// Its root.
    pub root: P<'r, Shard<'r>>,
}

impl Keyspace for OneTxn<'_, '_> {
    fn only(&self) -> Option<usize> {
        Some(self.shard)
    }

    fn read(&mut self, _: usize, f: &mut dyn for<'r> FnMut(&View<'r>, P<'r, Shard<'r>>)) {
        f(self.tx, self.root);
    }

    fn write(&mut self, _: usize, f: &mut dyn for<'r> FnMut(&mut Txn<'r>, P<'r, Shard<'r>>)) {
        f(self.tx, self.root);
    }
}

/// Several shards that may be changed.
pub struct Several<'t, 'a> {
    /// The transaction.
    pub shards: &'t mut Shards<'a, Shard<'static>>,
    /// The number of each shard, in ascending order.
    pub numbers: &'t [usize],
}

impl Several<'_, '_> {
    fn index(&self, shard: usize) -> usize {
        self.numbers.binary_search(&shard).expect("the command has said which keys it touches")
    }
}

impl Keyspace for Several<'_, '_> {
    fn has(&self, shard: usize) -> bool {
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
