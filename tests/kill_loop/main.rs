//! `kill -9` at any moment leaves the state before the operation in flight or the state after it, never
//! another one.
//!
//! A child process opens the heap and runs operations without end. Operation `n` is a function of the seed
//! and of `n`. The child reports each finished operation through a pipe. The parent kills the child at a
//! random moment, opens the heap, and compares *all* of its content with a model. The model has done the
//! operations that were acknowledged, and perhaps one more. Then the next child goes on from there. The
//! moments differ from run to run; none of them may make the test fail.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use pheap::{Durability, Error, Options};

mod ops;
mod store;

use ops::{Model, Op};
use pheap_testkit::Rng;
use store::{Store, content};

/// Environment variable of a child: `"{job} {seed} {first operation} {pin undo} {heap}"`. The job is `work`
/// or `open`.
const CHILD: &str = "PHEAP_KILL_LOOP";

/// Environment variable: the number of kills for each of the tests.
const KILLS: &str = "PHEAP_KILLS";

/// Text that a child writes before the number of a finished operation.
const DONE: &str = "done: ";

/// Kills on one heap, or a few more, before the next heap is made. So the creation of heaps is killed, too.
const KILLS_PER_HEAP: u64 = 15;

fn options(pin_undo: bool) -> Options {
    // Small arenas, so that the heap often grows.
    Options::new().durability(Durability::Process).arena_size(1 << 20).reserve(1 << 34).pin_undo(pin_undo)
}

#[test]
fn killed_on_the_short_path() {
    kill_loop(1, false);
}

#[test]
fn killed_on_the_long_path() {
    kill_loop(2, true);
}

fn kill_loop(seed: u64, pin_undo: bool) {
    let kills = std::env::var(KILLS).map_or(200, |kills| kills.parse().expect("a number"));
    let rng = &mut Rng::from_seed(seed);
    let (mut killed, mut operations, mut in_flight) = (0, 0, 0);
    while killed < kills {
        let dir = tempfile::tempdir().unwrap();
        let path = &dir.path().join("killed.pheap");
        let seed = rng.next_u64();
        let (mut model, mut next) = (Model::new(), 1);
        let end = kills.min(killed + KILLS_PER_HEAP);
        while killed < end {
            let mut victim = Victim::start("work", seed, next, pin_undo, path);
            match rng.scaled(4) {
                0 => sleep(Duration::from_micros(rng.scaled(8000))), // perhaps before it opens the heap
                1 => victim.wait(1 + rng.scaled(3)),
                _ => victim.wait(1 + rng.scaled(400)),
            }
            if rng.scaled(2) == 0 {
                sleep(Duration::from_micros(rng.scaled(300)));
            }
            let (was_killed, last) = victim.kill();
            assert!(was_killed, "a child has failed; its message is above");
            killed += 1;
            for number in next..=last.unwrap_or(0) {
                model.run(&Op::new(seed, number), number);
            }
            next = last.map_or(next, |last| last + 1);

            // Kills recovery, too, or a child that has not begun it.
            for _ in 0..rng.scaled(3) {
                let victim = Victim::start("open", seed, next, pin_undo, path);
                sleep(Duration::from_micros(rng.scaled(8000)));
                killed += u64::from(victim.kill().0);
            }

            // Opened read-only, the file stays as the kill has left it, and the next child has to recover it.
            let read_only = rng.scaled(2) == 0;
            let found = match options(pin_undo).read_only(read_only).open(path) {
                Ok(heap) => content(&heap).unwrap(),
                Err(Error::NotAHeap { .. } | Error::Io { .. }) if read_only && next == 1 => Model::new(),
                Err(error) => panic!("{error}"),
            };
            if found != model {
                model.run(&Op::new(seed, next), next);
                let op = Op::new(seed, next);
                assert!(found == model, "seed {seed}: neither before nor after operation {next}, {op:?}");
                next += 1;
                in_flight += 1;
            }
        }
        operations += next - 1;
    }
    println!("{killed} kills, {operations} operations, {in_flight} done but not acknowledged");
}

/// A child process, and the last operation that it has acknowledged.
struct Victim {
    process: Child,
    out: BufReader<ChildStdout>,
    last: Option<u64>,
}

impl Victim {
    fn start(job: &str, seed: u64, next: u64, pin_undo: bool, path: &Path) -> Victim {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD, format!("{job} {seed} {next} {pin_undo} {}", path.display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        Victim { process, out, last: None }
    }

    /// Waits until the child has acknowledged so many more operations, or has ended.
    fn wait(&mut self, operations: u64) {
        for _ in 0..operations {
            if !self.read() {
                return;
            }
        }
    }

    /// Reads the child's next message. Returns `false` if there are no more.
    fn read(&mut self) -> bool {
        let mut line = String::new();
        while self.out.read_line(&mut line).unwrap() > 0 {
            if let Some(number) = line.strip_prefix(DONE) {
                self.last = Some(number.trim_end().parse().unwrap());
                return true;
            }
            line.clear(); // output of the test harness
        }
        false
    }

    /// Kills the child. Returns whether it was still alive, and the last operation that it had acknowledged.
    fn kill(mut self) -> (bool, Option<u64>) {
        let _ = self.process.kill();
        while self.read() {}
        let status = self.process.wait().unwrap();
        assert!(status.success() || status.signal() == Some(9), "a child has failed: {status}");
        (status.signal() == Some(9), self.last)
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.process.kill(); // also when the parent has failed
        let _ = self.process.wait();
    }
}

/// The process that the other tests start and kill: opens the heap, and runs operations until it is killed if
/// that is its job. Returns at once if no other test has started it.
#[test]
fn child() {
    let Ok(child) = std::env::var(CHILD) else { return };
    let mut words = child.splitn(5, ' ');
    let mut word = || words.next().unwrap();
    let (job, seed, first) = (word(), word().parse().unwrap(), word().parse().unwrap());
    let (pin_undo, path) = (word() == "true", word());

    let mut store = Store::open(&options(pin_undo), Path::new(path)).unwrap();
    if job == "open" {
        return;
    }
    let mut out = std::io::stdout();
    writeln!(out).unwrap(); // ends the line that the test harness has begun
    for number in first.. {
        store = store.run(&Op::new(seed, number), number).unwrap();
        // One `write`, so that a kill does not cut it in two.
        out.write_all(format!("{DONE}{number}\n").as_bytes()).unwrap();
    }
}
