//! Streams.

use crate::common::{Client, Server, converse};

#[test]
fn entries() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let client = &mut server.client();
    converse(
        client,
        &[
            ("xadd s 1-* a 1", "1-0"),
            ("xadd s 1-* a 2 b 3", "1-1"),
            (
                "xadd s 0-9 a 2",
                "-ERR The ID specified in XADD is equal or smaller than the target stream top item",
            ),
            ("xadd none 0 a 2", "-ERR The ID specified in XADD must be greater than 0-0"),
            ("xadd none nomkstream * a 2", "nil"),
            (
                "xadd s maxlen 5 minid 3 * a 2",
                "-ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
            ),
            (
                "xadd s maxlen 5 limit 3 * a 2",
                "-ERR syntax error, LIMIT cannot be used without the special ~ option",
            ),
            ("xadd s maxlen 5 nomkstream x y", "-ERR Invalid stream ID specified as stream command argument"),
            ("xadd s maxlen 5 nomkstream", "-ERR wrong number of arguments for 'xadd' command"),
            ("xadd s * a", "-ERR wrong number of arguments for 'xadd' command"),
            ("exists none", "0"),
            ("type s", "stream"),
            ("xrange s - +", "[[1-0 [a 1]] [1-1 [a 2 b 3]]]"),
            ("xrevrange s + (1-0", "[[1-1 [a 2 b 3]]]"),
            ("xrange s 2 1", "[]"),
            ("xrange s - + count 0", "nil"),
            ("xrange none - + count 0", "[]"),
            ("xadd s maxlen 2 2 c d", "2-0"),
            ("xlen s", "2"),
            ("xdel s 1-1 1-0 7", "1"),
            ("xdel s 1-1 x", "-ERR Invalid stream ID specified as stream command argument"),
            ("xtrim s minid 3", "1"),
            // A stream without entries stays, and keeps its last ID.
            ("exists s", "1"),
            (
                "xadd s 2 e f",
                "-ERR The ID specified in XADD is equal or smaller than the target stream top item",
            ),
            ("xsetid s 9-9 entriesadded 100", "OK"),
            ("xadd s 9-* e f", "9-10"),
            (
                "xinfo stream s",
                "[length 1 radix-tree-keys 1 radix-tree-nodes 2 last-generated-id 9-10 max-deleted-entry-id 1-1 entries-added 101 recorded-first-entry-id 9-10 groups 0 first-entry [9-10 [e f]] last-entry [9-10 [e f]]]",
            ),
            ("xsetid s 18446744073709551615-18446744073709551615", "OK"),
            ("xadd s * e f", "-ERR The stream has exhausted the last possible ID, unable to add more items"),
            ("set string x", "OK"),
            ("xadd string * a 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ],
    );
    // Nodes of ten entries: approximate trimming removes whole nodes.
    assert_eq!(client.ask("config set stream-node-max-entries 10"), "OK");
    (0..95).for_each(|i| client.send(&format!("xadd blocks {i}-1 a {i}")));
    (0..95).for_each(|i| assert_eq!(client.reply(), format!("{i}-1")));
    converse(
        client,
        &[
            ("xtrim blocks maxlen ~ 80", "10"),
            ("xtrim blocks maxlen 80", "5"),
            ("xtrim blocks minid ~ 33", "15"),
            ("xtrim blocks maxlen ~ 0 limit 25", "20"),
            ("xrange blocks - + count 1", "[[50-1 [a 50]]]"),
            ("xtrim blocks maxlen ~ 0", "45"),
        ],
    );
}

#[test]
fn what_clients_read_as_it_comes() {
    for threads in ["1", "2"] {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path(), &["--threads", threads, "--durability", "process"]);
        let [mut one, mut two, mut three, mut writer] = [(); 4].map(|()| server.client());
        let blocked = |n: usize, writer: &mut Client| {
            while !writer.ask("info").contains(&format!("blocked_clients:{n}\r")) {
                std::thread::yield_now();
            }
        };
        converse(
            &mut writer,
            &[
                ("xadd a 1 x 1", "1-0"),
                ("xadd b 1 x 2", "1-0"),
                ("xread streams a b 0 0", "[[a [[1-0 [x 1]]]] [b [[1-0 [x 2]]]]]"),
                ("xread streams a b $ 0", "[[b [[1-0 [x 2]]]]]"),
                ("xread streams a b $ $", "nil"),
                ("xread block 1 streams a b $ $", "nil"),
                ("multi", "OK"),
                ("xread block 0 streams a $", "QUEUED"),
                ("exec", "[nil]"),
                ("xread block -1 streams a $", "-ERR timeout is negative"),
                (
                    "xread noack streams a $",
                    "-ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
                ),
                (
                    "xread streams a >",
                    "-ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
                ),
                (
                    "xread count 1 streams a b 0",
                    "-ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
                ),
            ],
        );
        // Neither older entries nor a value of another type serve clients that wait.
        one.send("xread block 0 streams a b $ $");
        two.send("hello 3");
        two.reply();
        two.send("xread block 0 count 1 streams a 5");
        three.send("xread block 0 streams c 0");
        blocked(3, &mut writer);
        converse(&mut writer, &[("xadd a 2 x 3", "2-0"), ("set c x", "OK"), ("del c", "1")]);
        assert_eq!(one.reply(), "[[a [[2-0 [x 3]]]]]");
        blocked(2, &mut writer);
        converse(
            &mut writer,
            &[
                ("multi", "OK"),
                ("xadd a 5-1 x 4", "QUEUED"),
                ("xadd a 5-2 x 5", "QUEUED"),
                ("xadd c 1 x 6", "QUEUED"),
                ("exec", "[5-1 5-2 1-0]"),
            ],
        );
        assert_eq!(two.reply(), "[a [[5-1 [x 4]]]]");
        assert_eq!(three.reply(), "[[c [[1-0 [x 6]]]]]");
        blocked(0, &mut writer);
    }
}

#[test]
fn who_waits_in_a_group_is_told_when_it_is_no_more() {
    for threads in ["1", "2"] {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path(), &["--threads", threads, "--durability", "process"]);
        let [mut one, mut two, mut writer, mut other, mut reader] = [(); 5].map(|()| server.client());
        // They go on waiting when the key is gone: they do not need it.
        other.send("blpop s 0");
        reader.send("xread block 0 streams s $");
        while !writer.ask("info").contains("blocked_clients:2\r") {
            std::thread::yield_now();
        }
        let gone = "-UNBLOCKED the stream key no longer exists";
        for (how, expected) in [
            ("xgroup destroy s g", "-NOGROUP the consumer group this client was blocked on no longer exists"),
            ("del s", gone),
            ("set s x", gone),
            ("flushdb", gone),
            ("flushall", gone),
            ("pexpire s 1", gone), // no command uses the key: it expires by itself
        ] {
            writer.ask("del s");
            assert_eq!(writer.ask("xgroup create s g $ mkstream"), "OK");
            one.send("xreadgroup group g c block 0 streams s >");
            two.send("xreadgroup group g d block 0 noack streams other s > >");
            assert_eq!(
                two.reply(),
                "-NOGROUP No such key 'other' or consumer group 'g' in XREADGROUP with GROUP option"
            );
            two.send("xreadgroup group g d block 0 noack streams s >");
            while !writer.ask("info").contains("blocked_clients:4\r") {
                std::thread::yield_now();
            }
            writer.ask(how);
            assert_eq!(one.reply(), expected, "{how}");
            assert_eq!(two.reply(), expected, "{how}");
        }
    }
}

#[test]
fn groups_survive_a_kill() {
    for durability in ["disk", "process"] {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["--durability", durability];
        {
            let server = Server::start(folder.path(), &arguments);
            let client = &mut server.client();
            (1..=300).for_each(|i| client.send(&format!("xadd s {i} n {i} empty ''")));
            (1..=300).for_each(|i| assert_eq!(client.reply(), format!("{i}-0")));
            converse(
                client,
                &[
                    ("xgroup create s g 0", "OK"),
                    ("xgroup create s g 0", "-BUSYGROUP Consumer Group name already exists"),
                    ("xgroup create s later 300 entriesread 300", "OK"),
                    (
                        "xreadgroup group g alice count 2 streams s >",
                        "[[s [[1-0 [n 1 empty ]] [2-0 [n 2 empty ]]]]]",
                    ),
                    ("xreadgroup group g bob count 1 streams s >", "[[s [[3-0 [n 3 empty ]]]]]"),
                    ("xreadgroup group g carol count 1 noack streams s >", "[[s [[4-0 [n 4 empty ]]]]]"),
                    ("xack s g 1 99", "1"),
                    ("xdel s 2", "1"),
                    ("xclaim s g dave 0 3 justid", "[3-0]"),
                    ("xclaim s g dave 0 200 force retrycount 7", "[[200-0 [n 200 empty ]]]"),
                ],
            );
        }
        let server = Server::start(folder.path(), &arguments);
        converse(
            &mut server.client(),
            &[
                ("xlen s", "299"),
                ("xpending s g", "[3 2-0 200-0 [[alice 1] [dave 2]]]"),
                ("xpending s g idle 1000000 - + 10", "[]"),
                ("xpending s g - + 10 nobody", "[]"),
                (
                    "xinfo groups s",
                    "[[name g consumers 4 pending 3 last-delivered-id 4-0 entries-read 4 lag 296] [name later consumers 0 pending 0 last-delivered-id 300-0 entries-read 300 lag 0]]",
                ),
                // A deleted entry that is pending is shown without its fields.
                ("xreadgroup group g alice streams s 0", "[[s [[2-0 nil]]]]"),
                ("xautoclaim s g erin 0 - count 2 justid", "[200-0 [3-0] [2-0]]"),
                ("xautoclaim s g erin 0 200 count 2", "[0-0 [[200-0 [n 200 empty ]]] []]"),
                ("xgroup delconsumer s g erin", "2"),
                ("xpending s g", "[0 nil nil nil]"),
                ("xgroup delconsumer s g erin", "0"),
                ("xgroup createconsumer s g erin", "1"),
                ("xgroup createconsumer s g erin", "0"),
                ("xgroup setid s g 2", "OK"),
                ("xreadgroup group g erin count 1 streams s >", "[[s [[3-0 [n 3 empty ]]]]]"),
                // The entry is pending for another consumer, and moves to the one that reads it now.
                ("xgroup setid s g 2", "OK"),
                ("xreadgroup group g bob count 1 streams s >", "[[s [[3-0 [n 3 empty ]]]]]"),
                ("xpending s g", "[1 3-0 3-0 [[bob 1]]]"),
                ("xgroup destroy s g", "1"),
                ("xgroup destroy s g", "0"),
                ("xpending s g", "-NOGROUP No such key 's' or consumer group 'g'"),
                (
                    "xgroup create s g 1 nothing",
                    "-ERR unknown subcommand or wrong number of arguments for 'create'. Try XGROUP HELP.",
                ),
                ("xgroup help me", "-ERR wrong number of arguments for 'xgroup|help' command"),
            ],
        );
    }
}

#[test]
fn notifications_and_changes() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let (mut one, mut two) = (server.client(), server.client());
    let changes = |client: &mut Client| -> i64 {
        let info = client.ask("info");
        let line = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
        line.unwrap().parse().unwrap()
    };
    converse(&mut two, &[("config set notify-keyspace-events Et", "OK")]);
    assert_eq!(one.ask("psubscribe *"), "[psubscribe * 1]");
    for (line, events, count) in [
        ("xadd s maxlen 1 1 a b", &["xadd"][..], 1),
        ("xadd s maxlen 1 2 a b", &["xadd", "xtrim"], 1),
        ("xadd s 3 a b", &["xadd"], 1),
        ("xgroup create s g 0", &["xgroup-create"], 1),
        ("xreadgroup group g c streams s >", &["xgroup-createconsumer"], 2),
        ("xclaim s g d 0 2 3", &["xgroup-createconsumer"], 3),
        ("xack s g 2 3", &[], 2),
        ("xgroup setid s g 0", &["xgroup-setid"], 1),
        ("xgroup delconsumer s g d", &["xgroup-delconsumer"], 1),
        ("xgroup destroy s g", &["xgroup-destroy"], 1),
        ("xsetid s 9", &["xsetid"], 1),
        ("xdel s 2 3", &["xdel"], 2),
        ("xtrim s maxlen 0", &[], 0),
    ] {
        let before = changes(&mut two);
        two.ask(line);
        assert_eq!(changes(&mut two) - before, count, "{line}");
        for event in events {
            assert_eq!(one.reply(), format!("[pmessage * __keyevent@0__:{event} s]"), "{line}");
        }
    }
    // No other message has come.
    assert_eq!(two.ask("publish end x"), "1");
    assert_eq!(one.reply(), "[pmessage * end x]");
}
