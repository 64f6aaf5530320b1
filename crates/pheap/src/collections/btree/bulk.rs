//! Changing many entries of an ordered map: `extend`, `clear`, `retain` and the like.

use super::PBTreeMap;
use super::node::{Child, Entry, MAX_HEIGHT};
use super::range::{KeyRange, TreeSpan};
use super::shrink::{self, MendOutcome};
use crate::api::tx::Txn;
use crate::collections::key::OrdKey;
use crate::error::Result;
use crate::layout::Persist;
use crate::ptr::P;

/// <a id="change-PBTreeMap-more"></a>Changing many entries.
impl<'r, K: OrdKey<'r>, V: Persist<At<'r> = V>> P<'r, PBTreeMap<'r, K, V>> {
    /// Calls `change` with each entry, in the order of the keys; `change` may change the value. O(n).
    ///
    /// (There is no `iter_mut`: a value must be made crash-safe before the program gets a `&mut` to it, which
    /// needs the transaction.)
    pub fn for_each_mut(self, tx: &mut Txn<'r>, change: impl FnMut(&K::Query, &mut V)) {
        self.for_each_mut_in(tx, .., change);
    }

    /// Like [`for_each_mut`](Self::for_each_mut), for the entries whose keys are in a range.
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
        let mut span = TreeSpan::new(tx, tx[self].top.child(), range);
        while let Some((leaf, place)) = span.next(tx) {
            let (query, value) = leaf.node().entry_mut(tx, place);
            change(query, value);
        }
    }

    /// Removes the entries for which `keep` is false. O(n).
    pub fn retain(self, tx: &mut Txn<'r>, mut keep: impl FnMut(&K::Query, &V) -> bool) {
        // `keep` is called for all entries first: if it panics, no entry has moved.
        let kept: Vec<bool> = tx[self].iter(tx).map(|(key, value)| keep(key, value)).collect();
        if !kept.contains(&true) {
            return self.clear(tx);
        }
        self.retain_marked(tx, kept, &mut |tx, entry| entry.key.free_key(tx));
    }

    /// Keeps the entries for which `kept` has a `true`, removes the others, and passes them to `gone`.
    fn retain_marked(self, tx: &mut Txn<'r>, kept: Vec<bool>, gone: &mut impl FnMut(&Txn<'r>, Entry<K, V>)) {
        if kept.iter().all(|kept| *kept) {
            return;
        }
        let top = tx[self].top.child();
        let mut kept = kept.into_iter();
        sift(tx, self, top, MAX_HEIGHT, &mut kept, gone);
        // A node that had no neighbour may have one after its parent was merged.
        for _ in 0..MAX_HEIGHT {
            if !mend(tx, top, MAX_HEIGHT) {
                break;
            }
        }
        shrink::mend_top(self, tx);
    }

    /// Removes the entries whose keys are in a range, and returns them in order. O(k + log n) for k entries.
    ///
    /// # Panics
    /// As for [`PBTreeMap::range`]. If the `Ord` of keys panics, nothing is removed; if
    /// [`OrdKey::prefix`] does, nothing or all of the range.
    #[track_caller]
    pub fn drain(self, tx: &mut Txn<'r>, range: impl KeyRange<K::Query>) -> std::vec::IntoIter<(K, V)> {
        let top = tx[self].top.child();
        // All keys are compared first: if a comparison panics, no entry has moved.
        let ways = TreeSpan::new(tx, top, range).ways();
        let mut taken = Vec::new();
        if let Some((from, to)) = ways {
            if take_between(tx, self, top, MAX_HEIGHT, (Some(&from), to.as_deref()), &mut taken) {
                mend_at(tx, top, &from, MAX_HEIGHT);
            }
            shrink::mend_top(self, tx);
        }
        taken.into_iter()
    }

    /// Removes the entries for which `is_wanted` is true, and returns them in order. O(n).
    pub fn extract_if(
        self,
        tx: &mut Txn<'r>,
        mut is_wanted: impl FnMut(&K::Query, &V) -> bool,
    ) -> std::vec::IntoIter<(K, V)> {
        // `is_wanted` is called for all entries first: if it panics, no entry has moved.
        let kept: Vec<bool> = tx[self].iter(tx).map(|(key, value)| !is_wanted(key, value)).collect();
        let mut taken = Vec::new();
        self.retain_marked(tx, kept, &mut |_, Entry { key, value }| taken.push((key.into_inner(), value)));
        taken.into_iter()
    }

    /// Removes all entries. O(n): the nodes, and memory that keys own, are freed when the transaction
    /// commits.
    pub fn clear(self, tx: &mut Txn<'r>) {
        let map = std::mem::take(&mut tx[self]);
        map.top.free_nodes(tx);
    }

    /// Inserts the items of an iterator, as [`insert`](Self::insert) does, one after the other.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert). Then the earlier items stay inserted, unless the transaction is
    /// rolled back.
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

/// Removes the entries below a child for which `kept` returns `false`, and passes them to `gone`.
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
                let child = inner.node_view(tx).child(place);
                sift(tx, map, child, height - 1, kept, gone);
            }
        }
        Child::Inner(_) | Child::None(_) => {}
    }
}

/// Moves the entries below a child that are between two ways to `taken`. A way is a list of places that
/// starts at the child, as [`TreeSpan::ways`] returns it. Without the first way, the range starts with the
/// first entry below the child; without the second way, it ends with the last one. Runs no code of the
/// program. Returns whether nodes below the child need to be mended.
fn take_between<'r, K: OrdKey<'r>, V: Persist>(
    tx: &mut Txn<'r>,
    map: P<'r, PBTreeMap<'r, K, V>>,
    child: Child<'r, K, V>,
    height: usize,
    (from, to): (Option<&[u8]>, Option<&[u8]>),
    taken: &mut Vec<(K, V)>,
) -> bool {
    let place = |way: Option<&[u8]>| Some(usize::from(*way?.first()?));
    let first = place(from).unwrap_or(0);
    match child {
        Child::Leaf(leaf) => {
            for _ in first..place(to).unwrap_or(leaf.count(tx)) {
                let Entry { key, value } = leaf.remove_entry(tx, first);
                tx[map].len -= 1;
                taken.push((key.into_inner(), value));
            }
            false
        }
        Child::Inner(inner) if height > 0 => {
            let mut is_thin = false;
            let (mut here, end) = (first, place(to).map_or(inner.count(tx), |last| last + 1));
            for place in first..end {
                let from = from.filter(|_| place == first).map(|way| &way[1..]);
                let to = to.filter(|_| place + 1 == end).map(|way| &way[1..]);
                let child = inner.node_view(tx).child(here);
                is_thin |= take_between(tx, map, child, height - 1, (from, to), taken);
                is_thin |= shrink::is_thin(tx, child);
                // Remove an empty child at once: no search gets past a node without items.
                if child.count(tx) == 0 {
                    inner.remove_child(tx, here);
                } else {
                    here += 1;
                }
            }
            is_thin
        }
        Child::Inner(_) | Child::None(_) => false,
    }
}

/// After entries were moved out, mends the nodes on a way down from a child, from the bottom up, and the
/// nodes next to them. An empty way leads to the first entry.
fn mend_at<'r, K: OrdKey<'r>, V: Persist>(
    tx: &mut Txn<'r>,
    child: Child<'r, K, V>,
    way: &[u8],
    height: usize,
) {
    let Child::Inner(inner) = child else { return };
    if height == 0 {
        return;
    }
    let (place, rest) = way.split_first().map_or((0, way), |(&place, rest)| (usize::from(place), rest));
    let mut below = |place, way: &[u8]| {
        if place < inner.count(tx) {
            mend_at(tx, inner.node_view(tx).child(place), way, height - 1);
        }
    };
    below(place, rest);
    if !way.is_empty() {
        // If all entries below the child at `place` are gone, that child was removed, and the next one has
        // its place.
        below(place, &[]);
        below(place + 1, &[]);
    }
    for place in [place + 1, place] {
        while place < inner.count(tx) && shrink::mend_child(tx, inner, place) == MendOutcome::Merged {}
    }
}

/// Mends all nodes below a child that have too few items, from the bottom up. Returns whether there may be
/// more to mend.
fn mend<'r, K: OrdKey<'r>, V: Persist>(tx: &mut Txn<'r>, child: Child<'r, K, V>, height: usize) -> bool {
    let Child::Inner(inner) = child else { return false };
    if height == 0 {
        return false;
    }
    let (mut again, mut place) = (false, 0);
    while place < inner.count(tx) {
        let child = inner.node_view(tx).child(place);
        again |= mend(tx, child, height - 1);
        // Remove an empty child at once: the program's code may panic later, and no search gets past a node
        // without items.
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
        again |= mended > MendOutcome::Not;
        // After a merge, the child may still have too few items.
        place = if mended == MendOutcome::Merged { place.saturating_sub(1) } else { place + 1 };
    }
    again
}
