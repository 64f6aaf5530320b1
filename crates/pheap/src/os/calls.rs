//! System calls for which the standard library has no function.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Makes a system call that returns a negative number when it fails, again if a signal has come in between: on network file systems any call may say so.
fn again(mut call: impl FnMut() -> libc::c_int) -> io::Result<libc::c_int> {
    loop {
        match call() {
            done if done >= 0 => return Ok(done),
            _ => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
        }
    }
}

/// Locks a file, if nobody has a lock on it that is in the way, until it is closed or [unlocked](unlock). (The standard library has this from Rust 1.89 on.)
pub(crate) fn try_lock(file: &File, shared: bool) -> io::Result<bool> {
    let how = if shared { libc::LOCK_SH } else { libc::LOCK_EX };
    // SAFETY: takes no addresses.
    match again(|| unsafe { libc::flock(file.as_raw_fd(), how | libc::LOCK_NB) }) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(e) => Err(e),
    }
}

/// Takes the lock back, also for children that share the open file.
pub(crate) fn unlock(file: &File) {
    // SAFETY: takes no addresses.
    let _ = again(|| unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) });
}

/// Numbers that nobody could guess.
///
/// # Errors
/// The operating system has none: neither its call works, nor its device.
pub(crate) fn random<const N: usize>() -> io::Result<[u64; N]> {
    let mut words = [0u64; N];
    // SAFETY: the buffer has this many bytes. Up to 256 of them come whole.
    let got = unsafe { libc::getrandom(words.as_mut_ptr().cast(), N * 8, 0) };
    if got != N as isize * 8 {
        // An old kernel, or a container whose rules refuse the call.
        let mut device = File::open("/dev/urandom")?;
        for word in &mut words {
            let mut bytes = [0; 8];
            device.read_exact(&mut bytes)?;
            *word = u64::from_ne_bytes(bytes);
        }
    }
    Ok(words)
}

/// Bytes of memory that this machine has, with what it swaps to. As many as there can be, if it does not say.
pub(crate) fn memory() -> u64 {
    let mut info = MaybeUninit::<libc::sysinfo>::uninit();
    // SAFETY: the call writes the structure, and reads nothing.
    if unsafe { libc::sysinfo(info.as_mut_ptr()) } != 0 {
        return u64::MAX;
    }
    // SAFETY: the call has worked, so all of it was written.
    let info = unsafe { info.assume_init() };
    (info.totalram + info.totalswap).saturating_mul(info.mem_unit.into())
}

/// Reserves space in a file, which becomes so long at least. `EFBIG` beyond what a file of this process may have.
pub(super) fn fallocate(file: &File, offset: u64, len: u64) -> io::Result<()> {
    check_file_size(offset + len)?;
    let (fd, offset, len) = (file.as_raw_fd(), offset as libc::off_t, len as libc::off_t);
    // SAFETY: takes no addresses.
    again(|| unsafe { libc::fallocate(fd, 0, offset, len) }).map(drop)
}

/// Gives a file blocks of its own for those that it shares in this range. The file system may ask for the
/// space of all of it.
pub(super) fn unshare(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let how = libc::FALLOC_FL_UNSHARE_RANGE | libc::FALLOC_FL_KEEP_SIZE;
    let (fd, offset, len) = (file.as_raw_fd(), offset as libc::off_t, len as libc::off_t);
    // SAFETY: takes no addresses.
    again(|| unsafe { libc::fallocate(fd, how, offset, len) }).map(drop)
}

/// An extent of a file: where it begins, its length, whether it is shared with another file, and whether it
/// is the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) is_shared: bool,
    pub(super) is_last: bool,
}

/// The extents of a file from `from` on: some of them, in order. None if there are no more.
pub(super) fn extents(file: &File, from: u64) -> io::Result<Vec<Extent>> {
    /// `struct fiemap_extent`.
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Entry {
        start: u64,
        place: u64,
        len: u64,
        reserved: [u64; 2],
        flags: u32,
        reserved_too: [u32; 3],
    }
    /// `struct fiemap`.
    #[repr(C)]
    struct Request {
        start: u64,
        len: u64,
        flags: u32,
        found: u32,
        room: u32,
        reserved: u32,
        entries: [Entry; ROOM],
    }
    const ROOM: usize = 128;
    const FS_IOC_FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;
    const LAST: u32 = 1;
    const SHARED: u32 = 0x2000;
    let len = u64::MAX - from;
    let room = ROOM as u32;
    let mut request = Request {
        start: from,
        len,
        flags: 0,
        found: 0,
        room,
        reserved: 0,
        entries: [Entry::default(); ROOM],
    };
    // SAFETY: the call reads the head of the structure, and writes it and as many entries as it says that
    // there is room for.
    again(|| unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut request) })?;
    let extent = |entry: &Entry| Extent {
        start: entry.start,
        len: entry.len,
        is_shared: entry.flags & SHARED != 0,
        is_last: entry.flags & LAST != 0,
    };
    Ok(request.entries[..request.found.min(room) as usize].iter().map(extent).collect())
}

/// Gives back the space of a part of a file, which reads as zeros from then on. The file stays as long as it is.
pub(super) fn punch_hole(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let (fd, offset, len) = (file.as_raw_fd(), offset as libc::off_t, len as libc::off_t);
    // SAFETY: takes no addresses.
    again(|| unsafe { libc::fallocate(fd, how, offset, len) }).map(drop)
}

/// Has the disk write what was written to a file, and waits for that. That does not make it durable: what the file system knows of the file is not written. Some file systems do nothing, such as those
/// in memory.
pub(crate) fn write_out(file: &File) -> io::Result<()> {
    let how =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: takes no addresses.
    match again(|| unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, how) }) {
        // There is no such call. Any other error may be that of a write, whatever its number, and whoever has been told of it once is not told by a sync.
        Err(e) if e.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
        done => done.map(drop),
    }
}

/// How long a file of this process can be. A call that would make it longer kills the process, unless that has said otherwise.
pub(crate) fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the call fills `limit`, or leaves it as it is.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
}

/// An error, `EFBIG`, if a file of this process cannot be so long: for who is about to make one longer, and is not to be killed for that.
pub(crate) fn check_file_size(len: u64) -> io::Result<()> {
    if len > file_size_limit() { Err(io::Error::from_raw_os_error(libc::EFBIG)) } else { Ok(()) }
}

/// Writes some of the bytes at a place in a file, and says how many.
///
/// # Errors
/// `EFBIG` where a file of this process may not have bytes; what the operating system says.
pub(crate) fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<usize> {
    check_file_size(at + bytes.len() as u64)?;
    file.write_at(bytes, at)
}

/// Has the kernel read these bytes of a file, without waiting for them. Only a hint.
pub(crate) fn will_read(file: &File, at: u64, len: u64) {
    // SAFETY: takes no addresses.
    unsafe {
        libc::posix_fadvise(
            file.as_raw_fd(),
            at as libc::off_t,
            len as libc::off_t,
            libc::POSIX_FADV_WILLNEED,
        )
    };
}

/// Makes a file that long.
///
/// # Errors
/// As for [`write_at`].
pub(crate) fn set_len(file: &File, len: u64) -> io::Result<()> {
    check_file_size(len)?;
    file.set_len(len)
}

/// Where the first byte at or behind `at` is that is not in a hole. `None` if there is none.
pub(crate) fn seek_data(file: &File, at: u64) -> io::Result<Option<u64>> {
    match seek(file, at, libc::SEEK_DATA) {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        // The file system knows no holes.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => Ok(Some(at)),
        Err(e) => Err(e),
    }
}

fn seek(file: &File, at: u64, how: libc::c_int) -> io::Result<u64> {
    loop {
        // SAFETY: takes no addresses. All reads and writes say where, so none relies on the position that
        // this changes.
        let found = unsafe { libc::lseek(file.as_raw_fd(), at as libc::off_t, how) };
        match io::Error::last_os_error() {
            _ if found >= 0 => return Ok(found as u64),
            e if e.kind() == io::ErrorKind::Interrupted => {}
            e => return Err(e),
        }
    }
}

/// Where the first byte at or behind `at` is that is in a hole: the end of the file, if there is no other. What is reserved and was never written may count as one.
pub(super) fn seek_hole(file: &File, at: u64) -> io::Result<u64> {
    seek(file, at, libc::SEEK_HOLE)
}

/// What the operating system says of a file system.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileSystem {
    /// Its magic number.
    pub(super) kind: i64,
    /// Its `f_fsid`.
    pub(super) name: u64,
    /// Bytes that nothing is in. `None` if it does not count them.
    pub(super) free: Option<u64>,
}

/// The file system that a file is in.
#[allow(clippy::unnecessary_cast)] // of another type elsewhere
pub(super) fn statfs(file: &File) -> io::Result<FileSystem> {
    // SAFETY: plain data, for which zeros are valid.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills `stat`.
    again(|| unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut stat) })?;
    // SAFETY: it is two integers of 32 bits, which Rust's libc does not name.
    let [low, high] = unsafe { std::mem::transmute::<libc::fsid_t, [u32; 2]>(stat.f_fsid) };
    Ok(FileSystem {
        kind: stat.f_type as i64,
        name: u64::from(low) | u64::from(high) << 32,
        free: (stat.f_blocks > 0).then(|| (stat.f_bfree as u64).saturating_mul(stat.f_frsize as u64)),
    })
}

/// Device and inode: no two files have the same while one of them is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// What the kernel says of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stat {
    pub(crate) id: FileId,
    /// How many names it has.
    pub(crate) links: u32,
    /// The mount that it was reached through, if the kernel says so (Linux 5.8).
    pub(crate) mount: Option<u64>,
}

/// Of Linux 5.8.
const STATX_MNT_ID: u32 = 0x1000;

impl Stat {
    /// Of a file that is open.
    pub(crate) fn of(file: &File) -> io::Result<Stat> {
        let what = libc::STATX_INO | libc::STATX_NLINK | STATX_MNT_ID;
        statx(file, c"", libc::AT_EMPTY_PATH, what)
    }
}

/// Asks for `what`. Never for times: Linux (6.13 and newer) would give the next write an exact one, and write the inode with each sync, which is a quarter of the time
/// of a commit.
pub(super) fn statx(directory: &File, name: &CStr, flags: libc::c_int, what: u32) -> io::Result<Stat> {
    let fd = directory.as_raw_fd();
    // SAFETY: plain data, for which zeros are valid.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the name is a string, and the call fills `stat`.
    match again(|| unsafe { libc::statx(fd, name.as_ptr(), flags, what, &raw mut stat) }) {
        // An old kernel, or a container whose rules do not know of the call.
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            return fstatat(directory, name, flags);
        }
        done => done?,
    };
    let id = FileId { device: device(stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino };
    let mount = (stat.stx_mask & what & STATX_MNT_ID != 0).then_some(stat.stx_mnt_id);
    Ok(Stat { id, links: stat.stx_nlink, mount })
}

fn device(major: u32, minor: u32) -> u64 {
    u64::from(major) << 32 | u64::from(minor)
}

/// [`statx`] as it was before there was that call.
#[allow(clippy::unnecessary_cast)] // of other types elsewhere
pub(super) fn fstatat(directory: &File, name: &CStr, flags: libc::c_int) -> io::Result<Stat> {
    // SAFETY: plain data, for which zeros are valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the name is a string, and the call fills `stat`.
    again(|| unsafe { libc::fstatat(directory.as_raw_fd(), name.as_ptr(), &raw mut stat, flags) })?;
    let id = FileId {
        device: device(libc::major(stat.st_dev) as u32, libc::minor(stat.st_dev) as u32),
        inode: stat.st_ino as u64,
    };
    Ok(Stat { id, links: stat.st_nlink as u32, mount: None })
}

/// Opens the file with this name in a directory. Children that run another program do not have it.
pub(super) fn open_at(directory: &File, name: &CStr, flags: libc::c_int, mode: u32) -> io::Result<File> {
    let (fd, flags) = (directory.as_raw_fd(), flags | libc::O_CLOEXEC);
    // SAFETY: a call with a string.
    let opened = again(|| unsafe { libc::openat(fd, name.as_ptr(), flags, mode) })?;
    // SAFETY: opened just now, and nobody else's.
    Ok(unsafe { File::from_raw_fd(opened) })
}

/// Removes a name from a directory.
pub(super) fn unlink_at(directory: &File, name: &CStr) -> io::Result<()> {
    // SAFETY: a call with a string.
    again(|| unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), 0) }).map(drop)
}

/// Of Linux 6.3, on which other files in memory may be forbidden.
const MFD_NOEXEC_SEAL: libc::c_uint = 8;

/// A new file in memory, which has no name, and is gone when nobody has it open.
pub(crate) fn file_in_memory() -> io::Result<File> {
    // SAFETY: a call with a string.
    let create =
        |flags| again(|| unsafe { libc::memfd_create(c"pheap".as_ptr(), libc::MFD_CLOEXEC | flags) });
    let opened = match create(MFD_NOEXEC_SEAL) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => create(0)?,
        opened => opened?,
    };
    // SAFETY: opened just now, and nobody else's.
    Ok(unsafe { File::from_raw_fd(opened) })
}

/// Asks the file system to overwrite the blocks of a file, which is empty, where they are.
pub(super) fn overwrite_in_place(file: &File) -> io::Result<()> {
    let mut flags: libc::c_long = 0;
    // SAFETY: the call writes a number, which lives.
    again(|| unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETFLAGS, &raw mut flags) })?;
    flags |= NO_COPY;
    // SAFETY: the call reads a number, which lives.
    again(|| unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS, &raw const flags) }).map(drop)
}

/// `FS_NOCOW_FL`.
const NO_COPY: libc::c_long = 0x0080_0000;

/// Gives a file another name, which nothing has. Returns whether that was done; else the last error of the operating system says why not.
pub(crate) fn rename_to_new(from: &Path, to: &Path) -> io::Result<bool> {
    let (old, new) = (CString::new(from.as_os_str().as_bytes())?, CString::new(to.as_os_str().as_bytes())?);
    let (here, flags) = (libc::AT_FDCWD, libc::RENAME_NOREPLACE);
    // SAFETY: the call reads two strings, each of which ends with a zero.
    let result = unsafe { libc::syscall(libc::SYS_renameat2, here, old.as_ptr(), here, new.as_ptr(), flags) };
    Ok(result == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::OwnedFd;

    #[test]
    fn a_file_is_written_out_and_errors_are_told() {
        for folder in [std::env::temp_dir(), "/dev/shm".into()] {
            let mut file = tempfile::tempfile_in(folder).unwrap();
            file.write_all(&[7; 5000]).unwrap();
            write_out(&file).unwrap();
        }
        let pipe = File::from(OwnedFd::from(io::pipe().unwrap().0));
        assert_eq!(write_out(&pipe).unwrap_err().raw_os_error(), Some(libc::ESPIPE));
    }
}
