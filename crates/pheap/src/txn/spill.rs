//! Whether a transaction should leave its write set although everything fits, because the undo log is cheaper for what it does.
//!
//! Copies spare a transaction the fences of an undo log, but each access to one is a look-up. Behind the undo log an access is a look at a bit, or nothing, and
//! costs a fence or two for each block of an object that is changed. So there are two signs that a transaction is on the wrong path: it comes back to its copies
//! again and again, or they lie close together in large objects.

use super::context::Context;
use super::word_map::BLOCK;
use super::write_set::first_copies;

/// Looks at copies, for each of the most that there may be, after which a transaction leaves them: a few for each copy cost less than the fence that it may need then.
const LOOKS: usize = 8;
/// Copies in each block that make them dense: these cost as much as logging the block. With fewer, a program that goes through an object once is better off with the copies. Without fences it is half
/// of them.
const CLOSE: usize = 12;
/// Bits of the table of blocks.
const TABLE: usize = 4096;
/// Entries that are looked at to find out whether they are parts of large objects.
const SAMPLE: usize = 16;

impl Context {
    /// Notes that a copy was found. Whether the transaction is better off without copies from here on: these looks have cost about as much as the spill.
    #[inline(always)]
    pub(super) fn looks_again(&mut self) -> bool {
        self.granularity.note_again() >= LOOKS * self.most_copies && self.is_left()
    }

    /// Whether copies that were looked at so often are left. If there is no room for an undo log, this is asked again after as many looks.
    #[cold]
    fn is_left(&mut self) -> bool {
        let can_spill = self.can_spill();
        if !can_spill {
            self.granularity.begin_again();
        }
        can_spill
    }

    /// Whether a transaction that wants one more copy than the write set takes is to have it; then there is room for it.
    #[cold]
    pub(super) fn may_grow(&mut self) -> bool {
        let copies = self.set.len();
        if copies >= self.most_copies || self.is_dense() && self.can_spill() {
            return false;
        }
        self.set.set_limit((2 * copies).min(self.most_copies));
        true
    }

    /// Whether the copies lie close together in large objects.
    fn is_dense(&self) -> bool {
        let mut table = [0u64; TABLE / 64];
        let mut blocks = 0;
        for (addr, ..) in self.set.copies() {
            // Some may share a bit by accident, but not because they are at equal distances.
            let bit = (addr / BLOCK).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - TABLE.ilog2());
            blocks += usize::from(table[bit / 64] >> (bit % 64) & 1 == 0);
            table[bit / 64] |= 1 << (bit % 64);
        }
        let copies = self.set.len();
        let close = if self.media.is_slow() { CLOSE } else { CLOSE / 2 };
        copies >= close.min(first_copies(self.most_copies)) * blocks && {
            let step = copies.div_ceil(SAMPLE);
            self.set.copies().step_by(step).all(|(addr, ..)| self.is_in_large_object(addr))
        }
    }

    /// Whether stores to the object that this address lies in may share entries of the undo log.
    fn is_in_large_object(&self, addr: usize) -> bool {
        self.object_at(addr - self.base()).is_some_and(|object| object.len() >= BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Durability, Heap, Options, P, Root, Txn};

    const ITEMS: usize = 1 << 15;

    fn heap(dir: &tempfile::TempDir) -> (Heap, Root<Option<P<'static, [u64]>>>) {
        let heap = Options::new().durability(Durability::Pmem).open(dir.path().join("heap")).unwrap();
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
            // Odd, so it comes to each of them.
            for i in (0..ITEMS).map(|i| i * 0x9e35 % ITEMS) {
                tx[items.at(i)] += 1;
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
            // As many as a write set would take, and this is less than half of it.
            let done = (0..).take_while(|&i| {
                tx[items.at(i)] = 7;
                is_short(tx)
            });
            assert!(done.count() <= 128);
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn small_objects_and_scattered_elements_stay_in_the_write_set() {
        let dir = tempfile::tempdir().unwrap();
        let (heap, array) = heap(&dir);
        array
            .txn(|tx, p| {
                let items = tx[p].unwrap();
                (0..ITEMS).step_by(BLOCK / 8).for_each(|i| tx[items.at(i)] = 7);
                assert!(is_short(tx));
                Ok(())
            })
            .unwrap();
        let small: Root<Option<P<'static, [P<'static, u64>]>>> = heap.root("small").unwrap();
        let count = 2000;
        small
            .txn(|tx, p| {
                let objects = (0..count).map(|_| tx.alloc(7)).collect::<crate::Result<Vec<_>>>()?;
                tx[p] = Some(tx.alloc_slice(count as usize, |i| objects[i])?);
                Ok(())
            })
            .unwrap();
        small
            .txn(|tx, p| {
                let objects = tx[p].unwrap();
                (0..count as usize).for_each(|i| {
                    let object = tx[objects.at(i)];
                    tx[object] = 8;
                });
                assert!(is_short(tx));
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn copies_that_are_looked_at_again_and_again_are_left() {
        let dir = tempfile::tempdir().unwrap();
        let (_heap, root) = heap(&dir);
        let enough = (LOOKS * 8192) as u32;
        root.txn(|tx, p| {
            let [a, b] = [0, ITEMS / 2].map(|i| tx[p].unwrap().at(i));
            (tx[a], tx[b]) = (0, 0);
            let mut turns = 0;
            while is_short(tx) {
                // Each of these may be the one.
                match turns % 3 {
                    0 => tx[a] += 1,
                    1 => tx.swap(a, b),
                    _ => assert!(tx[a] + tx[b] > 0),
                }
                turns += 1;
                assert!(turns <= enough);
            }
            assert_eq!(tx[a] + tx[b], u64::from(turns.div_ceil(3)));
            Ok(())
        })
        .unwrap();
    }
}
