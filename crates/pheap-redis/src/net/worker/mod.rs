//! A thread that serves clients: it reads and runs their commands, and sends the replies.

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
use super::output::SendPause;
use super::syncs::Syncs;
use crate::command::Meanwhile;
use crate::connections::mailbox::{Mailbox, Message, Parcel};
use crate::execute::expire::Expiry;
use crate::resp::Reply;
use crate::server::Server;

/// The most bytes of one read.
const CHUNK: usize = 64 << 10;

/// The longest sleep of a thread, and the interval of periodic work.
const TICK: Duration = Duration::from_millis(100);

const MAILBOX: Token = Token(0);
/// The token of the first listener.
const LISTENERS: usize = 1;
/// The token of a client is this number plus the client's id.
const CLIENTS: usize = 1 << 10;

/// A thread that serves clients.
pub struct Worker {
    poll: Poll,
    mailbox: Arc<Mailbox>,
}

impl Worker {
    /// Prepares a thread without clients. The caller runs it.
    ///
    /// # Errors
    /// If the system cannot create the poll or the mailbox.
    pub fn new() -> io::Result<Worker> {
        let poll = Poll::new()?;
        let mailbox = Arc::new(Mailbox::new(poll.registry(), MAILBOX)?);
        Ok(Worker { poll, mailbox })
    }

    /// Returns the mailbox of this thread.
    pub fn mailbox(&self) -> Arc<Mailbox> {
        self.mailbox.clone()
    }

    /// Serves clients until the server stops. `number` is the index of this thread. The thread accepts the
    /// clients that connect to `listeners`.
    ///
    /// # Errors
    /// If a listener cannot be registered, or polling for events fails.
    pub fn run(self, server: &Server, number: usize, mut listeners: Vec<Listener>) -> io::Result<()> {
        for (i, listener) in listeners.iter_mut().enumerate() {
            listener.register(self.poll.registry(), Token(LISTENERS + i))?;
        }
        self.into_turn(server, number, listeners).run()
    }

    fn into_turn(self, server: &Server, number: usize, listeners: Vec<Listener>) -> WorkerState<'_> {
        let Worker { poll, mailbox } = self;
        WorkerState {
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

/// Messages that are sent together.
struct Announcement {
    /// The commit that must be durable before the messages are sent. It also covers the commits of all
    /// earlier announcements that are not sent yet.
    commit: Option<Commit>,
    messages: Vec<(u64, Parcel)>,
}

/// The state of a thread that serves clients.
struct WorkerState<'s> {
    server: &'s Server,
    number: usize,
    syncs: Syncs<'s>,
    poll: Poll,
    mailbox: Arc<Mailbox>,
    listeners: Vec<Listener>,
    /// The clients' connections by client id. They are in boxes because serving a client takes its connection
    /// out.
    connections: BTreeMap<u64, Box<Connection>>,
    /// Clients with something to do, in the order in which this thread learned of it. When a client
    /// disconnects, the last client takes its place.
    ready: IndexSet<u64>,
    /// Clients whose output waits for a commit.
    not_durable: IndexSet<u64>,
    /// Clients that a pause has stopped.
    paused: BTreeSet<u64>,
    /// The ends of the timeouts of clients that wait for keys.
    timeouts: BTreeSet<(Instant, u64)>,
    /// Listeners whose last `accept` failed. The tick tries them again.
    deaf: BTreeSet<usize>,
    /// A spare file descriptor, to accept and refuse a client when too many files are open.
    spare: Option<File>,
    /// The index of the thread that gets the next client.
    next_thread: usize,
    last_tick: Instant,
    /// The read buffer. All reads share it, because allocating a zeroed one for each would cost time.
    buffer: Box<[u8]>,
    /// Whether the last eviction of the tick removed keys and was not enough, so that it should continue at
    /// once.
    evicts: bool,
    expiry: Expiry,
    /// Clients of this round whose commands were not run yet. If a script is slow, rounds within this one
    /// share the queue.
    round: VecDeque<u64>,
    /// Clients of this round whose commands were run and whose output is still to be sent.
    heard: VecDeque<u64>,
    /// Whether this thread serves other clients while the script of one of its clients is slow.
    is_meanwhile: bool,
    /// Clients for which an event came while `is_meanwhile` and their connections were taken out of
    /// `connections`.
    missed: BTreeSet<u64>,
    /// Mailbox messages that have to wait until the slow script has ended.
    postponed: Vec<Message>,
    /// Messages to clients, in the order of the writes that they report.
    messages: VecDeque<Announcement>,
}

impl WorkerState<'_> {
    fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        while !self.server.stopping.load(Acquire) {
            let waits = self.postponed.is_empty() || self.server.scripts.is_busy();
            let is_idle = self.ready.is_empty() && waits && !self.evicts;
            let sleep = if is_idle { self.until_next() } else { Duration::ZERO };
            self.poll_and_serve(&mut events, sleep)?;
            self.tick();
            self.syncs.request_sync();
        }
        self.finish(&mut events)
    }

    /// Waits for events for at most `sleep`, handles them, and serves the ready clients.
    fn poll_and_serve(&mut self, events: &mut Events, sleep: Duration) -> io::Result<()> {
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
        self.end_timed_out_waits();
        self.send_messages();
        self.syncs.request_sync();
        Ok(())
    }

    /// Returns how long the thread may sleep: until a timeout or the pause ends, at most [`TICK`].
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
                // The message waits until the slow script has ended: its client may be the one with the
                // script, and the client's keys may be in a locked shard.
                Message::Send(..) | Message::Wake(_) | Message::Unblock { .. } if self.is_meanwhile => {
                    self.postponed.push(message);
                }
                Message::Wake(_) if self.server.scripts.is_busy() => self.postponed.push(message),
                Message::Kill(client) if self.is_meanwhile && !self.connections.contains_key(&client) => {
                    self.postponed.push(message);
                }
                Message::Connected(stream) => self.connect(stream),
                Message::Send(client, parcel) => self.queue_message(client, parcel),
                Message::Wake(wake) => {
                    if let Some(writer) = self.wake_waiters(wake) {
                        self.release(writer);
                    }
                }
                Message::Unblock { client, with_error } => self.end_wait(client, with_error),
                Message::Kill(client) => {
                    if let Some(connection) = self.connections.remove(&client) {
                        self.disconnect(connection);
                    }
                }
            }
        }
        if self.syncs.has_newly_durable() {
            self.ready.append(&mut self.not_durable);
        }
    }

    /// Queues a message that a client did not ask for, unless the client no longer wants it.
    fn queue_message(&mut self, client: u64, parcel: Parcel) {
        if let Some(connection) = self.connections.get_mut(&client) {
            let bytes = match parcel {
                Parcel::Bytes(bytes) if !connection.session.still_wants(&bytes) => return,
                Parcel::Bytes(mut bytes) => {
                    // A push message of RESP3 differs only in its first byte from an array of RESP2.
                    if bytes.starts_with(b">") && !connection.session.resp3 {
                        bytes[0] = b'*';
                    }
                    bytes
                }
                Parcel::Notice(notice) => {
                    let mut reply = Reply::new(connection.session.resp3);
                    notice.write(&connection.session, &mut reply);
                    reply.take()
                }
            };
            connection.output.push(bytes, Vec::new());
            connection.check_output_limit(&self.server.options);
            self.ready.insert(client);
        }
    }

    /// Posts the messages whose commits are durable, in order, up to the first one whose commit is not.
    fn send_messages(&mut self) {
        while let Some(next) = self.messages.front() {
            let durable = next.commit.as_ref().map(|commit| self.syncs.durability(commit));
            if matches!(durable, Some(task::Poll::Pending)) {
                return;
            }
            // A message about a write that failed to become durable is dropped.
            let is_told = !matches!(durable, Some(task::Poll::Ready(Err(_))));
            if let Some(next) = self.messages.pop_front().filter(|_| is_told) {
                self.post(next.messages);
            }
        }
    }

    /// Queues messages that are sent when `commits` are durable, behind all earlier messages. If there are
    /// messages, replaces `commits` by the latest commit of these and of the earlier messages. A reply that
    /// waits for `commits` then also waits for the messages.
    fn announce(&mut self, commits: &mut Vec<Commit>, messages: Vec<(u64, Parcel)>) {
        if messages.is_empty() {
            return;
        }
        let before = self.messages.back().and_then(|last| last.commit.clone());
        let commit = commits.drain(..).chain(before).reduce(|a, b| if a.is_before(&b) { b } else { a });
        commits.extend(commit.clone());
        self.messages.push_back(Announcement { commit, messages });
    }

    /// Sends a client as much of its output as possible. Posts the announced messages whose commits are
    /// durable first: when a client has its reply, the messages about the writes for which that reply waited
    /// are on their way.
    fn send(&mut self, connection: &mut Connection) -> io::Result<SendPause> {
        self.send_messages();
        let Connection { output, stream, .. } = connection;
        let before = output.len();
        let paused = output.send(stream, |commit| {
            let durable = self.syncs.durability(commit);
            if durable.is_ready() {
                self.send_messages();
            }
            durable
        });
        self.server.traffic[self.number].wrote(before - output.len());
        paused
    }

    /// Posts messages to the threads of the clients that get them. If a client is not one of this thread,
    /// posts its message to all threads.
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

    /// Drops keys from the tracking table if it has too many, and tells their readers to drop their copies.
    fn trim_tracking_table(&self) {
        let notices = self.server.tracking.drop_excess_keys(&self.server.clients);
        self.post(notices.into_iter().map(|(to, notice)| (to, Parcel::Notice(notice))).collect());
    }
}

impl Meanwhile for WorkerState<'_> {
    fn serve_others(&mut self) {
        if std::mem::replace(&mut self.is_meanwhile, true) {
            return;
        }
        // An error of polling is ignored: a lasting one comes again when the script has ended, and is handled
        // there.
        let mut turn = || _ = self.poll_and_serve(&mut Events::with_capacity(64), Duration::ZERO);
        let turned = panic::catch_unwind(AssertUnwindSafe(&mut turn));
        self.is_meanwhile = false;
        if let Err(panicked) = turned {
            panic::resume_unwind(panicked);
        }
    }
}
