//! The search for a program that notices a mutant, and the process that it happens in.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use pheap::sim::mutant::{Mutant, fired, set_mutant};

use super::programs::Case;
use crate::subset::Breadth;
use crate::{Explorer, Limits};

/// A program that is at work for longer is taken to go on for ever. Most take a few milliseconds, and the longest some seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// How thoroughly programs are explored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// At a glance.
    Quick,
    /// More images, and transactions after each recovery.
    Thorough,
    /// And crashes in each recovery.
    Deep,
    /// As the explorer does with programs that are short.
    Wide,
}

impl Effort {
    /// From the quickest to the longest.
    pub const ALL: [Effort; 4] = [Effort::Quick, Effort::Thorough, Effort::Deep, Effort::Wide];

    /// What the explorer is told.
    pub fn limits(self) -> Limits {
        let thorough = Limits {
            breadth: Breadth { exhaustive: 5, corners: 5, random: 12 },
            nested: Breadth { exhaustive: 2, corners: 1, random: 2 },
            after_every: 1,
            deep_every: 16,
            ..Limits::quick(1)
        };
        match self {
            Effort::Quick => Limits { deep_every: 16, ..Limits::quick(1) },
            Effort::Thorough => thorough,
            Effort::Deep => Limits { deep_every: 1, ..thorough },
            Effort::Wide => Limits::wide(1),
        }
    }
}

/// What came of the search.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// A program fails.
    Killed {
        /// Which.
        program: String,
        /// When.
        seconds: f64,
        /// How.
        why: String,
    },
    /// None does.
    Survived {
        /// How many were explored.
        programs: usize,
        /// How long.
        seconds: f64,
    },
}

/// Explores programs with a mutant until one fails that holds without it: the first one with every effort, for it is known to be good, then all others.
/// `begins` is told which one is next.
///
/// # Errors
/// A program that fails in any case.
pub fn search(
    mutant: Mutant,
    cases: &[Case],
    budget: Duration,
    mut begins: impl FnMut(&Case),
) -> Result<Verdict, String> {
    let explorer = Explorer::new(Effort::Quick.limits())?;
    let started = Instant::now();
    let mut programs = 0;
    let (first, others) = cases.split_at(cases.len().min(1));
    for cases in [first, others] {
        for (effort, case) in
            Effort::ALL.into_iter().flat_map(|effort| cases.iter().map(move |case| (effort, case)))
        {
            if started.elapsed() > budget {
                break;
            }
            begins(case);
            programs += 1;
            let ready = case.prepare(effort, &explorer)?;
            set_mutant(Some(mutant));
            let result = ready.explore();
            let has_fired = fired() > 0;
            set_mutant(None);
            let Err(why) = result else { continue };
            let seconds = started.elapsed().as_secs_f64();
            case.prepare(effort, &explorer)?
                .explore()
                .map_err(|failure| format!("without any mutant, {failure}"))?;
            if !has_fired {
                return Err(format!("`{case}` fails once, although no mutant was at work: {why}"));
            }
            return Ok(Verdict::Killed { program: case.to_string(), seconds, why });
        }
    }
    Ok(Verdict::Survived { programs, seconds: started.elapsed().as_secs_f64() })
}

/// Searches in this process, with the programs on the standard input, and tells the parent how it goes.
pub fn be(mutant: Mutant, budget: Duration) {
    let lines = std::io::stdin().lines().map_while(Result::ok);
    let cases: Result<Vec<Case>, String> = lines.map(|line| line.parse()).collect();
    let begins = |case: &Case| println!("begins\t{case}");
    let text = match cases.and_then(|cases| search(mutant, &cases, budget, begins)) {
        Ok(Verdict::Killed { program, seconds, why }) => {
            format!("killed\t{program}\t{seconds}\t{}", why.replace('\n', "\r"))
        }
        Ok(Verdict::Survived { programs, seconds }) => format!("survived\t{programs}\t{seconds}"),
        Err(error) => format!("broken\t{}", error.replace('\n', "\r")),
    };
    println!("{text}");
}

/// The process in which a mutant is tried.
pub struct Child {
    mutant: Mutant,
    process: process::Child,
    lines: Receiver<String>,
    started: Instant,
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("mutant", &self.mutant).finish_non_exhaustive()
    }
}

impl Child {
    /// Starts it: `runner mutate --child`. `which`: numbers of the programs to explore.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(
        runner: &Path,
        mutant: Mutant,
        cases: &[Case],
        which: &[usize],
        budget: Duration,
    ) -> Result<Child, String> {
        let error = |e: std::io::Error| format!("starting another process: {e}");
        let mut process = Command::new(runner)
            .args(["mutate", "--child", &mutant.to_string(), "--budget", &budget.as_secs().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(error)?;
        let (mut input, output) = (process.stdin.take(), process.stdout.take());
        let text: String = which.iter().map(|&number| format!("{}\n", cases[number])).collect();
        if let Some(input) = &mut input {
            // A child that has ended says why elsewhere.
            let _ = input.write_all(text.as_bytes());
        }
        drop(input);
        let (told, lines) = channel();
        if let Some(output) = output {
            thread::spawn(move || {
                let mut lines = BufReader::new(output).lines().map_while(Result::ok);
                lines.try_for_each(|line| told.send(line))
            });
        }
        Ok(Child { mutant, process, lines, started: Instant::now() })
    }

    /// Waits for what comes of it.
    ///
    /// # Errors
    /// If something is wrong without the mutant.
    pub fn wait(mut self) -> Result<(Mutant, Verdict), String> {
        let mut running = String::new();
        let killed = |program: &str, why: String, started: Instant| Verdict::Killed {
            program: program.to_owned(),
            seconds: started.elapsed().as_secs_f64(),
            why,
        };
        let verdict = loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    let mut parts = line.split('\t');
                    let mut next = || parts.next().unwrap_or_default().to_owned();
                    match (next().as_str(), next()) {
                        ("begins", program) => running = program,
                        ("killed", program) => {
                            let seconds = next().parse().unwrap_or_default();
                            break Verdict::Killed { program, seconds, why: next().replace('\r', "\n") };
                        }
                        ("survived", programs) => {
                            let programs = programs.parse().unwrap_or_default();
                            let seconds = next().parse().unwrap_or_default();
                            break Verdict::Survived { programs, seconds };
                        }
                        ("broken", why) => return Err(why.replace('\r', "\n")),
                        _ => {} // what pheap says is none of ours
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    // It may have ended meanwhile.
                    let _ = self.process.kill();
                    break killed(&running, "it goes on for ever (hang)".to_owned(), self.started);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.process.wait().map_err(|e| e.to_string())?;
                    if running.is_empty() {
                        return Err(format!("{}: a child ends with {status}", self.mutant));
                    }
                    break killed(&running, format!("the process ends with {status}"), self.started);
                }
            }
        };
        let _ = self.process.wait();
        Ok((self.mutant, verdict))
    }
}
