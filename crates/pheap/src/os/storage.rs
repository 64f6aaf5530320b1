//! What a write-ahead log needs of the files: its own and that of the heap. The seam for disks that fail.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::reservation::Place;
use crate::error::Result;
use crate::faults::{Kind, Mutation, is_left_out, mutation};
pub(crate) use crate::os::names::FileId;

/// A file whose writes are durable after a [sync](Self::sync_now), each sector (512 bytes) whole or not at all, in any order before.
pub(crate) trait Storage: Send + Sync + Debug {
    /// Reads as many bytes as there are at `at`, at most `buf.len()`.
    ///
    /// # Errors
    /// What the operating system says.
    fn read_some(&self, buf: &mut [u8], at: u64) -> io::Result<usize>;

    /// Writes some of the bytes, and says how many.
    ///
    /// # Errors
    /// What the operating system says.
    fn write_some(&self, bytes: &[u8], at: u64) -> io::Result<usize>;

    /// Waits until all that was written is durable (`fdatasync`). After an error, it is not known what is.
    ///
    /// # Errors
    /// What the operating system says.
    fn sync_now(&self) -> io::Result<()>;

    /// Length in bytes.
    ///
    /// # Errors
    /// What the operating system says.
    fn len(&self) -> io::Result<u64>;

    /// Where the first byte at or behind `at` is that may not be zero, as far as that is known without reading. `None` if there is none. A file may say that it is longer than
    /// anyone could read.
    ///
    /// # Errors
    /// What the operating system says.
    fn data_from(&self, at: u64) -> io::Result<Option<u64>> {
        Ok((at < self.len()?).then_some(at))
    }

    /// Tells the kernel that these bytes are going to be read soon. Only a hint.
    fn will_read(&self, _at: u64, _len: u64) {}

    /// Makes the file longer by zeros that are written (not only reserved), so that, after a sync, later writes there change no metadata. If it
    /// fails, the file is as long as before.
    ///
    /// # Errors
    /// What the operating system says.
    fn extend_now(&self, from: u64, to: u64) -> io::Result<()>;

    /// Makes the file end at `to`, where nothing behind is used any more; or leaves it as it is, if that cannot be. Durable some time later.
    ///
    /// # Errors
    /// What the operating system says.
    fn cut_off(&self, _to: u64) -> io::Result<()> {
        Ok(())
    }

    /// Sees to it that there is room for the first `len` bytes, which a copy of the file may have as holes. Changes none of them.
    ///
    /// # Errors
    /// What the operating system says.
    fn fill_holes(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// Gives back the space of these bytes, which are zero from then on. Durable some time later, in part before.
    ///
    /// # Errors
    /// What the operating system says; also if the file system cannot.
    fn punch(&self, _at: u64, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Sees to it that there is room for these bytes again. Changes none of them.
    ///
    /// # Errors
    /// What the operating system says.
    fn unpunch(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// Makes writes to the first `len` bytes so cheap that they may be made under a lock: copies in memory that the kernel has, and writes some time, or at a sync.
    /// As with other writes, what is written at one time is written by one thread, and the file never becomes shorter. Whether that is so; if not, nothing has changed.
    fn map(&self, _len: u64) -> bool {
        false
    }

    /// To be called before a sync if much was written to where the file is mapped: the sync then takes less time, and others less in it.
    fn let_go(&self) {}

    /// Says where a map is that is a copy of the file, as that of a simulated one is.
    fn set_copy(&self, _copy: Place) {}

    /// Writes what was stored to that map: the page cache has it.
    ///
    /// # Errors
    /// As for [`write_some`](Self::write_some).
    fn write_copy(&self) -> io::Result<()> {
        Ok(())
    }

    /// Which file it is, whatever it is called.
    fn id(&self) -> FileId;

    /// The file itself, if it is one of the operating system.
    fn file(&self) -> Option<&File> {
        None
    }

    /// Whether a private mapping shows at once what is written to the file. It is tried out on a page that nobody looks at, which ends as zeros.
    ///
    /// # Errors
    /// What the operating system says.
    fn shows_writes(&self, _at: u64) -> io::Result<bool> {
        Ok(true)
    }

    /// [`write_some`](Self::write_some), of which the next sync makes nothing durable, only the one after it.
    ///
    /// # Errors
    /// As for `write_some`.
    fn write_late(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.write_some(bytes, at)
    }

    /// [`sync_now`](Self::sync_now), but after the next write.
    ///
    /// # Errors
    /// As for `sync_now`.
    fn sync_late(&self) -> io::Result<()> {
        self.sync_now()
    }
}

impl dyn Storage + '_ {
    /// Reads until the buffer is full or the file ends, and says how many bytes it got.
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

    /// [`read_up_to`](Self::read_up_to) of a place where two copies of something are written in turns, each whole before the other is begun, perhaps by another process at this moment:
    /// reads until it sees the same twice. Then the newer one that is whole is not older than when this was called.
    ///
    /// For if one was seen while it was being written, the other one was whole before, and has been looked at since; had it been begun as well by then, the first would look different.
    pub(crate) fn read_copies(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let mut again = vec![0; buf.len()];
        loop {
            let have = self.read_up_to(buf, at)?;
            if self.read_up_to(&mut again, at)? == have && again[..have] == buf[..have] {
                return Ok(have);
            }
        }
    }

    /// Writes all of the bytes.
    #[track_caller]
    pub(crate) fn write_all(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        match mutation(Kind::Write) {
            Some(Mutation::Drop) => return Ok(()),
            Some(Mutation::Delay) => return write_all(bytes, at, |bytes, at| self.write_late(bytes, at)),
            None => {}
        }
        write_all(bytes, at, |bytes, at| self.write_some(bytes, at))
    }

    /// See [`sync_now`](Storage::sync_now).
    #[track_caller]
    pub(crate) fn sync(&self) -> io::Result<()> {
        match mutation(Kind::FileSync) {
            Some(Mutation::Drop) => return Ok(()),
            Some(Mutation::Delay) => return self.sync_late(),
            None => {}
        }
        self.sync_now()
    }

    /// See [`extend_now`](Storage::extend_now).
    #[track_caller]
    pub(crate) fn extend(&self, from: u64, to: u64) -> io::Result<()> {
        if is_left_out(Kind::Write) {
            return Ok(());
        }
        self.extend_now(from, to)
    }
}

/// Writes all of the bytes, with calls that write some.
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

/// The heap's file, and the place for its log beside it.
pub(crate) trait Disk: Send + Sync + Debug {
    /// Where the log is, for messages.
    fn log_path(&self) -> PathBuf;

    /// Fails if a log would lie where it is not found by whoever opens the heap elsewhere.
    ///
    /// # Errors
    /// [`Error::MountedAlone`](crate::Error::MountedAlone), [`Error::Io`](crate::Error::Io).
    fn may_have_log(&self) -> Result<()> {
        Ok(())
    }

    /// The heap's file. Its length does not change through this.
    fn data(&self) -> Arc<dyn Storage>;

    /// The log, if there is one.
    ///
    /// # Errors
    /// What the operating system says.
    fn open_log(&self) -> io::Result<Option<Arc<dyn Storage>>>;

    /// A new, empty log; there is none. Its name is durable on return.
    ///
    /// # Errors
    /// What the operating system says.
    fn create_log(&self) -> io::Result<Arc<dyn Storage>>;

    /// Looks whether the next opening finds this log: whether it has its name, durably, beside the heap's
    /// file, wherever that is now.
    ///
    /// # Errors
    /// The log is not there, or the heap's file cannot be found by any name.
    fn find_log(&self, log: &dyn Storage) -> io::Result<()>;

    /// [`find_log`](Self::find_log) after each sync: may rely on a look that was a moment ago.
    ///
    /// # Errors
    /// Those of `find_log`.
    fn find_log_lately(&self, log: &dyn Storage) -> io::Result<()> {
        self.find_log(log)
    }

    /// Sees to it that the next opening finds the heap's file, which may need no log.
    ///
    /// # Errors
    /// It cannot be found by any name.
    fn keep_data(&self) -> io::Result<()>;

    /// Removes the name of this log, and of no other. Durable some time later.
    ///
    /// # Errors
    /// What the operating system says.
    fn remove_log(&self, log: &dyn Storage) -> io::Result<()>;

    /// A number for a new log: another one for each, whichever copy of the heap it is for.
    ///
    /// # Errors
    /// The operating system has no random numbers.
    fn nonce(&self) -> io::Result<u64>;
}
