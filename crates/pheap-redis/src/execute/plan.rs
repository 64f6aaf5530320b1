//! Plans: which shards a command needs, and whether it changes them.

use smallvec::SmallVec;

use super::Execution;
use crate::command::{Args, Flags, Keys, KnownCommand, resolve, shards_of};
use crate::resp::input::Words;
use crate::scripts::gates::{GatePass, ScriptBusy};
use crate::server::Server;

/// The roots that a command needs, by number: shards, function libraries, replication progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    Nothing,
    Read(usize),
    Change(usize),
    Several(Vec<usize>),
}

impl Plan {
    /// Returns the plan for these shards, which may be in any order and repeated.
    fn of(mut shards: SmallVec<[usize; 8]>, only_looks: bool) -> Plan {
        shards.sort_unstable();
        shards.dedup();
        match *shards {
            [] => Plan::Nothing,
            [one] if only_looks => Plan::Read(one),
            [one] => Plan::Change(one),
            _ => Plan::Several(shards.to_vec()),
        }
    }

    /// Returns the numbers of the shards, in ascending order.
    pub(super) fn shards(&self) -> &[usize] {
        match self {
            Plan::Nothing => &[],
            Plan::Read(shard) | Plan::Change(shard) => std::slice::from_ref(shard),
            Plan::Several(shards) => shards,
        }
    }

    fn only_looks(&self) -> bool {
        matches!(self, Plan::Nothing | Plan::Read(_))
    }

    /// Passes the gates of the shards: shared with other readers if the plan only reads, else exclusively.
    pub(super) fn pass<'s>(&self, server: &'s Server) -> Result<GatePass<'s>, ScriptBusy> {
        server.gates.pass(self.shards().iter().copied(), !self.only_looks(), &server.scripts)
    }
}

impl Execution<'_> {
    pub(super) fn everything(&self) -> Plan {
        Plan::Several((0..self.server.store.shards().len()).collect())
    }

    /// Returns the plan of a command.
    pub(super) fn plan(&self, command: KnownCommand, words: &Args<'_>) -> Plan {
        if command.flags.has(Flags::ALLOW_BUSY) && self.server.scripts.is_busy() {
            // A command with `ALLOW_BUSY` gets no shards while a script is slow, because the script may run
            // on this thread and hold the locks.
            return Plan::Nothing;
        }
        let store = &self.server.store;
        // A write to all shards is a separate transaction even if there is only one shard: `MIGRATE` must not
        // run again because a command behind it has failed.
        let is_wide = match command.keys {
            // A function may change variables of its library, so it must not run again because it needs more
            // shards.
            Keys::Script => command.name.starts_with("fcall") || self.server.scripts.is_wide(words[1]),
            Keys::Perhaps { everything, .. } => !command.only_looks() && everything(words),
            _ => false,
        };
        if is_wide {
            return self.everything();
        }
        let mut shards: SmallVec<[usize; 8]> = SmallVec::new();
        shards_of(store, command.command, words, |shard| {
            shards.push(shard);
            true
        });
        Plan::of(shards, command.only_looks())
    }

    /// Returns one plan for all these commands and the watched keys.
    pub(super) fn plan_all(&self, queue: &[Vec<Vec<u8>>]) -> Plan {
        // Writers set the flag of a watched key in the transaction of the change, with the shard locked. A
        // reader (`Plan::Read`) may run at the same time as a writer, so `EXEC` locks these shards for
        // changes.
        let watched = self.session.watched.keys();
        let mut all: SmallVec<[usize; 8]> = watched.map(|(_, key)| self.server.store.shard_of(key)).collect();
        let mut only_looks = all.is_empty();
        for words in queue {
            let words: Words<'_> = words.iter().map(Vec::as_slice).collect();
            let Ok(command) = resolve(&words) else { continue };
            if matches!(command.keys, Keys::Script | Keys::From(_)) {
                // A script or `SCAN` may turn out to need more shards. The commands before it in the queue
                // must not run twice, so all shards are locked at once.
                all.extend(0..self.server.store.shards().len());
                only_looks = false;
                continue;
            }
            let plan = self.plan(command, &words);
            only_looks &= plan.only_looks();
            all.extend_from_slice(plan.shards());
        }
        Plan::of(all, only_looks)
    }
}
