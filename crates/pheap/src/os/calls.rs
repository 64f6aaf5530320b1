//! System calls: most of them have no function in the standard library, or one without checks of limits.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Makes a system call that returns a negative number when it fails. Repeats it if a signal has interrupted
/// it: on network file systems any call may be interrupted.
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

/// Locks a file until it is closed or [unlocked](unlock), unless a conflicting lock exists; returns whether
/// it did. (The standard library has this from Rust 1.89 on.)
pub(crate) fn try_lock(file: &File, shared: bool) -> io::Result<bool> {
    let how = if shared { libc::LOCK_SH } else { libc::LOCK_EX };
    // SAFETY: `flock` takes no addresses.
    match again(|| unsafe { libc::flock(file.as_raw_fd(), how | libc::LOCK_NB) }) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(e) => Err(e),
    }
}

/// Releases the lock, also for children that share the open file.
pub(crate) fn unlock(file: &File) {
    // SAFETY: `flock` takes no addresses.
    let _ = again(|| unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) });
}

/// Returns unpredictable numbers.
///
/// # Errors
/// If neither the operating system's call works, nor its device.
pub(crate) fn random<const N: usize>() -> io::Result<[u64; N]> {
    let mut words = [0u64; N];
    // SAFETY: the buffer has `N * 8` bytes. (The call returns up to 256 bytes whole.)
    let got = unsafe { libc::getrandom(words.as_mut_ptr().cast(), N * 8, 0) };
    if got != N as isize * 8 {
        // The call fails on an old kernel, or in a container whose rules refuse it.
        let mut device = File::open("/dev/urandom")?;
        for word in &mut words {
            let mut bytes = [0; 8];
            device.read_exact(&mut bytes)?;
            *word = u64::from_ne_bytes(bytes);
        }
    }
    Ok(words)
}

/// Returns the bytes of memory of this machine, including swap; the largest number if that is unknown.
pub(crate) fn memory() -> u64 {
    let mut info = MaybeUninit::<libc::sysinfo>::uninit();
    // SAFETY: the call writes to `info`, which has the structure's size, and reads nothing.
    if unsafe { libc::sysinfo(info.as_mut_ptr()) } != 0 {
        return u64::MAX;
    }
    // SAFETY: the call has succeeded, so it has written the whole structure.
    let info = unsafe { info.assume_init() };
    (info.totalram + info.totalswap).saturating_mul(info.mem_unit.into())
}

/// Reserves space in a file, which becomes at least `offset + len` bytes long. Fails with `EFBIG` beyond this
/// process's limit of file sizes.
pub(super) fn fallocate(file: &File, offset: u64, len: u64) -> io::Result<()> {
    check_file_size(offset + len)?;
    let (fd, offset, len) = (file.as_raw_fd(), offset as libc::off_t, len as libc::off_t);
    // SAFETY: `fallocate` takes no addresses.
    again(|| unsafe { libc::fallocate(fd, 0, offset, len) }).map(drop)
}

/// Unshares the blocks of a file in this range. The file system may require free space for the whole range.
pub(super) fn unshare(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let how = libc::FALLOC_FL_UNSHARE_RANGE | libc::FALLOC_FL_KEEP_SIZE;
    let (fd, offset, len) = (file.as_raw_fd(), offset as libc::off_t, len as libc::off_t);
    // SAFETY: `fallocate` takes no addresses.
    again(|| unsafe { libc::fallocate(fd, how, offset, len) }).map(drop)
}

/// An extent of a file: its start and length in bytes, whether another file shares it, and whether it is the
/// last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileExtent {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) is_shared: bool,
    pub(super) is_last: bool,
}

/// Returns some of the file's extents from `from` on, in order; an empty list if there are no more.
pub(super) fn extents(file: &File, from: u64) -> io::Result<Vec<FileExtent>> {
    /// The kernel's `struct fiemap_extent`.
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
    /// The kernel's `struct fiemap`.
    #[repr(C)]
    struct FiemapRequest {
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
    let mut request = FiemapRequest {
        start: from,
        len,
        flags: 0,
        found: 0,
        room,
        reserved: 0,
        entries: [Entry::default(); ROOM],
    };
    // SAFETY: the call reads the head of `request`, and writes the head and at most `room` entries, for which
    // `request` has room.
    again(|| unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut request) })?;
    let extent = |entry: &Entry| FileExtent {
        start: entry.start,
        len: entry.len,
        is_shared: entry.flags & SHARED != 0,
        is_last: entry.flags & LAST != 0,
    };
    Ok(request.entries[..request.found.min(room) as usize].iter().map(extent).collect())
}

/// Gives back the space of a part of a file, which reads as zeros from then on. The file keeps its length.
pub(super) fn punch_hole(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let (fd, offset, len) = (file.as_raw_fd(), offset as libc::off_t, len as libc::off_t);
    // SAFETY: `fallocate` takes no addresses.
    again(|| unsafe { libc::fallocate(fd, how, offset, len) }).map(drop)
}

/// Makes the kernel write the bytes of a file to the disk, and waits for that. They are not durable then: the
/// file's metadata are not written, and the disk may have the bytes in a cache. Some file systems do nothing,
/// such as those in memory.
pub(crate) fn write_out(file: &File) -> io::Result<()> {
    let how =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: `sync_file_range` takes no addresses.
    match again(|| unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, how) }) {
        // `ENOSYS` says that the kernel does not have the call. Any other error, of any number, may be that
        // of a write. The kernel reports it once, so a later sync would not return it.
        Err(e) if e.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
        done => done.map(drop),
    }
}

/// Returns this process's limit of file sizes, in bytes; the largest number if there is none. A call that
/// would make a file longer raises a signal, which kills the process by default.
pub(crate) fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the call writes to `limit`, or fails and leaves it unchanged.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
}

/// Fails with `EFBIG` if a file of this process may not have `len` bytes. Called before a file grows, to
/// avoid the signal.
pub(crate) fn check_file_size(len: u64) -> io::Result<()> {
    if len > file_size_limit() { Err(io::Error::from_raw_os_error(libc::EFBIG)) } else { Ok(()) }
}

/// Writes some of the bytes at offset `at` of a file. Returns the number of bytes written.
///
/// # Errors
/// `EFBIG` if the end is beyond this process's limit of file sizes; errors of the operating system.
pub(crate) fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<usize> {
    check_file_size(at + bytes.len() as u64)?;
    file.write_at(bytes, at)
}

/// Asks the kernel to read these bytes of a file, without waiting for them. The call is only a hint.
pub(crate) fn will_read(file: &File, at: u64, len: u64) {
    // SAFETY: `posix_fadvise` takes no addresses.
    unsafe {
        libc::posix_fadvise(
            file.as_raw_fd(),
            at as libc::off_t,
            len as libc::off_t,
            libc::POSIX_FADV_WILLNEED,
        )
    };
}

/// Sets the length of a file.
///
/// # Errors
/// As for [`write_at`].
pub(crate) fn set_len(file: &File, len: u64) -> io::Result<()> {
    check_file_size(len)?;
    file.set_len(len)
}

/// Returns the offset of the first byte at or behind `at` that is not in a hole; `None` if there is none.
pub(crate) fn seek_data(file: &File, at: u64) -> io::Result<Option<u64>> {
    match seek(file, at, libc::SEEK_DATA) {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        // On a file system that does not know `SEEK_DATA`, the byte at `at` counts as data.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => Ok(Some(at)),
        Err(e) => Err(e),
    }
}

fn seek(file: &File, at: u64, how: libc::c_int) -> io::Result<u64> {
    loop {
        // SAFETY: `lseek` takes no addresses.
        let found = unsafe { libc::lseek(file.as_raw_fd(), at as libc::off_t, how) };
        match io::Error::last_os_error() {
            _ if found >= 0 => return Ok(found as u64),
            e if e.kind() == io::ErrorKind::Interrupted => {}
            e => return Err(e),
        }
    }
}

/// Returns the offset of the first byte at or behind `at` that is in a hole; the end of the file if there is
/// no other. Space that was reserved and never written may count as a hole.
pub(super) fn seek_hole(file: &File, at: u64) -> io::Result<u64> {
    seek(file, at, libc::SEEK_HOLE)
}

/// Properties of a file system, from `statfs`.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileSystem {
    /// The file system's magic number.
    pub(super) kind: i64,
    /// The file system's `f_fsid`.
    pub(super) name: u64,
    /// Free bytes; `None` if the file system does not count them.
    pub(super) free: Option<u64>,
}

/// Returns the properties of a file's file system.
#[allow(clippy::unnecessary_cast)] // on other systems the fields have other types
pub(super) fn statfs(file: &File) -> io::Result<FileSystem> {
    // SAFETY: `libc::statfs` is plain data, for which zeros are valid.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes to `stat`, which has the structure's size.
    again(|| unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut stat) })?;
    // SAFETY: `fsid_t` is two integers of 32 bits, which Rust's libc does not name, so any `fsid_t` is a
    // valid `[u32; 2]`.
    let [low, high] = unsafe { std::mem::transmute::<libc::fsid_t, [u32; 2]>(stat.f_fsid) };
    Ok(FileSystem {
        kind: stat.f_type as i64,
        name: u64::from(low) | u64::from(high) << 32,
        free: (stat.f_blocks > 0).then(|| (stat.f_bfree as u64).saturating_mul(stat.f_frsize as u64)),
    })
}

/// Device and inode of a file: while a file is open, no other file has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// Properties of a file, from `statx`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stat {
    pub(crate) id: FileId,
    /// Number of names (hard links).
    pub(crate) links: u32,
    /// The id of the mount through which the file was opened, if the kernel reports it (Linux 5.8).
    pub(crate) mount: Option<u64>,
}

/// The flag with which `statx` also returns the id of the mount, since Linux 5.8.
const STATX_MNT_ID: u32 = 0x1000;

impl Stat {
    /// Returns the properties of an open file.
    pub(crate) fn from_file(file: &File) -> io::Result<Stat> {
        let what = libc::STATX_INO | libc::STATX_NLINK | STATX_MNT_ID;
        statx(file, c"", libc::AT_EMPTY_PATH, what)
    }
}

/// Returns the properties `what` of a file. Never ask for times: then Linux (6.13 and newer) would give the
/// next write an exact time, and write the inode with each sync, which makes commits slower.
pub(super) fn statx(directory: &File, name: &CStr, flags: libc::c_int, what: u32) -> io::Result<Stat> {
    let fd = directory.as_raw_fd();
    // SAFETY: `libc::statx` is plain data, for which zeros are valid.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: `name` is a string that ends with a zero, and the call writes to `stat`, which has the
    // structure's size.
    match again(|| unsafe { libc::statx(fd, name.as_ptr(), flags, what, &raw mut stat) }) {
        // The call fails on an old kernel, or in a container whose rules do not know it.
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

/// Does the same as [`statx`] on kernels without that call.
#[allow(clippy::unnecessary_cast)] // on other systems the fields have other types
pub(super) fn fstatat(directory: &File, name: &CStr, flags: libc::c_int) -> io::Result<Stat> {
    // SAFETY: `libc::stat` is plain data, for which zeros are valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `name` is a string that ends with a zero, and the call writes to `stat`, which has the
    // structure's size.
    again(|| unsafe { libc::fstatat(directory.as_raw_fd(), name.as_ptr(), &raw mut stat, flags) })?;
    let id = FileId {
        device: device(libc::major(stat.st_dev) as u32, libc::minor(stat.st_dev) as u32),
        inode: stat.st_ino as u64,
    };
    Ok(Stat { id, links: stat.st_nlink as u32, mount: None })
}

/// Opens, or if `flags` say so creates, the file with this name in a directory. Child processes that run
/// another program do not inherit it.
pub(super) fn open_at(directory: &File, name: &CStr, flags: libc::c_int, mode: u32) -> io::Result<File> {
    let (fd, flags) = (directory.as_raw_fd(), flags | libc::O_CLOEXEC);
    // SAFETY: `name` is a string that ends with a zero.
    let opened = again(|| unsafe { libc::openat(fd, name.as_ptr(), flags, mode) })?;
    // SAFETY: `openat` has returned a new descriptor, which nothing else owns.
    Ok(unsafe { File::from_raw_fd(opened) })
}

/// Removes a name from a directory.
pub(super) fn unlink_at(directory: &File, name: &CStr) -> io::Result<()> {
    // SAFETY: `name` is a string that ends with a zero.
    again(|| unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), 0) }).map(drop)
}

/// A flag of `memfd_create`, since Linux 6.3: the file cannot be executed. A system may forbid files in
/// memory without this flag.
const MFD_NOEXEC_SEAL: libc::c_uint = 8;

/// Creates a file in memory, without a name, which is gone when no process has it open or mapped.
pub(crate) fn file_in_memory() -> io::Result<File> {
    // SAFETY: the name is a string that ends with a zero.
    let create =
        |flags| again(|| unsafe { libc::memfd_create(c"pheap".as_ptr(), libc::MFD_CLOEXEC | flags) });
    let opened = match create(MFD_NOEXEC_SEAL) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => create(0)?,
        opened => opened?,
    };
    // SAFETY: `memfd_create` has returned a new descriptor, which nothing else owns.
    Ok(unsafe { File::from_raw_fd(opened) })
}

/// Asks the file system to overwrite the blocks of this empty file in place.
pub(super) fn overwrite_in_place(file: &File) -> io::Result<()> {
    let mut flags: libc::c_long = 0;
    // SAFETY: the call writes to `flags`, which has room for a `long`.
    again(|| unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETFLAGS, &raw mut flags) })?;
    flags |= NO_COPY;
    // SAFETY: the call reads `flags`, which is a `long`.
    again(|| unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS, &raw const flags) }).map(drop)
}

/// The kernel's flag `FS_NOCOW_FL`: the file is not copied on write.
const NO_COPY: libc::c_long = 0x0080_0000;

/// Renames a file to a name that no file has. Returns whether it did; if not, the last error of the operating
/// system says why.
pub(crate) fn rename_to_new(from: &Path, to: &Path) -> io::Result<bool> {
    let (old, new) = (CString::new(from.as_os_str().as_bytes())?, CString::new(to.as_os_str().as_bytes())?);
    let (here, flags) = (libc::AT_FDCWD, libc::RENAME_NOREPLACE);
    // SAFETY: the call reads `old` and `new`, which are strings that end with a zero.
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
