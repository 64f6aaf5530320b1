//! `DEBUG`: commands for tests and developers.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::args::int;
use super::server::is_allowed;
use super::table::ADMIN;
use super::{Args, Command, Cx, Done, Fail, Keys, answer, ok};
use crate::rdb;
use crate::resp::Reply;
use crate::text::words;

pub(super) const COMMANDS: &[Command] = &[Command::new(
    "debug",
    -2,
    ADMIN,
    Keys::Find(|args, found| {
        if args[1].eq_ignore_ascii_case(b"object") && args.len() == 3 {
            found.push(2);
        }
    }),
    debug,
)];

/// Number of bytes of a `DUMP` outside the value: type, version and checksum.
const DUMP_END: usize = 11;

fn debug(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    Fail::err_when(
        !is_allowed(cx, &cx.server.config.read(), "enable-debug-command"),
        "DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.",
    )?;
    match (args[1].to_ascii_lowercase().as_slice(), &args[2..]) {
        (b"error", [text]) => return Err(Fail::Error(words::lossy(text).into_owned().into())),
        (b"object", [key]) => return object(cx, key, out),
        (b"panic", []) => panic!("`DEBUG PANIC` was called"),
        // `DEBUG RELOAD` only makes a checkpoint: all data are in the heap, so there is nothing to load.
        (b"reload", _) => cx.store().heap().checkpoint().map_err(|error| Fail::err(&error))?,
        (b"set-active-expire", [flag]) => cx.server.options.expires.store(int(flag)? != 0, Relaxed),
        (b"sleep", [seconds]) => {
            let seconds = std::str::from_utf8(seconds).ok().and_then(|text| text.parse::<f64>().ok());
            let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            std::thread::sleep(duration.unwrap_or_default());
        }
        (b"stringmatch-len", [len, pattern]) => {
            let text = vec![b'x'; usize::try_from(int(len)?).unwrap_or(0).min(512 << 20)];
            return answer::int(out, i64::from(words::matches(pattern, &text)));
        }
        _ => return Err(Fail::bad_subcommand(args)),
    }
    ok(out)
}

fn object(cx: &mut Cx<'_>, key: &[u8], out: &mut Reply) -> Done {
    let Some((value, _)) = cx.copy_of(key) else { return Err(Fail::NO_SUCH_KEY) };
    let encoding = super::object::encoding_of(cx, key);
    let len = rdb::dump(&value).map_err(Fail::err)?.len() - DUMP_END;
    let idle = cx.server.clocks.idle_seconds(key, cx.now);
    let told = format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{len} lru:0 lru_seconds_idle:{idle}"
    );
    answer::simple(out, &told)
}
