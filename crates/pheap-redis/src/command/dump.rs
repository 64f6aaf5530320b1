//! `DUMP` and `RESTORE`: values in the format of Redis's files.

use super::args::{int, value};
use super::table::{ADD, KEY, READ};
use super::{Args, Command, Cx, Done, Fail, Flags, answer, ok};
use crate::data::Change;
use crate::rdb;
use crate::resp::Reply;
use crate::server::clocks::KeyUsage;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("dump", 2, READ, KEY, dump),
    Command::new("restore", -4, ADD, KEY, restore).access("OW update"),
];

/// Commands that servers of a Redis cluster call.
pub(super) const OF_SERVERS: &[Command] =
    &[Command::new("restore-asking", -4, ADD.and(Flags::ASKING), KEY, restore)];

fn dump(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let dumped = cx.copy_of(args[1]).map(|(value, _)| rdb::dump(&value)).transpose().map_err(Fail::err)?;
    answer::maybe_bulk(out, dumped.as_deref())
}

/// The options of `RESTORE`.
#[derive(Default)]
struct RestoreOptions {
    replaces: bool,
    is_absolute: bool,
    usage: Option<KeyUsage>,
}

impl RestoreOptions {
    fn parse(args: &Args<'_>) -> Result<RestoreOptions, Fail> {
        let (mut options, mut rest) = (RestoreOptions::default(), args.iter());
        while let Some(option) = rest.next() {
            match option.to_ascii_lowercase().as_slice() {
                b"replace" => options.replaces = true,
                b"absttl" => options.is_absolute = true,
                b"idletime" if !matches!(options.usage, Some(KeyUsage::Frequency(_))) => {
                    let seconds = int(value(&mut rest)?)?;
                    Fail::err_when(seconds < 0, "Invalid IDLETIME value, must be >= 0")?;
                    options.usage = Some(KeyUsage::Idle(seconds));
                }
                b"freq" if !matches!(options.usage, Some(KeyUsage::Idle(_))) => {
                    let often = u8::try_from(int(value(&mut rest)?)?);
                    let often =
                        often.map_err(|_| Fail::err("Invalid FREQ value, must be >= 0 and <= 255"))?;
                    options.usage = Some(KeyUsage::Frequency(often));
                }
                _ => return Err(Fail::SYNTAX),
            }
        }
        Ok(options)
    }
}

fn restore(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let (key, now) = (args[1], cx.now);
    let options = RestoreOptions::parse(&args[4..])?;
    let is_there = cx.key_exists(key);
    if is_there && !options.replaces {
        return Err(Fail::Error("BUSYKEY Target key name already exists.".into()));
    }
    let ttl = int(args[2])?;
    Fail::err_when(ttl < 0, "Invalid TTL value, must be >= 0")?;
    let opened = rdb::open(args[3]).map_err(|_| Fail::err("DUMP payload version or checksum are wrong"))?;
    let value = rdb::restore(opened).map_err(|_| Fail::err("Bad data format"))?;
    let deadline = match ttl {
        0 => None,
        ttl if options.is_absolute => Some(ttl),
        ttl => Some(ttl.wrapping_add(cx.clock)),
    };
    if deadline.is_some_and(|deadline| deadline <= now) {
        cx.remove(key);
        return ok(out);
    }
    cx.write(key, |tx, db| {
        let value = value.store(tx)?;
        db.set(tx, key, value)?;
        db.set_deadline(tx, key, deadline)
    })?;
    if let Some(usage) = options.usage {
        cx.server.clocks.set(key, usage, cx.clock);
    }
    cx.touched(b'g', "restore", key);
    ok(out)
}
