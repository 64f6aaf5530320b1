//! HyperLogLogs.

use crate::common::{Client, Server, converse};

fn add(client: &mut Client, key: &str, numbers: std::ops::Range<u32>) {
    for number in numbers.clone() {
        client.send(&format!("pfadd {key} {number}"));
    }
    numbers.for_each(|_| drop(client.reply()));
}

#[test]
fn counts_and_forms() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let client = &mut server.client();
    converse(
        client,
        &[
            ("pfadd a", "1"),
            ("pfadd a", "0"),
            ("pfcount a", "0"),
            ("pfadd a x y z", "1"),
            ("pfadd a x y z", "0"),
            ("pfcount a", "3"),
            ("pfcount a a none", "3"),
            ("pfdebug encoding a", "sparse"),
            ("pfdebug todense a", "1"),
            ("pfdebug todense a", "0"),
            ("strlen a", "12304"),
            ("pfcount a", "3"),
            ("pfadd b 1 2 3 z", "1"),
            ("pfmerge c a b", "OK"),
            ("pfcount c", "6"),
            ("pfdebug encoding c", "dense"),
            ("pfmerge d b none", "OK"),
            ("pfdebug encoding d", "sparse"),
            ("pfdebug decode a", "-ERR HLL encoding is not sparse"),
            ("pfdebug encoding none", "-ERR The specified key does not exist"),
            ("set s 1", "OK"),
            ("pfadd s 1", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
            ("pfmerge none s", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
            ("rpush l 1", "1"),
            ("pfcount none l", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("append b hello", "35"),
            ("pfcount a b", "-INVALIDOBJ Corrupted HLL object detected"),
            ("pfcount b", "-INVALIDOBJ Corrupted HLL object detected"),
            ("multi", "OK"),
            ("pfcount a", "QUEUED"),
            ("exec", "[3]"),
            ("pfselftest", "OK"),
        ],
    );
}

#[test]
fn they_survive() {
    let folder = tempfile::tempdir().unwrap();
    let mut counts = Vec::new();
    for round in 0..3 {
        let server = Server::start(folder.path(), &[]);
        let client = &mut server.client();
        for (key, count) in &counts {
            assert_eq!(&client.ask(&format!("pfcount {key}")), count);
        }
        add(client, "large", 3000 * round..3000 * (round + 1));
        add(client, "small", 50 * round..50 * (round + 1));
        assert_eq!(client.ask("pfdebug encoding large"), "dense");
        assert_eq!(client.ask("pfdebug encoding small"), "sparse");
        counts = ["large", "small"].map(|key| (key, client.ask(&format!("pfcount {key}")))).to_vec();
        let large: u32 = counts[0].1.parse().unwrap();
        assert!(large.abs_diff(3000 * (round + 1)) < 300, "{large}");
    }
}
