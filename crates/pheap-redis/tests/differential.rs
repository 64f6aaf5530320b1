//! Random commands of all families, also wrong ones: the server must answer them as Redis does, except for
//! the listed differences.
//!
//! Redis must be installed (Debian: `apt-get install redis-server`). A plain run has a few thousand commands;
//! `PHEAP_DIFFERENTIAL=100000` asks for more, and `PHEAP_DIFFERENTIAL_SEED` for others. Each round begins
//! with empty servers, and the rounds alternate between the versions of the protocol. If replies differ, the
//! test prints a shortened history for each kind of difference.

mod common;
mod compare;

use std::collections::BTreeMap;

use common::redis::Redis;
use common::{Server, converse};
use compare::{Pair, round, shortest};

/// Least number of steps of a round.
const STEPS: usize = 1000;

/// Number of kinds of differences after which a run ends.
const ENOUGH: usize = 10;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn replies_are_those_of_redis() {
    let folder = tempfile::tempdir().unwrap();
    let redis = Redis::start(folder.path());
    let pheap = Server::start(folder.path(), &["--durability", "process"]);
    let mut pair = Pair::new(redis.port(), pheap.port());
    let wanted = number("PHEAP_DIFFERENTIAL", 4000);
    let seed = number("PHEAP_DIFFERENTIAL_SEED", 1);
    let (mut commands, mut rounds) = (0, 0);
    let mut found = BTreeMap::new();
    while commands < wanted && found.len() < ENOUGH {
        let steps = round(&[seed, rounds], STEPS);
        let resp3 = rounds % 2 == 1;
        commands += steps.iter().map(|step| step.commands.len() as u64).sum::<u64>();
        rounds += 1;
        let Some((needed, difference)) = pair.run(resp3, &steps) else { continue };
        let (steps, difference) = shortest(&mut pair, resp3, steps[..needed].to_vec(), difference);
        let history: String = steps.iter().map(|step| format!("{step}")).collect();
        let version = if resp3 { 3 } else { 2 };
        // The first one of each kind.
        found.entry(difference.kind()).or_insert_with(|| {
            format!(
                "not as Redis (seed {seed}, round {}, RESP{version}), after\n{history}{difference}\n",
                rounds - 1
            )
        });
    }
    println!("{commands} commands in {rounds} rounds, seed {seed}");
    assert!(found.is_empty(), "{}", found.into_values().collect::<Vec<_>>().join("\n"));
}

#[test]
fn what_was_different_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--durability", "process"]);
    let range = "must between -2147483648 and 2147483647";
    let lines = [
        ("config get MaxMemory", "[MaxMemory 0]"),
        ("config get MAXMEMORY-SAMPLE*", "[maxmemory-samples 5]"),
        ("select x", "-ERR value is not an integer or out of range"),
        ("select 4294967296", &format!("-ERR value is out of range, value {range}")),
        ("move k 4294967296", &format!("-ERR value is out of range, value {range}")),
        ("swapdb 1 4294967296", "-ERR invalid second DB index"),
        ("wait 0 1.5", "-ERR timeout is not an integer or out of range"),
        ("wait 0 -1", "-ERR timeout is negative"),
        ("nothing \"a\\x00b\"", "-ERR unknown command 'nothing', with args beginning with: 'a'"),
        ("command info nothing", "[nil]"),
        ("command getkeys xread streams a b 0", "[a]"),
        ("rpush list -0 \"\"", "2"),
        ("sort list", "[ -0]"),
        ("del list", "1"),
        ("rpush list \"\\x00P\" -35 \" 1\"", "3"),
        ("sort list desc limit 0 1", "[ 1]"),
        ("zadd z -0 a -1 b 0x1.8p1 c", "3"),
        ("zrangebyscore z \"\" 1e400 withscores", "[a 0 c 3]"),
        ("zrange z 0 -1 limit 2 -1", "[b a c]"),
        ("zadd z 1e400 a", "-ERR value is not a valid float"),
        ("eval \"return 2^63\" 0", "-9223372036854775808"),
        ("geohash z b", "[bp05b5048p0]"),
    ];
    converse(&mut server.client(), &lines);
}
