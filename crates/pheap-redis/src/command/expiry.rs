//! Deadlines of keys: `EXPIRE`, `TTL` and the like.

use super::args::{int, invalid_time};
use super::table::{GLANCE_FAST, KEY, WRITE_FAST};
use super::{Args, Command, Cx, Done, Fail, answer, yes_or_no};
use crate::data::Change;
use crate::resp::Reply;
use crate::text::words;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("expire", -3, WRITE_FAST, KEY, |cx, args, out| expire(cx, args, 1000, false, out))
        .access("RW update"),
    Command::new("expireat", -3, WRITE_FAST, KEY, |cx, args, out| expire(cx, args, 1000, true, out))
        .access("RW update"),
    Command::new("expiretime", 2, GLANCE_FAST, KEY, |cx, args, out| ttl(cx, args, 1000, true, out)),
    Command::new("persist", 2, WRITE_FAST, KEY, persist).access("RW update"),
    Command::new("pexpire", -3, WRITE_FAST, KEY, |cx, args, out| expire(cx, args, 1, false, out))
        .access("RW update"),
    Command::new("pexpireat", -3, WRITE_FAST, KEY, |cx, args, out| expire(cx, args, 1, true, out))
        .access("RW update"),
    Command::new("pexpiretime", 2, GLANCE_FAST, KEY, |cx, args, out| ttl(cx, args, 1, true, out)),
    Command::new("pttl", 2, GLANCE_FAST, KEY, |cx, args, out| ttl(cx, args, 1, false, out)),
    Command::new("ttl", 2, GLANCE_FAST, KEY, |cx, args, out| ttl(cx, args, 1000, false, out)),
];

/// Conditions for setting a deadline. All that are given must hold.
#[derive(Clone, Copy, Default)]
struct Conditions {
    /// Whether the key must have no deadline (`NX`).
    nx: bool,
    /// Whether the key must have a deadline (`XX`).
    xx: bool,
    /// Whether the new deadline must be later than the old one (`GT`). No deadline counts as infinitely late.
    gt: bool,
    /// Whether the new deadline must be earlier than the old one, if there is an old one (`LT`).
    lt: bool,
}

impl Conditions {
    fn parse(options: &Args<'_>) -> Result<Conditions, Fail> {
        let mut all = Conditions::default();
        for option in options {
            match option.to_ascii_lowercase().as_slice() {
                b"nx" => all.nx = true,
                b"xx" => all.xx = true,
                b"gt" => all.gt = true,
                b"lt" => all.lt = true,
                _ => return Err(Fail::err(format_args!("Unsupported option {}", words::lossy(option)))),
            }
        }
        Fail::err_when(
            all.nx && (all.xx || all.gt || all.lt),
            "NX and XX, GT or LT options at the same time are not compatible",
        )?;
        Fail::err_when(all.gt && all.lt, "GT and LT options at the same time are not compatible")?;
        Ok(all)
    }

    fn hold(self, old: Option<i64>, new: i64) -> bool {
        !(self.nx && old.is_some()
            || self.xx && old.is_none()
            || self.gt && old.is_none_or(|old| new <= old)
            || self.lt && old.is_some_and(|old| new >= old))
    }
}

fn expire(cx: &mut Cx<'_>, args: &Args<'_>, unit_ms: i64, is_time: bool, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    let conditions = Conditions::parse(&args[3..])?;
    let invalid = || invalid_time(&words::lossy(args[0]).to_lowercase());
    let ms = int(args[2])?.checked_mul(unit_ms).ok_or_else(invalid)?;
    let deadline = if is_time { ms } else { ms.checked_add(cx.clock).ok_or_else(invalid)? };
    let is_wanted =
        cx.key_exists(key) && conditions.hold(cx.read(key, |view, db| db.deadline(view, key)), deadline);
    if is_wanted && deadline <= now {
        cx.remove(key);
    } else if is_wanted {
        cx.write(key, |tx, db| db.set_deadline(tx, key, Some(deadline)))?;
        cx.touched(b'g', "expire", key);
    }
    yes_or_no(out, is_wanted)
}

fn persist(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let key = args[1];
    let has_one = cx.key_exists(key) && cx.read(key, |view, db| db.deadline(view, key).is_some());
    if has_one {
        cx.write(key, |tx, db| db.set_deadline(tx, key, None))?;
        cx.touched(b'g', "persist", key);
    }
    yes_or_no(out, has_one)
}

fn ttl(cx: &mut Cx<'_>, args: &Args<'_>, unit_ms: i64, is_time: bool, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.clock);
    if !cx.key_exists(key) {
        return answer::int(out, -2);
    }
    let told = match cx.read(key, |view, db| db.deadline(view, key)) {
        None => -1,
        Some(at) if is_time => at / unit_ms,
        Some(at) => (at - now + unit_ms / 2) / unit_ms, // rounded to the nearest unit
    };
    answer::int(out, told)
}
