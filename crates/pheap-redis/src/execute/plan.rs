//! Which shards a command needs.

use smallvec::SmallVec;

use super::Execution;
use crate::command::{Args, Flags, Keys, Known, resolve, shards_of};
use crate::resp::input::Words;
use crate::scripts::gates::{Busy, Passed};
use crate::server::Server;

/// Which shards a command needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    Nothing,
    Read(usize),
    Change(usize),
    Several(Vec<usize>),
}

impl Plan {
    /// One for these shards, in any order.
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

    /// Its shards, in ascending order.
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

    /// Passes the gates of its shards.
    pub(super) fn pass<'s>(&self, server: &'s Server) -> Result<Passed<'s>, Busy> {
        server.gates.pass(self.shards().iter().copied(), !self.only_looks(), &server.scripts)
    }
}

impl Execution<'_> {
    pub(super) fn everything(&self) -> Plan {
        Plan::Several((0..self.server.store.shards().len()).collect())
    }

    /// Which shards a command needs.
    pub(super) fn plan(&self, command: Known, words: &Args<'_>) -> Plan {
        if command.flags.has(Flags::ALLOW_BUSY) && self.server.scripts.is_busy() {
            // It was allowed for it needs none; a slow script of this thread may have them locked.
            return Plan::Nothing;
        }
        let store = &self.server.store;
        if matches!(command.keys, Keys::Script) && self.server.scripts.is_wide(words[1]) {
            return self.everything();
        }
        let mut shards: SmallVec<[usize; 8]> = SmallVec::new();
        shards_of(store, command.command, words, |shard| {
            shards.push(shard);
            true
        });
        Plan::of(shards, command.only_looks())
    }

    /// The shards that any of these commands needs, and those of watched keys.
    pub(super) fn plan_all(&self, queue: &[Vec<Vec<u8>>]) -> Plan {
        // Who writes to a watched key says so while he has its shard locked, and before that has happened: so it is known only to who has it locked as well, and is not beside him as one who reads.
        let watched = self.session.watched.keys();
        let mut all: SmallVec<[usize; 8]> = watched.map(|(_, key)| self.server.store.shard_of(key)).collect();
        let mut only_looks = all.is_empty();
        for words in queue {
            let words: Words<'_> = words.iter().map(Vec::as_slice).collect();
            let Ok(command) = resolve(&words) else { continue };
            if matches!(command.keys, Keys::Script | Keys::From(_)) {
                // How many shards it needs is not known, and what was done before it is not to be done again.
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
