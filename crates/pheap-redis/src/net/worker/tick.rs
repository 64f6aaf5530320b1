//! Periodic work, such as expiring and evicting keys (the first thread), and disconnecting idle clients (each
//! thread).

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::{TICK, WorkerState};
use crate::clients::waiting::Wakeup;
use crate::command::Effects;
use crate::execute::evict::{EvictionResult, make_room};
use crate::net::connection::Connection;

/// After this time, a tick begins no further turn of removing expired keys.
const EXPIRY: Duration = Duration::from_millis(25);

impl WorkerState<'_> {
    /// Enlarges the table of usage times if the heap has more objects than at the last call.
    fn make_places(&self) {
        if self.server.clocks.is_on() {
            let objects = self.server.store.shards().iter().map(|root| root.live().objects).sum();
            self.server.clocks.grow_for(objects);
        }
    }

    /// Evicts keys if memory is short. Removes expired keys if `expire`. Does nothing on a replica or while
    /// clients are paused.
    fn remove_keys(&mut self, expire: bool) {
        // A replica leaves the removal of keys to its master. While clients are paused, the data must not
        // change.
        if self.server.paused().is_some() || self.server.role.is_replica() {
            self.evicts = false;
            return;
        }
        let (mut effects, mut commits) = (Effects::default(), Vec::new());
        let before = self.server.stats.evicted.load(Relaxed);
        // An error is ignored: if the heap has failed, the next write replies with the error.
        let room = make_room(self.server, &mut effects, &mut commits);
        // If no key was removed, trying again at once does not help: for example, the collector has to work
        // first.
        let has_removed = self.server.stats.evicted.load(Relaxed) > before;
        self.evicts = has_removed && matches!(room, Ok(EvictionResult::Later));
        if expire {
            let began = Instant::now();
            let _ = self.expiry.run(self.server, began + EXPIRY, &mut effects, &mut commits);
            let took = began.elapsed().as_micros() as u64;
            self.server.stats.expiring.fetch_add(took, Relaxed);
        }
        let messages = effects.take_parcels(self.server, 0);
        let mut commits = self.note_commits(commits);
        self.announce(&mut commits, messages);
        self.send_messages();
        let wake = Wakeup { signals: effects.signals.into_iter().collect(), ..Wakeup::default() };
        if !wake.signals.is_empty() {
            self.wake_waiters(wake);
        }
    }

    /// Does the periodic work of a thread, if it is time: for example, accepts clients that had to wait,
    /// checks the output limits, and disconnects idle clients. The first thread also does that of the whole
    /// server: for example, expires and evicts keys, samples statistics, and disconnects clients that need
    /// too much memory. If an eviction should continue, it continues in each call.
    pub(super) fn tick(&mut self) {
        let is_time = self.last_tick.elapsed() >= TICK;
        if self.number == 0 && (is_time || self.evicts) {
            self.remove_keys(is_time && self.server.options.expires.load(Relaxed));
        }
        if !is_time {
            return;
        }
        self.last_tick = Instant::now();
        self.deaf.clone().into_iter().for_each(|listener| self.accept(listener));
        if self.number == 0 {
            self.server.sample();
            self.trim_tracking_table();
            self.make_places();
            self.server.evict_clients();
        }
        for (client, connection) in &mut self.connections {
            if connection.output.len() > 0 {
                connection.check_output_limit(&self.server.options);
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
                    tracing::debug!("{} was closed: it was silent for {timeout} s", connection.stream);
                    self.disconnect(connection);
                }
            }
        }
    }
}
