//! The server as a replica: which commands it refuses to clients, and how it runs the commands of its master.

use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

use super::plan::Plan;
use super::{Execution, wants_more_shards};
use crate::command::{Args, Flags, Keyspace, KnownCommand, resolve};
use crate::data::{Db, P, Position, Progress, Txn};
use crate::resp::input::Words;
use crate::scripts::gates::ScriptBusy;
use crate::server::{LOADING, MASTER_DOWN, READONLY, now};
use crate::text::words::lossy;

/// The most refused commands that are reported for one part of the master's stream.
const MAX_REPORTED: usize = 10;

/// A record for the heap, written in the transaction that runs a part of the master's stream.
#[derive(Debug)]
pub enum Note {
    /// The commands up to this position have been run.
    Position(Position),
    /// The full copy of the master's data is complete, as of this position.
    Complete(Position),
    /// The old data are gone, and a full copy of the master's data begins or goes on.
    Begin,
    /// The full copy was broken off, and its data are gone.
    Nothing,
}

/// Why a part of the master's stream was not run.
#[derive(Debug, thiserror::Error)]
pub enum Unfollowed {
    /// The server follows another master or none, or is being stopped.
    #[error("another master is followed")]
    Left,
    /// A `SELECT` failed, so the next commands would run in the wrong database.
    #[error(
        "it selects a database that this server does not have ({0}); set `databases` to more, 16 at most"
    )]
    Database(String),
    /// The transaction has failed.
    #[error(transparent)]
    Heap(#[from] pheap::Error),
}

impl Execution<'_> {
    /// Returns why this server, as a replica, refuses a command to a client, if it does. The master is
    /// refused nothing.
    pub(super) fn refused_as_replica(&self, known: KnownCommand) -> Option<&'static str> {
        let (role, is_exec) = (&self.server.role, known.name == "exec");
        if !role.is_replica() || self.session.is_master {
            return None;
        }
        let has =
            |flag| known.flags.has(flag) || is_exec && self.has_queued(|known, _| known.flags.has(flag));
        let lacks =
            |flag| !known.flags.has(flag) || is_exec && self.has_queued(|known, _| !known.flags.has(flag));
        if self.server.is_read_only() && has(Flags::WRITE) {
            return Some(READONLY);
        }
        if self.server.is_stale() && lacks(Flags::STALE) {
            return Some(MASTER_DOWN);
        }
        (role.is_loading() && lacks(Flags::LOADING)).then_some(LOADING)
    }

    /// Runs a part of the master's stream and records `note`, as one transaction. `MULTI` and its `EXEC` must
    /// be in the same part. Returns some texts about commands that were refused; the master has run these, so
    /// that should not happen. (Redis goes on, too.)
    ///
    /// # Errors
    /// If the server has left this master, a `SELECT` has failed, or the transaction has failed. Then nothing
    /// was run and nothing was recorded, except perhaps with `pheap::Error::OutcomeUnknown`.
    pub fn run_master_stream(
        &mut self,
        commands: &[Vec<Vec<u8>>],
        note: &Note,
        generation: u64,
    ) -> Result<Vec<String>, Unfollowed> {
        let (server, now) = (self.server, now());
        let root = server.store.shards().len() + 1;
        let mut numbers = self.plan_all(commands).shards().to_vec();
        if numbers.last() != Some(&root) {
            numbers.push(root);
        }
        let is_left = || server.role.generation() != generation || server.stopping.load(Acquire);
        // The pass is exclusive, as for a client's write: a reader beside this transaction would see the old
        // value, and begin to wait for the key, or to track it, after the waiting and tracking clients were
        // looked up.
        let _passed = loop {
            match server.gates.pass(numbers.iter().copied(), true, &server.scripts) {
                Ok(passed) => break passed,
                Err(ScriptBusy) if is_left() => return Err(Unfollowed::Left),
                Err(ScriptBusy) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let plan = Plan::Several(numbers);
        let was_loading = server.role.is_loading();
        let (mut refused, mut reason) = (Vec::new(), None);
        let result = self.in_keyspace(server, &plan, |execution, keyspace| {
            if is_left() {
                reason = Some(Unfollowed::Left);
                return Err(pheap::Error::Aborted("".into()));
            }
            for words in commands {
                let words: Words<'_> = words.iter().map(Vec::as_slice).collect();
                let Err(error) = execution.run_for_master(&words, keyspace, now)? else { continue };
                if words[0].eq_ignore_ascii_case(b"select") {
                    reason = Some(Unfollowed::Database(error));
                    return Err(pheap::Error::Aborted("".into()));
                }
                if refused.len() < MAX_REPORTED {
                    refused.push(format!("'{}': {error}", lossy(words[0])));
                }
            }
            let (mut written, selected) = (Ok(()), execution.session.db);
            keyspace.write(root, &mut |tx, shard| {
                let db = tx[shard].dbs.at(tx, 0);
                written = note.write(tx, db, selected);
            });
            written?;
            match note {
                Note::Begin => server.role.set_loading(true),
                Note::Complete(_) | Note::Nothing => server.role.set_loading(false),
                Note::Position(_) => {}
            }
            Ok(())
        });
        if let Err(error) = result {
            debug_assert!(!wants_more_shards(&error), "scripts have them all");
            // The flag is restored, because the commit may have failed after it was set.
            server.role.set_loading(was_loading);
            return Err(reason.unwrap_or(Unfollowed::Heap(error)));
        }
        Ok(refused)
    }

    /// Runs a command of the master. The inner error is the text of the error reply that a client would get.
    fn run_for_master(
        &mut self,
        words: &Args<'_>,
        keyspace: &mut dyn Keyspace,
        now: i64,
    ) -> pheap::Result<Result<(), String>> {
        let command = match resolve(words) {
            // `MULTI` and `EXEC` have no effect here, because the whole part is one transaction.
            Ok(known) if ["multi", "exec"].contains(&known.name) => return Ok(Ok(())),
            Ok(known) => known,
            Err(refused) => return Ok(Err(refused.error)),
        };
        let mark = self.output.reply.len();
        let blocked = self.call(command, words, keyspace, now, false)?;
        debug_assert!(blocked.is_none(), "{} has not looked at `may_block`", command.name);
        let result = match self.output.reply.bytes_since(mark) {
            [b'-', text @ ..] => Err(lossy(text.trim_ascii_end()).into_owned()),
            _ => Ok(()),
        };
        self.output.reply.truncate(mark);
        Ok(result)
    }
}

impl Note {
    /// Writes the note to the heap. `selected` is the database that the stream has selected.
    fn write<'r>(&self, tx: &mut Txn<'r>, db: P<'r, Db<'r>>, selected: usize) -> pheap::Result<()> {
        let position = match self {
            Note::Position(position) | Note::Complete(position) => {
                Some(Position { db: selected, ..position.clone() })
            }
            Note::Begin | Note::Nothing => None,
        };
        if let (Note::Position(_), Some(position)) = (self, &position) {
            return position.write(tx, db);
        }
        let is_partial = matches!(self, Note::Begin);
        Progress { is_partial, position, left: None }.write(tx, db)
    }
}
