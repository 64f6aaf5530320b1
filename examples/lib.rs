//! Functions that the examples share.

use std::error::Error;
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The output and the end of a program.
#[derive(Debug)]
pub struct Victim {
    /// Lines that the program printed.
    pub lines: Vec<String>,
    /// Exit status of the program.
    pub status: ExitStatus,
}

impl Victim {
    /// Returns whether the program was killed. Otherwise it ended by itself.
    pub fn was_killed(&self) -> bool {
        self.status.signal() == Some(9)
    }
}

/// Runs this program again with these arguments. Ends it with `kill -9` when `after` has passed since its
/// first line of output.
///
/// # Errors
/// If the program cannot be started, killed or waited for, or fails by itself.
pub fn run_and_kill<A: AsRef<OsStr>>(
    args: impl IntoIterator<Item = A>,
    after: Duration,
) -> io::Result<Victim> {
    let mut child = Command::new(std::env::current_exe()?).args(args).stdout(Stdio::piped()).spawn()?;
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    // A thread reads the output, so that the child never waits for this process.
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

/// Returns the exit code of a program. Prints an error, if there is one, to standard error.
pub fn exit_code(result: Result<(), Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns a function that returns random numbers below a bound (xorshift).
pub fn random(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |bound| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (((state >> 32) * bound as u64) >> 32) as usize
    }
}
