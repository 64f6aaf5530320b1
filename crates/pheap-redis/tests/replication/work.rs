//! Random commands of many kinds, for a master.

use pheap_testkit::Rng;

use crate::common::Client;

/// Number of databases that the commands use.
pub(crate) const DBS: usize = 4;

/// Loads a library with the function `add`.
const LIBRARY: &str = r##"function load replace "#!lua name=lib\nredis.register_function('add', function(keys, args) redis.call('incr', keys[1]); return redis.call('rpush', keys[2], args[1]) end)""##;

/// Loads the library, and creates the streams and groups that the commands use.
pub(crate) fn prepare(client: &mut Client) {
    assert_eq!(client.ask(LIBRARY), "lib");
    for db in 0..DBS {
        client.ask(&format!("select {db}"));
        for key in 0..4 {
            client.ask(&format!("xgroup create x{key} group 0 mkstream"));
        }
    }
}

/// Executes random commands and transactions, `steps` in number. They may fail.
pub(crate) fn work(client: &mut Client, rng: &mut Rng, steps: usize) {
    for _ in 0..steps {
        if rng.chance(30) {
            client.ask(&format!("select {}", rng.below(DBS)));
        }
        if rng.chance(25) {
            client.ask("multi");
            for _ in 0..rng.below(6) {
                client.ask(&command(rng));
            }
            client.ask("exec");
        } else {
            client.ask(&command(rng));
        }
    }
}

/// Returns a random command.
fn command(rng: &mut Rng) -> String {
    let (a, b, n) = (rng.below(4), rng.below(4), rng.below(1000));
    let any = ["s", "i", "l", "h", "t", "z", "x", "p"][rng.below(8)];
    match rng.below(74) {
        0 => format!("set s{a} value-{n}"),
        1 => format!("set s{a} {n} ex {}", 1000 + n),
        2 => format!("set s{a} {n} keepttl"),
        3 => format!("set s{a} {n} px {}", 1 + n % 20),
        4 => format!("getset s{a} {n}"),
        5 => format!("getdel s{a}"),
        6 => format!("getex s{a} px {}", 100_000 + n),
        7 => format!("getex s{a} persist"),
        8 => format!("append s{a} -{n}"),
        9 => format!("setrange s{a} {} {n}", n % 50),
        10 => format!("incr i{a}"),
        11 => format!("incrby i{a} {n}"),
        12 => format!("incrbyfloat f{a} {}.5", n % 9),
        13 => format!("mset s{a} {n} s{b} x{n}"),
        14 => format!("msetnx s{a} {n} new{n} x"),
        15 => format!("setbit b{a} {n} {}", n % 2),
        16 => format!("bitop xor b{a} b{b} s{b}"),
        17 => format!("bitfield b{a} incrby u8 {} 7", n % 64),
        18 => format!("lpush l{a} {n} x{n}"),
        19 => format!("rpush l{a} {n}"),
        20 => format!("lpop l{a} {}", n % 3),
        21 => format!("rpoplpush l{a} l{b}"),
        22 => format!("lmove l{a} l{b} left right"),
        23 => format!("linsert l{a} before {n} y"),
        24 => format!("lrem l{a} 1 {n}"),
        25 => format!("ltrim l{a} 0 40"),
        26 => format!("lmpop 2 l{a} l{b} left count 2"),
        27 => format!("blpop l{a} l{b} 0.001"),
        28 => format!("hset h{a} f{} {n} g{} x", n % 7, n % 5),
        29 => format!("hincrby h{a} n{} {n}", n % 3),
        30 => format!("hincrbyfloat h{a} r{} 0.25", n % 3),
        31 => format!("hdel h{a} f{} g{}", n % 7, n % 5),
        32 => format!("sadd t{a} {n} {} {}", n % 10, n % 30),
        33 => format!("srem t{a} {}", n % 10),
        34 => format!("spop t{a}"),
        35 => format!("spop t{a} {}", n % 4),
        36 => format!("smove t{a} t{b} {}", n % 10),
        37 => format!("sunionstore t{a} t{a} t{b}"),
        38 => format!("sinterstore t{a} t{a} t{b}"),
        39 => format!("zadd z{a} {} m{} {n} k{}", n % 100, n % 20, n % 9),
        40 => format!("zincrby z{a} 1.5 m{}", n % 20),
        41 => format!("zpopmin z{a}"),
        42 => format!("bzpopmax z{a} z{b} 0.001"),
        43 => format!("zunionstore z{a} 2 z{a} z{b} weights 1 0.5"),
        44 => format!("zrangestore z{a} z{b} 0 5"),
        45 => format!("zremrangebyrank z{a} 0 {}", n % 3),
        46 => format!("geoadd g{a} {}.5 {}.25 p{}", n % 90, n % 80, n % 9),
        47 => format!("xadd x{a} * field {n}"),
        48 => format!("xadd x{a} maxlen ~ 20{} * field {n} other x", ["", " limit 50"][n % 2]),
        49 => format!("xreadgroup group group c{b} count 3 streams x{a} >"),
        50 => format!("xautoclaim x{a} group c{b} 0 - count 2"),
        51 => format!("xtrim x{a} maxlen {}", n % 40),
        52 => format!("xgroup createconsumer x{a} group d{b}"),
        53 => format!("xgroup setid x{a} group {}", ["0", "$"][n % 2]),
        54 => format!("xreadgroup group group c{b} count 2 noack streams x{a} >"),
        55 => format!("pfadd p{a} {n} x{n} y{n}"),
        56 => format!("pfmerge p{a} p{b}"),
        57 => format!("pfcount p{a}"),
        58 => format!("del {any}{a}"),
        59 => format!("unlink {any}{a} s{b}"),
        60 => format!("pexpire {any}{a} {}", 100_000 + n),
        61 => format!("pexpire {any}{a} {}", n % 10),
        62 => format!("persist {any}{a}"),
        63 => format!("copy {any}{a} {any}{b} replace"),
        64 => format!("rename {any}{a} {any}{b}"),
        65 => format!("move {any}{a} {}", b),
        66 => format!("sort l{a} alpha store l{b}"),
        67 => format!(
            "eval \"redis.call('incr', KEYS[1]); return redis.call('sadd', KEYS[2], ARGV[1])\" 2 i{a} t{b} {n}"
        ),
        68 => format!("eval \"redis.call('set', KEYS[1], redis.call('time')[2])\" 1 s{a}"),
        69 => format!("fcall add 2 i{a} l{b} {n}"),
        70 => format!("publish news {n}"),
        71 if n < 30 => format!("swapdb {a} {b}"),
        72 if n < 10 => "flushdb".to_owned(),
        73 => format!("xclaim x{a} group c{b} 0 {n}-0 force"),
        _ => format!("incr i{a}"),
    }
}
