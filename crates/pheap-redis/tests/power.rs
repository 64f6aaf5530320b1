//! Cuts the power of a server's machine at random moments. After a restart, the server must have all that it
//! acknowledged, and each other command wholly or not at all. This is the test of `kill.rs` with power cuts
//! of a virtual machine instead of kills.
//!
//! The clients run outside of the machine, so the replies that they have read have left it.
//! `ci/power-cut.sh --server` sets up the machine and runs this test; `cargo test` alone does not run it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use pheap_testkit::Rng;

mod common;
mod machine;
mod oracle;

use machine::{CLOCKS_DIFFER, Setup};
use oracle::clients::Clients;
use oracle::{ROUNDS, SEED, from_environment};

/// Greatest random number of acknowledged steps before the power is cut. There may be a few more.
const STEPS: usize = 2000;
/// Number of power cuts with one heap.
const CUTS_PER_HEAP: usize = 10;

/// Arguments of servers. The log is so short that it is folded into the heap's file while clients write.
const SERVERS: &[&[&str]] = &[
    &["--threads", "2", "--set", "appendfsync always", "--set", "auto-aof-rewrite-min-size 128kb"],
    &["--threads", "1", "--set", "appendfsync always", "--set", "auto-aof-rewrite-min-size 256kb"],
];

/// Arguments with which a server promises less than it should, and a part of the message of the failure.
const MISTAKES: &[(&[&str], &str)] =
    &[(&["--set", "appendfsync no"], "acknowledged"), (&["--durability", "process"], "Durability::Process")];

#[test]
fn what_was_acknowledged_is_there() {
    let (rounds, seed) = (from_environment(ROUNDS, 10) as usize, from_environment(SEED, 1));
    println!("{SEED}={seed}");
    let mut steps = 0;
    for (heap, from) in (0..rounds).step_by(CUTS_PER_HEAP).enumerate() {
        let folder = Folder::new();
        let to = rounds.min(from + CUTS_PER_HEAP);
        steps += cuts(&folder.0, SERVERS[heap % SERVERS.len()], from..to, seed);
        folder.remove();
    }
    println!("{rounds} power cuts, {steps} steps were acknowledged");
}

/// The test must fail with servers that promise less than they should.
#[test]
fn mistakes_are_noticed() {
    let (rounds, seed) = (from_environment(ROUNDS, 10) as usize, from_environment(SEED, 1));
    println!("{SEED}={seed}");
    for (arguments, how) in MISTAKES {
        let folder = Folder::new();
        let noticed = catch_unwind(AssertUnwindSafe(|| cuts(&folder.0, arguments, 0..rounds, seed)));
        let message = message(&*noticed.expect_err("a server that promises too little is noticed"));
        assert!(message.contains(how), "{arguments:?}: not as expected: {message}");
        println!("{arguments:?}: noticed");
        folder.remove();
    }
}

/// Cuts the power of a server at least once in each round. Returns the number of steps that were done.
fn cuts(folder: &Path, arguments: &[&str], rounds: std::ops::Range<usize>, seed: u64) -> usize {
    let (mut clients, mut all) = (Clients::new(CLOCKS_DIFFER), 0);
    let first = rounds.start;
    for round in rounds {
        let rng = &mut Rng::new(&[seed, round as u64]);
        let setup = Setup { folder, arguments, forgets: round % 2 == 1 };
        if rng.chance(64) {
            setup.cut_while_it_starts(rng);
        }
        let steps = clients.round(setup.start(rng), round == first, STEPS, rng);
        println!("round {round}{}: {steps} steps", if setup.forgets { ", a cache that forgets" } else { "" });
        all += steps;
    }
    let setup = Setup { folder, arguments, forgets: false };
    clients.check(&setup.start(&mut Rng::from_seed(seed)));
    all
}

/// A folder that stays unless the test removes it.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> Folder {
        let folder = tempfile::Builder::new().prefix("power-cut-").tempdir().unwrap().keep();
        println!("images are in {}; before.img is the disk as the last power cut left it", folder.display());
        Folder(folder)
    }

    fn remove(self) {
        std::fs::remove_dir_all(self.0).unwrap();
    }
}

/// Returns the message of a panic.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}
