//! The files of a heap with a log: how they are written, synced, and looked up by name.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::cache;
use super::format::HEAD;
use crate::error::{Error, Result};
use crate::os::file_system::overwrite_in_place;
use crate::os::maps::FileWindow;
use crate::os::names::{FileId, HeapFileNames, Stat, is_absent};
use crate::os::own_file::OwnFile;
use crate::os::storage::{Disk, Storage};
use crate::os::{check_file_size, file_size_limit, holes, seek_data, will_read, write_at};
use crate::units::PAGE;

#[derive(Debug)]
struct OpenLogFile {
    file: OwnFile,
    id: FileId,
    /// A map of the log's segments, if they are mapped. The log's head is not mapped, because its sectors
    /// must be written whole.
    window: OnceLock<FileWindow>,
    /// The largest length in bytes that this process may give a file (`RLIMIT_FSIZE`). The limit is read when
    /// the file is opened or made longer, and may be stale in between: reading it before each short write
    /// would make commits slower.
    size_limit: AtomicU64,
}

impl OpenLogFile {
    fn new(file: OwnFile) -> io::Result<OpenLogFile> {
        let id = Stat::from_file(&file)?.id;
        Ok(OpenLogFile { file, id, window: OnceLock::new(), size_limit: file_size_limit().into() })
    }
}

impl Storage for OpenLogFile {
    fn read_some(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(buf, at)
    }

    fn write_some(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        // A write of 256 KiB or more is made by a system call, to avoid the page faults of the map.
        if bytes.len() < 256 << 10 && self.window.get().is_some_and(|window| window.write(bytes, at)) {
            return Ok(bytes.len());
        }
        // Before a write of a page or more, the limit of file sizes is read again, because the process may
        // have lowered it. Compared to such a write, that takes little time.
        if bytes.len() as u64 >= PAGE || at + bytes.len() as u64 > self.size_limit.load(Relaxed) {
            return write_at(&self.file, bytes, at);
        }
        self.file.write_at(bytes, at)
    }

    fn sync_now(&self) -> io::Result<()> {
        // SURVIVES unreached: the crash lab has simulated files, whose syncs stand for this one.
        self.file.sync()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn data_from(&self, at: u64) -> io::Result<Option<u64>> {
        seek_data(&self.file, at)
    }

    fn will_read(&self, at: u64, len: u64) {
        will_read(&self.file, at, len);
    }

    fn extend_now(&self, from: u64, to: u64) -> io::Result<()> {
        self.size_limit.store(file_size_limit(), Relaxed);
        check_file_size(to)?;
        let zeros = vec![0; (to - from).min(1 << 20) as usize];
        let written = (from..to).step_by(zeros.len().max(1)).try_for_each(|at| {
            let len = (to - at).min(zeros.len() as u64);
            self.file.write_all_at(&zeros[..len as usize], at)
        });
        written.inspect_err(|_| {
            // Gives back the space of an unfinished extension.
            let _ = self.file.set_len(from);
        })?;
        if let Some(window) = self.window.get() {
            window.grow(to);
        }
        Ok(())
    }

    fn cut_off(&self, to: u64) -> io::Result<()> {
        // A store to the map behind the end of the file would end the process, so a mapped file is not made
        // shorter.
        if self.window.get().is_none() { self.file.set_len(to) } else { Ok(()) }
    }

    fn fill_holes(&self, len: u64) -> io::Result<()> {
        holes::unshare_blocks(&self.file, len)?;
        holes::reserve(&self.file, len)
    }

    fn punch(&self, at: u64, len: u64) -> io::Result<()> {
        holes::punch(&self.file, at, len)
    }

    fn unpunch(&self, at: u64, len: u64) -> io::Result<()> {
        holes::reserve_range(&self.file, at, len)
    }

    fn map(&self, len: u64) -> bool {
        let Ok(end) = self.len() else { return false };
        let window = FileWindow::new(&self.file, HEAD, end, len);
        window.is_some_and(|window| self.window.set(window).is_ok())
    }

    fn let_go(&self) {
        if let Some(window) = self.window.get() {
            window.let_go();
        }
    }

    fn id(&self) -> FileId {
        self.id
    }

    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }

    fn shows_writes(&self, at: u64) -> io::Result<bool> {
        cache::shows_writes(&self.file, at)
    }
}

/// Returns a storage for a file that only the caller has.
pub(crate) fn storage(file: OwnFile) -> io::Result<impl Storage> {
    OpenLogFile::new(file)
}

/// Time for which a sync relies on the last look at the names. A file can be renamed right after any look;
/// this makes "right after" a moment longer. The system calls of a look take long compared to the sync of a
/// fast disk.
const MOMENT: Duration = Duration::from_millis(1);

/// The file of a heap, and the one next to it for its log.
#[derive(Debug)]
pub(crate) struct Files {
    data: Arc<OpenLogFile>,
    /// Time at which [`find_log_lately`](Disk::find_log_lately) last looked at the names and found the log.
    found: Mutex<Option<Instant>>,
    /// The last known names of both files. This is a mutex of the standard library: a panic while it is
    /// locked leaves names that can still be used.
    names: Mutex<HeapFileNames>,
}

impl Files {
    /// Creates the files of a heap that was opened as `file` by `path`. The path may be a link: the log lies
    /// next to the file itself.
    pub(crate) fn new(file: OwnFile, path: &Path) -> io::Result<Files> {
        let data = OpenLogFile::new(file)?;
        let mut names = HeapFileNames::from_path(&fs::canonicalize(path)?)?;
        if !names.heap_is(data.id)? {
            // The file was renamed a moment ago, after it was opened.
            names = HeapFileNames::now(&data.file)?;
        }
        Ok(Files { data: Arc::new(data), found: Mutex::new(None), names: Mutex::new(names) })
    }

    fn names(&self) -> MutexGuard<'_, HeapFileNames> {
        // SURVIVES unreached: the simulated files of the crash lab have no names.
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for the heap's file at its last known name. If it has another name now, returns the current
    /// names.
    fn renamed(&self, names: &HeapFileNames) -> io::Result<Option<HeapFileNames>> {
        if names.heap_is(self.data.id)? { Ok(None) } else { HeapFileNames::now(&self.data.file).map(Some) }
    }

    /// Fails if the heap's file, or the given log, has no name any more. A program that has given up the
    /// right to look into the directory since it opened the heap can check no more. The user must then see to
    /// it that the names belong together.
    #[cold]
    fn check_links(&self, log: Option<&File>) -> io::Result<()> {
        for (what, file) in [("file", Some(&*self.data.file)), ("log", log)] {
            if let Some(file) = file
                && Stat::from_file(file)?.links == 0
            {
                let why = format!(
                    "the heap's {what} has been removed, and this program has no permission to look into its \
                     directory"
                );
                return Err(io::Error::new(io::ErrorKind::NotFound, why));
            }
        }
        Ok(())
    }

    /// Looks for the log next to the heap's file under that file's present name. Called when one of the two
    /// files is not at its last known name.
    #[cold]
    fn find_elsewhere(&self, names: &mut HeapFileNames, log: &dyn Storage) -> io::Result<()> {
        let renamed = self.renamed(names)?;
        let now = renamed.as_ref().unwrap_or(names);
        let (kind, what) = match now.log_id()? {
            Some(id) if id == log.id() => {
                // The heap was renamed together with its log, perhaps a moment ago, so the new names may not
                // be durable yet.
                now.sync()?;
                renamed.into_iter().for_each(|now| *names = now);
                return Ok(());
            }
            Some(_) => (io::ErrorKind::AlreadyExists, "is another file, not the log of the heap"),
            None => (
                io::ErrorKind::NotFound,
                "is missing: the log was moved, or the heap was moved without its log",
            ),
        };
        Err(io::Error::new(kind, format!("{} {what}", now.log_path().display())))
    }
}

/// Returns whether the error means that the file can at most be opened for reading.
fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

impl Disk for Files {
    fn log_path(&self) -> PathBuf {
        self.names().log_path()
    }

    fn data(&self) -> Arc<dyn Storage> {
        self.data.clone()
    }

    fn may_have_log(&self) -> Result<()> {
        let names = self.names();
        names.check_log_name().map_err(|e| Error::making("creating the log", &names.log_path(), e))?;
        let look = || io::Result::Ok((Stat::from_file(&self.data.file)?, names.stat()?));
        let (heap, directory) =
            look().map_err(|e| Error::io(format!("looking at {}", names.heap_path().display()), e))?;
        // Mounts are compared if they are known. Device numbers say less: on some file systems, directories
        // and files have different ones.
        let same = match (heap.mount, directory.mount) {
            (Some(heap), Some(directory)) => heap == directory,
            _ => heap.id.device == directory.id.device,
        };
        if same { Ok(()) } else { Err(Error::MountedAlone { path: names.heap_path() }) }
    }

    fn open_log(&self) -> io::Result<Option<Arc<dyn Storage>>> {
        let names = self.names();
        let opened = match names.open_log(libc::O_RDWR | libc::O_NOFOLLOW, 0) {
            // A program that only reads the heap does not need the right to write the log.
            Err(e) if is_read_only(&e) => names.open_log(libc::O_RDONLY | libc::O_NOFOLLOW, 0).map_err(|_| e),
            other => other,
        };
        match opened {
            Ok(file) => Ok(Some(Arc::new(OpenLogFile::new(OwnFile::new(file))?))),
            Err(e) if is_absent(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn create_log(&self) -> io::Result<Arc<dyn Storage>> {
        let mode = self.data.file.metadata()?.mode() & 0o777;
        let names = self.names();
        let log = OpenLogFile::new(OwnFile::new(
            names.open_log(libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, mode)?,
        ))?;
        overwrite_in_place(&log.file);
        // SURVIVES unreached: the simulated disk of the crash lab has no directory.
        let synced = names.sync();
        synced.inspect_err(|_| {
            // If the new log kept its name, the next attempt to create one would find the name taken.
            let _ = names.unlink_log(log.id);
        })?;
        Ok(Arc::new(log))
    }

    fn find_log(&self, log: &dyn Storage) -> io::Result<()> {
        let mut names = self.names();
        match names.are(self.data.id, log.id()) {
            Ok(true) => Ok(()),
            Ok(false) => self.find_elsewhere(&mut names, log),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => self.check_links(log.file()),
            Err(e) => Err(e),
        }
    }

    fn find_log_lately(&self, log: &dyn Storage) -> io::Result<()> {
        let now = Instant::now();
        // SURVIVES unreached: the simulated files of the crash lab have no names.
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.is_none_or(|found| now - found >= MOMENT) {
            self.find_log(log)?;
            *found = Some(now);
        }
        Ok(())
    }

    fn keep_data(&self) -> io::Result<()> {
        let mut names = self.names();
        match self.renamed(&names) {
            Ok(Some(now)) => *names = now,
            Ok(None) => {}
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => self.check_links(None)?,
            Err(e) => return Err(e),
        }
        Ok(())
    }

    fn remove_log(&self, log: &dyn Storage) -> io::Result<()> {
        self.names().unlink_log(log.id())
    }

    fn nonce(&self) -> io::Result<u64> {
        crate::os::random().map(|[number]| number | 1)
    }
}
