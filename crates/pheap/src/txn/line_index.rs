//! Which entries of a write set cover a cache line.
//!
//! A hash table with chains, by line. A write set uses it when it has more entries than it looks at one by one. While the index is small, only the caller's
//! filter of 64 bits comes before it; that soon says nothing any more, so a large one has a larger filter, in which the lines of an object are bits side by
//! side, so that one test answers for all of them.

use crate::units::LINE;

/// Lines at most: their numbers take 16 bits.
pub(super) const MAX_LINES: usize = u16::MAX as usize;
/// The stages in which the table grows: for so many lines it has so many heads, and the filter so many bits.
const STAGES: [Stage; 3] = [
    Stage { lines: 256, heads: 2 << 10, bits: 0 },
    Stage { lines: 8 << 10, heads: 8 << 10, bits: 128 << 10 },
    Stage { lines: MAX_LINES, heads: 32 << 10, bits: 512 << 10 },
];
/// Lines of a group: within one the places of lines are side by side.
const GROUP: usize = 1024;
/// Bytes of a range that one test of the filter answers for: its lines are less than the bits of a word that begins at any byte.
pub(super) const AT_ONCE: usize = 50 * LINE;

struct Stage {
    lines: usize,
    heads: usize,
    bits: usize,
}

/// That an entry covers a line, at least in part.
#[derive(Clone, Copy)]
struct Covered {
    /// The lower half of the line's number: whether an entry has to do with a range is for the entry to say.
    line: u32,
    entry: u16,
    /// One more than the number of the next one with the same place; 0 for none.
    next: u16,
}

/// The heads of the chains, and the filter, of a stage. A group begins at any of the places that the stage has, so there is a group more of them.
struct Table {
    /// By place: one more than the number of the newest in `covered`; 0 for none.
    heads: Box<[u16]>,
    /// By place: whether there is one. With a word more, so that one can be read at any byte.
    filter: Box<[u8]>,
}

impl Table {
    fn new(stage: &Stage) -> Table {
        let filter = if stage.bits == 0 { 0 } else { (stage.bits + GROUP) / 8 + 8 };
        Table { heads: vec![0; stage.heads + GROUP].into(), filter: vec![0; filter].into() }
    }
}

pub(super) struct LineIndex {
    /// Of the stage's table.
    heads: *mut u16,
    filter: *mut u8,
    /// Where groups may begin. In the filter, 0 if there is none.
    heads_mask: usize,
    filter_mask: usize,
    /// Has room for so many lines: those of the stage.
    covered: Vec<Covered>,
    full: usize,
    stage: usize,
    /// Of this stage, of those before it (empty), and of later ones that were used before (empty).
    tables: Vec<Table>,
}

/// The place of a line, where groups begin at the places that `mask` leaves. It depends on the lower half of the line's number only.
///
/// There may be many objects of one size, of all of which the same part is written: groups must not begin at such distances.
#[inline(always)]
fn place(line: usize, mask: usize) -> usize {
    let group = line as u32 / GROUP as u32;
    ((group.wrapping_mul(0x9e37_79b9) >> 12) as usize & mask) + line % GROUP
}

/// The numbers of the first and the last line of a range that is not empty.
#[inline(always)]
pub(super) fn first_and_last(addr: usize, len: usize) -> (usize, usize) {
    (addr / LINE, (addr + len - 1) / LINE)
}

/// A bit for each line from `first` to `last`.
#[inline(always)]
fn bits(first: usize, last: usize) -> u64 {
    u64::MAX >> (63 - (last - first))
}

impl LineIndex {
    pub(super) fn new() -> LineIndex {
        let mut index = LineIndex {
            heads: std::ptr::null_mut(),
            filter: std::ptr::null_mut(),
            heads_mask: 0,
            filter_mask: 0,
            covered: Vec::new(),
            full: 0,
            stage: 0,
            tables: vec![Table::new(&STAGES[0])],
        };
        index.enter(0);
        index
    }

    fn enter(&mut self, stage: usize) {
        self.stage = stage;
        self.full = STAGES[stage].lines;
        self.covered.reserve_exact(self.full - self.covered.len());
        let table = &mut self.tables[stage];
        self.heads = table.heads.as_mut_ptr();
        self.filter = table.filter.as_mut_ptr();
        self.heads_mask = STAGES[stage].heads - 1;
        self.filter_mask = STAGES[stage].bits.saturating_sub(1);
    }

    /// Whether no entry covers a line of a range that is not empty. May say `false` if none does; always says so of long ranges, and unless the
    /// index is [large](Self::is_large).
    #[inline(always)]
    pub(super) fn rules_out(&self, addr: usize, len: usize) -> bool {
        if !self.is_large() || len > AT_ONCE {
            return false;
        }
        let (first, last) = first_and_last(addr, len);
        if (first ^ last) >= GROUP {
            return self.rules_out_each(first, last);
        }
        let place = place(first, self.filter_mask);
        // SAFETY: a place is within the filter, behind which there is a word more.
        let word = unsafe { self.filter.add(place / 8).cast::<u64>().read_unaligned() };
        word >> (place % 8) & bits(first, last) == 0
    }

    #[cold]
    fn rules_out_each(&self, first: usize, last: usize) -> bool {
        (first..=last).all(|line| {
            let place = place(line, self.filter_mask);
            // SAFETY: a place is within the filter.
            unsafe { self.filter.add(place / 8).read() >> (place % 8) & 1 == 0 }
        })
    }

    /// Notes that `entry` covers the lines from `first` to `last`: few, and not more than [`MAX_LINES`] in all.
    #[inline(always)]
    pub(super) fn insert(&mut self, first: usize, last: usize, entry: u16) {
        if self.covered.len() + (last - first) >= self.full {
            self.grow();
        }
        let mut first = first;
        if (first ^ last) >= GROUP {
            self.insert_in_group(first, first | (GROUP - 1), entry);
            first = last & !(GROUP - 1);
        }
        self.insert_in_group(first, last, entry);
    }

    #[inline(always)]
    fn insert_in_group(&mut self, first: usize, last: usize, entry: u16) {
        let number = self.covered.len();
        let at = place(first, self.heads_mask);
        for i in 0..=last - first {
            // SAFETY: a place is within the heads; `covered` has room.
            unsafe {
                let head = &mut *self.heads.add(at + i);
                let covered = Covered { line: (first + i) as u32, entry, next: *head };
                self.covered.as_mut_ptr().add(number + i).write(covered);
                *head = (number + i + 1) as u16;
            }
        }
        // SAFETY: the lines have just been written.
        unsafe { self.covered.set_len(number + (last - first) + 1) };
        if self.is_large() {
            self.set_bits(first, last);
        }
    }

    #[inline(always)]
    fn set_bits(&mut self, first: usize, last: usize) {
        let place = place(first, self.filter_mask);
        // SAFETY: a place is within the filter, behind which there is a word more.
        unsafe {
            let word = self.filter.add(place / 8).cast::<u64>();
            word.write_unaligned(word.read_unaligned() | bits(first, last) << (place % 8));
        }
    }

    /// Changes to the next stage.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.empty_table();
        let next = self.stage + 1;
        if next == self.tables.len() {
            self.tables.push(Table::new(&STAGES[next]));
        }
        self.enter(next);
        for i in 0..self.covered.len() {
            // The lower half of the number has all that a place depends on.
            let line = self.covered[i].line as usize;
            self.covered[i].next = std::mem::replace(self.head(line), i as u16 + 1);
            self.set_bits(line, line);
        }
    }

    fn empty_table(&mut self) {
        let Table { heads, filter } = &mut self.tables[self.stage];
        heads.fill(0);
        filter.fill(0);
    }

    #[inline(always)]
    fn head(&mut self, line: usize) -> &mut u16 {
        // SAFETY: a place is within the heads.
        unsafe { &mut *self.heads.add(place(line, self.heads_mask)) }
    }

    /// The first entry that covers a line with this number, and that `found` makes something of.
    #[inline(always)]
    pub(super) fn find<T>(&self, line: usize, mut found: impl FnMut(u16) -> Option<T>) -> Option<T> {
        // SAFETY: a place is within the heads.
        let mut next = unsafe { *self.heads.add(place(line, self.heads_mask)) };
        while next != 0 {
            let covered = self.covered[next as usize - 1];
            if covered.line == line as u32
                && let Some(found) = found(covered.entry)
            {
                return Some(found);
            }
            next = covered.next;
        }
        None
    }

    /// Whether it has grown, and has a filter.
    #[inline(always)]
    pub(super) fn is_large(&self) -> bool {
        self.filter_mask != 0
    }

    /// Forgets all lines.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        if self.is_large() {
            return self.clear_large();
        }
        for i in 0..self.covered.len() {
            *self.head(self.covered[i].line as usize) = 0;
        }
        self.covered.clear();
    }

    #[cold]
    fn clear_large(&mut self) {
        self.covered.clear();
        self.empty_table();
        self.enter(0);
    }

    /// Gives back what it has grown by, after a [`clear`](Self::clear).
    pub(super) fn shrink(&mut self) {
        self.tables.truncate(1);
        self.covered.shrink_to(STAGES[0].lines);
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
    fn every_line_is_found_in_every_stage() {
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
                assert!(!index.rules_out(addr, len) && !index.rules_out(addr + len - 1, 1));
                (first..=last).for_each(|line| model.entry(line).or_default().push(entry));
            }
            assert_eq!(index.is_large(), lines > 256);
            for (&line, entries) in &model {
                assert!(!index.rules_out(line * LINE, 1) && !index.rules_out(line * LINE - 500, 2001));
                let mut seen = HashSet::new();
                index.find(line, |entry| seen.insert(entry).then_some(()).filter(|()| false));
                assert_eq!(seen, entries.iter().copied().collect());
            }
            let answers = (0..10_000).map(|_| random(&mut state) % (1 << 21));
            let absent = answers.filter(|line| !model.contains_key(&(far / LINE + line))).collect::<Vec<_>>();
            assert!(absent.iter().all(|line| index.find(far / LINE + line, Some).is_none()));
            if count > 200 {
                let wrong = absent.iter().filter(|&line| !index.rules_out(far + line * LINE, 1)).count();
                assert!(wrong * 4 < absent.len(), "{wrong} of {}", absent.len());
            }
            index.clear();
            assert!(!index.is_large());
            assert!(model.keys().all(|&line| index.find(line, Some).is_none()));
        }
        index.shrink();
        assert_eq!(index.tables.len(), 1);
    }

    #[test]
    fn the_filter_tells_objects_of_one_size_apart() {
        let mut index = LineIndex::new();
        // The same line of each second of many objects of 2 KiB.
        for i in 0..2000 {
            index.insert(i * 64 + 2, i * 64 + 2, i as u16);
        }
        let wrong = (0..2000).filter(|i| !index.rules_out(i * 4096 + 2048 + 128, 64)).count();
        assert!(wrong < 300, "{wrong}");
    }
}
