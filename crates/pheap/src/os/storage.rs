//! The operations that a write-ahead log needs of its file and of the heap's file. Tests replace them by
//! disks that fail.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::reservation::MappedWords;
use crate::error::Result;
use crate::faults::{Kind, Mutation, is_left_out, mutation};
pub(crate) use crate::os::names::FileId;

/// A file whose writes are durable after a [sync](Self::sync_now). Before it, they reach the disk in any
/// order, each sector (512 bytes) whole or not at all.
pub(crate) trait Storage: Send + Sync + Debug {
    /// Reads some of the bytes at offset `at` of the file, at most `buf.len()`. Returns the number of bytes
    /// read; 0 at the end of the file.
    ///
    /// # Errors
    /// The error of the operating system.
    fn read_some(&self, buf: &mut [u8], at: u64) -> io::Result<usize>;

    /// Writes some of the bytes at offset `at` of the file. Returns the number of bytes written.
    ///
    /// # Errors
    /// The error of the operating system.
    fn write_some(&self, bytes: &[u8], at: u64) -> io::Result<usize>;

    /// Waits until everything written is durable (`fdatasync`). After an error, the state of the disk is
    /// unknown.
    ///
    /// # Errors
    /// The error of the operating system.
    fn sync_now(&self) -> io::Result<()>;

    /// Returns the length of the file in bytes.
    ///
    /// # Errors
    /// The error of the operating system.
    fn len(&self) -> io::Result<u64>;

    /// Returns the offset of the first byte at or behind `at` that may not be zero, by the holes of the file;
    /// `None` if there is none. A sparse file may be longer than could be read.
    ///
    /// # Errors
    /// The error of the operating system.
    fn data_from(&self, at: u64) -> io::Result<Option<u64>> {
        Ok((at < self.len()?).then_some(at))
    }

    /// Tells the kernel that these bytes are about to be read. The call is only a hint.
    fn will_read(&self, _at: u64, _len: u64) {}

    /// Writes zeros (they are not only reserved) from `from`, which is not behind the file's end, to `to`. So
    /// the file becomes longer, and, after a sync, later writes there change no metadata. If this fails, the
    /// file keeps at least the bytes before `from`.
    ///
    /// # Errors
    /// The error of the operating system.
    fn extend_now(&self, from: u64, to: u64) -> io::Result<()>;

    /// Truncates the file at `to`, or leaves it unchanged if that is impossible. Nothing behind `to` is used
    /// any more. The truncation becomes durable some time later.
    ///
    /// # Errors
    /// The error of the operating system.
    fn cut_off(&self, _to: u64) -> io::Result<()> {
        Ok(())
    }

    /// Reserves space for the holes in the first `len` bytes, and for blocks that the file shares with
    /// another one: a copy of a file may have both. Changes no byte.
    ///
    /// # Errors
    /// The error of the operating system.
    fn fill_holes(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// Gives back the space of these bytes, which are zero from then on. The change becomes durable some time
    /// later, and may be durable in part before.
    ///
    /// # Errors
    /// The error of the operating system, also if the file system cannot make holes.
    fn punch(&self, _at: u64, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Reserves space for bytes whose space was [given back](Self::punch). Changes no byte.
    ///
    /// # Errors
    /// The error of the operating system.
    fn unpunch(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// Makes small writes of whole words behind the log's head, in the first `len` bytes, cheap enough to be
    /// made under a lock, by a shared map: the kernel writes them out later, or at a sync. As with other
    /// writes, one thread writes at a time, and the file never becomes shorter. Returns whether the file was
    /// mapped; if not, nothing has changed.
    fn map(&self, _len: u64) -> bool {
        false
    }

    /// Takes the file's pages out of the map. Called before a sync if much was written to the map: the sync
    /// is then faster, and disturbs other threads less.
    fn let_go(&self) {}

    /// Tells a simulated file which memory is a shared map of it.
    fn set_copy(&self, _copy: MappedWords) {}

    /// Writes the bytes that were stored to the memory of [`set_copy`](Self::set_copy) to the simulated page
    /// cache.
    ///
    /// # Errors
    /// As for [`write_some`](Self::write_some).
    fn write_copy(&self) -> io::Result<()> {
        Ok(())
    }

    /// Returns the file's id, which does not depend on its name.
    fn id(&self) -> FileId;

    /// Returns the operating system's file; `None` for a simulated one.
    fn file(&self) -> Option<&File> {
        None
    }

    /// Tests whether a private mapping shows writes to the file at once. The page at `_at` is used for that,
    /// and is zero afterwards; nothing else may use it.
    ///
    /// # Errors
    /// The error of the operating system.
    fn shows_writes(&self, _at: u64) -> io::Result<bool> {
        Ok(true)
    }

    /// Like [`write_some`](Self::write_some), but the bytes are durable only after the second sync that
    /// follows, not after the first. The crash lab uses this.
    ///
    /// # Errors
    /// As for `write_some`.
    fn write_late(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.write_some(bytes, at)
    }

    /// Like [`sync_now`](Self::sync_now), but takes effect only after the next write. The crash lab uses
    /// this.
    ///
    /// # Errors
    /// As for `sync_now`.
    fn sync_late(&self) -> io::Result<()> {
        self.sync_now()
    }
}

impl dyn Storage + '_ {
    /// Reads until the buffer is full or the file ends. Returns the number of bytes read.
    pub(crate) fn read_up_to(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.read_some(&mut buf[done..], at + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    /// Reads, like [`read_up_to`](Self::read_up_to), a place with two copies of something. Another process
    /// may be writing the copies in turns, each whole before the other is begun. Reads until two reads return
    /// the same. Then the newer copy that is whole is no older than this call.
    ///
    /// The reason: if one copy was seen half-written, the other was whole before, and was read afterwards. If
    /// the writer had begun to write the other copy as well by then, the first copy would be complete, and
    /// look different in the second read.
    pub(crate) fn read_copies(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let mut again = vec![0; buf.len()];
        loop {
            let have = self.read_up_to(buf, at)?;
            if self.read_up_to(&mut again, at)? == have && again[..have] == buf[..have] {
                return Ok(have);
            }
        }
    }

    /// Writes all of the bytes at offset `at` of the file.
    #[track_caller]
    pub(crate) fn write_all(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        match mutation(Kind::Write) {
            Some(Mutation::Drop) => return Ok(()),
            Some(Mutation::Delay) => return write_all(bytes, at, |bytes, at| self.write_late(bytes, at)),
            None => {}
        }
        write_all(bytes, at, |bytes, at| self.write_some(bytes, at))
    }

    /// Makes everything written durable; see [`sync_now`](Storage::sync_now).
    #[track_caller]
    pub(crate) fn sync(&self) -> io::Result<()> {
        match mutation(Kind::FileSync) {
            Some(Mutation::Drop) => return Ok(()),
            Some(Mutation::Delay) => return self.sync_late(),
            None => {}
        }
        self.sync_now()
    }

    /// Makes the file longer; see [`extend_now`](Storage::extend_now).
    #[track_caller]
    pub(crate) fn extend(&self, from: u64, to: u64) -> io::Result<()> {
        if is_left_out(Kind::Write) {
            return Ok(());
        }
        self.extend_now(from, to)
    }
}

/// Writes all of the bytes, by calls that write some of them.
pub(crate) fn write_all(
    bytes: &[u8],
    at: u64,
    write_some: impl Fn(&[u8], u64) -> io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match write_some(&bytes[done..], at + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// The heap's file, and the place for its log next to it.
pub(crate) trait Disk: Send + Sync + Debug {
    /// Returns the path of the log, for messages.
    fn log_path(&self) -> PathBuf;

    /// Fails if an opening of the heap by another path would not find a log made here.
    ///
    /// # Errors
    /// [`Error::MountedAlone`](crate::Error::MountedAlone), [`Error::Io`](crate::Error::Io).
    fn may_have_log(&self) -> Result<()> {
        Ok(())
    }

    /// Returns the heap's file.
    fn data(&self) -> Arc<dyn Storage>;

    /// Opens the log, if there is one.
    ///
    /// # Errors
    /// The error of the operating system.
    fn open_log(&self) -> io::Result<Option<Arc<dyn Storage>>>;

    /// Creates an empty log; fails if there is one. Its name is durable on return.
    ///
    /// # Errors
    /// The error of the operating system.
    fn create_log(&self) -> io::Result<Arc<dyn Storage>>;

    /// Checks that the next opening finds this log: that the log has its name, durably, next to the heap's
    /// file, under the present name of that file.
    ///
    /// # Errors
    /// If the log is not there, or the heap's file has no name that can be found; errors of the operating
    /// system.
    fn find_log(&self, log: &dyn Storage) -> io::Result<()>;

    /// Like [`find_log`](Self::find_log), for the check after each sync: may rely on an earlier check that
    /// has found the log a moment ago.
    ///
    /// # Errors
    /// Those of `find_log`.
    fn find_log_lately(&self, log: &dyn Storage) -> io::Result<()> {
        self.find_log(log)
    }

    /// Makes sure that the next opening finds the heap's file, which may need no log.
    ///
    /// # Errors
    /// If the file has no name that can be found; errors of the operating system.
    fn keep_data(&self) -> io::Result<()>;

    /// Removes the name of this log. Another file of that name stays. The removal becomes durable some time
    /// later.
    ///
    /// # Errors
    /// The error of the operating system.
    fn remove_log(&self, log: &dyn Storage) -> io::Result<()>;

    /// Returns a number for a new log. It differs from those of other logs, in all copies of the heap, with
    /// great probability.
    ///
    /// # Errors
    /// If the operating system gives no random numbers.
    fn nonce(&self) -> io::Result<u64>;
}
