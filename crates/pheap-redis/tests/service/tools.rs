//! Behavior that libraries and tools rely on, beyond the documented one. Some tests compare with a Redis.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::redis::Redis;
use crate::common::{Client, Server, converse};

const DEBUG: &[&str] = &["--durability", "process", "--set", "enable-debug-command yes"];

/// Fields of `INFO` that this server does not have.
const LEFT_OUT: &[&str] = &["gcc_version"];

fn fields(info: &str) -> BTreeSet<&str> {
    info.lines().filter_map(|line| Some(line.split_once(':')?.0)).collect()
}

fn field<'i>(info: &'i str, name: &str) -> &'i str {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default().trim()
}

/// Sends various commands. Returns `INFO` once some of its figures have changed.
fn use_it(client: &mut Client, other: &mut Client) -> String {
    for number in 0..200 {
        client.ask(&format!("SET key{number} {number}"));
        client.ask(&format!("GET key{}", 2 * number));
    }
    client.ask("SET short 1 PX 1");
    client.ask("SETEX long 1000 1");
    client.ask("EVAL return{1,2} 0");
    client.ask("LPUSH key1 x");
    client.ask("NOCOMMAND");
    other.ask("SUBSCRIBE channel");
    client.ask("CLIENT TRACKING ON");
    client.ask("GET key7");
    let begun = Instant::now();
    loop {
        let info = client.ask("INFO everything");
        let has_moved = ["expired_keys", "instantaneous_ops_per_sec"]
            .iter()
            .all(|name| field(&info, name).parse::<f64>().is_ok_and(|number| number > 0.0));
        if has_moved {
            return info;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{info}");
        client.ask("PING");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn info_has_the_fields_of_redis_and_they_move_as_there() {
    let folder = tempfile::tempdir().unwrap();
    let redis = Redis::start(folder.path());
    let server = Server::start(folder.path(), &["--durability", "disk"]);
    let [theirs, ours] = [redis.port(), server.port()].map(|port| {
        let mut clients = [(); 2].map(|()| Client::connect(port).unwrap());
        let [client, other] = &mut clients;
        use_it(client, other)
    });
    let missing: Vec<_> =
        fields(&theirs).difference(&fields(&ours)).filter(|name| !LEFT_OUT.contains(name)).copied().collect();
    assert!(missing.is_empty(), "{missing:?}");
    // These fields are positive in both servers, or in neither. (Their values differ.)
    for name in [
        "connected_clients",
        "used_memory",
        "used_memory_peak",
        "used_memory_overhead",
        "used_memory_rss",
        "mem_clients_normal",
        "total_connections_received",
        "total_commands_processed",
        "total_net_input_bytes",
        "total_net_output_bytes",
        "total_reads_processed",
        "total_writes_processed",
        "keyspace_hits",
        "keyspace_misses",
        "expired_keys",
        "pubsub_channels",
        "tracking_clients",
        "tracking_total_keys",
        "total_error_replies",
        "number_of_cached_scripts",
        "lru_clock",
        "used_memory_vm_eval",
    ] {
        let is_positive =
            |info: &str| field(info, name).parse::<f64>().unwrap_or_else(|e| panic!("{name}: {e}")) > 0.0;
        assert_eq!(is_positive(&ours), is_positive(&theirs), "{name}");
    }
    for name in ["errorstat_WRONGTYPE", "errorstat_ERR", "role", "maxmemory", "maxmemory_policy", "hz"] {
        assert_eq!(field(&ours, name), field(&theirs, name), "{name}");
    }
    for name in ["cmdstat_get", "latency_percentiles_usec_get", "master_replid", "executable"] {
        assert!(!field(&ours, name).is_empty(), "{name}");
    }
}

#[test]
fn few_elements_come_at_once_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    for shards in ["1", "64"] {
        let heap = folder.path().join(shards);
        std::fs::create_dir(&heap).unwrap();
        let server = Server::start(&heap, &["--durability", "process", "--shards", shards]);
        let mut client = server.client();
        converse(&mut client, &[("SCAN 0", "[0 []]"), ("SET a 1", "OK"), ("SCAN 0", "[0 [a]]")]);
        converse(&mut client, &[("SCAN 0 TYPE set", "[0 []]"), ("SADD s 1 2 3", "3")]);
        converse(&mut client, &[("SCAN 0 TYPE set", "[0 [s]]"), ("SSCAN s 0 COUNT 1", "[0 [1 2 3]]")]);
        for number in 0..100 {
            client.ask(&format!("ZADD z {} m{number}", number % 10));
            client.ask(&format!("HSET h f{number} {number}"));
        }
        assert_eq!(client.ask("ZSCAN z 0"), format!("[0 {}]", client.ask("ZRANGE z 0 -1 WITHSCORES")));
        assert!(client.ask("HSCAN h 0 COUNT 1").starts_with("[0 ["));
        // `SCAN` in transactions and in scripts.
        converse(&mut client, &[("MULTI", "OK"), ("SET b 1", "QUEUED"), ("SCAN 0 COUNT 50", "QUEUED")]);
        let told = client.ask("EXEC");
        assert!(["OK", "[0 [", "a", "b", "z"].iter().all(|part| told.contains(part)), "{told}");
        let told = client.ask("EVAL \"return redis.call('scan', 0)[1]\" 0");
        assert_eq!(told, "0");
        // More keys than a page has: each comes once.
        (0..1000).for_each(|number| _ = client.ask(&format!("SET k{number} x")));
        let (mut cursor, mut seen, mut pages) = ("0".to_owned(), Vec::new(), 0);
        loop {
            let reply = client.ask(&format!("SCAN {cursor} COUNT 100"));
            let (next, keys) = reply[1..].split_once(' ').unwrap();
            seen.extend(keys.trim_matches(['[', ']']).split(' ').map(str::to_owned));
            cursor = next.to_owned();
            pages += 1;
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(seen.len(), 1005);
        assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 1005);
        assert!(pages <= 11, "{pages}");
    }
}

#[test]
fn debug_does_what_tests_ask_for() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), DEBUG);
    let mut client = server.client();
    let lines = [
        ("DEBUG ERROR \"LOADING fake message\"", "-LOADING fake message"),
        ("DEBUG SLEEP 0.001", "OK"),
        ("DEBUG OBJECT none", "-ERR no such key"),
        ("SET k value", "OK"),
        ("DEBUG SET-ACTIVE-EXPIRE 0", "OK"),
        ("SET short 1 PX 1", "OK"),
        ("DEBUG SLEEP 0.3", "OK"),
        ("INFO stats", ""),
        ("DEBUG SET-ACTIVE-EXPIRE 1", "OK"),
        ("DEBUG RELOAD", "OK"),
        ("DEBUG STRINGMATCH-LEN 1000 *a", "0"),
        ("DEBUG STRINGMATCH-LEN 1000 x*", "1"),
        ("GET k", "value"),
    ];
    for (line, expected) in lines {
        let told = client.ask(line);
        if expected.is_empty() {
            assert_eq!(field(&told, "expired_keys"), "0");
        } else {
            assert_eq!(told, expected, "{line}");
        }
    }
    let told = client.ask("DEBUG OBJECT k");
    assert!(told.contains("encoding:embstr serializedlength:6 "), "{told}");
    assert!(client.ask("DEBUG JMAP").starts_with("-ERR unknown subcommand"));
    // A panic of the server ends the connection of one client only.
    let mut gone = server.client();
    gone.send("MULTI\r\nSET k other\r\nDEBUG PANIC\r\nEXEC");
    let mut told = String::new();
    gone.rest(&mut told);
    assert!(!told.contains("*3"), "{told}");
    assert_eq!(client.ask("GET k"), "value");
    // Commands before the panic are committed, and their messages are sent. A library whose load was rolled
    // back leaves no function.
    let mut listener = server.client();
    assert_eq!(listener.ask("SUBSCRIBE ch"), "[subscribe ch 1]");
    let mut gone = server.client();
    gone.send("SET k new\r\nPUBLISH ch told\r\nDEBUG PANIC\r\nSET k never");
    told.clear();
    gone.rest(&mut told);
    assert!(told.starts_with("+OK\r\n:1\r\n-ERR ") && told.contains("has panicked"), "{told}");
    assert_eq!(listener.reply(), "[message ch told]");
    assert_eq!(client.ask("GET k"), "new");
    let mut gone = server.client();
    let library = r##""#!lua name=l\nredis.register_function('f', function() return 1 end)""##;
    gone.send(&format!("MULTI\r\nFUNCTION LOAD {library}\r\nDEBUG PANIC\r\nEXEC"));
    gone.rest(&mut told);
    assert_eq!(client.ask("FCALL f 0"), "-ERR Function not found");
    let other = tempfile::tempdir().unwrap();
    let server = Server::start(other.path(), &["--durability", "process"]);
    assert!(server.client().ask("DEBUG SLEEP 0").starts_with("-ERR DEBUG command not allowed"));
}

#[test]
fn small_commands_of_clients() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let mut client = server.client();
    let no_cluster = "-ERR This instance has cluster support disabled";
    converse(
        &mut client,
        &[
            ("MODULE LIST", "[]"),
            ("READONLY", no_cluster),
            ("READWRITE", no_cluster),
            ("ASKING", no_cluster),
            ("CLIENT SETINFO LIB-NAME a-library", "OK"),
            ("CLIENT SETINFO lib-ver 1.2", "OK"),
            (
                "CLIENT SETINFO lib-ver \"1 2\"",
                "-ERR lib-ver cannot contain spaces, newlines or special characters.",
            ),
            ("CLIENT SETINFO other 1", "-ERR Unrecognized option 'other'"),
            ("CLIENT NO-TOUCH on", "OK"),
            ("CLIENT NO-TOUCH perhaps", "-ERR syntax error"),
            ("LATENCY GRAPH command", "-ERR No samples available for event 'command'"),
        ],
    );
    let told = client.ask("CLIENT INFO");
    assert!(
        told.contains("flags=T ") && told.trim_end().ends_with("lib-name=a-library lib-ver=1.2"),
        "{told}"
    );
}

#[test]
fn what_a_slow_client_has_not_read_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let (mut client, mut slow) = (server.client(), server.client());
    client.ask("SETRANGE v 1048575 y");
    (0..40).for_each(|_| slow.send("GET v"));
    let begun = Instant::now();
    loop {
        let list = client.ask("CLIENT LIST");
        let line = list.lines().find(|line| line.contains("cmd=get")).unwrap_or_default();
        let number = |name: &str| {
            let value = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            value.map_or(0, |value| value.parse::<usize>().unwrap())
        };
        if number("omem") > 1 << 20 {
            assert!(number("obl") <= 16 << 10 && number("oll") > 10 && number("tot-mem") > number("omem"));
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{list}");
    }
    let info = client.ask("INFO");
    let number = |name| field(&info, name).parse::<usize>().unwrap();
    assert!(number("client_recent_max_output_buffer") > 1 << 20);
    assert!(number("mem_clients_normal") > 1 << 20);
}

#[test]
fn streams_are_trimmed_by_the_bytes_of_a_node() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let mut client = server.client();
    for (bytes, most) in [(10, 110), (1000, 14), (10_000, 10)] {
        client.ask("DEL s");
        for _ in 0..200 {
            client.ask(&format!("XADD s MAXLEN ~ 10 * f {}", "x".repeat(bytes)));
        }
        let len: usize = client.ask("XLEN s").parse().unwrap();
        assert!((10..=most).contains(&len), "{len} of {bytes} bytes");
    }
}

#[test]
fn what_has_expired_needs_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let mut client = server.client();
    let mut used = || field(&client.ask("INFO memory"), "used_memory").parse::<u64>().unwrap();
    let before = used();
    let mut other = server.client();
    for number in 0..100 {
        other.ask(&format!("SET stays{number} x"));
    }
    for number in 0..5000 {
        other.ask(&format!("SET key{number} {} PX 300", "x".repeat(200)));
    }
    let begun = Instant::now();
    while used() > before + (500 << 10) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} bytes", used());
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn dumps_are_compressed_and_redis_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let redis = Redis::start(folder.path());
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let mut client = server.client();
    let text = "compressed ".repeat(1000).trim_end().replace(' ', "_");
    client.ask(&format!("SET text {text}"));
    client.ask(&format!("RPUSH list {text} short {text}"));
    for key in ["text", "list"] {
        assert_eq!(client.ask(&format!("MIGRATE 127.0.0.1 {} {key} 0 10000 COPY", redis.port())), "OK");
    }
    let mut there = redis.client();
    assert_eq!(there.ask("GET text"), text);
    assert_eq!(there.ask("LRANGE list 0 -1"), format!("[{text} short {text}]"));
    // The dump is shorter than the value.
    let len: usize = client.ask("EVAL \"return #redis.call('dump', 'text')\" 0").parse().unwrap();
    assert!(len < 1000, "{len}");
}
