//! What is done for a client: what it has sent is read and run, and what it is to be told is sent.

use std::collections::VecDeque;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::Turn;
use crate::clients::waiting::{Signal, Waiter, Wakeup};
use crate::command::Effects;
use crate::execute::{Execution, Output, Stop};
use crate::net::connection::Connection;
use crate::net::output::Paused;

/// A round begins no handshake after this time: each may take milliseconds. The handshakes that are left have
/// their turn in the next round.
const GREETINGS: Duration = Duration::from_millis(10);

impl Turn<'_> {
    /// Serves each client once: first the commands of all clients are run, then the replies are sent. Sending
    /// makes the system wake the client's program, which takes longer than many a command; a program that has
    /// many connections wakes up once, for all of them.
    pub(super) fn serve(&mut self) {
        self.round.extend(self.ready.drain(..));
        let begun = Instant::now();
        while let Some(client) = self.round.pop_front() {
            self.with(client, |turn, connection| turn.hear(connection, begun));
            self.heard.push_back(client);
        }
        while let Some(client) = self.heard.pop_front() {
            self.with(client, Self::tell);
        }
    }

    /// Does something with a client's connection, if it is there, unless others go on first whom it has let go on. It stays if that says so.
    fn with(&mut self, client: u64, what: impl Fn(&mut Self, &mut Connection) -> io::Result<bool>) {
        let Some(mut connection) = self.connections.remove(&client) else { return };
        let result = if connection.is_over || connection.is_held {
            Ok(!connection.is_over)
        } else {
            // Its transaction was rolled back: a mistake of this program costs one connection, and no others.
            panic::catch_unwind(AssertUnwindSafe(|| what(self, &mut connection))).unwrap_or_else(|_| {
                let command = connection.session.last_command;
                tracing::error!("{} was closed: `{command}` has panicked", connection.stream);
                Err(io::Error::other("a command has panicked"))
            })
        };
        match result {
            Ok(true) => _ = self.connections.insert(client, connection),
            Ok(false) => self.disconnect(connection),
            Err(error) => {
                tracing::debug!("{} was closed: {error}", connection.stream);
                if let Some(error) = error.get_ref().and_then(|error| error.downcast_ref()) {
                    self.server.look_at(error);
                }
                self.disconnect(connection);
            }
        }
    }

    /// Reads what a client has sent, and runs it, in a round that began at `begun`. Whether the connection stays.
    fn hear(&mut self, connection: &mut Connection, begun: Instant) -> io::Result<bool> {
        if connection.stream.is_greeting() && begun.elapsed() > GREETINGS {
            // `tell` notes that it is still to be read.
            return Ok(true);
        }
        if connection.is_readable && !connection.session.closing {
            connection.read(&mut self.buffer, &self.server.traffic[self.number])?;
            connection.look_at_input(&self.server.limits);
            if connection.is_over {
                return Ok(false);
            }
            // Who has gone takes nothing from those who are heard after it.
            if connection.is_at_end && connection.blocked.is_some() {
                return self.tell(connection);
            }
        }
        if connection.blocked.is_none()
            && !connection.session.closing
            && connection.input.pending() > 0
            && !self.paused.contains(&connection.session.id)
        {
            while self.run_commands(connection) {}
        }
        Ok(!connection.is_over)
    }

    /// Sends what a client is to be told. Whether the connection stays.
    fn tell(&mut self, connection: &mut Connection) -> io::Result<bool> {
        let client = connection.session.id;
        let paused = self.send(connection)?;
        connection.publish();
        connection.look_at_output(&self.server.limits);
        if connection.is_over {
            return Ok(false);
        }
        if paused == Paused::NotDurable {
            self.not_durable.insert(client);
        }
        if self.missed.remove(&client) {
            // What has happened is not known.
            (connection.is_readable, connection.leaves_room) = (true, true);
        }
        if connection.is_readable && !connection.session.closing {
            self.ready.insert(client);
        }
        let is_told = connection.output.len() == 0 && paused != Paused::Full;
        let is_done = connection.session.closing && is_told;
        let is_gone = connection.is_at_end && (connection.blocked.is_some() || is_told);
        Ok(!is_done && !is_gone)
    }

    /// Runs what a client has sent. Whether there may be more, for others were served in between who wait for what it has written.
    fn run_commands(&mut self, connection: &mut Connection) -> bool {
        let mut signals = VecDeque::new();
        let (mut effects, mut commits, mut counted) = (Effects::default(), Vec::new(), Vec::new());
        connection.limit_reply(&self.server.limits);
        let Connection { session, input, reply, .. } = connection;
        (session.input, session.output) = (input.pending(), connection.output.len());
        let output = Output { reply, effects: &mut effects, commits: &mut commits, counted: &mut counted };
        let clock = Instant::now();
        let (server, thread) = (self.server, self.number);
        let stop = Execution { server, session, output, thread, clock, meanwhile: self }.run(input);
        connection.input.tidy();
        self.leave(connection, effects, commits, &mut signals);
        self.syncs.count(&mut counted);
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
    pub(super) fn leave(
        &mut self,
        connection: &mut Connection,
        mut effects: Effects,
        commits: Vec<pheap::Commit>,
        signals: &mut VecDeque<Signal>,
    ) {
        // All threads have this number in common.
        if effects.dirty > 0 {
            self.server.stats.dirty.fetch_add(effects.dirty, Relaxed);
        }
        let mut commits = self.note_commits(commits);
        let bytes = connection.reply.take();
        let messages = effects.parcels(self.server, connection.session.id);
        self.announce(&mut commits, messages);
        // Also if there is no reply: those behind it tell that it was done, too.
        if !bytes.is_empty() || !commits.is_empty() {
            connection.output.push(bytes, commits);
            connection.look_at_output(&self.server.limits);
        }
        self.forget();
        signals.extend(effects.signals);
    }

    /// Those of these that must still become durable before others are told. They are noted, for the log to be asked.
    pub(super) fn note_commits(&mut self, mut commits: Vec<pheap::Commit>) -> Vec<pheap::Commit> {
        if self.server.limits.always.load(Relaxed) {
            commits.retain(|commit| !commit.is_durable());
            self.syncs.note(&commits);
        } else {
            commits.clear();
        }
        commits
    }
}
