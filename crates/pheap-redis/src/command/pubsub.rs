//! Channels: `SUBSCRIBE`, `PUBLISH` and the like.

use super::table::{LOOK, tell_subcommands};
use super::{Args, Command, Cx, Done, Fail, Flags, Keys, answer};
use crate::clients::client::Session;
use crate::clients::pubsub::SubscriptionKind;
use crate::resp::Reply;

const LISTEN: Flags = LOOK.and(Flags::PUBSUB).and(Flags::NOSCRIPT).and(Flags::UNASKED).and(Flags::LISTENING);
const TELL: Flags = LOOK.and(Flags::PUBSUB);
const PUBLISH: Flags = LOOK.and(Flags::PUBSUB).and(Flags::FAST).and(Flags::MAY_REPLICATE);

pub(super) const COMMANDS: &[Command] = &[
    Command::new("psubscribe", -2, LISTEN, Keys::None, |cx, args, out| {
        listen(cx, args, SubscriptionKind::Pattern, out)
    }),
    Command::new("publish", 3, PUBLISH, Keys::None, |cx, args, out| {
        publish(cx, args, SubscriptionKind::Channel, out)
    }),
    Command::container("pubsub"),
    Command::new("pubsub|channels", -2, TELL, Keys::None, |cx, args, out| {
        channels(cx, args, SubscriptionKind::Channel, out)
    }),
    Command::new("pubsub|help", 2, LOOK, Keys::None, |_, args, out| tell_subcommands(args, HELP, out)),
    Command::new("pubsub|numpat", 2, TELL, Keys::None, |cx, _, out| {
        answer::count(out, cx.server.channels.count(SubscriptionKind::Pattern))
    }),
    Command::new("pubsub|numsub", -2, TELL, Keys::None, |cx, args, out| {
        write_subscriber_counts(cx, args, SubscriptionKind::Channel, out)
    }),
    Command::new("pubsub|shardchannels", -2, TELL, Keys::None, |cx, args, out| {
        channels(cx, args, SubscriptionKind::Shard, out)
    }),
    Command::new("pubsub|shardnumsub", -2, TELL, Keys::None, |cx, args, out| {
        write_subscriber_counts(cx, args, SubscriptionKind::Shard, out)
    }),
    Command::new("punsubscribe", -1, LISTEN, Keys::None, |cx, args, out| {
        leave(cx, args, SubscriptionKind::Pattern, out)
    }),
    Command::new("spublish", 3, PUBLISH, Keys::None, |cx, args, out| {
        publish(cx, args, SubscriptionKind::Shard, out)
    }),
    Command::new("ssubscribe", -2, LISTEN, Keys::None, |cx, args, out| {
        // As in Redis, `SSUBSCRIBE` is refused where a command may not block, for example in transactions.
        Fail::err_when(!cx.may_block, "SSUBSCRIBE isn't allowed for a DENY BLOCKING client")?;
        listen(cx, args, SubscriptionKind::Shard, out)
    }),
    Command::new("subscribe", -2, LISTEN, Keys::None, |cx, args, out| {
        listen(cx, args, SubscriptionKind::Channel, out)
    }),
    Command::new("sunsubscribe", -1, LISTEN, Keys::None, |cx, args, out| {
        leave(cx, args, SubscriptionKind::Shard, out)
    }),
    Command::new("unsubscribe", -1, LISTEN, Keys::None, |cx, args, out| {
        leave(cx, args, SubscriptionKind::Channel, out)
    }),
];

fn publish(cx: &mut Cx<'_>, args: &Args<'_>, kind: SubscriptionKind, out: &mut Reply) -> Done {
    let (server, mut count) = (cx.server, 0);
    server.channels.publish(kind, args[1], args[2], &mut |to, parts| {
        count += 1;
        cx.effects.send(server, to, parts);
    });
    answer::count(out, count)
}

fn channels(cx: &mut Cx<'_>, args: &Args<'_>, kind: SubscriptionKind, out: &mut Reply) -> Done {
    let pattern = match args[2..] {
        [] => &b"*"[..],
        [pattern] => pattern,
        _ => return Err(Fail::bad_subcommand(args)),
    };
    let names = cx.server.channels.matching(kind, pattern);
    answer::bulks(out, names.iter())
}

fn write_subscriber_counts(
    cx: &mut Cx<'_>,
    args: &Args<'_>,
    kind: SubscriptionKind,
    out: &mut Reply,
) -> Done {
    out.array(2 * (args.len() - 2));
    for channel in &args[2..] {
        out.bulk(channel);
        out.count(cx.server.channels.subscriber_count(kind, channel));
    }
    Ok(())
}

const HELP: &[&str] = &[
    "CHANNELS [<pattern>]",
    "    Tells which channels have listeners, and match the pattern.",
    "NUMPAT",
    "    Tells how many patterns have listeners.",
    "NUMSUB [<channel> ...]",
    "    Tells how many listen to each of these channels, those to patterns not counted.",
    "SHARDCHANNELS [<pattern>]",
    "    Tells which channels of shards have listeners, and match the pattern.",
    "SHARDNUMSUB [<shardchannel> ...]",
    "    Tells how many listen to each of these channels of shards.",
];

/// Confirms a change of subscriptions, with the number of the client's subscriptions: to channels of shards,
/// or to channels and patterns.
fn confirm(session: &Session, kind: SubscriptionKind, what: &str, name: Option<&[u8]>, out: &mut Reply) {
    let of = |kind: SubscriptionKind| session.listens[kind as usize].len();
    out.push(3);
    out.bulk(what.as_bytes());
    out.maybe_bulk(name);
    out.count(if kind == SubscriptionKind::Shard {
        of(kind)
    } else {
        of(SubscriptionKind::Channel) + of(SubscriptionKind::Pattern)
    });
}

fn listen(cx: &mut Cx<'_>, args: &Args<'_>, kind: SubscriptionKind, out: &mut Reply) -> Done {
    let what = match kind {
        SubscriptionKind::Channel => "subscribe",
        SubscriptionKind::Pattern => "psubscribe",
        SubscriptionKind::Shard => "ssubscribe",
    };
    for name in &args[1..] {
        if cx.session.listens_to(kind).insert(name.to_vec()) {
            cx.server.channels.add(name, kind, cx.session.id);
        }
        confirm(cx.session, kind, what, Some(name), out);
    }
    Ok(())
}

fn leave(cx: &mut Cx<'_>, args: &Args<'_>, kind: SubscriptionKind, out: &mut Reply) -> Done {
    let what = match kind {
        SubscriptionKind::Channel => "unsubscribe",
        SubscriptionKind::Pattern => "punsubscribe",
        SubscriptionKind::Shard => "sunsubscribe",
    };
    let some = match args[1..] {
        [] => cx.session.listens_to(kind).iter().cloned().collect(),
        _ => args[1..].iter().map(|name| name.to_vec()).collect::<Vec<_>>(),
    };
    if some.is_empty() {
        confirm(cx.session, kind, what, None, out);
    }
    for name in some {
        if cx.session.listens_to(kind).remove(&name) {
            cx.server.channels.remove(&name, kind, cx.session.id);
        }
        confirm(cx.session, kind, what, Some(&name), out);
    }
    Ok(())
}
