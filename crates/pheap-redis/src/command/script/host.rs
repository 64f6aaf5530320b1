//! The functions that the server offers to a running script.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mlua::{Lua, MultiValue, Result, Value};
use smallvec::SmallVec;

use super::convert::{self, ReplyParser};
use super::engine::{Engine, EngineKind, ScriptCall};
use super::native::CommandError;
use crate::command::{Cx, Fail, Flags, KnownCommand, lookup, monitor_line, resolve, shards_of};
use crate::data::Lookups;
use crate::scripts::SlowScript;
use crate::server::{OUT_OF_MEMORY, READONLY};
use crate::text::words::lossy;

/// Time since the last interruption after which a script is interrupted when a command ends.
const BETWEEN: Duration = Duration::from_millis(20);

/// Why a script was ended early.
pub(super) enum Abort {
    /// The heap has returned an error, or the server is being stopped.
    Heap(pheap::Error),
    /// The script touches shards that are not locked.
    MoreShards,
    /// A client has killed the script.
    Killed,
}

/// A running script.
pub(super) struct ScriptRun<'a, 'c> {
    engine: &'a Engine,
    cx: &'a mut Cx<'c>,
    call: &'a ScriptCall<'a>,
    started: Instant,
    /// When the last command ended; before the first one, when the script began.
    ended: Instant,
    /// The value of `ended` when the script was last interrupted.
    interrupted: Instant,
    has_written: bool,
    slow: Option<Arc<SlowScript>>,
    abort: Option<Abort>,
    /// Whether the reply to the last command was an error.
    is_error: bool,
    /// The last error of a command that was counted. That error is not counted again if the script ends with
    /// it.
    counted: Option<String>,
    /// Arguments of the last command, concatenated.
    arguments: Vec<u8>,
}

impl Drop for ScriptRun<'_, '_> {
    /// Removes the script from the slow scripts, also after a panic of a command. Otherwise, other clients
    /// would get `BUSY` for ever.
    fn drop(&mut self) {
        if let Some(slow) = &self.slow {
            self.cx.server.scripts.end_slow(slow);
        }
    }
}

impl<'a, 'c> ScriptRun<'a, 'c> {
    pub(super) fn new(
        engine: &'a Engine,
        cx: &'a mut Cx<'c>,
        call: &'a ScriptCall<'a>,
        started: Instant,
    ) -> Self {
        ScriptRun {
            engine,
            cx,
            call,
            started,
            ended: started,
            interrupted: started,
            has_written: false,
            slow: None,
            abort: None,
            is_error: false,
            counted: None,
            arguments: Vec::new(),
        }
    }

    /// Ends the run. Returns why the script was ended early, if it was, and the last error that was counted.
    pub(super) fn end(mut self) -> (Option<Abort>, Option<String>) {
        if let Some(Abort::MoreShards) = self.abort {
            self.cx.server.scripts.set_wide(self.call.called);
        }
        (self.abort.take(), self.counted.take())
    }

    /// Runs the request of `sandbox.lua` whose number is the first argument. Returns whether the result is an
    /// error, and the result.
    pub(super) fn host(&mut self, lua: &Lua, mut words: MultiValue) -> Result<(bool, Value)> {
        match words.pop_front().and_then(|what| what.as_i64()) {
            Some(1) => Ok((false, self.command(lua, &words)?)),
            Some(2) => self.interrupt().map(|()| (false, Value::Nil)),
            Some(3) => {
                let (session, reply) = &mut *self.engine.client.borrow_mut();
                session.resp3 = words.front().and_then(Value::as_i64) == Some(3);
                reply.set_resp3(session.resp3);
                Ok((false, Value::Nil))
            }
            _ => self.acl_check_cmd(lua, &words),
        }
    }

    fn abort(&mut self, why: Abort) -> mlua::Error {
        let text = match why {
            Abort::Killed => "Script killed by user with SCRIPT KILL...",
            Abort::Heap(_) | Abort::MoreShards => "the script was rolled back",
        };
        self.abort.get_or_insert(why);
        self.engine.state.is_aborted.set(true);
        mlua::Error::runtime(text)
    }

    fn error(&self, lua: &Lua, text: &str) -> Result<Value> {
        convert::error(lua, &self.engine.names, text.as_bytes()).map(Value::Table)
    }

    /// Stores the concatenated words in `self.arguments`. Returns the end of each word, or an error if there
    /// are no words or one is invalid.
    fn read(&mut self, words: &MultiValue) -> std::result::Result<SmallVec<[usize; 8]>, &'static str> {
        self.arguments.clear();
        let mut ends = SmallVec::new();
        for word in words {
            match word {
                Value::String(text) => self.arguments.extend_from_slice(&text.as_bytes()),
                Value::Number(number) => convert::show(*number, &mut self.arguments),
                Value::Integer(number) => convert::show(*number as f64, &mut self.arguments),
                _ => return Err("ERR Lua redis lib command arguments must be strings or integers"),
            }
            ends.push(self.arguments.len());
        }
        if ends.is_empty() {
            return Err("ERR Please specify at least one argument for this redis lib call");
        }
        Ok(ends)
    }

    /// `redis.call`: raises an error if the reply is one.
    pub(super) fn call(&mut self, lua: &Lua, words: &MultiValue) -> Result<Value> {
        let value = self.command(lua, words)?;
        if !self.is_error {
            return Ok(value);
        }
        let Value::Table(table) = value else { return Ok(value) };
        let text: mlua::LuaString = table.raw_get("err")?;
        Err(mlua::Error::external(CommandError(text.to_string_lossy())))
    }

    /// Runs a command. Sets `is_error` to whether the reply is an error.
    fn command(&mut self, lua: &Lua, words: &MultiValue) -> Result<Value> {
        if self.abort.is_some() {
            return Err(mlua::Error::runtime("the script was ended"));
        }
        self.is_error = true;
        let ends = match self.read(words) {
            Ok(ends) => ends,
            Err(text) => return self.error(lua, text),
        };
        let arguments = std::mem::take(&mut self.arguments);
        let mut start = 0;
        let words: SmallVec<[&[u8]; 8]> = ends
            .iter()
            .map(|&end| {
                let word = &arguments[start..end];
                start = end;
                word
            })
            .collect();
        self.engine.state.in_call.set(true);
        let result = self.run(lua, &words);
        drop(words);
        self.engine.state.in_call.set(false);
        self.arguments = arguments;
        // A script of slow commands must be interrupted here, because the hook counts Lua instructions and is
        // rarely called between such commands.
        if result.is_ok() && self.ended.saturating_duration_since(self.interrupted) > BETWEEN {
            self.interrupt()?;
        }
        result
    }

    fn run(&mut self, lua: &Lua, words: &[&[u8]]) -> Result<Value> {
        let command = match self.admit(words) {
            Ok(command) => command,
            Err(text) => return self.error(lua, &text),
        };
        let locked =
            shards_of(self.cx.store(), command.command, words, |shard| self.cx.keyspace.has_shard(shard));
        if !locked {
            return Err(self.abort(Abort::MoreShards));
        }
        if command.flags.has(Flags::WRITE) && !self.has_written {
            self.has_written = true;
            if let Some(slow) = &self.slow {
                slow.has_written.store(true, Ordering::Release);
            }
        }
        let server = self.cx.server;
        if server.options.monitors.load(Ordering::Relaxed) > 0 && !command.flags.has(Flags::SKIP_MONITOR) {
            let line = monitor_line(self.engine.client.borrow().0.db, "lua", command.name, words);
            self.cx.effects.send_to_monitors(server, &line);
        }
        if server.clocks.is_on() {
            command.for_each_used_key(words, |key| server.clocks.record_use(key, self.cx.clock));
        }
        let started = Instant::now();
        let (session, reply) = &mut *self.engine.client.borrow_mut();
        reply.truncate(0);
        let effects = self.cx.effects.savepoint();
        let mut inner = Cx {
            server: self.cx.server,
            session,
            clock: self.cx.clock,
            now: self.cx.now,
            may_block: false,
            effects: self.cx.effects,
            keyspace: self.cx.keyspace,
            meanwhile: self.cx.meanwhile,
        };
        Lookups::take();
        let result = (command.run)(&mut inner, words, reply);
        self.ended = Instant::now();
        let took = self.ended.saturating_duration_since(started).as_nanos() as u64;
        let counts = server.counts(self.cx.session.profile.thread, command.number);
        counts.call(took, result.is_err());
        if command.flags.has(Flags::READONLY) {
            counts.look_up(Lookups::take());
        }
        if command.flags.has(Flags::READONLY) && self.cx.session.keeps_copies() {
            let keys = self.call.command[3..][..self.call.keys].iter().copied();
            server.tracking.remember(self.cx.session.id, keys);
        }
        if let Err(fail) = result {
            self.cx.effects.roll_back_to(effects);
            reply.truncate(0);
            match fail {
                Fail::Error(text) => reply.error(&text),
                Fail::Heap(error) => return Err(self.abort(Abort::Heap(error))),
                Fail::MoreShards => return Err(self.abort(Abort::MoreShards)),
                Fail::Block(_) => reply.null(),
            }
        }
        reply.set_resp3(session.resp3);
        self.is_error = reply.bytes_since(0).starts_with(b"-");
        if let [b'-', text @ .., b'\r', b'\n'] = reply.bytes_since(0) {
            let text = lossy(text).into_owned();
            server.count_error(code(&text));
            self.counted = Some(text);
        }
        ReplyParser::new(reply.bytes_since(0)).value(lua, &self.engine.names)
    }

    /// Returns the command if the script may run it, or else the error text.
    fn admit(&mut self, words: &[&[u8]]) -> std::result::Result<KnownCommand, String> {
        let command = resolve(words).map_err(|refused| match refused.number {
            Some(_) => "ERR Wrong number of args calling Redis command from script",
            None => "ERR Unknown Redis command called from script",
        })?;
        match self.refusal(command) {
            None => Ok(command),
            Some(why) => {
                let thread = self.cx.session.profile.thread;
                self.cx.server.counts(thread, command.number).reject();
                self.cx.server.count_error(code(why));
                self.counted = Some(why.to_owned());
                Err(why.to_owned())
            }
        }
    }

    /// Returns why the script may not run a command, if it may not.
    fn refusal(&self, command: KnownCommand) -> Option<&'static str> {
        if command.flags.has(Flags::NOSCRIPT) {
            return Some("ERR This Redis command is not allowed from script");
        }
        if self.call.is_read_only && command.flags.has(Flags::WRITE.and(Flags::MAY_REPLICATE)) {
            return Some("ERR Write commands are not allowed from read-only scripts.");
        }
        if self.cx.session.is_master {
            return None;
        }
        let is_replica = self.cx.server.role.is_replica();
        if is_replica && command.flags.has(Flags::WRITE) && self.cx.server.is_read_only() {
            return Some(READONLY);
        }
        if is_replica && !command.flags.has(Flags::STALE) && self.cx.server.is_stale() {
            return Some("ERR Can not execute the command on a stale replica");
        }
        // A script that has written gets no error about memory, so that it is not stopped half way.
        let needs_memory =
            command.flags.has(Flags::DENYOOM) && !self.call.may_need_memory && !self.has_written;
        (needs_memory && self.cx.session.out_of_memory).then_some(OUT_OF_MEMORY)
    }

    /// `redis.acl_check_cmd`: all clients may run all commands that exist.
    fn acl_check_cmd(&mut self, lua: &Lua, words: &MultiValue) -> Result<(bool, Value)> {
        let ends = match self.read(words) {
            Ok(ends) => ends,
            Err(text) => return Ok((true, self.error(lua, text)?)),
        };
        match lookup(&self.arguments[..ends[0]]) {
            Some(_) => Ok((false, Value::Boolean(true))),
            None => Ok((true, self.error(lua, "ERR Invalid command passed to redis.acl_check_cmd()")?)),
        }
    }

    /// Serves other clients if the script is slow. Fails if the script must end. Called at intervals while
    /// the script runs.
    fn interrupt(&mut self) -> Result<()> {
        self.interrupted = self.ended;
        let server = self.cx.server;
        let slow = match &self.slow {
            Some(slow) => slow.clone(),
            None => {
                let threshold = server.config.read().int("busy-reply-threshold") as u64;
                if threshold == 0 || self.started.elapsed() < Duration::from_millis(threshold) {
                    return Ok(());
                }
                let slow = Arc::new(SlowScript {
                    is_eval: self.call.kind == EngineKind::Scripts,
                    is_of_master: self.cx.session.is_master,
                    name: self.call.name.to_owned(),
                    command: self.call.command.iter().map(|word| word.to_vec()).collect(),
                    started: self.started,
                    has_written: self.has_written.into(),
                    is_killed: false.into(),
                });
                tracing::warn!(
                    "a script has run for {} ms and goes on: {} ({})",
                    self.started.elapsed().as_millis(),
                    slow.name,
                    if slow.is_eval {
                        "SCRIPT KILL ends it if it has not written"
                    } else {
                        "FUNCTION KILL ends it if it has not written"
                    },
                );
                server.scripts.begin_slow(slow.clone());
                self.slow.insert(slow).clone()
            }
        };
        self.cx.meanwhile.serve_others();
        if server.stopping.load(Ordering::Acquire) {
            return Err(self.abort(Abort::Heap(pheap::Error::Aborted("the server is being stopped".into()))));
        }
        if slow.is_killed.load(Ordering::Acquire) && !self.has_written {
            return Err(self.abort(Abort::Killed));
        }
        Ok(())
    }
}

/// Returns the first word of an error.
fn code(error: &str) -> &str {
    error.split(' ').next().unwrap_or_default()
}
