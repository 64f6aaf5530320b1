//! Simulated files, of which only synced writes survive a power failure. Other threads can come between the
//! operations on them.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::os::storage::{Disk, FileId, Storage};
use crate::os::syncs::Syncs;
use crate::sync::Mutex;

/// The state of a write to a simulated file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Written,
    Durable,
    /// The sync of the write has failed: the kernel may have dropped the write, and will not do it again.
    Lost,
}

#[derive(Debug)]
struct Content {
    len: u64,
    writes: Vec<(u64, Vec<u8>, Fate)>,
}

impl Content {
    fn read(&self, buf: &mut [u8], at: u64, of: impl Fn(Fate) -> bool) -> usize {
        let have = self.len.saturating_sub(at).min(buf.len() as u64) as usize;
        let buf = &mut buf[..have];
        buf.fill(0);
        for (start, bytes, _) in self.writes.iter().filter(|write| of(write.2)) {
            let from = at.max(*start);
            let to = (at + have as u64).min(start + bytes.len() as u64);
            if from < to {
                buf[(from - at) as usize..(to - at) as usize]
                    .copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
            }
        }
        have
    }
}

/// A simulated file. The order in which threads use the file matters, so its lock is a lock of the model.
#[derive(Debug)]
pub(super) struct ModelFile {
    content: Mutex<Content>,
    /// Serializes the syncs, as in a real file.
    syncs: Syncs,
    /// Number of syncs that succeed before one fails. The sync after that succeeds, as in the kernel.
    left: AtomicUsize,
    /// Whether the file has lost its name.
    misplaced: AtomicBool,
    /// Whether the file can be mapped.
    maps: bool,
}

impl ModelFile {
    fn new(maps: bool) -> Arc<ModelFile> {
        let content = Mutex::new(Content { len: 0, writes: Vec::new() });
        let (left, misplaced) = (AtomicUsize::new(usize::MAX), AtomicBool::new(false));
        Arc::new(ModelFile { content, syncs: Syncs::new(), left, misplaced, maps })
    }

    /// Makes a sync fail, after `syncs` more have succeeded.
    pub(super) fn fail_after(&self, syncs: usize) {
        self.left.store(syncs, Relaxed);
    }

    /// Makes the file lose its name.
    pub(super) fn misplace(&self) {
        self.misplaced.store(true, Relaxed);
    }

    /// Returns the number of writes so far.
    pub(super) fn writes(&self) -> usize {
        self.content.lock().writes.len()
    }

    /// Returns the content of the file that a power failure would leave: the durable writes.
    pub(super) fn after_power_cut(&self) -> Image {
        Image(self.with(|fate| fate == Fate::Durable))
    }

    /// Syncs as the kernel does: a failed write is reported once.
    fn sync_once(&self) -> io::Result<()> {
        // Writes that come while the sync is at work need not be covered by it.
        let covered = self.content.lock().writes.len();
        let left = self.left.load(Relaxed);
        self.left.store(left.checked_sub(1).unwrap_or(usize::MAX), Relaxed);
        let mut content = self.content.lock();
        for write in content.writes[..covered].iter_mut().filter(|write| write.2 == Fate::Written) {
            write.2 = if left == 0 { Fate::Lost } else { Fate::Durable };
        }
        if left == 0 { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
    }

    fn with(&self, of: impl Fn(Fate) -> bool) -> Content {
        let content = self.content.lock();
        let writes = content.writes.iter().filter(|write| of(write.2)).cloned().collect();
        Content { len: content.len, writes }
    }
}

impl Storage for ModelFile {
    fn read_some(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        Ok(self.content.lock().read(buf, at, |_| true))
    }

    fn write_some(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let mut content = self.content.lock();
        content.len = content.len.max(at + bytes.len() as u64);
        content.writes.push((at, bytes.to_vec(), Fate::Written));
        Ok(bytes.len())
    }

    fn sync_now(&self) -> io::Result<()> {
        self.syncs.sync(|| self.sync_once())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.content.lock().len)
    }

    fn extend_now(&self, _: u64, to: u64) -> io::Result<()> {
        let mut content = self.content.lock();
        content.len = content.len.max(to);
        Ok(())
    }

    fn map(&self, _: u64) -> bool {
        self.maps
    }

    fn id(&self) -> FileId {
        FileId { device: 0, inode: std::ptr::from_ref(self).addr() as u64 }
    }
}

/// The simulated files of a heap: its file, and its log.
#[derive(Debug)]
pub(super) struct ModelDisk {
    pub(super) data: Arc<ModelFile>,
    log: OnceLock<Arc<ModelFile>>,
    maps: bool,
    /// Whether syncs rely on an earlier look at the names.
    seldom: AtomicBool,
}

impl ModelDisk {
    pub(super) fn new(maps: bool) -> Arc<ModelDisk> {
        let (data, seldom) = (ModelFile::new(false), AtomicBool::new(false));
        Arc::new(ModelDisk { data, log: OnceLock::new(), maps, seldom })
    }

    /// From now on, each sync relies on an earlier look at the names.
    pub(super) fn look_seldom(&self) {
        self.seldom.store(true, Relaxed);
    }

    /// Returns the log's file.
    pub(super) fn log(&self) -> Arc<ModelFile> {
        self.log.get().expect("it was created").clone()
    }

    /// Returns the log that is left when the process is killed.
    pub(super) fn log_after_kill(&self) -> Image {
        Image(self.log().with(|_| true))
    }

    /// Returns the heap's file and the log that a power failure would leave.
    pub(super) fn after_power_cut(&self) -> (Image, Image) {
        let log = self.log();
        // The log is read before the heap's file. If the log says that the heap's file has everything, and
        // the file does not, the test must see that.
        let log = log.after_power_cut();
        (self.data.after_power_cut(), log)
    }
}

impl Disk for ModelDisk {
    fn log_path(&self) -> PathBuf {
        "model.wal".into()
    }

    fn data(&self) -> Arc<dyn Storage> {
        self.data.clone()
    }

    fn open_log(&self) -> io::Result<Option<Arc<dyn Storage>>> {
        Ok(Some(self.log()))
    }

    fn create_log(&self) -> io::Result<Arc<dyn Storage>> {
        let log = ModelFile::new(self.maps);
        self.log.set(log.clone()).expect("there is one");
        Ok(log)
    }

    fn find_log(&self, _: &dyn Storage) -> io::Result<()> {
        if self.log().misplaced.load(Relaxed) { Err(io::ErrorKind::NotFound.into()) } else { Ok(()) }
    }

    fn find_log_lately(&self, log: &dyn Storage) -> io::Result<()> {
        if self.seldom.load(Relaxed) { Ok(()) } else { self.find_log(log) }
    }

    fn keep_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn remove_log(&self, _: &dyn Storage) -> io::Result<()> {
        Ok(())
    }

    fn nonce(&self) -> io::Result<u64> {
        Ok(1)
    }
}

/// The content of a file as a kill or a power failure has left it. It is never written to.
#[derive(Debug)]
pub(super) struct Image(Content);

impl Image {
    pub(super) fn word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.read(&mut bytes, at, |_| true);
        u64::from_le_bytes(bytes)
    }
}

impl Storage for Image {
    fn read_some(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        Ok(self.0.read(buf, at, |_| true))
    }

    fn write_some(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_now(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len)
    }

    fn extend_now(&self, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn id(&self) -> FileId {
        FileId { device: 0, inode: 0 }
    }
}
