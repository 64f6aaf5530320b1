//! Lists, and clients that wait for them.

use crate::common::{Client, Server, converse};

fn wait_until_blocked(n: usize, client: &mut Client) {
    while !client.ask("info").contains(&format!("blocked_clients:{n}\r")) {
        std::thread::yield_now();
    }
}

#[test]
fn what_is_within_a_list() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    converse(
        &mut server.client(),
        &[
            ("rpush l a b c d e", "5"),
            ("linsert l before a 0", "6"),
            ("linsert l after e f", "7"),
            ("linsert l after b x", "8"),
            ("linsert l before e y", "9"),
            ("lrange l 0 -1", "[0 a b x c d y e f]"),
            ("linsert l before none y", "-1"),
            ("linsert none before none y", "0"),
            ("linsert l inside a y", "-ERR syntax error"),
            // Near the head and near the tail; in the next list, in several places.
            ("lrem l 0 a", "1"),
            ("lrem l 0 e", "1"),
            ("lrange l 0 -1", "[0 b x c d y f]"),
            ("del l", "1"),
            ("rpush l a b a c a d a", "7"),
            ("lrem l -1 a", "1"),
            ("lrange l 0 -1", "[a b a c a d]"),
            ("lrem l 2 a", "2"),
            ("lrange l 0 -1", "[b c a d]"),
            ("lrem l 1 none", "0"),
            ("lrem l -9223372036854775808 a", "1"),
            ("ltrim l 1 -1", "OK"),
            ("lrange l 0 -1", "[c d]"),
            ("ltrim l -100 100", "OK"),
            ("ltrim l -9223372036854775808 0", "OK"),
            ("lrange l 0 -1", "[c]"),
            ("lrem l 0 c", "1"),
            ("exists l", "0"),
            ("rpush l a b a c a d a", "7"),
            ("lpos l a", "0"),
            ("lpos l a rank -1", "6"),
            ("lpos l a rank -2 count 2", "[4 2]"),
            ("lpos l a rank 2 count 0 maxlen 5", "[2 4]"),
            ("lpos l none", "nil"),
            ("lpos l none count 1", "[]"),
            ("lpos none a count 1", "[]"),
            ("lpos l a rank -9223372036854775808", "nil"),
            ("lpos l a count -1", "-ERR COUNT can't be negative"),
            ("lpos l a maxlen", "-ERR syntax error"),
            ("ltrim l 7 10", "OK"),
            ("exists l", "0"),
        ],
    );
}

#[test]
fn several_elements_of_several_lists() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    converse(
        &mut server.client(),
        &[
            ("rpush l a b c", "3"),
            ("lmpop 2 none l right count 2", "[l [c b]]"),
            ("blmpop 0 2 none l left count 100", "[l [a]]"),
            ("lmpop 1 l left", "nil"),
            ("blmpop 0.01 1 l left", "nil"),
            ("lmpop 0 l left", "-ERR numkeys should be greater than 0"),
            ("lmpop 2 l left", "-ERR syntax error"),
            ("lmpop 9223372036854775807 l left", "-ERR syntax error"),
            ("lmpop 1 l left count 0", "-ERR count should be greater than 0"),
            ("lmpop 1 l left count 1 count 2", "-ERR syntax error"),
            ("blmpop -1 1 l left", "-ERR timeout is negative"),
            ("command getkeys blmpop 0 2 a b left", "[a b]"),
            ("rpush a 1 2", "2"),
            ("lmove a b left right", "1"), // in different shards
            ("lmove {a}1 {a}2 left right", "nil"),
            ("lmove a {a}2 left right", "2"), // in one
            ("lrange {a}2 0 -1", "[2]"),
            ("exists a", "0"),
        ],
    );
}

/// The notifications of a move come in the order of Redis.
#[test]
fn notifications_of_a_move() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let (mut one, mut two) = (server.client(), server.client());
    assert_eq!(one.ask("psubscribe __keyevent*"), "[psubscribe __keyevent* 1]");
    converse(&mut two, &[("config set notify-keyspace-events AE", "OK"), ("rpush a 1", "1")]);
    let message = |event: &str, key: &str| format!("[pmessage __keyevent* __keyevent@0__:{event} {key}]");
    assert_eq!(one.reply(), message("rpush", "a"));
    for target in ["b", "{b}2"] {
        let source = if target == "b" { "a" } else { "b" };
        assert_eq!(two.ask(&format!("lmove {source} {target} left right")), "1");
        assert_eq!(one.reply(), message("rpush", target));
        assert_eq!(one.reply(), message("lpop", source));
        assert_eq!(one.reply(), message("del", source));
    }
}

/// Waiting clients are served before the commands that follow the write in the same pipeline, and in the
/// order in which they came.
#[test]
fn who_waits_is_served_in_order() {
    for threads in ["1", "2"] {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path(), &["--durability", "process", "--threads", threads]);
        let mut writer = server.client();
        let mut waiting: Vec<Client> = (0..8).map(|_| server.client()).collect();
        for (i, client) in waiting.iter_mut().enumerate() {
            client.send(&format!("blpop a b{i} 0"));
            wait_until_blocked(i + 1, &mut writer);
        }
        // In one write, so that the server may run them in one transaction of the heap.
        writer.send("rpush a 0 1 2 3 4 5\r\nllen a\r\nlpush a x\r\ndel a");
        let replies: Vec<String> = (0..4).map(|_| writer.reply()).collect();
        assert_eq!(replies[0], "6");
        assert_eq!(replies[1..], ["0", "1", "0"], "{threads} threads");
        for (i, client) in waiting[..6].iter_mut().enumerate() {
            assert_eq!(client.reply(), format!("[a {i}]"), "{threads} threads");
        }
        assert_eq!(waiting[6].reply(), "[a x]");
        wait_until_blocked(1, &mut writer);
    }
}

#[test]
fn who_waits_for_a_list_is_not_concerned_by_something_else() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process", "--threads", "2"]);
    let [mut one, mut two, mut writer] = [(); 3].map(|()| server.client());
    one.send("blpop a b 0");
    wait_until_blocked(1, &mut writer);
    two.send("blmove a c left right 0");
    wait_until_blocked(2, &mut writer);
    // A transaction writes both keys: the client that waits for both is served from the one written first.
    converse(
        &mut writer,
        &[
            ("set a x", "OK"),
            ("get a", "x"),
            ("del a", "1"),
            ("multi", "OK"),
            ("rpush b 1", "QUEUED"),
            ("rpush a 2", "QUEUED"),
            ("exec", "[1 1]"),
        ],
    );
    assert_eq!(one.reply(), "[b 1]");
    assert_eq!(two.reply(), "2");
    // If the target has another type, the reply is an error, and the element stays.
    two.send("brpoplpush a c 0");
    wait_until_blocked(1, &mut writer);
    converse(&mut writer, &[("set c x", "OK"), ("rpush a 1", "1")]);
    assert_eq!(two.reply(), "-WRONGTYPE Operation against a key holding the wrong kind of value");
    assert_eq!(writer.ask("lrange a 0 -1"), "[1]");
}

#[test]
fn lists_survive() {
    let folder = tempfile::tempdir().unwrap();
    {
        let server = Server::start(folder.path(), &[]);
        let client = &mut server.client();
        (0..100).for_each(|i| client.send(&format!("rpush l {i}")));
        (0..100).for_each(|_| drop(client.reply()));
        converse(
            client,
            &[
                ("lrem l 1 10", "1"),
                ("lrem l 1 90", "1"),
                ("linsert l after 20 x", "99"),
                ("linsert l after 80 y", "100"),
                ("ltrim l 1 -2", "OK"),
                ("lmpop 1 l left count 2", "[l [1 2]]"),
            ],
        );
    }
    let server = Server::start(folder.path(), &[]);
    let expected: Vec<String> = (3..99)
        .filter(|i| ![10, 90].contains(i))
        .flat_map(|i| match i {
            20 => vec!["20".to_owned(), "x".to_owned()],
            80 => vec!["80".to_owned(), "y".to_owned()],
            i => vec![i.to_string()],
        })
        .collect();
    assert_eq!(server.client().ask("lrange l 0 -1"), format!("[{}]", expected.join(" ")));
}
