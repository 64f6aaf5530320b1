//! `INFO`: state and statistics of the server.

use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::table::LOOK;
use super::{Args, Command, Cx, Done, Keys, all_commands, answer};
use crate::clients::pubsub::SubscriptionKind;
use crate::clients::{Filter, Profile};
use crate::data::DATABASES;
use crate::resp::Reply;
use crate::server::role::Stage;
use crate::stats::counts::{BUCKETS, Sum, Transferred};
use crate::stats::usage::CpuScope;
use crate::text::words::lossy;

pub(super) const COMMANDS: &[Command] = &[Command::new("info", -1, LOOK, Keys::Everything, info)];

/// Name of a section, and the function that writes it.
type Section = (&'static str, fn(&mut Cx<'_>, &mut String));

/// Sections that are shown by default.
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

/// Sections that are shown only on request.
const OTHERS: &[Section] = &[("commandstats", commands), ("latencystats", latencies)];

fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    // The result is ignored, because writing to a string does not fail.
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
    answer::text(out, &text)
}

fn server(cx: &mut Cx<'_>, text: &mut String) {
    let uptime = cx.server.started.elapsed().as_secs();
    let config = cx.server.config.read();
    let micros = crate::server::since_1970().as_micros();
    line(text, "redis_version", crate::REDIS_VERSION);
    line(text, "redis_git_sha1", "00000000");
    line(text, "redis_git_dirty", 0);
    line(text, "redis_build_id", "0000000000000000");
    line(text, "pheap_redis_version", env!("CARGO_PKG_VERSION"));
    line(text, "redis_mode", "standalone");
    line(text, "os", std::env::consts::OS);
    line(text, "arch_bits", usize::BITS);
    line(text, "monotonic_clock", "POSIX clock_gettime");
    line(text, "multiplexing_api", "epoll");
    line(text, "atomicvar_api", "rust-builtin");
    line(text, "process_id", std::process::id());
    let is_supervised = std::env::var_os("NOTIFY_SOCKET").is_some();
    line(text, "process_supervised", if is_supervised { "systemd" } else { "no" });
    line(text, "run_id", &cx.server.run_id);
    line(text, "tcp_port", config.text("port"));
    line(text, "server_time_usec", micros);
    line(text, "uptime_in_seconds", uptime);
    line(text, "uptime_in_days", uptime / 86400);
    line(text, "hz", config.text("hz"));
    line(text, "configured_hz", config.text("hz"));
    // The seconds since 1970, modulo 2^24 as in Redis.
    line(text, "lru_clock", (micros / 1_000_000) & 0xff_ffff);
    let path = |path: Option<&Path>| path.map(|path| path.display().to_string()).unwrap_or_default();
    line(text, "executable", path(std::env::current_exe().ok().as_deref()));
    line(text, "config_file", path(cx.server.config_file.as_deref()));
    line(text, "io_threads_active", i32::from(cx.server.threads.len() > 1));
}

fn clients(cx: &mut Cx<'_>, text: &mut String) {
    line(text, "connected_clients", cx.server.clients.count());
    line(text, "cluster_connections", 0);
    line(text, "maxclients", cx.server.config.read().text("maxclients"));
    let [input, output, _] = buffers(cx);
    line(text, "client_recent_max_input_buffer", input);
    line(text, "client_recent_max_output_buffer", output);
    line(text, "blocked_clients", cx.server.stats.blocked.load(Relaxed));
    line(text, "tracking_clients", cx.server.tracking.totals()[0]);
    line(text, "clients_in_timeout_table", cx.server.stats.timed.load(Relaxed));
}

/// Returns the largest input buffer of a client, the largest output buffer, and the memory of all clients, in
/// bytes.
fn buffers(cx: &Cx<'_>) -> [usize; 3] {
    cx.server.clients.matching(&Filter::default()).iter().fold([0; 3], |[input, output, all], client| {
        let state = client.state.lock();
        [input.max(state.input), output.max(state.output), all + size_of::<Profile>() + state.bytes()]
    })
}

/// Returns a part of a whole, in percent.
fn percent(part: u64, whole: u64) -> String {
    format!("{:.2}%", part as f64 * 100.0 / whole.max(1) as f64)
}

/// Formats a number of bytes for people.
fn human(bytes: u64) -> String {
    let units = [("T", 1u64 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];
    match units.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.2}{name}", bytes as f64 / *unit as f64),
        None => format!("{bytes}B"),
    }
}

fn memory(cx: &mut Cx<'_>, text: &mut String) {
    let heap = cx.store().heap().stats();
    let (process, machine) = crate::stats::usage::memory();
    let used = cx.server.used_memory();
    let [_, _, clients] = buffers(cx);
    let config = cx.server.config.read();
    let (scripts, libraries) = (&cx.server.scripts, cx.server.libraries.loaded());
    let [eval, functions] = scripts.memory.each_ref().map(|bytes| bytes.load(Relaxed).max(0) as u64);
    let peak = cx.server.stats.peak.load(Relaxed);
    // The bytes of the heap's file that are not free, at least the live bytes.
    let active = heap.file_bytes.saturating_sub(heap.free_bytes).max(heap.live_bytes);
    let ratio = |part: u64, whole: u64| format!("{:.2}", part as f64 / whole.max(1) as f64);
    let with_text = [
        ("used_memory", used),
        ("used_memory_rss", process),
        ("used_memory_peak", peak),
        ("total_system_memory", machine),
        ("used_memory_lua", eval),
        ("used_memory_vm_total", eval + functions),
        ("used_memory_scripts", 0),
        ("maxmemory", config.int("maxmemory") as u64),
    ];
    for (name, number) in with_text {
        line(text, name, number);
        line(text, &format!("{name}_human"), human(number));
    }
    line(text, "used_memory_peak_perc", percent(used, peak));
    // The overhead is the memory of clients and scripts, which is not in the heap.
    line(text, "used_memory_overhead", clients as u64 + eval + functions);
    line(text, "used_memory_startup", 0);
    line(text, "used_memory_dataset", used);
    line(text, "used_memory_dataset_perc", percent(used, used));
    line(text, "allocator_allocated", heap.live_bytes);
    line(text, "allocator_active", active);
    line(text, "allocator_resident", process);
    line(text, "used_memory_vm_eval", eval);
    line(text, "used_memory_scripts_eval", 0);
    line(text, "number_of_cached_scripts", scripts.count());
    line(text, "number_of_functions", libraries.functions());
    line(text, "number_of_libraries", libraries.iter().len());
    line(text, "used_memory_vm_functions", functions);
    line(text, "used_memory_functions", 0);
    line(text, "maxmemory_policy", config.text("maxmemory-policy"));
    line(text, "allocator_frag_ratio", ratio(active, heap.live_bytes));
    line(text, "allocator_frag_bytes", active - heap.live_bytes);
    line(text, "allocator_rss_ratio", ratio(process, active));
    line(text, "allocator_rss_bytes", process as i64 - active as i64);
    line(text, "rss_overhead_ratio", "1.00");
    line(text, "rss_overhead_bytes", 0);
    line(
        text,
        "mem_fragmentation_ratio",
        format_args!("{:.2}", 1.0 / (1.0 - heap.fragmentation()).max(0.01)),
    );
    line(text, "mem_fragmentation_bytes", active - heap.live_bytes);
    line(text, "mem_clients_normal", clients);
    let none = "\
        mem_not_counted_for_evict mem_replication_backlog mem_total_replication_buffers \
        mem_clients_slaves mem_cluster_links mem_aof_buffer active_defrag_running \
        lazyfree_pending_objects lazyfreed_objects";
    zeros(text, none);
    line(text, "mem_allocator", "pheap");
    line(text, "heap_file_bytes", heap.file_bytes);
    line(text, "heap_free_bytes", heap.free_bytes);
    line(text, "heap_private_bytes", heap.private_bytes);
    line(text, "heap_live_bytes", heap.live_bytes);
    line(text, "heap_live_objects", heap.live_objects);
}

/// Writes zeros for fields about things that do not happen here or are not counted.
fn zeros(text: &mut String, names: &str) {
    names.split(' ').for_each(|name| line(text, name, 0));
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
    let seconds = |took: Option<Duration>| took.map_or(-1, |took| took.as_secs() as i64);
    line(text, "rdb_last_bgsave_time_sec", seconds(save.took));
    line(text, "rdb_current_bgsave_time_sec", seconds(save.began.map(|began| began.elapsed())));
    line(text, "rdb_saves", save.count);
    // The heap's log stands for the append-only file. It is never rewritten: checkpoints fold it into the
    // heap.
    line(text, "aof_enabled", i32::from(durability == pheap::Durability::Wal));
    line(text, "aof_last_rewrite_time_sec", -1);
    line(text, "aof_current_rewrite_time_sec", -1);
    line(text, "aof_last_bgrewrite_status", "ok");
    let has_failed = cx.server.stats.has_failed.load(Relaxed);
    line(text, "aof_last_write_status", if has_failed { "err" } else { "ok" });
    let none = "\
        current_cow_peak current_cow_size current_cow_size_age current_save_keys_processed \
        current_save_keys_total rdb_last_cow_size rdb_last_load_keys_expired rdb_last_load_keys_loaded \
        aof_rewrite_in_progress aof_rewrite_scheduled aof_rewrites aof_rewrites_consecutive_failures \
        aof_last_cow_size module_fork_in_progress module_fork_last_cow_size";
    zeros(text, none);
    line(text, "current_fork_perc", "0.00");
    if durability == pheap::Durability::Wal {
        line(text, "aof_current_size", stats.log_bytes);
        line(text, "aof_base_size", 0);
        zeros(text, "aof_pending_rewrite aof_buffer_length aof_pending_bio_fsync aof_delayed_fsync");
    }
}

fn stats(cx: &mut Cx<'_>, text: &mut String) {
    let (stats, all) = (&cx.server.stats, cx.server.counted_in_all());
    let (master, clients) = cx.server.traffic.split_last().expect("one is that of a master");
    let sum = |of: fn(Transferred) -> u64| clients.iter().map(|thread| of(thread.get())).sum::<u64>();
    let [commands, input, output, replicated] = cx.server.rates.lock().get();
    let kilobytes = |bytes: f64| format!("{:.2}", bytes / 1024.0);
    line(text, "total_connections_received", stats.connections.load(Relaxed));
    line(text, "total_commands_processed", all.calls);
    line(text, "instantaneous_ops_per_sec", commands.round());
    line(text, "total_net_input_bytes", sum(|of| of.input));
    line(text, "total_net_output_bytes", sum(|of| of.output));
    line(text, "total_net_repl_input_bytes", master.get().input);
    line(text, "total_net_repl_output_bytes", 0);
    line(text, "instantaneous_input_kbps", kilobytes(input));
    line(text, "instantaneous_output_kbps", kilobytes(output));
    line(text, "instantaneous_input_repl_kbps", kilobytes(replicated));
    line(text, "instantaneous_output_repl_kbps", kilobytes(0.0));
    line(text, "rejected_connections", stats.rejected.load(Relaxed));
    line(text, "expired_keys", stats.expired.load(Relaxed));
    line(text, "expired_stale_perc", "0.00");
    line(text, "expire_cycle_cpu_milliseconds", stats.expiring.load(Relaxed) / 1000);
    line(text, "evicted_keys", stats.evicted.load(Relaxed));
    line(text, "evicted_clients", stats.evicted_clients.load(Relaxed));
    line(text, "keyspace_hits", all.hits);
    line(text, "keyspace_misses", all.misses);
    let [total, current] = cx.server.memory.exceeded();
    line(text, "total_eviction_exceeded_time", total.as_millis());
    line(text, "current_eviction_exceeded_time", current.as_millis());
    line(text, "pubsub_channels", cx.server.channels.count(SubscriptionKind::Channel));
    line(text, "pubsub_patterns", cx.server.channels.count(SubscriptionKind::Pattern));
    line(text, "pubsubshard_channels", cx.server.channels.count(SubscriptionKind::Shard));
    let [_, keys, items, prefixes] = cx.server.tracking.totals();
    line(text, "tracking_total_keys", keys);
    line(text, "tracking_total_items", items);
    line(text, "tracking_total_prefixes", prefixes);
    line(text, "total_error_replies", stats.errors.load(Relaxed));
    line(text, "total_reads_processed", sum(|of| of.reads));
    line(text, "total_writes_processed", sum(|of| of.writes));
    // `migrate_cached_sockets` is 0 because `MIGRATE` caches no connections.
    let none = "\
        sync_full sync_partial_ok sync_partial_err expired_time_cap_reached_count latest_fork_usec \
        total_forks migrate_cached_sockets slave_expires_tracked_keys active_defrag_hits \
        active_defrag_misses active_defrag_key_hits active_defrag_key_misses total_active_defrag_time \
        current_active_defrag_time unexpected_error_replies dump_payload_sanitizations \
        io_threaded_reads_processed io_threaded_writes_processed reply_buffer_shrinks \
        reply_buffer_expands";
    zeros(text, none);
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
        // The reason why the link is down, in a field that Redis does not have.
        if let Some(error) = &link.error {
            line(text, "master_link_error", error);
        }
        line(text, "slave_priority", config.text("replica-priority"));
        line(text, "slave_read_only", i32::from(config.is("replica-read-only")));
        line(text, "replica_announced", 1);
    }
    line(text, "connected_slaves", 0);
    line(text, "master_failover_state", "no-failover");
    let own = &cx.server.run_id;
    line(text, "master_replid", link.position.as_ref().map_or(own, |position| &position.id));
    line(text, "master_replid2", "0".repeat(40));
    line(text, "master_repl_offset", offset);
    line(text, "second_repl_offset", -1);
    line(text, "repl_backlog_size", config.text("repl-backlog-size"));
    zeros(text, "repl_backlog_active repl_backlog_first_byte_offset repl_backlog_histlen");
}

fn cpu(_: &mut Cx<'_>, text: &mut String) {
    let all =
        [(CpuScope::Process, ""), (CpuScope::Children, "_children"), (CpuScope::Thread, "_main_thread")];
    for (whose, name) in all {
        let [system, user] = crate::stats::usage::cpu_times(whose);
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
    for known in all_commands() {
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

/// Writes the latency percentiles of each command that was called, if `latency-tracking` is on. The
/// percentiles are bounds of histogram buckets, which are powers of two.
fn latencies(cx: &mut Cx<'_>, text: &mut String) {
    let config = cx.server.config.read();
    if !config.is("latency-tracking") {
        return;
    }
    let shares: Vec<f64> = config
        .text("latency-tracking-info-percentiles")
        .split_whitespace()
        .filter_map(|share| share.parse().ok())
        .collect();
    for known in all_commands() {
        let sum = cx.server.counted(known.number);
        if sum.calls > 0 {
            let each = shares.iter().map(|&share| format!("p{share}={:.3}", at_most(&sum, share)));
            line(
                text,
                &format!("latency_percentiles_usec_{}", known.command.name),
                each.collect::<Vec<_>>().join(","),
            );
        }
    }
}

/// Returns the upper bound, in microseconds, of the histogram bucket in which `share` percent of the calls
/// are reached. The last bucket has no upper bound; for it, returns 2^30.
fn at_most(sum: &Sum, share: f64) -> f64 {
    let wanted = (share / 100.0 * sum.calls as f64).ceil() as u64;
    let mut calls = 0;
    let bucket = sum.histogram.iter().position(|&more| {
        calls += more;
        calls >= wanted
    });
    (1u64 << bucket.unwrap_or(BUCKETS - 1)) as f64
}

fn keyspace(cx: &mut Cx<'_>, text: &mut String) {
    for db in 0..DATABASES {
        let (mut keys, mut expires) = (0, 0);
        for shard in 0..cx.store().shards().len() {
            cx.read_shard(shard, |view, dbs| {
                keys += view[dbs.at(view, db)].len();
                expires += view[dbs.at(view, db)].deadlines().len();
            });
        }
        if keys > 0 {
            line(text, &format!("db{db}"), format_args!("keys={keys},expires={expires},avg_ttl=0"));
        }
    }
}
