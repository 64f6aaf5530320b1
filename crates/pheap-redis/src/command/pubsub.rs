//! Channels.

use super::{Args, Command, Cx, Done, Fail, Flags, Keys};
use crate::pubsub::Listener;
use crate::resp::Reply;

const LISTEN: &[Flags] = &[Flags::PUBSUB, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE];
const LOOK: &[Flags] = &[Flags::PUBSUB, Flags::LOADING, Flags::STALE];

pub(super) const COMMANDS: &[Command] = &[
    Command::new("psubscribe", -2, LISTEN, Keys::None, |cx, args, out| listen(cx, args, true, out)),
    Command::new(
        "publish",
        3,
        &[Flags::PUBSUB, Flags::LOADING, Flags::STALE, Flags::FAST, Flags::MAY_REPLICATE],
        Keys::None,
        publish,
    ),
    Command::with_subcommands(
        "pubsub",
        &[],
        &[
            Command::new("pubsub|channels", -2, LOOK, Keys::None, channels),
            Command::new("pubsub|numpat", 2, LOOK, Keys::None, |cx, _, out| {
                out.count(cx.server.channels.patterns());
                Ok(())
            }),
            Command::new("pubsub|numsub", -2, LOOK, Keys::None, |cx, args, out| {
                out.map(args.len() - 2);
                for channel in &args[2..] {
                    out.bulk(channel);
                    out.count(cx.server.channels.listeners(channel));
                }
                Ok(())
            }),
        ],
    ),
    Command::new("punsubscribe", -1, LISTEN, Keys::None, |cx, args, out| leave(cx, args, true, out)),
    Command::new("subscribe", -2, LISTEN, Keys::None, |cx, args, out| listen(cx, args, false, out)),
    Command::new("unsubscribe", -1, LISTEN, Keys::None, |cx, args, out| leave(cx, args, false, out)),
];

fn publish(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let messages = cx.server.channels.publish(args[1], args[2]);
    out.count(messages.len());
    cx.effects.messages.extend(messages);
    Ok(())
}

fn channels(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let pattern = match args[2..] {
        [] => &b"*"[..],
        [pattern] => pattern,
        _ => return Err(Fail::SYNTAX),
    };
    let names = cx.server.channels.matching(pattern);
    out.array(names.len());
    names.iter().for_each(|name| out.bulk(name));
    Ok(())
}

/// Says that the client does, or does not, listen to something, and to how much in all.
fn confirm(cx: &Cx<'_>, what: &str, name: Option<&[u8]>, out: &mut Reply) {
    out.push(3);
    out.bulk(what.as_bytes());
    out.maybe_bulk(name);
    out.count(cx.session.subscriptions());
}

fn listen(cx: &mut Cx<'_>, args: &Args<'_>, is_pattern: bool, out: &mut Reply) -> Done {
    let what = if is_pattern { "psubscribe" } else { "subscribe" };
    let listener = Listener { client: cx.session.id, resp3: cx.session.resp3 };
    for name in &args[1..] {
        let names = if is_pattern { &mut cx.session.patterns } else { &mut cx.session.channels };
        if names.insert(name.to_vec()) {
            cx.server.channels.add(name, is_pattern, listener);
        }
        confirm(cx, what, Some(name), out);
    }
    Ok(())
}

fn leave(cx: &mut Cx<'_>, args: &Args<'_>, is_pattern: bool, out: &mut Reply) -> Done {
    let what = if is_pattern { "punsubscribe" } else { "unsubscribe" };
    let names =
        |cx: &Cx<'_>| if is_pattern { cx.session.patterns.clone() } else { cx.session.channels.clone() };
    let some = match args[1..] {
        [] => names(cx).into_iter().collect(),
        _ => args[1..].iter().map(|name| name.to_vec()).collect::<Vec<_>>(),
    };
    if some.is_empty() {
        confirm(cx, what, None, out);
    }
    for name in some {
        let names = if is_pattern { &mut cx.session.patterns } else { &mut cx.session.channels };
        if names.remove(&name) {
            cx.server.channels.remove(&name, is_pattern, cx.session.id);
        }
        confirm(cx, what, Some(&name), out);
    }
    Ok(())
}
