//! Commands for the server: `CONFIG`, `SHUTDOWN`, `ACL`, `CLUSTER` and the like.

use std::collections::{BTreeMap, BTreeSet};

use pheap::SyncPolicy;

use super::args::{int, last_word, timeout_ms};
use super::introspect::categories;
use super::table::{ADMIN, LOOK, MANAGE, READ_FAST};
use super::{Args, Command, Cx, Done, Fail, Flags, Keys, all_commands, answer, ok};
use crate::config::{Config, Setting};
use crate::resp::Reply;
use crate::server::since_1970;
use crate::text::words;

const ACL_LOOK: Flags = LOOK.and(Flags::NOSCRIPT);

pub(super) const COMMANDS: &[Command] = &[
    Command::container("acl"),
    Command::new("acl|cat", -2, ACL_LOOK, Keys::None, acl_cat),
    Command::help("acl|help"),
    Command::new("acl|list", 2, ADMIN, Keys::None, |cx, _, out| {
        out.array(1);
        let has_password = !cx.server.config.read().text("requirepass").is_empty();
        let password = if has_password { "#(hidden)" } else { "nopass" };
        answer::bulk(out, format!("user default on {password} sanitize-payload ~* &* +@all").as_bytes())
    }),
    Command::new("acl|users", 2, ADMIN, Keys::None, |_, _, out| {
        out.array(1);
        answer::bulk(out, b"default")
    }),
    Command::new("acl|whoami", 2, ACL_LOOK, Keys::None, |_, _, out| answer::bulk(out, b"default")),
    Command::new("bgrewriteaof", 1, MANAGE, Keys::None, |_, _, out| {
        // Checkpoints fold the log into the heap, so there is nothing to rewrite.
        answer::simple(out, "Background append only file rewriting started")
    }),
    Command::new("bgsave", -1, MANAGE, Keys::None, |cx, args, out| {
        last_word(&args[1..], (), &[("schedule", ())]).ok_or(Fail::SYNTAX)?;
        crate::copies::save::in_background(cx.server).map_err(Fail::err)?;
        answer::simple(out, "Background saving started")
    }),
    Command::container("cluster"),
    Command::new("cluster|addslots", -3, ADMIN_STALE, Keys::None, no_cluster),
    Command::new("cluster|addslotsrange", -4, ADMIN_STALE, Keys::None, no_cluster),
    Command::new("cluster|bumpepoch", 2, ADMIN_STALE, Keys::None, no_cluster),
    Command::new("cluster|count-failure-reports", 3, ADMIN_STALE, Keys::None, no_cluster),
    Command::new("cluster|countkeysinslot", 3, Flags::STALE, Keys::None, no_cluster),
    Command::new("cluster|delslots", -3, ADMIN_STALE, Keys::None, no_cluster),
    Command::new("cluster|delslotsrange", -4, ADMIN_STALE, Keys::None, no_cluster),
    Command::new("cluster|failover", -2, ADMIN_STALE, Keys::None, no_cluster),
    Command::new("cluster|flushslots", 2, ADMIN_STALE, Keys::None, no_cluster),
    Command::new("cluster|forget", 3, ADMIN_STALE, Keys::None, no_cluster),
    Command::new("cluster|getkeysinslot", 4, Flags::STALE, Keys::None, no_cluster),
    Command::help("cluster|help"),
    Command::new("cluster|info", 2, Flags::STALE, Keys::None, no_cluster),
    Command::new("cluster|keyslot", 3, Flags::STALE, Keys::None, no_cluster),
    Command::new("cluster|links", 2, Flags::STALE, Keys::None, no_cluster),
    Command::new("cluster|meet", -4, ADMIN_STALE, Keys::None, no_cluster),
    Command::new("cluster|myid", 2, Flags::STALE, Keys::None, no_cluster),
    Command::new("cluster|nodes", 2, Flags::STALE, Keys::None, no_cluster),
    Command::new("cluster|replicas", 3, ADMIN_STALE, Keys::None, no_cluster),
    Command::new("cluster|replicate", 3, ADMIN_STALE, Keys::None, no_cluster),
    Command::new("cluster|reset", -2, MANAGE.and(Flags::STALE), Keys::None, no_cluster),
    Command::new("cluster|saveconfig", 2, ADMIN_STALE, Keys::None, no_cluster),
    Command::new("cluster|set-config-epoch", 3, ADMIN_STALE, Keys::None, no_cluster),
    Command::new("cluster|setslot", -4, ADMIN_STALE, Keys::None, no_cluster),
    Command::new("cluster|shards", 2, Flags::STALE, Keys::None, no_cluster),
    Command::new("cluster|slaves", 3, ADMIN_STALE, Keys::None, no_cluster),
    Command::new("cluster|slots", 2, Flags::STALE, Keys::None, no_cluster),
    Command::container("config"),
    Command::new("config|get", -3, ADMIN, Keys::None, config_get),
    Command::help("config|help"),
    Command::new("config|resetstat", 2, ADMIN, Keys::None, |cx, _, out| {
        cx.server.reset_counts();
        ok(out)
    }),
    Command::new("config|rewrite", 2, ADMIN, Keys::None, |cx, _, out| {
        let path = cx.server.config_file.as_ref();
        let path = path.ok_or_else(|| Fail::err("The server is running without a config file"))?;
        let rewritten = cx.server.config.read().rewrite(path);
        rewritten.map_err(|error| Fail::err(format_args!("Rewriting config file: {error}")))?;
        ok(out)
    }),
    Command::new("config|set", -4, ADMIN, Keys::None, config_set),
    Command::new("lastsave", 1, LOOK.and(Flags::FAST), Keys::None, |cx, _, out| {
        answer::int(out, cx.server.save.lock().at)
    }),
    Command::new("lolwut", -1, READ_FAST, Keys::None, |_, _, out| {
        let version = env!("CARGO_PKG_VERSION");
        answer::text(out, format!("pheap-redis {version}\nRedis ver. {}\n", crate::REDIS_VERSION))
    }),
    Command::container("module"),
    Command::help("module|help"),
    Command::new("module|list", 2, MANAGE, Keys::None, |_, _, out| answer::empty(out)),
    Command::new("save", 1, MANAGE.and(Flags::NO_MULTI), Keys::None, |cx, _, out| {
        crate::copies::save::now(cx.server).map_err(Fail::err)?;
        ok(out)
    }),
    Command::new("shutdown", -1, ADMIN.and(Flags::NO_MULTI).and(Flags::ALLOW_BUSY), Keys::None, shutdown),
    Command::new("time", 1, LOOK.and(Flags::FAST), Keys::None, |_, _, out| {
        let now = since_1970();
        out.array(2);
        out.bulk_int(now.as_secs() as i64);
        out.bulk_int(i64::from(now.subsec_micros()));
        Ok(())
    }),
    Command::new("wait", 3, Flags::NOSCRIPT, Keys::None, |cx, args, out| {
        Fail::err_when(
            cx.server.role.is_replica(),
            "WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be writable (which is not the default) writes to replicas are just local and are not propagated.",
        )?;
        // There are no replicas to wait for. With `appendfsync always`, this reply comes after the replies to
        // the client's earlier writes, which wait for the log.
        int(args[1])?;
        timeout_ms(args[2])?;
        answer::int(out, 0)
    }),
];

const ADMIN_STALE: Flags = Flags::ADMIN.and(Flags::STALE);

pub(super) fn no_cluster(_: &mut Cx<'_>, _: &Args<'_>, _: &mut Reply) -> Done {
    Err(Fail::err("This instance has cluster support disabled"))
}

/// `SHUTDOWN`: stops the server. All data are in the heap, so there is nothing to save. `NOSAVE` stops the
/// server even while a script is slow; the options `SAVE`, `NOW` and `FORCE` have no effect.
fn shutdown(cx: &mut Cx<'_>, args: &Args<'_>, _: &mut Reply) -> Done {
    for option in &args[1..] {
        match option.to_ascii_lowercase().as_slice() {
            b"save" | b"nosave" | b"now" | b"force" => {}
            b"abort" => return Err(Fail::err("No shutdown in progress.")),
            _ => return Err(Fail::SYNTAX),
        }
    }
    let is_nosave = args[1..].iter().any(|word| word.eq_ignore_ascii_case(b"nosave"));
    if cx.server.scripts.is_busy() && !is_nosave {
        return Err(Fail::Error(cx.server.scripts.busy_error().into()));
    }
    // The heap is closed, and made durable, when all threads have ended. There is no reply.
    tracing::info!("{} ends the server with SHUTDOWN", cx.session.profile.addresses[0]);
    cx.session.closing = true;
    cx.server.stop();
    Ok(())
}

fn acl_cat(_: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let known: Vec<_> = all_commands().map(|known| (known, categories(&known))).collect();
    let some: Vec<&str> = match args[2..] {
        [] => {
            let mut names: Vec<&str> = known.iter().flat_map(|(_, categories)| categories).copied().collect();
            names.sort_unstable();
            names.dedup();
            names
        }
        [name] => {
            let is_in = |categories: &[&str]| categories.iter().any(|other| other.as_bytes() == name);
            let some: Vec<&str> =
                known.iter().filter(|(_, c)| is_in(c)).map(|(known, _)| known.command.name).collect();
            if some.is_empty() {
                return Err(Fail::err(format_args!("Unknown category '{}'", words::lossy(name))));
            }
            some
        }
        _ => return Err(Fail::arity("acl|cat")),
    };
    answer::bulks(out, some.iter())
}

fn config_get(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let config = cx.server.config.read();
    let mut found = BTreeMap::new();
    for pattern in &args[2..] {
        let is_name = !pattern.iter().any(|byte| b"[*?".contains(byte));
        for (name, value) in config.matching(pattern) {
            // A name without wildcards is answered in the client's spelling.
            let shown = if is_name { words::lossy(pattern) } else { name.into() };
            found.entry(name).or_insert((shown, value));
        }
    }
    out.map(found.len());
    for (name, value) in found.into_values() {
        out.bulk(name.as_bytes());
        out.bulk(value.as_bytes());
    }
    Ok(())
}

/// Options that need a restart, with the error for an attempt to change them.
const RESTART: &[(&str, &str)] = &[
    ("port", "Unable to listen on this port: a new one takes effect only at a restart"),
    ("bind", "Failed to bind to specified addresses: new ones take effect only at a restart"),
    ("metrics", "Unable to listen there: a new address takes effect only at a restart"),
    ("auto-aof-rewrite-min-size", "A new size of the log takes effect only at a restart"),
    ("tls-port", "Unable to listen on this port: a new one takes effect only at a restart"),
    ("tls-cert-file", NO_NEW_TLS),
    ("tls-key-file", NO_NEW_TLS),
    ("tls-ca-cert-file", NO_NEW_TLS),
    ("tls-auth-clients", NO_NEW_TLS),
    ("tls-protocols", NO_NEW_TLS),
    ("tls-replication", NO_NEW_TLS),
];

const NO_NEW_TLS: &str = "Unable to update TLS configuration: a new one takes effect only at a restart";

/// Returns whether an option with the values `yes`, `local` and `no` allows the client something. `local`
/// allows it to clients that are connected by a Unix socket or from a loopback address.
pub(super) fn is_allowed(cx: &Cx<'_>, config: &Config, option: &str) -> bool {
    match config.text(option) {
        "local" => cx.session.profile.is_local(),
        allowed => allowed == "yes",
    }
}

/// Returns the error for an option that cannot be changed.
fn not_set(name: &str, why: impl std::fmt::Display) -> Fail {
    Fail::err(format_args!("CONFIG SET failed (possibly related to argument '{name}') - {why}"))
}

fn config_set(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let pairs = args[2..].chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err(Fail::arity("config|set"));
    }
    // The configuration stays locked until the options are applied, so that concurrent changes are not lost,
    // and the applied options are the stored ones.
    let mut current = cx.server.config.write();
    let mut config = current.clone();
    let mut seen = BTreeSet::new();
    for pair in pairs {
        let [name, value] = [pair[0], pair[1]].map(words::lossy);
        let failed = |why: &str| not_set(&name, why);
        match crate::config::setting(&name) {
            None => {
                return Err(Fail::err(format_args!(
                    "Unknown option or number of arguments for CONFIG SET - '{name}'"
                )));
            }
            Some(setting) if !seen.insert(setting.name) => return Err(failed("duplicate parameter")),
            Some(setting) if !setting.mutable => return Err(failed("can't set immutable config")),
            Some(Setting { name: "dbfilename", .. })
                if !is_allowed(cx, &current, "enable-protected-configs") =>
            {
                return Err(failed("can't set protected config"));
            }
            Some(_) => config.set(&name, &value).map_err(|why| failed(&why))?,
        }
    }
    let (clients, connected) = (config.int("maxclients") as u64, cx.server.clients.count() as u64);
    if clients > current.int("maxclients") as u64 {
        let most = crate::process::descriptors::make_room(clients, connected).unwrap_or(0);
        if most < clients {
            return Err(not_set(
                "maxclients",
                format_args!(
                    "The operating system is not able to handle the specified number of clients, try with {most}"
                ),
            ));
        }
    }
    // An option that needs a restart may be set to its present value.
    for (name, why) in RESTART {
        if config.text(name) != current.text(name) {
            return Err(not_set(name, why));
        }
    }
    let policy = seen.contains("appendfsync").then(|| config.sync_policy());
    // Must precede `options.apply`, after which replies no longer wait for the log: with these policies,
    // commits are in the log's file before a reply can be sent.
    if let Some(policy) = policy.filter(|policy| *policy != SyncPolicy::Awaited) {
        cx.store().heap().set_sync_policy(policy)?;
    }
    cx.server.options.apply(&config);
    cx.server.tracking.set_limit(config.int("tracking-table-max-keys") as u64);
    crate::process::logging::set_level(&config);
    cx.server.clocks.apply(&config);
    let limit = config.int("maxmemory") as u64;
    *current = config;
    if policy == Some(SyncPolicy::Awaited) {
        // Must follow `options.apply`: from there on, replies wait, and reads wait for counted writes. This
        // call also syncs the log, which covers the earlier commits whose counts are gone. If a commit is
        // too late for this sync, its thread sees that replies wait. The call is needed even if the policy
        // was `Awaited` before: the sync of an earlier `CONFIG SET` may have failed.
        cx.store().heap().set_sync_policy(SyncPolicy::Awaited)?;
    }
    // Must follow the change of `maxmemory-policy`: this call clears the note that no key may be evicted.
    cx.server.memory.set_limit(limit, cx.store());
    drop(current);
    ok(out)
}
