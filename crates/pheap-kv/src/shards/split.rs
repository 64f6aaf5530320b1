//! When shards are split, and where; when they are given up.

use super::{Map, PREFIX, Shard, Shards};
use crate::Result;
use crate::keys::StoredKey;
use crate::part::{self, Part};
use crate::stats::Counts;
use pheap::{P, PBytes, Root, View, field};
use std::sync::{Arc, PoisonError, TryLockError};

/// When there are enough shards, one of so many entries is large.
const LARGE: usize = 4096;
/// Keys of which a split that finds older versions removes these.
const TIDIED: usize = 256;
/// Keys of a batch that stand for all of them.
const SAMPLE: usize = 1024;
/// How often, in entries, it is asked whether a shard is large.
const ASKED: usize = 256;

impl Shards {
    /// Splits the shard of a key that was written, if it is large: it has one entry more, and now has `len`.
    /// `None` if it has none more: as long as its number of entries stays, it would be asked with each write.
    #[inline]
    pub(crate) fn consider_split(&self, key: &[u8], len: Option<usize>) {
        if len.is_some_and(|len| self.may_split(len)) {
            // The write that has led to this has happened, so it must not fail for lack of space for two halves. Later ones try again.
            let _ = self.split(key);
        }
    }

    /// Whether a shard of so many entries may have to be split.
    #[inline]
    pub(crate) fn may_split(&self, len: usize) -> bool {
        len.is_multiple_of(ASKED) && len >= large(self.map.load().shards.len(), self.enough)
    }

    #[inline(never)]
    fn split(&self, key: &[u8]) -> Result<()> {
        let is_enough = self.map.load().shards.len() >= self.enough;
        self.split_where(key, |view, part| part::cut(view, part, key, is_enough))
    }

    /// Gives the keys of a large batch, which is about to be written, shards of their own, as far as there are not enough yet, and few entries are in the way. Later they would have to be moved.
    pub(crate) fn prepare<'k>(&self, keys: impl ExactSizeIterator<Item = &'k [u8]>) {
        let missing = self.enough.saturating_sub(self.map.load().shards.len());
        let parts = (keys.len() / LARGE).min(missing + 1);
        if parts < 2 {
            return;
        }
        let every = keys.len().div_ceil(SAMPLE);
        let mut sample: Vec<&[u8]> = keys.step_by(every).collect();
        sample.sort_unstable();
        // The last one first: what is in the way is moved once.
        for i in (1..parts).rev() {
            let key = sample[i * sample.len() / parts];
            // Only for those who come later.
            let _ = self.split_where(key, |view, part| part::cut_at(view, part, key));
        }
    }

    /// Splits the shard that has a key where `cut` says, if it does.
    fn split_where(
        &self,
        key: &[u8],
        cut: impl for<'r> FnOnce(&View<'r>, P<'r, Part<'r>>) -> Option<Vec<u8>>,
    ) -> Result<()> {
        if !self.eras.is_quiet() {
            return Ok(()); // as below, and before anything is done for it
        }
        let mut unused = match self.unused.try_lock() {
            Ok(unused) => unused,
            Err(TryLockError::WouldBlock) => return Ok(()),
            // The thread that has panicked has changed the map, or nothing.
            Err(TryLockError::Poisoned(unused)) => unused.into_inner(),
        };
        let map = self.map();
        let place = map.index_of(key);
        let shard = &map.shards[place];
        // Nobody is told of what is seen here, so it need not be durable; nor need the split, before others go on.
        let (Some(cut), _) = shard.root.read_deferred(cut)? else { return Ok(()) };
        if unused.is_empty() {
            unused.push(self.heap.root(&format!("{PREFIX}{}", map.shards.len()))?);
        }
        let (new, bounds): (Root<Part>, u64) = (unused[unused.len() - 1].clone(), map.new_bounds());
        let (is_split, _) = pheap::txn_deferred((&shard.root, &new), |((ta, a), (tb, b))| {
            // What snapshots may ask for stays where it is.
            if !self.eras.is_quiet() {
                return Ok(false);
            }
            // And so do older versions. Nobody needs them any more, but writes may come near them never again.
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
        // Who finds the new bounds asks again until here: for long only if so much was moved that even a deferred transaction waits for the disk. But not before: who reads the shard, and
        // other keys within that, would wait for a commit that waits for him.
        if is_split {
            unused.pop();
            let mut shards = map.shards.clone();
            shards[place].bounds = bounds;
            let start = StoredKey::from_slice(&cut);
            shards.insert(place + 1, Shard { root: new, counts: Arc::default(), start, bounds });
            self.map.store(Arc::new(Map { shards }));
        }
        Ok(())
    }

    /// Gives up all shards in which nothing is left, but the first: the keys of each are those of the shard
    /// before it from then on. Their roots give their pages back, and later splits use them again.
    ///
    /// This thread must not read the store meanwhile: it waits for others that change the map.
    pub(crate) fn give_up_empty(&self) -> Result<()> {
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        let mut place = 1;
        loop {
            let map = self.map();
            let Some(shard) = map.shards.get(place) else { return Ok(()) };
            let (before, bounds) = (&map.shards[place - 1], map.new_bounds());
            // As in a split: what is seen and done here need not be durable before others go on.
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
            // Who would count on has an old map, and is refused by the new bounds.
            let counts = Arc::new(Counts::sum(&before.counts, &given_up.counts));
            let before = Shard { counts, bounds, ..before.clone() };
            shards[place - 1] = before;
            self.map.store(Arc::new(Map { shards }));
            unused.push(given_up.root.clone());
            given_up.root.collect()?;
        }
    }
}

/// Entries of which a shard is large. While there are not enough shards, the fewer there are the less, by their square: threads that fill a young store would meet at one otherwise. When there are enough, twice as
/// many for each half of that number that is added: so those of a store that is filled in order differ little, and their number grows with the logarithm of its size.
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
        // So few that there are not enough shards, with one processor, too.
        for n in 0..3000u32 {
            store.put(n.to_be_bytes(), "").unwrap();
        }
        let (enough, before) = (store.shards.enough, sizes(&store));
        let full = |(i, size): (usize, &usize)| *size == large(i + 1, enough).next_multiple_of(ASKED) - 1;
        assert!(before.len() > 2 && before[..before.len() - 1].iter().enumerate().all(full), "{before:?}");
        // The first one gets others in between.
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
        // What is not appended divides a shard only if there are not enough.
        let shard = &store.shards.map().shards[0];
        let cut = |is_enough| shard.root.read(|view, part| part::cut(view, part, b"", is_enough)).unwrap();
        assert!(cut(false).is_some() && cut(true).is_none());
    }

    /// As long as there are snapshots, and what they need is near keys that nobody writes to.
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

    /// Else the store grows with each key space, and a later one does not get shards enough.
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

    /// Else a thread with an old map would look for keys in a shard that has others.
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

    /// In a write that is one of many.
    #[test]
    fn what_would_take_long_to_move_stays() {
        let store = Store::in_memory().unwrap();
        let key = |n: u32| n.wrapping_mul(0x9e37_79b1).to_be_bytes();
        let value = vec![7; 350_000];
        for n in 0..=ASKED as u32 {
            store.put(key(n), &value).unwrap();
        }
        assert_eq!(sizes(&store), [ASKED + 1]);
        // What is replaced asks for no split, however many entries there are.
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
