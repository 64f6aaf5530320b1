//! What the examples share: they start themselves again, and kill what they have started.

use std::error::Error;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// What has become of a program.
#[derive(Debug)]
pub struct Victim {
    /// What it has printed.
    pub lines: Vec<String>,
    /// How it has ended.
    pub status: ExitStatus,
}

impl Victim {
    /// Whether it was killed, and has not ended by itself.
    pub fn was_killed(&self) -> bool {
        self.status.signal() == Some(9)
    }
}

/// Runs this program once more, with these arguments, and ends it with `kill -9` so long after it has printed its first line.
///
/// # Errors
/// If it cannot be started, or fails by itself.
pub fn run_and_kill<A: AsRef<OsStr>>(
    args: impl IntoIterator<Item = A>,
    after: Duration,
) -> io::Result<Victim> {
    let mut child = Command::new(std::env::current_exe()?).args(args).stdout(Stdio::piped()).spawn()?;
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    // Read by a thread, so that it never waits for us.
    let (begin, has_begun) = mpsc::channel();
    let reader = thread::spawn(move || {
        lines.map_while(Result::ok).inspect(|_| _ = begin.send(())).collect::<Vec<String>>()
    });
    if has_begun.recv().is_ok() {
        thread::sleep(after);
    }
    child.kill()?; // SIGKILL
    let status = child.wait()?;
    let victim = Victim { lines: reader.join().expect("it does not panic"), status };
    if victim.was_killed() || status.success() {
        Ok(victim)
    } else {
        Err(io::Error::other(format!("the program that was to be killed has failed: {status}")))
    }
}

/// What a program ends with. An error is told on standard error.
pub fn exit_code(result: Result<(), Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Random numbers below a bound (xorshift).
pub fn random(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |bound| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (((state >> 32) * bound as u64) >> 32) as usize
    }
}
