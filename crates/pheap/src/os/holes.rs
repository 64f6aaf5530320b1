//! Holes of the heap's file: fills them, because a store to one ends the process if the disk is full, and
//! makes them of free pages. Copies of a heap may have holes, too.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::calls::{
    FileSystem, extents, fallocate, punch_hole, seek_data, seek_hole, statfs, unshare, write_at,
};
use super::file_system::{copies_blocks, is_tmpfs, may_share_blocks};
use super::own_file::OwnFile;
use super::storage::write_all;
use crate::error::{Error, Result};
use crate::units::PAGE;

/// Reserves space for the first `len` bytes, as for a heap that grew to this length, except for the ranges
/// (offset, length, in order) that are `free`. Changes no byte. Returns whether the free ranges may be holes.
///
/// If the file system cannot reserve space, zeros are written to the holes. (A file system that compresses
/// may make holes of them.) On a copy-on-write file system, reserving does not help.
pub(crate) fn reserve_space(file: &OwnFile, path: &Path, len: u64, free: &[(u64, u64)]) -> Result<bool> {
    let error = |error| Error::writing(format!("reserving the space of {}", path.display()), error);
    unshare_blocks(file, len).map_err(error)?;
    let filled = match free {
        [] => reserve(file, len).map(|()| false),
        free => reserve_but(file, len, free),
    };
    filled.map_err(error)
}

/// Bytes that are unshared by one call: the file system may require free space for all of them first.
const STEP: u64 = 16 << 20;

/// Unshares the blocks that the file shares with a copy, in its first `len` bytes. A store to a shared block
/// needs space, and ends the process if there is none.
pub(crate) fn unshare_blocks(file: &File, len: u64) -> io::Result<()> {
    if !may_share_blocks(file) {
        return Ok(());
    }
    let mut from = 0;
    while from < len {
        let extents = match extents(file, from) {
            // A file system without this call is taken to have no shared blocks.
            Err(error) if is_unknown(&error) => return Ok(()),
            extents => extents?,
        };
        for extent in extents.iter().filter(|extent| extent.is_shared && extent.start < len) {
            for at in (extent.start..extent.start + extent.len).step_by(STEP as usize) {
                match unshare(file, at, STEP.min(extent.start + extent.len - at)) {
                    // A file system that cannot unshare blocks is left as it is. For example, the one below
                    // an overlay may copy each page that is written anyway.
                    Err(error) if is_unknown(&error) => return Ok(()),
                    done => done?,
                }
            }
        }
        let Some(last) = extents.last().filter(|last| !last.is_last) else { break };
        from = last.start + last.len;
    }
    Ok(())
}

/// Returns whether the error says that the file system, the kernel, or the rules of a container do not have
/// the call.
fn is_unknown(error: &io::Error) -> bool {
    let unknown = [libc::EOPNOTSUPP, libc::ENOSYS, libc::ENOTTY, libc::EINVAL, libc::EPERM];
    error.raw_os_error().is_some_and(|code| unknown.contains(&code))
}

/// Returns whether there are holes in the first `len` bytes of a file that is not longer, and whose file
/// system counts only blocks of its bytes; `false` if that is unknown.
pub(crate) fn has_holes(file: &File, len: u64) -> bool {
    missing(file, len).is_ok_and(|missing| missing > 0)
}

fn reserve_but(file: &OwnFile, len: u64, free: &[(u64, u64)]) -> io::Result<bool> {
    let missing = missing(file, len)?;
    if missing == 0 {
        return Ok(false);
    }
    // If the disk is too full even with the free ranges as holes, `reserve` finds that, too, and returns the
    // error.
    if !may_have(file, missing.saturating_sub(free.iter().map(|&(_, bytes)| bytes).sum())) {
        return reserve(file, len).map(|()| true);
    }
    let mut from = 0;
    for &(at, bytes) in free.iter().chain([&(len, 0)]) {
        if at > from {
            reserve_range(file, from, at - from)?;
        }
        from = at + bytes;
    }
    Ok(true)
}

/// Returns an upper bound of the bytes without space among the first `len`. The file may be longer and have
/// some of its space behind them. The result is too low if the file system counts its metadata of the file.
fn missing(file: &File, len: u64) -> io::Result<u64> {
    let metadata = file.metadata()?;
    Ok(metadata.len().max(len).saturating_sub(metadata.blocks() * 512).min(len))
}

/// Returns whether there may be holes in the first `len` bytes of a file, although it takes as much of the
/// disk as it is long: the file system may count its metadata of the file, too. Reserved pages that were
/// never written look like holes.
fn may_have_hole(file: &File, len: u64) -> bool {
    // A tmpfs counts only the bytes, and reserving existing pages again takes long there.
    !is_tmpfs(file) && seek_hole(file, 0).map_or(true, |hole| hole < len)
}

/// Fails if the file system is copy-on-write, and has no space for one more copy of `bytes` bytes.
pub(crate) fn check_room(file: &File, bytes: u64) -> io::Result<()> {
    if copies_blocks(file) && !may_have(file, bytes) {
        return Err(io::Error::from_raw_os_error(libc::ENOSPC));
    }
    Ok(())
}

/// Reads as many of these bytes as the file has.
fn read_up_to(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    match file.read_exact_at(bytes, at) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
        read => read,
    }
}

/// Returns whether the file system may have this much free space.
fn may_have(file: &File, bytes: u64) -> bool {
    !matches!(statfs(file), Ok(FileSystem { free: Some(free), .. }) if free < bytes)
}

/// Reserves space for a part of a file, with `fallocate`, or else by zeros written to its holes. No byte
/// changes.
pub(crate) fn reserve_range(file: &OwnFile, at: u64, len: u64) -> io::Result<()> {
    match fallocate(file, at, len) {
        Err(error) if is_unknown(&error) => write_zeros(file, at, at + len),
        done => done,
    }
}

/// Writes zeros to the holes of a part of a file.
fn write_zeros(file: &OwnFile, mut at: u64, end: u64) -> io::Result<()> {
    // A file system may report a hole where a store to a map is not written yet, so the file is synced first.
    // SURVIVES unreached: the simulated files of the crash lab are no `OwnFile`; tests of this file have one.
    file.sync()?;
    let zeros = vec![0; (1 << 20).min(end - at) as usize];
    let mut found = zeros.clone();
    let file_end = file.metadata()?.len();
    while at < end {
        // A file system that does not know this call is taken to have no holes.
        let hole = if at < file_end { seek_hole(file, at).unwrap_or(file_end) } else { at };
        let data = if hole < file_end { seek_data(file, hole)?.unwrap_or(end) } else { end };
        at = hole;
        while at < data.min(end) {
            let len = (data.min(end) - at).min(zeros.len() as u64) as usize;
            found[..len].fill(0);
            read_up_to(file, &mut found[..len], at)?;
            if found[..len] == zeros[..len] {
                write_all(&zeros[..len], at, |bytes, at| write_at(file, bytes, at))?;
            }
            at += len as u64;
        }
        at = at.max(data);
    }
    Ok(())
}

/// Gives back the space of a part of a file. Not in a tmpfs: there, a read of a hole takes space, and may end
/// the process.
///
/// # Errors
/// The error of the operating system, also if the file system cannot make holes.
pub(crate) fn punch(file: &File, at: u64, len: u64) -> io::Result<()> {
    if is_tmpfs(file) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    punch_hole(file, at, len)
}

/// Reserves space for the first `len` bytes of any file, like [`reserve_space`], but unshares no blocks.
pub(crate) fn reserve(file: &OwnFile, len: u64) -> io::Result<()> {
    let missing = missing(file, len)?;
    if missing == 0 && !may_have_hole(file, len) {
        return Ok(());
    }
    // On a disk that is too full, `fallocate` would take, and keep, all free space before it fails. So it is
    // tried with only one page.
    let possible = if may_have(file, missing) { len } else { PAGE.min(len) };
    reserve_range(file, 0, possible)?;
    if possible == len { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ENOSPC)) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::path::PathBuf;

    use super::*;

    /// Returns a new file, with its folder, which must be kept alive.
    fn file() -> (tempfile::TempDir, PathBuf, OwnFile) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        (dir, path, OwnFile::new(file))
    }

    #[test]
    fn holes_are_filled_and_bytes_stay() {
        let (_dir, path, file) = file();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(b"here", 70_000).unwrap();
        let before = std::fs::read(&path).unwrap();
        reserve_space(&file, &path, 1 << 20, &[]).unwrap();
        assert!(std::fs::read(&path).unwrap() == before);
        // The space is reserved, or the file system cannot do that.
        let again = file.metadata().unwrap().blocks();
        reserve_space(&file, &path, 1 << 20, &[]).unwrap();
        assert_eq!(file.metadata().unwrap().blocks(), again);
    }

    /// Linux reports a failed write only once. Reserving space must not take the report from a later sync.
    #[test]
    fn zeros_are_not_written_after_a_failed_sync() {
        let (_dir, _path, file) = file();
        file.set_len(1 << 20).unwrap();
        file.fail_sync();
        assert!(write_zeros(&file, 0, 1 << 20).is_err());
    }

    /// A file with a hole may take as much space as without, if the file system counts its metadata of the
    /// file.
    #[test]
    fn a_hole_is_filled_in_a_file_that_takes_as_much_as_without() {
        let (_dir, path, file) = file();
        const LEN: u64 = 4 << 20;
        reserve_range(&file, 0, LEN).unwrap();
        for at in (0..LEN).step_by(64 * PAGE as usize) {
            file.write_all_at(&[1], at).unwrap(); // the file system needs metadata for many parts
        }
        file.sync_all().unwrap();
        let taken = || file.metadata().unwrap().blocks();
        let before = taken();
        if punch(&file, LEN - 30 * PAGE, PAGE).is_err() {
            return; // a file system without holes
        }
        reserve_space(&file, &path, LEN, &[]).unwrap();
        assert!(taken() >= before);
    }

    /// On a disk that is too full, a file with holes takes none of the free space.
    #[test]
    fn space_that_is_not_there_is_not_begun_to_be_taken() {
        let (_dir, path, file) = file();
        const HUGE: u64 = 8 << 40;
        if file.set_len(HUGE).is_err() || may_have(&file, HUGE / 2) {
            return; // no such files here, or a disk that has room
        }
        file.write_all_at(&[1; PAGE as usize], 0).unwrap(); // the page with which `reserve` tries it
        file.sync_all().unwrap();
        let before = file.metadata().unwrap().blocks();
        assert!(matches!(
            reserve_space(&file, &path, HUGE, &[(1 << 30, 1 << 30)]),
            Err(Error::OutOfSpace { .. })
        ));
        assert_eq!(file.metadata().unwrap().blocks(), before);
    }

    /// A crash may leave a file that is longer than the heap.
    #[test]
    fn what_lies_behind_the_heap_fills_no_hole() {
        let (_dir, path, file) = file();
        let blocks = || file.metadata().unwrap().blocks();
        reserve_range(&file, 0, 4 << 20).unwrap();
        let all = blocks();
        if punch(&file, 0, 1 << 20).is_err() || blocks() == all {
            return; // a file system without holes
        }
        assert!(reserve_space(&file, &path, 2 << 20, &[(0, 1 << 20)]).unwrap());
        assert!(blocks() < all);
        assert!(!reserve_space(&file, &path, 2 << 20, &[]).unwrap());
        assert!(blocks() >= all);
    }
}
