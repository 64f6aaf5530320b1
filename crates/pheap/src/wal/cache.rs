//! Tests whether a private mapping of a file shows what is written to the file. A heap's mapping must show
//! it: a private page that was evicted must come back with the content that checkpoints have written.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::os::maps::PrivatePage;

/// The largest number that the test of a mapping writes to the file. A crash during the test may leave any of
/// its numbers there.
pub(super) const MOST_TRIED: u8 = 4;

/// Tests whether a private mapping of `file` shows writes, in the page at the offset `at`. No other thread
/// uses that page, and the test leaves it zero unless a write fails.
pub(super) fn shows_writes(file: &File, at: u64) -> io::Result<bool> {
    shows(file, at, |word| file.write_all_at(&word.to_le_bytes(), at))
}

/// Does the test: maps the page at the offset `at` of `mapped`, and calls `write`, which writes a number to
/// the tested file at that offset.
fn shows(mapped: &File, at: u64, write: impl Fn(u64) -> io::Result<()>) -> io::Result<bool> {
    // If the file system cannot map its files, no mapping shows the writes.
    let Ok(mut page) = PrivatePage::map(mapped, at) else { return Ok(false) };
    write(1)?;
    // The page was written before it was read for the first time.
    let mut shown = page.read_first_word() == 1;
    write(2)?;
    // The page had been read before it was written.
    shown &= page.read_first_word() == 2;
    page.store(3);
    write(MOST_TRIED.into())?;
    page.drop_copy();
    // The mapping had a private copy of the page when the page was written. The copy was then dropped.
    shown &= page.read_first_word() == u64::from(MOST_TRIED);
    write(0)?;
    Ok(shown && page.read_first_word() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::PAGE;

    #[test]
    fn what_a_page_cache_hides_is_noticed() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * PAGE).unwrap();
        assert!(shows_writes(&file, PAGE).unwrap());
        // The mapping shows another file, as if its pages had been read once and kept.
        let old = tempfile::tempfile().unwrap();
        old.set_len(2 * PAGE).unwrap();
        let write = |word: u64| file.write_all_at(&word.to_le_bytes(), PAGE);
        assert!(!shows(&old, PAGE, write).unwrap());
        // Each write reaches the mapping one write too late.
        let late = std::cell::Cell::new(0u64);
        let write = |word| old.write_all_at(&late.replace(word).to_le_bytes(), PAGE);
        assert!(!shows(&old, PAGE, write).unwrap());
        // `/dev/null` cannot be mapped.
        let device = File::options().read(true).write(true).open("/dev/null").unwrap();
        assert!(!shows_writes(&device, 0).unwrap());
    }
}
