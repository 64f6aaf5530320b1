//! Splits shards that are large, and gives up shards that are empty.

use super::{PREFIX, Shard, ShardMap, Shards};
use crate::Result;
use crate::keys::StoredKey;
use crate::part::{self, Part};
use crate::stats::WriteCounts;
use pheap::{P, PBytes, Root, View, field};
use std::sync::{Arc, PoisonError, TryLockError};

/// Number of entries from which on a shard is large, if the store has just enough shards.
const LARGE: usize = 4096;
/// Maximal numbers of expired values, and of keys whose older versions, an attempted split removes.
const TIDIED: usize = 256;
/// Maximal number of keys of a batch that are sampled to choose the ranges of new shards.
const SAMPLE: usize = 1024;
/// The size of a shard is checked when its number of entries is a multiple of this number.
const ASKED: usize = 256;

impl Shards {
    /// Splits the shard of a written key if it is large. `len` is the number of its entries, or `None` if the
    /// write has added no entry. Only a write that adds an entry checks the size, because otherwise each
    /// write to a shard that stays at a multiple of [`ASKED`] entries would check it.
    #[inline]
    pub(crate) fn consider_split(&self, key: &[u8], len: Option<usize>) {
        if len.is_some_and(|len| self.may_split(len)) {
            // The write has succeeded, so a lack of space for the split must not make it fail. Later writes
            // try again.
            let _ = self.split(key);
        }
    }

    /// Returns whether a shard with `len` entries may have to be split.
    #[inline]
    pub(crate) fn may_split(&self, len: usize) -> bool {
        len.is_multiple_of(ASKED) && len >= large(self.map.load().shards.len(), self.enough)
    }

    #[inline(never)]
    fn split(&self, key: &[u8]) -> Result<()> {
        let is_enough = self.map.load().shards.len() >= self.enough;
        self.split_where(key, |view, part| part::cut(view, part, key, is_enough))
    }

    /// Makes shards for the keys of a large batch before it is written, while there are not enough shards. It
    /// splits only where few entries have to move. After the write, a split would have to move the batch's
    /// entries, too.
    pub(crate) fn prepare<'k>(&self, keys: impl ExactSizeIterator<Item = &'k [u8]>) {
        let missing = self.enough.saturating_sub(self.map.load().shards.len());
        let parts = (keys.len() / LARGE).min(missing + 1);
        if parts < 2 {
            return;
        }
        let every = keys.len().div_ceil(SAMPLE);
        let mut sample: Vec<&[u8]> = keys.step_by(every).collect();
        sample.sort_unstable();
        // The shards are split from the last key to the first, so that each entry moves only once.
        for i in (1..parts).rev() {
            let key = sample[i * sample.len() / parts];
            // If this fails, the batch can still be written. Only later writers have fewer shards.
            let _ = self.split_where(key, |view, part| part::cut_at(view, part, key));
        }
    }

    /// Splits the shard of `key` at the key that `cut` returns. Does nothing if `cut` returns `None`, if a
    /// snapshot exists, or if another thread is changing the map.
    fn split_where(
        &self,
        key: &[u8],
        cut: impl for<'r> FnOnce(&View<'r>, P<'r, Part<'r>>) -> Option<Vec<u8>>,
    ) -> Result<()> {
        if !self.eras.is_quiet() {
            return Ok(()); // the transaction below tests this again
        }
        let mut unused = match self.unused.try_lock() {
            Ok(unused) => unused,
            Err(TryLockError::WouldBlock) => return Ok(()),
            // A thread that panicked here has either replaced the map or changed nothing.
            Err(TryLockError::Poisoned(unused)) => unused.into_inner(),
        };
        let map = self.map();
        let place = map.index_of(key);
        let shard = &map.shards[place];
        // No caller gets the values read here, so the read does not wait until it is durable. Other threads
        // continue before the split is durable, too.
        let (Some(cut), _) = shard.root.read_deferred(cut)? else { return Ok(()) };
        if unused.is_empty() {
            unused.push(self.heap.root(&format!("{PREFIX}{}", map.shards.len()))?);
        }
        let (new, bounds): (Root<Part>, u64) = (unused[unused.len() - 1].clone(), map.new_bounds());
        let (is_split, _) = pheap::txn_deferred((&shard.root, &new), |((ta, a), (tb, b))| {
            // Entries that a snapshot may need stay in their shard.
            if !self.eras.is_quiet() {
                return Ok(false);
            }
            // Older versions stay, too. No snapshot needs them now, but writes may never come near their keys
            // and remove them, so this attempt to split removes some of them.
            if part::has_older(ta, a) {
                part::tidy(ta, a, &self.eras, &[], TIDIED)?;
                return Ok(false);
            }
            part::move_from(ta, a, tb, b, &cut)?;
            ta[field!(a.bounds)] = bounds;
            tb[field!(b.bounds)] = bounds;
            tb[field!(b.start)] = PBytes::from_slice(tb, &cut)?;
            Ok(true)
        })?;
        // A thread that finds the new bounds retries until the map is replaced. That takes long only if the
        // split moved so much that even a deferred transaction waits for the disk. The map must not be
        // replaced before the commit: a thread that reads the shard, and within that read other keys of the
        // new shard, would wait for the commit, which waits for the read.
        if is_split {
            unused.pop();
            let mut shards = map.shards.clone();
            shards[place].bounds = bounds;
            let start = StoredKey::from_slice(&cut);
            shards.insert(place + 1, Shard { root: new, counts: Arc::default(), start, bounds });
            self.map.store(Arc::new(ShardMap { shards }));
        }
        Ok(())
    }

    /// Gives up all empty shards except the first. The shard before a given-up shard takes over its range of
    /// keys. The root returns its pages, and later splits use it again.
    ///
    /// The calling thread must not be reading the store: it waits for other threads that change the map.
    pub(crate) fn give_up_empty(&self) -> Result<()> {
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        let mut place = 1;
        loop {
            let map = self.map();
            let Some(shard) = map.shards.get(place) else { return Ok(()) };
            let (before, bounds) = (&map.shards[place - 1], map.new_bounds());
            // As in a split: other threads continue before the state read and written here is durable.
            let (is_empty, _) = shard.root.read_deferred(part::is_empty)?;
            let is_given_up = is_empty
                && pheap::txn_deferred((&before.root, &shard.root), |((ta, a), (tb, b))| {
                    let is_given_up = part::give_up(tb, b);
                    if is_given_up {
                        ta[field!(a.bounds)] = bounds;
                    }
                    Ok(is_given_up)
                })?
                .0;
            if !is_given_up {
                place += 1;
                continue;
            }
            let mut shards = map.shards.clone();
            let given_up = shards.remove(place);
            // A writer with the old counters has an old map, so the new bounds refuse it.
            let counts = Arc::new(WriteCounts::sum(&before.counts, &given_up.counts));
            let before = Shard { counts, bounds, ..before.clone() };
            shards[place - 1] = before;
            self.map.store(Arc::new(ShardMap { shards }));
            unused.push(given_up.root.clone());
            given_up.root.collect()?;
        }
    }
}

/// Returns the number of entries from which on a shard is large.
///
/// While there are fewer than `enough` shards, the number grows with the square of the number of shards. So a
/// young store soon has several shards, and threads that fill it write to different ones. Beyond `enough`,
/// the number doubles with every `enough / 2` shards. So if a store is filled in order, the number of its
/// shards grows with the logarithm of its size.
fn large(shards: usize, enough: usize) -> usize {
    match shards.checked_sub(enough) {
        Some(more) => LARGE << (2 * more / enough).min(40),
        None => (LARGE * shards * shards / (enough * enough)).max(ASKED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::CUTS;
    use crate::{Batch, Store};
    use std::collections::HashMap;

    fn sizes(store: &Store) -> Vec<usize> {
        let map = store.shards.map();
        map.shards.iter().map(|shard| shard.root.read(part::len).unwrap()).collect()
    }

    #[test]
    fn shards_that_are_filled_in_order_are_full() {
        let store = Store::in_memory().unwrap();
        // The test inserts so few entries that there are not enough shards, even with one processor.
        for n in 0..3000u32 {
            store.put(n.to_be_bytes(), "").unwrap();
        }
        let (enough, before) = (store.shards.enough, sizes(&store));
        let full = |(i, size): (usize, &usize)| *size == large(i + 1, enough).next_multiple_of(ASKED) - 1;
        assert!(before.len() > 2 && before[..before.len() - 1].iter().enumerate().all(full), "{before:?}");
        // The first shard gets entries between those that it has, so a split halves it.
        let mut number = 0u32;
        while sizes(&store).len() == before.len() {
            store.put([[0; 4], number.wrapping_mul(0x9e37_79b1).to_be_bytes()].concat(), "").unwrap();
            number += 1;
        }
        let (after, whole) = (sizes(&store), before[0] + number as usize);
        let halves = after[0] + after[1] == whole && after[..2].iter().all(|&half| half >= whole / 4);
        assert!(whole >= large(before.len(), enough) && halves, "{after:?}");
        assert_eq!(after[2..], before[1..]);
    }

    #[test]
    fn a_large_batch_has_shards_that_are_alike() {
        let store = Store::in_memory().unwrap();
        store.put("a key", "").unwrap();
        let mut batch = Batch::new();
        for n in 0..5 * LARGE as u32 {
            batch.put(&store, n.wrapping_mul(0x9e37_79b1).to_be_bytes(), "").unwrap();
        }
        store.write(&batch).unwrap();
        let sizes = sizes(&store);
        assert!(
            sizes.len() >= 4 && sizes.iter().all(|size| (LARGE / 2..2 * LARGE).contains(size)),
            "{sizes:?}"
        );
        assert_eq!(store.iter().count(), 5 * LARGE + 1);
        // An insertion in the middle divides a shard only if there are not enough shards.
        let shard = &store.shards.map().shards[0];
        let cut = |is_enough| shard.root.read(|view, part| part::cut(view, part, b"", is_enough)).unwrap();
        assert!(cut(false).is_some() && cut(true).is_none());
    }

    /// A shard may have older versions near keys that no thread writes to. It must be split all the same.
    #[test]
    fn what_snapshots_have_left_does_not_keep_a_shard_whole() {
        let store = Store::in_memory().unwrap();
        let put = |n: u32| store.put(n.to_be_bytes(), "").unwrap();
        (0..LARGE as u32 - 1).for_each(put);
        let snapshot = store.snapshot().unwrap();
        (0..LARGE as u32 / 2).for_each(put);
        drop(snapshot);
        (LARGE as u32 - 1..4 * LARGE as u32).for_each(put);
        let sizes = sizes(&store);
        assert!(sizes.len() > 2 && sizes.iter().all(|&size| size <= 2 * LARGE), "{sizes:?}");
    }

    /// Without this, the store would grow with each key space that is made and removed, and later key spaces
    /// would not get enough shards.
    #[test]
    fn shards_of_removed_key_spaces_are_used_again() {
        let store = Store::in_memory().unwrap();
        let mut first = None;
        for round in 1..=5 {
            let space = store.space("one").unwrap();
            for n in 0..6000u32 {
                space.put(n.wrapping_mul(0x9e37_79b1).to_be_bytes(), "").unwrap();
            }
            let state = (sizes(&store), store.shards.heap.roots().len());
            assert!(state.0.len() > 2, "{state:?}");
            assert_eq!(*first.get_or_insert_with(|| state.clone()), state, "round {round}");
            assert!(store.remove_space("one").unwrap());
            assert_eq!(sizes(&store), [0]);
            assert_eq!(store.stats().unwrap().puts, round * 6000);
        }
    }

    /// If two ranges of keys had the same bounds, a thread with an old map would look for keys in a shard
    /// with another range.
    #[test]
    fn bounds_of_a_shard_belong_to_one_range_of_keys() {
        let store = Store::in_memory().unwrap();
        let mut ranges = HashMap::new();
        let mut note = || {
            let shards = &store.shards.map().shards;
            for (i, shard) in shards.iter().enumerate() {
                let range = (shard.start.clone(), shards.get(i + 1).map(|next| next.start.clone()));
                let known = ranges.entry((shard.root.name(), shard.bounds)).or_insert_with(|| range.clone());
                assert_eq!(*known, range);
            }
        };
        for round in 0..8u32 {
            let space = store.space(&round.to_string()).unwrap();
            for n in 0..3000u32 {
                space.put((n * 7919 % 3001).to_be_bytes(), "").unwrap();
                store.put([round * 2_654_435, n].map(u32::to_be_bytes).concat(), "").unwrap();
                note();
            }
            if round % 3 > 0 {
                assert!(store.remove_space(&(round - 1).to_string()).unwrap());
            }
            for entry in store.iter().step_by(2) {
                store.delete(entry.unwrap().0).unwrap();
            }
            if round % 4 == 3 {
                store.iter().for_each(|entry| assert!(store.delete(entry.unwrap().0).unwrap()));
            }
            store.purge().unwrap();
            note();
        }
        assert!(ranges.len() > 20);
    }

    #[test]
    fn what_is_appended_to_several_key_spaces_begins_new_shards_in_each() {
        let store = Store::in_memory().unwrap();
        let spaces = ["a", "b", "c"].map(|name| store.space(name).unwrap());
        for n in 0..60_000u32 {
            spaces.iter().for_each(|space| space.put(n.to_be_bytes(), "").unwrap());
        }
        let sizes = sizes(&store);
        assert!(sizes.iter().all(|&size| size <= 3 * 60_000 / 4), "{sizes:?}");
        for space in &spaces {
            assert!(space.iter().map(|entry| entry.unwrap().0).eq((0..60_000u32).map(|n| n.to_be_bytes())));
        }
    }

    /// A split must not move many bytes, because a write waits for the split.
    #[test]
    fn what_would_take_long_to_move_stays() {
        let store = Store::in_memory().unwrap();
        let key = |n: u32| n.wrapping_mul(0x9e37_79b1).to_be_bytes();
        let value = vec![7; 350_000];
        for n in 0..=ASKED as u32 {
            store.put(key(n), &value).unwrap();
        }
        assert_eq!(sizes(&store), [ASKED + 1]);
        // A write that replaces a value does not check the size of the shard, whatever the number of its
        // entries.
        store.delete(key(0)).unwrap();
        let cuts = CUTS.get();
        for _ in 0..3 {
            store.put(key(1), &value).unwrap();
            store.update(key(2), |_| Some(&value)).unwrap();
            let mut batch = Batch::new();
            batch.put(&store, key(3), &value).unwrap();
            store.write(&batch).unwrap();
        }
        assert_eq!((CUTS.get(), sizes(&store)), (cuts, vec![ASKED]));
        for n in 0..ASKED as u32 {
            store.put([[0xFF; 4], n.to_be_bytes()].concat(), &value).unwrap();
        }
        assert_eq!(sizes(&store).len(), 2);
    }

    #[test]
    fn no_shard_of_a_store_that_is_filled_in_order_has_most_of_it() {
        for enough in [4, 8, 64, 1000] {
            let (mut before, mut shards) = (0, 1);
            while before < 1 << 32 {
                let last = large(shards, enough);
                assert!(
                    shards < enough || last <= 4 * (before + last) / enough,
                    "{last}, and {before} in {shards}"
                );
                (before, shards) = (before + last, shards + 1);
            }
            assert!(shards < 12 * enough, "{shards}");
        }
    }
}
