//! A replica with a limit on its memory. It evicts nothing until it is promoted.

use crate::common::{Server, converse};
use crate::replication::fake::{Fake, stream};
use crate::replication::{info, until};
use pheap_redis::data::Owned;
use pheap_redis::rdb;

/// Returns a number of `INFO`.
fn number(client: &mut crate::common::Client, section: &str, field: &str) -> u64 {
    info(client, section, field).parse().unwrap()
}

#[test]
fn a_replica_evicts_nothing_until_it_is_promoted() {
    for threads in ["1", "2"] {
        let folder = tempfile::tempdir().unwrap();
        let master = Fake::new();
        let options = ["--threads", threads, "--set", "maxmemory 1", "--set", "maxmemory-policy allkeys-lru"];
        let port = master.port().to_string();
        let server =
            Server::start(folder.path(), &[&["--replicaof", "127.0.0.1", &port], &options[..]].concat());
        let mut replica = server.client();
        let data: Vec<(String, String)> = (0..100).map(|i| (format!("file:{i}"), "x".repeat(100))).collect();
        let data: Vec<(&str, &str)> = data.iter().map(|(key, value)| (&**key, &**value)).collect();
        let mut guest = master.new_guest(&data, 0);
        let lines: Vec<String> = (0..100).map(|i| format!("SET stream:{i} {}", "x".repeat(100))).collect();
        let lines: Vec<&str> = ["SELECT 0"].into_iter().chain(lines.iter().map(String::as_str)).collect();
        let bytes = stream(&[&lines[..], &["EVAL redis.call('set','script','1') 0"]].concat());
        guest.say(&bytes);
        guest.has(bytes.len() as u64);
        // Neither commands of clients nor the time evict anything.
        std::thread::sleep(std::time::Duration::from_millis(300));
        converse(&mut replica, &[("dbsize", "201"), ("get file:7", &"x".repeat(100)), ("dbsize", "201")]);
        assert_eq!(number(&mut replica, "stats", "evicted_keys"), 0);
        // After its promotion, the limit counts.
        assert_eq!(replica.ask("replicaof no one"), "OK");
        until("all keys have gone", || replica.ask("dbsize") == "0");
        assert_eq!(number(&mut replica, "stats", "evicted_keys"), 201);
    }
}

#[test]
fn what_a_master_gives_counts_as_memory() {
    let folder = tempfile::tempdir().unwrap();
    let master = Fake::new();
    let server = Server::start(folder.path(), &["--set", "maxmemory 100mb"]);
    let mut replica = server.client();
    let before = number(&mut replica, "memory", "used_memory");
    assert_eq!(replica.ask(&format!("replicaof 127.0.0.1 {}", master.port())), "OK");
    let long = "x".repeat(1 << 20);
    let keys: Vec<String> = (0..10).map(|i| format!("key:{i}")).collect();
    let data: Vec<(&str, &str)> = keys.iter().map(|key| (&**key, &*long)).collect();
    let mut guest = master.new_guest(&data, 0);
    guest.has(0);
    let after = number(&mut replica, "memory", "used_memory");
    assert!(after > before + 10 * (1 << 20), "{before} and then {after}");
}

#[test]
fn what_a_master_uses_is_in_use_now() {
    let folder = tempfile::tempdir().unwrap();
    let master = Fake::new();
    let port = master.port().to_string();
    let options = ["--replicaof", "127.0.0.1", &port, "--set", "maxmemory-policy allkeys-lru"];
    let server = Server::start(folder.path(), &options);
    let mut replica = server.client();
    let mut guest = master.new_guest(&[("k", "1")], 0);
    let dump = rdb::dump(&Owned::String(b"1".to_vec())).unwrap();
    let bytes = stream(&["SELECT 0", "EVAL redis.call('incr',KEYS[1]) 1 k"]);
    let restore = [
        format!("*6\r\n$7\r\nRESTORE\r\n$1\r\nr\r\n$1\r\n0\r\n${}\r\n", dump.len()).as_bytes(),
        &dump,
        b"\r\n$8\r\nIDLETIME\r\n$4\r\n5000\r\n",
    ]
    .concat();
    let bytes = [bytes, restore].concat();
    guest.say(&bytes);
    guest.has(bytes.len() as u64);
    let [used, restored] =
        ["k", "r"].map(|key| replica.ask(&format!("object idletime {key}")).parse::<u64>().unwrap());
    assert!(used < 1000 && (5000..6000).contains(&restored), "{used} {restored}");
    converse(&mut replica, &[("mget k r", "[2 1]")]);
    drop(guest);
}
