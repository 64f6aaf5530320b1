//! A thread that serves clients: reads what they send, runs it, and sends what is to be sent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::task::Waker;
use std::time::{Duration, Instant};

use indexmap::IndexSet;
use mio::{Events, Interest, Poll, Token};
use parking_lot::Mutex;

use super::connection::{Blocked, Connection};
use super::listener::Listener;
use super::output::{Output as Outgoing, Paused};
use crate::client::Session;
use crate::clients::{Profile, State};
use crate::command::{Block, Effects, Meanwhile};
use crate::execute::{Execution, Output, Stop};
use crate::expire::Expiry;
use crate::mailbox::{Mailbox, Message, Parcel};
use crate::resp::Reply;
use crate::server::{Server, now};
use crate::stream::Stream;
use crate::waiting::{Signal, Waiter, Wakeup};

/// How long a thread sleeps at most.
const TICK: Duration = Duration::from_millis(100);

/// How long keys are removed at most, in so much time, whose time has come.
const EXPIRY: Duration = Duration::from_millis(25);

const MAILBOX: Token = Token(0);
/// Listeners have the tokens from here on.
const LISTENERS: usize = 1;
/// Clients have the tokens from here on, by their numbers.
const CLIENTS: usize = 1 << 10;

/// A thread that serves clients.
pub struct Worker {
    poll: Poll,
    mailbox: Arc<Mailbox>,
}

impl Worker {
    /// One that has no clients yet.
    ///
    /// # Errors
    /// If the system cannot make it.
    pub fn new() -> io::Result<Worker> {
        let poll = Poll::new()?;
        let mailbox = Arc::new(Mailbox::new(poll.registry(), MAILBOX)?);
        Ok(Worker { poll, mailbox })
    }

    /// Where to leave messages for it.
    pub fn mailbox(&self) -> Arc<Mailbox> {
        self.mailbox.clone()
    }

    /// Serves clients until the server is stopped. `number` is which of its threads this is. It accepts who connects to `listeners`.
    ///
    /// # Errors
    /// If the system refuses to tell what happens.
    pub fn run(self, server: &Server, number: usize, mut listeners: Vec<Listener>) -> io::Result<()> {
        for (i, listener) in listeners.iter_mut().enumerate() {
            listener.register(self.poll.registry(), Token(LISTENERS + i))?;
        }
        let waker = Waker::from(self.mailbox.clone());
        let Worker { poll, mailbox } = self;
        let turn = Turn {
            listeners,
            server,
            number,
            waker,
            poll,
            mailbox,
            connections: BTreeMap::new(),
            ready: IndexSet::new(),
            not_durable: IndexSet::new(),
            paused: BTreeSet::new(),
            timeouts: BTreeSet::new(),
            deaf: BTreeSet::new(),
            next_thread: 0,
            last_tick: Instant::now(),
            expiry: Expiry::default(),
            round: VecDeque::new(),
            is_meanwhile: false,
            missed: BTreeSet::new(),
            postponed: Vec::new(),
            left: Vec::new(),
        };
        turn.run()
    }
}

/// What a thread has.
struct Turn<'s> {
    server: &'s Server,
    number: usize,
    waker: Waker,
    poll: Poll,
    mailbox: Arc<Mailbox>,
    listeners: Vec<Listener>,
    /// In boxes, for they are taken out while they are served.
    connections: BTreeMap<u64, Box<Connection>>,
    /// Clients that something is to be done for, in the order in which that came up: who has sent something first is served first.
    ready: IndexSet<u64>,
    /// Clients whose replies wait for the disk.
    not_durable: IndexSet<u64>,
    /// Clients that are not served for some time.
    paused: BTreeSet<u64>,
    /// When clients give up that wait for keys.
    timeouts: BTreeSet<(Instant, u64)>,
    /// Listeners that could not accept a client.
    deaf: BTreeSet<usize>,
    /// The thread that gets the next client.
    next_thread: usize,
    last_tick: Instant,
    expiry: Expiry,
    /// Clients that are served just now, one after the other.
    round: VecDeque<u64>,
    /// A client's script is slow, and others are served meanwhile.
    is_meanwhile: bool,
    /// Clients that something has happened to while they were served.
    missed: BTreeSet<u64>,
    /// Messages that can be read only afterwards.
    postponed: Vec<Message>,
    /// Messages of clients that are gone, to others, which wait for the disk.
    left: Vec<Outgoing>,
}

impl Turn<'_> {
    fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        while !self.server.stopping.load(Acquire) {
            let waits = self.postponed.is_empty() || self.server.scripts.is_busy();
            let is_idle = self.ready.is_empty() && waits;
            let sleep = if is_idle { self.until_next() } else { Duration::ZERO };
            self.turn(&mut events, sleep)?;
            self.tick();
        }
        Ok(())
    }

    /// Waits until something is to be done, and does it.
    fn turn(&mut self, events: &mut Events, sleep: Duration) -> io::Result<()> {
        match self.poll.poll(events, Some(sleep)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &*events {
            match event.token() {
                MAILBOX => {}
                Token(token) if token < CLIENTS => self.accept(token - LISTENERS),
                Token(token) => {
                    let client = (token - CLIENTS) as u64;
                    if let Some(connection) = self.connections.get_mut(&client) {
                        connection.is_readable |= event.is_readable() || event.is_read_closed();
                        self.ready.insert(client);
                    } else if self.is_meanwhile {
                        self.missed.insert(client);
                    }
                }
            }
        }
        self.read_mail();
        self.send_left();
        self.serve();
        self.give_up();
        Ok(())
    }

    /// How long nothing is to be done.
    fn until_next(&self) -> Duration {
        let first =
            self.timeouts.first().map_or(TICK, |(at, _)| at.saturating_duration_since(Instant::now()));
        let paused =
            self.server.paused().map_or(TICK, |pause| pause.until.saturating_duration_since(Instant::now()));
        first.min(paused).min(TICK)
    }

    fn accept(&mut self, listener: usize) {
        loop {
            match self.listeners[listener].accept() {
                Ok(stream) => {
                    let thread = self.next_thread;
                    self.next_thread = (thread + 1) % self.server.threads.len();
                    if thread == self.number {
                        self.connect(stream);
                    } else {
                        self.server.threads[thread].post(Message::Connected(stream));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                // Too many files, or no memory. Nobody says when that is over.
                Err(_) => {
                    self.deaf.insert(listener);
                    return;
                }
            }
        }
    }

    fn connect(&mut self, mut stream: Stream) {
        let refuse = |mut stream: Stream, why: &str| {
            self.server.stats.rejected.fetch_add(1, Relaxed);
            let mut reply = Reply::new(false);
            reply.error(why);
            let _ = io::Write::write(&mut stream, &reply.take());
        };
        let config = self.server.config.read();
        let has_password = !config.text("requirepass").is_empty();
        if config.is("protected-mode") && !has_password && !stream.is_local() {
            return refuse(
                stream,
                "DENIED this server is in protected mode: it answers clients of other machines only if `requirepass` is set, or `protected-mode` is `no`",
            );
        }
        if self.server.clients.len() >= config.int("maxclients") as usize {
            return refuse(stream, "ERR max number of clients reached");
        }
        stream.prepare(config.int("tcp-keepalive") as u64);
        drop(config);
        let id = self.server.client_id();
        let token = Token(CLIENTS + id as usize);
        if self.poll.registry().register(&mut stream, token, Interest::READABLE | Interest::WRITABLE).is_err()
        {
            return;
        }
        self.server.stats.connections.fetch_add(1, Relaxed);
        let now = Instant::now();
        let profile = Arc::new(Profile {
            id,
            thread: self.number,
            addresses: stream.addresses(),
            descriptor: stream.descriptor(),
            is_unix: stream.is_unix(),
            since: now,
            is_blocked: AtomicBool::new(false),
            redirect_is_broken: AtomicBool::new(false),
            state: Mutex::new(State::new(now)),
        });
        self.server.clients.add(profile.clone());
        let connection = Connection::new(stream, Session::new(profile, !has_password));
        self.connections.insert(id, Box::new(connection));
        self.ready.insert(id);
    }

    fn read_mail(&mut self) {
        let postponed = if self.is_meanwhile { Vec::new() } else { std::mem::take(&mut self.postponed) };
        for message in postponed.into_iter().chain(self.mailbox.take()) {
            match message {
                // The client may be the one whose script is slow; and what it waits for is in a shard.
                Message::Send { .. } | Message::Wake(_) | Message::Unblock { .. } if self.is_meanwhile => {
                    self.postponed.push(message);
                }
                Message::Wake(_) if self.server.scripts.is_busy() => self.postponed.push(message),
                Message::Kill { client } if self.is_meanwhile && !self.connections.contains_key(&client) => {
                    self.postponed.push(message);
                }
                Message::Connected(stream) => self.connect(stream),
                Message::Send { client, parcel } => self.deliver(client, parcel),
                Message::Wake(wake) => {
                    if let Some(writer) = self.wake_waiters(wake) {
                        self.release(writer);
                    }
                }
                Message::Unblock { client, with_error } => self.let_go(client, with_error),
                Message::Kill { client } => {
                    if let Some(connection) = self.connections.remove(&client) {
                        self.disconnect(connection);
                    }
                }
            }
        }
        self.ready.append(&mut self.not_durable);
    }

    /// Something for a client that it has not asked for.
    fn deliver(&mut self, client: u64, parcel: Parcel) {
        if let Some(connection) = self.connections.get_mut(&client) {
            let bytes = match parcel {
                Parcel::Bytes(bytes) if !connection.session.wants(&bytes) => return,
                Parcel::Bytes(bytes) => bytes,
                Parcel::Notice(notice) => {
                    let mut reply = Reply::new(connection.session.resp3);
                    notice.write(&connection.session, &mut reply);
                    reply.take()
                }
            };
            connection.output.push(bytes, Vec::new(), Vec::new());
            connection.look_at_output(&self.server.limits);
            self.ready.insert(client);
        }
    }

    /// Does what is to be done for each client, once.
    fn serve(&mut self) {
        self.round.extend(self.ready.drain(..));
        while let Some(client) = self.round.pop_front() {
            let Some(mut connection) = self.connections.remove(&client) else { continue };
            match self.serve_one(&mut connection) {
                Ok(true) => {
                    if self.missed.remove(&client) {
                        connection.is_readable = true;
                        self.ready.insert(client);
                    }
                    self.connections.insert(client, connection);
                }
                Ok(false) | Err(_) => self.disconnect(connection),
            }
        }
    }

    /// Whether the connection stays.
    fn serve_one(&mut self, connection: &mut Connection) -> io::Result<bool> {
        let client = connection.session.id;
        if connection.is_over {
            return Ok(false);
        }
        if connection.is_held {
            return Ok(true);
        }
        if connection.is_readable && !connection.session.closing {
            connection.read()?;
            connection.look_at_input(&self.server.limits);
            if connection.is_over {
                return Ok(false);
            }
        }
        if connection.blocked.is_none()
            && !connection.session.closing
            && connection.input.pending() > 0
            && !self.paused.contains(&client)
        {
            while self.run_commands(connection) {}
            if connection.is_over {
                return Ok(false);
            }
        }
        if connection.is_held {
            return Ok(true);
        }
        let Connection { output, stream, .. } = connection;
        let paused = output.send(stream, &self.waker, |messages| self.post(messages))?;
        connection.publish();
        connection.look_at_output(&self.server.limits);
        if connection.is_over {
            return Ok(false);
        }
        if paused == Paused::NotDurable {
            self.not_durable.insert(client);
        }
        if connection.is_readable && !connection.session.closing {
            self.ready.insert(client);
        }
        let is_done = connection.session.closing && connection.output.len() == 0;
        let is_gone = connection.is_at_end && (connection.blocked.is_some() || connection.output.len() == 0);
        Ok(!is_done && !is_gone)
    }

    /// Runs what a client has sent. Whether there may be more, for others were served in between who wait for what it has written.
    fn run_commands(&mut self, connection: &mut Connection) -> bool {
        let mut signals = VecDeque::new();
        let (mut effects, mut commits) = (Effects::default(), Vec::new());
        connection.limit_reply(&self.server.limits);
        let Connection { session, input, reply, .. } = connection;
        (session.input, session.output) = (input.pending(), connection.output.len());
        let output = Output { reply, effects: &mut effects, commits: &mut commits };
        let clock = Instant::now();
        let (server, thread) = (self.server, self.number);
        let stop = Execution { server, session, output, thread, clock, meanwhile: self }.run(input);
        connection.input.tidy();
        self.leave(connection, effects, commits, &mut signals);
        // After `TooLong`, more is allowed if it listens to channels by now.
        let goes_on = matches!(stop, Stop::Signals | Stop::TooLong) && !connection.is_over;
        match stop {
            Stop::Blocked(block, words) => self.block(connection, block, words, &mut signals),
            Stop::Paused => {
                self.paused.insert(connection.session.id);
                self.server.stats.blocked.fetch_add(1, Relaxed);
            }
            Stop::Nothing | Stop::Signals | Stop::TooLong | Stop::Closing => {}
        }
        if !signals.is_empty() {
            let writer = Waiter { client: connection.session.id, thread: self.number, needs_key: false };
            let wake = Wakeup { signals, writer: Some(writer), ..Wakeup::default() };
            connection.is_held = self.wake_waiters(wake).is_none();
        }
        goes_on && !connection.is_held
    }

    /// What commands have left.
    fn leave(
        &mut self,
        connection: &mut Connection,
        mut effects: Effects,
        commits: Vec<pheap::Commit>,
        signals: &mut VecDeque<Signal>,
    ) {
        self.server.stats.dirty.fetch_add(effects.dirty, Relaxed);
        let commits = self.to_wait_for(commits);
        let bytes = connection.reply.take();
        let messages = effects.parcels(self.server, connection.session.id);
        if !bytes.is_empty() || !messages.is_empty() {
            connection.output.push(bytes, commits, messages);
            connection.look_at_output(&self.server.limits);
        }
        self.forget();
        signals.extend(effects.signals);
    }

    /// Those of these that must still become durable before others are told.
    fn to_wait_for(&self, mut commits: Vec<pheap::Commit>) -> Vec<pheap::Commit> {
        if self.server.limits.always.load(Relaxed) {
            commits.retain(|commit| !commit.is_durable());
        } else {
            commits.clear();
        }
        commits
    }

    /// A client waits for keys. They may have been written to since it looked, so it looks again.
    fn block(
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
        self.server.stats.blocked.fetch_add(1, Relaxed);
        block.keys.iter().for_each(|key| self.server.waiting.add(db, key, waiter));
        if let Some(until) = until {
            self.timeouts.insert((until, connection.session.id));
        }
        connection.session.profile.is_blocked.store(true, SeqCst);
        let words = block.instead.clone().unwrap_or(words);
        connection.blocked = Some(Blocked { words, block, until, db });
        self.try_again(connection, None, signals);
    }

    /// Runs what a blocked client waits with. Whether it goes on.
    fn try_again(
        &mut self,
        connection: &mut Connection,
        woken_by: Option<&[u8]>,
        signals: &mut VecDeque<Signal>,
    ) -> bool {
        let Some(blocked) = connection.blocked.take() else { return false };
        let (mut effects, mut commits) = (Effects::default(), Vec::new());
        connection.limit_reply(&self.server.limits);
        let Connection { session, reply, .. } = connection;
        let output = Output { reply, effects: &mut effects, commits: &mut commits };
        let (server, thread, clock) = (self.server, self.number, Instant::now());
        let execution = Execution { server, session, output, thread, clock, meanwhile: self };
        let still = { execution }.retry(&blocked.words, woken_by);
        if still != Ok(None) {
            if still.is_err() {
                // It looks at its keys again when no script is slow any more.
                let db = connection.session.db;
                let signals = blocked.block.keys.iter().map(|key| Signal { db, key: key.clone() }).collect();
                self.postponed.push(Message::Wake(Wakeup { signals, ..Wakeup::default() }));
            }
            connection.blocked = Some(blocked);
            return false;
        }
        connection.session.profile.is_blocked.store(false, SeqCst);
        self.unblock(connection.session.id, &blocked);
        self.leave(connection, effects, commits, signals);
        self.ready.insert(connection.session.id);
        true
    }

    /// A client does not wait any more.
    fn unblock(&mut self, client: u64, blocked: &Blocked) {
        let waiter = Waiter { client, thread: self.number, needs_key: blocked.block.needs_keys };
        self.server.stats.blocked.fetch_sub(1, Relaxed);
        blocked.block.keys.iter().for_each(|key| self.server.waiting.remove(blocked.db, key, waiter));
        if let Some(until) = blocked.until {
            self.timeouts.remove(&(until, client));
        }
    }

    /// Runs what a client waits with, if it waits for this key. Whether it does so still.
    fn retry(&mut self, client: u64, by: &Signal, signals: &mut VecDeque<Signal>) -> bool {
        let Some(mut connection) = self.connections.remove(&client) else { return false };
        let waits = |connection: &Connection| {
            connection
                .blocked
                .as_ref()
                .is_some_and(|blocked| blocked.db == by.db && blocked.block.keys.contains(&by.key))
        };
        let waits_on = waits(&connection) && !self.try_again(&mut connection, Some(&by.key), signals);
        self.connections.insert(client, connection);
        waits_on
    }

    /// Lets those go on that wait for keys that were written to, in the order in which they came; and those whom that concerns. The writer, if that is done; else another thread goes
    /// on with it.
    fn wake_waiters(&mut self, mut wake: Wakeup) -> Option<Waiter> {
        loop {
            while let (Some(key), Some(&waiter)) = (&wake.key, wake.waiters.front()) {
                if waiter.thread != self.number {
                    self.server.threads[waiter.thread].post(Message::Wake(wake));
                    return None;
                }
                wake.waiters.pop_front();
                let waits_on = self.retry(waiter.client, key, &mut wake.signals);
                // Others that wait for it would not find it, either; but some are to be told.
                if waits_on && !self.exists(key) {
                    wake.waiters.retain(|waiter| waiter.needs_key);
                }
            }
            let Some(next) = wake.signals.pop_front() else { return wake.writer };
            wake.waiters = self.server.waiting.for_key(next.db, &next.key);
            wake.key = Some(next);
        }
    }

    /// All have looked who wait for what this client has written.
    fn release(&mut self, writer: Waiter) {
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
            .read_deferred(|view, root| view[view[root].dbs.at(*db)].get(view, key, now()).is_some());
        // If the heap has failed, those who look are told so.
        exists.map_or(true, |(exists, _)| exists)
    }

    /// Sends messages to other clients.
    fn post(&self, messages: Vec<(u64, Parcel)>) {
        for (client, parcel) in messages {
            if self.connections.contains_key(&client) || self.server.threads.len() == 1 {
                self.mailbox.post(Message::Send { client, parcel });
            } else {
                for thread in &self.server.threads {
                    thread.post(Message::Send { client, parcel: parcel.clone() });
                }
            }
        }
    }

    /// If too many keys are remembered that clients may have copies of, some are told to throw theirs away.
    fn forget(&self) {
        let notices = self.server.tracking.forget(&self.server.clients);
        self.post(notices.into_iter().map(|(to, notice)| (to, Parcel::Notice(notice))).collect());
    }

    /// Sends messages of clients that are gone, and of no client, as far as they are durable.
    fn send_left(&mut self) {
        let mut left = std::mem::take(&mut self.left);
        left.retain_mut(|output| self.waits_on(output));
        self.left.append(&mut left);
    }

    /// Sends to others what a client has left that is gone. Whether some of it is not durable yet.
    fn waits_on(&self, output: &mut Outgoing) -> bool {
        // What has failed to become durable is told to nobody.
        let sent = output.send(&mut io::sink(), &self.waker, |messages| self.post(messages));
        matches!(sent, Ok(Paused::NotDurable))
    }

    /// Answers those who have waited long enough, and goes on with those who were not served for some time.
    fn give_up(&mut self) {
        while let Some(&(at, client)) = self.timeouts.first() {
            if at > Instant::now() {
                break;
            }
            self.timeouts.pop_first();
            self.let_go(client, false);
        }
        if !self.paused.is_empty() && self.server.paused().is_none() {
            let clients = std::mem::take(&mut self.paused);
            self.server.stats.blocked.fetch_sub(clients.len(), Relaxed);
            self.ready.extend(clients);
        }
    }

    /// Answers a client that waits as if its time had come, or with an error.
    fn let_go(&mut self, client: u64, with_error: bool) {
        let Some(mut connection) = self.connections.remove(&client) else { return };
        if let Some(blocked) = connection.blocked.take() {
            connection.session.profile.is_blocked.store(false, SeqCst);
            self.unblock(client, &blocked);
            if with_error {
                connection.reply.error("UNBLOCKED client unblocked via CLIENT UNBLOCK");
                self.server.count_error("UNBLOCKED");
            } else if blocked.block.gives_up_with_null {
                connection.reply.null();
            } else {
                connection.reply.null_array();
            }
            let bytes = connection.reply.take();
            connection.output.push(bytes, Vec::new(), Vec::new());
        }
        self.connections.insert(client, connection);
        self.ready.insert(client);
    }

    fn disconnect(&mut self, mut connection: Box<Connection>) {
        let client = connection.session.id;
        self.ready.swap_remove(&client);
        self.not_durable.swap_remove(&client);
        if let Some(blocked) = connection.blocked.take() {
            self.unblock(client, &blocked);
        }
        let Connection { session, stream, .. } = &mut *connection;
        self.server.unwatch(session);
        self.server.listen_to_nothing(session);
        self.server.tracking.disable(session);
        // The descriptor is closed, which also ends that; it fails only if it never was there.
        let _ = self.poll.registry().deregister(stream);
        self.server.clients.remove(client);
        if session.monitors {
            self.server.remove_monitor(client);
        }
        if connection.output.has_messages() && self.waits_on(&mut connection.output) {
            self.left.push(connection.output);
        }
        if self.paused.remove(&client) {
            self.server.stats.blocked.fetch_sub(1, Relaxed);
        }
    }

    /// What is done now and then: keys expire, and those leave who have been silent for long.
    fn tick(&mut self) {
        if self.last_tick.elapsed() < TICK {
            return;
        }
        self.last_tick = Instant::now();
        std::mem::take(&mut self.deaf).into_iter().for_each(|listener| self.accept(listener));
        if self.number == 0 {
            self.server.measure();
            self.forget();
        }
        if self.number == 0 && self.server.paused().is_none() {
            let (mut effects, mut commits) = (Effects::default(), Vec::new());
            // If the heap has failed, writes say so.
            let _ = self.expiry.run(self.server, Instant::now() + EXPIRY, &mut effects, &mut commits);
            let messages = effects.parcels(self.server, 0);
            if !messages.is_empty() {
                let mut outgoing = Outgoing::default();
                outgoing.push(Vec::new(), self.to_wait_for(commits), messages);
                self.left.push(outgoing);
                self.send_left();
            }
            let wake = Wakeup { signals: effects.signals.into(), ..Wakeup::default() };
            if !wake.signals.is_empty() {
                self.wake_waiters(wake);
            }
        }
        for (client, connection) in &mut self.connections {
            if connection.output.len() > 0 {
                connection.look_at_output(&self.server.limits);
                if connection.is_over {
                    self.ready.insert(*client);
                }
            }
        }
        let timeout = self.server.config.read().int("timeout") as u64;
        if timeout > 0 {
            let is_idle = |connection: &Connection| {
                connection.last_heard.elapsed() > Duration::from_secs(timeout)
                    && connection.blocked.is_none()
                    && connection.session.subscriptions() == 0
                    && !connection.session.monitors
            };
            let idle: Vec<u64> =
                self.connections.iter().filter(|(_, c)| is_idle(c)).map(|(id, _)| *id).collect();
            for client in idle {
                if let Some(connection) = self.connections.remove(&client) {
                    self.disconnect(connection);
                }
            }
        }
    }
}

impl Meanwhile for Turn<'_> {
    fn serve_others(&mut self) {
        if std::mem::replace(&mut self.is_meanwhile, true) {
            return;
        }
        // If the system refuses to tell what happens, it will do so again when the script has ended.
        let _ = self.turn(&mut Events::with_capacity(64), Duration::ZERO);
        self.is_meanwhile = false;
    }
}
