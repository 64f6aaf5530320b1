//! `INFO`: what the server is, and what it does.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Instant, SystemTime};

use super::{Args, Command, Cx, Done, Flags, Keys, all};
use crate::data::DATABASES;
use crate::pubsub::Kind;
use crate::resp::Reply;
use crate::role::Stage;
use crate::words::lossy;

pub(super) const COMMANDS: &[Command] =
    &[Command::new("info", -1, &[Flags::LOADING, Flags::STALE], Keys::Everything, info)];

/// A section's name, and what writes it.
type Section = (&'static str, fn(&mut Cx<'_>, &mut String));

/// Sections that are shown where none is asked for.
const DEFAULT: &[Section] = &[
    ("server", server),
    ("clients", clients),
    ("memory", memory),
    ("persistence", persistence),
    ("stats", stats),
    ("replication", replication),
    ("cpu", cpu),
    ("modules", |_, _| {}),
    ("errorstats", errors),
    ("cluster", |_, text| line(text, "cluster_enabled", 0)),
    ("keyspace", keyspace),
];

/// Sections that must be asked for.
const OTHERS: &[Section] = &[("commandstats", commands)];

fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    // Writing to a string does not fail.
    let _ = write!(text, "{name}:{value}\r\n");
}

fn info(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let asked: Vec<String> = args[1..].iter().map(|name| lossy(name).to_lowercase()).collect();
    let is_asked = |names: &[&str]| asked.iter().any(|name| names.contains(&name.as_str()));
    let (default, others) = (asked.is_empty() || is_asked(&["default"]), is_asked(&["all", "everything"]));
    let mut text = String::new();
    let sections = DEFAULT.iter().map(|section| (section, default || others));
    let sections = sections.chain(OTHERS.iter().map(|section| (section, others)));
    for ((name, section), is_shown) in sections {
        if is_shown || is_asked(&[name]) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            text.push_str(&format!("# {}{}\r\n", name[..1].to_uppercase(), &name[1..]));
            section(cx, &mut text);
        }
    }
    out.verbatim("txt", &text);
    Ok(())
}

fn server(cx: &mut Cx<'_>, text: &mut String) {
    let uptime = cx.server.started.elapsed().as_secs();
    let config = cx.server.config.read();
    let micros = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros();
    line(text, "redis_version", crate::REDIS_VERSION);
    line(text, "redis_git_sha1", "00000000");
    line(text, "redis_git_dirty", 0);
    line(text, "redis_build_id", "0000000000000000");
    line(text, "pheap_redis_version", env!("CARGO_PKG_VERSION"));
    line(text, "redis_mode", "standalone");
    line(text, "os", std::env::consts::OS);
    line(text, "arch_bits", usize::BITS);
    line(text, "multiplexing_api", "mio");
    line(text, "process_id", std::process::id());
    line(text, "run_id", &cx.server.run_id);
    line(text, "tcp_port", config.text("port"));
    line(text, "server_time_usec", micros);
    line(text, "uptime_in_seconds", uptime);
    line(text, "uptime_in_days", uptime / 86400);
    line(text, "hz", config.text("hz"));
    line(text, "configured_hz", config.text("hz"));
    line(text, "io_threads_active", i32::from(cx.server.threads.len() > 1));
}

fn clients(cx: &mut Cx<'_>, text: &mut String) {
    line(text, "connected_clients", cx.server.clients.len());
    line(text, "cluster_connections", 0);
    line(text, "maxclients", cx.server.config.read().text("maxclients"));
    line(text, "blocked_clients", cx.server.stats.blocked.load(Relaxed));
    line(text, "tracking_clients", cx.server.tracking.totals()[0]);
}

/// A number of bytes, for people.
fn human(bytes: u64) -> String {
    let units = [("T", 1u64 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];
    match units.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.2}{name}", bytes as f64 / *unit as f64),
        None => format!("{bytes}B"),
    }
}

fn memory(cx: &mut Cx<'_>, text: &mut String) {
    let heap = cx.store().heap().stats();
    let (process, machine) = crate::usage::memory();
    let config = cx.server.config.read();
    let memory = &cx.server.memory;
    let used = if memory.limit() > 0 { memory.used() } else { heap.live_bytes };
    let numbers = [
        ("used_memory", used),
        ("used_memory_rss", process),
        ("used_memory_dataset", used),
        ("total_system_memory", machine),
        ("maxmemory", config.int("maxmemory") as u64),
    ];
    for (name, number) in numbers {
        line(text, name, number);
        line(text, &format!("{name}_human"), human(number));
    }
    line(text, "maxmemory_policy", config.text("maxmemory-policy"));
    let (scripts, libraries) = (&cx.server.scripts, cx.server.libraries.loaded());
    line(text, "used_memory_lua", scripts.memory[0].load(Relaxed));
    line(text, "used_memory_vm_eval", scripts.memory[0].load(Relaxed));
    line(text, "used_memory_vm_functions", scripts.memory[1].load(Relaxed));
    line(text, "number_of_cached_scripts", scripts.len());
    line(text, "number_of_functions", libraries.functions());
    line(text, "number_of_libraries", libraries.iter().len());
    line(
        text,
        "mem_fragmentation_ratio",
        format_args!("{:.2}", 1.0 / (1.0 - heap.fragmentation()).max(0.01)),
    );
    line(text, "mem_not_counted_for_evict", 0);
    line(text, "mem_allocator", "pheap");
    line(text, "heap_file_bytes", heap.file_bytes);
    line(text, "heap_free_bytes", heap.free_bytes);
    line(text, "heap_private_bytes", heap.private_bytes);
    line(text, "heap_live_bytes", heap.live_bytes);
    line(text, "heap_live_objects", heap.live_objects);
    line(text, "lazyfree_pending_objects", 0);
    line(text, "lazyfreed_objects", 0);
}

fn persistence(cx: &mut Cx<'_>, text: &mut String) {
    let heap = cx.store().heap();
    let (durability, stats) = (heap.durability(), heap.stats());
    let save = cx.server.save.lock();
    line(text, "loading", i32::from(cx.server.role.is_loading()));
    line(text, "async_loading", 0);
    line(text, "heap_durability", format_args!("{durability:?}"));
    line(text, "heap_log_syncs", stats.syncs);
    line(text, "heap_checkpoints", stats.checkpoints);
    line(text, "heap_collections", stats.collections);
    line(text, "rdb_changes_since_last_save", cx.server.stats.dirty.load(Relaxed).saturating_sub(save.dirty));
    line(text, "rdb_bgsave_in_progress", i32::from(save.is_running));
    line(text, "rdb_last_save_time", save.at);
    line(text, "rdb_last_bgsave_status", if save.failed { "err" } else { "ok" });
    // The heap's log is what an append-only file is: never rewritten, for checkpoints fold it into the heap.
    line(text, "aof_enabled", i32::from(durability == pheap::Durability::Wal));
    line(text, "aof_rewrite_in_progress", 0);
    line(text, "aof_rewrite_scheduled", 0);
    line(text, "aof_last_bgrewrite_status", "ok");
    line(text, "aof_last_write_status", "ok");
}

fn stats(cx: &mut Cx<'_>, text: &mut String) {
    let (stats, all) = (&cx.server.stats, cx.server.counted_in_all());
    line(text, "total_connections_received", stats.connections.load(Relaxed));
    line(text, "total_commands_processed", all.calls);
    line(text, "rejected_connections", stats.rejected.load(Relaxed));
    line(text, "sync_full", 0);
    line(text, "sync_partial_ok", 0);
    line(text, "sync_partial_err", 0);
    line(text, "expired_keys", stats.expired.load(Relaxed));
    line(text, "evicted_keys", stats.evicted.load(Relaxed));
    line(text, "evicted_clients", stats.evicted_clients.load(Relaxed));
    line(text, "keyspace_hits", all.hits);
    line(text, "keyspace_misses", all.misses);
    let [total, current] = cx.server.memory.exceeded();
    line(text, "total_eviction_exceeded_time", total.as_millis());
    line(text, "current_eviction_exceeded_time", current.as_millis());
    line(text, "pubsub_channels", cx.server.channels.count(Kind::Channel));
    line(text, "pubsub_patterns", cx.server.channels.count(Kind::Pattern));
    line(text, "pubsubshard_channels", cx.server.channels.count(Kind::Shard));
    line(text, "total_forks", 0);
    let [_, keys, items, prefixes] = cx.server.tracking.totals();
    line(text, "tracking_total_keys", keys);
    line(text, "tracking_total_items", items);
    line(text, "tracking_total_prefixes", prefixes);
    // MIGRATE connects anew each time.
    line(text, "migrate_cached_sockets", 0);
    line(text, "total_error_replies", stats.errors.load(Relaxed));
}

fn replication(cx: &mut Cx<'_>, text: &mut String) {
    let (link, config) = (cx.server.role.link(), cx.server.config.read());
    let offset = link.position.as_ref().map_or(0, |position| position.offset);
    line(text, "role", if link.master.is_some() { "slave" } else { "master" });
    if let Some(master) = &link.master {
        let is_up = link.stage == Stage::Connected;
        let seconds = |since: Option<Instant>| since.map_or(-1, |since| since.elapsed().as_secs() as i64);
        line(text, "master_host", &master.host);
        line(text, "master_port", master.port);
        line(text, "master_link_status", if is_up { "up" } else { "down" });
        line(text, "master_last_io_seconds_ago", if is_up { seconds(link.heard) } else { -1 });
        line(text, "master_sync_in_progress", i32::from(link.stage == Stage::Sync));
        line(text, "slave_read_repl_offset", link.read.max(offset));
        line(text, "slave_repl_offset", offset);
        if link.stage == Stage::Sync {
            let (read, total) = link.data;
            let percent = total.map_or(0.0, |total| read as f64 * 100.0 / total.max(1) as f64);
            line(text, "master_sync_total_bytes", total.unwrap_or(0));
            line(text, "master_sync_read_bytes", read);
            line(text, "master_sync_left_bytes", total.map_or(0, |total| total.saturating_sub(read)));
            line(text, "master_sync_perc", format_args!("{percent:.2}"));
            line(text, "master_sync_last_io_seconds_ago", seconds(link.heard));
        }
        if !is_up {
            line(text, "master_link_down_since_seconds", seconds(link.down));
        }
        // Not told by Redis: why it is down.
        if let Some(error) = &link.error {
            line(text, "master_link_error", error);
        }
        line(text, "slave_priority", config.text("replica-priority"));
        line(text, "slave_read_only", i32::from(config.is("replica-read-only")));
        line(text, "replica_announced", 1);
    }
    line(text, "connected_slaves", 0);
    line(text, "master_failover_state", "no-failover");
    if let Some(position) = &link.position {
        line(text, "master_replid", &position.id);
    }
    line(text, "master_repl_offset", offset);
}

fn cpu(_: &mut Cx<'_>, text: &mut String) {
    for (who, name) in [("self", ""), ("children", "_children")] {
        let [system, user] = crate::usage::times(who == "children");
        line(text, &format!("used_cpu_sys{name}"), format_args!("{system:.6}"));
        line(text, &format!("used_cpu_user{name}"), format_args!("{user:.6}"));
    }
}

fn errors(cx: &mut Cx<'_>, text: &mut String) {
    for (code, count) in &*cx.server.errors.lock() {
        line(text, &format!("errorstat_{code}"), format_args!("count={count}"));
    }
}

fn commands(cx: &mut Cx<'_>, text: &mut String) {
    for known in all() {
        let sum = cx.server.counted(known.number);
        if sum.calls + sum.rejected == 0 {
            continue;
        }
        let micros = sum.nanoseconds / 1000;
        let each = if sum.calls == 0 { 0.0 } else { sum.nanoseconds as f64 / 1000.0 / sum.calls as f64 };
        line(
            text,
            &format!("cmdstat_{}", known.command.name),
            format_args!(
                "calls={},usec={micros},usec_per_call={each:.2},rejected_calls={},failed_calls={}",
                sum.calls, sum.rejected, sum.failed
            ),
        );
    }
}

fn keyspace(cx: &mut Cx<'_>, text: &mut String) {
    for db in 0..DATABASES {
        let (mut keys, mut expires) = (0, 0);
        for shard in 0..cx.store().shards().len() {
            cx.read_shard(shard, |view, dbs| {
                keys += view[dbs.at(db)].len();
                expires += view[dbs.at(db)].expiring();
            });
        }
        if keys > 0 {
            line(text, &format!("db{db}"), format_args!("keys={keys},expires={expires},avg_ttl=0"));
        }
    }
}
