//! The server is to stop: what was done is still told.

use std::io;
use std::time::{Duration, Instant};

use mio::Events;

use super::{TICK, Turn};
use crate::net::output::Paused;

/// How long clients have to read what they are still told.
const LAST_WORDS: Duration = Duration::from_secs(2);

impl Turn<'_> {
    /// Nobody can connect any more, and nothing that clients send is done. What waits for the disk is answered when it is durable, as far as clients read that soon.
    pub(super) fn finish(&mut self, events: &mut Events) -> io::Result<()> {
        self.listeners.clear();
        let until = Instant::now() + LAST_WORDS;
        loop {
            self.read_mail();
            // Others, which end a little later, may have written what clients of this thread wait for.
            self.syncs.ask();
            self.send_messages();
            let mut connections = std::mem::take(&mut self.connections);
            connections.retain(|_, connection| {
                matches!(self.send(connection), Ok(Paused::NotDurable | Paused::Full))
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
