//! A client's connection.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::output::Output;
use crate::clients::OUTPUT_BUFFER;
use crate::clients::buffers::{Limit, Watch};
use crate::clients::client::Session;
use crate::command::Block;
use crate::connections::stream::Stream;
use crate::resp::Reply;
use crate::resp::input::Input;
use crate::server::Limits;
use crate::stats::counts::Traffic;

/// Bytes that may wait to be sent to a client that has not said the password.
const MOST_UNAUTHENTICATED: usize = 64 << 10;

/// A client's connection.
pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) session: Session,
    pub(super) input: Input,
    pub(super) output: Output,
    /// Replies of commands that run just now.
    pub(super) reply: Reply,
    /// What it waits for, if it does.
    pub(super) blocked: Option<Blocked>,
    /// Others look first whether they can go on after what it has written.
    pub(super) is_held: bool,
    /// There may be more to read.
    pub(super) is_readable: bool,
    /// A read may leave room though there is more to read: its end, or what is behind a byte out of band.
    pub(super) leaves_room: bool,
    /// It sends nothing more.
    pub(super) is_at_end: bool,
    /// It is slow to read: how long already.
    pub(super) slowness: Watch,
    /// More waits to be sent to it, or was sent by it, than may: it is disconnected.
    pub(super) is_over: bool,
    /// When it has last sent something.
    pub(super) last_heard: Instant,
}

/// What a client waits for.
#[derive(Debug)]
pub(super) struct Blocked {
    /// The command.
    pub(super) words: Vec<Vec<u8>>,
    /// The keys, and until when.
    pub(super) block: Block,
    /// Where each key is among the words.
    pub(super) places: HashMap<Vec<u8>, usize>,
    /// When it gives up.
    pub(super) until: Option<Instant>,
    /// The database of the keys.
    pub(super) db: usize,
    /// Must be durable before it is told that there was nothing: what it has seen when it last looked.
    pub(super) seen: Vec<pheap::Commit>,
}

impl Connection {
    pub(super) fn new(stream: Stream, session: Session) -> Connection {
        Connection {
            stream,
            session,
            input: Input::default(),
            output: Output::default(),
            reply: Reply::new(false),
            blocked: None,
            is_held: false,
            is_readable: true,
            leaves_room: false,
            is_at_end: false,
            slowness: Watch::default(),
            is_over: false,
            last_heard: Instant::now(),
        }
    }

    /// How much may wait to be sent to it. As in Redis, the first 16 KiB do not count: with any limit, it can still
    /// be set higher.
    pub(super) fn limit(&self, limits: &Limits) -> Limit {
        let mut limit =
            if self.session.subscriptions() > 0 { limits.messages.get() } else { limits.output.get() };
        let clients = self.of_all(limits);
        if clients > 0 && (limit.hard == 0 || clients < limit.hard) {
            limit.hard = clients;
        }
        limit
    }

    /// What all clients may need together (`maxmemory-clients`), if it counts for this one; else 0.
    fn of_all(&self, limits: &Limits) -> u64 {
        if self.session.never_evicted { 0 } else { limits.clients.load(Relaxed) }
    }

    /// Whether it alone needs what all clients may need together.
    pub(super) fn needs_all(&self, limits: &Limits) -> bool {
        let (clients, bytes) = (self.of_all(limits), self.input.pending() + self.output.len());
        clients > 0 && bytes as u64 >= clients
    }

    /// Looks whether too much waits to be sent to it. Who has not said the password gets errors only, and may
    /// not leave many of them unread.
    pub(super) fn look_at_output(&mut self, limits: &Limits) {
        self.is_over |= !self.session.authenticated && self.output.len() > MOST_UNAUTHENTICATED;
        let listed = self.output.len().saturating_sub(OUTPUT_BUFFER);
        self.is_over |= self.slowness.is_over(listed, self.limit(limits));
    }

    /// Looks whether it has sent too much that was not answered.
    pub(super) fn look_at_input(&mut self, limits: &Limits) {
        let queued = self.session.multi.as_ref().map_or(0, |multi| multi.bytes);
        self.is_over |= (self.input.pending() + queued) as u64 > limits.input.load(Relaxed);
    }

    /// Replies that are longer than may wait are not written to their end.
    pub(super) fn limit_reply(&mut self, limits: &Limits) {
        let limit = match self.limit(limits).hard {
            0 => usize::MAX,
            hard => (hard as usize).saturating_add(OUTPUT_BUFFER).saturating_sub(self.output.len()).max(1),
        };
        self.reply.set_limit(limit);
    }

    /// Lets others know what the client does.
    pub(super) fn publish(&mut self) {
        (self.session.input, self.session.output) = (self.input.pending(), self.output.len());
        self.session.publish();
        self.session.profile.state.lock().last_heard = self.last_heard;
    }

    /// Reads what has come, by way of `buffer`, but not more than fits there: others have a turn in between.
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
                // A socket that leaves room has nothing more, and there is an event for what comes then; but none again for what has come already.
                self.is_readable = n == buffer.len() || self.stream.is_encrypted() || self.leaves_room;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_readable = false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
