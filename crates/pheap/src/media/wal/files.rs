//! The files of a heap, as the operating system has them.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::storage::{Disk, Storage};
use super::window::Window;
use crate::heap::fork::OwnFile;

/// What the name of a log ends with.
const SUFFIX: &str = ".wal";

#[derive(Debug)]
struct OnDisk {
    file: OwnFile,
    window: OnceLock<Window>,
}

impl OnDisk {
    fn new(file: OwnFile) -> OnDisk {
        OnDisk { file, window: OnceLock::new() }
    }
}

impl Storage for OnDisk {
    fn read_some(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(buf, at)
    }

    fn write_some(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        // SAFETY: what `map` and `extend_now` ask for.
        if self.window.get().is_some_and(|window| unsafe { window.write(bytes, at) }) {
            return Ok(bytes.len());
        }
        self.file.write_at(bytes, at)
    }

    fn sync_now(&self) -> io::Result<()> {
        // SURVIVES unreached: this is what a simulated sync stands for.
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn extend_now(&self, from: u64, to: u64) -> io::Result<()> {
        let zeros = vec![0; (to - from).min(1 << 20) as usize];
        let written = (from..to).step_by(zeros.len().max(1)).try_for_each(|at| {
            let len = (to - at).min(zeros.len() as u64);
            self.file.write_all_at(&zeros[..len as usize], at)
        });
        written.inspect_err(|_| {
            let _ = self.file.set_len(from); // gives back what a part of it took
        })?;
        if let Some(window) = self.window.get() {
            window.grow(to);
        }
        Ok(())
    }

    fn map(&self, len: u64) -> bool {
        let Ok(end) = self.len() else { return false };
        let window = Window::new(&self.file, end, len);
        window.is_some_and(|window| self.window.set(window).is_ok())
    }

    fn is_linked(&self) -> io::Result<bool> {
        // Asked for nothing but this. Asking for times as well would make Linux (6.13 and newer) give the next write an exact one, and write the
        // inode with each sync: a quarter of the time of a commit.
        // SAFETY: `statx` is plain data, for which zeros are valid, and the call fills it.
        let (result, stat) = unsafe {
            let mut stat: libc::statx = std::mem::zeroed();
            let fd = self.file.as_raw_fd();
            (libc::statx(fd, c"".as_ptr(), libc::AT_EMPTY_PATH, libc::STATX_NLINK, &raw mut stat), stat)
        };
        if result == 0 { Ok(stat.stx_nlink > 0) } else { Err(io::Error::last_os_error()) }
    }
}

/// The file of a heap, and the one beside it for its log.
#[derive(Debug)]
pub(crate) struct Files {
    data: Arc<OnDisk>,
    log: PathBuf,
}

impl Files {
    /// `file` is the one at `path`, or what that links to: the log lies beside the file itself, whatever it was opened as.
    pub(crate) fn new(file: OwnFile, path: &Path) -> io::Result<Files> {
        let mut log = fs::canonicalize(path)?.into_os_string();
        log.push(SUFFIX);
        Ok(Files { data: Arc::new(OnDisk::new(file)), log: log.into() })
    }

    fn sync_directory(&self) -> io::Result<()> {
        let directory = self.log.parent().unwrap_or(Path::new("/"));
        // SURVIVES unreached: a simulated disk has no directory: a log that it makes has its name, durably.
        File::open(directory)?.sync_all()
    }
}

impl Disk for Files {
    fn log_path(&self) -> &Path {
        &self.log
    }

    fn data(&self) -> Arc<dyn Storage> {
        self.data.clone()
    }

    fn open_log(&self) -> io::Result<Option<Arc<dyn Storage>>> {
        match File::options().read(true).write(true).open(&self.log) {
            Ok(file) => Ok(Some(Arc::new(OnDisk::new(OwnFile::new(file))))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            // Those who only read need no more.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => match File::open(&self.log) {
                Ok(file) => Ok(Some(Arc::new(OnDisk::new(OwnFile::new(file))))),
                Err(_) => Err(e),
            },
            Err(e) => Err(e),
        }
    }

    fn create_log(&self) -> io::Result<Arc<dyn Storage>> {
        let mode = self.data.file.metadata()?.mode() & 0o777;
        let file = File::options().read(true).write(true).create_new(true).mode(mode).open(&self.log)?;
        // SURVIVES unreached: as above.
        self.sync_directory()?;
        Ok(Arc::new(OnDisk::new(OwnFile::new(file))))
    }

    fn remove_log(&self) -> io::Result<()> {
        fs::remove_file(&self.log)
    }
}
