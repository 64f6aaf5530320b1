//! Child processes that are killed, so that a heap is left without being closed.
//!
//! A program that calls [`serve`] first can start itself again to do a job. The child reports its figures,
//! and then waits until it is killed.

use crate::Result;
use pheap::Durability;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// Variable that makes a process a child, with its job: `"{job} {durability} {n} {heap}"`.
const CHILD: &str = "PHEAP_BENCH_CHILD";

/// Figures that a child measures, with their names.
pub(crate) type Figures = Vec<(&'static str, f64)>;

/// A job of a child. It gets a durability, a size and the file of a heap.
pub(crate) struct Job {
    pub(crate) name: &'static str,
    pub(crate) work: fn(Durability, u64, &Path) -> Result<Figures>,
}

/// Does the job that this process was started for, and never returns. Does nothing in a process that is no
/// child.
pub(crate) fn serve(jobs: impl Iterator<Item = &'static Job>) {
    let Ok(child) = std::env::var(CHILD) else { return };
    let code = match run(&child, jobs) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("a child failed: {error}");
            1
        }
    };
    // Ends without destructors, which would close the heap.
    std::process::exit(code)
}

fn run(child: &str, mut jobs: impl Iterator<Item = &'static Job>) -> Result<()> {
    let mut words = child.splitn(4, ' ');
    let mut word = || words.next().ok_or("a job has four words");
    let (name, durability, n, path) = (word()?, word()?, word()?.parse()?, Path::new(word()?));
    let durability = crate::scratch::named(durability).ok_or("there is no such durability")?;
    let job = jobs.find(|job| job.name == name).ok_or("there is no such job")?;
    let figures = (job.work)(durability, n, path)?;
    await_death(&figures)
}

/// Reports the figures, and waits until the process is killed. Returns only if the parent has ended.
pub(crate) fn await_death(figures: &Figures) -> Result<()> {
    let line: String = figures.iter().map(|(name, figure)| format!("{name}={figure:?} ")).collect();
    let mut out = std::io::stdout();
    writeln!(out, "{}", line.trim_end())?;
    out.flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Starts a child, waits until it has done its job, and kills it.
pub(crate) fn killed_after(job: &str, durability: Durability, n: u64, path: &Path) -> Result<Answer> {
    let name = crate::scratch::name(durability);
    let mut child = Command::new(std::env::current_exe()?)
        .env(CHILD, format!("{job} {name} {n} {}", path.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    let stdout = child.stdout.take().ok_or("its output is piped")?;
    let read = BufReader::new(stdout).read_line(&mut line);
    child.kill()?;
    child.wait()?;
    if read? == 0 {
        return Err(format!("the child that was to {job} has said nothing").into());
    }
    let figures = line.split_whitespace().map(|word| -> Result<(String, f64)> {
        let (name, figure) = word.split_once('=').ok_or("a figure has a name")?;
        Ok((name.to_owned(), figure.parse()?))
    });
    Ok(Answer(figures.collect::<Result<_>>()?))
}

/// The figures of a child.
pub(crate) struct Answer(Vec<(String, f64)>);

impl Answer {
    pub(crate) fn get(&self, name: &str) -> Result<f64> {
        let found = self.0.iter().find(|figure| figure.0 == name).map(|figure| figure.1);
        found.ok_or_else(|| format!("the child has not said its {name}").into())
    }
}
