//! What the operating system does: pages that are mapped ahead of their use, and a plain pass over a mapping.

use crate::{Result, Sample, Setup};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::time::Instant;

const PAGE: usize = 4096;

/// Maps the first `bytes` of a file that this process has mapped already, so that no access to them has to wait for a page.
/// Returns how many seconds that took.
///
/// Older kernels cannot (they lack `MADV_POPULATE_WRITE`, of Linux 5.14); then the pages come one by one later on.
pub(crate) fn populate(path: &Path, bytes: u64) -> Result<f64> {
    let path = path.canonicalize()?;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let start = Instant::now();
    for line in maps.lines() {
        // 7f0000000000-7f0000001000 rw-s 00000000 00:1a 1234    /dev/shm/…
        let mut fields = line.split_ascii_whitespace();
        let (range, offset, name) = (fields.next(), fields.nth(1), fields.nth(2));
        if name.is_none_or(|name| Path::new(name) != path) {
            continue;
        }
        let hex = |text: &str| usize::from_str_radix(text, 16);
        let (first, last) = range.and_then(|range| range.split_once('-')).ok_or("unknown format of maps")?;
        let (first, last) = (hex(first)?, hex(last)?);
        let left = (bytes as usize).saturating_sub(hex(offset.ok_or("unknown format of maps")?)?);
        advise(std::ptr::without_provenance_mut(first), (last - first).min(left), POPULATE_WRITE);
    }
    Ok(start.elapsed().as_secs_f64())
}

const POPULATE_READ: libc::c_int = 22;
const POPULATE_WRITE: libc::c_int = 23;

fn advise(start: *mut libc::c_void, bytes: usize, advice: libc::c_int) {
    // SAFETY: populating changes no byte of whatever is mapped there; where nothing is, or the kernel does not know the advice, it fails.
    unsafe { libc::madvise(start, bytes.next_multiple_of(PAGE), advice) };
}

/// A shared mapping of a file, as words.
pub(crate) struct Words {
    base: NonNull<u64>,
    len: usize,
}

impl Words {
    /// Maps a file that nobody else has.
    fn map(file: &File) -> Result<Words> {
        let bytes = usize::try_from(file.metadata()?.len())?;
        // SAFETY: asks for a new mapping at an address of the kernel's choice, so no memory in use is replaced. Checked below.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error().into());
        }
        Ok(Words { base: NonNull::new(address.cast()).ok_or("mapped at address 0")?, len: bytes / 8 })
    }

    fn words(&mut self) -> &mut [u64] {
        // SAFETY: that many words are mapped until `self` is dropped, aligned to a page, and all numbers are valid ones. The file is
        // known to this process alone.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, into which nobody has a reference.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len * 8) };
    }
}

/// How long it takes a thread to map all pages of a file, which lie in memory.
pub(crate) fn time_to_populate(path: &Path) -> Result<f64> {
    let file = File::options().read(true).write(true).open(path)?;
    let mapping = Words::map(&file)?;
    let start = Instant::now();
    advise(mapping.base.as_ptr().cast(), mapping.len * 8, POPULATE_READ);
    Ok(start.elapsed().as_secs_f64())
}

/// A file in memory whose pages are all there.
pub(crate) struct Plain(File);

impl Plain {
    pub(crate) fn new(setup: &Setup, bytes: u64) -> Result<Plain> {
        let file = tempfile::tempfile_in(&setup.dir)?;
        file.set_len(bytes)?;
        Words::map(&file)?.words().fill(1);
        Ok(Plain(file))
    }

    /// Maps the file anew, and reads and writes each word once. With `populated`, all pages are mapped before that, outside of
    /// the timed part.
    pub(crate) fn pass(&self, populated: bool) -> Result<Sample> {
        let start = Instant::now();
        let mut mapping = Words::map(&self.0)?;
        let populate = Instant::now();
        if populated {
            advise(mapping.base.as_ptr().cast(), mapping.len * 8, POPULATE_WRITE);
        }
        let populate = populate.elapsed();
        for word in mapping.words() {
            *word = word.wrapping_add(1);
        }
        let seconds = (start.elapsed() - populate).as_secs_f64();
        let sample = Sample { seconds, ..Sample::default() };
        Ok(if populated { sample.noting("populate_seconds", populate.as_secs_f64()) } else { sample })
    }
}
