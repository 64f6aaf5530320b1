//! Decides whether a transaction spills although its copies fit into the write set, because the undo log
//! costs less for it.
//!
//! Copies spare a transaction the entries of an undo log, and their fences where it has any. But each access
//! to a copy that is not in the [cache](super::recent) is a lookup. With the undo log an access is a bit
//! test, or nothing, but each block that is changed costs an entry or two. So there are two signs that copies
//! are the wrong choice: the transaction accesses its copies again and again, or the copies lie close
//! together. One account covers both signs: it compares the cost of copies and lookups with the cost of
//! logging the blocks of the copies.

use super::context::Context;
use super::word_map::BLOCK;

/// The number of lookups that cost about as much as logging one block (512 bytes with copies) in an undo log
/// with fences, which takes about two entries.
const LOOKS: usize = 24;
/// The number of lookups that cost about as much as logging one block in an undo log without fences.
const LOOKS_UNFENCED: usize = 8;
/// The cost of making a copy, in lookups.
const COPY: usize = 4;
/// Words of copies whose logging costs as much as a lookup: a spill logs the originals of whole copies.
const WORDS_A_LOOK: usize = 4;
/// In a write set with fewer copies than this, lookups that find no copy do not count. So a transaction that
/// has written little, and reads on and on, does not keep readers out.
const FEW_COPIES: usize = 64;
/// A transaction with fewer lookups than this does not spill for cost, unless its write set is full: the
/// spill itself costs as much, and keeps readers out from then on.
const FEW_LOOKS: usize = 512;
/// Bytes for each possible copy that must be free in the heap, or would be if the file grew, for a
/// transaction to spill for cost. (With a write-ahead log there is no such limit.) A later store may take so
/// many bytes of the undo log, but next to nothing as a copy.
const LEFT: usize = BLOCK;
/// Number of bits in the table with which `blocks_of_copies` counts blocks.
const TABLE: usize = 4096;

impl Context {
    /// Counts a lookup that has found a copy. Returns whether the transaction should spill: its lookups have
    /// cost about as much as the spill will.
    #[inline(always)]
    pub(super) fn looks_again(&mut self) -> bool {
        self.granularity.note_again(self.set.len());
        self.looks_too_often()
    }

    /// Counts a lookup that has found no copy, if there are many copies. Returns whether the transaction
    /// should spill.
    #[inline]
    pub(super) fn looks_beside(&mut self) -> bool {
        self.set.len() >= FEW_COPIES && self.looks_too_often()
    }

    #[inline(always)]
    fn looks_too_often(&mut self) -> bool {
        self.looks += 1;
        self.looks >= self.enough_looks && self.has_looked_enough()
    }

    /// Whether there were enough lookups for a spill, and the transaction may spill. The number of lookups
    /// that are enough is computed here, because there may be more copies than at the last check.
    ///
    /// If there is no room for an undo log, the next check follows only after many lookups, because looking
    /// for room may take a system call.
    #[cold]
    fn has_looked_enough(&mut self) -> bool {
        let enough = self.looks_that_cost_a_spill().max(FEW_LOOKS);
        if self.looks < enough {
            // The check takes a step for each copy, so it is not repeated before there were as many further
            // lookups as there are copies.
            self.enough_looks = enough.max(self.looks + self.set.len());
            return false;
        }
        self.enough_looks = self.looks + LOOKS * self.most_copies;
        self.may_leave_copies()
    }

    /// Resets the count of lookups at the end of a transaction.
    #[inline(always)]
    pub(super) fn forget_looks(&mut self) {
        self.looks = 0;
        self.enough_looks = FEW_LOOKS;
    }

    /// Whether the undo log has or gets room for the originals of all copies, and the heap has [`LEFT`] bytes
    /// for each possible copy, for the undo entries of later stores.
    fn may_leave_copies(&mut self) -> bool {
        let has_left =
            self.media.wal().is_some() || self.store().left_and_used().0 >= (LEFT * self.most_copies) as u64;
        has_left && self.can_spill()
    }

    /// Raises the limit of a write set that is full, if it may have more copies. Returns whether it did. If
    /// not, the transaction spills.
    #[cold]
    pub(super) fn may_grow(&mut self) -> bool {
        let copies = self.set.len();
        let is_dear = || self.looks >= self.looks_that_cost_a_spill();
        if copies >= self.most_copies || is_dear() && self.may_leave_copies() {
            return false;
        }
        self.set.set_limit((2 * copies).min(self.most_copies));
        true
    }

    /// Returns the number of lookups which, together with making the copies, cost as much as a spill: logging
    /// the blocks with copies, and the words by which copies are wider than a word.
    fn looks_that_cost_a_spill(&self) -> usize {
        let looks = if self.media.fences_undo() { LOOKS } else { LOOKS_UNFENCED };
        let (copies, words) = (self.set.len(), self.set.copied_words());
        (looks * self.blocks_of_copies() + words.saturating_sub(copies) / WORDS_A_LOOK)
            .saturating_sub(COPY * copies)
    }

    /// Returns the number of blocks in which copies begin, or fewer.
    fn blocks_of_copies(&self) -> usize {
        let mut table = [0u64; TABLE / 64];
        for (addr, ..) in self.set.copies() {
            // Two blocks may share a bit by accident. The hash makes that rare for blocks at regular
            // distances.
            let bit = (addr / BLOCK).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - TABLE.ilog2());
            table[bit / 64] |= 1 << (bit % 64);
        }
        table.iter().map(|bits| bits.count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Durability, Heap, Options, P, Root, Txn};

    const ITEMS: usize = 1 << 15;
    const WORDS: usize = 16;

    fn heap(dir: &tempfile::TempDir) -> (Heap, Root<Option<P<'static, [u64]>>>) {
        heap_with(dir, Durability::Pmem)
    }

    fn heap_with(dir: &tempfile::TempDir, durability: Durability) -> (Heap, Root<Option<P<'static, [u64]>>>) {
        let heap = Options::new().durability(durability).open(dir.path().join("heap")).unwrap();
        let root = heap.root_or("array", |tx| Ok(Some(tx.alloc_slice(ITEMS, |i| i as u64)?))).unwrap();
        (heap, root)
    }

    fn is_short(tx: &Txn<'_>) -> bool {
        format!("{tx:?}").contains("Short")
    }

    #[test]
    fn stores_in_any_order_share_fences() {
        let dir = tempfile::tempdir().unwrap();
        let (heap, root) = heap(&dir);
        let before = heap.stats().fences;
        let result = root.txn(|tx, p| {
            let items = tx[p].unwrap();
            // An odd factor, so the loop changes each element once.
            for i in (0..ITEMS).map(|i| i * 0x9e35 % ITEMS) {
                let element = items.at(tx, i);
                tx[element] += 1;
            }
            assert!(!is_short(tx));
            assert!(tx[items].iter().enumerate().all(|(i, &item)| item == i as u64 + 1));
            Err::<(), _>(crate::Error::abort("to see it undone"))
        });
        assert!(result.is_err());
        let fences = heap.stats().fences - before;
        assert!(fences < 3 * (ITEMS * 8 / BLOCK) as u64, "{fences}");
        root.read(|view, p| assert!(view[view[p].unwrap()].iter().copied().eq(0..ITEMS as u64))).unwrap();
    }

    #[test]
    fn copies_that_lie_close_together_are_left_early() {
        let dir = tempfile::tempdir().unwrap();
        let (_heap, root) = heap(&dir);
        root.txn(|tx, p| {
            let items = tx[p].unwrap();
            // The limit of the write set would be reached later: this is less than half of it.
            let done = (0..).take_while(|&i| {
                let element = items.at(tx, i);
                tx[element] = 7;
                is_short(tx)
            });
            assert!(done.count() <= 128);
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn scattered_elements_stay_in_the_write_set() {
        let dir = tempfile::tempdir().unwrap();
        let (_heap, array) = heap(&dir);
        array
            .txn(|tx, p| {
                let items = tx[p].unwrap();
                (0..ITEMS).step_by(BLOCK / 8).for_each(|i| {
                    let element = items.at(tx, i);
                    tx[element] = 7
                });
                assert!(is_short(tx));
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn small_objects_side_by_side_share_fences() {
        let dir = tempfile::tempdir().unwrap();
        let (heap, _) = heap(&dir);
        let root: Root<Option<P<'static, [P<'static, u64>]>>> = heap.root("small").unwrap();
        let count = 2000;
        root.txn(|tx, p| {
            let objects = (0..count).map(|i| tx.alloc(i as u64)).collect::<crate::Result<Vec<_>>>()?;
            tx[p] = Some(tx.alloc_slice(count, |i| objects[i])?);
            Ok(())
        })
        .unwrap();
        let before = heap.stats().fences;
        let result = root.txn(|tx, p| {
            let objects = tx[p].unwrap();
            (0..count).for_each(|i| {
                let object = tx[objects.at(tx, i)];
                tx[object] += 1;
            });
            assert!(!is_short(tx));
            Err::<(), _>(crate::Error::abort("to see it undone"))
        });
        assert!(result.is_err());
        let fences = heap.stats().fences - before;
        assert!(fences < (count * 8 / BLOCK) as u64, "{fences}");
        root.read(|view, p| {
            let objects = view[p].unwrap();
            assert!((0..count).all(|i| view[view[objects.at(view, i)]] == i as u64));
        })
        .unwrap();
    }

    #[test]
    fn copies_that_are_looked_at_again_and_again_are_left() {
        let dir = tempfile::tempdir().unwrap();
        let (_heap, root) = heap(&dir);
        root.txn(|tx, p| {
            let items = tx[p].unwrap();
            // More places than the cache holds.
            let places: [_; 100] = std::array::from_fn(|i| items.at(tx, i * BLOCK / 8));
            places.iter().for_each(|&place| tx[place] = 0);
            let mut turns = 0;
            while is_short(tx) {
                let (a, b) = (places[turns % 100], places[(turns + 50) % 100]);
                // Each of these accesses may make the transaction spill.
                match turns % 3 {
                    0 => tx[a] += 1,
                    1 => tx.swap(a, b),
                    _ => assert!(tx[a] < turns as u64),
                }
                turns += 1;
                assert!(turns <= LOOKS * 8192);
            }
            let sum: u64 = places.iter().map(|&place| tx[place]).sum();
            assert_eq!(sum, turns.div_ceil(3) as u64);
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn without_fences_copies_are_left_when_looks_have_cost_as_much() {
        [Durability::Process, Durability::Wal]
            .into_iter()
            .for_each(leaves_copies_when_looks_have_cost_as_much);
    }

    fn leaves_copies_when_looks_have_cost_as_much(durability: Durability) {
        let dir = tempfile::tempdir().unwrap();
        let (_heap, root) = heap_with(&dir, durability);
        let copies = 300;
        root.txn(|tx, p| {
            let items = tx[p].unwrap();
            (0..FEW_COPIES - 1).for_each(|i| {
                let element = items.at(tx, i * BLOCK / 8);
                tx[element] += 1
            });
            // Lookups without a copy do not make a transaction spill that has written little.
            let without = (0..ITEMS).filter(|i| i % (BLOCK / 8) > 0);
            assert!(without.cycle().take(100_000).all(|i| tx[items.at(tx, i)] == i as u64) && is_short(tx));
            Ok(())
        })
        .unwrap();
        let turns = root
            .txn(|tx, p| {
                let items = tx[p].unwrap();
                (0..copies).for_each(|i| {
                    let element = items.at(tx, i * BLOCK / 8);
                    tx[element] = 7
                });
                // Elements with a copy and elements without one, each too rarely for the cache. (Both are in
                // one line; otherwise the filter alone could answer.)
                let reads = (0..).take_while(|&i| {
                    let at = i % copies * BLOCK / 8;
                    assert_eq!(tx[items.at(tx, at)], 7);
                    assert_eq!(tx[items.at(tx, at + 1)], at as u64 + 1);
                    is_short(tx)
                });
                Ok(2 * reads.count())
            })
            .unwrap();
        let enough = (LOOKS_UNFENCED - COPY) * copies;
        assert!((enough - 2..enough + copies).contains(&turns), "{turns}");
        let looks = root
            .txn(|tx, p| {
                let items = tx[p].unwrap();
                for i in 0..copies {
                    tx.slice_mut(items, i * BLOCK / 8..i * BLOCK / 8 + WORDS)[0] = 7;
                }
                let looks =
                    (0..).take_while(|&i| tx[items.at(tx, i % copies * BLOCK / 8)] == 7 && is_short(tx));
                Ok(looks.count())
            })
            .unwrap();
        assert!(
            looks > (LOOKS_UNFENCED - COPY + WORDS / WORDS_A_LOOK - 1) * copies,
            "large ones are left later: {looks}"
        );
        root.read(|view, p| {
            assert!((0..copies).all(|i| view[view[p].unwrap().at(view, i * BLOCK / 8)] == 7))
        })
        .unwrap();
    }
}
