//! `maxmemory`: which keys are evicted, and when; and that nothing else is lost.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Client, Server, converse};

/// Returns a number of `INFO`.
fn info(client: &mut Client, name: &str) -> u64 {
    let text = client.ask("info");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("INFO says nothing of {name}")).parse().unwrap()
}

/// Sets `maxmemory` to so many bytes more than the data use now, and the policy. Returns the limit.
fn limit(client: &mut Client, policy: &str, more: u64) -> u64 {
    let limit = info(client, "used_memory") + more;
    assert_eq!(client.ask(&format!("config set maxmemory-policy {policy} maxmemory {limit}")), "OK");
    limit
}

/// Sends lines, a hundred at once, and returns the replies.
fn ask_all(client: &mut Client, lines: impl IntoIterator<Item = String>) -> Vec<String> {
    let lines: Vec<String> = lines.into_iter().collect();
    let mut replies = Vec::new();
    for some in lines.chunks(100) {
        client.send(&some.join("\r\n"));
        replies.extend(some.iter().map(|_| client.reply()));
    }
    replies
}

/// Returns how many of these keys are still there.
fn left(client: &mut Client, name: &str, count: usize) -> usize {
    let exists = ask_all(client, (0..count).map(|i| format!("exists {name}:{i}")));
    exists.iter().filter(|reply| *reply == "1").count()
}

const KEYS: usize = 1000;

fn value() -> String {
    "x".repeat(500)
}

/// Sets keys of two groups, "good" and "bad", and calls `use_some`. Then sets other keys, so that the server
/// evicts many. Returns how many good keys and how many bad keys are left.
fn compete(policy: &str, shards: &str, set: [&str; 2], use_some: impl Fn(&mut Client)) -> [usize; 2] {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process", "--shards", shards]);
    let client = &mut server.client();
    assert_eq!(client.ask(&format!("config set maxmemory-policy {policy}")), "OK");
    for (name, options) in ["good", "bad"].into_iter().zip(set) {
        let replies = ask_all(client, (0..KEYS).map(|i| format!("set {name}:{i} {} {options}", value())));
        assert!(replies.iter().all(|reply| reply == "OK"));
    }
    use_some(client);
    limit(client, policy, 10_000);
    let lines = (0..KEYS).map(|i| format!("set new:{i} {} ex 5000", value()));
    assert!(ask_all(client, lines).iter().all(|reply| reply == "OK"));
    let gone = info(client, "evicted_keys");
    assert!((KEYS as u64 * 8 / 10..KEYS as u64 * 14 / 10).contains(&gone), "{gone} were evicted by {policy}");
    ["good", "bad"].map(|name| left(client, name, KEYS))
}

fn read_good(client: &mut Client, times: usize) {
    // The server measures times of use in tenths of a second.
    thread::sleep(Duration::from_millis(500));
    for _ in 0..times {
        ask_all(client, (0..KEYS).map(|i| format!("get good:{i}")));
    }
}

#[test]
fn keys_go_that_were_not_used_for_long() {
    for policy in ["allkeys-lru", "volatile-lru"] {
        for shards in ["1", "64"] {
            let [good, bad] = compete(policy, shards, ["ex 9000"; 2], |client| read_good(client, 1));
            assert!(good > 3 * bad.max(100), "{policy}, {shards} shards: {good} and {bad} are left");
        }
    }
}

#[test]
fn keys_go_that_are_seldom_used() {
    for policy in ["allkeys-lfu", "volatile-lfu"] {
        let [good, bad] = compete(policy, "64", ["ex 9000"; 2], |client| {
            // Each use adds one to the frequency.
            assert_eq!(client.ask("config set lfu-log-factor 0"), "OK");
            read_good(client, 5);
            // The time of the last use does not matter.
            ask_all(client, (0..KEYS).map(|i| format!("get bad:{i}")));
        });
        assert!(good > bad + 200, "{policy}: {good} and {bad} are left");
    }
}

#[test]
fn keys_go_that_expire_first() {
    let [good, bad] = compete("volatile-ttl", "64", ["ex 9000", "ex 600"], |_| {});
    assert!(good > 3 * bad.max(100), "{good} and {bad} are left");
}

#[test]
fn keys_go_at_random() {
    for policy in ["allkeys-random", "volatile-random"] {
        let [good, bad] = compete(policy, "64", ["ex 9000"; 2], |client| read_good(client, 1));
        assert!(good.abs_diff(bad) < 200, "{policy}: {good} and {bad} are left");
    }
}

#[test]
fn keys_without_a_deadline_stay() {
    for policy in ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"] {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path(), &["--durability", "process"]);
        let client = &mut server.client();
        limit(client, policy, 500_000);
        let mut acknowledged = Vec::new();
        for i in 0..2500 {
            let deadline = if i % 2 == 0 { "" } else { "ex 5000" };
            let reply = client.ask(&format!("set k:{i} {} {deadline}", value()));
            match reply.as_str() {
                "OK" if i % 2 == 0 => acknowledged.push(i),
                "OK" => {}
                refused => assert!(refused.starts_with("-OOM "), "{refused}"),
            }
        }
        // In the end, no key was left that the server may evict.
        assert!((500..1000).contains(&acknowledged.len()), "{}", acknowledged.len());
        assert!(info(client, "evicted_keys") > 0);
        let exists = ask_all(client, acknowledged.iter().map(|i| format!("exists k:{i}")));
        assert!(exists.iter().all(|reply| reply == "1"), "{policy}");
        assert_eq!(client.ask("get k:0"), value());
        let more = ask_all(client, (0..9).map(|i| format!("set more:{i} {}", value())));
        assert!(more[8].starts_with("-OOM "), "{more:?}");
    }
}

#[test]
fn the_limit_is_kept() {
    for threads in ["1", "3"] {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path(), &["--durability", "process", "--threads", threads]);
        let client = &mut server.client();
        let limit = limit(client, "allkeys-lru", 4_000_000);
        // A command evicts until the data are within the limit, however slow the machine is.
        assert_eq!(client.ask("config set maxmemory-eviction-tenacity 100"), "OK");
        thread::scope(|scope| {
            for writer in 0..6 {
                let server = &server;
                scope.spawn(move || {
                    let client = &mut server.client();
                    for i in 0..60 {
                        let line = |n| match n % 4 {
                            0 => format!("rpush list:{writer}:{i}:{n} a b c d {}", value()),
                            1 => format!("mset a:{writer}:{i}:{n} {0} b:{writer}:{i}:{n} {0}", value()),
                            2 => format!("append long:{n} {}", value()),
                            _ => format!(
                                "eval \"return redis.call('set', KEYS[1], '{}')\" 1 e:{writer}:{i}:{n}",
                                value()
                            ),
                        };
                        let replies = ask_all(client, (0..50).map(line));
                        assert!(replies.iter().all(|reply| !reply.starts_with('-')), "{replies:?}");
                    }
                });
            }
            for _ in 0..50 {
                let used = info(client, "used_memory");
                assert!(used < limit + limit / 7, "{used} of {limit}");
            }
        });
        client.ask("ping");
        let used = info(client, "used_memory");
        assert!(used <= limit && used > limit * 8 / 10, "{used} of {limit}");
        // The live bytes that the heap knows come close to the limit.
        while info(client, "heap_live_bytes") > limit * 13 / 10 {
            thread::sleep(Duration::from_millis(10));
        }
        assert!(info(client, "evicted_keys") > 1000);
    }
}

#[test]
fn garbage_costs_no_keys() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let client = &mut server.client();
    limit(client, "allkeys-lru", 2_000_000);
    let big = "x".repeat(30_000);
    for round in 0..100 {
        for key in 0..20 {
            // Each value replaces one of about the same length.
            assert_eq!(client.ask(&format!("set k:{key} {round}{big}")), "OK");
        }
    }
    converse(client, &[("dbsize", "20"), ("flushall", "OK")]);
    // Deleted keys make room, too.
    for round in 0..100 {
        assert_eq!(client.ask(&format!("set k {round}{big}{big}")), "OK");
        assert_eq!(client.ask("del k"), "1");
    }
    assert_eq!(info(client, "evicted_keys"), 0);
}

#[test]
fn nothing_goes_unless_a_policy_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let client = &mut server.client();
    assert_eq!(client.ask("set a 1"), "OK");
    limit(client, "noeviction", 200_000);
    let replies = ask_all(client, (0..1000).map(|i| format!("set k:{i} {} ex 5000", value())));
    let stored = replies.iter().filter(|reply| *reply == "OK").count();
    assert!(stored > 200 && replies.last().unwrap().starts_with("-OOM "), "{stored}");
    converse(
        client,
        &[
            ("set b 1", "-OOM command not allowed when used memory > 'maxmemory'."),
            ("get a", "1"),
            ("multi", "OK"),
            ("get a", "-OOM command not allowed when used memory > 'maxmemory'."),
            ("exec", "-EXECABORT Transaction discarded because of previous errors."),
            ("incr a", "-OOM command not allowed when used memory > 'maxmemory'."),
            ("eval \"return redis.call('get', 'a')\" 1 a", "1"),
        ],
    );
    assert!(client.ask("eval \"return redis.call('set', 'a', 2)\" 1 a").starts_with("-OOM "));
    assert_eq!(client.ask("dbsize"), (stored + 1).to_string());
    // Deleted keys make room.
    ask_all(client, (0..500).map(|i| format!("del k:{i}")));
    assert_eq!(client.ask("set b 1"), "OK");
    assert_eq!(info(client, "evicted_keys"), 0);
}

#[test]
fn others_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process", "--threads", "2"]);
    let (client, listener, reader) = (&mut server.client(), &mut server.client(), &mut server.client());
    assert_eq!(client.ask("config set notify-keyspace-events KEe maxmemory-policy allkeys-random"), "OK");
    listener.ask("psubscribe __key*");
    reader.ask("hello 3");
    converse(reader, &[("client tracking on", "OK"), ("set k v", "OK"), ("watch k", "OK"), ("get k", "v")]);
    // The server evicts the key without another command.
    assert_eq!(client.ask("config set maxmemory 1"), "OK");
    assert_eq!(listener.reply(), "[pmessage __key* __keyspace@0__:k evicted]");
    assert_eq!(listener.reply(), "[pmessage __key* __keyevent@0__:evicted k]");
    assert_eq!(reader.reply(), "[invalidate [k]]");
    converse(client, &[("config set maxmemory 0", "OK"), ("exists k", "0")]);
    converse(reader, &[("multi", "OK"), ("ping", "QUEUED"), ("exec", "nil")]);
    assert_eq!(info(client, "evicted_keys"), 1);
    assert_eq!(client.ask("config resetstat"), "OK");
    assert_eq!(info(client, "evicted_keys"), 0);
}

#[test]
fn when_keys_were_used() {
    let folder = tempfile::tempdir().unwrap();
    let no_frequency = "-ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.";
    let no_idle_time = "-ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.";
    {
        let server = Server::start(
            folder.path(),
            &["--durability", "process", "--set", "maxmemory-policy allkeys-lru"],
        );
        let client = &mut server.client();
        converse(
            client,
            &[
                ("object idletime a", "nil"),
                ("object freq a", "nil"),
                ("set a 1", "OK"),
                ("object idletime a", "0"),
                ("object freq a", no_frequency),
                ("object idletime", "-ERR wrong number of arguments for 'object|idletime' command"),
            ],
        );
        thread::sleep(Duration::from_millis(1200));
        for line in ["ttl a", "type a", "exists a", "object encoding a", "memory usage a"] {
            client.ask(line);
            assert_ne!(client.ask("object idletime a"), "0", "{line}");
        }
        converse(client, &[("touch a", "1"), ("object idletime a", "0")]);
        // The commands of a script use keys, too.
        thread::sleep(Duration::from_millis(1200));
        assert_ne!(client.ask("object idletime a"), "0");
        converse(client, &[("eval \"return redis.call('get', 'a')\" 1 a", "1"), ("object idletime a", "0")]);
        converse(
            client,
            &[
                ("config set maxmemory-policy volatile-lfu", "OK"),
                ("object idletime a", no_idle_time),
                ("object idletime b", "nil"),
                ("set new 1", "OK"),
                ("object freq b", "nil"),
            ],
        );
        let before: u64 = client.ask("object freq new").parse().unwrap();
        assert!((5..=6).contains(&before), "{before}");
        ask_all(client, (0..300).map(|_| "get new".to_owned()));
        let after: u64 = client.ask("object freq new").parse().unwrap();
        assert!(after > before + 2 && after < 40, "{after}");
    }
    // A restart forgets frequencies.
    let server =
        Server::start(folder.path(), &["--durability", "process", "--set", "maxmemory-policy volatile-lfu"]);
    assert_eq!(server.client().ask("object freq new"), "5");
}

#[test]
fn nothing_is_lost_that_was_not_evicted() {
    for arguments in
        [&["--durability", "disk", "--threads", "2"][..], &["--durability", "pmem", "--without-dax"]]
    {
        let folder = tempfile::tempdir().unwrap();
        let (mut acknowledged, mut told) = (BTreeSet::new(), BTreeSet::new());
        {
            let server = Server::start(folder.path(), arguments);
            let (client, listener) = (&mut server.client(), &mut server.client());
            assert_eq!(client.ask("config set notify-keyspace-events Ee"), "OK");
            listener.ask("subscribe __keyevent@0__:evicted");
            limit(client, "allkeys-lru", 300_000);
            for some in 0..20 {
                let names: Vec<String> = (0..100).map(|i| format!("k:{}", some * 100 + i)).collect();
                let lines = names.iter().map(|name| format!("set {name} {name}{}", value()));
                assert!(ask_all(client, lines).iter().all(|reply| reply == "OK"));
                acknowledged.extend(names);
            }
            let evicted = info(client, "evicted_keys") as usize;
            assert!(evicted > 1000, "{evicted}");
            while told.len() < evicted {
                let message = listener.reply();
                told.insert(message.trim_end_matches(']').rsplit(' ').next().unwrap().to_owned());
            }
        }
        // The server was killed.
        let server = Server::start(folder.path(), arguments);
        let client = &mut server.client();
        for name in &acknowledged {
            let is_there = client.ask(&format!("get {name}")) == format!("{name}{}", value());
            assert_eq!(is_there, !told.contains(name), "{name}, {arguments:?}");
        }
        assert_eq!(client.ask("dbsize"), (acknowledged.len() - told.len()).to_string());
    }
}

#[test]
fn a_file_says_when_keys_were_used() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dump.rdb");
    // "a" was idle for 50 seconds, "b" has the frequency 7.
    std::fs::write(&file, b"REDIS0004\xfe\x00\xf8\x32\x00\x01a\x01x\xf9\x07\x00\x01b\x01x\xff").unwrap();
    for (policy, line, told) in
        [("allkeys-lru", "object idletime a", "50"), ("allkeys-lfu", "object freq b", "7")]
    {
        let folder = tempfile::tempdir().unwrap();
        let policy = format!("maxmemory-policy {policy}");
        let arguments = ["--durability", "process", "--import", file.to_str().unwrap(), "--set", &policy];
        let server = Server::start(folder.path(), &arguments);
        let reply = server.client().ask(line);
        let is_so = reply == told || told == "50" && ["51", "52", "53"].contains(&reply.as_str());
        assert!(is_so, "{reply}");
    }
}

#[test]
fn nothing_is_refused_as_long_as_the_data_are_small_enough() {
    for [threads, shards] in [["1", "1"], ["2", "1"], ["1", "64"]] {
        let folder = tempfile::tempdir().unwrap();
        let options = ["--durability", "process", "--threads", threads, "--shards", shards];
        let server = Server::start(folder.path(), &options);
        let client = &mut server.client();
        let value = "x".repeat(30_000);
        let set = |i: usize| format!("set key:{} {value}", i % 300);
        ask_all(client, (0..300).map(set));
        let needed = info(client, "used_memory");
        // The limit is a little more than the data need, and then much more.
        for share in [9, 6] {
            let limit = needed * 10 / share;
            assert_eq!(
                client.ask(&format!("config set maxmemory-policy noeviction maxmemory {limit}")),
                "OK"
            );
            let replies = ask_all(client, (0..3000).map(set));
            let refused = replies.iter().filter(|reply| *reply != "OK").count();
            assert_eq!(refused, 0, "{threads} threads, {shards} shards, {share} tenths");
        }
    }
}

#[test]
fn nobody_has_to_ask_for_room() {
    const KEYS: usize = 12_000;
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let (client, listener) = (&mut server.client(), &mut server.client());
    ask_all(client, (0..KEYS).map(|i| format!("set key:{i} x")));
    // Commands spend as little time as possible on eviction.
    assert_eq!(
        client.ask("config set maxmemory-eviction-tenacity 0 maxmemory-policy allkeys-random notify-keyspace-events Ee"),
        "OK"
    );
    listener.ask("subscribe __keyevent@0__:evicted");
    let begun = Instant::now();
    assert_eq!(client.ask("config set maxmemory 1"), "OK");
    for _ in 0..KEYS {
        listener.reply();
        // A server that evicts a few keys now and then would take longer.
        assert!(begun.elapsed() < Duration::from_secs(100));
    }
}
