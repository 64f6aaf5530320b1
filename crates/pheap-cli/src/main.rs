//! `pheap`: inspects heaps, without the programs that wrote them.

#![allow(unreachable_pub)] // a program has no public interface

mod check;
mod diff;
mod dump;
mod get;
mod graph;
mod json;
mod path;
mod print;
mod progress;
mod report;
mod show;
mod text;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use pheap::{Backup, Error, Heap, Options};
use progress::Progress;

/// Inspects pheap heaps, without the programs that wrote them.
///
/// Opens the file read-only: no byte of it is changed, and after a crash the heap is recovered in memory.
/// (Only `collect` changes the file.) If a program has the heap open with `Durability::Wal`, the command
/// reads a copy of one state between two transactions, and the program does not notice. With other
/// durabilities, only that program can read the heap.
///
/// Exit status: 0 if all is well, 1 if something is wrong with the heap or `diff` finds differences, 2 if the
/// command failed.
#[derive(Parser, Debug)]
#[command(name = "pheap", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
    /// Open a copy of a heap that was in use, if no program changed the heap while it was copied; all of the
    /// copy is checked first
    #[arg(long, global = true)]
    restored: bool,
    /// Read a copy and take no lock, whether a program has the heap open or not; so a program can open the
    /// heap meanwhile
    #[arg(long, global = true)]
    follow: bool,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Shows the header: identity, sizes, and whether the heap was closed
    Info(Show),
    /// Lists the roots and their types
    Roots(Show),
    /// Lists the types with their layouts, as the programs that used the heap had them
    Types {
        #[command(flatten)]
        show: Show,
        /// Lists the differences from another heap instead, such as one of another version of the program. A
        /// heap has the types of all versions that have used it
        #[arg(long, value_name = "OTHER")]
        diff: Option<PathBuf>,
    },
    /// Follows all pointers from the roots, lists the first 100 problems, and counts the others
    ///
    /// The exit status is 1 if there are problems.
    Check(Show),
    /// Counts objects and bytes by root and type
    Stats(Show),
    /// Prints the objects of a root, or of a part of it, as JSON, JSON lines or CSV
    #[command(after_help = dump::HELP)]
    Dump(dump::Args),
    /// Prints what a path leads to
    #[command(after_help = path::HELP)]
    Get(get::Args),
    /// Draws which objects point to which: for Graphviz, as SVG, or as JSON
    #[command(after_help = path::HELP)]
    Graph(graph::Args),
    /// Shows the differences of two heaps: types, roots, and values by their paths
    ///
    /// The exit status is 1 if there are differences.
    #[command(after_help = path::HELP)]
    Diff(diff::Args),
    /// Writes an HTML page that shows the use of the bytes, and objects to browse; it needs no network
    Report(report::Args),
    /// Frees unreachable objects; changes the heap
    ///
    /// Everything is checked first, because a collector trusts the pointers that it follows. Programs do not
    /// need this: an open heap collects its roots automatically.
    Collect(Show),
    /// Copies a heap to a new file, which is marked as closed; free pages take no space
    ///
    /// A running program copies its own heap with `Heap::backup`, whatever its durability. On a terminal, the
    /// command shows its progress.
    Backup {
        /// The file of the heap
        file: PathBuf,
        /// The new file; must not exist. `-` writes a stream to the standard output, for `restore`
        to: PathBuf,
    },
    /// Makes a heap from a stream that `pheap backup` or `Heap::backup_to` has written
    Restore {
        /// The file with the stream; `-` is the standard input
        from: PathBuf,
        /// The new file; must not exist
        to: PathBuf,
    },
    /// Prints a script that completes commands in a shell: `source <(pheap completions bash)`
    Completions {
        /// The shell that runs the script
        shell: clap_complete::Shell,
    },
}

/// The path that stands for the standard input or output.
const STREAM: &str = "-";

/// The arguments of a command that shows a heap.
#[derive(clap::Args, Debug)]
struct Show {
    /// The file of the heap
    file: PathBuf,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// The result of a command that succeeded.
enum Outcome {
    Well,
    /// The heap has problems, or two heaps differ.
    Unsound,
}

impl Outcome {
    /// Returns the outcome of a command on a heap that is sound or not, or on two that are the same or not.
    fn of(is_sound: bool) -> Outcome {
        if is_sound { Outcome::Well } else { Outcome::Unsound }
    }
}

/// Why a command failed.
enum Failure {
    Heap(Error),
    Output(io::Error),
    Other(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Heap(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}

type Result<T = Outcome, E = Failure> = std::result::Result<T, E>;

fn main() -> ExitCode {
    let args = Args::parse();
    let stdout = io::stdout().lock();
    let mut out = BufWriter::new(stdout);
    let result = run(&args, &mut out).and_then(|outcome| Ok(out.flush().map(|()| outcome)?));
    let message = match result {
        Ok(Outcome::Well) => return ExitCode::SUCCESS,
        Ok(Outcome::Unsound) => return ExitCode::from(1),
        // The program that reads the output may have stopped (`| head`).
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
        Err(Failure::Output(error)) => format!("writing the output: {error}"),
        Err(Failure::Heap(error)) => explain(&error),
        Err(Failure::Other(message)) => message,
    };
    eprintln!("pheap: {message}");
    ExitCode::from(2)
}

fn run(args: &Args, out: &mut dyn Write) -> Result {
    let how = &Options::new().restored(args.restored).follower(args.follow);
    match &args.command {
        Command::Info(args) => show::info(&open(how, &args.file)?, args.json, out),
        Command::Roots(args) => show::roots(&open(how, &args.file)?, args.json, out),
        Command::Types { show, diff: None } => show::types(&open(how, &show.file)?, show.json, out),
        Command::Types { show, diff: Some(other) } => {
            show::differences(&open(how, &show.file)?, &open(how, other)?, show.json, out)
        }
        Command::Stats(args) => show::stats(&open(how, &args.file)?, args.json, out),
        Command::Check(args) => check::check(how, &args.file, args.json, out),
        Command::Dump(args) => dump::dump(&open(how, &args.file)?, args, out),
        Command::Get(args) => get::get(&open(how, &args.file)?, args, out),
        Command::Graph(args) => graph::graph(&open(how, &args.file)?, args, out),
        Command::Diff(args) => diff::diff(&open(how, &args.a)?, &open(how, &args.b)?, args, out),
        Command::Report(args) => report::report(&open(how, &args.file)?, args, out),
        Command::Collect(args) => {
            let how = how.clone().follower(false);
            // The file is opened read-only first, so that a file that is no heap does not become one.
            drop(how.clone().read_only(true).open(&args.file)?);
            let heap = how.verify(true).open(&args.file)?;
            let outcome = show::collect(&heap, args.json, out)?;
            heap.close()?;
            Ok(outcome)
        }
        Command::Backup { file, to } => {
            let heap = open(how, file)?;
            let bar = Progress::of_bytes(heap.info().file_bytes, "copying");
            let backup = Backup::of(&heap).progress(move |done, total| {
                bar.set_total(total);
                bar.set(done);
            });
            if to.as_os_str() == STREAM {
                backup.write_to(out)?
            } else {
                backup.write_file(to)?
            }
            Ok(Outcome::Well)
        }
        Command::Restore { from, to } => {
            if from.as_os_str() == STREAM {
                let _spinner = Progress::spinner("restoring");
                Heap::restore(io::stdin().lock(), to)?;
            } else {
                let file =
                    File::open(from).map_err(|e| Failure::Other(format!("{}: {e}", from.display())))?;
                let bar = Progress::of_bytes(file.metadata().map_or(0, |file| file.len()), "restoring");
                Heap::restore(ProgressFile { file: BufReader::new(file), read: 0, bar }, to)?;
            }
            Ok(Outcome::Well)
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Args::command(), "pheap", &mut script);
            out.write_all(&script)?;
            Ok(Outcome::Well)
        }
    }
}

/// A file with a progress bar. `read` is the number of bytes read.
struct ProgressFile {
    file: BufReader<File>,
    read: u64,
    bar: Progress,
}

impl Read for ProgressFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.read += read as u64;
        self.bar.set(self.read);
        Ok(read)
    }
}

/// Writes a text to a file, or to the standard output.
fn write_text(file: Option<&Path>, text: &str, out: &mut dyn Write) -> Result<()> {
    match file {
        Some(path) => {
            std::fs::write(path, text).map_err(|e| Failure::Other(format!("{}: {e}", path.display())))
        }
        None => Ok(out.write_all(text.as_bytes())?),
    }
}

/// Opens a heap read-only. If another process has it open to write, opens a copy.
fn open(how: &Options, file: &Path) -> pheap::Result<Heap> {
    let _spinner = Progress::spinner("opening");
    match how.clone().read_only(true).open(file) {
        Err(Error::Locked { .. }) => how.clone().follower(true).open(file),
        opened => opened,
    }
}

/// Returns the message of an error, in words for a user of the command line.
fn explain(error: &Error) -> String {
    match error {
        Error::Locked { path } => {
            format!("{} is open in another process; close it there first", path.display())
        }
        Error::NotFollowed { path, how } => format!(
            "{} is in use with {how}, so only the program that has it open can read it; let that program use \
             `Durability::Wal`, or make a copy with `Heap::backup`. (If no program has it open, leave out \
             `--follow`)",
            path.display()
        ),
        Error::Overtaken { path, .. } => format!(
            "{} changes faster than it can be copied; try again later, or let the program that writes to it \
             use a larger `Options::log_limit`, or make a copy with `Heap::backup`",
            path.display()
        ),
        Error::NoPermission { path } => format!(
            "no permission to open or write {}; change the mode of that file or of its directory",
            path.display()
        ),
        Error::NotClosed => {
            "the heap was in use with `Durability::Process` when the machine went down, so it may be torn; \
             `pheap check` shows what is wrong with it, and `--restored` opens it if a check of all of it \
             finds no problem"
                .to_owned()
        }
        Error::BootUnknown { path } => format!(
            "{} was in use with `Durability::Process` and was not closed. Without /proc it is unknown \
             whether the machine went down since then, so the heap may be torn; `pheap check` shows whether \
             anything is wrong with it, and `--restored` opens it if a check of all of it finds no problem",
            path.display()
        ),
        Error::Copied { path } => format!(
            "{} is a copy of a heap that was in use when it was made, so it may be torn; make copies with \
             `pheap backup`, or with `Heap::backup` in the program that has the heap open. If no program \
             changed the heap while it was copied, `--restored` opens the copy after a check of all of it",
            path.display()
        ),
        Error::AlreadyOpen { path, .. } => format!(
            "{} was given twice, perhaps under two names; give two different heaps, or compare a copy",
            path.display()
        ),
        Error::MemoryLimit { path, need, limit, directory, source } => format!(
            "opening {} needs {need} bytes of memory, more than {} (half of the limit), and the heap could \
             not be copied to a file in {} instead: {source}; set TMPDIR to a directory with more space",
            path.display(),
            limit / 2,
            directory.display()
        ),
        Error::NotAFile { path, kind } => {
            format!("{} is {kind}, and a heap is a regular file; give the path of a heap", path.display())
        }
        Error::NoSuchRoot(name) => format!("there is no root {name:?}; `pheap roots` lists those that exist"),
        error => error.to_string(),
    }
}
