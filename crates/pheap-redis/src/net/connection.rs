//! The connection of a client.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::output::OutputQueue;
use crate::clients::OUTPUT_BUFFER;
use crate::clients::buffers::{OutputLimit, SoftLimitTimer};
use crate::clients::client::Session;
use crate::command::Block;
use crate::connections::stream::Stream;
use crate::resp::Reply;
use crate::resp::input::Input;
use crate::server::LiveOptions;
use crate::stats::counts::Traffic;

/// The most bytes of unread output of a client that has not authenticated.
const MOST_UNAUTHENTICATED: usize = 64 << 10;

/// The connection of a client, owned by its thread.
pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) session: Session,
    pub(super) input: Input,
    pub(super) output: OutputQueue,
    /// The replies of the running commands. They move to `output` when the commands end.
    pub(super) reply: Reply,
    /// The command and keys with which the client waits, if it waits.
    pub(super) blocked: Option<Blocked>,
    /// Whether the client must not be served yet: other clients wait for keys that it has written, and have
    /// not yet looked at them.
    pub(super) is_held: bool,
    /// Whether the socket may have more to read.
    pub(super) is_readable: bool,
    /// Whether a read that does not fill the buffer may still leave data to read: the end of the stream, or
    /// data behind an urgent byte.
    pub(super) leaves_room: bool,
    /// Whether the client has closed its sending side.
    pub(super) is_at_end: bool,
    /// Measures how long the client's unread output has been at or above the soft limit.
    pub(super) slowness: SoftLimitTimer,
    /// Whether the client's input or unread output exceeds a limit, so that the client has to be
    /// disconnected.
    pub(super) is_over: bool,
    /// When the client last sent something, or connected.
    pub(super) last_heard: Instant,
}

/// The state of a client that waits for keys.
#[derive(Debug)]
pub(super) struct Blocked {
    /// The words of the command to run again: the client's command, or the one that [`Block::instead`] gives.
    pub(super) words: Vec<Vec<u8>>,
    /// What the client waits for: keys and a timeout.
    pub(super) block: Block,
    /// The first index of each key in `words`.
    pub(super) places: HashMap<Vec<u8>, usize>,
    /// The end of the timeout; None if the client waits without limit.
    pub(super) until: Option<Instant>,
    /// The database of the keys.
    pub(super) db: usize,
    /// With `appendfsync always`: the commits of the state that the command has seen when it last ran. They
    /// must be durable before the reply that the timeout has ended.
    pub(super) seen: Vec<pheap::Commit>,
}

impl Connection {
    pub(super) fn new(stream: Stream, session: Session) -> Connection {
        Connection {
            stream,
            session,
            input: Input::default(),
            output: OutputQueue::default(),
            reply: Reply::new(false),
            blocked: None,
            is_held: false,
            is_readable: true,
            leaves_room: false,
            is_at_end: false,
            slowness: SoftLimitTimer::default(),
            is_over: false,
            last_heard: Instant::now(),
        }
    }

    /// Returns the limits of the client's unread output. As in Redis, the first 16 KiB of output do not
    /// count, so that a client can always raise a limit. The callers subtract them.
    pub(super) fn output_limit(&self, options: &LiveOptions) -> OutputLimit {
        let mut limit =
            if self.session.subscriptions() > 0 { options.messages.get() } else { options.output.get() };
        let clients = self.clients_limit(options);
        if clients > 0 && (limit.hard == 0 || clients < limit.hard) {
            limit.hard = clients;
        }
        limit
    }

    /// Returns the limit of all clients' memory (`maxmemory-clients`) if it applies to this client; else 0.
    fn clients_limit(&self, options: &LiveOptions) -> u64 {
        if self.session.never_evicted { 0 } else { options.clients.load(Relaxed) }
    }

    /// Returns whether the unanswered input and the unread output of this client alone reach the limit of all
    /// clients' memory.
    pub(super) fn needs_all(&self, options: &LiveOptions) -> bool {
        let (clients, bytes) = (self.clients_limit(options), self.input.pending() + self.output.len());
        clients > 0 && bytes as u64 >= clients
    }

    /// Sets `is_over` if the client's unread output reaches a limit. A client that has not authenticated gets
    /// only short replies, and has a low limit.
    pub(super) fn check_output_limit(&mut self, options: &LiveOptions) {
        self.is_over |= !self.session.authenticated && self.output.len() > MOST_UNAUTHENTICATED;
        let listed = self.output.len().saturating_sub(OUTPUT_BUFFER);
        self.is_over |= self.slowness.is_over(listed, self.output_limit(options));
    }

    /// Sets `is_over` if the client's unanswered input and its commands that wait for `EXEC` exceed the
    /// limit.
    pub(super) fn check_input_limit(&mut self, options: &LiveOptions) {
        let queued = self.session.multi.as_ref().map_or(0, |multi| multi.bytes);
        self.is_over |= (self.input.pending() + queued) as u64 > options.input.load(Relaxed);
    }

    /// Limits the length of the next replies to the room that the hard output limit leaves.
    pub(super) fn limit_reply(&mut self, options: &LiveOptions) {
        let limit = match self.output_limit(options).hard {
            0 => usize::MAX,
            hard => (hard as usize).saturating_add(OUTPUT_BUFFER).saturating_sub(self.output.len()).max(1),
        };
        self.reply.set_limit(limit);
    }

    /// Publishes the client's state for other threads.
    pub(super) fn publish(&mut self) {
        (self.session.input, self.session.output) = (self.input.pending(), self.output.len());
        self.session.publish();
        self.session.profile.state.lock().last_heard = self.last_heard;
    }

    /// Reads into `buffer`, and appends the bytes to the input. Reads at most one buffer, so that other
    /// clients have a turn.
    pub(super) fn read(&mut self, buffer: &mut [u8], traffic: &Traffic) -> io::Result<()> {
        match self.stream.read(buffer) {
            Ok(0) => {
                self.is_readable = false;
                self.is_at_end = true;
            }
            Ok(n) => {
                traffic.read(n);
                self.input.append(&buffer[..n]);
                self.last_heard = Instant::now();
                // If a read did not fill the buffer, the socket is empty, except as `leaves_room` says, and a
                // later event reports new data. No event reports again data that had already come.
                self.is_readable = n == buffer.len() || self.stream.is_encrypted() || self.leaves_room;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_readable = false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
