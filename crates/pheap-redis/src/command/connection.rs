//! Commands about the connection, and `MULTI`, `WATCH` and the like.

use super::args::{database, int};
use super::server::no_cluster;
use super::table::{ALL_KEYS, LOOK, READ_FAST};
use super::{Args, Command, Cx, Done, Fail, Flags, Keys, answer, ok};
use crate::clients::client::Multi;
use crate::resp::Reply;

const TRANSACTION: Flags = LOOK.and(Flags::NOSCRIPT).and(Flags::FAST).and(Flags::ALLOW_BUSY);
const WATCH: Flags =
    READ_FAST.and(Flags::NOSCRIPT).and(Flags::LOADING).and(Flags::STALE).and(Flags::ALLOW_BUSY);
const FAST: Flags = LOOK.and(Flags::FAST);
const ALWAYS: Flags = LOOK.and(Flags::NOSCRIPT).and(Flags::FAST).and(Flags::NO_AUTH).and(Flags::ALLOW_BUSY);
const LEAVE: Flags = ALWAYS.and(Flags::LISTENING).and(Flags::ENDS_MULTI);
const EXEC: Flags = LOOK.and(Flags::NOSCRIPT).and(Flags::SKIP_SLOWLOG).and(Flags::ENDS_MULTI);

pub(super) const COMMANDS: &[Command] = &[
    Command::new("asking", 1, Flags::FAST, Keys::None, no_cluster),
    Command::new("auth", -2, ALWAYS, Keys::None, auth),
    Command::new("echo", 2, FAST, Keys::None, |_, args, out| answer::bulk(out, args[1])),
    Command::new("hello", -1, ALWAYS, Keys::None, hello),
    Command::new("ping", -1, Flags::FAST.and(Flags::LISTENING), Keys::None, ping),
    Command::new("quit", -1, LEAVE, Keys::None, |cx, _, out| {
        cx.session.closing = true;
        ok(out)
    }),
    Command::new("readonly", 1, FAST, Keys::None, no_cluster),
    Command::new("readwrite", 1, FAST, Keys::None, no_cluster),
    Command::new("reset", 1, LEAVE, Keys::None, reset),
    Command::new("select", 2, FAST, Keys::None, select),
];

pub(super) const TRANSACTIONS: &[Command] = &[
    Command::new("discard", 1, TRANSACTION.and(Flags::ENDS_MULTI), Keys::None, discard),
    // A client's `EXEC` runs in `Execution::exec` and does not call this function.
    Command::new("exec", 1, EXEC, Keys::None, |_, _, _| Err(Fail::err("EXEC without MULTI"))),
    Command::new("multi", 1, TRANSACTION.and(Flags::AT_ONCE), Keys::None, multi),
    Command::new("unwatch", 1, TRANSACTION, Keys::None, |cx, _, out| {
        cx.server.unwatch(cx.session);
        ok(out)
    }),
    Command::new("watch", -2, WATCH.and(Flags::AT_ONCE).and(Flags::GLANCE), ALL_KEYS, watch).access("RO"),
];

fn ping(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    match args[1..] {
        [] | [_] if cx.session.only_listens() => {
            out.array(2);
            out.bulk(b"pong");
            out.bulk(args.get(1).copied().unwrap_or_default());
        }
        [] => out.simple("PONG"),
        [text] => out.bulk(text),
        _ => return Err(Fail::arity("ping")),
    }
    Ok(())
}

/// Returns whether `given` is the password. The time depends on the lengths, and not on where the two differ.
fn is_password(cx: &Cx<'_>, given: &[u8]) -> bool {
    let config = cx.server.config.read();
    let password = config.text("requirepass").as_bytes();
    let differences = password.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
    password.len() == given.len() && differences == 0
}

fn log_in(cx: &mut Cx<'_>, user: &[u8], password: &[u8]) -> Done {
    let has_password = !cx.server.config.read().text("requirepass").is_empty();
    if user != b"default" || has_password && !is_password(cx, password) {
        return Err(Fail::Error("WRONGPASS invalid username-password pair or user is disabled.".into()));
    }
    cx.session.authenticated = true;
    Ok(())
}

fn auth(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    match args[1..] {
        [_] if cx.server.config.read().text("requirepass").is_empty() => {
            return Err(Fail::err(
                "AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
            ));
        }
        [password] => log_in(cx, b"default", password)?,
        [user, password] => log_in(cx, user, password)?,
        _ => return Err(Fail::SYNTAX),
    }
    ok(out)
}

fn hello(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let mut rest = args[1..].iter();
    let resp3 = match rest.next().map(|version| int(version)) {
        None => cx.session.resp3,
        Some(Ok(2)) => false,
        Some(Ok(3)) => true,
        Some(Err(_)) => return Err(Fail::err("Protocol version is not an integer or out of range")),
        Some(Ok(_)) => return Err(Fail::Error("NOPROTO unsupported protocol version".into())),
    };
    let mut name = None;
    while let Some(option) = rest.next() {
        match (option.to_ascii_lowercase().as_slice(), rest.len()) {
            (b"auth", 2..) => {
                let user_and_password = [rest.next(), rest.next()].map(|word| *word.expect("there are two"));
                log_in(cx, user_and_password[0], user_and_password[1])?;
            }
            (b"setname", 1..) => name = rest.next(),
            _ => {
                return Err(Fail::err(format_args!(
                    "Syntax error in HELLO option '{}'",
                    crate::text::words::lossy(option)
                )));
            }
        }
    }
    if !cx.session.authenticated {
        return Err(Fail::Error(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time".into(),
        ));
    }
    if let Some(name) = name {
        super::clients::set_name(cx, name)?;
    }
    cx.session.resp3 = resp3;
    out.set_resp3(resp3);
    out.map(7);
    for (field, text) in [("server", "redis"), ("version", crate::REDIS_VERSION)] {
        out.field(field).bulk(text.as_bytes());
    }
    out.field("proto").int(if resp3 { 3 } else { 2 });
    out.field("id").int(cx.session.id as i64);
    let role = if cx.server.role.is_replica() { "replica" } else { "master" };
    for (field, text) in [("mode", "standalone"), ("role", role)] {
        out.field(field).bulk(text.as_bytes());
    }
    out.field("modules").array(0);
    Ok(())
}

/// `RESET`: leaves transactions, channels and `MONITOR`, and restores most settings of the connection.
fn reset(cx: &mut Cx<'_>, _: &Args<'_>, out: &mut Reply) -> Done {
    cx.session.multi = None;
    cx.server.unwatch(cx.session);
    cx.server.listen_to_nothing(cx.session);
    if cx.session.monitors {
        cx.server.remove_monitor(cx.session.id);
        cx.session.monitors = false;
    }
    cx.server.tracking.disable(cx.session);
    cx.session.db = 0;
    cx.session.resp3 = false;
    cx.session.replies = crate::clients::client::Replies::On;
    (cx.session.never_evicted, cx.session.touches_nothing) = (false, false);
    cx.session.authenticated = cx.server.config.read().text("requirepass").is_empty();
    cx.session.profile.state.lock().name.clear();
    out.set_resp3(false);
    answer::simple(out, "RESET")
}

fn select(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    cx.session.db = database(cx, args[1])?;
    ok(out)
}

fn multi(cx: &mut Cx<'_>, _: &Args<'_>, out: &mut Reply) -> Done {
    Fail::err_when(cx.session.multi.is_some(), "MULTI calls can not be nested")?;
    cx.session.multi = Some(Multi::default());
    ok(out)
}

fn discard(cx: &mut Cx<'_>, _: &Args<'_>, out: &mut Reply) -> Done {
    Fail::err_when(cx.session.multi.take().is_none(), "DISCARD without MULTI")?;
    cx.server.unwatch(cx.session);
    ok(out)
}

fn watch(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    Fail::err_when(cx.session.multi.is_some(), "WATCH inside MULTI is not allowed")?;
    for key in &args[1..] {
        let (name, now) = ((cx.session.db, key.to_vec()), cx.now);
        if !cx.session.watched.contains_key(&name) {
            cx.server.watched.add(cx.session.db, key, &cx.session.watched_changed);
            // While a script is slow, this command has locked no shard, so it cannot read the key's deadline.
            let is_over = cx.keyspace.has_shard(cx.store().shard_of(key))
                && cx.read(key, |view, db| db.deadline(view, key).is_some_and(|deadline| deadline <= now));
            cx.session.watched.insert(name, is_over);
        }
    }
    ok(out)
}
