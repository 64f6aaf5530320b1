//! Opens, creates and checks the heap that holds all data.

use std::cmp::Ordering;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use pheap::{Durability, Heap, Options, P, Persist, Root, SyncPolicy};

use super::db::{Change, Db};
use super::progress::Progress;
use super::slots::{SLOTS, slot};

/// Number of databases. The option `databases` may be at most this number.
pub const DATABASES: usize = 16;

/// Default number of shards of a new heap if several threads serve clients.
pub const SHARDS: u32 = 64;
/// Default number of shards of a new heap if one thread serves all clients. Fewer shards make pipelines
/// faster. The number is more than one because the server may later run with more threads.
pub const SHARDS_OF_ONE: u32 = 16;
/// The greatest number of shards that the command line accepts.
pub const MOST_SHARDS: u32 = 1024;

/// The format version of the data. A later version of this program that stores them differently has a greater
/// number.
const VERSION: u32 = 3;

/// The root by which a heap of this server is recognised.
#[derive(Persist, Default)]
#[repr(C)]
struct Header {
    version: u32,
    shards: u32,
}

/// The data of one shard: a part of all slots, in each database. The roots of the libraries and of the
/// replication progress have this type, too, with one database.
#[derive(Persist)]
#[repr(C)]
pub struct Shard<'r> {
    /// The databases, by number.
    pub dbs: P<'r, [Db<'r>]>,
}

/// What committed writes survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settings {
    /// Committed writes survive the end of the process, and a power failure if the heap's file is in memory
    /// that keeps its data without power (DAX).
    Pmem,
    /// Committed writes survive the end of the process, in any way. A power failure may destroy the heap.
    Process,
    /// Committed writes survive the end of the process, and also a power failure once the write-ahead log is
    /// synced.
    Log {
        /// When to sync the log.
        policy: SyncPolicy,
        /// Size of the log in bytes from which transactions wait for a checkpoint. A checkpoint begins when
        /// the log is half full, or earlier. A value below 256 KiB counts as 256 KiB.
        log_limit: u64,
    },
}

#[cfg(test)]
impl Settings {
    /// For tests: a log that is synced only on demand and by checkpoints.
    pub(crate) const QUIET_LOG: Settings = Settings::Log { policy: SyncPolicy::OnDemand, log_limit: 1 << 20 };
}

/// The least limit of the log in bytes. With a much lower limit, few commands would fill the log so far that
/// a checkpoint starts.
const LEAST_LOG: u64 = 256 << 10;

/// Name of the root that marks a heap as incomplete: an import has begun and has not ended.
const UNFINISHED: &str = "unfinished-import";

/// The shards of an open heap.
pub struct Store {
    heap: Heap,
    shards: Vec<Root<Shard<'static>>>,
    /// Names and texts of function libraries, as keys and values of one database. When the server opens a
    /// heap that lacks this root, it adds the root.
    libraries: Root<Shard<'static>>,
    /// How far this server has followed a master, as keys and values of one database.
    progress: Root<Shard<'static>>,
}

/// Why a heap cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The heap library reports this error.
    #[error("{}", explained(.0))]
    Heap(pheap::Error),
    /// The heap library cannot open the file.
    #[error("{}", explained_at(path, error))]
    Refused {
        /// The file.
        path: PathBuf,
        /// The error of the heap library.
        error: pheap::Error,
    },
    /// Another process has the heap open.
    #[error("{} is open in another process; stop that one first, or choose another path", .0.display())]
    InUse(PathBuf),
    /// Another program made the heap.
    #[error("{} is a heap of another program; choose another path", .0.display())]
    Foreign(PathBuf),
    /// An import into the heap was interrupted.
    #[error(
        "{path} is not complete, because an import into it was interrupted; delete {path}, and {path}.wal if \
         there is one, and import again",
        path = .0.display()
    )]
    Unfinished(PathBuf),
    /// A power failure may destroy the heap on this file system, although the durability `pmem` was asked
    /// for.
    #[error("{} is on a file system that is neither DAX nor tmpfs, so with `--durability pmem` a power \
        failure may destroy it; leave out `--durability pmem`, choose another path, or accept the risk with \
        `--without-dax`", .0.display())]
    NotPersistent(PathBuf),
    /// An older version of this program made the heap.
    #[error(
        "{} was made by an older pheap-redis (format {found}, this one has {VERSION}); write an RDB file with that one (--export), and read it into a new heap with this one (--import)",
        path.display()
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: u32,
    },
    /// A newer version of this program made the heap.
    #[error(
        "{} was made by a newer pheap-redis (format {found}, this one knows {VERSION}); use that one",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: u32,
    },
}

/// Returns the text of a heap's error for the operator of this server. The texts of the heap library advise
/// programmers, who use its options and methods.
pub fn explained(error: &pheap::Error) -> String {
    match error {
        pheap::Error::NewerFormat { found, supported } => format!(
            "the heap has format {found}, and this pheap-redis knows formats up to {supported}; use a newer \
             pheap-redis"
        ),
        pheap::Error::OlderFormat { found, oldest } => format!(
            "the heap has format {found}, and this pheap-redis knows formats from {oldest} on; write an RDB \
             file with the pheap-redis that made the heap (--export), and read it into a new heap with this \
             one (--import)"
        ),
        pheap::Error::NotClosed => "the heap was in use with `--durability process` when the machine went \
            down, so it may be torn; restore it from a copy, such as SAVE makes"
            .to_owned(),
        pheap::Error::BootUnknown { path } => format!(
            "{} was in use with `--durability process` and was not closed. Without /proc, the server cannot \
             know whether the machine has been down since, so the heap may be torn; restore it from a copy, \
             such as SAVE makes, and mount /proc before the server starts",
            path.display()
        ),
        pheap::Error::Copied { path } => format!(
            "{path} is a copy of a heap that was in use when it was made, so it may be torn; make copies \
             with SAVE, or when the server has ended. If nothing was written to the heap during the copying, \
             `pheap --restored backup {path} NEW` checks the copy, and makes a heap of it",
            path = path.display()
        ),
        pheap::Error::Removed { path } => format!(
            "{} was removed while the server had it open, and its data are lost when the server ends; copy \
             them with SAVE first, and start the server with the copy (--heap)",
            path.display()
        ),
        pheap::Error::NoPermission { path } => format!(
            "no permission to write {}; let this user write that file and its folder, or choose another path",
            path.display()
        ),
        pheap::Error::ReservationFull { need, reserved } => format!(
            "the heap needs {need} bytes, and cannot grow beyond {reserved}; delete keys, or limit the data \
             with `maxmemory`"
        ),
        pheap::Error::Misplaced { reason } => format!(
            "the files of the heap were moved or removed ({reason}); end the server with SHUTDOWN, which \
             writes all data to the heap's file if that still exists; then put that file back in its place, \
             and start the server. If the server was killed instead, the log must be beside the heap's file"
        ),
        pheap::Error::OutcomeUnknown { source } => {
            format!("the disk failed while a transaction was written, or the log cannot be found ({source})")
        }
        pheap::Error::Failed { reason } => {
            format!("the heap has failed ({reason})")
        }
        other => other.to_string(),
    }
}

/// Returns the text of an error of opening the heap at `path`: the text of [`explained`], for some errors
/// with the path or with advice.
fn explained_at(path: &Path, error: &pheap::Error) -> String {
    let text = explained(error);
    match error {
        pheap::Error::NewerFormat { .. }
        | pheap::Error::OlderFormat { .. }
        | pheap::Error::Corrupt { .. }
        | pheap::Error::NotClosed => format!("{}: {text}", path.display()),
        pheap::Error::Io { source, .. } if source.kind() == ErrorKind::NotFound => {
            format!("{text}; create the folder, or choose another path")
        }
        pheap::Error::Io { source, .. } if source.kind() == ErrorKind::OutOfMemory => format!(
            "the system refuses memory or addresses for {} ({source}); raise the limit of the process \
             (`ulimit -v`, or LimitAS of systemd), or give the machine more memory",
            path.display()
        ),
        _ => text,
    }
}

impl From<pheap::Error> for OpenError {
    fn from(error: pheap::Error) -> OpenError {
        match error {
            pheap::Error::Locked { path } => OpenError::InUse(path),
            error => OpenError::Heap(error),
        }
    }
}

impl Store {
    /// Opens the heap at `path`, or creates it with `shards` shards. A heap that has shards keeps its number
    /// of shards. If the data are only a part of a master's data, this call removes them.
    ///
    /// # Errors
    /// If the heap cannot be opened or created, was made by another program or another version, or has an
    /// unfinished import. In the last three cases its data are unchanged.
    pub fn open(path: &std::path::Path, settings: Settings, shards: u32) -> Result<Store, OpenError> {
        let options = match settings {
            Settings::Pmem => Options::new().durability(Durability::Pmem),
            Settings::Process => Options::new().durability(Durability::Process),
            Settings::Log { policy, log_limit } => Options::new()
                .durability(Durability::Wal)
                .sync_policy(policy)
                .log_limit(log_limit.max(LEAST_LOG)),
        };
        let heap = options.open(path).map_err(|error| match error.into() {
            OpenError::Heap(error) => OpenError::Refused { path: path.to_owned(), error },
            error => error,
        })?;
        Store::of(heap, path, shards)
    }

    /// Makes a store in memory. Its data are lost when it is dropped.
    ///
    /// # Errors
    /// If the system has not enough memory or addresses.
    pub fn in_memory() -> Result<Store, OpenError> {
        Store::in_heap(Heap::in_memory()?, SHARDS)
    }

    /// Makes a store in this heap, with `shards` shards if the heap is new. Removes the data if they are only
    /// a part of a master's data.
    ///
    /// # Errors
    /// If the heap has other data, data of another version or an unfinished import, or cannot be read or
    /// changed.
    pub fn in_heap(heap: Heap, shards: u32) -> Result<Store, OpenError> {
        let path = heap.path().map_or_else(|| PathBuf::from("memory"), std::path::Path::to_owned);
        Store::of(heap, &path, shards)
    }

    fn of(heap: Heap, path: &std::path::Path, shards: u32) -> Result<Store, OpenError> {
        let header: Root<Header> = match heap.existing_root("pheap-redis") {
            Ok(header) => header,
            Err(pheap::Error::NoSuchRoot(_)) if heap.roots().is_empty() => {
                heap.root_or("pheap-redis", |_| Ok(Header { version: VERSION, shards }))?
            }
            Err(pheap::Error::NoSuchRoot(_)) => return Err(OpenError::Foreign(path.to_owned())),
            Err(error) => return Err(error.into()),
        };
        let (version, shards) = header.read(|view, header| (view[header].version, view[header].shards))?;
        match version.cmp(&VERSION) {
            Ordering::Equal => {}
            Ordering::Less => return Err(OpenError::Older { path: path.to_owned(), found: version }),
            Ordering::Greater => return Err(OpenError::Newer { path: path.to_owned(), found: version }),
        }
        if heap.roots().iter().any(|root| root.name == UNFINISHED) {
            return Err(OpenError::Unfinished(path.to_owned()));
        }
        let root = |name: &str, dbs: usize| {
            heap.root_or(name, |tx| Ok(Shard { dbs: tx.alloc_slice(dbs, |_| Db::default())? }))
        };
        let shard = |number| root(&format!("shard-{number:03}"), DATABASES);
        let shards = (0..shards).map(shard).collect::<pheap::Result<_>>()?;
        let (libraries, progress) = (root("libraries", 1)?, root("progress", 1)?);
        let store = Store { heap, shards, libraries, progress };
        if store.progress()?.is_partial {
            store.clear()?;
        }
        Ok(store)
    }

    /// Returns how far this server has followed a master.
    ///
    /// # Errors
    /// If the heap cannot be read.
    pub fn progress(&self) -> pheap::Result<Progress> {
        self.progress.read(|view, root| Progress::read(view, &view[view[root].dbs.at(view, 0)]))
    }

    /// Records how far this server has followed a master. The data do not change.
    ///
    /// # Errors
    /// If the heap cannot be changed.
    pub fn set_progress(&self, progress: &Progress) -> pheap::Result<()> {
        self.progress.txn(|tx, root| {
            let db = tx[root].dbs.at(tx, 0);
            progress.write(tx, db)
        })
    }

    /// Removes all keys and libraries, which are only a part of a master's data, and the record of that.
    fn clear(&self) -> pheap::Result<()> {
        let roots: Vec<_> = (0..self.shards.len() + 2).map(|number| self.root(number).clone()).collect();
        let before = self.progress()?;
        pheap::txn(&roots, |mut roots| {
            for number in 0..=self.shards.len() {
                roots.with(number, |tx, root| {
                    let dbs = tx[root].dbs;
                    (0..dbs.len(tx)).for_each(|number| dbs.at(tx, number).clear(tx));
                });
            }
            roots.with(self.shards.len() + 1, |tx, root| {
                let db = tx[root].dbs.at(tx, 0);
                Progress { is_partial: false, position: None, ..before.clone() }.write(tx, db)
            })
        })
    }

    /// Returns whether there are no keys and no libraries. An expired key counts until it is removed.
    ///
    /// # Errors
    /// If the heap cannot be read.
    pub fn is_empty(&self) -> pheap::Result<bool> {
        for root in self.shards.iter().chain([&self.libraries]) {
            let is_empty = root.read(|view, shard| view[view[shard].dbs].iter().all(Db::is_empty))?;
            if !is_empty {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Marks the heap as incomplete until [`end_import`](Self::end_import). Until then it cannot be opened
    /// again as a store.
    ///
    /// # Errors
    /// If the heap cannot be changed.
    pub fn begin_import(&self) -> pheap::Result<()> {
        self.heap.root::<u64>(UNFINISHED).map(drop)
    }

    /// Marks the heap as complete.
    ///
    /// # Errors
    /// If the heap cannot be changed.
    pub fn end_import(&self) -> pheap::Result<()> {
        self.heap.remove_root(UNFINISHED)
    }

    /// Returns the heap.
    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    /// Returns the roots of the shards, by number.
    pub fn shards(&self) -> &[Root<Shard<'static>>] {
        &self.shards
    }

    /// Returns the root of a shard by its number. The number behind the last shard is the root of the
    /// function libraries. Each greater number is the root of the replication progress.
    pub fn root(&self, shard: usize) -> &Root<Shard<'static>> {
        match self.shards.get(shard) {
            Some(shard) => shard,
            None if shard == self.shards.len() => &self.libraries,
            None => &self.progress,
        }
    }

    /// Returns the number of the shard that has a key.
    pub fn shard_of(&self, key: &[u8]) -> usize {
        // With one shard, the hash is not needed.
        if self.shards.len() == 1 { 0 } else { slot(key) * self.shards.len() / SLOTS }
    }

    /// Makes everything durable and closes the heap.
    ///
    /// # Errors
    /// If the heap cannot be closed.
    pub fn close(self) -> pheap::Result<()> {
        drop((self.shards, self.libraries, self.progress));
        self.heap.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heap_of_another_version_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("heap");
        let store = Store::open(&path, Settings::Process, 4).unwrap();
        let header: Root<Header> = store.heap.existing_root("pheap-redis").unwrap();
        let set_version = |header: &Root<Header>, version| {
            header
                .txn(|tx, header| {
                    tx[header].version = version;
                    Ok(())
                })
                .unwrap();
        };
        set_version(&header, VERSION + 1);
        drop(header);
        store.close().unwrap();
        let Err(error) = Store::open(&path, Settings::Process, 4) else { panic!("it was opened") };
        assert!(matches!(error, OpenError::Newer { found, .. } if found == VERSION + 1), "{error}");
        assert!(error.to_string().contains("was made by a newer pheap-redis"));
        // The refused heap is unchanged, and can be opened again.
        let heap = Options::new().durability(Durability::Process).open(&path).unwrap();
        assert_eq!(heap.roots().len(), 7);
        let header: Root<Header> = heap.existing_root("pheap-redis").unwrap();
        assert_eq!(header.read(|view, header| view[header].version).unwrap(), VERSION + 1);
        set_version(&header, VERSION - 1);
        drop(header);
        heap.close().unwrap();
        let Err(error) = Store::open(&path, Settings::Process, 4) else { panic!("it was opened") };
        assert!(matches!(error, OpenError::Older { found, .. } if found == VERSION - 1), "{error}");
    }
}
