//! Scripts: `EVAL`, `EVALSHA` and `SCRIPT`.

use std::sync::Arc;

use super::args::{SYNC_OR_ASYNC, int, last_word};
use super::script::{EngineKind, ScriptCall, with_engine};
use super::table::{LOOK, READ, tell_subcommands};
use super::{Args, Command, Cx, Done, Fail, Flags, Keys, answer, ok};
use crate::resp::Reply;
use crate::scripts::{Script, ScriptFlags, Sha, sha1};
use crate::server::MASTER_DOWN;

/// Flags of commands that run scripts and functions.
pub(super) const RUN: Flags =
    Flags::NOSCRIPT.and(Flags::STALE).and(Flags::SKIP_MONITOR).and(Flags::MAY_REPLICATE);
/// Flags of commands that run read-only scripts and functions.
pub(super) const RUN_READ_ONLY: Flags = READ.and(Flags::NOSCRIPT).and(Flags::STALE).and(Flags::SKIP_MONITOR);

pub(super) const COMMANDS: &[Command] = &[
    Command::new("eval", -3, RUN, Keys::Script, |cx, args, out| eval(cx, args, false, out)),
    Command::new("eval_ro", -3, RUN_READ_ONLY, Keys::Script, |cx, args, out| eval(cx, args, true, out)),
    Command::new("evalsha", -3, RUN, Keys::Script, |cx, args, out| evalsha(cx, args, false, out)),
    Command::new("evalsha_ro", -3, RUN_READ_ONLY, Keys::Script, |cx, args, out| evalsha(cx, args, true, out)),
    Command::container("script"),
    Command::new("script|debug", 3, Flags::NOSCRIPT, Keys::None, |_, _, _| {
        Err(Fail::err("SCRIPT DEBUG is not supported by this server"))
    }),
    Command::new("script|exists", -3, Flags::NOSCRIPT, Keys::None, exists),
    Command::new("script|flush", -2, Flags::NOSCRIPT, Keys::None, flush),
    Command::new("script|help", 2, LOOK, Keys::None, |_, args, out| tell_subcommands(args, HELP, out)),
    Command::new("script|kill", 2, Flags::NOSCRIPT.and(Flags::ALLOW_BUSY), Keys::None, |cx, _, out| {
        cx.server.scripts.kill(true).map_err(|why| Fail::Error(why.into()))?;
        ok(out)
    }),
    Command::new("script|load", 3, Flags::NOSCRIPT.and(Flags::STALE), Keys::None, load),
];

const NO_SCRIPT: Fail =
    Fail::Error(std::borrow::Cow::Borrowed("NOSCRIPT No matching script. Please use EVAL."));

/// Returns the number of keys of a script. Fails if the number is negative, or greater than the number of
/// arguments behind it.
pub(super) fn number_of_keys(args: &Args<'_>, number: i64) -> Result<usize, Fail> {
    match usize::try_from(number) {
        Err(_) => Err(Fail::err("Number of keys can't be negative")),
        Ok(number) if number > args.len() - 3 => {
            Err(Fail::err("Number of keys can't be greater than number of args"))
        }
        Ok(number) => Ok(number),
    }
}

/// Fails if a script with these declared flags may not run now. A script without a line of flags may always
/// run: its commands are checked one by one.
pub(super) fn may_run(cx: &Cx<'_>, declared: ScriptFlags, is_read_only: bool) -> Result<(), Fail> {
    if declared.has(ScriptFlags::NOTHING) {
        return Ok(());
    }
    Fail::err_when(
        is_read_only && !declared.has(ScriptFlags::NO_WRITES),
        "Can not execute a script with write flag using *_ro command.",
    )?;
    let server = cx.server;
    if cx.session.is_master {
        return Ok(());
    }
    if server.role.is_replica() {
        if server.is_read_only() && !declared.has(ScriptFlags::NO_WRITES) {
            return Err(Fail::Error(
                "READONLY You can not run script with write flag on readonly replica.".into(),
            ));
        }
        if server.is_stale() && !declared.has(ScriptFlags::ALLOW_STALE) {
            return Err(Fail::Error(MASTER_DOWN.into()));
        }
    }
    // A script that only reads needs no more memory of the heap, so it may run without `allow-oom`.
    if cx.session.out_of_memory && !declared.has(ScriptFlags::ALLOW_OOM.and(ScriptFlags::NO_WRITES)) {
        return Err(Fail::Error(
            "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'"
                .into(),
        ));
    }
    Ok(())
}

/// Returns the script with this text. If it is not known, compiles and registers it.
fn known(cx: &Cx<'_>, text: &[u8]) -> Result<Arc<Script>, Fail> {
    let scripts = &cx.server.scripts;
    if let Some(script) = scripts.get(&sha1(text)) {
        return Ok(script);
    }
    let script = Arc::new(Script::new(text).map_err(Fail::err)?);
    with_engine(scripts, EngineKind::Scripts, |engine| engine.script(&script))?;
    scripts.add(script.clone());
    Ok(script)
}

fn eval(cx: &mut Cx<'_>, args: &Args<'_>, is_read_only: bool, out: &mut Reply) -> Done {
    let keys = number_of_keys(args, int(args[2])?)?;
    let script = known(cx, args[1])?;
    run(cx, args, keys, &script, is_read_only, out)
}

fn evalsha(cx: &mut Cx<'_>, args: &Args<'_>, is_read_only: bool, out: &mut Reply) -> Done {
    let mut sha: Sha = args[1].try_into().map_err(|_| NO_SCRIPT)?;
    sha.make_ascii_lowercase();
    let keys = number_of_keys(args, int(args[2])?)?;
    let script = cx.server.scripts.get(&sha).ok_or(NO_SCRIPT)?;
    run(cx, args, keys, &script, is_read_only, out)
}

fn run(
    cx: &mut Cx<'_>,
    args: &Args<'_>,
    keys: usize,
    script: &Script,
    is_read_only: bool,
    out: &mut Reply,
) -> Done {
    may_run(cx, script.declared, is_read_only)?;
    with_engine(&cx.server.scripts, EngineKind::Scripts, |engine| {
        let call = ScriptCall {
            called: args[1],
            name: std::str::from_utf8(&script.sha).unwrap_or_default(),
            code: script.code(),
            function: engine.script(script)?,
            kind: EngineKind::Scripts,
            command: args,
            keys,
            is_read_only: is_read_only || script.declared.has(ScriptFlags::NO_WRITES),
            may_need_memory: script.declared.has(ScriptFlags::ALLOW_OOM),
        };
        engine.run(cx, &call, out)
    })
}

fn load(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let script = known(cx, args[2])?;
    answer::bulk(out, &script.sha)
}

fn exists(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    out.array(args.len() - 2);
    for sha in &args[2..] {
        let sha = Sha::try_from(*sha).ok();
        out.int(sha.is_some_and(|sha| cx.server.scripts.get(&sha).is_some()).into());
    }
    Ok(())
}

fn flush(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    last_word(&args[2..], (), SYNC_OR_ASYNC)
        .ok_or_else(|| Fail::err("SCRIPT FLUSH only support SYNC|ASYNC option"))?;
    cx.server.scripts.flush();
    ok(out)
}

const HELP: &[&str] = &[
    "EXISTS <sha1> [<sha1> ...]",
    "    Tells which of these scripts are known.",
    "FLUSH [ASYNC|SYNC]",
    "    Forgets all scripts.",
    "KILL",
    "    Ends the script that is slow, if it has written nothing.",
    "LOAD <script>",
    "    Makes a script known, so that EVALSHA can run it.",
];
