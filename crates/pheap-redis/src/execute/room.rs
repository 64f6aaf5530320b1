//! Makes room for a command if the data exceed `maxmemory`, by eviction and by collecting garbage.

use super::Execution;
use crate::execute::evict::{EvictionResult, make_room};

impl Execution<'_> {
    /// Makes room if the data exceed `maxmemory`. If no key may be evicted and no garbage can be collected at
    /// once, commands that need memory are refused.
    pub(super) fn make_room(&mut self) {
        let memory = &self.server.memory;
        if memory.excess() == 0 {
            self.session.out_of_memory = false;
            return memory.set_exceeded(false);
        }
        let before = self.output.effects.stale.notices.len();
        let room = make_room(self.server, self.output.effects, self.output.commits);
        // An error is ignored: if the heap has failed, the command reports it.
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

    /// Accounts for a transaction over these shards that made `changes` changes, if the memory is limited.
    pub(super) fn count_changes(&self, shards: &[usize], changes: u64) {
        let memory = &self.server.memory;
        if memory.limit() > 0 {
            shards.iter().for_each(|&shard| memory.count_changes(&self.server.store, shard, changes));
        }
    }
}
