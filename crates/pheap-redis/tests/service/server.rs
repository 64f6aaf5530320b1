//! Basic tests of a server: start, commands, kill, restart.

use std::process::Command;

use crate::common::{Client, LIMITED, Server, converse};

#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    for durability in ["disk", "pmem", "process"] {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["--durability", durability, "--without-dax"];
        for round in 0..5 {
            let server = Server::start(folder.path(), &arguments);
            let mut client = server.client();
            if round > 0 {
                assert_eq!(client.ask("get round"), (round - 1).to_string());
                assert_eq!(client.ask("mget a b c"), format!("[{0} {0} {0}]", round - 1));
                assert_eq!(client.ask("get n"), (100 * round).to_string());
                assert!(client.ask("pttl later").parse::<i64>().unwrap() > 0);
            }
            // Without waiting for replies, so that the server may run several commands in one transaction of
            // the heap.
            (0..100).for_each(|_| client.send("incr n"));
            (0..100).for_each(|_| drop(client.reply()));
            converse(&mut client, &[("multi", "OK"), ("select 0", "QUEUED")]);
            for key in ["a", "b", "c"] {
                assert_eq!(client.ask(&format!("set {key} {round}")), "QUEUED");
            }
            assert_eq!(client.ask("exec"), "[OK OK OK OK]");
            assert_eq!(client.ask("set later x px 1000000"), "OK");
            assert_eq!(client.ask(&format!("set round {round}")), "OK");
        }
    }
}

#[test]
fn strings_and_keys() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let client = &mut server.client();
    converse(
        client,
        &[
            ("set a 1", "OK"),
            ("incrby a 41", "42"),
            ("append a xyz", "5"),
            ("getrange a -3 -1", "xyz"),
            ("incr a", "-ERR value is not an integer or out of range"),
            ("set a 2 nx", "nil"),
            ("set a 2 xx get", "42xyz"),
            ("set a 3 exat 99999999999", "OK"),
            ("expiretime a", "99999999999"),
            ("set a 3 keepttl", "OK"),
            ("persist a", "1"),
            ("ttl a", "-1"),
            ("set a 1 nx xx", "-ERR syntax error"),
            ("set a 1 ex 0", "-ERR invalid expire time in 'set' command"),
            ("mset x 1 y 2", "OK"),
            ("mset x 1 y", "-ERR wrong number of arguments for 'mset' command"),
            ("msetnx y 1 z 2", "0"),
            ("exists x y z a", "3"),
            ("del x y z", "2"),
            ("type a", "string"),
            ("pexpireat a 1", "1"),
            ("get a", "nil"),
            ("get", "-ERR wrong number of arguments for 'get' command"),
            ("nothing 1 2", "-ERR unknown command 'nothing', with args beginning with: '1' '2'"),
            ("select 16", "-ERR DB index is out of range"),
        ],
    );
}

#[test]
fn transactions_of_clients() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process", "--threads", "2"]);
    let (mut one, mut two) = (server.client(), server.client());
    converse(&mut one, &[("watch a", "OK"), ("multi", "OK"), ("incr a", "QUEUED")]);
    assert_eq!(two.ask("set a 5"), "OK");
    assert_eq!(one.ask("exec"), "nil");
    converse(
        &mut one,
        &[
            ("watch a", "OK"),
            ("multi", "OK"),
            ("incr a", "QUEUED"),
            ("set b x", "QUEUED"),
            ("incr b", "QUEUED"),
            ("exec", "[6 OK -ERR value is not an integer or out of range]"),
            ("multi", "OK"),
            ("nothing", "-ERR unknown command 'nothing', with args beginning with:"),
            ("exec", "-EXECABORT Transaction discarded because of previous errors."),
            ("exec", "-ERR EXEC without MULTI"),
            ("watch a", "OK"),
            ("multi", "OK"),
            ("flushall", "QUEUED"),
            ("exec", "[OK]"),
            ("dbsize", "0"),
        ],
    );
}

#[test]
fn every_key_is_scanned() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let client = &mut server.client();
    (0..5000).for_each(|i| client.send(&format!("set key:{i} {i}")));
    (0..5000).for_each(|_| assert_eq!(client.reply(), "OK"));
    let (mut cursor, mut found) = ("0".to_owned(), std::collections::BTreeSet::new());
    loop {
        let reply = client.ask(&format!("scan {cursor} count 100"));
        let (next, keys) = reply[1..].split_once(' ').unwrap();
        let keys = keys.trim_matches(['[', ']']);
        found.extend(keys.split_whitespace().map(str::to_owned));
        next.clone_into(&mut cursor);
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found.len(), 5000);
    assert_eq!(client.ask("dbsize"), "5000");
}

#[test]
fn channels_and_notifications() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--threads", "2"]);
    let (mut one, mut two) = (server.client(), server.client());
    converse(
        &mut one,
        &[
            ("subscribe news", "[subscribe news 1]"),
            ("psubscribe __key*__:*", "[psubscribe __key*__:* 2]"),
            (
                "get a",
                "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
            ),
        ],
    );
    converse(&mut two, &[("publish news hello", "1"), ("config set notify-keyspace-events Ex$", "OK")]);
    assert_eq!(one.reply(), "[message news hello]");
    assert_eq!(two.ask("set a 1 px 1"), "OK");
    assert_eq!(one.reply(), "[pmessage __key*__:* __keyevent@0__:set a]");
    // No command uses the key: it expires by itself.
    assert_eq!(one.reply(), "[pmessage __key*__:* __keyevent@0__:expired a]");
    assert_eq!(two.ask("dbsize"), "0");
}

#[test]
fn messages_have_the_protocol_that_the_client_uses_now() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let (mut one, mut two) = (server.client(), server.client());
    for request in ["hello 3", "subscribe news", "hello 2"] {
        one.ask(request);
    }
    assert_eq!(two.ask("publish news x"), "1");
    one.send("quit");
    let mut text = String::new();
    one.rest(&mut text);
    assert!(text.contains("*3\r\n$7\r\nmessage"), "{text}");
}

#[test]
fn passwords() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process", "--set", "requirepass secret"]);
    converse(
        &mut server.client(),
        &[
            ("get a", "-NOAUTH Authentication required."),
            ("auth wrong", "-WRONGPASS invalid username-password pair or user is disabled."),
            ("auth default secret", "OK"),
            ("get a", "nil"),
            ("config set save \"60\\n1\"", "OK"),
            ("config get save", "[save 60 1]"),
            ("config set client-output-buffer-limit \"normal 1 1 1\"", "OK"),
            ("config set client-output-buffer-limit \"normal 0 0 0\"", "OK"),
        ],
    );
    let mut client = server.client();
    client.ask("auth secret");
    for option in ["maxmemory", "hll-sparse-max-bytes"] {
        let refused = client.ask(&format!("config set {option} 18446744073709551615"));
        assert!(refused.ends_with("argument must be a memory value"), "{refused}");
    }
    // A password must be UTF-8, because other bytes would all look the same.
    let refused = client.ask("config set requirepass \"\\xff\\xfe\"");
    assert!(refused.ends_with("argument must be UTF-8"), "{refused}");
    // Before it has given the password, a client gets little memory for replies that it does not read.
    let mut stranger = server.client();
    for _ in 0..1000 {
        stranger.try_send(&b"GET a\r\n".repeat(1000));
    }
    assert!(stranger.read_to_end().len() < 16 << 20);
    assert_eq!(client.ask("ping"), "PONG");
}

#[test]
fn a_file_that_is_no_heap_of_the_server_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("heap");
    let refused = |expected: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_pheap-redis"))
            .args(["--durability", "process", "--set", "port 0", "--heap"])
            .arg(&path)
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(expected), "{error}");
    };
    std::fs::write(&path, "not a heap").unwrap();
    refused("is not a pheap file");
    assert_eq!(std::fs::read(&path).unwrap(), b"not a heap");
    std::fs::remove_file(&path).unwrap();
    let heap = pheap::Options::new().durability(pheap::Durability::Process).open(&path).unwrap();
    drop(heap.root::<u64>("of another program").unwrap());
    heap.close().unwrap();
    refused("is a heap of another program");
}

#[test]
fn lists() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    converse(
        &mut server.client(),
        &[
            ("rpush l a b c", "3"),
            ("lpush l 0", "4"),
            ("lrange l 0 -1", "[0 a b c]"),
            ("lrange l -100 1", "[0 a]"),
            ("lrange l 2 1", "[]"),
            ("lrange l 9 20", "[]"),
            ("lrange l -1 -2", "[]"),
            ("lindex l -1", "c"),
            ("lindex l 4", "nil"),
            ("lset l 1 x", "OK"),
            ("lset l 4 x", "-ERR index out of range"),
            ("lset none 4 x", "-ERR no such key"),
            ("rpop l", "c"),
            ("lpop l 2", "[0 x]"),
            ("lpop l 0", "[]"),
            ("lpop none 1", "nil"),
            ("lpop l -1", "-ERR value is out of range, must be positive"),
            ("rpoplpush l other", "b"),
            ("exists l", "0"),
            ("lpushx l 1", "0"),
            ("expireat other 99999999999", "1"),
            ("lmove other other left right", "b"),
            ("expiretime other", "99999999999"),
            ("persist other", "1"),
            ("lindex none x", "nil"),
            ("lset none x x", "-ERR no such key"),
            ("set s 1", "OK"),
            ("llen s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("lmove other s left left", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("lrange other 0 -1", "[b]"),
            ("multi", "OK"),
            ("blpop none 0", "QUEUED"),
            ("exec", "[nil]"),
            ("blpop none -1", "-ERR timeout is negative"),
        ],
    );
}

#[test]
fn clients_that_wait_for_a_key() {
    for threads in ["1", "2"] {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path(), &["--threads", threads]);
        let [mut one, mut two, mut three, mut writer] = [(); 4].map(|()| server.client());
        assert_eq!(one.ask("blpop none 0.01"), "nil");
        assert_eq!(one.ask("brpoplpush none other 0.01"), "nil");
        let blocked = |n: usize, writer: &mut Client| {
            while !writer.ask("info").contains(&format!("blocked_clients:{n}\r")) {
                std::thread::yield_now();
            }
        };
        // The client that came first is served first. An element that it moves serves the next one.
        one.send("blmove a b left right 0");
        blocked(1, &mut writer);
        two.send("blpop x b 0");
        blocked(2, &mut writer);
        three.send("blpop a 0");
        blocked(3, &mut writer);
        assert_eq!(writer.ask("rpush a 1 2"), "2");
        assert_eq!(one.reply(), "1");
        assert_eq!(two.reply(), "[b 1]");
        assert_eq!(three.reply(), "[a 2]");
        blocked(0, &mut writer);
        assert_eq!(writer.ask("dbsize"), "0");
        // A client that has gone takes no element.
        drop(one);
        two.send("blpop a 0");
        blocked(1, &mut writer);
        drop(two);
        blocked(0, &mut writer);
        assert_eq!(writer.ask("rpush a 1"), "1");
        assert_eq!(writer.ask("llen a"), "1");
    }
}

/// A command for which there is no space fails alone, even if the server runs it together with others.
#[test]
fn a_full_heap_refuses_what_does_not_fit_and_loses_nothing() {
    for durability in ["disk", "process"] {
        let folder = tempfile::tempdir().unwrap();
        let value = "x".repeat(200_000);
        let mut acknowledged = Vec::new();
        {
            let server = Server::start(folder.path(), &["--durability", durability, LIMITED]);
            let client = &mut server.client();
            for round in 0..40 {
                let keys: Vec<String> = (0..10).map(|i| format!("{{t}}{}", 10 * round + i)).collect();
                for key in &keys {
                    let bytes = format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n$200000\r\n{value}", key.len());
                    client.send(&bytes);
                    client.send("incr {t}n");
                }
                for key in keys {
                    match client.reply().as_str() {
                        "OK" => acknowledged.push(key),
                        refused => assert!(refused.starts_with("-OOM "), "{refused}"),
                    }
                    client.reply();
                }
            }
            assert!(acknowledged.len() > 100 && acknowledged.len() < 400, "{}", acknowledged.len());
            assert_eq!(client.ask("get {t}n"), "400");
        }
        let server = Server::start(folder.path(), &["--durability", durability]);
        let client = &mut server.client();
        for key in &acknowledged {
            assert_eq!(client.ask(&format!("strlen {key}")), "200000");
        }
        assert_eq!(client.ask("dbsize"), (acknowledged.len() + 1).to_string());
        assert_eq!(client.ask("get {t}n"), "400");
    }
}
