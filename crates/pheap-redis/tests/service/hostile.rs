//! Clients that do what no client should, and rare moments.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::common::{Client, FEW_FILES, Server, converse};

fn start(folder: &tempfile::TempDir, more: &[&str]) -> Server {
    let mut arguments = vec!["--durability", "process"];
    arguments.extend(more);
    Server::start(folder.path(), &arguments)
}

#[test]
fn memory_is_for_what_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder, &[]);
    let before = server.memory();
    let mut clients: Vec<Client> = (0..20).map(|_| server.client()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("PING"), "PONG");
        client.try_send(b"*2\r\n$4\r\nECHO\r\n$500000000\r\nx");
    }
    // The server has read all when each query buffer has so many bytes.
    let mut other = server.client();
    let mut wait_for = |bytes: usize| {
        while other.ask("CLIENT LIST").matches(&format!(" qbuf={bytes} ")).count() < 20 {}
    };
    wait_for(27);
    clients.iter_mut().for_each(|client| client.try_send(b"x"));
    wait_for(28);
    let more = server.memory().saturating_sub(before);
    assert!(more < clients.len() << 20, "{more} bytes");
}

#[test]
fn those_who_come_while_there_are_too_many_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = start(&folder, &[]);
    // The limit of open files falls while the server runs.
    let few = Command::new("prlimit")
        .arg("--nofile=40:")
        .args(["--pid", &server.process().id().to_string()])
        .status();
    assert!(few.unwrap().success());
    let mut clients: Vec<Client> = (0..60).map(|_| server.client()).collect();
    let refused = "-ERR max number of clients reached";
    assert_eq!(clients[59].reply(), refused);
    let served = clients[0].ask("CLIENT LIST").matches("id=").count();
    assert!((10..40).contains(&served), "{served}");
    clients[..served].iter_mut().for_each(|client| assert_eq!(client.ask("PING"), "PONG"));
    clients[served..59].iter_mut().for_each(|client| assert_eq!(client.reply(), refused));
    drop(clients);
    while server.client().ask("PING") != "PONG" {}
}

#[test]
fn those_for_whom_there_is_no_place_are_told() {
    for threads in ["1", "2"] {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().display().to_string();
        let server = start(&folder, &[FEW_FILES, "--threads", threads, "--dir", &dir]);
        let mut first = server.client();
        let most = first.ask("CONFIG GET maxclients");
        let most: usize = most.trim_end_matches(']').rsplit(' ').next().unwrap().parse().unwrap();
        assert!((10..100).contains(&most), "{most}");
        let mut others: Vec<Client> = (1..most).map(|_| server.client()).collect();
        others.iter_mut().for_each(|client| assert_eq!(client.ask("PING"), "PONG"));
        for _ in 0..100 {
            assert_eq!(server.client().reply(), "-ERR max number of clients reached");
        }
        // The server has file descriptors left for its own files.
        converse(&mut first, &[("SAVE", "OK"), ("SAVE", "OK")]);
        let told = first.ask("CONFIG SET maxclients 1000");
        assert!(told.contains("not able to handle the specified number of clients, try with "), "{told}");
        assert_eq!(first.ask(&format!("CONFIG SET maxclients {most}")), "OK");
        drop(others);
        while server.client().ask("PING") != "PONG" {}
    }
}

#[test]
fn killed_while_its_script_runs() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder, &["--threads", "2", "--set", "busy-reply-threshold 500"]);
    let (mut runs, mut other) = (server.client(), server.client());
    let id = runs.ask("CLIENT ID");
    runs.send("EVAL \"while true do end\" 0");
    // By then, the script should run, and not be slow yet; else this test says nothing.
    sleep(Duration::from_millis(100));
    other.ask(&format!("CLIENT KILL ID {id}"));
    while !other.ask("GET key").starts_with("-BUSY") {}
    converse(&mut other, &[("WATCH key", "OK"), ("SCRIPT KILL", "OK")]);
    runs.read_to_end();
}

#[test]
fn a_watched_key_whose_time_has_come() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder, &["--threads", "2"]);
    let (mut client, mut other) = (server.client(), server.client());
    assert_eq!(other.ask("CLIENT PAUSE 1000000 WRITE"), "OK");
    other.ask("CLIENT UNPAUSE");
    let gone = [("SET gone x PX 1", "OK")];
    converse(&mut client, &gone);
    sleep(Duration::from_millis(10));
    converse(&mut client, &[("SET key x PX 200", "OK"), ("WATCH gone key", "OK"), ("GET key", "x")]);
    // While clients are paused, the server does not remove expired keys.
    assert_eq!(other.ask("CLIENT PAUSE 1000000 WRITE"), "OK");
    sleep(Duration::from_millis(250));
    converse(&mut client, &[("MULTI", "OK"), ("GET key", "QUEUED"), ("EXEC", "nil")]);
    // Keys that had expired before `WATCH` do not make `EXEC` fail.
    converse(&mut client, &[("WATCH gone key", "OK"), ("MULTI", "OK"), ("GET key", "QUEUED")]);
    converse(&mut client, &[("EXEC", "[nil]")]);
}

#[test]
fn who_watches_commands_may_be_silent() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder, &["--set", "timeout 1"]);
    let (mut monitors, mut silent) = (server.client(), server.client());
    assert_eq!((monitors.ask("MONITOR"), silent.ask("PING")), ("OK".into(), "PONG".into()));
    silent.read_to_end();
    assert!(monitors.reply().contains("\"PING\""));
    server.client().ask("ECHO 1");
    assert!(monitors.reply().contains("\"ECHO\" \"1\""));
}

#[test]
fn large_buffers_are_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder, &[]);
    let before = server.memory();
    let mut clients: Vec<Client> = (0..20).map(|_| server.client()).collect();
    let text = "x".repeat(5_000_000);
    for client in &mut clients {
        client.try_send(format!("*2\r\n$4\r\nECHO\r\n$5000000\r\n{text}\r\n").as_bytes());
        assert_eq!(client.reply().len(), text.len());
        assert_eq!(client.ask("PING"), "PONG");
    }
    let more = server.memory().saturating_sub(before);
    assert!(more < 30_000_000, "{more} bytes");
}

#[test]
fn who_watches_sees_each_command_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder, &["--threads", "2"]);
    let (mut monitors, mut waits, mut other) = (server.client(), server.client(), server.client());
    monitors.ask("MONITOR");
    waits.send("BLPOP key 0");
    assert!(monitors.reply().ends_with("\"BLPOP\" \"key\" \"0\""));
    assert_eq!((other.ask("RPUSH key a"), waits.reply()), ("1".into(), "[key a]".into()));
    other.ask("PING");
    for command in ["\"RPUSH\" \"key\" \"a\"", "\"PING\""] {
        let line = monitors.reply();
        assert!(line.ends_with(command), "{line}");
    }
}

#[test]
fn no_message_after_unsubscribing() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder, &["--threads", "2"]);
    // By two clients, so that both threads may publish.
    let mut publishers = [server.client(), server.client()];
    let (mut listens, mut monitors) = (server.client(), server.client());
    for _ in 0..200 {
        listens.ask("SUBSCRIBE news");
        assert_eq!(monitors.ask("MONITOR"), "OK");
        for publisher in &mut publishers {
            publisher.send(&["PUBLISH news x"; 20].join("\r\n"));
        }
        listens.send("UNSUBSCRIBE news\r\nPING");
        while listens.reply() != "[unsubscribe news 0]" {}
        assert_eq!(listens.reply(), "PONG");
        monitors.send("RESET\r\nPING");
        while monitors.reply() != "RESET" {}
        assert_eq!(monitors.reply(), "PONG");
        for publisher in &mut publishers {
            (0..20).for_each(|_| _ = publisher.reply());
        }
    }
}

/// However many messages and notices one request makes, their memory is limited.
#[test]
fn a_request_makes_little_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder, &[]);
    let [mut one, mut two, mut writer] = [(); 3].map(|()| server.client());
    for number in 0..3000 {
        one.ask(&format!("PSUBSCRIBE {}*", "?".repeat(number % 5) + &"*".repeat(number)));
    }
    two.ask("HELLO 3");
    assert_eq!(two.ask("CLIENT TRACKING on BCAST"), "OK");
    let before = server.memory();
    let message = "x".repeat(60_000);
    assert_eq!(writer.ask(&format!("PUBLISH channel {message}")), "3000");
    let key = "k".repeat(60_000);
    assert_eq!(writer.ask("SET n 0"), "OK");
    assert_eq!(
        writer
            .ask(&format!("EVAL \"for i = 1, 5000 do redis.call('incr', KEYS[1]) end return 'OK'\" 1 {key}")),
        "OK"
    );
    let more = server.memory().saturating_sub(before);
    assert!(more < 100 << 20, "{more} bytes");
}

/// If a key is named twice, the first of its IDs counts, as in Redis.
#[test]
fn a_key_that_is_waited_for_twice() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder, &[]);
    let [mut reader, mut writer] = [(); 2].map(|()| server.client());
    reader.send("XREAD BLOCK 0 STREAMS s s 5-0 1000-0");
    while !writer.ask("INFO clients").contains("blocked_clients:1\r") {
        std::thread::yield_now();
    }
    assert_eq!(writer.ask("XADD s 10-0 f v"), "10-0");
    assert_eq!(reader.reply(), "[[s [[10-0 [f v]]]]]");
}

/// A web page can have a browser on the server's machine send an HTTP request, with commands in its body.
#[test]
fn a_request_of_http_ends_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder, &[]);
    for head in ["POST / HTTP/1.1", "Host: localhost:6379"] {
        let mut client = server.client();
        client.try_send(format!("{head}\r\nSET done 1\r\n").as_bytes());
        assert!(client.read_to_end().is_empty());
    }
    assert_eq!(server.client().ask("EXISTS done"), "0");
}
