//! A word index over text files in a heap: how often each word is used, in which files, and on which lines.
//!
//! ```text
//! cargo run --release --example index                                   index the sources of the examples
//! cargo run --release --example index -- --query heap                   a query; it reads only the heap
//! cargo run --release --example index -- --fresh --kill-after-words 20000    kill -9 itself in the middle …
//! cargo run --release --example index                                   … and go on from there
//! cargo run --release --example index -- ~/notes --heap notes.pheap     index something else
//! ```
//!
//! A transaction adds the words of some lines *and* the number of lines that are done. A crash leaves both or
//! neither. So the next run continues after these lines. It counts no word twice, and leaves none out.
//!
//! Files may change. Each run (except a query) reads all files again and compares the hash of their content
//! with the one in the index. One transaction removes changed and absent files. Then new and changed files
//! are added. In the end, the index describes the files of this run. (`--dump` prints the whole index, to
//! compare it.)
//!
//! The index is in `store.rs`; start reading there. `corpus.rs` finds the files and splits them into words.

#![allow(unreachable_pub)] // a program has no public interface

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use pheap::{Heap, Held, Options, P, Root, View};

use corpus::Source;
use store::{File, Index, State};

mod corpus;
mod store;

/// Number of lines that one transaction indexes. After a crash, at most this many lines are indexed again.
const LINES: usize = 50;

/// The default heap. Git ignores it.
const HEAP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/index.pheap");

/// Indexes the words of text files in a persistent heap. It can be killed at any time, and continues from
/// there.
#[derive(Parser)]
struct Args {
    /// What to index: files, and folders of *.rs, *.md and *.toml. [default: this project]
    paths: Vec<PathBuf>,
    /// The heap file; created if there is none.
    #[arg(long, value_name = "FILE", default_value = HEAP)]
    heap: PathBuf,
    /// Only look up a word in the heap.
    #[arg(long, value_name = "WORD", conflicts_with_all = ["paths", "fresh", "kill_after_words", "dump"])]
    query: Option<String>,
    /// Print this many words at the end (with --query: files).
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Print the whole index in the end, sorted.
    #[arg(long)]
    dump: bool,
    /// Delete the index and start again.
    #[arg(long)]
    fresh: bool,
    /// `kill -9` this process after this many words, in the middle of a transaction.
    #[arg(long, value_name = "N")]
    kill_after_words: Option<u64>,
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output may have stopped (`| head`).
        Err(error) if error.downcast_ref().is_some_and(is_broken_pipe) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            use pheap::Error::{BootUnknown, Copied, Corrupt, NotClosed, Truncated, TypeMismatch};
            if let Some(
                BootUnknown { .. }
                | Copied { .. }
                | Corrupt { .. }
                | NotClosed
                | Truncated { .. }
                | TypeMismatch { .. },
            ) = error.downcast_ref()
            {
                eprintln!(
                    "this is only an index, though: delete {}, and run this again",
                    args.heap.display()
                );
            }
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

fn run(args: &Args) -> Result<()> {
    let out = &mut BufWriter::new(io::stdout().lock());
    if let Some(word) = &args.query {
        return query(args, &word.to_lowercase(), out);
    }
    if let Some(folder) = args.heap.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // If the last run was killed, this restores the heap to the end of its last complete transaction.
    let heap = Heap::open(&args.heap)?;
    if args.fresh && heap.roots().iter().any(|root| root.name == "index") {
        heap.remove_root("index")?;
    }
    let index: Root<Index> = heap.root("index")?;

    update(&index, args)?;
    if args.dump {
        index.read(|view, index| dump(view, index, out))??
    } else {
        top(&index, args, out)?
    }
    out.flush()?;
    heap.close()?;
    Ok(())
}

/// Brings the index up to date with the files.
fn update(index: &Root<Index>, args: &Args) -> Result<()> {
    let start = Instant::now();
    let project = [corpus::project().to_owned()];
    let sources = corpus::find(if args.paths.is_empty() { &project } else { &args.paths })?;
    let (mut todo, stale) = compare(index, &sources)?;
    if !stale.is_empty() {
        eprintln!("{} indexed files have changed or are gone: removing them from the index", stale.len());
        index.txn(|tx, index| Index::forget(index, tx, &stale))?;
    }
    if todo.is_empty() {
        eprintln!(
            "up to date: all {} files are indexed already; the answer comes from the heap",
            sources.len()
        );
        if args.kill_after_words.is_some() {
            eprintln!("(nothing to do, so nothing to interrupt; --fresh starts again)");
        }
        return Ok(());
    }

    let bar = ProgressBar::new(todo.iter().map(|file| file.source.bytes).sum())
        .with_style(ProgressStyle::with_template("{bar:30} {percent:>3}%  {wide_msg}")?);
    let mut countdown = Countdown(args.kill_after_words);
    // Files with a part in the index come first.
    todo.sort_by_key(|file| file.known.is_none());
    for file in &todo {
        add(index, file, &bar, &mut countdown)?;
    }
    bar.finish_and_clear();
    eprintln!("indexed {} of {} files in {:.1?}", todo.len(), sources.len(), start.elapsed());
    Ok(())
}

/// A file to index, because it is not in the index, only partly, or with another content.
struct Todo {
    source: Source,
    known: Option<Known>,
}

/// The state of a file in the index.
#[derive(Clone, Copy)]
struct Known {
    content: u64,
    state: State,
}

/// Returns the files to add to the index, and the names of indexed files that have changed or are not among
/// `sources`.
fn compare(index: &Root<Index>, sources: &[Source]) -> Result<(Vec<Todo>, HashSet<String>)> {
    let mut known: HashMap<String, Known> = index.read(|view, index| {
        let files = view[index].files.iter(view).map(|(name, &file)| (name, &view[file]));
        files
            .map(|(name, file)| (name.to_owned(), Known { content: file.content, state: file.state }))
            .collect()
    })?;
    let (mut todo, mut stale) = (Vec::new(), HashSet::new());
    for source in sources {
        let known = known.remove(&source.name);
        let as_it_was = match known {
            Some(known) => (store::hash(source.read()?.as_bytes()) == known.content).then_some(known),
            None => None,
        };
        if known.is_some() && as_it_was.is_none() {
            stale.insert(source.name.clone());
        }
        if as_it_was.is_none_or(|known| known.state != State::Complete) {
            todo.push(Todo { source: source.clone(), known: as_it_was });
        }
    }
    stale.extend(known.into_keys()); // files that are gone
    Ok((todo, stale))
}

/// Adds a file to the index, or the rest of a partly indexed one.
fn add(index: &Root<Index>, file: &Todo, bar: &ProgressBar, countdown: &mut Countdown) -> Result<()> {
    let name = &file.source.name;
    let text = file.source.read()?;
    let content = store::hash(text.as_bytes());
    if file.known.is_some_and(|known| known.content != content) {
        return Err(format!("{name} was changed just now; run this again").into());
    }
    bar.set_message(name.clone());

    // A `P` cannot leave its transaction, because nothing would keep its object alive. A `Held` can.
    let (held, done): (Held<File>, u32) = index.txn(|tx, index| {
        let begun = tx[index].files.get(tx, name).copied();
        let file = begun.map_or_else(|| Index::add_file(index, tx, name, content), Ok)?;
        let State::UpTo(done) = tx[file].state else { unreachable!("complete files are not added again") };
        Ok((tx.hold(file), done))
    })?;
    if done > 0 {
        bar.suspend(|| eprintln!("continuing in {name}, after line {done}"));
    }

    let bytes = |lines: &[&str]| lines.iter().map(|line| line.len() as u64 + 1).sum();
    let lines: Vec<&str> = text.lines().collect();
    let (before, rest) = lines.split_at(done as usize);
    bar.inc(bytes(before));
    let mut line_number = done;
    for lines in rest.chunks(LINES) {
        index.txn(|tx, index| {
            let file = tx.get(&held)?;
            for line in lines {
                line_number += 1;
                for word in corpus::words(line) {
                    Index::add_use(index, tx, &word, file, line_number)?;
                    countdown.tick();
                }
            }
            tx[file].state = State::UpTo(line_number); // in the transaction that adds the words
            Ok(())
        })?;
        bar.inc(bytes(lines));
    }
    index.txn(|tx, _| {
        let file = tx.get(&held)?;
        tx[file].state = State::Complete;
        Ok(())
    })?;
    Ok(())
}

/// Kills this process when the count reaches zero.
struct Countdown(Option<u64>);

impl Countdown {
    fn tick(&mut self) {
        if let Some(left) = &mut self.0 {
            *left = left.saturating_sub(1);
            if *left == 0 {
                kill();
            }
        }
    }
}

/// Kills this process: no destructor runs, and nothing is flushed or closed.
fn kill() {
    eprintln!(
        "kill -9, in the middle of a transaction. Run this again without --kill-after-words: it continues from here."
    );
    // SAFETY: both system calls take and return numbers, not pointers.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

/// Prints the most frequent words, and commands to try next.
fn top(index: &Root<Index>, args: &Args, out: &mut impl Write) -> Result<()> {
    let (words, uses, files, mut top) = index.read(|view, index| {
        let words = view[index].words.iter(view);
        let top: Vec<_> = words.map(|(text, &word)| (Reverse(view[word].times), text.to_owned())).collect();
        let uses: u64 = top.iter().map(|(times, _)| times.0).sum();
        (top.len() as u64, uses, view[index].files.len(), top)
    })?;
    top.sort();
    writeln!(out, "{} words, used {} times in {files} files\n", HumanCount(words), HumanCount(uses))?;
    for (Reverse(times), word) in top.iter().take(args.top) {
        writeln!(out, "{:>9}  {word}", HumanCount(*times).to_string())?;
    }

    let command = "cargo run --release --example index --";
    let paths: String = args.paths.iter().map(|path| format!(" {}", path.display())).collect();
    let is_default = args.heap == Path::new(HEAP);
    let heap = if is_default { String::new() } else { format!(" --heap {}", args.heap.display()) };
    let word = top.iter().map(|(_, word)| word.as_str()).find(|word| word.len() > 3).unwrap_or("heap");
    writeln!(
        out,
        "\nTry next:\n  \
         {command}{heap} --query {word}\n      queries the heap, and reads no file\n  \
         {command}{heap}{paths} --fresh --kill-after-words {}\n      \
         starts again, and kills itself in the middle; after that, run it without the two flags",
        uses / 3
    )?;
    Ok(())
}

/// Answers a query from the heap. Reads none of the indexed files.
fn query(args: &Args, text: &str, out: &mut impl Write) -> Result<()> {
    let start = Instant::now();
    if !args.heap.exists() {
        return Err(format!(
            "there is no index in {} yet; run this without --query first",
            args.heap.display()
        )
        .into());
    }
    // A heap that is open read-only never changes the file, so several queries can run at the same time.
    let heap = Options::new().read_only(true).open(&args.heap)?;
    let index: Root<Index> = heap.existing_root("index")?;
    let mut found: Vec<(String, Vec<(u32, u32)>)> = index.read(|view, index| {
        let mut files = BTreeMap::<&str, Vec<_>>::new();
        let word = view[index].words.get(view, text);
        for using in word.into_iter().flat_map(|&word| view[word].uses.iter(view)) {
            files.entry(&view[view[using.file].name]).or_default().push((using.line, using.times));
        }
        files.into_iter().map(|(name, lines)| (name.to_owned(), lines)).collect()
    })?;
    let took = start.elapsed();

    let times = |lines: &[(u32, u32)]| lines.iter().map(|&(_, times)| u64::from(times)).sum::<u64>();
    found.sort_by_key(|(_, lines)| Reverse(times(lines))); // the sort is stable, so names stay in order
    let all: u64 = found.iter().map(|(_, lines)| times(lines)).sum();
    writeln!(out, "{text}: used {} times in {} files", HumanCount(all), found.len())?;
    for (name, lines) in found.iter().take(args.top) {
        let shown: Vec<String> = lines.iter().take(12).map(|(line, _)| line.to_string()).collect();
        let rest = if lines.len() > shown.len() { ", …" } else { "" };
        writeln!(out, "{:>9}  {name}: {}{rest}", times(lines), shown.join(", "))?;
    }
    if found.len() > args.top {
        writeln!(out, "           and {} more files (--top shows more)", found.len() - args.top)?;
    }
    writeln!(out, "opened and answered in {:.1} ms", took.as_secs_f64() * 1e3)?;
    out.flush()?;
    Ok(())
}

/// Prints the whole index, sorted, so that two indices can be compared.
fn dump<'r>(view: &View<'r>, index: P<'r, Index<'r>>, out: &mut impl Write) -> Result<()> {
    for (name, _) in view[index].files.iter(view) {
        writeln!(out, "file {name}")?;
    }
    let mut words: Vec<_> = view[index].words.iter(view).collect();
    words.sort_unstable_by_key(|&(text, _)| text);
    for (text, &word) in words {
        let mut uses: Vec<_> = view[word]
            .uses
            .iter(view)
            .map(|using| (&view[view[using.file].name], using.line, using.times))
            .collect();
        uses.sort_unstable();
        write!(out, "{text} {}", view[word].times)?;
        for (name, line, times) in uses {
            write!(out, " {name}:{line}x{times}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}
