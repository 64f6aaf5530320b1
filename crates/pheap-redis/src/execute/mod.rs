//! Runs commands, in transactions and reads of the heap.
//!
//! The commands of one client run in order. Consecutive commands that may change the same single shard can
//! form one transaction, so they share one commit. `EXEC`, and a command with keys in several shards, lock
//! all these shards in one transaction.
//!
//! This module does not wait until commits are durable. Each transaction leaves a [`Commit`]. If
//! `appendfsync` is `always`, the client's replies are held back until that commit is durable. A read leaves
//! the commit of the state that it has seen, too, unless no write to its keys can be unsynced.

mod admit;
pub mod evict;
mod exec;
pub mod expire;
mod observe;
mod plan;
mod replica;
mod room;
#[cfg(test)]
mod waits_tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use pheap::{Commit, Root};

use self::admit::Admitted;
use self::plan::Plan;
pub use self::replica::{Note, Unfollowed};
use crate::clients::client::{Replies, Session};
use crate::clients::unsynced::Counted;
use crate::command::{
    Args, Block, Cx, Effects, Fail, Flags, Keyspace, KnownCommand, Meanwhile, NoShards, OneRead, OneTxn,
    SeveralShards, load_libraries, lookup, resolve,
};
use crate::data::{Lookups, Shard, explained};
use crate::resp::Reply;
use crate::resp::input::Input;
use crate::resp::request::RequestLimits;
use crate::scripts::gates::ScriptBusy;
use crate::server::{Server, now};
use crate::text::words::lossy;

/// State to return to if a command fails: length of the reply, [`Effects::savepoint`], the client's reply
/// mode, its database.
type Savepoint = (usize, (usize, usize, u64), Replies, usize);

/// The condition that a blocked command waits for, and its arguments.
type BlockedCommand = (Block, Vec<Vec<u8>>);

/// Why the loop over a client's commands stops.
#[derive(Debug)]
pub enum Stop {
    /// The input contains no further complete command.
    Nothing,
    /// A key for which other clients wait was written to. The waiting clients are served before this client
    /// goes on.
    Signals,
    /// The client waits for a key, with this command.
    Blocked(Block, Vec<Vec<u8>>),
    /// The next command must wait, because clients are paused (`CLIENT PAUSE`).
    Paused,
    /// The replies reach the limit of the client's output.
    TooLong,
    /// The connection has to be closed, for example after malformed input or `QUIT`. The rest of the input is
    /// ignored.
    Closing,
}

/// Where commands put their results.
pub struct Output<'o> {
    /// Replies to the client.
    pub reply: &'o mut Reply,
    /// Effects on other clients: signals, messages, notices.
    pub effects: &'o mut Effects,
    /// Commits of the transactions and reads. With `appendfsync always`, the replies wait for them.
    pub commits: &'o mut Vec<Commit>,
    /// Writes of this client that were counted in [`Unsynced`](crate::clients::unsynced::Unsynced), for the
    /// caller to uncount.
    pub counted: &'o mut Counted,
}

/// Runs the commands of one client, or of a master.
pub struct Execution<'e> {
    /// State shared by all clients.
    pub server: &'e Server,
    /// The client, or the session of the link to a master.
    pub session: &'e mut Session,
    /// Where the commands put their results.
    pub output: Output<'e>,
    /// Number of the thread, under which its commands are counted.
    pub thread: usize,
    /// When the previous command ended, or this run began; the start of the measured time of the next
    /// command.
    pub clock: Instant,
    /// Serves other clients while a script is slow.
    pub meanwhile: &'e mut dyn Meanwhile,
}

impl Execution<'_> {
    /// Runs the commands in `input` until one of the reasons in [`Stop`] applies.
    pub fn run(&mut self, input: &mut Input) -> Stop {
        // An input position, set after the rollback of a transaction of several commands: commands before it
        // run alone.
        let mut alone_until = 0;
        // The command because of which the last transaction ended, and its plan, so that they need not be
        // found again.
        let mut next = None;
        loop {
            let limits = self.limits();
            match input.is_ready(limits) {
                Ok(true) => {}
                Ok(false) => return Stop::Nothing,
                Err(malformed) => {
                    self.error(&format!("ERR {malformed}"));
                    self.session.closing = true;
                    return Stop::Closing;
                }
            }
            let words = input.words();
            if words.is_empty() {
                drop(words);
                input.consume();
                continue;
            }
            self.make_room();
            let mark = self.output.reply.len();
            let (known, plan) = next.take().map_or((None, None), |(known, plan)| (Some(known), Some(plan)));
            let blocked = match self.admit(known, &words) {
                Admitted::Paused => return Stop::Paused,
                Admitted::Refused(_) if is_of_http(words[0]) => {
                    tracing::warn!("a request of HTTP was refused: somebody may attack through a browser");
                    self.session.closing = true;
                    return Stop::Closing;
                }
                Admitted::Refused(refused) => {
                    self.refuse(&refused);
                    self.session.caching &= self.session.multi.is_some();
                    None
                }
                Admitted::Queue(known) => {
                    self.session.last_command = known.command.name;
                    self.queue(&words);
                    None
                }
                Admitted::Exec(known) => {
                    self.exec(known);
                    None
                }
                Admitted::Run(command) => match plan.unwrap_or_else(|| self.plan(command, &words)) {
                    Plan::Change(shard) => {
                        let is_alone = input.start() < alone_until;
                        drop(words);
                        match self.run_in_a_row(input, command, shard, is_alone, &mut next) {
                            Ok(Some((block, words))) => return Stop::Blocked(block, words),
                            Ok(None) => {}
                            Err(tried_until) => alone_until = tried_until,
                        }
                        match self.stop() {
                            Some(stop) => return stop,
                            None => continue,
                        }
                    }
                    plan => self.run_one(command, &words, &plan).unwrap_or_else(|ScriptBusy| {
                        self.error(self.server.scripts.busy_error());
                        None
                    }),
                },
            };
            let blocked = blocked.map(|block| (block, owned(&words)));
            drop(words);
            if let Some((block, words)) = blocked {
                input.consume();
                return Stop::Blocked(block, words);
            }
            self.finish_command(mark);
            input.consume();
            if let Some(stop) = self.stop() {
                return stop;
            }
        }
    }

    /// Writes the pending notices about the client's own changes. Returns why the loop over the client's
    /// commands must stop, if it must.
    fn stop(&mut self) -> Option<Stop> {
        self.tell_itself();
        if self.output.reply.is_too_long() {
            Some(Stop::TooLong)
        } else if self.session.closing {
            Some(Stop::Closing)
        } else {
            (!self.output.effects.signals.is_empty()).then_some(Stop::Signals)
        }
    }

    /// Runs a blocked command again. `words` may have fewer keys than the client sent. Returns the new
    /// condition if the command still waits, or `None` if it was answered.
    ///
    /// # Errors
    /// If a gate is held and a script is slow. The caller must try again when the script has ended.
    pub fn retry(&mut self, words: &Args<'_>) -> Result<Option<Block>, ScriptBusy> {
        let Ok(command) = resolve(words) else { return Ok(None) };
        let mark = self.output.reply.len();
        let plan = self.plan(command, words);
        self.session.resumes = true;
        let blocked = self.run_one(command, words, &plan);
        self.session.resumes = false;
        let blocked = blocked?;
        if blocked.is_none() {
            self.finish_command(mark);
            self.tell_itself();
        }
        Ok(blocked)
    }

    fn limits(&self) -> RequestLimits {
        let bulk = self.server.options.bulk.load(Relaxed);
        RequestLimits { bulk, authenticated: self.session.authenticated }
    }

    /// Ends a command: resets `CLIENT CACHING`, except after a `CLIENT` subcommand and in a transaction, and
    /// removes the reply from `mark` on if `CLIENT REPLY` suppresses it.
    fn finish_command(&mut self, mark: usize) {
        if self.session.caching
            && self.session.multi.is_none()
            && !self.session.last_command.starts_with("client|")
        {
            self.session.caching = false;
        }
        match self.session.replies {
            Replies::On => return,
            Replies::Off => {}
            Replies::SkipNext => self.session.replies = Replies::Skip,
            Replies::Skip => self.session.replies = Replies::On,
        }
        // Confirmations of e.g. `SUBSCRIBE` are messages, not replies, so they are sent in any case.
        if !lookup(self.session.last_command.as_bytes()).is_some_and(|known| known.flags.has(Flags::UNASKED))
        {
            self.output.reply.truncate(mark);
        }
    }

    /// Writes the invalidation notices for keys that the client has changed itself, after its reply. If the
    /// client redirects its notices, adds them to the effects instead.
    fn tell_itself(&mut self) {
        if self.output.effects.stale.own.is_empty() {
            return;
        }
        for key in std::mem::take(&mut self.output.effects.stale.own) {
            match self.server.tracking.own(&self.server.clients, self.session.id, key) {
                Some((to, notice)) if to == self.session.id => notice.write(self.session, self.output.reply),
                Some(other) => self.output.effects.stale.notices.push(other),
                None => {}
            }
        }
    }

    /// Runs the first command of `input`, which may change `shard`, and following commands that may change
    /// the same shard, as one transaction. The row ends early if `is_alone`, if memory is short, or if other
    /// work must come before the next command. If the row ends because the next command has another plan or
    /// does not write, stores that command and its plan in `next`, except a command with `ALLOW_BUSY`.
    ///
    /// If a transaction of several commands fails, returns as the error the input position up to which each
    /// command must run alone. If a single script needs more shards, returns the position of the script.
    fn run_in_a_row(
        &mut self,
        input: &mut Input,
        mut command: KnownCommand,
        shard: usize,
        is_alone: bool,
        next: &mut Option<(KnownCommand, Plan)>,
    ) -> Result<Option<BlockedCommand>, usize> {
        let (start, mark, mut count, now) = (input.start(), self.output.reply.len(), 0, now());
        let (server, plan) = (self.server, Plan::Change(shard));
        let Ok(_passed) = plan.pass(server) else {
            self.error(server.scripts.busy_error());
            self.finish_command(mark);
            input.consume();
            return Ok(None);
        };
        let result = self.in_keyspace(server, &plan, |execution, keyspace| {
            loop {
                let words = input.words();
                let mark = execution.output.reply.len();
                count += 1;
                if let Some(block) = execution.call(command, &words, keyspace, now, true)? {
                    let owned = owned(&words);
                    drop(words);
                    input.consume();
                    return Ok(Some((block, owned)));
                }
                drop(words);
                execution.finish_command(mark);
                input.consume();
                let somebody_waits = !execution.output.effects.signals.is_empty();
                if is_alone
                    || !execution.output.effects.stale.own.is_empty()
                    || execution.output.reply.is_too_long()
                    || somebody_waits
                    || server.memory.excess() > 0
                    || execution.session.closing
                    || !input.is_ready(execution.limits()).unwrap_or(false)
                {
                    return Ok(None);
                }
                let words = input.words();
                if words.is_empty() || execution.session.multi.is_some() {
                    return Ok(None);
                }
                let Ok(known) = resolve(&words) else { return Ok(None) };
                let needs = execution.plan(known, &words);
                if !known.flags.has(Flags::WRITE.and(Flags::MAY_REPLICATE)) || needs != plan {
                    // A command with `ALLOW_BUSY` has another plan while a script is slow, so the plan is not
                    // kept.
                    *next = (!known.flags.has(Flags::ALLOW_BUSY)).then_some((known, needs));
                    return Ok(None);
                }
                command = known;
            }
        });
        result.or_else(|error| {
            *next = None;
            if count > 1 {
                let tried_until = input.start() + 1;
                input.rewind_to(start);
                return Err(tried_until);
            }
            if wants_more_shards(&error) {
                // The command runs again, with a plan over all shards.
                return Err(start);
            }
            self.heap_error(&error);
            self.finish_command(mark);
            input.consume();
            Ok(None)
        })
    }

    /// Runs one command. Returns the condition if it waits for a key; otherwise the command was answered. If
    /// a gate is held and a script is slow, the command has not run.
    fn run_one(
        &mut self,
        command: KnownCommand,
        words: &Args<'_>,
        plan: &Plan,
    ) -> Result<Option<Block>, ScriptBusy> {
        let (server, now) = (self.server, now());
        let mut run = |plan: &Plan| {
            let _passed = plan.pass(server)?;
            Ok(self.in_keyspace(server, plan, |execution, keyspace| {
                execution.call(command, words, keyspace, now, true)
            }))
        };
        let result = match run(plan)? {
            Err(error) if wants_more_shards(&error) => {
                run(&Plan::Several((0..server.store.shards().len()).collect()))?
            }
            result => result,
        };
        let is_durable = self.output.commits.last().is_none_or(Commit::is_durable);
        if !is_durable && command.only_looks() && *plan != Plan::Nothing && result.is_ok() {
            // The reply need not wait for the commit that the read has seen, if no write to the keys of the
            // read is unsynced.
            let has_seen = |keys: &[&[u8]]| keys.iter().any(|key| server.unsynced.is_unsynced(key));
            if command.all_keys(words).is_some_and(|keys| !has_seen(&keys)) {
                self.output.commits.pop();
            }
        }
        Ok(result.unwrap_or_else(|error| {
            self.heap_error(&error);
            None
        }))
    }

    /// Calls `f` with the shards of a plan, in one transaction or read. If `f` or the commit fails, or `f`
    /// panics, the transaction is rolled back, and the replies and effects of `f` are removed, except
    /// invalidation notices.
    fn in_keyspace<R>(
        &mut self,
        server: &Server,
        plan: &Plan,
        f: impl FnOnce(&mut Self, &mut dyn Keyspace) -> pheap::Result<R>,
    ) -> pheap::Result<R> {
        let mark = self.savepoint();
        let result =
            catch_unwind(AssertUnwindSafe(|| self.in_shards(server, plan, f))).unwrap_or_else(|_| {
                tracing::error!(
                    "`{}` has panicked, which is a bug of this server, and was rolled back",
                    self.session.last_command
                );
                Err(pheap::Error::Aborted(PANICKED.into()))
            });
        if result.is_err() {
            self.roll_back_to(mark);
            // Libraries of functions that `f` loaded are outside the heap, so the rollback does not remove
            // them.
            if server.libraries.are_unsure() {
                // An error is ignored: if the heap has failed, the next command reports it.
                let _ = load_libraries(server);
            }
        }
        result
    }

    fn in_shards<R>(
        &mut self,
        server: &Server,
        plan: &Plan,
        f: impl FnOnce(&mut Self, &mut dyn Keyspace) -> pheap::Result<R>,
    ) -> pheap::Result<R> {
        let (store, shards) = (&server.store, server.store.shards());
        let before = self.output.effects.dirty;
        let (result, commit) = match plan {
            Plan::Nothing => return f(self, &mut NoShards),
            Plan::Read(shard) => {
                let (result, commit) = store
                    .root(*shard)
                    .read_deferred(|view, root| f(self, &mut OneRead { shard: *shard, view, root }))?;
                (result?, commit)
            }
            Plan::Change(shard) => store
                .root(*shard)
                .try_txn_deferred(|tx, root| f(self, &mut OneTxn { shard: *shard, tx, root }))?,
            Plan::Several(numbers) => {
                let some: Vec<Root<Shard<'static>>>;
                let roots = if numbers.len() == shards.len() && numbers.last() < Some(&shards.len()) {
                    shards
                } else {
                    some = numbers.iter().map(|&number| store.root(number).clone()).collect();
                    &some
                };
                pheap::txn_deferred(roots, |mut shards| {
                    f(self, &mut SeveralShards { shards: &mut shards, numbers })
                })?
            }
        };
        self.output.commits.push(commit);
        let changes = self.output.effects.dirty - before;
        if changes > 0 || matches!(plan, Plan::Change(_)) {
            self.count_changes(plan.shards(), changes);
        }
        Ok(result)
    }

    /// Returns the state outside the heap that must be restored if a command fails.
    fn savepoint(&self) -> Savepoint {
        let Self { session, output, .. } = self;
        (output.reply.len(), output.effects.savepoint(), session.replies, session.db)
    }

    /// Restores the state that `mark` describes.
    fn roll_back_to(&mut self, mark: Savepoint) {
        let (reply, effects, replies, db) = mark;
        self.output.reply.truncate(reply);
        self.output.effects.roll_back_to(effects);
        (self.session.replies, self.session.db) = (replies, db);
    }

    /// Reports a heap error to the client. [`Server::look_at`] logs some errors.
    fn heap_error(&mut self, error: &pheap::Error) {
        self.server.look_at(error);
        self.error(&heap_error(error));
        // After a panic, the connection is closed, because the state of the session is unknown.
        self.session.closing |= matches!(error, pheap::Error::Aborted(reason) if reason == PANICKED);
    }

    /// Calls the function of a command, and does what belongs to each call, such as statistics. Returns the
    /// condition if the command waits for a key.
    fn call(
        &mut self,
        known: KnownCommand,
        words: &Args<'_>,
        keyspace: &mut dyn Keyspace,
        now: i64,
        may_block: bool,
    ) -> pheap::Result<Option<Block>> {
        self.session.last_command = known.name;
        // The role is checked with the shards locked: a write that was admitted before the server became a
        // replica must not run after that.
        if let Some(why) = self.refused_as_replica(known) {
            self.server.counts(self.thread, known.number).reject();
            self.error(why);
            return Ok(None);
        }
        if self.server.clocks.is_on() && (!self.session.touches_nothing || known.name == "touch") {
            known.for_each_used_key(words, |key| self.server.clocks.record_use(key, now));
        }
        if !self.session.resumes {
            self.tell_monitors(known, words);
        }
        let mark = self.savepoint();
        let (server, session) = (self.server, &mut *self.session);
        let (effects_of, meanwhile) = (&mut *self.output.effects, &mut *self.meanwhile);
        let clock = now;
        let now = if session.is_master { i64::MIN } else { clock };
        if known.may_write() && keyspace.can_write() && server.options.has_log {
            server.unsynced.count(known.all_keys(words), self.output.counted);
        }
        let mut cx = Cx { server, session, clock, now, may_block, effects: effects_of, keyspace, meanwhile };
        Lookups::take();
        let result = (known.run)(&mut cx, words, self.output.reply);
        self.output.reply.set_resp3(self.session.resp3);
        let mut has_failed = result.is_err();
        if let (Ok(()), [b'-', text @ ..]) = (&result, self.output.reply.bytes_since(mark.0)) {
            // A script counts its errors itself.
            if !std::mem::take(&mut self.session.error_is_counted) {
                let code = text.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
                self.server.count_error(&lossy(code));
            }
            has_failed = true;
        }
        if let Err(fail) = result {
            self.roll_back_to(mark);
            match fail {
                Fail::Error(text) => self.error(&text),
                Fail::Heap(error) => return Err(error),
                Fail::MoreShards => return Err(pheap::Error::Aborted(MORE_SHARDS.into())),
                Fail::Block(block) => return Ok(Some(block)),
            }
        }
        if self.session.tracking.is_some() {
            self.remember(known, words);
        }
        self.ended(known, words, has_failed);
        Ok(None)
    }
}

/// Reason of the rollback if a script, or a command with [`Keys::From`](crate::command::Keys::From), needs
/// shards that are not locked.
const MORE_SHARDS: &str = "a script touches more shards than were locked";

/// Reason of the rollback after a panic.
const PANICKED: &str = "the command has panicked, which is a bug of this server";

/// Returns whether a command name is the first word of a line of an HTTP request. A web page can have a
/// browser send such a request to a server on the same machine, with commands in its body.
fn is_of_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

fn wants_more_shards(error: &pheap::Error) -> bool {
    matches!(error, pheap::Error::Aborted(reason) if reason == MORE_SHARDS)
}

/// Copies arguments, so that they outlive the input buffer.
fn owned(words: &Args<'_>) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

/// Returns the error text that a client gets for a heap error.
pub fn heap_error(error: &pheap::Error) -> String {
    match error {
        pheap::Error::OutOfSpace { .. } | pheap::Error::ReservationFull { .. } => {
            format!("OOM command not allowed: {}", explained(error))
        }
        pheap::Error::Failed { .. }
        | pheap::Error::OutcomeUnknown { .. }
        | pheap::Error::Misplaced { .. }
        | pheap::Error::Io { .. } => {
            format!(
                "MISCONF writing to the heap has failed, so the server reads and writes no data: {}; check \
                 the disk and the files of the heap, and restart the server",
                explained(error)
            )
        }
        other => format!("ERR {}", explained(other)),
    }
}
