//! What the tests share: small heaps, child processes, and the bytes of a heap file.
#![allow(dead_code)] // each test program uses a part of it

pub(crate) mod killed;
pub(crate) mod sample;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use pheap::{Durability, Options};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const PAGE: usize = 4096;

/// Options for heaps that cost little.
pub(crate) fn small() -> Options {
    Options::new().arena_size(MIB).reserve(1 << 30).durability(Durability::Process)
}

/// Both paths of a transaction: short ones, and all of them long.
pub(crate) fn both() -> [Options; 2] {
    [small(), small().pin_undo(true)]
}

pub(crate) fn tempdir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

// --- child processes: this test program again, to run one test in another role -----------------------------------------

const ROLE: &str = "PHEAP_TEST_ROLE";
const PLACE: &str = "PHEAP_TEST_PATH";

/// The role of this process and its path, if it was started by [`child`].
pub(crate) fn role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, PathBuf::from(std::env::var_os(PLACE)?)))
}

/// A process that runs the test called `test` in this role.
pub(crate) fn child(test: &str, role: &str, path: &Path) -> Command {
    let this = || Command::new(std::env::current_exe().expect("a path"));
    // Without the test, the program would do nothing, and say that all is well.
    let listed = this().args([test, "--exact", "--list"]).output().expect("the names of the tests").stdout;
    assert!(String::from_utf8_lossy(&listed).contains(": test"), "there is no test {test}");
    let mut command = this();
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).env(PLACE, path).stdout(Stdio::null());
    command
}

/// Runs a child to its end.
pub(crate) fn run(test: &str, role: &str, path: &Path) -> ExitStatus {
    child(test, role, path).status().expect("the test program can be started")
}

/// Runs a child that is to end by [`die`].
pub(crate) fn run_killed(test: &str, role: &str, path: &Path) {
    let status = run(test, role, path);
    assert_eq!(status.signal(), Some(libc::SIGKILL), "{role}: {status}");
}

/// Runs a child that is to end well.
pub(crate) fn run_well(test: &str, role: &str, path: &Path) {
    let status = run(test, role, path);
    assert!(status.success(), "{role}: {status}");
}

/// `kill -9` of this very process.
pub(crate) fn die() -> ! {
    // SAFETY: a signal to this process; nothing runs after it.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    loop {
        std::thread::park();
    }
}

/// In a child: says that it is ready, and waits until its parent closes the pipe.
pub(crate) fn ready_and_wait(path: &Path) {
    std::fs::write(path.with_extension("ready"), "").expect("a file");
    let _ = std::io::read_to_string(std::io::stdin());
}

/// Starts a child and waits until it is ready. It ends when it is [`release`]d.
pub(crate) fn start(test: &str, role: &str, path: &Path) -> Child {
    let mut child =
        child(test, role, path).stdin(Stdio::piped()).spawn().expect("the test program can be started");
    let (ready, since) = (path.with_extension("ready"), Instant::now());
    while !ready.exists() {
        assert!(child.try_wait().expect("a child").is_none(), "the child has ended");
        assert!(since.elapsed() < Duration::from_secs(60), "the child does not get ready");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::remove_file(ready).expect("it was there");
    child
}

pub(crate) fn release(mut child: Child) {
    drop(child.stdin.take());
    assert!(child.wait().expect("a child").success());
}

// --- the file --------------------------------------------------------------------------------------------------------

pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

pub(crate) fn set_word(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Offset of the header slot with the higher sequence number.
pub(crate) fn newest_slot(bytes: &[u8]) -> usize {
    if word(bytes, 16) > word(bytes, PAGE + 16) { 0 } else { PAGE }
}

/// Where the heap is to be mapped.
pub(crate) fn base_of(bytes: &[u8]) -> u64 {
    word(bytes, newest_slot(bytes) + 80)
}

/// Changes a word of a header slot, and its checksum.
pub(crate) fn patch_header(bytes: &mut [u8], slot: usize, number: usize, value: u64) {
    set_word(bytes, slot + number * 8, value);
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[slot..slot + 63 * 8]);
    set_word(bytes, slot + 63 * 8, sum);
}

/// All places where `needle` is in `bytes`.
pub(crate) fn find(bytes: &[u8], needle: &[u8]) -> Vec<usize> {
    bytes.windows(needle.len()).enumerate().filter(|(_, w)| *w == needle).map(|(i, _)| i).collect()
}

// --- a deterministic source of numbers ---------------------------------------------------------------------------------

pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}
