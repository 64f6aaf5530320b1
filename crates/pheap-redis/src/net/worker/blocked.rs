//! Clients that wait for keys, until the keys are written to or the timeout ends.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use super::WorkerState;
use crate::clients::waiting::{Signal, Waiter, Wakeup};
use crate::command::{Block, Effects};
use crate::connections::mailbox::Message;
use crate::execute::{Execution, Output};
use crate::net::connection::{Blocked, Connection};
use crate::resp::input::Words;
use crate::server::now;

impl WorkerState<'_> {
    /// Makes a client wait for keys. The keys may have changed since its command ran, so it tries the command
    /// again.
    pub(super) fn block(
        &mut self,
        connection: &mut Connection,
        block: Block,
        words: Vec<Vec<u8>>,
        signals: &mut VecDeque<Signal>,
    ) {
        let db = connection.session.db;
        let waiter =
            Waiter { client: connection.session.id, thread: self.number, needs_key: block.needs_keys };
        let until = block.timeout.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
        let words = block.instead.clone().unwrap_or(words);
        let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
        // If a key is given twice, its first position counts.
        block.keys.clone().for_each(|at| _ = places.entry(words[at].clone()).or_insert(at));
        places.keys().for_each(|key| self.server.waiting.add(db, key, waiter));
        if let Some(until) = until {
            self.timeouts.insert((until, connection.session.id));
            self.server.stats.timed.fetch_add(1, Relaxed);
        }
        connection.session.profile.is_blocked.store(true, SeqCst);
        connection.blocked = Some(Blocked { words, block, places, until, db, seen: Vec::new() });
        // A client whose command was answered at once is not counted as blocked.
        if !self.try_again(connection, None, signals) {
            self.server.stats.blocked.fetch_add(1, Relaxed);
        }
    }

    /// Runs the command of a blocked client again. If the client waits for the key `woken_by`, the command
    /// gets only that key. Returns whether the command was answered.
    fn try_again(
        &mut self,
        connection: &mut Connection,
        woken_by: Option<&[u8]>,
        signals: &mut VecDeque<Signal>,
    ) -> bool {
        let Some(blocked) = connection.blocked.take() else { return false };
        let (mut effects, mut commits, mut counted) = (Effects::default(), Vec::new(), Vec::new());
        connection.limit_reply(&self.server.options);
        let Connection { session, reply, .. } = connection;
        let output = Output { reply, effects: &mut effects, commits: &mut commits, counted: &mut counted };
        let (server, thread, clock) = (self.server, self.number, Instant::now());
        let execution = Execution { server, session, output, thread, clock, meanwhile: self };
        let words: Words<'_> = match woken_by.and_then(|key| blocked.places.get(key)) {
            Some(&at) => blocked.block.with_key(&blocked.words, at),
            None => blocked.words.iter().map(Vec::as_slice).collect(),
        };
        let still = { execution }.retry(&words);
        drop(words);
        self.syncs.count_writes(&mut counted);
        if still.is_err() {
            // A script is slow. The client looks at its keys again when the script has ended.
            let db = connection.session.db;
            let signals = blocked.places.keys().map(|key| Signal { db, key: key.clone() }).collect();
            self.postponed.push(Message::Wake(Wakeup { signals, ..Wakeup::default() }));
            connection.blocked = Some(blocked);
            return false;
        }
        if still != Ok(None) {
            let seen = self.note_commits(commits);
            connection.blocked = Some(Blocked { seen, ..blocked });
            return false;
        }
        connection.session.profile.is_blocked.store(false, SeqCst);
        self.wait_no_more(connection.session.id, &blocked);
        self.leave(connection, effects, commits, signals);
        self.ready.insert(connection.session.id);
        true
    }

    /// Removes a waiting client from the counts, from the keys for which it waits, and from the timeouts.
    pub(super) fn unblock(&mut self, client: u64, blocked: &Blocked) {
        self.server.stats.blocked.fetch_sub(1, Relaxed);
        self.wait_no_more(client, blocked);
    }

    fn wait_no_more(&mut self, client: u64, blocked: &Blocked) {
        let waiter = Waiter { client, thread: self.number, needs_key: blocked.block.needs_keys };
        blocked.places.keys().for_each(|key| self.server.waiting.remove(blocked.db, key, waiter));
        if let Some(until) = blocked.until {
            self.timeouts.remove(&(until, client));
            self.server.stats.timed.fetch_sub(1, Relaxed);
        }
    }

    /// Runs the command of a client again if it waits for this key. Returns whether it still waits for the
    /// key.
    fn retry(&mut self, client: u64, by: &Signal, signals: &mut VecDeque<Signal>) -> bool {
        let Some(mut connection) = self.connections.remove(&client) else { return false };
        let waits = |connection: &Connection| {
            connection
                .blocked
                .as_ref()
                .is_some_and(|blocked| blocked.db == by.db && blocked.places.contains_key(&by.key))
        };
        let was_waiting = waits(&connection);
        let is_served = was_waiting && self.try_again(&mut connection, Some(&by.key), signals);
        if is_served {
            self.server.stats.blocked.fetch_sub(1, Relaxed);
        }
        self.connections.insert(client, connection);
        was_waiting && !is_served
    }

    /// Runs the commands of clients that wait for the written keys, in the order in which the clients began
    /// to wait, and of clients that wait for the writes of these commands. If all have run, returns the
    /// writer, if `wake` has one. If a client of another thread is next, passes the rest to that thread and
    /// returns None.
    pub(super) fn wake_waiters(&mut self, mut wake: Wakeup) -> Option<Waiter> {
        loop {
            while let (Some(key), Some(&waiter)) = (&wake.key, wake.waiters.front()) {
                if waiter.thread != self.number {
                    self.server.threads[waiter.thread].post(Message::Wake(wake));
                    return None;
                }
                wake.waiters.pop_front();
                let waits_on = self.retry(waiter.client, key, &mut wake.signals);
                // The key is missing, so other clients that wait for an element would also find nothing.
                // Clients that need the key to exist still have to get their error.
                if waits_on && !self.exists(key) {
                    wake.waiters.retain(|waiter| waiter.needs_key);
                }
            }
            let Some(next) = wake.signals.pop_front() else { return wake.writer };
            wake.waiters = self.server.waiting.for_key(next.db, &next.key);
            wake.key = Some(next);
        }
    }

    /// Lets a writer go on, after all clients that wait for its keys have looked.
    pub(super) fn release(&mut self, writer: Waiter) {
        if writer.thread != self.number {
            let wake = Wakeup { writer: Some(writer), ..Wakeup::default() };
            return self.server.threads[writer.thread].post(Message::Wake(wake));
        }
        if let Some(connection) = self.connections.get_mut(&writer.client) {
            connection.is_held = false;
            self.ready.insert(writer.client);
        }
    }

    fn exists(&self, Signal { db, key }: &Signal) -> bool {
        let (store, server) = (&self.server.store, self.server);
        let Ok(_passed) = server.gates.pass([store.shard_of(key)], false, &server.scripts) else {
            return true;
        };
        let exists = store.shards()[store.shard_of(key)]
            .read_deferred(|view, root| view[view[root].dbs.at(view, *db)].get(view, key, now()).is_some());
        // An error is ignored: if the heap has failed, the commands of the waiting clients report it.
        exists.map_or(true, |(exists, _)| exists)
    }

    /// Replies to clients whose timeout has ended, and makes paused clients ready when the pause has ended.
    pub(super) fn end_timed_out_waits(&mut self) {
        while let Some(&(at, client)) = self.timeouts.first() {
            if at > Instant::now() {
                break;
            }
            self.timeouts.pop_first();
            self.end_wait(client, false);
        }
        if !self.paused.is_empty() && self.server.paused().is_none() {
            let clients = std::mem::take(&mut self.paused);
            self.server.stats.blocked.fetch_sub(clients.len(), Relaxed);
            self.ready.extend(clients);
        }
    }

    /// Replies to a waiting client as if its timeout had ended, or with an error. A client that does not wait
    /// gets no reply.
    pub(super) fn end_wait(&mut self, client: u64, with_error: bool) {
        let Some(mut connection) = self.connections.remove(&client) else { return };
        if let Some(blocked) = connection.blocked.take() {
            connection.session.profile.is_blocked.store(false, SeqCst);
            self.unblock(client, &blocked);
            if with_error {
                connection.reply.error("UNBLOCKED client unblocked via CLIENT UNBLOCK");
                self.server.count_error("UNBLOCKED");
            } else {
                connection.reply.null_array();
            }
            let bytes = connection.reply.take();
            connection.output.push(bytes, blocked.seen);
        }
        self.connections.insert(client, connection);
        self.ready.insert(client);
    }
}
