//! A server that is killed at any moment has what it has acknowledged, wholly, and nothing half done.
//!
//! Sixteen clients send commands of all kinds, and one listens. Eight have a database each, and know exactly what must be in it; eight change the same keys, of which something
//! is always so (see `oracle`). After so many acknowledged steps the server is killed (SIGKILL), started again, now and then killed while it starts, and everything is looked at.
//! What the clients send is a function of the seed; how they meet is not.
//!
//! `PHEAP_ORACLE_ROUNDS=1000 PHEAP_ORACLE_SEED=7 cargo test --release -p pheap-redis --test kill -- --nocapture`

use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pheap_testkit::Rng;

mod common;
mod oracle;

use common::Server;
use oracle::owner::Owner;
use oracle::shared::{self, Ledger, Sharer};
use oracle::wire::{Reply, Wire, words};

/// Kills, for a longer run than usual.
const ROUNDS: &str = "PHEAP_ORACLE_ROUNDS";
/// What is random.
const SEED: &str = "PHEAP_ORACLE_SEED";

/// Clients that have a database of their own.
const OWNERS: usize = 8;
/// Clients that share one.
const SHARERS: usize = 8;

/// Acknowledged steps between two kills, at most.
const STEPS: usize = 2000;
/// Kills of a server with one heap, before the next one has its turn.
const KILLS_PER_HEAP: usize = 4;

/// How servers are started. `everysec` promises as much as the others if the power stays.
const SERVERS: &[&[&str]] = &[
    &["--durability", "process", "--threads", "2"],
    &["--durability", "disk", "--threads", "2"],
    &["--durability", "pmem", "--threads", "1"],
    &["--durability", "disk", "--threads", "2", "--set", "appendfsync everysec"],
    &["--durability", "disk", "--threads", "1"],
    &["--durability", "pmem", "--threads", "2"],
    &["--durability", "process", "--threads", "1"],
];

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn what_was_acknowledged_is_there() {
    let (rounds, seed) = (from_environment(ROUNDS, 20) as usize, from_environment(SEED, 1));
    println!("{SEED}={seed}");
    let mut steps = 0;
    for (heap, from) in (0..rounds).step_by(KILLS_PER_HEAP).enumerate() {
        let arguments = SERVERS[heap % SERVERS.len()];
        let folder = tempfile::tempdir().unwrap();
        let mut clients = Clients::new();
        for round in from..rounds.min(from + KILLS_PER_HEAP) {
            println!("round {round}, {arguments:?}");
            let rng = &mut Rng::new(&[seed, round as u64]);
            if rng.chance(64) {
                kill_while_it_starts(folder.path(), arguments, rng);
            }
            steps += clients.round(folder.path(), arguments, round == from, rng);
        }
        clients.check(&Server::start(folder.path(), arguments));
    }
    println!("{rounds} kills, {steps} steps were acknowledged");
}

fn kill_while_it_starts(folder: &Path, arguments: &[&str], rng: &mut Rng) {
    let mut process = Server::spawn(folder, 0, arguments);
    thread::sleep(Duration::from_micros(rng.below(20_000) as u64));
    process.kill().unwrap();
    process.wait().unwrap();
}

struct Clients {
    owners: Vec<Owner>,
    sharers: Vec<Sharer>,
    ledger: Mutex<Ledger>,
}

impl Clients {
    fn new() -> Clients {
        Clients {
            owners: (0..OWNERS).map(|_| Owner::default()).collect(),
            sharers: (0..SHARERS).map(Sharer::new).collect(),
            ledger: Mutex::default(),
        }
    }

    /// Starts a server, looks at what it has, lets clients do something, and kills it. How many steps were acknowledged.
    fn round(&mut self, folder: &Path, arguments: &[&str], is_first: bool, rng: &mut Rng) -> usize {
        let server = Server::start(folder, arguments);
        if is_first {
            shared::prepare(&mut connect(server.port()).unwrap()).unwrap();
        } else {
            self.check(&server);
        }
        // Now and then, nobody may be stuck when the server is killed.
        let (enough, all_go_on) = (1 + rng.below(STEPS), rng.chance(64));
        let (steps, ended) = (&[const { AtomicUsize::new(0) }; OWNERS + SHARERS], AtomicUsize::new(0));
        let (port, ledger) = (server.port(), &self.ledger);
        thread::scope(|scope| {
            for (number, owner) in self.owners.iter_mut().enumerate() {
                let (mut rng, ended) = (Rng::from_seed(rng.next_u64()), Ended(&ended));
                let done = move || _ = steps[number].fetch_add(1, Relaxed);
                scope.spawn(move || {
                    let _ended = ended;
                    let wire = connect(port).and_then(|wire| select(wire, number));
                    wire.and_then(|mut wire| owner.run(&mut wire, &mut rng, &done)).unwrap_err()
                });
            }
            for (number, sharer) in self.sharers.iter_mut().enumerate() {
                let (mut rng, ended) = (Rng::from_seed(rng.next_u64()), Ended(&ended));
                let done = move || _ = steps[OWNERS + number].fetch_add(1, Relaxed);
                scope.spawn(move || {
                    let _ended = ended;
                    sharer.run(&|| connect(port), ledger, &mut rng, &done).unwrap_err()
                });
            }
            scope.spawn(move || connect(port).and_then(|mut wire| shared::listen(&mut wire, ledger)));
            let progress = Progress { steps, ended: &ended };
            let is_stuck = !progress.wait(|now| now.iter().sum::<usize>() >= enough)
                || all_go_on && {
                    let before = progress.now();
                    !progress.wait(|now| now.iter().zip(&before).all(|(now, before)| now > before))
                };
            drop(server);
            assert!(!is_stuck, "no client was answered for a long time");
        });
        steps.iter().map(|steps| steps.load(Relaxed)).sum()
    }

    /// Looks at everything.
    fn check(&mut self, server: &Server) {
        for (number, owner) in self.owners.iter_mut().enumerate() {
            owner.check(&mut select(connect(server.port()).unwrap(), number).unwrap()).unwrap();
        }
        let wire = &mut connect(server.port()).unwrap();
        shared::check(wire, &mut self.ledger.lock(), &mut self.sharers).unwrap();
    }
}

/// What clients have done.
struct Progress<'p> {
    steps: &'p [AtomicUsize],
    ended: &'p AtomicUsize,
}

impl Progress<'_> {
    /// The number of steps of each client.
    fn now(&self) -> Vec<usize> {
        self.steps.iter().map(|steps| steps.load(Relaxed)).collect()
    }

    /// Waits until it is so, or a client has ended, which it should not. False if nothing goes on.
    fn wait(&self, is_so: impl Fn(&[usize]) -> bool) -> bool {
        let (mut before, mut since) = (Vec::new(), Instant::now());
        while self.ended.load(Relaxed) == 0 {
            let now = self.now();
            if is_so(&now) {
                break;
            }
            if now != before {
                (before, since) = (now, Instant::now());
            } else if since.elapsed() > Duration::from_secs(100) {
                return false;
            }
            thread::sleep(Duration::from_micros(200));
        }
        true
    }
}

/// Says that a client has ended.
struct Ended<'e>(&'e AtomicUsize);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn connect(port: u16) -> io::Result<Wire> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    Ok(Wire::new(stream))
}

/// Goes to the database of an owner.
fn select(mut wire: Wire, owner: usize) -> io::Result<Wire> {
    assert_eq!(wire.ask(&words(&format!("SELECT {}", owner + 1)))?, Reply::ok());
    Ok(wire)
}
