//! Client-side caching: `CLIENT TRACKING` and `CLIENT CACHING`.

use std::sync::atomic::Ordering;

use super::args::{int, one_of};
use super::{Args, Cx, Done, Fail, answer, ok};
use crate::clients::client::{Reads, TrackingOptions};
use crate::resp::Reply;
use crate::text::words::lossy;

/// The parsed options of `CLIENT TRACKING`.
#[derive(Default)]
struct TrackingArgs<'a> {
    options: TrackingOptions,
    opts_in: bool,
    opts_out: bool,
    prefixes: Vec<&'a [u8]>,
}

fn asked<'a>(cx: &Cx<'_>, args: &Args<'a>) -> Result<TrackingArgs<'a>, Fail> {
    let mut asked = TrackingArgs::default();
    let mut words = args[3..].iter();
    while let Some(word) = words.next() {
        match (word.to_ascii_lowercase().as_slice(), words.as_slice()) {
            (b"redirect", [_, ..]) if asked.options.redirect.is_some() => {
                return Err(Fail::err("A client can only redirect to a single other client"));
            }
            (b"redirect", [id, ..]) => {
                let id = int(id)? as u64;
                Fail::err_when(
                    cx.server.clients.get(id).is_none(),
                    "The client ID you want redirect to does not exist",
                )?;
                asked.options.redirect = Some(id);
                words.next();
            }
            (b"bcast", _) => asked.options.broadcast = true,
            (b"optin", _) => asked.opts_in = true,
            (b"optout", _) => asked.opts_out = true,
            (b"noloop", _) => asked.options.no_loop = true,
            (b"prefix", [prefix, ..]) => {
                asked.prefixes.push(*prefix);
                words.next();
            }
            _ => return Err(Fail::SYNTAX),
        }
    }
    asked.options.reads = match asked.opts_in {
        true => Reads::OptIn,
        false if asked.opts_out => Reads::OptOut,
        false => Reads::All,
    };
    Ok(asked)
}

/// Fails if the options contradict each other or the client's present mode.
fn check(cx: &Cx<'_>, asked: &TrackingArgs<'_>) -> Done {
    let TrackingArgs { options, opts_in, opts_out, ref prefixes } = *asked;
    let before = cx.session.tracking;
    Fail::err_when(
        !options.broadcast && !prefixes.is_empty(),
        "PREFIX option requires BCAST mode to be enabled",
    )?;
    Fail::err_when(
        before.is_some_and(|before| before.broadcast != options.broadcast),
        "You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.",
    )?;
    Fail::err_when(
        options.broadcast && (opts_in || opts_out),
        "OPTIN and OPTOUT are not compatible with BCAST",
    )?;
    Fail::err_when(opts_in && opts_out, "You can't specify both OPTIN mode and OPTOUT mode")?;
    let reads = before.map_or(Reads::All, |before| before.reads);
    Fail::err_when(
        opts_in && reads == Reads::OptOut || opts_out && reads == Reads::OptIn,
        "You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.",
    )?;
    let overlaps = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
    let refuse = |prefix: &[u8], which: &str, other: &[u8]| {
        Fail::err(format_args!(
            "Prefix '{}' overlaps with {which} prefix '{}'. Prefixes for a single client must not overlap.",
            lossy(prefix),
            lossy(other)
        ))
    };
    let existing = cx.server.tracking.prefixes_of(cx.session.id);
    for (i, prefix) in prefixes.iter().enumerate() {
        if let Some(other) = existing.iter().find(|other| overlaps(prefix, other)) {
            return Err(refuse(prefix, "an existing", other));
        }
        if let Some(other) = prefixes[i + 1..].iter().find(|other| overlaps(prefix, other)) {
            return Err(refuse(prefix, "another provided", other));
        }
    }
    Ok(())
}

pub(super) fn tracking(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let asked = asked(cx, args)?;
    match args[2].to_ascii_lowercase().as_slice() {
        b"on" => {
            check(cx, &asked)?;
            cx.server.tracking.enable(cx.session, asked.options, &asked.prefixes);
        }
        b"off" => cx.server.tracking.disable(cx.session),
        _ => return Err(Fail::SYNTAX),
    }
    ok(out)
}

pub(super) fn caching(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let Some(options) = cx.session.tracking else {
        return Err(Fail::err(
            "CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ));
    };
    let words = [("yes", ("YES", "OPTIN", Reads::OptIn)), ("no", ("NO", "OPTOUT", Reads::OptOut))];
    let (word, mode, reads) = one_of(args[2], &words)?;
    Fail::err_when(
        options.reads != reads,
        format_args!("CLIENT CACHING {word} is only valid when tracking is enabled in {mode} mode."),
    )?;
    cx.session.caching = true;
    ok(out)
}

pub(super) fn info(cx: &mut Cx<'_>, _: &Args<'_>, out: &mut Reply) -> Done {
    let options = cx.session.tracking.unwrap_or_default();
    let (caching, reads) = (cx.session.caching, options.reads);
    let flags = [
        (if cx.session.tracking.is_some() { "on" } else { "off" }, true),
        ("bcast", options.broadcast),
        ("optin", reads == Reads::OptIn),
        ("caching-yes", reads == Reads::OptIn && caching),
        ("optout", reads == Reads::OptOut),
        ("caching-no", reads == Reads::OptOut && caching),
        ("noloop", options.no_loop),
        ("broken_redirect", cx.session.profile.redirect_is_broken.load(Ordering::Relaxed)),
    ];
    out.map(3);
    out.field("flags").set(flags.iter().filter(|(_, is_so)| *is_so).count());
    flags.iter().filter(|(_, is_so)| *is_so).for_each(|(flag, _)| out.bulk(flag.as_bytes()));
    out.field("redirect").int(cx.session.redirects_to());
    out.bulk(b"prefixes");
    let prefixes = cx.server.tracking.prefixes_of(cx.session.id);
    answer::bulks(out, prefixes.iter())
}
