//! `FCALL`, and `FUNCTION`, which manages libraries of functions. The texts of the libraries are in a
//! separate root of the heap.

use std::sync::Arc;
use std::time::Duration;

use super::args::{SYNC_OR_ASYNC, last_word};
use super::functions_dump as dump;
use super::script::{Engine, EngineKind, LOAD, LOAD_AGAIN, LONG_LOAD, ScriptCall, with_engine};
use super::scripts::{RUN, RUN_READ_ONLY, may_run, number_of_keys};
use super::table::{ADD, LOOK, WRITE, tell_subcommands};
use super::{Args, Command, Cx, Done, Fail, Flags, Keys, answer, ok};
use crate::data::{Change, Value};
use crate::resp::Reply;
use crate::scripts::libraries::{Function, Library, Loaded, first_line};
use crate::scripts::{BUSY_EVAL, ScriptFlags};
use crate::server::Server;
use crate::text::words;

const BUSY: Flags = Flags::NOSCRIPT.and(Flags::ALLOW_BUSY);
const CHANGE: Flags = WRITE.and(Flags::NOSCRIPT);
const ADDS: Flags = ADD.and(Flags::NOSCRIPT);

pub(super) const COMMANDS: &[Command] = &[
    Command::new("fcall", -3, RUN, Keys::Script, |cx, args, out| fcall(cx, args, false, out)),
    Command::new("fcall_ro", -3, RUN_READ_ONLY, Keys::Script, |cx, args, out| fcall(cx, args, true, out)),
    Command::container("function"),
    Command::new("function|delete", 3, CHANGE, Keys::Libraries, delete),
    Command::new("function|dump", 2, Flags::NOSCRIPT, Keys::Libraries, |cx, _, out| {
        let loaded = cx.server.libraries.loaded();
        answer::bulk(out, &dump::write(loaded.iter().map(|library| &library.text[..])))
    }),
    Command::new("function|flush", -2, CHANGE, Keys::Libraries, flush),
    Command::new("function|help", 2, LOOK, Keys::None, |_, args, out| tell_subcommands(args, HELP, out)),
    Command::new("function|kill", 2, BUSY, Keys::None, |cx, _, out| {
        cx.server.scripts.kill(false).map_err(|why| Fail::Error(why.into()))?;
        ok(out)
    }),
    Command::new("function|list", -2, Flags::NOSCRIPT, Keys::Libraries, list),
    Command::new("function|load", -3, ADDS, Keys::Libraries, load),
    Command::new("function|restore", -3, ADDS, Keys::Libraries, restore),
    Command::new("function|stats", 2, BUSY, Keys::None, stats),
];

fn fcall(cx: &mut Cx<'_>, args: &Args<'_>, is_read_only: bool, out: &mut Reply) -> Done {
    let loaded = cx.server.libraries.loaded();
    let (library, function) = loaded.function(args[1]).ok_or_else(|| Fail::err("Function not found"))?;
    let number = words::int(args[2]).ok_or_else(|| Fail::err("Bad number of keys provided"))?;
    let keys = number_of_keys(args, number)?;
    may_run(cx, function.declared, is_read_only)?;
    with_engine(&cx.server.scripts, EngineKind::Functions, |engine| {
        if engine.function(library.number, &function.name).is_none() {
            // The engine of this thread lacks the library, for example because another thread loaded it.
            keep(engine, &loaded);
            let limit = if cx.session.is_master { LONG_LOAD } else { LOAD_AGAIN };
            engine.load(library.number, library.code(), limit).map_err(Fail::err)?;
        }
        let callable = engine.function(library.number, &function.name);
        let call = ScriptCall {
            called: args[1],
            name: &function.name,
            code: library.code(),
            function: callable.ok_or_else(|| Fail::err("Function not found"))?,
            kind: EngineKind::Functions,
            command: args,
            keys,
            is_read_only: is_read_only || function.declared.has(ScriptFlags::NO_WRITES),
            may_need_memory: function.declared.has(ScriptFlags::ALLOW_OOM),
        };
        engine.run(cx, &call, out)
    })
}

/// Runs the text of a library in `engine`, which registers the functions of the library. Returns the library.
fn compile(engine: &Engine, server: &Server, text: &[u8], limit: Duration) -> Result<Library, String> {
    let (name, shebang) = first_line(text)?;
    let number = server.libraries.number();
    let registered = engine.load(number, &text[shebang..], limit)?;
    if registered.is_empty() {
        return Err("No functions registered".into());
    }
    let declared = |flags: &[String]| {
        let flags = flags.iter().filter_map(|flag| ScriptFlags::parse(flag.as_bytes()));
        flags.fold(ScriptFlags::default(), ScriptFlags::and)
    };
    let functions = registered
        .into_iter()
        .map(|f| Function { declared: declared(&f.flags), name: f.name, description: f.description })
        .collect();
    Ok(Library { number, name, text: text.to_vec(), shebang, functions })
}

fn compiled(server: &Server, text: &[u8], limit: Duration) -> Result<Arc<Library>, Fail> {
    with_engine(&server.scripts, EngineKind::Functions, |engine| {
        compile(engine, server, text, limit).map(Arc::new).map_err(Fail::err)
    })
}

/// Returns the time limit for loading a library that a client or a master sends.
fn limit(cx: &Cx<'_>) -> Duration {
    if cx.session.is_master { LONG_LOAD } else { LOAD }
}

/// Stores the libraries of `loaded` in the heap, in place of the present ones, and makes them the loaded
/// ones.
fn store(cx: &mut Cx<'_>, loaded: Loaded) -> Done {
    let (shard, before) = (cx.store().shards().len(), cx.server.libraries.loaded());
    cx.write_shard(shard, |tx, dbs| {
        let db = dbs.at(tx, 0);
        let is_kept = |library: &Library| {
            loaded.get(library.name.as_bytes()).is_some_and(|other| other.number == library.number)
        };
        for gone in before.iter().filter(|library| !is_kept(library)) {
            db.remove(tx, gone.name.as_bytes());
        }
        for library in loaded.iter() {
            if before.get(library.name.as_bytes()).is_none_or(|other| other.number != library.number) {
                let text = tx.alloc_slice_copy(&library.text)?;
                db.set(tx, library.name.as_bytes(), Value::Bytes(text))?;
            }
        }
        Ok::<_, pheap::Error>(())
    })?;
    cx.effects.dirty += 1;
    with_engine(&cx.server.scripts, EngineKind::Functions, |engine| {
        keep(engine, &loaded);
        Ok(())
    })?;
    cx.server.libraries.set(loaded);
    Ok(())
}

/// Removes libraries that are not in `loaded` from the engine.
fn keep(engine: &Engine, loaded: &Loaded) {
    engine.keep(|number| loaded.iter().any(|library| library.number == number));
}

fn load(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let [options @ .., text] = &args[2..] else { return Err(Fail::err("Function code is missing")) };
    let mut replaces = false;
    for option in options {
        if !option.eq_ignore_ascii_case(b"replace") {
            return Err(Fail::err(format_args!("Unknown option given: {}", words::lossy(option))));
        }
        replaces = true;
    }
    let (name, _) = first_line(text).map_err(Fail::err)?;
    let mut loaded = Loaded::clone(&cx.server.libraries.loaded());
    Fail::err_when(
        loaded.remove(&name).is_some() && !replaces,
        format_args!("Library '{name}' already exists"),
    )?;
    let library = compiled(cx.server, text, limit(cx))?;
    loaded.add(library).map_err(|taken| Fail::err(format_args!("Function {taken} already exists")))?;
    store(cx, loaded)?;
    answer::bulk(out, name.as_bytes())
}

fn delete(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let mut loaded = Loaded::clone(&cx.server.libraries.loaded());
    let removed = std::str::from_utf8(args[2]).ok().and_then(|name| loaded.remove(name));
    removed.ok_or_else(|| Fail::err("Library not found"))?;
    store(cx, loaded)?;
    ok(out)
}

fn flush(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    if args.len() > 3 {
        return Err(Fail::bad_subcommand(args));
    }
    last_word(&args[2..], (), SYNC_OR_ASYNC)
        .ok_or_else(|| Fail::err("FUNCTION FLUSH only supports SYNC|ASYNC option"))?;
    store(cx, Loaded::default())?;
    ok(out)
}

fn restore(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    if args.len() > 4 {
        return Err(Fail::bad_subcommand(args));
    }
    // The two flags of a policy: whether libraries of the same names are replaced, and whether all present
    // libraries are removed.
    let policies = [("append", (false, false)), ("replace", (true, false)), ("flush", (false, true))];
    let policy = last_word(&args[3..], (false, false), &policies);
    let wrong = "Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.";
    let (replaces, flushes) = policy.ok_or_else(|| Fail::err(wrong))?;
    let texts = dump::read(args[2]).map_err(Fail::err)?;
    let before = if flushes { Arc::default() } else { cx.server.libraries.loaded() };
    let mut loaded = Loaded::clone(&before);
    let taken = |taken: String| Fail::err(format_args!("Function {taken} already exists"));
    let libraries =
        texts.iter().map(|text| compiled(cx.server, text, limit(cx))).collect::<Result<Vec<_>, _>>()?;
    for library in &libraries {
        Fail::err_when(
            loaded.remove(&library.name).is_some() && !replaces,
            format_args!("Library {} already exists", library.name),
        )?;
    }
    libraries.into_iter().try_for_each(|library| loaded.add(library).map_err(taken))?;
    store(cx, loaded)?;
    ok(out)
}

fn list(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (mut has_code, mut pattern, mut options) = (false, None, args[2..].iter());
    while let Some(option) = options.next() {
        if !has_code && option.eq_ignore_ascii_case(b"withcode") {
            has_code = true;
        } else if pattern.is_none() && option.eq_ignore_ascii_case(b"libraryname") {
            pattern = Some(options.next().ok_or_else(|| Fail::err("library name argument was not given"))?);
        } else {
            return Err(Fail::err(format_args!("Unknown argument {}", words::lossy(option))));
        }
    }
    let loaded = cx.server.libraries.loaded();
    // Names are matched in any letter case.
    let pattern = pattern.map(|pattern| pattern.to_ascii_lowercase());
    let is_wanted = |library: &&Arc<Library>| {
        let name = library.name.to_ascii_lowercase();
        pattern.as_ref().is_none_or(|pattern| words::matches(pattern, name.as_bytes()))
    };
    let (begun, mut len) = (out.defer_len(), 0);
    for library in loaded.iter().filter(is_wanted) {
        len += 1;
        out.map(3 + usize::from(has_code));
        out.field("library_name").bulk(library.name.as_bytes());
        out.field("engine").bulk(b"LUA");
        out.field("functions").array(library.functions.len());
        for function in &library.functions {
            out.map(3);
            out.field("name").bulk(function.name.as_bytes());
            out.field("description").maybe_bulk(function.description.as_deref());
            out.field("flags").set(function.declared.names().count());
            function.declared.names().for_each(|name| out.simple(name));
        }
        if has_code {
            out.field("library_code").bulk(&library.text);
        }
    }
    out.end_array(begun, len);
    Ok(())
}

fn stats(cx: &mut Cx<'_>, _: &Args<'_>, out: &mut Reply) -> Done {
    let slow = cx.server.scripts.slowest();
    if slow.as_ref().is_some_and(|slow| slow.is_eval) {
        return Err(Fail::Error(BUSY_EVAL.into()));
    }
    out.map(2);
    out.bulk(b"running_script");
    match slow {
        None => out.null(),
        Some(slow) => {
            out.map(3);
            out.field("name").bulk(slow.name.as_bytes());
            out.field("command").array(slow.command.len());
            slow.command.iter().for_each(|word| out.bulk(word));
            out.field("duration_ms").int(slow.started.elapsed().as_millis() as i64);
        }
    }
    let loaded = cx.server.libraries.loaded();
    out.field("engines").map(1);
    out.bulk(b"LUA");
    out.map(2);
    out.field("libraries_count").count(loaded.iter().len());
    out.field("functions_count").count(loaded.functions());
    Ok(())
}

const HELP: &[&str] = &[
    "LOAD [REPLACE] <FUNCTION CODE>",
    "    Loads a library, which says its name in its first line.",
    "DELETE <LIBRARY NAME>",
    "    Removes a library.",
    "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
    "    Tells of all libraries, or of those whose names match: name, engine, functions, and code.",
    "STATS",
    "    Tells of the function that is slow, and how many libraries and functions there are.",
    "KILL",
    "    Ends the function that is slow, if it has written nothing.",
    "FLUSH [ASYNC|SYNC]",
    "    Removes all libraries.",
    "DUMP",
    "    All libraries, as RESTORE takes them.",
    "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
    "    Loads libraries from a DUMP: after all others were removed (FLUSH), beside others (APPEND), or in",
    "    place of those of the same name (REPLACE).",
];

/// Loads the libraries that are in the heap, in place of the present ones. Leaves out and logs a library that
/// cannot be compiled, or that has a function of the same name as another library.
///
/// # Errors
/// If the heap refuses the transaction.
pub fn load_libraries(server: &Server) -> pheap::Result<()> {
    let store = &server.store;
    // A transaction, although it changes nothing: it waits for a transaction of another thread that has set
    // `libraries` but has not yet committed. A read would see the libraries from before that commit.
    store.root(store.shards().len()).txn_deferred(|tx, root| {
        let db = &tx[tx[root].dbs.at(tx, 0)];
        let texts = db.keys().iter(tx).filter_map(|(_, entry)| entry.value.with_bytes(tx, <[u8]>::to_vec));
        let before = server.libraries.loaded();
        let mut loaded = Loaded::default();
        for text in texts {
            let same = first_line(&text).ok().and_then(|(name, _)| before.get(name.as_bytes()).cloned());
            let library = match same.filter(|library| library.text == text) {
                Some(library) => Ok(library),
                None => compiled(server, &text, LONG_LOAD),
            };
            let problem_of = |fail| match fail {
                Fail::Error(error) => error.into_owned(),
                other => format!("{other:?}"),
            };
            let taken = |name| format!("another library has the function '{name}'");
            let result = library.map_err(problem_of).and_then(|library| loaded.add(library).map_err(taken));
            if let Err(problem) = result {
                let name = first_line(&text).map_or_else(|_| "?".to_owned(), |(name, _)| name);
                tracing::warn!(
                    "the library of functions '{name}' was left out: {problem}; load a correct one \
                     (FUNCTION LOAD)"
                );
            }
        }
        server.libraries.set(loaded);
        Ok(())
    })?;
    Ok(())
}
