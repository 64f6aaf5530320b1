//! Sorted sets.

use crate::common::{Client, Server, converse};

#[test]
fn what_is_within_sorted_sets() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    converse(
        &mut server.client(),
        &[
            ("zadd z 1 a 2 b 3 c", "3"),
            ("zadd z ch 1.5 a 2 b 4 d", "2"),
            ("zscore z a", "1.5"),
            ("zadd z 0.1 e", "1"),
            ("zscore z e", "0.10000000000000001"),
            // -0 equals 0, so nothing changes.
            ("zadd z 0 zero", "1"),
            ("zadd z ch -0 zero", "0"),
            ("zscore z zero", "0"),
            ("zrem z zero e", "2"),
            // If one score is invalid, nothing is added.
            ("zadd z 5 x none y", "-ERR value is not a valid float"),
            ("zscore z x", "nil"),
            ("zadd new xx 1 a", "0"),
            ("exists new", "0"),
            ("zadd z incr 1 a 2 b", "-ERR INCR option supports a single increment-element pair"),
            ("zadd z nx gt 1 a", "-ERR GT, LT, and/or NX options at the same time are not compatible"),
            ("zadd z gt incr -1 a", "nil"),
            ("zadd inf inf a", "1"),
            ("zincrby inf -inf a", "-ERR resulting score is not a number (NaN)"),
            ("zrange z 0 -1 rev withscores", "[d 4 c 3 b 2 a 1.5]"),
            ("zrange z (1.5 +inf byscore limit 1 1", "[c]"),
            ("zrange z +inf (1.5 byscore rev limit 1 -1", "[c b]"),
            (
                "zrange z 0 -1 limit 0 1",
                "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ),
            ("zrange z 0 -1 rev rev", "-ERR syntax error"),
            ("zrangebyscore z 1 3 limit -1 2", "[]"),
            ("zrevrangebyscore z 1 3", "[]"),
            ("zcount z (2 (2", "0"),
            ("zrangestore to z 1 2", "2"),
            ("zrange to 0 -1 withscores", "[b 2 c 3]"),
            ("zrangestore to z 10 20", "0"),
            ("exists to", "0"),
            ("zadd lex 0 a 0 aa 0 b 0 c", "4"),
            ("zlexcount lex [a (b", "2"),
            ("zrangebylex lex - (aa", "[a]"),
            ("zrange lex + (aa bylex rev", "[c b]"),
            ("zrangebylex lex + -", "[]"),
            ("zremrangebylex lex (a (c", "2"),
            ("zremrangebyrank lex 0 -1", "2"),
            ("exists lex", "0"),
            ("sadd s a b x", "3"),
            ("zunion 2 z s weights 2 10 withscores", "[c 6 d 8 x 10 a 13 b 14]"),
            ("zinter 2 z s aggregate max withscores", "[a 1.5 b 2]"),
            ("zintercard 2 z s limit 1", "1"),
            ("zdiffstore z 2 z s", "2"),
            ("zrange z 0 -1", "[c d]"),
            ("zunionstore z 0 z", "-ERR at least 1 input key is needed for 'zunionstore' command"),
            ("zunionstore z 3 z s", "-ERR syntax error"),
            ("zpopmax z 0", "[]"),
            ("zmpop 2 none z max count 5", "[z [[d 4] [c 3]]]"),
            ("exists z", "0"),
            ("zmpop 1 z max", "nil"),
            ("zmpop 1 z", "-ERR wrong number of arguments for 'zmpop' command"),
            ("zmpop 2 z max", "-ERR syntax error"),
            ("bzpopmin none 0.01", "nil"),
        ],
    );
}

#[test]
fn who_waits_for_a_sorted_set() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process", "--threads", "2"]);
    let (mut one, mut two) = (server.client(), server.client());
    let wait = |client: &mut Client| {
        while !client.ask("info").contains("blocked_clients:1\r") {
            std::thread::yield_now();
        }
    };
    one.send("bzpopmax a b 0");
    wait(&mut two);
    assert_eq!(two.ask("zadd b 1 x 2 y"), "2");
    assert_eq!(one.reply(), "[b y 2]");
    one.send("bzmpop 0 2 a c min count 2");
    wait(&mut two);
    assert_eq!(two.ask("zadd c 1 x 2 y 3 z"), "3");
    assert_eq!(one.reply(), "[c [[x 1] [y 2]]]");
    assert_eq!(two.ask("zrange c 0 -1"), "[z]");
}

#[test]
fn sorted_sets_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let mut client = server.client();
    // The order of the scores is not that in which the members are added.
    let score = |i: u32| i * 7919 % 3000;
    (0..3000).for_each(|i| client.send(&format!("zadd z {} m{i}", score(i))));
    (0..3000).for_each(|_| assert_eq!(client.reply(), "1"));
    assert_eq!(client.ask("zremrangebyscore z 1000 1999"), "1000");
    assert_eq!(client.ask("zincrby z 5000 m0"), "5000");
    drop(server);
    let server = Server::start(folder.path(), &[]);
    let mut client = server.client();
    assert_eq!(client.ask("zcard z"), "2000");
    let mut left: Vec<(u32, u32)> = (0..3000).map(|i| (if i == 0 { 5000 } else { score(i) }, i)).collect();
    left.retain(|(score, _)| !(1000..2000).contains(score));
    left.sort_unstable();
    let shown: Vec<String> = left.iter().map(|(score, i)| format!("m{i} {score}")).collect();
    assert_eq!(client.ask("zrange z 0 -1 withscores"), format!("[{}]", shown.join(" ")));
    for (rank, (_, i)) in left.iter().enumerate().step_by(97) {
        assert_eq!(client.ask(&format!("zrank z m{i}")), rank.to_string());
    }
}
