//! Serves a client: reads and runs its commands, and sends it replies and messages.

use std::collections::VecDeque;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::WorkerState;
use crate::clients::waiting::{Signal, Waiter, Wakeup};
use crate::command::Effects;
use crate::execute::{Execution, Output, Stop};
use crate::net::connection::Connection;
use crate::net::output::SendPause;

/// A round neither begins nor continues a TLS handshake after this time, because each handshake may take
/// milliseconds. The next round continues with the other handshakes.
const GREETINGS: Duration = Duration::from_millis(10);

impl WorkerState<'_> {
    /// Serves each ready client once: first runs the commands of all clients, then sends the replies. Sending
    /// makes the system wake the client's program, which takes longer than many commands. A program that has
    /// many connections can then wake up once for all of them.
    pub(super) fn serve(&mut self) {
        self.round.extend(self.ready.drain(..));
        let begun = Instant::now();
        while let Some(client) = self.round.pop_front() {
            self.with(client, |turn, connection| turn.read_and_run(connection, begun));
            self.heard.push_back(client);
        }
        while let Some(client) = self.heard.pop_front() {
            self.with(client, Self::send_output);
        }
    }

    /// Calls `what` with a client's connection, if this thread has it. Keeps the connection if `what` returns
    /// true; else, or after an error or a panic, disconnects it. Does not call `what` in two cases. A
    /// connection that exceeds a limit is disconnected. A connection that is held until waiting clients have
    /// seen its writes is kept.
    fn with(&mut self, client: u64, what: impl Fn(&mut Self, &mut Connection) -> io::Result<bool>) {
        let Some(mut connection) = self.connections.remove(&client) else { return };
        let result = if connection.is_over || connection.is_held {
            Ok(!connection.is_over)
        } else {
            // A panic in a transaction has rolled it back. A bug in a command therefore costs one connection
            // and not the others.
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

    /// Reads and runs the commands that a client has sent, in a round that began at `begun`. Returns whether
    /// the connection stays.
    fn read_and_run(&mut self, connection: &mut Connection, begun: Instant) -> io::Result<bool> {
        if connection.stream.is_greeting() && begun.elapsed() > GREETINGS {
            // If there is input, `is_readable` is still set, so `send_output` puts the client in the next
            // round.
            return Ok(true);
        }
        if connection.is_readable && !connection.session.closing {
            connection.read(&mut self.buffer, &self.server.traffic[self.number])?;
            connection.check_input_limit(&self.server.options);
            if connection.is_over {
                return Ok(false);
            }
            // A blocked client that has disconnected is removed now, so that it takes no elements that other
            // clients of this round add.
            if connection.is_at_end && connection.blocked.is_some() {
                return self.send_output(connection);
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

    /// Sends a client its output. Returns whether the connection stays.
    fn send_output(&mut self, connection: &mut Connection) -> io::Result<bool> {
        let client = connection.session.id;
        let paused = self.send(connection)?;
        connection.publish();
        connection.check_output_limit(&self.server.options);
        if connection.is_over {
            return Ok(false);
        }
        if paused == SendPause::NotDurable {
            self.not_durable.insert(client);
        }
        if self.missed.remove(&client) {
            // The missed event is not stored, so every kind of event is assumed.
            (connection.is_readable, connection.leaves_room) = (true, true);
        }
        if connection.is_readable && !connection.session.closing {
            self.ready.insert(client);
        }
        let is_told = connection.output.len() == 0 && paused != SendPause::Full;
        let is_done = connection.session.closing && is_told;
        let is_gone = connection.is_at_end && (connection.blocked.is_some() || is_told);
        Ok(!is_done && !is_gone)
    }

    /// Runs the commands that a client has sent. Returns whether the caller must call this function again:
    /// after a write for which other clients wait, it serves these first, and it also stops after replies
    /// that reach the output limit.
    fn run_commands(&mut self, connection: &mut Connection) -> bool {
        let mut signals = VecDeque::new();
        let (mut effects, mut commits, mut counted) = (Effects::default(), Vec::new(), Vec::new());
        connection.limit_reply(&self.server.options);
        let Connection { session, input, reply, .. } = connection;
        (session.input, session.output) = (input.pending(), connection.output.len());
        let output = Output { reply, effects: &mut effects, commits: &mut commits, counted: &mut counted };
        let clock = Instant::now();
        let (server, thread) = (self.server, self.number);
        let stop = Execution { server, session, output, thread, clock, meanwhile: self }.run(input);
        connection.input.tidy();
        self.leave(connection, effects, commits, &mut signals);
        self.syncs.count_writes(&mut counted);
        // After `TooLong`, the limit may be higher, because the client has subscribed to channels.
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

    /// Queues the replies and messages of commands, and collects their signals.
    pub(super) fn leave(
        &mut self,
        connection: &mut Connection,
        mut effects: Effects,
        commits: Vec<pheap::Commit>,
        signals: &mut VecDeque<Signal>,
    ) {
        // All threads share the counter of changes, so it is written only if necessary.
        if effects.dirty > 0 {
            self.server.stats.dirty.fetch_add(effects.dirty, Relaxed);
        }
        let mut commits = self.note_commits(commits);
        let bytes = connection.reply.take();
        let messages = effects.take_parcels(self.server, connection.session.id);
        self.announce(&mut commits, messages);
        // A chunk without bytes is queued too if there are commits: later replies imply that these commands
        // were done.
        if !bytes.is_empty() || !commits.is_empty() {
            connection.output.push(bytes, commits);
            connection.check_output_limit(&self.server.options);
        }
        self.trim_tracking_table();
        signals.extend(effects.signals);
    }

    /// Returns the commits that must be durable before their effects are sent, and notes them for the next
    /// sync. There are none unless `appendfsync` is `always`.
    pub(super) fn note_commits(&mut self, mut commits: Vec<pheap::Commit>) -> Vec<pheap::Commit> {
        if self.server.options.always.load(Relaxed) {
            commits.retain(|commit| !commit.is_durable());
            self.syncs.note_commits(&commits);
        } else {
            commits.clear();
        }
        commits
    }
}
