//! Whether a private mapping of a file shows what is written to the file: a heap's does, or a page that was given back would come back as it was before.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::os::maps::PrivatePage;

/// The largest number that is written to try it out.
pub(super) const MOST_TRIED: u8 = 4;

/// Tries it out, in a page of a file that nobody else looks at and that ends as zeros.
pub(super) fn shows_writes(file: &File, at: u64) -> io::Result<bool> {
    shows(file, at, |word| file.write_all_at(&word.to_le_bytes(), at))
}

fn shows(mapped: &File, at: u64, write: impl Fn(u64) -> io::Result<()>) -> io::Result<bool> {
    // A file system that cannot map its files has nothing to show.
    let Ok(mut page) = PrivatePage::map(mapped, at) else { return Ok(false) };
    write(1)?;
    let mut shown = page.word() == 1; // a page that was not looked at before
    write(2)?;
    shown &= page.word() == 2; // one that was
    page.store(3);
    write(MOST_TRIED.into())?;
    page.drop_copy();
    shown &= page.word() == u64::from(MOST_TRIED); // one that was stored to, and given back
    write(0)?;
    Ok(shown && page.word() == 0)
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
        // A mapping of what the file was before, as if its pages were read once and kept.
        let old = tempfile::tempfile().unwrap();
        old.set_len(2 * PAGE).unwrap();
        let write = |word: u64| file.write_all_at(&word.to_le_bytes(), PAGE);
        assert!(!shows(&old, PAGE, write).unwrap());
        // One that comes too late.
        let late = std::cell::Cell::new(0u64);
        let write = |word| old.write_all_at(&late.replace(word).to_le_bytes(), PAGE);
        assert!(!shows(&old, PAGE, write).unwrap());
        // And files that cannot be mapped.
        let device = File::options().read(true).write(true).open("/dev/null").unwrap();
        assert!(!shows_writes(&device, 0).unwrap());
    }
}
