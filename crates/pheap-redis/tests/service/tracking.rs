//! Client-side caching.

use crate::common::{Client, Server, converse};

/// Returns a client that uses RESP3, and its ID.
fn resp3(server: &Server) -> (Client, String) {
    let mut client = server.client();
    client.ask("hello 3");
    let id = client.ask("client id");
    (client, id)
}

#[test]
fn what_is_told_comes_after_the_reply_and_before_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let (mut client, _) = resp3(&server);
    converse(&mut client, &[("client tracking on", "OK"), ("set k 1", "OK"), ("get k", "1")]);
    let replies = |client: &mut Client, lines: &str, expected: &[&str]| {
        client.send(lines);
        for (i, reply) in expected.iter().enumerate() {
            assert_eq!(client.reply(), *reply, "{i} of {lines:?}");
        }
    };
    // The `GET` in the pipeline is remembered, although it was sent before the first notice came.
    let own = "[invalidate [k]]";
    replies(
        &mut client,
        "set k 2\r\nset k 3\r\nget k\r\nset k 4\r\nping",
        &["OK", own, "OK", "3", "OK", own, "PONG"],
    );
    // The notices of a transaction come after the reply to `EXEC`.
    converse(&mut client, &[("get k", "4")]);
    replies(
        &mut client,
        "multi\r\nincr k\r\nget k\r\nincr k\r\nexec\r\nping",
        &["OK", "QUEUED", "QUEUED", "QUEUED", "[5 5 6]", own, own, "PONG"],
    );
    // A client that wants no replies gets notices nevertheless.
    converse(&mut client, &[("get k", "6")]);
    replies(&mut client, "client reply off\r\nset k 7\r\nclient reply on", &[own, "OK"]);
    // A command that fails has read its key.
    converse(
        &mut client,
        &[("lrange k 0 -1", "-WRONGTYPE Operation against a key holding the wrong kind of value")],
    );
    replies(&mut client, "del k\r\nping", &["1", own, "PONG"]);
    replies(
        &mut client,
        "get k\r\nwatch w\r\nset w 1\r\nunwatch\r\nflushall\r\nping",
        &["nil", "OK", "OK", "OK", "OK", "[invalidate nil]", "PONG"],
    );
    // A script reads all its declared keys if one of its commands reads anything.
    replies(
        &mut client,
        "eval \"return redis.call('set', KEYS[1], 1)\" 2 a b\r\nset b 1\r\nping",
        &["OK", "OK", "PONG"],
    );
    replies(
        &mut client,
        "eval \"redis.call('exists', 'x') return redis.call('set', KEYS[1], 2)\" 2 a b\r\nset b 2\r\nping",
        &["OK", "[invalidate [a]]", "OK", "[invalidate [b]]", "PONG"],
    );
    // Without `CLIENT TRACKING`, the keys that the client has read are forgotten. `RESET` ends tracking.
    converse(
        &mut client,
        &[
            ("get a", "2"),
            ("client tracking off", "OK"),
            ("set a 3", "OK"),
            ("client tracking on noloop", "OK"),
            ("get a", "3"),
            ("set a 4", "OK"),
            ("reset", "RESET"),
            ("client getredir", "-1"),
        ],
    );
    assert!(client.ask("info stats").contains("tracking_total_keys:0\r\n"));
}

#[test]
fn only_what_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let (mut client, _) = resp3(&server);
    let other = &mut server.client();
    converse(
        &mut client,
        &[
            (
                "client caching yes",
                "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
            ),
            ("client tracking maybe", "-ERR syntax error"),
            ("client tracking on redirect", "-ERR syntax error"),
            ("client tracking on redirect x", "-ERR value is not an integer or out of range"),
            ("client tracking on redirect 0", "-ERR The client ID you want redirect to does not exist"),
            ("client tracking on prefix x", "-ERR PREFIX option requires BCAST mode to be enabled"),
            ("client tracking on bcast optin", "-ERR OPTIN and OPTOUT are not compatible with BCAST"),
            ("client tracking on optin optout", "-ERR You can't specify both OPTIN mode and OPTOUT mode"),
            ("client tracking on optin", "OK"),
            (
                "client tracking on optout",
                "-ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.",
            ),
            (
                "client tracking on bcast",
                "-ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.",
            ),
            (
                "client caching no",
                "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
            ),
            ("client caching maybe", "-ERR syntax error"),
            ("get a", "nil"),
            ("client caching yes", "OK"),
            ("client getname", "nil"),
            ("client trackinginfo", "[flags [on optin caching-yes] redirect 0 prefixes []]"),
            ("get b", "nil"),
            ("get c", "nil"),
            // `CACHING YES` before `MULTI` holds for the whole transaction.
            ("client caching yes", "OK"),
            ("multi", "OK"),
            ("get d", "QUEUED"),
            ("get e", "QUEUED"),
            ("exec", "[nil nil]"),
            ("get f", "nil"),
        ],
    );
    converse(other, &[("mset a 1 b 1 c 1 d 1 e 1 f 1", "OK")]);
    for key in ["b", "d", "e"] {
        assert_eq!(client.reply(), format!("[invalidate [{key}]]"));
    }
    converse(
        &mut client,
        &[
            ("client tracking off", "OK"),
            ("client tracking on bcast prefix a prefix bb noloop", "OK"),
            ("client tracking on bcast noloop", "OK"),
            ("client trackinginfo", "[flags [on bcast noloop] redirect 0 prefixes [ a bb]]"),
            ("set abc 1", "OK"),
            ("get abc", "1"),
        ],
    );
    assert!(client.ask("client info").contains(" flags=tB "));
    converse(other, &[("mset bbc 1 ab 1 aa 1", "OK"), ("flushdb", "OK")]);
    assert_eq!(client.reply(), "[invalidate [aa ab bbc]]");
    assert_eq!(client.reply(), "[invalidate [aa ab]]");
    assert_eq!(client.reply(), "[invalidate [bbc]]");
    assert_eq!(client.reply(), "[invalidate nil]");
    assert_eq!(client.ask("ping"), "PONG");
}

#[test]
fn a_client_that_leaves_has_its_writes_told() {
    for durability in ["disk", "process"] {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path(), &["--durability", durability, "--threads", "3"]);
        let (mut client, _) = resp3(&server);
        converse(&mut client, &[("client tracking on", "OK")]);
        for i in 0..20 {
            client.ask(&format!("mget k{i} other"));
            let mut writer = server.client();
            // The writer wants no reply, and leaves at once.
            writer.send(&format!("client reply off\r\nset k{i} 1"));
            drop(writer);
            assert_eq!(client.reply(), format!("[invalidate [k{i}]]"));
        }
        assert_eq!(client.ask("ping"), "PONG");
    }
}

#[test]
fn who_has_a_reply_may_rely_on_it_that_others_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process", "--threads", "4"]);
    let mut readers: Vec<Client> = (0..6).map(|_| resp3(&server).0).collect();
    for reader in &mut readers {
        assert_eq!(reader.ask("client tracking on"), "OK");
    }
    let writer = &mut server.client();
    for i in 0..50 {
        for reader in &mut readers {
            reader.ask(&format!("get k{}", i % 3));
        }
        assert_eq!(writer.ask(&format!("set k{} {i}", i % 3)), "OK");
        for reader in &mut readers {
            reader.send("ping");
            assert_eq!(reader.reply(), format!("[invalidate [k{}]]", i % 3));
            assert_eq!(reader.reply(), "PONG");
        }
    }
}

#[test]
fn messages_go_to_another_client() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process", "--threads", "2"]);
    let (mut client, _) = resp3(&server);
    let mut listener = server.client();
    let id = listener.ask("client id");
    assert_eq!(listener.ask("subscribe __redis__:invalidate"), "[subscribe __redis__:invalidate 1]");
    assert_eq!(client.ask(&format!("client tracking on redirect {id}")), "OK");
    converse(&mut client, &[("get k", "nil"), ("set k 1", "OK"), ("get k", "1")]);
    assert_eq!(listener.reply(), "[message __redis__:invalidate [k]]");
    // Time stands still in a transaction, so the key is read before it expires.
    client.send("multi\r\nset k 2 px 1\r\nget k\r\nexec");
    assert_eq!([(); 4].map(|()| client.reply()), ["OK", "QUEUED", "QUEUED", "[OK 2]"]);
    assert_eq!(listener.reply(), "[message __redis__:invalidate [k]]");
    assert_eq!(listener.reply(), "[message __redis__:invalidate [k]]");
    converse(&mut client, &[("mget a b", "[nil nil]"), ("config set tracking-table-max-keys 1", "OK")]);
    assert_eq!(listener.reply(), "[message __redis__:invalidate [a]]");
    converse(&mut client, &[("flushdb", "OK"), ("get k", "nil")]);
    assert_eq!(listener.reply(), "[message __redis__:invalidate nil]");
    assert!(client.ask("client list").contains(&format!(" redir={id} ")));
    // The listener leaves.
    assert_eq!(listener.ask("quit"), "OK");
    let mut rest = String::new();
    listener.rest(&mut rest);
    assert_eq!(rest, "");
    converse(&mut client, &[("set k 1", "OK")]);
    assert_eq!(client.reply(), format!("[tracking-redir-broken {id}]"));
    assert!(client.ask("client info").contains(" flags=tR "));
    assert_eq!(
        client.ask("client trackinginfo"),
        format!("[flags [on broken_redirect] redirect {id} prefixes []]")
    );
    converse(&mut client, &[("client tracking off", "OK")]);
    assert!(client.ask("client info").contains(" flags=N "));
}
