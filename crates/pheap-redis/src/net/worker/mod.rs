//! A thread that serves clients: reads what they send, runs it, and sends what is to be sent.

mod arrivals;
mod blocked;
mod finish;
mod serve;
#[cfg(test)]
mod tests;
mod tick;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::task;
use std::time::{Duration, Instant};

use indexmap::IndexSet;
use mio::{Events, Poll, Token};
use pheap::Commit;

use super::connection::Connection;
use super::listener::Listener;
use super::output::Paused;
use super::syncs::Syncs;
use crate::command::Meanwhile;
use crate::connections::mailbox::{Mailbox, Message, Parcel};
use crate::execute::expire::Expiry;
use crate::resp::Reply;
use crate::server::Server;

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// How long a thread sleeps at most.
const TICK: Duration = Duration::from_millis(100);

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
        self.into_turn(server, number, listeners).run()
    }

    fn into_turn(self, server: &Server, number: usize, listeners: Vec<Listener>) -> Turn<'_> {
        let Worker { poll, mailbox } = self;
        Turn {
            listeners,
            server,
            number,
            syncs: Syncs::new(&server.unsynced, mailbox.clone()),
            poll,
            mailbox,
            connections: BTreeMap::new(),
            ready: IndexSet::new(),
            not_durable: IndexSet::new(),
            paused: BTreeSet::new(),
            timeouts: BTreeSet::new(),
            deaf: BTreeSet::new(),
            spare: None,
            next_thread: 0,
            last_tick: Instant::now(),
            buffer: vec![0; CHUNK].into(),
            evicts: false,
            expiry: Expiry::default(),
            round: VecDeque::new(),
            heard: VecDeque::new(),
            is_meanwhile: false,
            missed: BTreeSet::new(),
            postponed: Vec::new(),
            messages: VecDeque::new(),
        }
    }
}

/// Messages that are sent at the same moment.
struct Announcement {
    /// Must be durable before. With that, all is that those before wait for.
    commit: Option<Commit>,
    messages: Vec<(u64, Parcel)>,
}

/// What a thread has.
struct Turn<'s> {
    server: &'s Server,
    number: usize,
    syncs: Syncs<'s>,
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
    /// A descriptor for a client that comes when too many files are open.
    spare: Option<File>,
    /// The thread that gets the next client.
    next_thread: usize,
    last_tick: Instant,
    /// What was read last. It is here so that nobody has to make a new one, of zeros, for each read.
    buffer: Box<[u8]>,
    /// Keys go for want of memory, and there was no time for more of them.
    evicts: bool,
    expiry: Expiry,
    /// Clients that are served just now, one after the other.
    round: VecDeque<u64>,
    /// Clients that were served, and are to be told.
    heard: VecDeque<u64>,
    /// A client's script is slow, and others are served meanwhile.
    is_meanwhile: bool,
    /// Clients that something has happened to while they were served.
    missed: BTreeSet<u64>,
    /// Messages that can be read only afterwards.
    postponed: Vec<Message>,
    /// Messages to clients, in the order in which what they tell of was done.
    messages: VecDeque<Announcement>,
}

impl Turn<'_> {
    fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        while !self.server.stopping.load(Acquire) {
            let waits = self.postponed.is_empty() || self.server.scripts.is_busy();
            let is_idle = self.ready.is_empty() && waits && !self.evicts;
            let sleep = if is_idle { self.until_next() } else { Duration::ZERO };
            self.turn(&mut events, sleep)?;
            self.tick();
            self.syncs.ask();
        }
        self.finish(&mut events)
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
                        connection.leaves_room |= event.is_read_closed() || event.is_priority();
                        connection.is_readable |= event.is_readable() || event.is_read_closed();
                        self.ready.insert(client);
                    } else if self.is_meanwhile {
                        self.missed.insert(client);
                    }
                }
            }
        }
        self.read_mail();
        self.send_messages();
        self.serve();
        self.give_up();
        self.send_messages();
        self.syncs.ask();
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

    fn read_mail(&mut self) {
        let postponed = if self.is_meanwhile { Vec::new() } else { std::mem::take(&mut self.postponed) };
        for message in postponed.into_iter().chain(self.mailbox.take()) {
            match message {
                // The client may be the one whose script is slow; and what it waits for is in a shard.
                Message::Send(..) | Message::Wake(_) | Message::Unblock { .. } if self.is_meanwhile => {
                    self.postponed.push(message);
                }
                Message::Wake(_) if self.server.scripts.is_busy() => self.postponed.push(message),
                Message::Kill(client) if self.is_meanwhile && !self.connections.contains_key(&client) => {
                    self.postponed.push(message);
                }
                Message::Connected(stream) => self.connect(stream),
                Message::Send(client, parcel) => self.deliver(client, parcel),
                Message::Wake(wake) => {
                    if let Some(writer) = self.wake_waiters(wake) {
                        self.release(writer);
                    }
                }
                Message::Unblock { client, with_error } => self.let_go(client, with_error),
                Message::Kill(client) => {
                    if let Some(connection) = self.connections.remove(&client) {
                        self.disconnect(connection);
                    }
                }
            }
        }
        if self.syncs.has_news() {
            self.ready.append(&mut self.not_durable);
        }
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
            connection.output.push(bytes, Vec::new());
            connection.look_at_output(&self.server.limits);
            self.ready.insert(client);
        }
    }

    /// Sends messages to clients, as far as they are durable.
    fn send_messages(&mut self) {
        while let Some(next) = self.messages.front() {
            let durable = next.commit.as_ref().map(|commit| self.syncs.look(commit));
            if matches!(durable, Some(task::Poll::Pending)) {
                return;
            }
            // What has failed to become durable is told to nobody.
            let is_told = !matches!(durable, Some(task::Poll::Ready(Err(_))));
            if let Some(next) = self.messages.pop_front().filter(|_| is_told) {
                self.post(next.messages);
            }
        }
    }

    /// Has messages sent when these commits are durable, and all messages before them are sent. What else is to wait for that waits for what these commits become.
    fn announce(&mut self, commits: &mut Vec<Commit>, messages: Vec<(u64, Parcel)>) {
        if messages.is_empty() {
            return;
        }
        let before = self.messages.back().and_then(|last| last.commit.clone());
        let commit = commits.drain(..).chain(before).reduce(|a, b| if a.is_before(&b) { b } else { a });
        commits.extend(commit.clone());
        self.messages.push_back(Announcement { commit, messages });
    }

    /// Sends a client what it can be sent now. Messages go first: who has its reply may rely on it that those are under way which tell of something before.
    fn send(&mut self, connection: &mut Connection) -> io::Result<Paused> {
        self.send_messages();
        let Connection { output, stream, .. } = connection;
        let before = output.len();
        let paused = output.send(stream, |commit| {
            let durable = self.syncs.look(commit);
            if durable.is_ready() {
                self.send_messages();
            }
            durable
        });
        self.server.traffic[self.number].wrote(before - output.len());
        paused
    }

    /// Sends messages to other clients.
    fn post(&self, messages: Vec<(u64, Parcel)>) {
        for (client, parcel) in messages {
            if self.connections.contains_key(&client) || self.server.threads.len() == 1 {
                self.mailbox.post(Message::Send(client, parcel));
            } else {
                for thread in &self.server.threads {
                    thread.post(Message::Send(client, parcel.clone()));
                }
            }
        }
    }

    /// If too many keys are remembered that clients may have copies of, some are told to throw theirs away.
    fn forget(&self) {
        let notices = self.server.tracking.forget(&self.server.clients);
        self.post(notices.into_iter().map(|(to, notice)| (to, Parcel::Notice(notice))).collect());
    }
}

impl Meanwhile for Turn<'_> {
    fn serve_others(&mut self) {
        if std::mem::replace(&mut self.is_meanwhile, true) {
            return;
        }
        // If the system refuses to tell what happens, it will do so again when the script has ended.
        let mut turn = || _ = self.turn(&mut Events::with_capacity(64), Duration::ZERO);
        let turned = panic::catch_unwind(AssertUnwindSafe(&mut turn));
        self.is_meanwhile = false;
        if let Err(panicked) = turned {
            panic::resume_unwind(panicked);
        }
    }
}
