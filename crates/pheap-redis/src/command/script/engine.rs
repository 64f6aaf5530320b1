//! The instances of Lua of a thread.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value, VmState};

use super::convert::{self, Names};
use super::host::{Abort, ScriptRun};
use super::native;
use crate::clients::Profile;
use crate::clients::client::Session;
use crate::command::{Args, Cx, Done, Fail};
use crate::resp::Reply;
use crate::scripts::{Script, Scripts};

/// Number of Lua instructions between two calls of the hook.
const HOOK: u32 = 100_000;

/// Time limit for loading a library that a client sends.
pub(in crate::command) const LOAD: Duration = Duration::from_millis(500);
/// Time limit for loading a library that another thread has loaded. Longer, because it may be slower here;
/// but not long, because other clients wait.
pub(in crate::command) const LOAD_AGAIN: Duration = LOAD.saturating_mul(2);
/// Time limit for loading a library from the heap, at its opening or after a rollback, or for a master.
pub(in crate::command) const LONG_LOAD: Duration = Duration::from_secs(30);

/// The purpose of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::command) enum EngineKind {
    /// Runs the scripts of `EVAL` and `EVALSHA`.
    Scripts,
    /// Runs the functions of `FCALL`, and loads their libraries.
    Functions,
}

/// State shared with the functions that Lua calls.
#[derive(Debug, Default)]
pub(super) struct EngineState {
    /// Whether a command that the script has called is running.
    pub(super) in_call: Cell<bool>,
    /// Whether the script must end, even if it catches errors.
    pub(super) is_aborted: Cell<bool>,
    /// Time limit of the library that is being loaded, if there is one.
    deadline: Cell<Option<Instant>>,
}

/// An instance of Lua, for scripts or for functions. It belongs to one thread.
pub(in crate::command) struct Engine {
    lua: Lua,
    pub(super) names: Names,
    pub(super) state: Rc<EngineState>,
    environment: Table,
    eval: Function,
    call: Function,
    load: Function,
    /// Compiled scripts by SHA-1. In a table of Lua, because Rust can hold only a limited number of
    /// references to values of Lua.
    scripts: Table,
    /// Tables of the functions of libraries, by number of the library.
    libraries: Table,
    /// [`Scripts::generation`] when the engine was created.
    generation: u64,
    /// The session as which scripts run commands, and the reply to the last command of a script.
    pub(super) client: RefCell<(Session, Reply)>,
    /// Bytes of this engine that are included in `Scripts::memory`.
    counted: Cell<i64>,
}

/// A script or function to run.
pub(in crate::command) struct ScriptCall<'a> {
    /// The argument that names the script: its text, its SHA-1, or the name of the function.
    pub(in crate::command) called: &'a [u8],
    /// SHA-1 of the script, or name of the function.
    pub(in crate::command) name: &'a str,
    /// The Lua code that contains the script or function.
    pub(in crate::command) code: &'a [u8],
    pub(in crate::command) function: Function,
    pub(in crate::command) kind: EngineKind,
    /// The whole command: name, script, number of keys, keys and arguments.
    pub(in crate::command) command: &'a Args<'a>,
    /// Number of keys that the command declares.
    pub(in crate::command) keys: usize,
    pub(in crate::command) is_read_only: bool,
    /// Whether the script may run commands that need memory although the data exceed `maxmemory`.
    pub(in crate::command) may_need_memory: bool,
}

/// A function that a library has registered.
pub(in crate::command) struct RegisteredFunction {
    pub(in crate::command) name: String,
    pub(in crate::command) description: Option<Vec<u8>>,
    pub(in crate::command) flags: Vec<String>,
}

thread_local! {
    static ENGINES: RefCell<[Option<Rc<Engine>>; 2]> = const { RefCell::new([None, None]) };
}

/// Calls `f` with this thread's engine of a kind, which is created if necessary. After `SCRIPT FLUSH`, the
/// engine for scripts is replaced.
pub(in crate::command) fn with_engine<R>(
    scripts: &Scripts,
    kind: EngineKind,
    f: impl FnOnce(&Engine) -> Result<R, Fail>,
) -> Result<R, Fail> {
    let memory = &scripts.memory[usize::from(kind == EngineKind::Functions)];
    let engine = ENGINES.with_borrow_mut(|engines| -> Result<Rc<Engine>, Fail> {
        let engine = &mut engines[usize::from(kind == EngineKind::Functions)];
        match engine {
            Some(engine) if kind == EngineKind::Functions || engine.generation == scripts.generation() => {
                Ok(engine.clone())
            }
            _ => {
                let new = Rc::new(Engine::new(kind, scripts.generation()).map_err(lua_failed)?);
                if let Some(old) = engine.replace(new.clone()) {
                    memory.fetch_sub(old.counted.get(), Ordering::Relaxed);
                }
                Ok(new)
            }
        }
    });
    let engine = engine?;
    let result = f(&engine);
    let used = engine.lua.used_memory() as i64;
    memory.fetch_add(used - engine.counted.replace(used), Ordering::Relaxed);
    result
}

fn lua_failed(error: mlua::Error) -> Fail {
    Fail::err(format_args!("Lua has failed: {error}"))
}

impl Engine {
    fn new(kind: EngineKind, generation: u64) -> mlua::Result<Engine> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        let state = Rc::new(EngineState::default());
        let natives = native::native_table(&lua, &state)?;
        let sandbox = lua.load(include_str!("sandbox.lua")).set_name("=sandbox");
        let interface: Table = sandbox.call((natives, kind == EngineKind::Scripts))?;
        let environment: Table = interface.get("environment")?;
        lua.set_globals(environment.clone())?;
        let interrupt: Function = interface.get("interrupt")?;
        let hook_state = state.clone();
        lua.set_global_hook(HookTriggers::new().every_nth_instruction(HOOK), move |_, _| {
            let state = &hook_state;
            if state.deadline.get().is_some_and(|at| at < Instant::now()) {
                state.is_aborted.set(true);
                return Err(mlua::Error::runtime("FUNCTION LOAD timeout"));
            }
            if state.is_aborted.get() {
                return Err(mlua::Error::runtime("the script was ended"));
            }
            if !state.in_call.get() {
                // An error of this hook must end the script: if the script caught the error, it would go on
                // without the hook.
                interrupt.call::<()>(()).inspect_err(|_| state.is_aborted.set(true))?;
            }
            Ok(VmState::Continue)
        })?;
        // Frees the garbage of the setup.
        lua.gc_collect()?;
        Ok(Engine {
            names: Names::new(&lua)?,
            environment,
            eval: interface.get("eval")?,
            call: interface.get("call")?,
            load: interface.get("load")?,
            state,
            scripts: lua.create_table()?,
            libraries: lua.create_table()?,
            generation,
            client: RefCell::new((
                Session { is_script: true, ..Session::new(Profile::nobody().into(), true) },
                Reply::new(false),
            )),
            counted: Cell::new(0),
            lua,
        })
    }

    fn compile(&self, code: &[u8], name: &str) -> Result<Function, String> {
        let chunk = self.lua.load(code).set_name(name).set_mode(ChunkMode::Text);
        chunk.set_environment(self.environment.clone()).into_function().map_err(|error| error_message(&error))
    }

    /// Returns the function of a script, which is compiled if necessary.
    pub(in crate::command) fn script(&self, script: &Script) -> Result<Function, Fail> {
        let sha = self.lua.create_string(script.sha).map_err(lua_failed)?;
        if let Ok(Value::Function(function)) = self.scripts.raw_get(&sha) {
            return Ok(function);
        }
        let function = self
            .compile(script.code(), "@user_script")
            .map_err(|error| Fail::err(format_args!("Error compiling script (new function): {error}")))?;
        self.scripts.raw_set(sha, &function).map_err(lua_failed)?;
        Ok(function)
    }

    /// Returns a function of a loaded library.
    pub(in crate::command) fn function(&self, library: u64, name: &str) -> Option<Function> {
        let functions: Option<Table> = self.libraries.raw_get(library).ok()?;
        functions?.raw_get(name).ok()?
    }

    /// Loads a library under a number, and returns the functions that it has registered.
    ///
    /// # Errors
    /// A text that says why, for example that the library is invalid or that loading it takes too long.
    pub(in crate::command) fn load(
        &self,
        number: u64,
        code: &[u8],
        limit: Duration,
    ) -> Result<Vec<RegisteredFunction>, String> {
        let compiled = self.compile(code, "@user_function");
        let chunk = compiled.map_err(|error| format!("Error compiling function: {error}"))?;
        self.state.is_aborted.set(false);
        self.state.deadline.set(Some(Instant::now() + limit));
        let result = self.load.call::<Value>(chunk);
        self.state.deadline.set(None);
        self.state.is_aborted.set(false);
        let wrong = |error: &str| format!("Error registering functions: {error}");
        let functions = match result {
            Ok(Value::Table(functions)) => functions,
            Ok(Value::String(error)) => return Err(wrong(&error.to_string_lossy())),
            Ok(_) => return Err(wrong("")),
            Err(error) => return Err(wrong(&error_message(&error))),
        };
        let mut registered = Vec::new();
        let mut read = || -> mlua::Result<()> {
            let by_name = self.lua.create_table()?;
            for function in functions.sequence_values::<Table>() {
                let function = function?;
                let name: String = function.get("name")?;
                by_name.raw_set(name.as_str(), function.get::<Function>("callback")?)?;
                let description: Option<LuaString> = function.get("description")?;
                registered.push(RegisteredFunction {
                    name,
                    description: description.map(|text| text.as_bytes().to_vec()),
                    flags: function.get("flags")?,
                });
            }
            self.libraries.raw_set(number, by_name)
        };
        read().map_err(|error| wrong(&error_message(&error)))?;
        Ok(registered)
    }

    /// Removes all libraries except those whose numbers `is_kept` accepts.
    pub(in crate::command) fn keep(&self, is_kept: impl Fn(u64) -> bool) {
        let numbers = self.libraries.pairs::<u64, Table>().filter_map(|pair| Some(pair.ok()?.0));
        let gone: Vec<u64> = numbers.filter(|number| !is_kept(*number)).collect();
        // Removing an entry allocates nothing, so it cannot fail.
        gone.into_iter().for_each(|number| drop(self.libraries.raw_set(number, Value::Nil)));
    }

    /// Runs a script or function, and answers the client.
    pub(in crate::command) fn run(&self, cx: &mut Cx<'_>, call: &ScriptCall<'_>, out: &mut Reply) -> Done {
        let started = Instant::now();
        let (keys, arguments) = call.command[3..].split_at(call.keys);
        let resp3 = {
            let (session, reply) = &mut *self.client.borrow_mut();
            (session.id, session.db, session.resp3) = (cx.session.id, cx.session.db, false);
            reply.truncate(0);
            reply.set_resp3(false);
            out.is_resp3()
        };
        debug_assert_eq!(resp3, cx.session.resp3);
        // An earlier script that was ended early has left `is_aborted` set. A panic in an earlier script or
        // load may have left `is_aborted`, `in_call` or `deadline` set.
        self.state.is_aborted.set(false);
        self.state.in_call.set(false);
        self.state.deadline.set(None);
        let run = if call.kind == EngineKind::Scripts { &self.eval } else { &self.call };
        let running = RefCell::new(ScriptRun::new(self, cx, call, started));
        let busy = || mlua::Error::runtime("a command cannot be called while another one runs");
        let result = self.lua.scope(|scope| {
            let host = scope.create_function(|lua, words| {
                running.try_borrow_mut().map_err(|_| busy())?.host(lua, words)
            })?;
            let redis_call = scope.create_function(|lua, words: MultiValue| {
                running.try_borrow_mut().map_err(|_| busy())?.call(lua, &words)
            })?;
            let table = |words: &Args<'_>| {
                let table = self.lua.create_table_with_capacity(words.len(), 0)?;
                for (i, word) in words.iter().enumerate() {
                    table.raw_set(i + 1, self.lua.create_string(word)?)?;
                }
                Ok::<_, mlua::Error>(table)
            };
            run.call::<(bool, Value)>((&call.function, host, redis_call, table(keys)?, table(arguments)?))
        });
        // The script may have stopped the garbage collector, which all scripts of this thread share.
        self.lua.gc_restart();
        let (abort, counted) = running.into_inner().end();
        match abort {
            Some(Abort::Heap(error)) => return Err(Fail::Heap(error)),
            Some(Abort::MoreShards) => return Err(Fail::MoreShards),
            Some(Abort::Killed) | None => {}
        }
        let script_resp3 = self.client.borrow().0.resp3;
        let mark = out.len();
        let written = match result {
            Ok((true, value)) => convert::reply(&value, &self.names, script_resp3, out),
            Ok((false, Value::Table(problem))) => self.report(&problem, call, out),
            Ok((false, problem)) => {
                let text = problem.to_string().unwrap_or_default();
                out.error(&format!("ERR Error running script {}, {text}", call.name));
                Ok(())
            }
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            out.truncate(mark);
            out.error(&format!("ERR Error running script {}, {}", call.name, error_message(&error)));
        }
        let is_same = |text: String| {
            out.bytes_since(mark).strip_prefix(b"-").is_some_and(|reply| reply.starts_with(text.as_bytes()))
        };
        cx.session.error_is_counted = counted.is_some_and(is_same);
        Ok(())
    }

    /// Writes an error of a script, with its place.
    fn report(&self, problem: &Table, call: &ScriptCall<'_>, out: &mut Reply) -> mlua::Result<()> {
        // Raw access calls no metamethod. Nothing would end a function of the script that was called here.
        let text: Option<LuaString> = problem.raw_get("err")?;
        let mut shown = text.map(|text| text.as_bytes().to_vec()).unwrap_or_else(|| b"(null)".to_vec());
        let (source, line): (Option<LuaString>, Option<usize>) =
            (problem.raw_get("source")?, problem.raw_get("line")?);
        let (source, line) = match source {
            Some(source) => (source.to_string_lossy(), line),
            // The place is unknown, for example because a tail call has replaced the frame of its caller.
            None if call.kind == EngineKind::Scripts => ("@user_script".into(), line_of_return(call.code)),
            None => ("@user_function".into(), line_of_return(call.code)),
        };
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        shown.extend_from_slice(format!(" script: {}, on {source}{line}.", call.name).as_bytes());
        convert::write_error(&shown, out);
        Ok(())
    }
}

/// Returns the line that contains `return`, if there is exactly one.
fn line_of_return(code: &[u8]) -> Option<usize> {
    let has_return = |line: &[u8]| line.windows(6).any(|word| word == b"return");
    let mut lines = code.split(|byte| *byte == b'\n').zip(1..).filter(|(line, _)| has_return(line));
    let (_, line) = lines.next()?;
    lines.next().is_none().then_some(line)
}

/// Returns the text of an error of Lua.
pub(super) fn error_message(error: &mlua::Error) -> String {
    match error {
        mlua::Error::SyntaxError { message, .. } | mlua::Error::RuntimeError(message) => message.clone(),
        mlua::Error::CallbackError { cause, .. } => error_message(cause),
        other => other.to_string(),
    }
}
