//! The clients of one server: eight have a database each, eight change the same keys, and one listens.

use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pheap_testkit::Rng;

use super::after;
use super::owner::Owner;
use super::shared::{self, Ledger, Sharer};
use super::wire::{Reply, Wire, words};

/// Number of clients that have a database of their own.
const OWNERS: usize = 8;
/// Number of clients that share a database.
const SHARERS: usize = 8;

/// A running server. Dropping it kills the server, or cuts its power.
pub(crate) trait Served {
    fn port(&self) -> u16;
}

/// The clients that write, and what they know.
pub(crate) struct Clients {
    owners: Vec<Owner>,
    sharers: Vec<Sharer>,
    ledger: Mutex<Ledger>,
}

impl Clients {
    /// `clocks_differ`: the most by which the server's clock may differ from that of the clients.
    pub(crate) fn new(clocks_differ: Duration) -> Clients {
        Clients {
            owners: (0..OWNERS).map(|_| Owner::default()).collect(),
            sharers: (0..SHARERS).map(|number| Sharer::new(number, clocks_differ)).collect(),
            ledger: Mutex::default(),
        }
    }

    /// Checks the contents of the server (in the first round, prepares them), lets all clients send commands,
    /// and kills the server. A random number of steps, at most `steps`, are done before the kill, or a few
    /// more. Returns the number of steps that were done.
    pub(crate) fn round<S: Served>(
        &mut self,
        server: S,
        is_first: bool,
        steps: usize,
        rng: &mut Rng,
    ) -> usize {
        if is_first {
            shared::prepare(&mut connect(server.port()).unwrap()).unwrap();
        } else {
            self.check(&server);
        }
        // In some rounds, each client must do one more step before the kill: none may be stuck.
        let (enough, all_go_on) = (1 + rng.below(steps), rng.chance(64));
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

    /// Checks the contents of the server after a restart.
    pub(crate) fn check<S: Served>(&mut self, server: &S) {
        for (number, owner) in self.owners.iter_mut().enumerate() {
            owner.check(&mut select(connect(server.port()).unwrap(), number).unwrap()).unwrap();
        }
        let wire = &mut connect(server.port()).unwrap();
        after::check(wire, &mut self.ledger.lock(), &mut self.sharers).unwrap();
    }
}

/// The steps that clients have done.
struct Progress<'p> {
    steps: &'p [AtomicUsize],
    ended: &'p AtomicUsize,
}

impl Progress<'_> {
    /// The number of steps of each client.
    fn now(&self) -> Vec<usize> {
        self.steps.iter().map(|steps| steps.load(Relaxed)).collect()
    }

    /// Waits until `is_so`, or until a client has ended, which would be a failure. Returns false if no client
    /// does a step for 100 seconds.
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

/// Counts a client that has ended, when dropped.
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

/// Selects the database of an owner.
fn select(mut wire: Wire, owner: usize) -> io::Result<Wire> {
    assert_eq!(wire.ask(&words(&format!("SELECT {}", owner + 1)))?, Reply::ok());
    Ok(wire)
}
