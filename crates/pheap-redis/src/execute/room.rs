//! Makes room for a command if the data exceed `maxmemory`, by eviction.

use super::Execution;
use crate::execute::evict::{EvictionResult, make_room};

impl Execution<'_> {
    /// Evicts keys if the data exceed `maxmemory`. If they still do and no key may be evicted, commands that
    /// need memory are refused.
    pub(super) fn make_room(&mut self) {
        let memory = &self.server.memory;
        if memory.excess() == 0 {
            self.session.out_of_memory = false;
            return memory.set_exceeded(false);
        }
        let before = self.output.effects.stale.notices.len();
        let room = make_room(self.server, self.output.effects, self.output.commits);
        // If the heap has failed, the command reports it.
        let room = room.unwrap_or(EvictionResult::Later);
        memory.set_exceeded(room != EvictionResult::Enough);
        self.session.out_of_memory = room == EvictionResult::None;
        // The client's own notices go before the reply: the reply may contain the new value of an evicted
        // key.
        let notices = &mut self.output.effects.stale.notices;
        if notices.len() > before {
            let own = notices.extract_if(before.., |(to, _)| *to == self.session.id).collect::<Vec<_>>();
            own.into_iter().for_each(|(_, notice)| notice.write(self.session, self.output.reply));
        }
    }

    /// Accounts for a transaction over these shards that made `changes` changes.
    pub(super) fn count_changes(&self, shards: &[usize], changes: u64) {
        let memory = &self.server.memory;
        if memory.limit() > 0 {
            shards.iter().for_each(|&shard| memory.count_changes(&self.server.store, shard, changes));
        }
    }
}
