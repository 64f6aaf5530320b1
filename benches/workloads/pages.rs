//! Page mappings of the operating system: pages that are mapped before their use, and a plain pass over a
//! mapping.

use crate::{Result, Sample, Setup};
use memmap2::{Advice, MmapMut};
use std::fs::File;
use std::path::Path;
use std::time::Instant;

const PAGE: usize = 4096;

/// Maps the first `bytes` of a file that this process has already mapped, so that no access has to wait for a
/// page. Returns the time in seconds.
///
/// Before Linux 5.14 there is no `MADV_POPULATE_WRITE`, and the pages are mapped one by one when they are
/// used.
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
        populate_at(first, (last - first).min(left));
    }
    Ok(start.elapsed().as_secs_f64())
}

fn populate_at(start: usize, bytes: usize) {
    const POPULATE_WRITE: libc::c_int = 23;
    let (start, bytes) = (std::ptr::without_provenance_mut(start), bytes.next_multiple_of(PAGE));
    // SAFETY: populating changes no byte of a mapping. If there is no mapping, or the kernel does not know
    // the advice, the call fails.
    unsafe { libc::madvise(start, bytes, POPULATE_WRITE) };
}

/// Maps a file that no other process uses meanwhile.
fn map(file: &File) -> Result<MmapMut> {
    // SAFETY: no other process uses the file now, and this one changes it only through this mapping.
    Ok(unsafe { MmapMut::map_mut(file)? })
}

fn words(mapping: &mut MmapMut) -> &mut [u64] {
    // SAFETY: any bytes are valid numbers.
    unsafe { mapping.align_to_mut().1 }
}

/// Returns the time that a thread needs to map all pages of a file, which are in memory.
pub(crate) fn time_to_populate(path: &Path) -> Result<f64> {
    let file = File::options().read(true).write(true).open(path)?;
    let mapping = map(&file)?;
    let start = Instant::now();
    let _ = mapping.advise(Advice::PopulateRead); // unknown to older kernels
    Ok(start.elapsed().as_secs_f64())
}

/// A temporary file, all of whose pages were written.
pub(crate) struct Plain(File);

impl Plain {
    pub(crate) fn new(setup: &Setup, bytes: u64) -> Result<Plain> {
        let file = tempfile::tempfile_in(&setup.dir)?;
        file.set_len(bytes)?;
        words(&mut map(&file)?).fill(1);
        Ok(Plain(file))
    }

    /// Maps the file anew, and reads and writes each word once. With `populated`, all pages are mapped before
    /// the timed part.
    pub(crate) fn pass(&self, populated: bool) -> Result<Sample> {
        let start = Instant::now();
        let mut mapping = map(&self.0)?;
        let populate = Instant::now();
        if populated {
            let _ = mapping.advise(Advice::PopulateWrite); // unknown to older kernels
        }
        let populate = populate.elapsed();
        for word in words(&mut mapping) {
            *word = word.wrapping_add(1);
        }
        let seconds = (start.elapsed() - populate).as_secs_f64();
        let sample = Sample { seconds, ..Sample::default() };
        Ok(if populated { sample.noting("populate_seconds", populate.as_secs_f64()) } else { sample })
    }
}
