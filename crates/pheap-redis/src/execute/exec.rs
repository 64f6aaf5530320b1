//! `EXEC`: runs the queued commands as one transaction.

use std::sync::atomic::Ordering::SeqCst;

use super::Execution;
use crate::clients::client::Multi;
use crate::command::{Keyspace, KnownCommand, resolve};
use crate::resp::input::Words;
use crate::server::now;

impl Execution<'_> {
    /// Runs the queued commands as one transaction, or discards them.
    pub(super) fn exec(&mut self, known: KnownCommand) {
        self.session.last_command = known.command.name;
        let Some(Multi { queue, refused, .. }) = self.session.multi.take() else {
            return self.error("ERR EXEC without MULTI");
        };
        if refused {
            self.server.unwatch(self.session);
            self.error("EXECABORT Transaction discarded because of previous errors.");
            self.tell_monitors(known, &[b"exec"]);
            return self.ended(known, &[b"exec"], true);
        }
        let plan = self.plan_all(&queue);
        let server = self.server;
        let Ok(_passed) = plan.pass(server) else {
            self.server.unwatch(self.session);
            let busy = server.scripts.busy_error();
            return self.error(&format!("EXECABORT Transaction discarded because of: {busy}"));
        };
        let result = self.in_keyspace(server, &plan, |execution, keyspace| {
            // The thread may have waited for the shards.
            let now = now();
            // The flag is read with the shards locked, because a writer sets it under the lock of the watched
            // key's shard.
            if execution.session.watched_changed.load(SeqCst) || execution.has_watched_expired(keyspace, now)
            {
                execution.output.reply.null_array();
                return Ok(());
            }
            execution.server.unwatch(execution.session);
            execution.output.reply.array(queue.len());
            for words in &queue {
                let words: Words<'_> = words.iter().map(Vec::as_slice).collect();
                match resolve(&words) {
                    Ok(command) => {
                        let blocked = execution.call(command, &words, keyspace, now, false)?;
                        debug_assert!(blocked.is_none(), "{} has not looked at `may_block`", command.name);
                    }
                    Err(refused) => execution.error(&refused.error),
                }
            }
            Ok(())
        });
        if let Err(error) = &result {
            self.heap_error(error);
        }
        self.server.unwatch(self.session);
        self.tell_monitors(known, &[b"exec"]);
        self.session.last_command = known.command.name;
        self.ended(known, &[b"exec"], result.is_err());
    }

    /// Returns whether a watched key has expired since `WATCH`, whether it was removed or not. `keyspace` has
    /// the shards of the watched keys.
    fn has_watched_expired(&self, keyspace: &mut dyn Keyspace, now: i64) -> bool {
        self.session.watched.iter().any(|((db, key), was_over)| {
            let mut is_over = false;
            keyspace.read(self.server.store.shard_of(key), &mut |view, root| {
                let deadline = view[view[root].dbs.at(view, *db)].deadline(view, key);
                is_over = deadline.is_some_and(|deadline| deadline <= now);
            });
            is_over && !was_over
        })
    }
}
