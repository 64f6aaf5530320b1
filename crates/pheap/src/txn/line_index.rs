//! Finds the entries of a write set that cover a cache line: a hash table with chains, by line.
//!
//! A write set uses this index when it has too many entries to look at each of them.

use crate::units::LINE;

/// The largest number of lines that an index takes: the index of a line in `covered` takes 16 bits.
pub(super) const MAX_LINES: usize = u16::MAX as usize;
/// Number of heads of an index that has not grown; a power of two.
const HEADS: usize = 2 << 10;
/// Number of lines of a group. The lines of one group have successive places in `heads`, modulo the number of
/// heads.
const GROUP: u32 = 1024;

/// Says that an entry of the write set covers a line, at least in part.
#[derive(Clone, Copy)]
struct CoveredLine {
    /// The lower half of the line's number. Lines may share it, so a lookup must compare the entry's
    /// addresses, too.
    line: u32,
    entry: u16,
    /// One more than the index of the next element of `covered` with the same place in `heads`; 0 for none.
    next: u16,
}

pub(super) struct LineIndex {
    /// For each place of lines: one more than the index of the newest element of `covered`; 0 for none.
    heads: Box<[u16]>,
    covered: Vec<CoveredLine>,
}

/// Returns the place of a line's chain among `heads` heads; `heads` is a power of two.
///
/// A program may write many objects of one size, each at the same offset. So the places of successive groups
/// are scattered.
#[inline(always)]
fn head_index(line: u32, heads: usize) -> usize {
    line.wrapping_add((line / GROUP).wrapping_mul(0x9e37_79b9)) as usize & (heads - 1)
}

/// Returns the numbers of the first and the last line of a range, which is not empty.
#[inline(always)]
pub(super) fn first_and_last(addr: usize, len: usize) -> (usize, usize) {
    (addr / LINE, (addr + len - 1) / LINE)
}

impl LineIndex {
    pub(super) fn new() -> LineIndex {
        LineIndex { heads: vec![0; HEADS].into(), covered: Vec::new() }
    }

    /// Records that `entry` covers the lines from `first` to `last`. The index takes [`MAX_LINES`] in all.
    #[inline(always)]
    pub(super) fn insert(&mut self, first: usize, last: usize, entry: u16) {
        if self.covered.len() + (last - first) >= self.heads.len() {
            self.grow();
        }
        for line in first..=last {
            let line = line as u32;
            let head = &mut self.heads[head_index(line, self.heads.len())];
            let next = std::mem::replace(head, self.covered.len() as u16 + 1);
            self.covered.push(CoveredLine { line, entry, next });
        }
    }

    #[cold]
    fn grow(&mut self) {
        self.heads = vec![0; 4 * self.heads.len()].into();
        for (i, covered) in self.covered.iter_mut().enumerate() {
            covered.next =
                std::mem::replace(&mut self.heads[head_index(covered.line, self.heads.len())], i as u16 + 1);
        }
    }

    /// Calls `found` with the entries that cover line `line`, and perhaps with entries that cover a line with
    /// the same lower half of its number, until it returns a value. Returns that value.
    #[inline(always)]
    pub(super) fn find_on_line<T>(&self, line: usize, mut found: impl FnMut(u16) -> Option<T>) -> Option<T> {
        let line = line as u32;
        let mut next = self.heads[head_index(line, self.heads.len())];
        while next != 0 {
            let covered = self.covered[next as usize - 1];
            if covered.line == line
                && let Some(found) = found(covered.entry)
            {
                return Some(found);
            }
            next = covered.next;
        }
        None
    }

    /// Forgets all lines.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        if !self.covered.is_empty() {
            self.clear_lines();
        }
    }

    #[inline(never)] // most transactions have few entries, and no lines here
    fn clear_lines(&mut self) {
        if self.covered.len() > self.heads.len() / 4 {
            self.heads.fill(0);
        } else {
            self.covered
                .iter()
                .for_each(|covered| self.heads[head_index(covered.line, self.heads.len())] = 0);
        }
        self.covered.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    fn random(state: &mut u64) -> usize {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as usize
    }

    #[test]
    fn every_line_is_found_however_many_there_are() {
        let mut index = LineIndex::new();
        for (far, count) in [(0, 10), (1 << 40, 200), (0, 2000), (1 << 40, 9000), (0, 100)] {
            let (mut state, mut model, mut lines) = (count, HashMap::<usize, Vec<u16>>::new(), 0);
            for entry in 0..count as u16 {
                let (addr, len) =
                    (far + random(&mut state) % (1 << 24) * 8, 8 + random(&mut state) % 128 * 8);
                let (first, last) = first_and_last(addr, len);
                lines += last - first + 1;
                if lines > MAX_LINES {
                    break;
                }
                index.insert(first, last, entry);
                (first..=last).for_each(|line| model.entry(line).or_default().push(entry));
            }
            for (&line, entries) in &model {
                let mut seen = HashSet::new();
                index.find_on_line(line, |entry| seen.insert(entry).then_some(()).filter(|()| false));
                assert_eq!(seen, entries.iter().copied().collect());
            }
            let answers = (0..10_000).map(|_| random(&mut state) % (1 << 21));
            let absent = answers.filter(|line| !model.contains_key(&(far / LINE + line))).collect::<Vec<_>>();
            assert!(absent.iter().all(|line| index.find_on_line(far / LINE + line, Some).is_none()));
            index.clear();
            assert!(model.keys().all(|&line| index.find_on_line(line, Some).is_none()));
        }
    }

    #[test]
    fn objects_of_one_size_have_chains_of_their_own() {
        let mut index = LineIndex::new();
        // Adds the same line of every second one of many objects of 2 KiB.
        for i in 0..2000 {
            index.insert(i * 64 + 2, i * 64 + 2, i as u16);
        }
        let used = index.heads.iter().filter(|&&head| head != 0).count();
        assert!(used > 1000, "{used}");
    }
}
