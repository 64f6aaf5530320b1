//! A server that follows a fake master. The master sends wrong data, or ends in the middle of them.

use std::path::Path;

use crate::common::{Client, Server, converse, free_port};
use crate::replication::fake::{Fake, ID, MARK, file, stream};
use crate::replication::{info, is_up, until};

fn follower(folder: &Path, master: &Fake) -> Server {
    Server::start(folder, &["--replicaof", "127.0.0.1", &master.port().to_string()])
}

/// Waits until the replica reports an error of its link with this text.
fn lost(replica: &mut Client, why: &str) {
    until(why, || {
        replica
            .ask("info replication")
            .lines()
            .any(|line| line.starts_with("master_link_error:") && line.contains(why))
    });
}

#[test]
fn data_that_come_in_part_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    let master = Fake::new();
    let server = Server::start(folder.path(), &[]);
    let mut replica = server.client();
    replica.ask("set old 1");
    assert_eq!(replica.ask(&format!("replicaof 127.0.0.1 {}", master.port())), "OK");
    let long = "x".repeat(3 << 20);
    let data = file(&[("a", "1"), ("long", &long), ("longer", &long), ("z", "1")]);
    let (mut guest, asked) = master.guest();
    assert_eq!(asked, "PSYNC ? -1");
    // Until the data come, the old data are there.
    assert_eq!(replica.ask("get old"), "1");
    guest.say(format!("+FULLRESYNC {ID} 7\r\n$EOF:{MARK}\r\n").as_bytes());
    guest.say(&data[..data.len() / 2]);
    until("the data come", || info(&mut replica, "persistence", "loading") == "1");
    let loading = "-LOADING Redis is loading the dataset in memory";
    converse(
        &mut replica,
        &[
            ("get old", loading),
            ("ping", loading),
            ("set a 1", "-READONLY You can't write against a read only replica."),
            ("replicaof no one", loading),
        ],
    );
    assert_eq!(info(&mut replica, "replication", "master_sync_in_progress"), "1");
    // The connection is cut.
    drop(guest);
    lost(&mut replica, "the master has closed the connection");
    converse(&mut replica, &[("get a", "nil"), ("get old", "nil"), ("dbsize", "0"), ("ping", "PONG")]);
    // The replica tries again, and is killed while it loads. It has no data then, and asks for all of them.
    let (mut guest, asked) = master.guest();
    assert_eq!(asked, "PSYNC ? -1");
    guest.say(format!("+FULLRESYNC {ID} 7\r\n${}\r\n", data.len()).as_bytes());
    guest.say(&data[..data.len() / 2]);
    until("the data come", || info(&mut replica, "persistence", "loading") == "1");
    drop((server, guest));
    let server = follower(folder.path(), &master);
    let mut replica = server.client();
    assert_eq!(replica.ask("dbsize"), "0");
    // All data, with their length.
    let (mut guest, asked) = master.guest();
    assert_eq!(asked, "PSYNC ? -1");
    guest.say(format!("+FULLRESYNC {ID} 7\r\n${}\r\n", data.len()).as_bytes());
    guest.say(&data);
    guest.say(&stream(&["SELECT 0", "SET b 2"]));
    guest.has(7 + stream(&["SELECT 0", "SET b 2"]).len() as u64);
    converse(
        &mut replica,
        &[("get a", "1"), ("strlen longer", &long.len().to_string()), ("get b", "2"), ("dbsize", "5")],
    );
}

#[test]
fn data_that_are_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let master = Fake::new();
    let server = Server::start(folder.path(), &[]);
    let mut replica = server.client();
    replica.ask("set old 1");
    assert_eq!(replica.ask(&format!("replicaof 127.0.0.1 {}", master.port())), "OK");
    let good = file(&[("a", "1")]);
    let mut newer = good.clone();
    newer[5..9].copy_from_slice(b"0099");
    let mut damaged = good.clone();
    let at = damaged.len() - 12;
    damaged[at] ^= 1;
    let is_there = |replica: &mut Client| replica.ask("get old") == "1";
    let sized = |len: usize| format!("${len}\r\n").into_bytes();
    // What the master sends, the error of the link, and whether the old data stay.
    let wrong: [(Vec<u8>, &str, bool); 9] = [
        (b"-ERR no\r\n".to_vec(), "refuses its data: ERR no", true),
        (b"$x\r\n".to_vec(), "data of x bytes", true),
        (b"hello\r\n".to_vec(), "'hello' before its data", true),
        ([sized(newer.len()), newer].concat(), "it has version 99 of the format", true),
        ([sized(5), b"hello".to_vec()].concat(), "it ends too early", true),
        ([sized(damaged.len()), damaged].concat(), "its checksum is wrong", false),
        ([sized(good.len() + 1), good.clone(), b"x".to_vec()].concat(), "bytes follow its end", false),
        (
            [format!("$EOF:{MARK}\r\n").into_bytes(), good.clone(), ID.into()].concat(),
            "its end is not marked",
            false,
        ),
        // A string that claims 2^60 bytes.
        (
            [format!("$EOF:{MARK}\r\n").as_bytes(), b"REDIS0010\x00\x81\x10\x00\x00\x00\x00\x00\x00\x00x"]
                .concat(),
            "has closed the connection",
            false,
        ),
    ];
    for (bytes, why, stays) in wrong {
        let (mut guest, asked) = master.guest();
        assert_eq!(asked, "PSYNC ? -1");
        guest.say(format!("+FULLRESYNC {ID} 7\r\n").as_bytes());
        guest.say(&bytes);
        if why.contains("closed") {
            drop(guest);
        }
        lost(&mut replica, why);
        assert_eq!(is_there(&mut replica), stays, "{why}");
        assert!(!is_up(&mut replica) && info(&mut replica, "persistence", "loading") == "0");
        // Lets the replica try again at once.
        let again = format!("replicaof 127.0.0.1 {}", master.port());
        converse(&mut replica, &[("replicaof no one", "OK"), (&again, "OK")]);
    }
    let _guest = master.new_guest(&[("a", "1")], 7);
    until("the link is up", || is_up(&mut replica));
    converse(&mut replica, &[("get a", "1"), ("dbsize", "1")]);
}

#[test]
fn a_transaction_comes_wholly_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let master = Fake::new();
    let server = follower(folder.path(), &master);
    let mut replica = server.client();
    let mut guest = master.new_guest(&[], 100);
    let before = stream(&["SELECT 2", "SET before 1"]);
    guest.say(&before);
    guest.say(&stream(&["MULTI", "SET a 1", "SET b 1"]));
    let at = 100 + before.len() as u64;
    guest.has(at);
    converse(&mut replica, &[("select 2", "OK"), ("get before", "1"), ("get a", "nil")]);
    // The link is lost in a transaction: the replica asks for all of the transaction again. The database
    // stays selected.
    drop(guest);
    let (mut guest, asked) = master.guest();
    assert_eq!(asked, format!("PSYNC {ID} {}", at + 1));
    let other = MARK;
    guest.say(format!("+CONTINUE {other}\r\n").as_bytes());
    let all = stream(&["MULTI", "SET a 1", "SET b 1", "EXEC", "INCR a"]);
    let (half, rest) = all.split_at(all.len() - 40);
    guest.say(half);
    guest.say(rest);
    let at = at + all.len() as u64;
    guest.has(at);
    converse(&mut replica, &[("mget a b", "[2 1]"), ("dbsize", "3")]);
    // The history has the new ID, also after a crash.
    drop((server, guest));
    let _server = follower(folder.path(), &master);
    let (_, asked) = master.guest();
    assert_eq!(asked, format!("PSYNC {other} {}", at + 1));
}

#[test]
fn for_a_master_no_key_has_expired() {
    let folder = tempfile::tempdir().unwrap();
    let master = Fake::new();
    let server = follower(folder.path(), &master);
    let mut replica = server.client();
    let mut guest = master.new_guest(&[], 0);
    // These deadlines have passed. (0 would mean none.)
    let commands = [
        "SELECT 0",
        "SET counter 5 PXAT 1000",
        "INCR counter",
        "PERSIST counter",
        "RPUSH list a",
        "PEXPIREAT list 1000",
        "RPUSH list b",
        "PERSIST list",
        "SET hidden 1 PXAT 1000",
        "XGROUP CREATE x g $ MKSTREAM",
        "XADD x 5-5 a b",
        "PEXPIREAT x 1000",
        "XCLAIM x g c 0 5-5 TIME 12345 RETRYCOUNT 3 FORCE JUSTID LASTID 5-5",
        "PERSIST x",
        "REPLCONF GETACK *",
    ];
    let bytes = stream(&commands);
    guest.say(&bytes);
    guest.has(bytes.len() as u64);
    // A server that is no replica would remove expired keys in this time.
    std::thread::sleep(std::time::Duration::from_millis(300));
    converse(
        &mut replica,
        &[("get counter", "6"), ("lrange list 0 -1", "[a b]"), ("get hidden", "nil"), ("dbsize", "4")],
    );
    assert!(replica.ask("xinfo stream x full").contains("[5-5 c 12345 3]"));
    // Promoted, the server removes them itself.
    assert_eq!(replica.ask("replicaof no one"), "OK");
    until("it is removed", || replica.ask("dbsize") == "3");
    assert_eq!(info(&mut replica, "stats", "expired_keys"), "1");
}

#[test]
fn what_cannot_be_run_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let master = Fake::new();
    let (log, port) = (folder.path().join("log"), free_port());
    let logfile = format!("logfile {}", log.display());
    let options = ["--set", &logfile, "--replicaof", "127.0.0.1", &master.port().to_string()];
    let server = Server::wait_for(Server::spawn(folder.path(), port, &options), port);
    let mut replica = server.client();
    // As a Redis does, the replica goes on after a command that it does not know, or that fails.
    let mut guest = master.new_guest(&[("text", "x")], 0);
    let bytes = stream(&["SELECT 0", "SOMETHING.NEW a b", "LPUSH text x", "SET a 1"]);
    guest.say(&bytes);
    guest.has(bytes.len() as u64);
    assert_eq!(replica.ask("get a"), "1");
    let logged = std::fs::read_to_string(&log).unwrap();
    for refused in ["SOMETHING.NEW", "LPUSH"] {
        let is_told =
            |line: &str| line.contains(" WARN a command of the master was refused") && line.contains(refused);
        assert!(logged.lines().any(is_told), "{refused} in {logged}");
    }
    // But a failed `SELECT` ends the link: else commands would go to the wrong database.
    guest.say(&stream(&["SET b 1", "SELECT 16", "SET a 2"]));
    lost(&mut replica, "DB index is out of range");
    converse(&mut replica, &[("mget a b", "[1 nil]")]);
    drop(guest);
    let (mut guest, asked) = master.guest();
    assert_eq!(asked, format!("PSYNC {ID} {}", bytes.len() + 1));
    // Bytes and replies that are no valid protocol.
    guest.say(format!("+CONTINUE {ID}\r\n*1\r\nhello\r\n").as_bytes());
    lost(&mut replica, "cannot be understood");
    let (mut guest, _) = master.guest();
    guest.say(b"+WHAT\r\n");
    lost(&mut replica, "'WHAT' in reply to PSYNC");
    let (mut guest, _) = master.guest();
    guest.say(b"-ERR unknown command\r\n");
    lost(&mut replica, "refuses PSYNC: ERR unknown command");
    // The master has lost its history, and sends all data again.
    let (mut guest, asked) = master.guest();
    assert_eq!(asked, format!("PSYNC {ID} {}", bytes.len() + 1));
    guest.say(format!("+FULLRESYNC {MARK} 3\r\n$EOF:{MARK}\r\n").as_bytes());
    guest.say(&file(&[("c", "1")]));
    guest.say(MARK.as_bytes());
    guest.has(3);
    converse(&mut replica, &[("mget a b c", "[nil nil 1]")]);
}

#[test]
fn a_master_that_does_not_stop_talking_is_left() {
    let begin = format!("+FULLRESYNC {ID} 7\r\n");
    let file = [format!("{begin}$EOF:{MARK}\r\n").as_bytes(), b"REDIS0010"].concat();
    let cases: [(&[u8], &[u8], &str); 3] = [
        (b"", b"\n", "replicaof no one"),
        (begin.as_bytes(), b"\n", "replicaof no one"),
        // While data come, `REPLICAOF` is refused, but the server can be stopped.
        (&file, b"\xfa\x01a\x01b", "shutdown nosave"),
    ];
    for (begins, goes_on, command) in cases {
        let folder = tempfile::tempdir().unwrap();
        let master = Fake::new();
        let server = follower(folder.path(), &master);
        let mut replica = server.client();
        let (mut guest, _) = master.guest();
        guest.say(begins);
        let goes_on = goes_on.repeat(1 << 18);
        let talks = std::thread::spawn(move || guest.say_without_end(&goes_on));
        if begins.len() > begin.len() {
            until("the data come", || info(&mut replica, "persistence", "loading") == "1");
        }
        replica.send(command);
        until("it is left", || talks.is_finished());
    }
}

#[test]
fn a_master_does_not_say_whom_to_follow() {
    let folder = tempfile::tempdir().unwrap();
    let master = Fake::new();
    let server = follower(folder.path(), &master);
    let mut replica = server.client();
    let mut guest = master.new_guest(&[], 0);
    let bytes = stream(&["SELECT 0", "SET a 1", "REPLICAOF NO ONE", "SLAVEOF 127.0.0.1 1", "INCR a"]);
    guest.say(&bytes);
    guest.has(bytes.len() as u64);
    converse(
        &mut replica,
        &[("get a", "2"), ("set a 1", "-READONLY You can't write against a read only replica.")],
    );
    assert!(is_up(&mut replica));
}

#[test]
fn a_script_of_a_master_that_does_not_end() {
    // The second script first writes many keys.
    let many = "for i=1,30000 do redis.call('set','{a}'..i,i) end while true do end";
    for [threads, script] in [["1", "while true do end"], ["1", many], ["2", many]] {
        let folder = tempfile::tempdir().unwrap();
        let master = Fake::new();
        let port = master.port().to_string();
        let options = ["--threads", threads, "--set", "busy-reply-threshold 1000"];
        let server =
            Server::start(folder.path(), &[&["--replicaof", "127.0.0.1", &port], &options[..]].concat());
        let (mut replica, mut reader) = (server.client(), server.client());
        let keys: Vec<String> = (1..=30000).map(|i| format!("{{a}}{i}")).collect();
        let data: Vec<(&str, &str)> = keys.iter().map(|key| (&**key, "x")).chain([("a", "1")]).collect();
        let mut guest = master.new_guest(&data, 0);
        until("the link is up", || is_up(&mut replica));
        let words = [("EVAL", 4), (script, script.len()), ("0", 1)];
        let words = words.map(|(word, len)| format!("${len}\r\n{word}\r\n"));
        guest.say(&[&stream(&["SELECT 0"])[..], b"*3\r\n", words.concat().as_bytes()].concat());
        let (mut reply, busy) = (String::new(), "-BUSY Redis is busy running a script.");
        until("the script is slow", || {
            reply = reader.ask("get a");
            reply.starts_with(busy)
        });
        assert!(replica.ask("get a").starts_with(busy));
        // A script of a master cannot be killed.
        let unkillable = "-UNKILLABLE The busy script was sent by a master instance in the context of replication and cannot be killed.";
        assert_eq!(replica.ask("script kill"), unkillable);
        replica.send("shutdown nosave");
        replica.read_to_end();
        // After a restart, the server asks for the script again.
        drop((server, guest));
        let _server = follower(folder.path(), &master);
        let (_, asked) = master.guest();
        assert_eq!(asked, format!("PSYNC {ID} 1"));
    }
}
