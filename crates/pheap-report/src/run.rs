//! Runs benchmarks, and shows the progress.

use crate::Result;
use crate::compile;
use crate::machine;
use crate::results::{Results, Section};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What can be run.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Part {
    /// The micro-benchmarks: `cargo bench --bench paper`.
    Paper,
    /// Embedded stores: `cargo bench --bench stores`.
    Stores,
    /// What `#[txn]` and the derives add to a build.
    Compile,
}

impl Part {
    /// Returns the approximate number of rows of the part, if no earlier run is known.
    fn rows(self) -> u64 {
        match self {
            Part::Paper => 180,
            Part::Stores => 64,
            Part::Compile => compile::ROWS,
        }
    }
}

/// Settings of a run.
pub(crate) struct Run<'a> {
    pub(crate) repository: &'a Path,
    pub(crate) quick: bool,
    pub(crate) dir: Option<&'a Path>,
    pub(crate) disk: Option<&'a Path>,
    pub(crate) save: Option<&'a Path>,
    /// Results of the previous run.
    pub(crate) before: &'a Results,
}

impl Run<'_> {
    /// Measures these parts. Shows the progress on standard error.
    pub(crate) fn measure(&self, parts: &[Part]) -> Result<Section> {
        let heaps = self.dir.unwrap_or(Path::new("/dev/shm"));
        let disk = self.disk.unwrap_or(self.repository);
        let media = [("heaps", heaps), ("stores", disk)];
        let mut sink = Sink {
            section: Section::new(machine::describe(self.repository, self.quick, &media)?),
            save: self.save.map(File::create).transpose()?,
            bar: ProgressBar::new(parts.iter().map(|part| self.expected(*part)).sum()),
        };
        let meta = sink.section.text();
        sink.save.as_mut().map_or(Ok(()), |file| file.write_all(meta.as_bytes()))?;
        let style = "{spinner} {elapsed_precise} {bar:24} {pos}/{len} rows  {wide_msg}";
        sink.bar.set_style(ProgressStyle::with_template(style)?);
        sink.bar.enable_steady_tick(Duration::from_millis(200));
        for &part in parts {
            match part {
                Part::Paper => self.bench("paper", "--dir", self.dir, &mut sink)?,
                Part::Stores => self.bench("stores", "--dir", self.disk, &mut sink)?,
                Part::Compile => compile::measure(self.repository, self.quick, &mut sink)?,
            }
        }
        sink.bar.finish_and_clear();
        Ok(sink.section)
    }

    /// Returns the number of expected rows: that of the previous run if it was of the same kind.
    fn expected(&self, part: Part) -> u64 {
        let sections = self.before.sections.iter();
        let same =
            sections.filter(|section| section.meta.as_ref().is_some_and(|meta| meta.quick == self.quick));
        let rows = same.flat_map(|section| &section.rows).filter(|row| row.part() == part).count() as u64;
        if rows > 0 { rows } else { part.rows() }
    }

    fn bench(&self, name: &str, option: &str, dir: Option<&Path>, sink: &mut Sink) -> Result<()> {
        let mut command = compile::cargo();
        command.current_dir(self.repository).args(["bench", "--bench", name, "--"]);
        match (name, self.quick) {
            (_, true) => drop(command.arg("--quick")),
            // Fewer threads and entries, to save time.
            ("stores", false) => drop(command.args(["--threads", "1,4,16", "--inserts", "150000"])),
            _ => {}
        }
        if let Some(dir) = dir {
            command.arg(option).arg(std::path::absolute(dir)?);
        }
        sink.bar.set_message(format!("{name}: is built"));
        let bar = sink.bar.clone();
        let said = lines_of(command, |line| sink.line(line), move |line| bar.set_message(line.to_owned()))?;
        // The program leaves out systems that are not installed, and prints a line for each.
        let missing = said.iter().filter(|line| line.contains("install"));
        missing.for_each(|line| sink.bar.println(line));
        Ok(())
    }
}

/// Receives the rows.
pub(crate) struct Sink {
    section: Section,
    save: Option<File>,
    bar: ProgressBar,
}

impl Sink {
    /// Adds a row.
    pub(crate) fn line(&mut self, line: &str) -> Result<()> {
        self.section.push(line)?;
        if let Some(file) = &mut self.save {
            writeln!(file, "{line}")?;
        }
        self.bar.inc(1);
        if let Some(row) = self.section.rows.last() {
            self.say(format!("{} {} {} {}", row.bench, row.n, row.system, row.variant));
        }
        Ok(())
    }

    /// Shows a message with the progress bar.
    pub(crate) fn say(&self, message: String) {
        self.bar.set_message(message);
    }
}

/// A program that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    command: String,
    status: ExitStatus,
    /// The last lines of standard error.
    said: Vec<String>,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` failed ({})", self.command, self.status)?;
        let before = if self.said.is_empty() { "" } else { ". The end of its output:" };
        write!(f, "{before}")?;
        self.said.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl std::error::Error for Failed {}

/// Number of last lines of standard error that are kept.
const KEPT: usize = 30;

/// Runs a command. Passes the lines of its standard output to `take`, and those of its standard error to
/// `seen`. Returns the last lines of standard error, without those of cargo on single crates, if the command
/// succeeds.
pub(crate) fn lines_of(
    mut command: Command,
    mut take: impl FnMut(&str) -> Result<()>,
    seen: impl Fn(&str) + Send + 'static,
) -> Result<Vec<String>> {
    let name = shown(&command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("`{name}` cannot be run: {error}"))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let kept = Arc::new(Mutex::new(VecDeque::new()));
    let reader = std::thread::spawn({
        let kept = kept.clone();
        move || {
            for line in
                stderr.into_iter().flat_map(|stderr| BufReader::new(stderr).lines()).map_while(|l| l.ok())
            {
                seen(line.trim());
                if ["Compiling", "Checking", "Downloaded"]
                    .contains(&line.split_whitespace().next().unwrap_or(""))
                {
                    continue;
                }
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push_back(line);
                if kept.len() > KEPT {
                    kept.pop_front();
                }
            }
        }
    });
    let mut taken = Ok(());
    for line in stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines()) {
        taken = line.map_err(Into::into).and_then(|line| take(&line));
        if taken.is_err() {
            child.kill()?;
            break;
        }
    }
    let status = child.wait()?;
    taken?;
    reader.join().map_err(|_| "the thread that reads standard error panicked")?;
    let said: Vec<String> = kept.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
    if status.success() { Ok(said) } else { Err(Failed { command: name, status, said }.into()) }
}

/// Formats a command for a message: the program's name, and its arguments.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn lines_come_and_what_was_said_is_kept() {
        let mut lines = Vec::new();
        let take = |line: &str| {
            lines.push(line.to_owned());
            Ok(())
        };
        let said = lines_of(shell("echo a; echo note >&2; echo b"), take, |_| {}).unwrap();
        assert_eq!((lines, said), (vec!["a".to_owned(), "b".into()], vec!["note".to_owned()]));
    }

    #[test]
    fn a_failure_shows_the_end_of_standard_error() {
        let script = "for i in $(seq 100); do echo line $i >&2; done; exit 3";
        let error = lines_of(shell(script), |_| Ok(()), |_| {}).unwrap_err().to_string();
        assert!(error.starts_with("`sh -c for") && error.contains("exit status: 3"), "{error}");
        assert!(error.ends_with("line 100") && !error.contains("line 70\n"), "{error}");
    }

    #[test]
    fn a_line_that_is_refused_ends_it() {
        let error = lines_of(shell("echo no; sleep 100"), |line| Err(line.into()), |_| {}).unwrap_err();
        assert_eq!(error.to_string(), "no");
    }
}
