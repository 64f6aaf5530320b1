//! What several of the tests need.

#![allow(dead_code)] // each of them needs a part

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

/// splitmix64: the same numbers in each run, and in each process.
#[derive(Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// The program of an example, built as these tests are. `cargo test` has built it, unless it was told to build one test only.
pub(crate) fn example(name: &str) -> PathBuf {
    static BUILD: Mutex<()> = Mutex::new(());
    // target/<profile>/deps/<this test>
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().unwrap().parent().unwrap();
    let program = profile.join("examples").join(name);
    let _one_at_a_time = BUILD.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !program.exists() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "pheap-suite", "--example", name]);
        cargo.arg("--target-dir").arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo can be run");
        assert!(status.success(), "cannot build the example {name:?}");
    }
    program
}
