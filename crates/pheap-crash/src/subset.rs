//! Subsets of the words and sectors that may have reached the medium.

use std::ops::ControlFlow;

use pheap::sim::disk::{DiskChange, Which};

use pheap_testkit::Rng;

/// Number of subsets that are tried at each point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breadth {
    /// All subsets, if there are at most this many changes.
    pub exhaustive: usize,
    /// Otherwise none, all, and up to this number of each of these kinds: one change alone; all but one; the
    /// first few in the order of the writes, as a killed process leaves them; all others; all of a page; all
    /// of the other pages. Of the last two kinds there are up to four, if this number is smaller.
    pub corners: usize,
    /// And then this number of random subsets.
    pub random: usize,
}

/// A function that visits subsets, and may stop.
pub trait Visit<B>: FnMut(&[bool]) -> ControlFlow<B> {}

impl<B, F: FnMut(&[bool]) -> ControlFlow<B>> Visit<B> for F {}

/// A change that may have reached the medium.
pub trait Piece {
    /// Returns a number that pieces share which may often reach the medium together.
    fn group(&self) -> u64;

    /// Returns a number that pieces share which lie near each other.
    fn area(&self) -> u64;
}

impl Piece for (u32, u64) {
    /// The cache line: processors evict whole lines.
    fn group(&self) -> u64 {
        u64::from(self.0 / 8)
    }

    /// The page.
    fn area(&self) -> u64 {
        u64::from(self.0 / 512)
    }
}

impl Piece for DiskChange {
    /// The page and the file of a sector. All other changes are one group.
    fn group(&self) -> u64 {
        match self {
            DiskChange::Sector(Which::Data, number, _) => u64::from(number / 8),
            DiskChange::Sector(Which::Log, number, _) => u64::from(number / 8) | 1 << 32,
            _ => 1 << 33,
        }
    }

    fn area(&self) -> u64 {
        self.group()
    }
}

/// Calls `visit` with subsets of `pending`, one flag for each change, until it breaks. A subset may come
/// several times. `order` has the moment of each write; writes of the same moment have no order. `None`: the
/// changes are in the order of the writes.
pub fn subsets<B>(
    pending: &[impl Piece],
    order: Option<&[u32]>,
    breadth: Breadth,
    rng: &mut Rng,
    mut visit: impl Visit<B>,
) -> ControlFlow<B> {
    let len = pending.len();
    if len <= breadth.exhaustive {
        let mut chosen = vec![false; len];
        for mask in 0..1u64 << len {
            (0..len).for_each(|i| chosen[i] = mask >> i & 1 == 1);
            visit(&chosen)?;
        }
        return ControlFlow::Continue(());
    }
    let mut chosen = vec![false; len];
    visit(&chosen)?;
    if len == 0 {
        return ControlFlow::Continue(());
    }
    visit(&vec![true; len])?;
    for i in some_of(len, breadth.corners, rng) {
        chosen.fill(false);
        chosen[i] = true;
        visit(&chosen)?;
        chosen.iter_mut().for_each(|c| *c = !*c);
        visit(&chosen)?;
    }
    let moment = |i: usize| order.map_or(i as u32, |order| order[i]);
    let mut moments: Vec<u32> = (0..len).map(moment).collect();
    moments.sort_unstable();
    moments.dedup();
    for i in some_of(moments.len(), breadth.corners, rng) {
        (0..len).for_each(|j| chosen[j] = moment(j) < moments[i]);
        visit(&chosen)?;
        // The later writes without the earlier ones, as if a fence between them were missing.
        chosen.iter_mut().for_each(|c| *c = !*c);
        visit(&chosen)?;
    }
    // One page without the others: for example, the data of a record, or the word that empties the log.
    let mut areas: Vec<u64> = pending.iter().map(Piece::area).collect();
    areas.sort_unstable();
    areas.dedup();
    for i in some_of(areas.len(), breadth.corners.max(4), rng) {
        (0..len).for_each(|j| chosen[j] = pending[j].area() == areas[i]);
        visit(&chosen)?;
        chosen.iter_mut().for_each(|c| *c = !*c);
        visit(&chosen)?;
    }
    for round in 0..breadth.random {
        let density = [128, 32, 224][round % 3];
        if round % 2 == 0 {
            chosen.iter_mut().for_each(|c| *c = rng.chance(density));
        } else {
            let mut group = (u64::MAX, false);
            for (c, piece) in chosen.iter_mut().zip(pending) {
                if group.0 != piece.group() {
                    group = (piece.group(), rng.chance(density));
                }
                *c = group.1;
            }
        }
        visit(&chosen)?;
    }
    ControlFlow::Continue(())
}

/// Returns all numbers below `len` if there are at most `most`; else `most` random ones, perhaps with
/// repetitions.
fn some_of(len: usize, most: usize, rng: &mut Rng) -> Vec<usize> {
    if len <= most { (0..len).collect() } else { (0..most).map(|_| rng.below(len)).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn all(len: u32, breadth: Breadth) -> Vec<Vec<bool>> {
        let pending: Vec<(u32, u64)> = (0..len).map(|word| (word, 1)).collect();
        let mut seen = Vec::new();
        let done: ControlFlow<()> = subsets(&pending, None, breadth, &mut Rng::new(&[1]), |chosen| {
            seen.push(chosen.to_vec());
            ControlFlow::Continue(())
        });
        assert!(done.is_continue());
        seen
    }

    #[test]
    fn few_words_are_exhausted() {
        let seen = all(5, Breadth { exhaustive: 5, corners: 0, random: 0 });
        assert_eq!((seen.len(), seen.iter().collect::<BTreeSet<_>>().len()), (32, 32));
    }

    #[test]
    fn many_words_have_corners() {
        let seen = all(20, Breadth { exhaustive: 5, corners: 20, random: 7 });
        assert_eq!(seen.len(), 2 + 4 * 20 + 2 + 7);
        let with = |n| seen.iter().filter(|chosen| chosen.iter().filter(|c| **c).count() == n).count();
        assert!(with(0) >= 1 && with(1) >= 20 && with(19) >= 20 && with(20) >= 1);
    }

    #[test]
    fn a_killed_process_leaves_what_it_has_stored() {
        let breadth = Breadth { exhaustive: 0, corners: 3, random: 0 };
        let mut seen = BTreeSet::new();
        let pending = [(0, 1), (1, 1), (2, 1)];
        let _: ControlFlow<()> =
            subsets(&pending, Some(&[7, 5, 9]), breadth, &mut Rng::new(&[1]), |chosen| {
                seen.insert(chosen.to_vec());
                ControlFlow::Continue(())
            });
        assert!(seen.contains(&vec![false, true, false]) && seen.contains(&vec![true, true, false]));
    }

    #[test]
    fn the_first_break_ends_it() {
        let mut count = 0;
        let breadth = Breadth { exhaustive: 5, corners: 0, random: 0 };
        let done = subsets(&[(0, 1), (1, 1)], None, breadth, &mut Rng::new(&[]), |_| {
            count += 1;
            if count == 3 { ControlFlow::Break(count) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(done, ControlFlow::Break(3));
    }
}
