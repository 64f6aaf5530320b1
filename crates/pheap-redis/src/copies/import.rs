//! Imports an RDB file into a heap.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::data::files;
use crate::data::{Change, DATABASES, Store, Value, explained};
use crate::rdb::{self, FilePart, FileReader, RdbEntry};
use crate::scripts::libraries::first_line;
use crate::server::clocks::{Clocks, KeyUsage};
use crate::server::now;
use crate::text::words::lossy;

/// After this many bytes of the file, the keys in them are stored, in one transaction for each of their
/// shards.
const BATCH: u64 = 1 << 20;

/// Why a file was not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be opened.
    #[error("{} cannot be read: {error}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// The file cannot be read, is damaged, or has unknown parts.
    #[error("{} cannot be imported (byte {at}): {error}; `redis-check-rdb` checks the file", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The position in bytes up to which the file was read; 0 if it does not begin as an RDB file of a
        /// known version.
        at: u64,
        /// The problem.
        error: rdb::Error,
    },
    /// The folder has the log of a Redis, which may be newer than the RDB file.
    #[error(
        "{} is the log (AOF) of a Redis. This server cannot read it, and it may have newer data than the RDB \
         file of that Redis. Start that Redis again, and let it write an RDB file (`redis-cli save`); then \
         give `--import FILE`, or `--appendonly no` with `--import auto`", .0.display()
    )]
    Log(PathBuf),
    /// The heap has keys or libraries.
    #[error(
        "there are keys or functions in the heap already; choose another path for the heap, or leave --import out"
    )]
    NotEmpty,
    /// The number of a database is too large.
    #[error(
        "the file has keys in database {0}, and this server has databases 0 to {last}; move the keys to one \
         of these (`MOVE`) in the Redis that has written the file",
        last = DATABASES - 1
    )]
    Database(u64),
    /// A key occurs twice.
    #[error("the file has key '{key}' of database {db} twice")]
    Twice {
        /// The number of the database.
        db: u64,
        /// The key.
        key: String,
    },
    /// A library has an invalid first line or the name of another library.
    #[error("the file has an invalid library of functions: {0}")]
    Library(String),
    /// The heap has failed.
    #[error("{}", explained(.0))]
    Heap(#[from] pheap::Error),
}

/// The files that a Redis has left in the folder `dir`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RedisFiles {
    /// The RDB file of the Redis.
    rdb: Option<PathBuf>,
    /// The log (AOF) of the Redis, which this server cannot read: a folder, or the file of a Redis before
    /// 7.0.
    log: Option<PathBuf>,
}

impl RedisFiles {
    /// Finds the files by the names that the options give. An RDB file may also have the name `dump.rdb`.
    pub fn find(config: &Config) -> RedisFiles {
        let path = |name: &str| Path::new(config.text("dir")).join(name);
        let is_rdb = |path: &PathBuf| matches!(files::file_kind(path), Ok(files::FileKind::Rdb));
        let rdb = [config.text("dbfilename"), "dump.rdb"].map(path).into_iter().find(is_rdb);
        let has_entries = |path: &PathBuf| std::fs::read_dir(path).is_ok_and(|mut all| all.next().is_some());
        let folder = Some(path(config.text("appenddirname"))).filter(has_entries);
        let file = Some(path(config.text("appendfilename"))).filter(|path| path.is_file());
        RedisFiles { rdb, log: folder.or(file) }
    }

    /// Returns sentences that say how to import the data, for a start with an empty heap.
    pub fn advice(&self, heap: &Path) -> Vec<String> {
        let heap = heap.display();
        // The RDB file is not advised if there is a log: it may be older, and `--import auto` needs
        // `appendonly no` then.
        let rdb = self.rdb.iter().filter(|_| self.log.is_none()).map(|path| {
            format!(
                "{heap} is empty, and {} has data of a Redis, which are not served. To import them, stop \
                 this server before clients write, and start it with `--import auto`",
                path.display()
            )
        });
        let log = self.log.iter().map(|path| {
            format!(
                "{heap} is empty, and {} is the log (AOF) of a Redis, which this server cannot read. To have \
                 its data here, start that Redis again, and follow it (`--replicaof HOST PORT`), or let it \
                 write an RDB file (`redis-cli save`), and start this server with `--import FILE`",
                path.display()
            )
        });
        rdb.chain(log).collect()
    }

    /// Returns the file to import, if there is one.
    ///
    /// # Errors
    /// If there is a log, which may have newer data, and the options do not say `appendonly no`.
    pub fn file_to_import(self, config: &Config) -> Result<Option<PathBuf>, ImportError> {
        match self.log {
            Some(log) if config.is("appendonly") => Err(ImportError::Log(log)),
            _ => Ok(self.rdb),
        }
    }
}

/// Counts of an import.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ImportCounts {
    /// Number of imported keys.
    pub keys: u64,
    /// Number of keys that were left out because they had expired.
    pub expired: u64,
    /// Number of keys that were left out because they had no elements.
    pub empty: u64,
    /// Number of imported function libraries.
    pub libraries: u64,
}

/// Imports the libraries and the keys that have not expired from an RDB file into the heap, which must be
/// empty. Records the usage of the keys in `clocks`, if `clocks` are on and the file has the usage.
///
/// # Errors
/// If the file or the heap cannot be used, or the heap is not empty. Up to this check, a failure leaves the
/// heap as it was. After a later failure, the heap may have a part of the file, and cannot be opened again.
pub fn import(store: &Store, clocks: &Clocks, path: &Path) -> Result<ImportCounts, ImportError> {
    let open = || File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
    let (size, file) = open().map_err(|error| ImportError::Open { path: path.to_owned(), error })?;
    let wrong = |at, error| ImportError::Wrong { path: path.to_owned(), at, error };
    let mut file = FileReader::new(BufReader::with_capacity(1 << 16, file), size).map_err(|e| wrong(0, e))?;
    if !store.is_empty()? {
        return Err(ImportError::NotEmpty);
    }
    store.begin_import()?;
    let (mut imported, now) = (ImportCounts::default(), now());
    let mut batch = ImportBatch::new(store, clocks);
    loop {
        let part = file.next_part().map_err(|error| wrong(file.position(), error))?;
        match part {
            None => break,
            Some(FilePart::Library(text)) => {
                add_library(store, &text)?;
                imported.libraries += 1;
            }
            Some(FilePart::Entry(entry)) if entry.deadline.is_some_and(|at| at <= now) => {
                imported.expired += 1
            }
            Some(FilePart::Entry(entry)) => {
                record_usage(clocks, &entry, now);
                batch.add(entry, file.position())?;
                imported.keys += 1;
            }
        }
    }
    batch.flush()?;
    imported.empty = file.empty();
    store.end_import()?;
    Ok(imported)
}

/// Records the usage of a key, if the file has the usage and `clocks` are on.
fn record_usage(clocks: &Clocks, entry: &RdbEntry, now: i64) {
    let idle = entry.idle.map(|seconds| KeyUsage::Idle(i64::try_from(seconds).unwrap_or(i64::MAX)));
    if let Some(usage) = idle.or(entry.frequency.map(KeyUsage::Frequency))
        && clocks.is_on()
    {
        clocks.set(&entry.key, usage, now);
    }
}

/// Keys that are still to be stored in the heap.
pub(crate) struct ImportBatch<'s> {
    store: &'s Store,
    clocks: &'s Clocks,
    by_shard: Vec<Vec<RdbEntry>>,
    /// The position in the file at which the last batch was stored.
    flushed_at: u64,
}

impl ImportBatch<'_> {
    pub(crate) fn new<'s>(store: &'s Store, clocks: &'s Clocks) -> ImportBatch<'s> {
        let by_shard = store.shards().iter().map(|_| Vec::new()).collect();
        ImportBatch { store, clocks, by_shard, flushed_at: 0 }
    }

    pub(crate) fn add(&mut self, entry: RdbEntry, position: u64) -> Result<(), ImportError> {
        if entry.db >= DATABASES as u64 {
            return Err(ImportError::Database(entry.db));
        }
        self.by_shard[self.store.shard_of(&entry.key)].push(entry);
        if position - self.flushed_at >= BATCH {
            self.flushed_at = position;
            self.flush()?;
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), ImportError> {
        let mut commits = Vec::new();
        for (shard, entries) in
            self.by_shard.iter_mut().enumerate().filter(|(_, entries)| !entries.is_empty())
        {
            let ((), commit) = self.store.root(shard).try_txn_deferred::<_, ImportError>(|tx, root| {
                for RdbEntry { db, key, value, deadline, .. } in entries.drain(..) {
                    let place = tx[root].dbs.at(tx, db as usize);
                    // At the time `i64::MIN`, no key counts as expired.
                    if tx[place].get(tx, &key, i64::MIN).is_some() {
                        return Err(ImportError::Twice { db, key: lossy(&key).into_owned() });
                    }
                    let value = value.store(tx)?;
                    place.set(tx, &key, value)?;
                    place.set_deadline(tx, &key, deadline)?;
                }
                Ok(())
            })?;
            commits.push(commit);
        }
        commits.into_iter().try_for_each(|commit| commit.wait())?;
        self.clocks.grow_for(self.store.shards().iter().map(|root| root.live().objects).sum());
        Ok(())
    }
}

/// Stores the text of a library in the heap. Loading the library later shows whether its code is valid.
fn add_library(store: &Store, text: &[u8]) -> Result<(), ImportError> {
    let (name, _) = first_line(text).map_err(ImportError::Library)?;
    store.root(store.shards().len()).try_txn(|tx, root| {
        let db = tx[root].dbs.at(tx, 0);
        if tx[db].get(tx, name.as_bytes(), i64::MIN).is_some() {
            return Err(ImportError::Library(format!("two libraries have the name '{name}'")));
        }
        let text = tx.alloc_slice_copy(text)?;
        db.set(tx, name.as_bytes(), Value::Bytes(text))?;
        Ok(())
    })
}
