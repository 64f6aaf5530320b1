//! Commands in transactions.
//!
//! What one client has sent is run in order. Commands in a row that touch one shard, the same one, and may change it, are one transaction of the heap; so they cost one commit. A command
//! with keys in several shards, and `EXEC`, are a transaction over all of these.
//!
//! Nothing waits for the disk here: each transaction leaves a [`Commit`], and the replies are held back until that is durable.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use pheap::{Commit, Root};
use smallvec::SmallVec;

use crate::client::{Multi, Replies, Session};
use crate::command::{
    self, Args, Block, Command, Cx, Effects, Fail, Flags, Keys, Keyspace, Nothing, OneRead, OneTxn, Run,
    Several, resolve,
};
use crate::data::Shard;
use crate::resp::Reply;
use crate::resp::input::{Input, Words};
use crate::resp::request::Limits;
use crate::server::{Server, now};

/// What a command waits for, and its arguments.
type Waits = (Block, Vec<Vec<u8>>);

/// Why the commands of a client do not go on.
#[derive(Debug)]
pub enum Stop {
    /// There are no more for now.
    Nothing,
    /// Somebody waits for a key that was written to, and is served before this client goes on.
    Signals,
    /// The client waits for a key. This is the command.
    Blocked(Block, Vec<Vec<u8>>),
    /// It has sent what is no request, or wants to leave: nothing more that it sends counts.
    Closing,
}

/// Where commands of a client leave what they have to say.
pub struct Output<'o> {
    /// For the client.
    pub reply: &'o mut Reply,
    /// For others.
    pub effects: &'o mut Effects,
    /// When all that is durable.
    pub commits: &'o mut Vec<Commit>,
}

/// Which shards a command needs.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Plan {
    Nothing,
    Read(usize),
    Change(usize),
    Several(Vec<usize>),
}

/// A client's commands, to be run.
pub struct Execution<'e> {
    /// What all clients have in common.
    pub server: &'e Server,
    /// The client.
    pub session: &'e mut Session,
    /// Where to leave what they have to say.
    pub output: Output<'e>,
}

/// What is to be done about a request.
enum Admitted {
    Run(&'static Command),
    Exec,
    Queue,
    Refused(String),
}

impl Execution<'_> {
    /// Runs all commands that are in `input`.
    pub fn run(&mut self, input: &mut Input) -> Stop {
        // After a transaction of several commands was rolled back: each is tried by itself up to here.
        let mut alone_until = 0;
        loop {
            let limits = self.limits();
            match input.is_ready(limits) {
                Ok(true) => {}
                Ok(false) => return Stop::Nothing,
                Err(malformed) => {
                    self.output.reply.error(&format!("ERR {malformed}"));
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
            let mark = self.output.reply.len();
            let blocked = match self.admit(&words) {
                Admitted::Refused(error) => {
                    self.output.reply.error(&error);
                    None
                }
                Admitted::Queue => {
                    self.queue(&words);
                    None
                }
                Admitted::Exec => {
                    self.exec();
                    None
                }
                Admitted::Run(command) => match self.plan(command, &words) {
                    Plan::Change(shard) => {
                        let is_alone = input.start() < alone_until;
                        drop(words);
                        match self.run_in_a_row(input, command, shard, is_alone) {
                            Ok(Some((block, words))) => return Stop::Blocked(block, words),
                            Ok(None) => {}
                            Err(tried_until) => alone_until = tried_until,
                        }
                        if self.session.closing {
                            return Stop::Closing;
                        }
                        if !self.output.effects.signals.is_empty() {
                            return Stop::Signals;
                        }
                        continue;
                    }
                    plan => self.run_one(command, &words, &plan),
                },
            };
            if let Some(block) = blocked {
                let owned = owned(&words);
                drop(words);
                input.consume();
                return Stop::Blocked(block, owned);
            }
            drop(words);
            self.answered(mark);
            input.consume();
            if self.session.closing {
                return Stop::Closing;
            }
            if !self.output.effects.signals.is_empty() {
                return Stop::Signals;
            }
        }
    }

    /// Runs a command again that waits for keys, of which `woken_by` was written to. None: it was answered.
    pub fn retry(&mut self, words: &[Vec<u8>], woken_by: Option<&[u8]>) -> Option<Block> {
        let words: Words<'_> = words.iter().map(Vec::as_slice).collect();
        let (_, command) = command::lookup(words[0])?;
        let mark = self.output.reply.len();
        let plan = self.plan(command, &words);
        self.session.woken_by = woken_by.map(<[u8]>::to_vec);
        let blocked = self.run_one(command, &words, &plan);
        self.session.woken_by = None;
        if blocked.is_none() {
            self.answered(mark);
        }
        blocked
    }

    fn limits(&self) -> Limits {
        let bulk = self.server.limits.bulk.load(Relaxed);
        Limits { bulk, authenticated: self.session.authenticated }
    }

    /// A command was answered. Some clients do not want to know.
    fn answered(&mut self, mark: usize) {
        self.server.stats.commands.fetch_add(1, Relaxed);
        match self.session.replies {
            Replies::On => return,
            Replies::Off => {}
            Replies::SkipNext => self.session.replies = Replies::Skip,
            Replies::Skip => self.session.replies = Replies::On,
        }
        self.output.reply.truncate(mark);
    }

    /// Whether, and how, a request is run.
    fn admit(&mut self, words: &Args<'_>) -> Admitted {
        let refused = |execution: &mut Self, error: String| {
            if let Some(multi) = &mut execution.session.multi {
                multi.refused = true;
            }
            Admitted::Refused(error)
        };
        let command = match resolve(words) {
            Ok(command) => command,
            Err(error) => return refused(self, error),
        };
        if !self.session.authenticated && !command.flags.has(Flags::NO_AUTH) {
            return refused(self, "NOAUTH Authentication required.".into());
        }
        if self.session.only_listens() && !WHILE_LISTENING.contains(&command.name) {
            return Admitted::Refused(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
                command.name
            ));
        }
        if command.name == "exec" {
            return Admitted::Exec;
        }
        if self.session.multi.is_some() && !AT_ONCE.contains(&command.name) {
            if command.flags.has(Flags::NO_MULTI) {
                return refused(self, "ERR Command not allowed inside a transaction".into());
            }
            return Admitted::Queue;
        }
        Admitted::Run(command)
    }

    fn queue(&mut self, words: &Args<'_>) {
        let queue = &mut self.session.multi.get_or_insert_default().queue;
        queue.push(owned(words));
        self.output.reply.simple("QUEUED");
    }

    /// Which shards a command needs.
    fn plan(&self, command: &Command, words: &Args<'_>) -> Plan {
        let store = &self.server.store;
        let mut shards: SmallVec<[usize; 8]> = match command.keys {
            Keys::None => return Plan::Nothing,
            Keys::Everything => return Plan::Several((0..store.shards().len()).collect()),
            Keys::Shard(find) => SmallVec::from_slice(&[find(words, store.shards().len())]),
            Keys::Range(1, 1, _) => SmallVec::from_slice(&[store.shard_of(words[1])]),
            _ => command.keys(words).into_iter().map(|at| store.shard_of(words[at])).collect(),
        };
        shards.sort_unstable();
        shards.dedup();
        match *shards {
            [] => Plan::Nothing,
            // Those that may be replicated remember something in what they look at.
            [one] if command.flags.has(Flags::READONLY) && !command.flags.has(Flags::MAY_REPLICATE) => {
                Plan::Read(one)
            }
            [one] => Plan::Change(one),
            _ => Plan::Several(shards.to_vec()),
        }
    }

    /// Runs the first command of `input`, which may change one shard, and those behind it that may change the same one, in a transaction. If that fails for several: up to where each is
    /// to be tried by itself.
    fn run_in_a_row(
        &mut self,
        input: &mut Input,
        command: &'static Command,
        shard: usize,
        is_alone: bool,
    ) -> Result<Option<Waits>, usize> {
        let before =
            (input.start(), self.output.reply.len(), self.output.effects.mark(), self.session.replies);
        let (mut command, mut count, now) = (command, 0, now());
        let root = &self.server.store.shards()[shard];
        let result = root.try_txn_deferred::<_, pheap::Error>(|tx, root| {
            let mut keyspace = OneTxn { tx, root };
            loop {
                let words = input.words();
                let mark = self.output.reply.len();
                count += 1;
                if let Some(block) = self.call(command, &words, &mut keyspace, now, true)? {
                    let owned = owned(&words);
                    drop(words);
                    input.consume();
                    return Ok(Some((block, owned)));
                }
                drop(words);
                self.answered(mark);
                input.consume();
                let somebody_waits = !self.output.effects.signals.is_empty();
                if is_alone
                    || somebody_waits
                    || self.session.closing
                    || !input.is_ready(self.limits()).unwrap_or(false)
                {
                    return Ok(None);
                }
                let words = input.words();
                if words.is_empty() || self.session.multi.is_some() {
                    return Ok(None);
                }
                match resolve(&words) {
                    Ok(next)
                        if next.flags.has(Flags::WRITE) && self.plan(next, &words) == Plan::Change(shard) =>
                    {
                        command = next;
                    }
                    _ => return Ok(None),
                }
            }
        });
        match result {
            Ok((blocked, commit)) => {
                self.output.commits.push(commit);
                Ok(blocked)
            }
            Err(error) => {
                let (start, mark, effects, replies) = before;
                let tried_until = input.start() + 1;
                self.output.reply.truncate(mark);
                self.output.effects.go_back(effects);
                self.session.replies = replies;
                if count > 1 {
                    input.go_back(start);
                    return Err(tried_until);
                }
                self.output.reply.error(&heap_error(&error));
                self.answered(mark);
                input.consume();
                Ok(None)
            }
        }
    }

    /// Runs a command, and answers it, unless it waits for a key.
    fn run_one(&mut self, command: &'static Command, words: &Args<'_>, plan: &Plan) -> Option<Block> {
        let before = (self.output.reply.len(), self.output.effects.mark());
        let (server, now) = (self.server, now());
        let result = self.in_keyspace(server, plan, |execution, keyspace| {
            execution.call(command, words, keyspace, now, true)
        });
        result.unwrap_or_else(|error| {
            self.output.reply.truncate(before.0);
            self.output.effects.go_back(before.1);
            self.output.reply.error(&heap_error(&error));
            None
        })
    }

    /// Calls `f` with the shards of a plan. If it fails, all that it did to them is rolled back.
    fn in_keyspace<R>(
        &mut self,
        server: &Server,
        plan: &Plan,
        f: impl FnOnce(&mut Self, &mut dyn Keyspace) -> pheap::Result<R>,
    ) -> pheap::Result<R> {
        let shards = server.store.shards();
        let (result, commit) = match plan {
            Plan::Nothing => return f(self, &mut Nothing),
            Plan::Read(shard) => {
                let (result, commit) =
                    shards[*shard].read_deferred(|view, root| f(self, &mut OneRead { view, root }))?;
                (result?, commit)
            }
            Plan::Change(shard) => {
                shards[*shard].try_txn_deferred(|tx, root| f(self, &mut OneTxn { tx, root }))?
            }
            Plan::Several(numbers) => {
                let some: Vec<Root<Shard<'static>>>;
                let roots = if numbers.len() == shards.len() {
                    shards
                } else {
                    some = numbers.iter().map(|&number| shards[number].clone()).collect();
                    &some
                };
                pheap::txn_deferred(roots, |mut shards| {
                    f(self, &mut Several { shards: &mut shards, numbers })
                })?
            }
        };
        self.output.commits.push(commit);
        Ok(result)
    }

    /// Calls a command's function. What it waits for, if it does.
    fn call(
        &mut self,
        command: &Command,
        words: &Args<'_>,
        keyspace: &mut dyn Keyspace,
        now: i64,
        may_block: bool,
    ) -> pheap::Result<Option<Block>> {
        let Run::With(run) = command.run else { unreachable!("resolved to its subcommand") };
        let (mark, effects) = (self.output.reply.len(), self.output.effects.mark());
        let (server, session) = (self.server, &mut *self.session);
        let mut cx = Cx { server, session, now, may_block, effects: self.output.effects, keyspace };
        let result = run(&mut cx, words, self.output.reply);
        self.output.reply.set_resp3(self.session.resp3);
        let Err(fail) = result else { return Ok(None) };
        self.output.reply.truncate(mark);
        self.output.effects.go_back(effects);
        match fail {
            Fail::Error(text) => self.output.reply.error(&text),
            Fail::Heap(error) => return Err(error),
            Fail::Block(block) => return Ok(Some(block)),
        }
        Ok(None)
    }

    /// `EXEC`: all commands that were queued, as one transaction.
    fn exec(&mut self) {
        let Some(Multi { queue, refused }) = self.session.multi.take() else {
            return self.output.reply.error("ERR EXEC without MULTI");
        };
        if refused {
            self.server.unwatch(self.session);
            return self.output.reply.error("EXECABORT Transaction discarded because of previous errors.");
        }
        let plan = self.plan_all(&queue);
        let before = (self.output.reply.len(), self.output.effects.mark());
        let (server, now) = (self.server, now());
        let result = self.in_keyspace(server, &plan, |execution, keyspace| {
            // With the shards locked: who writes to a watched key says so while he has them.
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
                    Err(error) => execution.output.reply.error(&error),
                }
            }
            Ok(())
        });
        if let Err(error) = result {
            self.output.reply.truncate(before.0);
            self.output.effects.go_back(before.1);
            self.output.reply.error(&heap_error(&error));
        }
        self.server.unwatch(self.session);
    }

    /// The shards that any of these commands needs.
    fn plan_all(&self, queue: &[Vec<Vec<u8>>]) -> Plan {
        let (mut all, mut only_looks) = (Vec::new(), true);
        for words in queue {
            let words: Words<'_> = words.iter().map(Vec::as_slice).collect();
            let Ok(command) = resolve(&words) else { continue };
            match self.plan(command, &words) {
                Plan::Nothing => {}
                Plan::Read(shard) => all.push(shard),
                Plan::Change(shard) => {
                    all.push(shard);
                    only_looks = false;
                }
                Plan::Several(shards) => {
                    all.extend(shards);
                    only_looks = false;
                }
            }
        }
        all.sort_unstable();
        all.dedup();
        match *all {
            [] => Plan::Nothing,
            [one] if only_looks => Plan::Read(one),
            [one] => Plan::Change(one),
            _ => Plan::Several(all),
        }
    }
}

/// What a client in RESP2 may still do while it listens to channels.
const WHILE_LISTENING: &[&str] = &[
    "subscribe",
    "psubscribe",
    "ssubscribe",
    "unsubscribe",
    "punsubscribe",
    "sunsubscribe",
    "ping",
    "quit",
    "reset",
];

/// Commands that are not queued after `MULTI`.
const AT_ONCE: &[&str] = &["exec", "discard", "multi", "watch", "quit", "reset"];

/// Arguments that outlive the buffer they came in.
fn owned(words: &Args<'_>) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

/// What a client is told of an error of the heap.
pub fn heap_error(error: &pheap::Error) -> String {
    match error {
        pheap::Error::OutOfSpace { .. } | pheap::Error::ReservationFull { .. } => {
            format!("OOM command not allowed: {error}")
        }
        pheap::Error::Failed { .. } | pheap::Error::OutcomeUnknown { .. } | pheap::Error::Io { .. } => {
            format!("MISCONF writing to the heap has failed, so nothing is changed any more: {error}")
        }
        other => format!("ERR {other}"),
    }
}
