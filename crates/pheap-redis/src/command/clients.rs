//! `CLIENT`: lists, names, pauses and disconnects clients.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use super::args::{int, last_word, one_of, timeout_ms};
use super::table::{ADMIN, LOOK};
use super::{Args, Command, Cx, Done, Fail, Flags, Keys, answer, ok, tracking, yes_or_no};
use crate::clients::client::Replies;
use crate::clients::{ClientKind, Filter, Pause};
use crate::connections::mailbox::Message;
use crate::resp::Reply;
use crate::text::words;

const TELL: Flags = LOOK.and(Flags::NOSCRIPT);

pub(super) const COMMANDS: &[Command] = &[
    Command::container("client"),
    Command::new("client|caching", 3, TELL, Keys::None, tracking::caching),
    Command::new("client|getname", 2, TELL, Keys::None, |cx, _, out| {
        let name = cx.session.profile.state.lock().name.clone();
        answer::maybe_bulk(out, (!name.is_empty()).then_some(&name))
    }),
    Command::new("client|getredir", 2, TELL, Keys::None, |cx, _, out| {
        answer::int(out, cx.session.redirects_to())
    }),
    Command::help("client|help"),
    Command::new("client|id", 2, TELL, Keys::None, |cx, _, out| answer::int(out, cx.session.id as i64)),
    Command::new("client|info", 2, TELL, Keys::None, |cx, _, out| {
        cx.session.publish();
        answer::text(out, &(cx.session.profile.line() + "\n"))
    }),
    Command::new("client|kill", -3, ADMIN, Keys::None, kill),
    Command::new("client|list", -2, ADMIN, Keys::None, list),
    Command::new("client|no-evict", 3, ADMIN, Keys::None, |cx, args, out| {
        cx.session.never_evicted = on_or_off(args[2])?;
        ok(out)
    }),
    Command::new("client|no-touch", 3, TELL, Keys::None, |cx, args, out| {
        cx.session.touches_nothing = on_or_off(args[2])?;
        ok(out)
    }),
    Command::new("client|pause", -3, ADMIN, Keys::None, pause),
    Command::new("client|reply", 3, TELL, Keys::None, reply),
    Command::new("client|setinfo", 4, TELL, Keys::None, |cx, args, out| {
        let mut state = cx.session.profile.state.lock();
        let [name, version] = &mut state.library;
        let (which, field) = match args[2].to_ascii_lowercase().as_slice() {
            b"lib-name" => ("lib-name", name),
            b"lib-ver" => ("lib-ver", version),
            other => {
                let other = words::lossy(other);
                return Err(Fail::err(format_args!("Unrecognized option '{other}'")));
            }
        };
        if !is_plain(args[3]) {
            return Err(Fail::err(format_args!(
                "{which} cannot contain spaces, newlines or special characters."
            )));
        }
        *field = args[3].to_vec();
        ok(out)
    }),
    Command::new("client|setname", 3, TELL, Keys::None, |cx, args, out| {
        set_name(cx, args[2])?;
        ok(out)
    }),
    Command::new("client|tracking", -3, TELL, Keys::None, tracking::tracking),
    Command::new("client|trackinginfo", 2, TELL, Keys::None, tracking::info),
    Command::new("client|unblock", -3, ADMIN, Keys::None, unblock),
    Command::new("client|unpause", 2, ADMIN, Keys::None, |cx, _, out| {
        cx.server.pause(None);
        ok(out)
    }),
];

fn on_or_off(word: &[u8]) -> Result<bool, Fail> {
    one_of(word, &[("on", true), ("off", false)])
}

/// Returns whether the text can be a field of `CLIENT LIST`.
fn is_plain(text: &[u8]) -> bool {
    text.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

/// Sets the name of the client. Fails if the name cannot be a field of `CLIENT LIST`.
pub(super) fn set_name(cx: &Cx<'_>, name: &[u8]) -> Done {
    Fail::err_when(!is_plain(name), "Client names cannot contain spaces, newlines or special characters.")?;
    cx.session.profile.state.lock().name = name.to_vec();
    Ok(())
}

fn reply(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    cx.session.replies = match args[2].to_ascii_lowercase().as_slice() {
        b"on" => {
            out.ok();
            Replies::On
        }
        b"off" => Replies::Off,
        b"skip" if cx.session.replies == Replies::Off => Replies::Off,
        b"skip" => Replies::SkipNext,
        _ => return Err(Fail::SYNTAX),
    };
    Ok(())
}

fn kind(name: &[u8]) -> Result<ClientKind, Fail> {
    match name.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(ClientKind::Normal),
        b"pubsub" => Ok(ClientKind::PubSub),
        b"master" | b"slave" | b"replica" => Ok(ClientKind::Server),
        _ => Err(Fail::err(format_args!("Unknown client type '{}'", words::lossy(name)))),
    }
}

fn list(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    cx.session.publish();
    let clients = &cx.server.clients;
    let some = match args[2..] {
        [] => clients.matching(&Filter::default()),
        [option, name] if option.eq_ignore_ascii_case(b"type") => {
            clients.matching(&Filter { kind: Some(kind(name)?), ..Filter::default() })
        }
        [option, ref ids @ ..] if option.eq_ignore_ascii_case(b"id") && !ids.is_empty() => {
            let mut some = Vec::new();
            for id in ids {
                let id = words::int(id).ok_or_else(|| Fail::err("Invalid client ID"))?;
                some.extend(clients.get(id as u64));
            }
            some
        }
        _ => return Err(Fail::SYNTAX),
    };
    answer::text(out, some.iter().map(|profile| profile.line() + "\n").collect::<String>())
}

fn kill(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (mut filter, mut spares_itself) = (Filter::default(), true);
    let is_short = args.len() == 3;
    if is_short {
        (filter.addr, spares_itself) = (Some(args[2].to_vec()), false);
    } else {
        let options = args[2..].chunks_exact(2);
        let is_odd = !options.remainder().is_empty();
        for option in options {
            match option[0].to_ascii_lowercase().as_slice() {
                b"id" => {
                    let id = words::int(option[1]).filter(|&id| id > 0);
                    let id = id.ok_or_else(|| Fail::err("client-id should be greater than 0"))?;
                    filter.id = Some(id as u64);
                }
                b"type" => filter.kind = Some(kind(option[1])?),
                b"addr" => filter.addr = Some(option[1].to_vec()),
                b"laddr" => filter.laddr = Some(option[1].to_vec()),
                b"user" if option[1] == b"default" => {}
                b"user" => {
                    return Err(Fail::err(format_args!("No such user '{}'", words::lossy(option[1]))));
                }
                b"skipme" => spares_itself = one_of(option[1], &[("yes", true), ("no", false)])?,
                _ => return Err(Fail::SYNTAX),
            }
        }
        Fail::SYNTAX.when(is_odd)?;
    }
    filter.not = spares_itself.then_some(cx.session.id);
    let some = cx.server.clients.matching(&filter);
    for profile in &some {
        if profile.id == cx.session.id {
            cx.session.closing = true; // closed after the reply
        } else {
            cx.server.clients.remove(profile.id);
            cx.server.threads[profile.thread].post(Message::Kill(profile.id));
        }
    }
    match (is_short, some.len()) {
        (true, 0) => return Err(Fail::err("No such client")),
        (true, _) => out.ok(),
        (false, killed) => out.count(killed),
    }
    Ok(())
}

fn unblock(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let with_error = last_word(&args[3..], false, &[("timeout", false), ("error", true)])
        .ok_or_else(|| Fail::err("CLIENT UNBLOCK reason should be TIMEOUT or ERROR"))?;
    let profile = cx.server.clients.get(int(args[2])? as u64);
    // If several clients unblock the same client at once, only the command that clears this flag answers 1.
    let is_blocked = profile.as_ref().is_some_and(|profile| profile.is_blocked.swap(false, SeqCst));
    if let Some(profile) = profile.filter(|_| is_blocked) {
        cx.server.threads[profile.thread].post(Message::Unblock { client: profile.id, with_error });
    }
    yes_or_no(out, is_blocked)
}

fn pause(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let all = last_word(&args[3..], true, &[("all", true), ("write", false)])
        .ok_or_else(|| Fail::err("CLIENT PAUSE mode must be WRITE or ALL"))?;
    let length = timeout_ms(args[2])?;
    // As in Redis, the end of the pause in milliseconds since 1970 must fit in an `i64`.
    Fail::err_when(length > (i64::MAX - cx.clock) as u64, "timeout is out of range")?;
    let until = Instant::now() + Duration::from_millis(length);
    cx.server.pause(Some(Pause { until, all }));
    ok(out)
}
