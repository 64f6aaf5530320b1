//! Describes the contents of a server, read with commands for each type.

use std::collections::BTreeMap;

use crate::common::Client;

/// Describes all keys of some databases: their types, values and deadlines.
pub(crate) fn all(client: &mut Client, dbs: std::ops::Range<usize>) -> BTreeMap<(usize, String), String> {
    let mut all = BTreeMap::new();
    for db in dbs {
        assert_eq!(client.ask(&format!("select {db}")), "OK");
        let keys = client.ask("keys *");
        for key in words(&keys) {
            if let Some(shown) = one(client, key) {
                all.insert((db, key.to_owned()), shown);
            }
        }
    }
    client.ask("select 0");
    all
}

/// Returns the words of a reply, without its outer brackets.
pub(crate) fn words(reply: &str) -> Vec<&str> {
    reply.trim_start_matches('[').trim_end_matches(']').split_ascii_whitespace().collect()
}

fn one(client: &mut Client, key: &str) -> Option<String> {
    let kind = client.ask(&format!("type {key}"));
    let sorted = |reply: &str, size: usize| {
        let words = words(reply);
        let mut parts: Vec<String> = words.chunks(size).map(|part| part.join(" ")).collect();
        parts.sort_unstable();
        parts.join(",")
    };
    let value = match kind.as_str() {
        "none" => return None,
        // The client can read UTF-8 only, so the value is shown by its hash.
        "string" => client.ask(&format!("eval \"return redis.sha1hex(redis.call('get',KEYS[1]))\" 1 {key}")),
        "list" => client.ask(&format!("lrange {key} 0 -1")),
        "set" => sorted(&client.ask(&format!("smembers {key}")), 1),
        "hash" => sorted(&client.ask(&format!("hgetall {key}")), 2),
        "zset" => client.ask(&format!("zrange {key} 0 -1 withscores")),
        "stream" => stream(&client.ask(&format!("xinfo stream {key} full count 0"))),
        other => panic!("{key} is of type {other}"),
    };
    Some(format!("{kind} {value} {}", client.ask(&format!("pexpiretime {key}"))))
}

/// Returns the description of a stream without three things: how the server stores it; when its consumers
/// were last seen, which each server knows for itself; and how many entries a group has read, which Redis
/// does not tell its replicas when it delivers entries.
fn stream(info: &str) -> String {
    let mut words = info.split(' ');
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        let skipped = ["radix-tree-keys", "radix-tree-nodes", "seen-time", "entries-read", "lag"];
        if skipped.contains(&word) {
            words.next();
        } else {
            kept.push(word);
        }
    }
    kept.join(" ")
}
