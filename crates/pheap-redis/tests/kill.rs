//! Kills a server at random moments. After a restart, it must have all that it acknowledged, and each other
//! command wholly or not at all.
//!
//! Sixteen clients send commands of many kinds, and one more listens. Eight of them have a database each, and
//! know exactly what must be in it. The other eight change the same keys, for which some invariants hold (see
//! `oracle`). After a number of acknowledged steps, the test kills the server (SIGKILL) and starts it again,
//! now and then kills it while it starts, and checks everything. The seed determines the random numbers, but
//! not how the clients' commands interleave.
//!
//! For a long run, set `PHEAP_ORACLE_ROUNDS=1000 PHEAP_ORACLE_SEED=7`:
//! `cargo test --release -p pheap-redis --test kill -- --nocapture`

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use pheap_testkit::Rng;

mod common;
mod oracle;

use common::Server;
use oracle::clients::{Clients, Served};
use oracle::{ROUNDS, SEED, from_environment};

/// Greatest random number of acknowledged steps before a kill. There may be a few more.
const STEPS: usize = 2000;
/// Number of kills with one heap.
const KILLS_PER_HEAP: usize = 4;

/// Arguments of servers. `everysec` promises as much as the others as long as the power does not fail.
const SERVERS: &[&[&str]] = &[
    &["--durability", "process", "--threads", "2"],
    &["--durability", "disk", "--threads", "2"],
    &["--durability", "pmem", "--without-dax", "--threads", "1"],
    &["--durability", "disk", "--threads", "2", "--set", "appendfsync everysec"],
    &["--durability", "disk", "--threads", "1"],
    &["--durability", "pmem", "--without-dax", "--threads", "2"],
    &["--durability", "process", "--threads", "1"],
];

#[test]
fn what_was_acknowledged_is_there() {
    let (rounds, seed) = (from_environment(ROUNDS, 20) as usize, from_environment(SEED, 1));
    println!("{SEED}={seed}");
    let mut steps = 0;
    for (heap, from) in (0..rounds).step_by(KILLS_PER_HEAP).enumerate() {
        let arguments = SERVERS[heap % SERVERS.len()];
        let folder = tempfile::tempdir().unwrap();
        let mut clients = Clients::new(Duration::ZERO);
        for round in from..rounds.min(from + KILLS_PER_HEAP) {
            println!("round {round}, {arguments:?}");
            let rng = &mut Rng::new(&[seed, round as u64]);
            if rng.chance(64) {
                kill_while_it_starts(folder.path(), arguments, rng);
            }
            let server = Server::start(folder.path(), arguments);
            let port = server.port();
            // The thread ends when the server is killed.
            let switch = (arguments.contains(&"disk") && rng.chance(128))
                .then(|| thread::spawn(move || switch_policies(port)));
            steps += clients.round(server, round == from, STEPS, rng);
            switch.into_iter().for_each(|switch| switch.join().unwrap());
        }
        clients.check(&Server::start(folder.path(), arguments));
    }
    println!("{rounds} kills, {steps} steps were acknowledged");
}

/// Changes again and again when the log is synced, and whether replies wait for that, until the server is
/// gone.
fn switch_policies(port: u16) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)) else { return };
    for policy in ["everysec", "no", "always"].into_iter().cycle() {
        let command = format!("CONFIG SET appendfsync {policy}\r\n");
        let mut reply = [0; 5];
        if server.write_all(command.as_bytes()).and_then(|()| server.read_exact(&mut reply)).is_err() {
            return;
        }
        assert_eq!(&reply, b"+OK\r\n");
        thread::sleep(Duration::from_millis(3));
    }
}

fn kill_while_it_starts(folder: &Path, arguments: &[&str], rng: &mut Rng) {
    let mut process = Server::spawn(folder, 0, arguments);
    thread::sleep(Duration::from_micros(rng.below(20_000) as u64));
    process.kill().unwrap();
    process.wait().unwrap();
}

impl Served for Server {
    fn port(&self) -> u16 {
        self.port()
    }
}
