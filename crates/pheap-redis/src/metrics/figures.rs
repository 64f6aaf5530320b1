//! The exported figures. A figure that redis_exporter also exports has the same name. The names of figures of
//! the heap begin with `pheap_`.

use std::sync::atomic::Ordering::Relaxed;

use super::text::MetricKind::{Counter, Gauge, Histogram};
use super::text::MetricsText;
use crate::clients::pubsub::SubscriptionKind;
use crate::command::all_commands as commands;
use crate::data::DATABASES;
use crate::server::role::Stage;
use crate::server::{Server, since_1970};
use crate::stats::counts::{BUCKETS, Sum};
use crate::stats::usage::CpuScope;

/// Returns all figures as they are now.
pub(super) fn all(server: &Server) -> String {
    let mut text = MetricsText::default();
    process(server, &mut text);
    clients(server, &mut text);
    memory(server, &mut text);
    counted(server, &mut text);
    each_command(server, &mut text);
    keys(server, &mut text);
    copies(server, &mut text);
    replication(server, &mut text);
    heap(server, &mut text);
    text.finish()
}

fn process(server: &Server, text: &mut MetricsText) {
    text.single_metric("redis_up", Gauge, "The server answers.", 1);
    let config = server.config.read();
    text.begin_metric("redis_instance_info", Gauge, "What the server is.");
    let labels = [
        ("redis_version", crate::REDIS_VERSION),
        ("pheap_redis_version", env!("CARGO_PKG_VERSION")),
        ("redis_mode", "standalone"),
        ("role", if server.role.is_replica() { "slave" } else { "master" }),
        ("os", std::env::consts::OS),
        ("run_id", &server.run_id),
        ("process_id", &std::process::id().to_string()),
        ("tcp_port", config.text("port")),
        ("maxmemory_policy", config.text("maxmemory-policy")),
    ];
    text.figure("redis_instance_info", &labels, 1);
    let uptime = server.started.elapsed().as_secs();
    let now = since_1970().as_secs();
    text.single_metric("redis_uptime_in_seconds", Gauge, "Seconds since the server was started.", uptime);
    text.single_metric(
        "redis_start_time_seconds",
        Gauge,
        "Unix time at which the server was started.",
        now.saturating_sub(uptime),
    );
    let [system, user] = crate::stats::usage::cpu_times(CpuScope::Process);
    text.single_metric("redis_cpu_sys_seconds_total", Counter, "Processor time of the system.", system);
    text.single_metric("redis_cpu_user_seconds_total", Counter, "Processor time of the server.", user);
}

fn clients(server: &Server, text: &mut MetricsText) {
    let most = server.config.read().int("maxclients");
    let figures = [
        ("redis_connected_clients", "Clients that are connected.", server.clients.count() as i64),
        ("redis_max_clients", "Clients that may be connected.", most),
        (
            "redis_blocked_clients",
            "Clients that wait in a blocking command.",
            server.stats.blocked.load(Relaxed) as i64,
        ),
        ("redis_tracking_clients", "Clients that use CLIENT TRACKING.", server.tracking.totals()[0] as i64),
        ("redis_pubsub_channels", "Channels that are listened to.", count(server, SubscriptionKind::Channel)),
        ("redis_pubsub_patterns", "Patterns that are listened to.", count(server, SubscriptionKind::Pattern)),
        (
            "redis_pubsubshard_channels",
            "Shards' channels that are listened to.",
            count(server, SubscriptionKind::Shard),
        ),
    ];
    figures.into_iter().for_each(|(name, help, value)| text.single_metric(name, Gauge, help, value));
}

fn count(server: &Server, kind: SubscriptionKind) -> i64 {
    server.channels.count(kind) as i64
}

fn memory(server: &Server, text: &mut MetricsText) {
    let used = server.used_memory();
    let (process, machine) = crate::stats::usage::memory();
    let most = server.config.read().int("maxmemory") as u64;
    let lua = server.scripts.memory.iter().map(|bytes| bytes.load(Relaxed)).sum::<i64>().max(0) as u64;
    let figures = [
        ("redis_memory_used_bytes", "Bytes that the data need.", used),
        ("redis_memory_max_bytes", "Limit of these bytes, `maxmemory`; 0: none.", most),
        ("redis_memory_used_rss_bytes", "Resident memory of the process, in bytes.", process),
        ("redis_memory_used_scripts_eval_bytes", "Bytes that scripts use.", lua),
        ("redis_total_system_memory_bytes", "Bytes of memory of the machine.", machine),
        ("redis_number_of_cached_scripts", "Scripts that EVALSHA finds.", server.scripts.count() as u64),
    ];
    figures.into_iter().for_each(|(name, help, value)| text.single_metric(name, Gauge, help, value));
}

fn counted(server: &Server, text: &mut MetricsText) {
    let (stats, all) = (&server.stats, server.counted_in_all());
    let figures = [
        ("redis_commands_processed_total", "Commands that were run.", all.calls),
        ("redis_connections_received_total", "Clients that have connected.", stats.connections.load(Relaxed)),
        ("redis_rejected_connections_total", "Clients that were refused.", stats.rejected.load(Relaxed)),
        ("redis_expired_keys_total", "Keys that have expired.", stats.expired.load(Relaxed)),
        (
            "redis_evicted_keys_total",
            "Keys that were evicted because of `maxmemory`.",
            stats.evicted.load(Relaxed),
        ),
        ("redis_keyspace_hits_total", "Keys that were looked up and found.", all.hits),
        ("redis_keyspace_misses_total", "Keys that were looked up and not found.", all.misses),
    ];
    figures.into_iter().for_each(|(name, help, value)| text.single_metric(name, Counter, help, value));
    text.single_metric("redis_slowlog_length", Gauge, "Commands in the slow log.", server.slowlog.count());
    text.begin_metric("redis_errors_total", Counter, "Error replies, by their first word.");
    for (code, count) in &*server.errors.lock() {
        text.figure("redis_errors_total", &[("err", code)], count);
    }
}

/// Appends the figures of each command that was called or refused.
fn each_command(server: &Server, text: &mut MetricsText) {
    let called: Vec<(&str, Sum)> = commands()
        .map(|known| (known.command.name, server.counted(known.number)))
        .filter(|(_, sum)| sum.calls + sum.rejected > 0)
        .collect();
    let mut each = |name: &str, help: &str, value: fn(&Sum) -> f64| {
        text.begin_metric(name, Counter, help);
        called.iter().for_each(|(cmd, sum)| text.figure(name, &[("cmd", cmd)], value(sum)));
    };
    each("redis_commands_total", "Calls.", |sum| sum.calls as f64);
    each("redis_commands_duration_seconds_total", "Seconds that the calls took.", |sum| {
        sum.nanoseconds as f64 / 1e9
    });
    each("redis_commands_rejected_calls_total", "Calls that were refused.", |sum| sum.rejected as f64);
    each("redis_commands_failed_calls_total", "Calls that ended with an error.", |sum| sum.failed as f64);
    text.begin_metric(
        "redis_commands_latencies_usec",
        Histogram,
        "Calls by the microseconds they took at most.",
    );
    for (cmd, sum) in &called {
        let mut calls = 0;
        for (bucket, count) in sum.histogram.iter().enumerate() {
            calls += count;
            // The last bucket has no upper bound.
            let most = if bucket == BUCKETS - 1 { "+Inf".to_owned() } else { (1u64 << bucket).to_string() };
            text.figure("redis_commands_latencies_usec_bucket", &[("cmd", cmd), ("le", &most)], calls);
        }
        text.figure("redis_commands_latencies_usec_sum", &[("cmd", cmd)], sum.nanoseconds as f64 / 1e3);
        text.figure("redis_commands_latencies_usec_count", &[("cmd", cmd)], calls);
    }
}

/// Appends the figures of each database. Reads one shard at a time, so that commands in other shards do not
/// wait. Appends nothing while a script is slow, because the script may have locked shards, and nothing if a
/// read fails.
fn keys(server: &Server, text: &mut MetricsText) {
    let mut counts = [[0; 2]; DATABASES];
    for shard in 0..server.store.shards().len() {
        if server.scripts.is_busy() {
            return;
        }
        let Ok(_passed) = server.gates.pass([shard], false, &server.scripts) else { return };
        let read = server.store.root(shard).read_deferred(|view, root| {
            for (db, counts) in counts.iter_mut().enumerate() {
                let db = &view[view[root].dbs.at(view, db)];
                counts[0] += db.len();
                counts[1] += db.deadlines().len();
            }
        });
        if read.is_err() {
            return;
        }
    }
    let names = [
        ("redis_db_keys", "Keys of a database."),
        ("redis_db_keys_expiring", "Keys of a database that have a deadline."),
    ];
    for (which, (name, help)) in names.into_iter().enumerate() {
        text.begin_metric(name, Gauge, help);
        for (db, counts) in counts.iter().enumerate() {
            text.figure(name, &[("db", &format!("db{db}"))], counts[which]);
        }
    }
}

fn copies(server: &Server, text: &mut MetricsText) {
    let save = server.save.lock();
    let changes = server.stats.dirty.load(Relaxed).saturating_sub(save.dirty);
    let figures = [
        ("redis_rdb_bgsave_in_progress", "A copy of the heap is being made.", i64::from(save.is_running)),
        ("redis_rdb_last_bgsave_status", "The last copy of the heap succeeded.", i64::from(!save.failed)),
        ("redis_rdb_last_save_timestamp_seconds", "Unix time of the last copy of the heap.", save.at),
        ("redis_rdb_changes_since_last_save", "Changes since the last copy of the heap.", changes as i64),
    ];
    figures.into_iter().for_each(|(name, help, value)| text.single_metric(name, Gauge, help, value));
}

/// Appends the figures of the link to a master, if this server follows one.
fn replication(server: &Server, text: &mut MetricsText) {
    let link = server.role.link();
    let Some(master) = &link.master else { return };
    let labels = [("master_host", &*master.host), ("master_port", &master.port.to_string())];
    let offset = link.position.as_ref().map_or(0, |position| position.offset);
    let figures = [
        ("redis_master_link_up", "The link to the master is up.", u64::from(link.stage == Stage::Connected)),
        (
            "redis_master_sync_in_progress",
            "The master sends all its data.",
            u64::from(link.stage == Stage::Sync),
        ),
        ("redis_slave_repl_offset", "Offset in the master's stream up to which the heap has it.", offset),
    ];
    for (name, help, value) in figures {
        text.begin_metric(name, Gauge, help);
        text.figure(name, &labels, value);
    }
}

fn heap(server: &Server, text: &mut MetricsText) {
    let heap = server.store.heap().stats();
    let gauges = [
        ("pheap_live_bytes", "Bytes of live objects.", heap.live_bytes),
        ("pheap_live_objects", "Live objects.", heap.live_objects),
        ("pheap_file_bytes", "Bytes of the heap's file.", heap.file_bytes),
        ("pheap_ahead_bytes", "Bytes that the file has beyond these, ready for more data.", heap.ahead_bytes),
        ("pheap_free_bytes", "Bytes of pages that nothing uses.", heap.free_bytes),
        ("pheap_private_bytes", "Bytes of dirty pages in memory.", heap.private_bytes),
        ("pheap_ready", "The heap has counted its live objects.", u64::from(heap.ready)),
        ("pheap_failed", "Writing to the heap has failed.", u64::from(server.stats.has_failed.load(Relaxed))),
        ("pheap_replayed_records", "Records of the log that opening has replayed.", heap.replayed_records),
        ("pheap_rolled_back_entries", "Entries that opening has rolled back.", heap.rolled_back_entries),
    ];
    gauges.into_iter().for_each(|(name, help, value)| text.single_metric(name, Gauge, help, value));
    let counters = [
        ("pheap_log_bytes_total", "Bytes of log entries.", heap.log_bytes),
        ("pheap_log_syncs_total", "Syncs of the log.", heap.syncs),
        ("pheap_checkpoints_total", "How often the log was written to the heap's file.", heap.checkpoints),
        ("pheap_checkpoint_bytes_total", "Bytes that checkpoints have written.", heap.checkpoint_bytes),
        ("pheap_fences_total", "Fences.", heap.fences),
        ("pheap_flushed_lines_total", "Cache lines that were flushed.", heap.flushed_lines),
        ("pheap_growth_waits_total", "Waits for the file to grow.", heap.growth_waits),
        ("pheap_collections_total", "Collections.", heap.collections),
        ("pheap_collector_pauses_total", "Pauses by collections.", heap.pauses.count()),
    ];
    counters.into_iter().for_each(|(name, help, value)| text.single_metric(name, Counter, help, value));
    let (collecting, longest) = (heap.collecting.as_secs_f64(), heap.pauses.longest().as_secs_f64());
    text.single_metric("pheap_collecting_seconds_total", Counter, "How long collections took.", collecting);
    text.single_metric(
        "pheap_collector_longest_pause_seconds",
        Gauge,
        "The longest pause by a collection.",
        longest,
    );
    // The approximate durations that these shares of the pauses did not exceed.
    text.begin_metric("pheap_collector_pause_seconds", Gauge, "Quantiles of the pauses by collections.");
    for (share, name) in [(0.5, "0.5"), (0.99, "0.99"), (0.999, "0.999")] {
        let pause = heap.pauses.quantile(share).as_secs_f64();
        text.figure("pheap_collector_pause_seconds", &[("quantile", name)], pause);
    }
}
