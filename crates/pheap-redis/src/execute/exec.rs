//! `EXEC`: runs the queued commands as one transaction.

use std::sync::atomic::Ordering::SeqCst;

use super::Execution;
use crate::clients::client::Multi;
use crate::command::{KnownCommand, resolve};
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
        let (server, now) = (self.server, now());
        self.watch_the_time(now);
        let Ok(_passed) = plan.pass(server) else {
            self.server.unwatch(self.session);
            let busy = server.scripts.busy_error();
            return self.error(&format!("EXECABORT Transaction discarded because of: {busy}"));
        };
        let result = self.in_keyspace(server, &plan, |execution, keyspace| {
            // The flag is read with the shards locked, because a writer sets it under the lock of the watched
            // key's shard.
            if execution.session.watched_changed.load(SeqCst) {
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

    /// Marks the watched keys as changed if one of them has expired since `WATCH`, whether it was removed or
    /// not.
    pub(super) fn watch_the_time(&mut self, now: i64) {
        for ((db, key), was_over) in &self.session.watched {
            if *was_over || self.session.watched_changed.load(SeqCst) {
                continue;
            }
            let (server, store) = (self.server, &self.server.store);
            // A slow script holds the gate, so the key is skipped. If the script is still slow when `EXEC`
            // passes the gates, `EXEC` is refused.
            let Ok(_passed) = server.gates.pass([store.shard_of(key)], false, &server.scripts) else {
                continue;
            };
            let is_over = store.root(store.shard_of(key)).read_deferred(|view, root| {
                let deadline = view[view[root].dbs.at(view, *db)].deadline(view, key);
                deadline.is_some_and(|deadline| deadline <= now)
            });
            // An error is ignored: if the heap has failed, the transaction fails, too.
            if let Ok((true, commit)) = is_over {
                self.session.watched_changed.store(true, SeqCst);
                self.output.commits.push(commit);
            }
        }
    }
}
