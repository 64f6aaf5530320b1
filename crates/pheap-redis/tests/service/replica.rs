//! A server that follows a Redis, which must be installed (Debian: `redis-server`). `replica_broken.rs` has
//! the tests with a fake master.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::common::redis::Redis;
use crate::common::{Client, Server, converse, free_port};
use crate::replication::work::{DBS, prepare, work};
use crate::replication::{catch_up, info, is_up, shown, until};
use pheap_testkit::Rng;

const READONLY: &str = "-READONLY You can't write against a read only replica.";

/// Environment variable: the number of kills of a server.
const KILLS: &str = "PHEAP_REPLICA_KILLS";

/// Options of a Redis that sends its data to a replica without a delay, and has a large backlog.
const AT_ONCE: [&str; 4] = ["--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb"];

fn follower(folder: &std::path::Path, master: u16, more: &[&str]) -> Server {
    let port = master.to_string();
    Server::start(folder, &[&["--replicaof", "127.0.0.1", &port], more].concat())
}

/// Returns how often a replica of this master has continued with a partial synchronization.
fn goes_on(master: &mut Client) -> u64 {
    info(master, "stats", "sync_partial_ok").parse().unwrap()
}

/// Compares the databases in use, and the functions. No client may write meanwhile.
fn assert_same(master: &mut Client, replica: &mut Client) {
    // Keys with a deadline of some milliseconds have expired then.
    thread::sleep(Duration::from_millis(50));
    catch_up(master, replica);
    let (theirs, ours) = (shown::all(master, 0..DBS), shown::all(replica, 0..DBS));
    for (key, value) in &theirs {
        assert_eq!(ours.get(key), Some(value), "{key:?}");
    }
    assert_eq!(ours.len(), theirs.len());
    assert_eq!(replica.ask("function list withcode"), master.ask("function list withcode"));
}

#[test]
fn the_data_come_while_the_master_is_written_to() {
    for (round, options) in
        [["--repl-diskless-sync", "yes"], ["--repl-diskless-sync", "no"]].iter().enumerate()
    {
        let [theirs, ours] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let redis = Redis::start_with(theirs.path(), free_port(), &[&AT_ONCE[..], options].concat());
        let mut master = redis.client();
        prepare(&mut master);
        work(&mut master, &mut Rng::new(&[1, round as u64]), 3000);
        assert_eq!(master.ask("debug populate 5000 many 100"), "OK");
        let server = Server::start(ours.path(), &["--threads", ["1", "2"][round]]);
        let mut replica = server.client();
        // These will be gone.
        converse(
            &mut replica,
            &[
                ("set own 1", "OK"),
                ("function load \"#!lua name=own\\nredis.register_function('own', function() end)\"", "own"),
            ],
        );
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            for number in 0..2 {
                let (redis, is_done) = (&redis, &is_done);
                scope.spawn(move || {
                    let (mut client, mut rng) = (redis.client(), Rng::new(&[2, round as u64, number]));
                    while !is_done.load(Relaxed) {
                        work(&mut client, &mut rng, 20);
                    }
                });
            }
            assert_eq!(replica.ask(&format!("replicaof 127.0.0.1 {}", redis.port())), "OK");
            until("the link is up", || is_up(&mut replica));
            work(&mut redis.client(), &mut Rng::new(&[3]), 500);
            is_done.store(true, Relaxed);
        });
        assert_same(&mut master, &mut replica);
        assert_eq!(replica.ask("exists own"), "0");
        assert_eq!(info(&mut master, "stats", "sync_full"), "1");
        // The data are still there after a restart without the master.
        let before = shown::all(&mut replica, 0..DBS);
        drop((server, redis));
        let server = Server::start(ours.path(), &[]);
        assert_eq!(shown::all(&mut server.client(), 0..DBS), before);
    }
}

#[test]
fn it_is_killed_again_and_again_and_goes_on_exactly_where_it_was() {
    let kills = std::env::var(KILLS).map_or(12, |text| text.parse::<u64>().expect("a number"));
    for (durability, threads) in [("process", "2"), ("disk", "1")] {
        let [theirs, ours] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let redis = Redis::start_with(theirs.path(), free_port(), &AT_ONCE);
        let mut master = redis.client();
        prepare(&mut master);
        let arguments = ["--durability", durability, "--threads", threads];
        let server = follower(ours.path(), redis.port(), &arguments);
        until("the link is up", || is_up(&mut server.client()));
        let (is_done, rng) = (AtomicBool::new(false), &mut Rng::new(&[4, threads.len() as u64]));
        let mut server = Some(server);
        thread::scope(|scope| {
            for number in 0..3 {
                let (redis, is_done) = (&redis, &is_done);
                scope.spawn(move || {
                    let (mut client, mut rng) = (redis.client(), Rng::new(&[5, number]));
                    while !is_done.load(Relaxed) {
                        work(&mut client, &mut rng, 20);
                        // If one of these were applied twice or not at all, the comparison would fail.
                        client.ask("append once x");
                        client.ask("rpush once-more x");
                    }
                });
            }
            for round in 0..kills {
                let read = || info(&mut redis.client(), "replication", "master_repl_offset");
                let before: u64 = read().parse().unwrap();
                // A random moment in the stream.
                let enough = before + rng.below(100_000) as u64;
                until("the master has done something", || read().parse::<u64>().unwrap() > enough);
                drop(server.take()); // kill -9
                server = Some(follower(ours.path(), redis.port(), &arguments));
                if round % 2 == 0 {
                    // After the other rounds, the server may be killed before it asks its master.
                    until("it has gone on", || goes_on(&mut redis.client()) > round / 2);
                }
            }
            is_done.store(true, Relaxed);
        });
        assert_same(&mut master, &mut server.as_ref().unwrap().client());
        let counted = ["sync_full", "sync_partial_err"].map(|field| info(&mut master, "stats", field));
        assert_eq!(counted, ["1", "0"]);
    }
}

#[test]
fn what_was_acknowledged_to_the_master_is_there() {
    let [theirs, ours] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let redis = Redis::start_with(theirs.path(), free_port(), &AT_ONCE);
    let mut master = redis.client();
    for number in 1..=5 {
        let server = follower(ours.path(), redis.port(), &[]);
        until("the link is up", || is_up(&mut server.client()));
        master.ask("incr number");
        until("the replica has it", || master.ask("wait 1 1000") == "1");
        drop(server); // kill -9
        // The server follows a master that does not exist.
        let server = follower(ours.path(), free_port(), &[]);
        converse(&mut server.client(), &[("get number", &number.to_string())]);
    }
}

#[test]
fn it_says_what_it_is() {
    let [theirs, ours] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let redis = Redis::start_with(theirs.path(), free_port(), &AT_ONCE);
    let port = redis.port();
    let server = Server::start(ours.path(), &[]);
    let (mut master, mut replica) = (redis.client(), server.client());
    converse(
        &mut replica,
        &[
            ("role", "[master 0 []]"),
            ("replicaof no one", "OK"),
            ("replicaof localhost x", "-ERR value is not an integer or out of range"),
            ("replicaof localhost 65536", "-ERR Invalid master port"),
            ("config get replicaof", "[replicaof ]"),
            (
                "config set replicaof x",
                "-ERR CONFIG SET failed (possibly related to argument 'replicaof') - can't set immutable config",
            ),
            ("psync ? -1", "-NOMASTERLINK pheap-redis cannot have replicas; it can be one (REPLICAOF)"),
            ("sync", "-NOMASTERLINK pheap-redis cannot have replicas; it can be one (REPLICAOF)"),
            ("multi", "OK"),
            ("replicaof no one", "-ERR Command not allowed inside a transaction"),
            ("discard", "OK"),
            (&format!("slaveof 127.0.0.1 {port}"), "OK"),
            ("config get slaveof", &format!("[slaveof 127.0.0.1 {port}]")),
        ],
    );
    until("the link is up", || is_up(&mut replica));
    catch_up(&mut master, &mut replica);
    let again = format!("replicaof 127.0.0.1 {port}");
    converse(&mut replica, &[(&again, "OK Already connected to specified master")]);
    assert_eq!(info(&mut replica, "replication", "role"), "slave");
    assert_eq!(info(&mut replica, "replication", "master_port"), port.to_string());
    let offset = info(&mut replica, "replication", "slave_repl_offset");
    assert_eq!(replica.ask("role"), format!("[slave 127.0.0.1 {port} connected {offset}]"));
    assert!(replica.ask("hello 3").contains(" replica "));
    let own = server.port();
    until("the master knows how far it is", || {
        let it = info(&mut master, "replication", "slave0");
        it.starts_with(&format!("ip=127.0.0.1,port={own},state=online,offset={offset},"))
    });
    // Clients may not write.
    converse(
        &mut replica,
        &[
            ("set a 1", READONLY),
            ("multi", "OK"),
            ("get a", "QUEUED"),
            ("set a 1", READONLY),
            ("exec", "-EXECABORT Transaction discarded because of previous errors."),
            ("eval \"return redis.call('get', KEYS[1])\" 1 mark-of-the-test", "1"),
            ("eval \"#!lua flags=no-writes\\nreturn redis.call('get', KEYS[1])\" 1 mark-of-the-test", "1"),
            (
                "eval \"#!lua\\nreturn 1\" 0",
                "-READONLY You can not run script with write flag on readonly replica.",
            ),
            ("pfcount mark", "0"),
            ("publish x y", "0"),
        ],
    );
    assert!(replica.ask("eval \"return redis.call('set', KEYS[1], 1)\" 1 a").starts_with(READONLY));
    // Clients may write if `replica-read-only` is off.
    converse(
        &mut replica,
        &[
            ("config set replica-read-only no", "OK"),
            ("set a 1", "OK"),
            ("config set slave-read-only yes", "OK"),
            ("set a 2", READONLY),
        ],
    );
}

#[test]
fn its_clients_see_what_the_master_does() {
    let [theirs, ours] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let redis = Redis::start_with(theirs.path(), free_port(), &AT_ONCE);
    let mut master = redis.client();
    let server = follower(ours.path(), redis.port(), &["--threads", "2"]);
    let mut replica = server.client();
    until("the link is up", || is_up(&mut replica));
    let [mut listener, mut reader, mut watcher, mut monitor] = [(); 4].map(|()| server.client());
    converse(&mut replica, &[("config set notify-keyspace-events KA", "OK")]);
    converse(
        &mut listener,
        &[
            ("subscribe news", "[subscribe news 1]"),
            ("ssubscribe shard", "[ssubscribe shard 1]"),
            ("subscribe __keyspace@3__:k", "[subscribe __keyspace@3__:k 2]"),
        ],
    );
    assert_eq!(master.ask("xadd x 1-1 a b"), "1-1");
    catch_up(&mut master, &mut replica);
    reader.send("xread block 0 streams x 1-1");
    converse(&mut watcher, &[("watch w", "OK"), ("multi", "OK"), ("get w", "QUEUED")]);
    until("the reader waits", || info(&mut replica, "clients", "blocked_clients") == "1");
    assert_eq!(monitor.ask("monitor"), "OK");
    master.ask("publish news paper");
    master.ask("spublish shard glass");
    master.ask("xadd x 2-2 c d");
    master.ask("set w 1");
    converse(&mut master, &[("select 3", "OK"), ("lpush k v", "1"), ("select 0", "OK")]);
    catch_up(&mut master, &mut replica);
    assert_eq!(listener.reply(), "[message news paper]");
    assert_eq!(listener.reply(), "[smessage shard glass]");
    assert_eq!(listener.reply(), "[message __keyspace@3__:k lpush]");
    assert_eq!(reader.reply(), "[[x [[2-2 [c d]]]]]");
    assert_eq!(watcher.ask("exec"), "nil");
    until("the monitor has seen it", || monitor.reply().ends_with(r#""lpush" "k" "v""#));
    // A client that waits for a key is unblocked when the server becomes a replica.
    let (second, folder) = (free_port(), tempfile::tempdir().unwrap());
    let alone = Server::start(folder.path(), &[]);
    let (mut one, mut waits) = (alone.client(), alone.client());
    waits.send("blpop never 0");
    until("it waits", || info(&mut one, "clients", "blocked_clients") == "1");
    assert_eq!(one.ask(&format!("replicaof 127.0.0.1 {second}")), "OK");
    assert!(waits.reply().starts_with("-UNBLOCKED"));
}

#[test]
fn keys_expire_when_the_master_says_so() {
    let [theirs, ours] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let redis = Redis::start_with(theirs.path(), free_port(), &AT_ONCE);
    let mut master = redis.client();
    let server = follower(ours.path(), redis.port(), &[]);
    let mut replica = server.client();
    until("the link is up", || is_up(&mut replica));
    // Clients do not see expired keys, even if the master is silent.
    converse(&mut master, &[("set gone 1 px 300", "OK"), ("set later 1 ex 100000", "OK")]);
    catch_up(&mut master, &mut replica);
    let deadline = replica.ask("pexpiretime later");
    assert_eq!(master.ask("pexpiretime later"), deadline);
    redis.freeze();
    until("it has expired", || replica.ask("get gone") == "nil");
    converse(&mut replica, &[("exists gone", "0"), ("ttl gone", "-2")]);
    redis.thaw();
    until("the master removes it", || replica.ask("dbsize") == "2");
}

#[test]
fn without_its_master_it_goes_on_reading_and_waits() {
    let [theirs, ours] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let port = free_port();
    let redis = Redis::start_with(theirs.path(), port, &AT_ONCE);
    redis.client().ask("set a 1");
    let server = follower(ours.path(), port, &["--set", "repl-timeout 1"]);
    let mut replica = server.client();
    until("the link is up", || is_up(&mut replica));
    // A frozen master is silent for longer than `repl-timeout`, so the link is lost.
    redis.freeze();
    until("the link is down", || !is_up(&mut replica));
    assert!(info(&mut replica, "replication", "master_link_error").contains("`repl-timeout`"));
    assert_eq!(replica.ask("config set repl-timeout 60"), "OK");
    redis.thaw();
    until("the link is up", || is_up(&mut replica));
    drop(redis);
    until("the link is down", || !is_up(&mut replica));
    converse(
        &mut replica,
        &[
            ("get a", "1"),
            ("set a 2", READONLY),
            ("config set replica-serve-stale-data no", "OK"),
            ("get a", "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."),
            (
                "eval \"#!lua flags=no-writes\\nreturn 1\" 0",
                "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            ),
            ("config set replica-serve-stale-data yes", "OK"),
            ("get a", "1"),
        ],
    );
    assert!(info(&mut replica, "replication", "master_link_error").starts_with("the master "));
    // Another master at the same address, with other data.
    let redis = Redis::start_with(tempfile::tempdir().unwrap().path(), port, &AT_ONCE);
    redis.client().ask("set b 1");
    until("the link is up", || is_up(&mut replica));
    assert_same(&mut redis.client(), &mut replica);
    assert_eq!(replica.ask("get a"), "nil");
}

#[test]
fn a_master_that_wants_a_password() {
    let [theirs, ours] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let redis =
        Redis::start_with(theirs.path(), free_port(), &[&AT_ONCE[..], &["--requirepass", "secret"]].concat());
    let mut master = redis.client();
    converse(
        &mut master,
        &[
            ("auth secret", "OK"),
            ("set a 1", "OK"),
            ("acl setuser link on >other +psync +replconf +ping", "OK"),
        ],
    );
    let server = follower(ours.path(), redis.port(), &[]);
    let mut replica = server.client();
    let why = |replica: &mut Client, text: &str| {
        until(text, || {
            replica
                .ask("info replication")
                .lines()
                .any(|line| line.starts_with("master_link_error:") && line.contains(text))
        });
    };
    why(&mut replica, "refuses PSYNC: NOAUTH");
    assert_eq!(replica.ask("config set masterauth wrong"), "OK");
    why(&mut replica, "refuses AUTH (`masterauth`, `masteruser`): WRONGPASS");
    assert_eq!(replica.ask("config set masterauth secret"), "OK");
    until("the link is up", || is_up(&mut replica));
    assert_eq!(replica.ask("get a"), "1");
    assert!(!replica.ask("info replication").contains("master_link_error"));
    let folder = tempfile::tempdir().unwrap();
    let server =
        follower(folder.path(), redis.port(), &["--set", "masteruser link", "--set", "masterauth other"]);
    until("the link is up", || is_up(&mut server.client()));
}

#[test]
fn promoted_it_stays_so() {
    let [theirs, ours] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let redis = Redis::start_with(theirs.path(), free_port(), &AT_ONCE);
    let mut master = redis.client();
    master.ask("set a 1");
    let server = follower(ours.path(), redis.port(), &[]);
    let mut replica = server.client();
    until("the link is up", || is_up(&mut replica));
    converse(
        &mut replica,
        &[("set b 1", READONLY), ("replicaof no one", "OK"), ("set b 1", "OK"), ("get a", "1")],
    );
    assert_eq!(master.ask("set a 2"), "OK");
    drop(server); // kill -9
    // The arguments still name the master. The server ignores that, to keep the data that clients have
    // written.
    for starts in ["1", "2"] {
        let server = follower(ours.path(), redis.port(), &[]);
        let mut replica = server.client();
        converse(
            &mut replica,
            &[("get a", "1"), ("get b", "1"), ("role", "[master 0 []]"), ("incr c", starts)],
        );
    }
    // `REPLICAOF` gives the data up.
    let server = follower(ours.path(), redis.port(), &[]);
    let mut replica = server.client();
    assert_eq!(replica.ask(&format!("replicaof 127.0.0.1 {}", redis.port())), "OK");
    until("the link is up", || is_up(&mut replica));
    converse(&mut replica, &[("get a", "2"), ("get b", "nil")]);
    assert_eq!(info(&mut master, "stats", "sync_full"), "2");
}

#[test]
fn started_for_itself_it_is_no_replica() {
    let [theirs, ours] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let redis = Redis::start_with(theirs.path(), free_port(), &AT_ONCE);
    let mut master = redis.client();
    master.ask("set a 1");
    let server = follower(ours.path(), redis.port(), &[]);
    until("the link is up", || is_up(&mut server.client()));
    drop(server);
    // The options decide whether the server is a replica, as with Redis. Its clients may have written since,
    // so the next start as a replica loads all data again.
    let server = Server::start(ours.path(), &[]);
    converse(&mut server.client(), &[("role", "[master 0 []]"), ("get a", "1"), ("set a 2", "OK")]);
    drop(server);
    let server = follower(ours.path(), redis.port(), &[]);
    until("the link is up", || is_up(&mut server.client()));
    converse(&mut server.client(), &[("get a", "1")]);
    assert_eq!(info(&mut master, "stats", "sync_full"), "2");
}
