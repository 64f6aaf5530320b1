//! Sets.

use std::collections::HashSet;

use crate::common::{Server, converse};

#[test]
fn what_is_within_sets() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let client = &mut server.client();
    converse(
        client,
        &[
            ("sadd a 1 2 3 2", "3"),
            ("sadd b 2 3 4", "3"),
            ("sadd c 3", "1"),
            ("sinter a b c", "[3]"),
            ("sintercard 2 a b limit 1", "1"),
            ("sintercard 2 a b limit 0", "2"),
            ("sintercard 0 a", "-ERR numkeys should be greater than 0"),
            ("sintercard 3 a b", "-ERR Number of keys can't be greater than number of args"),
            ("sintercard 2 a b limit -1", "-ERR LIMIT can't be negative"),
            ("sintercard 2 a b limit", "-ERR syntax error"),
            ("sdiff a b", "[1]"),
            // The target may be one of the sources, and may have another type.
            ("sdiffstore a a c none", "2"),
            ("sunionstore a a a", "2"),
            ("set s x", "OK"),
            ("sinterstore s b c", "1"),
            ("smembers s", "[3]"),
            ("expire s 100", "1"),
            ("sinterstore s b c", "1"),
            ("ttl s", "-1"),
            // An empty result removes the target.
            ("sinterstore s a none", "0"),
            ("exists s", "0"),
            // `SINTER` and `SDIFF` check the types of all keys, also behind an absent one.
            ("set s x", "OK"),
            ("sinter none s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("sdiff none s", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("smove c c 3", "1"),
            ("smove c s 3", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("smove none s 3", "0"),
            ("smove c b 3", "1"),
            ("exists c", "0"),
            ("spop b 0", "[]"),
            ("spop b -1", "-ERR value is out of range, must be positive"),
            ("spop none", "nil"),
            ("spop none 1", "[]"),
            ("sadd one x", "1"),
            ("spop one", "x"),
            ("exists one", "0"),
        ],
    );
    let popped = client.ask("spop b 10");
    let popped: HashSet<&str> = popped[1..popped.len() - 1].split(' ').collect();
    assert_eq!(popped, HashSet::from(["2", "3", "4"]));
    assert_eq!(client.ask("exists b"), "0");
}

#[test]
fn sets_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let mut client = server.client();
    (0..2000).for_each(|i| client.send(&format!("sadd s {i}")));
    (0..2000).for_each(|_| assert_eq!(client.reply(), "1"));
    let popped = client.ask("spop s 500");
    let popped: HashSet<String> = popped[1..popped.len() - 1].split(' ').map(str::to_owned).collect();
    assert_eq!(popped.len(), 500);
    drop(server);
    let server = Server::start(folder.path(), &[]);
    let mut client = server.client();
    assert_eq!(client.ask("scard s"), "1500");
    for i in 0..2000 {
        let is_there = !popped.contains(&i.to_string());
        assert_eq!(client.ask(&format!("sismember s {i}")), u8::from(is_there).to_string());
    }
}
