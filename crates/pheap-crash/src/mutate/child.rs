//! The search for a program that notices a mutant, and the process that it runs in.

use crate::report::Said;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use pheap::sim::mutant::{Mutant, fired, set_mutant};

use super::programs::{Case, Effort};
use crate::Explorer;

/// A process that prints nothing for longer is taken to hang in its program.
const PATIENCE: Duration = Duration::from_secs(60);

/// Result of the search.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// A program fails.
    Killed {
        /// The program.
        program: String,
        /// First line of its failure.
        why: String,
    },
    /// No program fails, although programs were tried this number of times.
    Survived(usize),
}

/// Explores programs with a mutant until one fails or the time is over. Returns the failure. The first
/// program, which may be a hint, is tried with every effort before the others. Prints each program before it
/// is tried. Returns an error if the program also fails without the mutant.
fn search(mutant: Mutant, cases: &[Case], budget: Duration) -> Result<Option<String>, String> {
    let explorer = Explorer::new(Effort::Quick.limits())?;
    let started = Instant::now();
    let (first, others) = cases.split_at(cases.len().min(1));
    for cases in [first, others] {
        for (effort, case) in
            Effort::ALL.into_iter().flat_map(|effort| cases.iter().map(move |case| (effort, case)))
        {
            if started.elapsed() > budget {
                break;
            }
            println!("begins\t{case}");
            let explore = case.prepare(effort, &explorer)?;
            set_mutant(Some(mutant));
            let result = explore();
            let has_fired = fired() > 0;
            set_mutant(None);
            let Err(why) = result else { continue };
            case.prepare(effort, &explorer)?().map_err(|failure| format!("without any mutant, {failure}"))?;
            if !has_fired {
                return Err(format!("`{case}` fails once, although no mutant was at work: {why}"));
            }
            return Ok(Some(why));
        }
    }
    Ok(None)
}

/// Searches in this process, with the programs on the standard input, and reports the progress to the parent.
pub fn be(mutant: Mutant, budget: Duration) {
    let lines = std::io::stdin().lines().map_while(Result::ok);
    let cases: Result<Vec<Case>, String> = lines.map(|line| line.parse()).collect();
    match cases.and_then(|cases| search(mutant, &cases, budget)) {
        Ok(Some(why)) => println!("killed\t{}", why.lines().next().unwrap_or_default()),
        Ok(None) => println!("survived\t"),
        Err(error) => println!("broken\t{}", error.replace('\n', "\r")),
    }
}

/// The process in which a mutant is tried.
#[derive(Debug)]
pub struct Child {
    mutant: Mutant,
    process: process::Child,
    lines: Receiver<String>,
}

impl Child {
    /// Starts the process: `runner mutate --child`. `which` has the numbers of the programs to explore.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn start(
        runner: &Path,
        mutant: Mutant,
        cases: &[Case],
        which: &[usize],
        budget: Duration,
    ) -> Result<Child, String> {
        let mut process = Command::new(runner)
            .args(["mutate", "--child", &mutant.to_string(), "--budget", &budget.as_secs().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("starting another process: {error}"))?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let text: String = which.iter().map(|&number| format!("{}\n", cases[number])).collect();
        // If the child has ended, `wait` reports the reason.
        let _ = input.expect("a pipe").write_all(text.as_bytes());
        let (told, lines) = channel();
        thread::spawn(move || {
            let mut lines = BufReader::new(output.expect("a pipe")).lines().map_while(Result::ok);
            lines.try_for_each(|line| told.send(line))
        });
        Ok(Child { mutant, process, lines })
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// If the search in the child returns an error, or the child ends before the first program.
    pub fn wait(mut self) -> Result<(Mutant, Verdict), String> {
        let (mut program, mut programs) = (String::new(), 0);
        let verdict = loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => match line.split_once('\t') {
                    Some(("begins", next)) => (program, programs) = (next.to_owned(), programs + 1),
                    Some(("killed", why)) => break Verdict::Killed { program, why: why.to_owned() },
                    Some(("survived", _)) => break Verdict::Survived(programs),
                    Some(("broken", why)) => return Err(why.replace('\r', "\n")),
                    _ => {} // a line that pheap has printed
                },
                Err(RecvTimeoutError::Timeout) => {
                    // This fails if the process has just ended.
                    let _ = self.process.kill();
                    break Verdict::Killed { program, why: "it goes on for ever (hang)".to_owned() };
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.process.wait().said()?;
                    let why = format!("the process ends with {status}");
                    if programs == 0 {
                        return Err(format!("{}: {why}", self.mutant));
                    }
                    break Verdict::Killed { program, why };
                }
            }
        };
        let _ = self.process.wait();
        Ok((self.mutant, verdict))
    }
}
