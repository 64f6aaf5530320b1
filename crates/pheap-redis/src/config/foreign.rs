//! Options of Redis 7.0 that this server refuses, or that have no effect here.

/// The error for `user` and `aclfile`.
const USERS: &str = "this server has no users except `default`, so the option would restrict no client; \
    remove it, and set `requirepass`";
/// The error for `loadmodule`.
const MODULES: &str = "this server loads no modules, so clients would lack their commands; remove the option \
    if no client needs them";
/// The error for options that demand replicas.
const REPLICAS: &str = "this server has no replicas, so it would acknowledge each write without them; remove \
    the option if that is enough";
/// The error for options of TLS that are not supported.
const TLS: &str = "this server does not support this option of TLS; remove it if the supported ones are \
    enough (tls-cert-file, tls-key-file, tls-ca-cert-file, tls-auth-clients, tls-protocols)";

/// Options that this server refuses, because it does not do what they ask, and clients may rely on that. Each
/// has the values that ask for nothing, and the error for all other values.
const REFUSED: &[(&str, &[&str], &str)] = &[
    ("user", &[], USERS),
    ("aclfile", &[""], USERS),
    (
        "rename-command",
        &[],
        "this server cannot rename or disable commands, so every client could still call it; remove the \
         option, and set `requirepass`",
    ),
    ("loadmodule", &[], MODULES),
    (
        "cluster-enabled",
        &["no"],
        "this server cannot be a node of a cluster, so clients of the cluster would get errors; remove the \
         option, or set it to `no`",
    ),
    ("min-replicas-to-write", &["0"], REPLICAS),
    ("min-slaves-to-write", &["0"], REPLICAS),
    ("sentinel", &[], "this server cannot be a Sentinel; start redis-sentinel with this file"),
    ("tls-ca-cert-dir", &[""], TLS),
    ("tls-ciphers", &[""], TLS),
    ("tls-ciphersuites", &[""], TLS),
    ("tls-client-cert-file", &[""], TLS),
    ("tls-client-key-file", &[""], TLS),
    ("tls-client-key-file-pass", &[""], TLS),
    ("tls-cluster", &["no"], TLS),
    ("tls-dh-params-file", &[""], TLS),
    ("tls-key-file-pass", &[""], TLS),
    ("tls-prefer-server-ciphers", &["no"], TLS),
];

/// Options of Redis that have no value and no effect in this server.
const IGNORED: &str = "\
    acl-pubsub-default active-defrag-cycle-max active-defrag-cycle-min active-defrag-ignore-bytes \
    active-defrag-max-scan-fields active-defrag-threshold-lower active-defrag-threshold-upper activedefrag \
    always-show-logo aof-disable-auto-gc aof-load-truncated aof-rewrite-incremental-fsync \
    aof-timestamp-enabled aof-use-rdb-preamble aof_rewrite_cpulist auto-aof-rewrite-percentage \
    bgsave_cpulist bind-source-addr bio_cpulist cluster-allow-pubsubshard-when-down \
    cluster-allow-reads-when-down cluster-allow-replica-migration cluster-announce-bus-port \
    cluster-announce-hostname cluster-announce-ip cluster-announce-port cluster-announce-tls-port \
    cluster-config-file cluster-link-sendbuf-limit cluster-migration-barrier cluster-node-timeout \
    cluster-port cluster-preferred-endpoint-type cluster-replica-no-failover \
    cluster-replica-validity-factor cluster-require-full-coverage cluster-slave-no-failover \
    cluster-slave-validity-factor crash-log-enabled crash-memcheck-enabled disable-thp dynamic-hz \
    enable-module-command ignore-warnings io-threads-do-reads jemalloc-bg-thread key-load-delay \
    lazyfree-lazy-user-flush loading-process-events-interval-bytes min-replicas-max-lag min-slaves-max-lag \
    no-appendfsync-on-rewrite oom-score-adj oom-score-adj-values proc-title-template \
    propagation-error-behavior rdb-del-sync-files rdb-key-save-delay rdb-save-incremental-fsync \
    rdbchecksum repl-backlog-ttl repl-disable-tcp-nodelay repl-diskless-load repl-diskless-sync \
    repl-diskless-sync-delay repl-diskless-sync-max-replicas repl-ping-replica-period \
    repl-ping-slave-period replica-announce-ip replica-announce-port replica-announced \
    replica-ignore-disk-write-errors replica-ignore-maxmemory replica-lazy-flush server_cpulist \
    set-proc-title shutdown-on-sigint shutdown-on-sigterm shutdown-timeout slave-announce-ip \
    slave-announce-port slave-ignore-maxmemory slave-lazy-flush socket-mark-id stop-writes-on-bgsave-error \
    syslog-enabled syslog-facility syslog-ident tls-session-cache-size tls-session-cache-timeout \
    tls-session-caching";

/// Options that have a value in this server, but are reported as without effect if the value differs from the
/// default.
const WITHOUT_EFFECT: &str = "\
    acllog-max-len active-expire-effort activerehashing appendonly hz lazyfree-lazy-eviction \
    lazyfree-lazy-expire lazyfree-lazy-server-del lazyfree-lazy-user-del rdbcompression repl-backlog-size \
    sanitize-dump-payload save";

fn names(all: &str, name: &str) -> bool {
    all.split(' ').any(|other| other == name)
}

/// Returns the error if this server refuses an option with this value. `name` is lowercase.
pub(super) fn refusal(name: &str, value: &str) -> Option<&'static str> {
    let (_, harmless, why) = REFUSED.iter().find(|(other, ..)| *other == name)?;
    (!harmless.contains(&value)).then_some(*why)
}

/// Returns whether this is an option of [`IGNORED`] or [`REFUSED`]. `name` is lowercase.
pub(super) fn is_of_redis(name: &str) -> bool {
    names(IGNORED, name) || REFUSED.iter().any(|(other, ..)| *other == name)
}

/// Returns whether an option is to be reported as without effect. `name` is lowercase.
pub(super) fn is_ignored(name: &str) -> bool {
    names(IGNORED, name) || names(WITHOUT_EFFECT, name)
}

#[cfg(test)]
mod tests {
    use super::super::setting;
    use super::*;

    #[test]
    fn names_are_those_of_one_table() {
        assert!(WITHOUT_EFFECT.split(' ').all(|name| setting(name).is_some()));
        assert!(IGNORED.split(' ').all(|name| refusal(name, "x").is_none()));
        assert_eq!(refusal("cluster-enabled", "no"), None);
        assert!(refusal("cluster-enabled", "yes").unwrap().contains("remove the option"));
    }
}
