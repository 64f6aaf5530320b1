//! Brings the records of a log to the heap's file, page by page.

use std::collections::HashMap;
use std::io;

use super::storage::Storage;
use crate::heap::header::HEADER_SIZE;
use crate::heap::mapping::PAGE;
use crate::txn::log::{Range, ranges};

const PAGE_WORDS: usize = PAGE as usize / 8;
/// Pages that are put together before they are written.
const PAGES: usize = 4096;
/// Pages that are written at once.
const RUN: usize = 256;

/// Pages of the heap's file with the new bytes in them, written when they are many.
pub(crate) struct Fold<'a> {
    data: &'a dyn Storage,
    /// Place in `words` of a page, by its number.
    places: HashMap<u64, usize>,
    words: Vec<u64>,
    written: u64,
}

impl<'a> Fold<'a> {
    pub(crate) fn new(data: &'a dyn Storage) -> Fold<'a> {
        Fold { data, places: HashMap::new(), words: Vec::new(), written: 0 }
    }

    /// Adds the ranges of a record, which is newer than all before it.
    pub(crate) fn add(&mut self, record: &[u64]) -> io::Result<()> {
        ranges(record).try_for_each(|range| self.add_range(&range))
    }

    fn add_range(&mut self, range: &Range<'_>) -> io::Result<()> {
        debug_assert!(range.offset >= HEADER_SIZE, "the header is never logged");
        let mut done = 0;
        while done < range.words.len() {
            let at = range.offset + done as u64 * 8;
            let first = (at % PAGE) as usize / 8;
            let n = (PAGE_WORDS - first).min(range.words.len() - done);
            let page = self.page(at / PAGE, n < PAGE_WORDS)?;
            page[first..first + n].copy_from_slice(&range.words[done..done + n]);
            done += n;
        }
        Ok(())
    }

    /// A page of the file, with what was added to it. All of it will be overwritten unless it `keeps` something.
    fn page(&mut self, number: u64, keeps: bool) -> io::Result<&mut [u64]> {
        if let Some(&place) = self.places.get(&number) {
            return Ok(&mut self.words[place..place + PAGE_WORDS]);
        }
        if self.places.len() == PAGES {
            self.write()?;
        }
        let place = self.words.len();
        self.words.resize(place + PAGE_WORDS, 0);
        if keeps {
            // A file that is shorter ends in zeros, as it were.
            self.data.read_up_to(bytes_mut(&mut self.words[place..]), number * PAGE)?;
        }
        self.places.insert(number, place);
        Ok(&mut self.words[place..place + PAGE_WORDS])
    }

    fn write(&mut self) -> io::Result<()> {
        let mut pages: Vec<(u64, usize)> = self.places.drain().collect();
        pages.sort_unstable();
        let mut run: Vec<u64> = Vec::with_capacity(RUN * PAGE_WORDS);
        let mut first = 0;
        for (i, &(number, place)) in pages.iter().enumerate() {
            run.extend_from_slice(&self.words[place..place + PAGE_WORDS]);
            let goes_on = pages.get(i + 1).is_some_and(|next| next.0 == number + 1) && i + 1 - first < RUN;
            if !goes_on {
                self.data.write_all(bytes(&run), pages[first].0 * PAGE)?;
                self.written += run.len() as u64 * 8;
                run.clear();
                first = i + 1;
            }
        }
        self.words.clear();
        Ok(())
    }

    /// Writes what is left, and says how many bytes were written in all. They are durable after a sync.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        self.write()?;
        Ok(self.written)
    }
}

/// Words as bytes.
pub(crate) fn bytes(words: &[u64]) -> &[u8] {
    // SAFETY: words are bytes, too.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

fn bytes_mut(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: words are bytes, too, and any bytes are words.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}
