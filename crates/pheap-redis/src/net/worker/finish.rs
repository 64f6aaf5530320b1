//! The end of the server: sends the replies to commands that were done.

use std::io;
use std::time::{Duration, Instant};

use mio::Events;

use super::{TICK, WorkerState};
use crate::net::output::SendPause;

/// How long clients have to read their last replies.
const LAST_WORDS: Duration = Duration::from_secs(2);

impl WorkerState<'_> {
    /// Accepts no more clients and reads no more commands. Sends the replies that wait for the disk as soon
    /// as their commits are durable, to each client that reads them in time.
    pub(super) fn finish(&mut self, events: &mut Events) -> io::Result<()> {
        self.listeners.clear();
        let until = Instant::now() + LAST_WORDS;
        loop {
            self.read_mail();
            // The messages that this thread has just read may be about keys for which its clients wait:
            // threads that end later may still have written to such keys. Their commits may need a sync.
            self.syncs.request_sync();
            self.send_messages();
            let mut connections = std::mem::take(&mut self.connections);
            connections.retain(|_, connection| {
                matches!(self.send(connection), Ok(SendPause::NotDurable | SendPause::Full))
            });
            self.connections = connections;
            let left = until.saturating_duration_since(Instant::now());
            if self.connections.is_empty() && self.messages.is_empty() || left.is_zero() {
                return Ok(());
            }
            match self.poll.poll(events, Some(left.min(TICK))) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
    }
}
