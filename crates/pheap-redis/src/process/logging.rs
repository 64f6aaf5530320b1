//! The log: its level and its destination, by `loglevel` and `logfile`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

use crate::config::Config;

/// The handle by which `CONFIG SET` changes the level of the log. A process has one log.
static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Whether the log is a file.
static IS_IN_FILE: AtomicBool = AtomicBool::new(false);

/// Why the log cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be written.
    #[error(
        "logfile {}: {error}; set `logfile` to a file that this user can write, or to \"\" for the standard \
         output",
        path.display()
    )]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The process has a log already.
    #[error("this process has a log already")]
    Twice,
}

/// Begins the log of events of this server and of its heap.
///
/// # Errors
/// If the file cannot be written, or the process has a log already.
pub fn begin(config: &Config) -> Result<(), LogError> {
    let writer = match config.text("logfile") {
        "" => BoxMakeWriter::new(io::stdout),
        path => {
            let path = PathBuf::from(path);
            check(&path)
                .and_then(|()| open(&path))
                .map_err(|error| LogError::File { path: path.clone(), error })?;
            IS_IN_FILE.store(true, Relaxed);
            // Each event opens the file again, so that the file can be moved away. If it cannot be opened
            // later, events go to the standard error.
            BoxMakeWriter::new(move || -> Box<dyn Write> {
                open(&path).map_or_else(|_| Box::new(io::stderr()) as Box<dyn Write>, |file| Box::new(file))
            })
        }
    };
    let (filter, handle) = reload::Layer::new(level(config));
    // A failure to write to the log is not reported.
    let lines =
        fmt::layer().with_writer(writer).with_ansi(false).with_target(false).log_internal_errors(false);
    tracing_subscriber::registry().with(filter).with(lines).try_init().map_err(|_| LogError::Twice)?;
    LEVEL.set(handle).map_err(|_| LogError::Twice)
}

/// Returns whether the log is a file. Then the person that starts the server does not see events at once.
pub fn is_in_file() -> bool {
    IS_IN_FILE.load(Relaxed)
}

/// Sets the level to that of the options, if the process has a log.
pub fn set_level(config: &Config) {
    if let Some(handle) = LEVEL.get() {
        // An error is ignored: the level then stays.
        let _ = handle.reload(level(config));
    }
}

/// Refuses a file that begins as the files of heaps do, and as no text does: lines that are appended to it
/// would damage the heap.
fn check(path: &Path) -> io::Result<()> {
    // To read from a pipe would wait for its writer.
    if !path.is_file() {
        return Ok(());
    }
    let mut first = [0];
    match File::open(path).and_then(|mut file| file.read(&mut first)) {
        Ok(1..) if first == [0x89] => Err(io::Error::other("it belongs to a heap")),
        _ => Ok(()), // `open` finds the other errors
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn level(config: &Config) -> LevelFilter {
    match config.text("loglevel") {
        "debug" => LevelFilter::TRACE,
        "verbose" => LevelFilter::DEBUG,
        "notice" => LevelFilter::INFO,
        _ => LevelFilter::WARN,
    }
}
