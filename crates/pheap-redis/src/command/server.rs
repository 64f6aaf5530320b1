//! The server: its options, what it has counted, its commands.

use std::sync::atomic::Ordering::Relaxed;

use super::{Args, Command, Cx, Done, Fail, Flags, Group, Keys, all, lookup, resolve};
use crate::client::Replies;
use crate::pubsub::Wanted;
use crate::resp::Reply;
use crate::words;

const ADMIN: &[Flags] = &[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE];
const LOOK: &[Flags] = &[Flags::LOADING, Flags::STALE];

pub(super) const COMMANDS: &[Command] = &[
    Command::new("command", -1, LOOK, Keys::None, command),
    Command::with_subcommands(
        "config",
        &[],
        &[
            Command::new("config|get", -3, ADMIN, Keys::None, config_get),
            Command::new("config|set", -4, ADMIN, Keys::None, config_set),
        ],
    ),
    Command::new("info", -1, LOOK, Keys::Everything, info),
    Command::new(
        "shutdown",
        -1,
        &[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::NO_MULTI, Flags::ALLOW_BUSY],
        Keys::None,
        |cx, args, _| {
            let is_nosave = args[1..].iter().any(|word| word.eq_ignore_ascii_case(b"nosave"));
            if cx.server.scripts.is_busy() && !is_nosave {
                return Err(Fail::Error(cx.server.scripts.busy_error().into()));
            }
            // The heap is closed, and so made durable, when all threads have ended. Nothing is answered.
            cx.session.closing = true;
            cx.server.stop();
            Ok(())
        },
    ),
    Command::new("time", 1, &[Flags::LOADING, Flags::STALE, Flags::FAST], Keys::None, |cx, _, out| {
        let micros = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default()
            .as_micros();
        let _ = cx;
        out.array(2);
        out.bulk_int((micros / 1_000_000) as i64);
        out.bulk_int((micros % 1_000_000) as i64);
        Ok(())
    }),
];

pub(super) const CLIENT: &[Command] = &[Command::with_subcommands(
    "client",
    &[],
    &[
        Command::new("client|getname", 2, LOOK, Keys::None, |cx, _, out| {
            if cx.session.name.is_empty() {
                out.null()
            } else {
                out.bulk(&cx.session.name)
            }
            Ok(())
        }),
        Command::new("client|id", 2, LOOK, Keys::None, |cx, _, out| {
            out.int(cx.session.id as i64);
            Ok(())
        }),
        Command::new("client|reply", 3, LOOK, Keys::None, client_reply),
        Command::new("client|setname", 3, LOOK, Keys::None, |cx, args, out| {
            if args[2].iter().any(|byte| !(b'!'..=b'~').contains(byte)) {
                return Err(Fail::err("Client names cannot contain spaces, newlines or special characters."));
            }
            cx.session.name = args[2].to_vec();
            out.ok();
            Ok(())
        }),
    ],
)];

fn client_reply(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
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

fn config_get(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let config = cx.server.config.read();
    let mut found: Vec<(&str, &str)> =
        args[2..].iter().flat_map(|pattern| config.matching(pattern).collect::<Vec<_>>()).collect();
    found.sort_unstable();
    found.dedup();
    out.map(found.len());
    for (name, value) in found {
        out.bulk(name.as_bytes());
        out.bulk(value.as_bytes());
    }
    Ok(())
}

fn config_set(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let pairs = args[2..].chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err(Fail::arity("config|set"));
    }
    let mut config = cx.server.config.read().clone();
    for pair in pairs {
        let [name, value] = [pair[0], pair[1]].map(words::lossy);
        let failed = |why: &str| {
            Fail::err(format_args!("CONFIG SET failed (possibly related to argument '{name}') - {why}"))
        };
        match crate::config::setting(&name) {
            None => {
                return Err(Fail::err(format_args!(
                    "Unknown option or number of arguments for CONFIG SET - '{name}'"
                )));
            }
            Some(setting) if !setting.mutable => return Err(failed("can't set immutable config")),
            Some(_) => config.set(&name, &value).map_err(|why| failed(&why))?,
        }
        if Wanted::parse(config.text("notify-keyspace-events")).is_none() {
            return Err(failed("Invalid event class character. Use 'Ag$lshzxeKEtmdn'."));
        }
    }
    cx.server.limits.follow(&config);
    *cx.server.config.write() = config;
    out.ok();
    Ok(())
}

fn info(cx: &mut Cx<'_>, _: &Args<'_>, out: &mut Reply) -> Done {
    let (stats, heap) = (&cx.server.stats, cx.server.store.heap());
    let count = |number: &std::sync::atomic::AtomicU64| number.load(Relaxed);
    let uptime = cx.server.started.elapsed().as_secs();
    let mut text = format!(
        "# Server\r\nredis_version:{}\r\npheap_redis_version:{}\r\nredis_mode:standalone\r\nprocess_id:{}\r\nuptime_in_seconds:{uptime}\r\n\r\n",
        crate::REDIS_VERSION,
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
    );
    text += &format!(
        "# Clients\r\nconnected_clients:{}\r\nblocked_clients:{}\r\n\r\n",
        stats.clients.load(Relaxed),
        stats.blocked.load(Relaxed)
    );
    text += &format!(
        "# Persistence\r\nloading:0\r\nheap_durability:{:?}\r\nrdb_changes_since_last_save:{}\r\n\r\n",
        heap.durability(),
        count(&stats.dirty)
    );
    text += &format!(
        "# Stats\r\ntotal_connections_received:{}\r\ntotal_commands_processed:{}\r\nexpired_keys:{}\r\n\r\n",
        count(&stats.connections),
        count(&stats.commands),
        count(&stats.expired)
    );
    let scripts = &cx.server.scripts;
    text += &format!(
        "# Memory\r\nused_memory_vm_eval:{0}\r\nused_memory_lua:{0}\r\nnumber_of_cached_scripts:{1}\r\nnumber_of_functions:{2}\r\nnumber_of_libraries:{3}\r\nused_memory_vm_functions:{4}\r\n\r\n",
        scripts.memory[0].load(Relaxed),
        scripts.len(),
        cx.server.libraries.loaded().functions(),
        cx.server.libraries.loaded().iter().len(),
        scripts.memory[1].load(Relaxed)
    );
    text += "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n# Keyspace\r\n";
    for db in 0..crate::data::DATABASES {
        let shards = cx.store().shards().len();
        let sizes: Vec<(usize, usize)> = (0..shards)
            .map(|shard| {
                cx.read_shard(shard, |view, dbs| (view[dbs.at(db)].len(), view[dbs.at(db)].expiring()))
            })
            .collect();
        let (keys, expires) = sizes.iter().fold((0, 0), |all, some| (all.0 + some.0, all.1 + some.1));
        if keys > 0 {
            text += &format!("db{db}:keys={keys},expires={expires},avg_ttl=0\r\n");
        }
    }
    out.verbatim("txt", &text);
    Ok(())
}

/// `COMMAND`, and `COMMAND COUNT`, `LIST`, `INFO`, `GETKEYS`, `DOCS`.
fn command(_: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let subcommand = args.get(1).map(|name| name.to_ascii_lowercase());
    match (subcommand.as_deref(), &args[1..]) {
        (None, _) => {
            out.array(all().count());
            all().for_each(|(group, command)| describe(group, command, out));
        }
        (Some(b"count"), [_]) => out.count(all().count()),
        (Some(b"list"), [_]) => {
            out.array(all().count());
            all().for_each(|(_, command)| out.bulk(command.name.as_bytes()));
        }
        (Some(b"info"), [_, names @ ..]) => {
            out.array(names.len());
            for name in names {
                match lookup(name) {
                    Some((group, command)) => describe(group, command, out),
                    None => out.null_array(),
                }
            }
        }
        (Some(b"docs"), [_, names @ ..]) => {
            let some: Vec<(Group, &Command)> = if names.is_empty() {
                all().collect()
            } else {
                names.iter().filter_map(|name| lookup(name)).collect()
            };
            out.map(some.len());
            for (group, command) in some {
                out.bulk(command.name.as_bytes());
                out.map(2);
                out.bulk(b"group");
                out.bulk(group.name().as_bytes());
                out.bulk(b"arity");
                out.int(i64::from(command.arity));
            }
        }
        (Some(b"getkeys"), [_, words @ ..]) if !words.is_empty() => {
            let command = resolve(words).map_err(|_| Fail::err("Invalid command specified"))?;
            let keys = command.keys(words);
            if keys.is_empty() {
                return Err(Fail::err("The command has no key arguments"));
            }
            out.array(keys.len());
            keys.iter().for_each(|&at| out.bulk(words[at]));
        }
        _ => return Err(Fail::no_subcommand(args[1], "command")),
    }
    Ok(())
}

fn describe(group: Group, command: &Command, out: &mut Reply) {
    let (first, last, step) = match command.keys {
        Keys::Range(first, last, step) => (first, last, step),
        Keys::None | Keys::Find(_) | Keys::Everything | Keys::Script | Keys::Shard(_) => (0, 0, 0),
    };
    out.array(10);
    out.bulk(command.name.as_bytes());
    out.int(i64::from(command.arity));
    let flags: Vec<&str> = command.flags.names().collect();
    out.set(flags.len());
    flags.iter().for_each(|flag| out.simple(flag));
    [first, last, step].iter().for_each(|&number| out.int(i64::from(number)));
    out.set(1);
    out.simple(&format!("@{}", group.name()));
    out.array(0);
    out.array(0);
    out.array(command.subcommands().len());
    command.subcommands().iter().for_each(|sub| describe(group, sub, out));
}
