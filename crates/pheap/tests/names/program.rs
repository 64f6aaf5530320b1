//! A program that has one heap open, in a separate process, and runs commands, one a line.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use pheap::{Durability, Error, Heap, Options, P, Persist, Result, Root};

const ROLE: &str = "PHEAP_NAMES_PROGRAM";
/// Marks the lines that are answers, among those of the test harness.
const ANSWER: &str = "answer: ";

/// The number of the heap, and the number of its changes. Each of the words has the latter, so that a mixture
/// of two states is none of them.
#[derive(Persist)]
#[repr(C)]
struct State<'r> {
    id: u64,
    counts: P<'r, [u64]>,
}

const WORDS: usize = 2000;

fn options(kind: &str, restored: bool) -> Options {
    let durability = match kind {
        "process" => Durability::Process,
        "pmem" => Durability::Pmem,
        _ => Durability::Wal,
    };
    let small = Options::new().arena_size(64 << 10).reserve(1 << 28).log_limit(256 << 10);
    small.durability(durability).restored(restored)
}

/// The answer to an error: its name if the world looks for that, else its text.
fn name(error: &Error) -> String {
    match error {
        Error::ForeignLog { .. } => "ForeignLog".to_owned(),
        Error::LogMissing { .. } => "LogMissing".to_owned(),
        Error::Locked { .. } => "Locked".to_owned(),
        Error::Copied { .. } => "Copied".to_owned(),
        Error::Removed { .. } => "Removed".to_owned(),
        other => other.to_string().replace('\n', " "),
    }
}

struct Program {
    heap: Heap,
    root: Root<State<'static>>,
}

impl Program {
    fn open(words: &[&str]) -> Result<(Program, String)> {
        let [kind, restored, id, path] = words else { panic!("{words:?}") };
        let heap = options(kind, *restored == "restored").open(path)?;
        let id = id.parse().expect("a number");
        let root: Root<State> = heap.root_or::<State>("state", |tx| {
            let counts = tx.alloc_slice(WORDS, |_| 0u64)?;
            Ok(State { id, counts })
        })?;
        let state = root.read(|view, state| {
            let State { id, counts } = &view[state];
            let counts = &view[*counts];
            let torn = counts.iter().any(|count| *count != counts[0]);
            if torn { "torn".to_owned() } else { format!("{id} {}", counts[0]) }
        })?;
        // A log comes with the first transaction; in this model, with the opening.
        root.txn(|_, _| Ok(()))?;
        Ok((Program { heap, root }, state))
    }

    fn commit(&self) -> Result<()> {
        self.root.txn(|tx, state| {
            let counts = tx[state].counts;
            tx.slice_mut(counts, ..).iter_mut().for_each(|count| *count += 1);
            Ok(())
        })
    }

    fn grow(&self) -> Result<()> {
        self.root.txn(|tx, _| tx.alloc_slice(20_000, |_| 1u64).map(drop))
    }
}

fn said(result: Result<()>) -> String {
    result.map_or_else(|error| name(&error), |()| "ok".to_owned())
}

/// What a process does that was started by [`Running::start`]. Returns whether this is one.
pub(crate) fn run() -> bool {
    let Ok(bug) = std::env::var(ROLE) else { return false };
    #[cfg(feature = "sim")]
    pheap::sim::set_bug(super::BUGS.into_iter().find(|other| format!("{other:?}") == bug));
    let _ = bug;
    let mut program: Option<Program> = None;
    let mut input = BufReader::new(std::io::stdin());
    let mut line = String::new();
    while input.read_line(&mut line).expect("a pipe") > 0 {
        let words: Vec<&str> = line.trim_end().split('\t').collect();
        let here = || program.as_ref().expect("a heap is open");
        let answer = match words[0] {
            "open" => match Program::open(&words[1..]) {
                Ok((opened, state)) => {
                    program = Some(opened);
                    state
                }
                Err(error) => name(&error),
            },
            "commit" => said(here().commit()),
            "grow" => said(here().grow()),
            "sync" => said(here().heap.sync()),
            "checkpoint" => said(here().heap.checkpoint()),
            "backup" => said(here().heap.backup(words[1])),
            "close" => said(here().heap.clone().close()),
            other => panic!("{other}"),
        };
        // The answer has a line to itself.
        println!("\n{ANSWER}{answer}");
        std::io::stdout().flush().expect("a pipe");
        line.clear();
    }
    true
}

/// Such a process. It is killed when this goes.
pub(crate) struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Running {
    pub(crate) fn start(bug: &str) -> Running {
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        command.args(["program", "--exact", "--nocapture", "--test-threads=1"]).env(ROLE, bug);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("this program can be started");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Running { child, input, output }
    }

    /// Tells it something, and waits for the answer.
    pub(crate) fn tell(&mut self, words: &[&str]) -> String {
        writeln!(self.input, "{}", words.join("\t")).expect("it runs");
        let mut line = String::new();
        loop {
            line.clear();
            if self.output.read_line(&mut line).expect("a pipe") == 0 {
                return format!("died of {words:?}");
            }
            if let Some(answer) = line.strip_prefix(ANSWER) {
                return answer.trim_end().to_owned();
            }
        }
    }

    pub(crate) fn open(&mut self, kind: &str, restored: bool, id: u64, path: &Path) -> String {
        let restored = if restored { "restored" } else { "as it is" };
        self.tell(&["open", kind, restored, &id.to_string(), path.to_str().expect("text")])
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
