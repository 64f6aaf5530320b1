//! Statistics of commands, `SLOWLOG`, `LATENCY`, `MONITOR`, and the keys that a client may have cached.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::Execution;
use crate::command::{Args, Flags, Group, Keys, KnownCommand, hidden, monitor_line};
use crate::data::Lookups;
use crate::server::now;

impl Execution<'_> {
    /// Registers the client for invalidation notices about the keys that the command has read, if the client
    /// may keep copies of them.
    pub(super) fn remember(&mut self, known: KnownCommand, words: &Args<'_>) {
        // The reads of a script are registered while the script runs. `WATCH` reads no value.
        let reads = known.flags.has(Flags::READONLY)
            && !matches!(known.keys, Keys::Script)
            && known.group != Group::Transactions;
        if reads && self.session.keeps_copies() {
            let keys = known.keys(words).into_iter().map(|at| words[at]);
            self.server.tracking.remember(self.session.id, keys);
        }
    }

    /// Records the end of a command: number of calls, time, failures, `SLOWLOG` and `LATENCY`, and the
    /// lookups of a command that only reads.
    pub(super) fn ended(&mut self, known: KnownCommand, words: &Args<'_>, has_failed: bool) {
        let ended = Instant::now();
        let took = ended - self.clock;
        self.clock = ended;
        let counts = self.server.counts(self.thread, known.number);
        counts.call(took.as_nanos() as u64, has_failed);
        if known.flags.has(Flags::READONLY) {
            counts.look_up(Lookups::take());
        }
        let limits = &self.server.options;
        let (slow, slow_event) = (limits.slow.load(Relaxed), limits.latency.load(Relaxed));
        if slow >= 0 && took.as_micros() >= slow as u128 && !known.flags.has(Flags::SKIP_SLOWLOG) {
            let (profile, most) = (&self.session.profile, self.server.config.read().int("slowlog-max-len"));
            tracing::debug!("{} of {} took {} ms", known.name, profile.addresses[0], took.as_millis());
            let client = (profile.addresses[0].as_str(), &profile.state.lock().name[..]);
            let hidden = hidden(known.name, words);
            let shown = |(at, word)| if hidden.contains(&at) { &b"(redacted)"[..] } else { word };
            let words = words.iter().copied().enumerate().map(shown);
            self.server.slowlog.add(now() / 1000, took, words, client, most as usize);
        }
        if slow_event > 0 && took.as_millis() >= slow_event as u128 {
            let event = if known.flags.has(Flags::FAST) { "fast-command" } else { "command" };
            self.server.latency.add(event, now() / 1000, took.as_millis() as u64);
        }
    }

    /// Adds messages about the command for the clients that run `MONITOR`, unless they may not see it.
    pub(super) fn tell_monitors(&mut self, known: KnownCommand, words: &Args<'_>) {
        const HIDDEN: Flags = Flags::SKIP_MONITOR.and(Flags::ADMIN);
        // A command that runs a script is shown nevertheless, before the commands of the script.
        let is_hidden = known.flags.has(HIDDEN) && !matches!(known.keys, Keys::Script);
        if self.server.options.monitors.load(Relaxed) == 0 || is_hidden {
            return;
        }
        let line = monitor_line(self.session.db, &self.session.profile.addresses[0], known.name, words);
        self.output.effects.send_to_monitors(self.server, &line);
    }
}
