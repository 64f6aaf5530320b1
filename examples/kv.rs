//! A key-value store on the command line: an ordered map in a heap, and little else.
//!
//! ```text
//! cargo build --release --example kv && alias kv=target/release/examples/kv
//! kv set apple red                       kv get apple
//! kv import fruit.json                   kv scan --prefix ap --limit 10
//! kv export - | jq .                     kv scan apple --to cherry
//! kv del apple pear                      kv stats
//! ```
//!
//! Each command that changes the entries does so in one transaction. If a command is killed, it takes effect
//! entirely or not at all, even an import of a million entries. Commands that only read open the heap
//! read-only. They never change the file, and any number of them can run at the same time.
//!
//! Exit status 0: done; 1: a key does not exist; 2: any other error, with the reason on stderr.

use std::error::Error;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use pheap::{Heap, Options, P, PBTreeMap, Root, View};

/// The root of the heap. It is a collection itself, so there is no type to declare.
type Map<'r> = PBTreeMap<'r, P<'r, str>, P<'r, str>>;
type Store = Root<Map<'static>>;

/// The default heap. Git ignores it.
const HEAP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/kv.pheap");

/// A key-value store in a persistent heap.
#[derive(Parser)]
struct Args {
    /// The heap file; created by the first `set` or `import`.
    #[arg(long, value_name = "FILE", default_value = HEAP, global = true)]
    heap: PathBuf,
    #[command(subcommand)]
    command: Command,
    /// `kill -9` this process after this many entries of an import. For tests.
    #[arg(long, value_name = "N", hide = true, global = true)]
    kill_after: Option<usize>,
}

#[derive(Subcommand)]
enum Command {
    /// Sets the value of a key.
    Set { key: String, value: String },
    /// Prints the value of a key.
    Get { key: String },
    /// Removes keys, all at once.
    Del {
        #[arg(required = true)]
        keys: Vec<String>,
    },
    /// Prints keys and values, with a tab between them, in order.
    Scan {
        /// Start at this key.
        from: Option<String>,
        /// Stop before this key.
        #[arg(long)]
        to: Option<String>,
        /// Only keys that begin with this.
        #[arg(long, default_value = "")]
        prefix: String,
        /// At most this many.
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Sets all keys of a JSON object of strings: all of them, or none.
    Import {
        /// The file; `-` for standard input.
        file: PathBuf,
    },
    /// Writes all entries as a JSON object.
    Export {
        /// The file, which is overwritten; `-` for standard output.
        #[arg(default_value = "-")]
        file: PathBuf,
    },
    /// Prints the number of keys.
    Count,
    /// Prints the sizes of the store and its file.
    Stats,
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        // The reader of the output may have stopped (`| head`).
        Err(error) if error.downcast_ref().is_some_and(is_broken_pipe) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn is_broken_pipe(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Runs the command. Returns false if a key does not exist.
fn run(args: &Args) -> Result<bool> {
    let mut found = true;
    match &args.command {
        Command::Set { key, value } => {
            let (heap, store) = open(&args.heap)?;
            store.txn(|tx, map| {
                let value = tx.alloc_str(value)?;
                map.insert(tx, key, value).map(drop) // the old value, which is garbage now
            })?;
            heap.close()?;
        }
        Command::Del { keys } => {
            existing(&args.heap)?;
            let (heap, store) = open(&args.heap)?;
            let missing: Vec<_> = store
                .txn(|tx, map| Ok(keys.iter().filter(|key| map.remove(tx, *key).is_none()).collect()))?;
            missing.iter().for_each(|key| not_there(key));
            found = missing.is_empty();
            heap.close()?;
        }
        Command::Import { file } => {
            let json = read_text(file)?; // first, because the input may be an export of this heap
            let (heap, store) = open(&args.heap)?;
            let (all, added) = import(&store, &json, args.kill_after)
                .map_err(|error| format!("cannot import {}: {error}", file.display()))?;
            heap.close()?;
            eprintln!("imported {all} entries, {added} of them new");
        }
        Command::Get { key } => {
            let value =
                read(&args.heap, |view, map| Ok(map.get(view, key).map(|&text| view[text].to_owned())))?;
            match value {
                Some(value) => print(|out| writeln!(out, "{value}"))?,
                None => {
                    not_there(key);
                    found = false;
                }
            }
        }
        Command::Scan { from, to, prefix, limit } => read(&args.heap, |view, map| {
            let from = from.as_deref().unwrap_or_default().max(prefix);
            let entries = map
                .range(view, from..)
                .take_while(|(key, _)| key.starts_with(prefix) && to.as_deref().is_none_or(|to| *key < to))
                .take(limit.unwrap_or(usize::MAX));
            print(|out| {
                for (key, &value) in entries {
                    writeln!(out, "{key}\t{}", &view[value])?;
                }
                Ok(())
            })
        })?,
        Command::Export { file } => read(&args.heap, |view, map| write_json(file, view, map))?,
        Command::Count => {
            let count = read(&args.heap, |view, map| Ok(map.len(view)))?;
            print(|out| writeln!(out, "{count}"))?;
        }
        Command::Stats => stats(&args.heap)?,
    }
    Ok(found)
}

fn not_there(key: &str) {
    eprintln!("there is no key {key:?}");
}

// ---- The heap ---------------------------------------------------------------------------------------------

/// Opens the store for changes, or creates it.
fn open(path: &Path) -> Result<(Heap, Store)> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let heap = Heap::open(path)?;
    let store = heap.root("kv")?;
    Ok((heap, store))
}

/// Opens the store read-only. Returns `None` for the store if the heap has no roots: the program was killed
/// before it created the store.
fn open_read_only(path: &Path) -> Result<(Heap, Option<Store>)> {
    existing(path)?;
    let heap = Options::new().read_only(true).open(path)?;
    match heap.existing_root("kv") {
        Err(pheap::Error::NoSuchRoot(_)) if heap.roots().is_empty() => Ok((heap, None)),
        Err(pheap::Error::NoSuchRoot(_)) => {
            Err(format!("{} is a heap of another program; choose another file (--heap)", path.display())
                .into())
        }
        store => Ok((heap, Some(store?))),
    }
}

fn existing(path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    Err(format!("there is no store in {} yet; `kv set` and `kv import` make one", path.display()).into())
}

/// Reads the store, or an empty one if the heap has none.
fn read<T>(path: &Path, f: impl for<'r> FnOnce(&View<'r>, P<'r, Map<'r>>) -> Result<T>) -> Result<T> {
    let (_heap, store) = open_read_only(path)?;
    match store {
        Some(store) => store.read(f)?,
        None => Heap::in_memory()?.root::<Map>("kv")?.read(f)?,
    }
}

/// Sets all keys of a JSON object in one transaction. Returns the number of its keys, and how many of them
/// are new.
fn import(store: &Store, json: &str, kill_after: Option<usize>) -> Result<(usize, usize)> {
    let wrong = |error: &dyn Display| {
        format!("{error}; it must be one JSON object whose values are strings. Nothing was imported")
    };
    store.try_txn(|tx, map| {
        let mut json = serde_json::Deserializer::from_str(json);
        let new: Map = tx.import(&mut json).map_err(|error| match error {
            pheap::Error::Malformed { what } => wrong(&what).into(),
            other => Box::<dyn Error>::from(other),
        })?;
        json.end().map_err(|error| wrong(&error))?;
        let new = tx.alloc(new)?;
        let entries: Vec<_> = new.iter(tx).map(|(key, &value)| (key.to_owned(), value)).collect();
        let before = map.len(tx);
        for (number, (key, value)) in entries.iter().enumerate() {
            if kill_after == Some(number) {
                // SAFETY: both system calls take and return numbers, not pointers.
                unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            }
            map.insert(tx, key, *value)?; // the text is already in the heap
        }
        Ok((entries.len(), map.len(tx) - before))
    })
}

fn stats(path: &Path) -> Result<()> {
    let (keys, bytes) = read(path, |view, map| {
        let bytes = map.iter(view).map(|(key, &value)| (key.len() + value.len(view)) as u64);
        Ok((map.len(view), bytes.sum::<u64>()))
    })?;
    let heap = Options::new().read_only(true).open(path)?.stats();
    print(|out| {
        writeln!(out, "keys                  {keys}")?;
        writeln!(out, "bytes of all text     {bytes}")?;
        writeln!(out, "bytes of the file     {}", heap.file_bytes)?;
        writeln!(out, "of them free          {}", heap.free_bytes)
    })
}

// ---- Input, output ----------------------------------------------------------------------------------------

/// Prints to standard output, and flushes it.
fn print(f: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    f(&mut out)?;
    out.flush()?;
    Ok(())
}

/// Returns the content of a file, or of standard input.
fn read_text(file: &Path) -> Result<String> {
    let text =
        if file == Path::new("-") { io::read_to_string(io::stdin()) } else { std::fs::read_to_string(file) };
    text.map_err(|error| format!("cannot read {}: {error}", file.display()).into())
}

/// Writes all entries as a JSON object.
fn write_json<'r>(file: &Path, view: &View<'r>, map: P<'r, Map<'r>>) -> Result<()> {
    let write = |out: &mut dyn Write| -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, &view.export(map))?; // one entry after the other
        writeln!(out)
    };
    if file == Path::new("-") {
        return print(write);
    }
    let failed = |error| format!("cannot write {}: {error}", file.display());
    let mut out = BufWriter::new(File::create(file).map_err(failed)?);
    write(&mut out).and_then(|()| out.flush()).map_err(failed)?;
    Ok(())
}
