//! A server in a virtual machine, whose power is cut: see docs/power-cuts.md.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use pheap_testkit::Rng;

use crate::common::{Client, free_port};
use crate::oracle::clients::Served;

/// The program that runs a command in a virtual machine.
const DAX_VM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ci/dax-vm/dax-vm");
/// Exit statuses of [`DAX_VM`]: the power was cut; the time limit has passed, or the machine failed.
const POWER_CUT: i32 = 137;
const RIG_FAILED: [i32; 2] = [124, 125];

/// The server's clock differs from that of the test by less than this. The guest's clock begins at a whole
/// second.
pub(crate) const CLOCKS_DIFFER: Duration = Duration::from_secs(4);

/// How a machine is started. All machines of a folder have the same disk.
pub(crate) struct Setup<'s> {
    /// Folder of the disk's image and of the machine's output.
    pub(crate) folder: &'s Path,
    /// Arguments of the server.
    pub(crate) arguments: &'s [&'s str],
    /// Whether the disk has a volatile write cache.
    pub(crate) forgets: bool,
}

impl Setup<'_> {
    /// Starts a machine, and the server in it.
    fn spawn(&self, port: u16, options: &[&str], rng: &mut Rng) -> Child {
        let path = |name: &str| self.folder.join(name).into_os_string();
        let mut command = Command::new("python3");
        command.args(["-B", DAX_VM, "run", "--timeout", "300", "--forward", &format!("{port}:6379")]);
        command.args(["--seed", &(rng.next_u64() >> 32).to_string()]).args(options);
        command.arg("--console").arg(path("console"));
        command.arg("--disk").arg(path("disk.img")).args(["--disk-size", "256"]);
        // A machine always has a persistent memory. The test does not use it.
        command.arg("--nvdimm").arg(path("unused.img")).args(["--size", "64"]);
        if self.forgets {
            // A slow flush, so that the cache mostly holds something when the power fails.
            let ms = (1 + rng.below(30)).to_string();
            command.args(["--disk-cache", "volatile", "--flush-ms", &ms]);
        }
        command.args(["--", env!("CARGO_BIN_EXE_pheap-redis"), "--heap", "/disk/heap", "--port", "6379"]);
        command.args(["--set", "bind 0.0.0.0", "--set", "protected-mode no"]).args(self.arguments);
        let file = |name| File::create(self.folder.join(name)).unwrap();
        command
            .stdin(Stdio::piped())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .expect("Python is there")
    }

    fn said(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap()
    }

    /// Copies the image of the disk, if there is one, to `before.img`.
    fn keep(&self) {
        let (disk, before) = (self.folder.join("disk.img"), self.folder.join("before.img"));
        if disk.exists() {
            let status = Command::new("cp").arg("--sparse=always").args([disk, before]).status().unwrap();
            assert!(status.success());
        }
    }

    /// Returns whether the machine failed before the server printed anything: then the run says nothing about
    /// the server. An emulated machine hangs now and then.
    fn is_no_machine(&self, status: i32) -> bool {
        let is_none = RIG_FAILED.contains(&status) && self.said("out").is_empty();
        if is_none {
            println!("the machine did not start: {}", self.said("err").trim());
        }
        is_none
    }

    /// Starts a machine, and waits until its server serves clients.
    pub(crate) fn start(&self, rng: &mut Rng) -> Machine {
        self.keep();
        for _ in 0..3 {
            let port = free_port();
            let mut process = self.spawn(port, &["--kill-on-eof"], rng);
            let status = loop {
                if self.said("out").contains("clients connect to") {
                    let linger = Duration::from_micros(rng.below(60_000) as u64);
                    let machine = Machine { process, port, linger, err: self.folder.join("err") };
                    machine.look_at_the_clock();
                    return machine;
                }
                match process.try_wait().unwrap() {
                    Some(status) => break status.code().unwrap_or_default(),
                    None => thread::sleep(Duration::from_millis(10)),
                }
            };
            assert!(
                self.is_no_machine(status),
                "the server has not started (status {status}): {}",
                self.said("err").trim()
            );
        }
        panic!("three machines in a row did not start; see {}", self.folder.join("console").display());
    }

    /// Starts a machine, and cuts its power 5 to 404 ms after the start of the server.
    pub(crate) fn cut_while_it_starts(&self, rng: &mut Rng) {
        self.keep();
        let ms = (5 + rng.below(400)).to_string();
        for _ in 0..3 {
            let mut process = self.spawn(free_port(), &["--kill-after", &ms], rng);
            let status = process.wait().unwrap().code().unwrap_or_default();
            if status == POWER_CUT {
                println!("while it starts: {}", self.said("err").trim());
                return;
            }
            assert!(
                self.is_no_machine(status),
                "the server has ended (status {status}): {}",
                self.said("err").trim()
            );
        }
        panic!("three machines in a row did not start; see {}", self.folder.join("console").display());
    }
}

/// A machine that runs. Its power is cut when this is dropped.
pub(crate) struct Machine {
    process: Child,
    port: u16,
    /// How long `drop` waits before it cuts the power. Replies arrive when a sync has ended, but the power
    /// shall fail at other moments, too.
    linger: Duration,
    err: PathBuf,
}

impl Machine {
    /// Checks that the clocks differ by less than [`CLOCKS_DIFFER`]. The checks of deadlines rely on it.
    fn look_at_the_clock(&self) {
        let mut client = Client::connect(self.port).unwrap();
        let time = client.ask("TIME");
        let seconds: i64 = time.trim_start_matches('[').split(' ').next().unwrap().parse().unwrap();
        let ours = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let differ = seconds.abs_diff(ours as i64);
        assert!(differ < CLOCKS_DIFFER.as_secs(), "the machine's clock is {differ} seconds from ours");
    }
}

impl Served for Machine {
    fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        thread::sleep(self.linger);
        drop(self.process.stdin.take());
        let status = self.process.wait().unwrap();
        let said = fs::read_to_string(&self.err).unwrap_or_else(|error: io::Error| error.to_string());
        println!("{}", said.trim());
        if !thread::panicking() {
            assert_eq!(status.code(), Some(POWER_CUT), "the server has ended before the power was cut");
        }
    }
}
