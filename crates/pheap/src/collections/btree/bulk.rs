//! Changing many entries of an ordered map: `extend`, `clear`, `retain` and the like.

use super::PBTreeMap;
use super::node::{Child, Entry, MAX_HEIGHT};
use super::range::{KeyRange, Span};
use super::shrink::{self, Mended};
use crate::api::tx::Txn;
use crate::collections::key::OrdKey;
use crate::error::Result;
use crate::layout::Persist;
use crate::ptr::P;

/// <a id="change-PBTreeMap-more"></a>Changing many entries.
impl<'r, K: OrdKey<'r>, V: Persist<At<'r> = V>> P<'r, PBTreeMap<'r, K, V>> {
    /// Calls `change` with each entry, in the order of the keys; the value can be changed. O(n).
    ///
    /// (There is no `iter_mut`: each value must be made crash-safe before anyone gets a `&mut` to it, which takes the transaction.)
    pub fn for_each_mut(self, tx: &mut Txn<'r>, change: impl FnMut(&K::Query, &mut V)) {
        self.for_each_mut_in(tx, .., change);
    }

    /// [`for_each_mut`](Self::for_each_mut) for the entries whose keys are in a range.
    ///
    /// # Panics
    /// As for [`PBTreeMap::range`].
    #[track_caller]
    pub fn for_each_mut_in(
        self,
        tx: &mut Txn<'r>,
        range: impl KeyRange<K::Query>,
        mut change: impl FnMut(&K::Query, &mut V),
    ) {
        let mut span = Span::new(tx, tx[self].top.child(), range);
        while let Some((leaf, place)) = span.next(tx) {
            let (query, value) = leaf.node().entry_mut(tx, place);
            change(query, value);
        }
    }

    /// Keeps the entries for which `keep` is true. O(n).
    pub fn retain(self, tx: &mut Txn<'r>, mut keep: impl FnMut(&K::Query, &V) -> bool) {
        // The user's code comes first: should it panic, nothing has moved.
        let kept: Vec<bool> = tx[self].iter(tx).map(|(key, value)| keep(key, value)).collect();
        if !kept.contains(&true) {
            return self.clear(tx);
        }
        self.keep(tx, kept, &mut |tx, entry| entry.key.give_up(tx));
    }

    /// Keeps the entries for which there is a `true`, and hands the others to `gone`.
    fn keep(self, tx: &mut Txn<'r>, kept: Vec<bool>, gone: &mut impl FnMut(&Txn<'r>, Entry<K, V>)) {
        if kept.iter().all(|kept| *kept) {
            return;
        }
        let top = tx[self].top.child();
        let mut kept = kept.into_iter();
        sift(tx, self, top, MAX_HEIGHT, &mut kept, gone);
        // What was alone below its parent has neighbours when that was merged.
        for _ in 0..MAX_HEIGHT {
            if !mend(tx, top, MAX_HEIGHT) {
                break;
            }
        }
        shrink::mend_top(self, tx);
    }

    /// Removes the entries whose keys are in a range, and returns them in order. O(k log n) for k entries.
    ///
    /// # Panics
    /// As for [`PBTreeMap::range`].
    #[track_caller]
    pub fn drain(self, tx: &mut Txn<'r>, range: impl KeyRange<K::Query>) -> std::vec::IntoIter<(K, V)> {
        let count = tx[self].range(tx, (range.start(), range.end())).count();
        let mut taken = Vec::with_capacity(count);
        for _ in 0..count {
            let first = |tx: &Txn<'r>, top, path: &mut _| {
                Span::new(tx, top, (range.start(), range.end())).first(path)
            };
            let Some(entry) = self.take(tx, first) else { break };
            taken.push((entry.key.into_inner(), entry.value));
        }
        taken.into_iter()
    }

    /// Removes the entries for which `is_wanted` is true, and returns them in order. O(n).
    pub fn extract_if(
        self,
        tx: &mut Txn<'r>,
        mut is_wanted: impl FnMut(&K::Query, &V) -> bool,
    ) -> std::vec::IntoIter<(K, V)> {
        // The user's code comes first: should it panic, nothing has moved.
        let kept: Vec<bool> = tx[self].iter(tx).map(|(key, value)| !is_wanted(key, value)).collect();
        let mut taken = Vec::new();
        self.keep(tx, kept, &mut |_, Entry { key, value }| taken.push((key.into_inner(), value)));
        taken.into_iter()
    }

    /// Removes all entries. O(n): their keys and the nodes are freed.
    pub fn clear(self, tx: &mut Txn<'r>) {
        let map = std::mem::take(&mut tx[self]);
        map.top.give_up(tx);
    }

    /// Inserts the items of an iterator, as [`insert`](Self::insert) does, one after the other.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert). Earlier items are inserted then; an `Err` that leaves the transaction undoes that.
    pub fn extend<'q>(
        self,
        tx: &mut Txn<'r>,
        entries: impl IntoIterator<Item = (&'q K::Query, V)>,
    ) -> Result<()>
    where
        K::Query: 'q,
    {
        entries.into_iter().try_for_each(|(key, value)| self.insert(tx, key, value).map(drop))
    }
}

/// Moves the entries below a child out that are not kept.
fn sift<'r, K: OrdKey<'r>, V: Persist<At<'r> = V>>(
    tx: &mut Txn<'r>,
    map: P<'r, PBTreeMap<'r, K, V>>,
    child: Child<'r, K, V>,
    height: usize,
    kept: &mut impl Iterator<Item = bool>,
    gone: &mut impl FnMut(&Txn<'r>, Entry<K, V>),
) {
    match child {
        Child::Leaf(leaf) => {
            let mut place = 0;
            for _ in 0..leaf.count(tx) {
                if kept.next().unwrap_or(true) {
                    place += 1;
                    continue;
                }
                let entry = leaf.remove_entry(tx, place);
                tx[map].len -= 1;
                gone(tx, entry);
            }
        }
        Child::Inner(inner) if height > 0 => {
            for place in 0..inner.count(tx) {
                let child = inner.seen(tx).child(place);
                sift(tx, map, child, height - 1, kept, gone);
            }
        }
        Child::Inner(_) | Child::None(_) => {}
    }
}

/// Mends all nodes below a child, from the bottom up. Returns whether there may be more to mend.
fn mend<'r, K: OrdKey<'r>, V: Persist>(tx: &mut Txn<'r>, child: Child<'r, K, V>, height: usize) -> bool {
    let Child::Inner(inner) = child else { return false };
    if height == 0 {
        return false;
    }
    let (mut again, mut place) = (false, 0);
    while place < inner.count(tx) {
        let child = inner.seen(tx).child(place);
        again |= mend(tx, child, height - 1);
        // At once: later the user's code may panic, and nobody finds his way past a node without items.
        if child.count(tx) == 0 {
            inner.remove_child(tx, place);
            again = true;
        } else {
            place += 1;
        }
    }
    place = 0;
    while place < inner.count(tx) {
        let mended = shrink::mend_child(tx, inner, place);
        again |= mended > Mended::Not;
        // A child that was merged may still have too few items.
        place = if mended == Mended::Merged { place.saturating_sub(1) } else { place + 1 };
    }
    again
}
