//! Changing many entries of a map.

#![allow(unsafe_code)]

use std::borrow::Borrow;

use super::find::{Absence, ask_for, find_hash};
use super::iter::Cursor;
use super::split::{free_all, hash_in, hash_of};
use super::table::{Pair, Root};
use super::walk::walk_from;
use super::{HashKey, PHashMap};
use crate::api::tx::Txn;
use crate::collections::buffer;
use crate::error::Result;
use crate::layout::Persist;
use crate::ptr::P;

/// Entries that [`P::extend`] looks for at a time.
const GROUP: usize = 16;

/// Changing many entries.
impl<'r, K: HashKey<'r>, V: Persist<At<'r> = V>> P<'r, PHashMap<'r, K, V>> {
    /// Inserts the items of an iterator. Faster than one [`insert`](Self::insert) after the other, because it waits for the memory of several entries at
    /// once.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert). Earlier items are inserted then; an `Err` that leaves the transaction undoes that.
    pub fn extend<Q: Borrow<K::Query>>(
        self,
        tx: &mut Txn<'r>,
        entries: impl IntoIterator<Item = (Q, V)>,
    ) -> Result<()> {
        let mut entries = entries.into_iter().map(|(key, value)| (key, value, None));
        let mut group = Vec::with_capacity(GROUP);
        loop {
            group.extend(entries.by_ref().take(GROUP));
            if group.is_empty() {
                return Ok(());
            }
            if let Some(root) = tx[self].root {
                let &Root { secret, top } = &tx[root];
                for (key, _, hash_of_key) in &mut group {
                    let hash = hash_of::<K>(secret, Borrow::borrow(key));
                    if let Some(bucket) = walk_from(tx, root, top, hash).bucket {
                        ask_for(bucket, hash);
                    }
                    *hash_of_key = Some(hash);
                }
            }
            for (key, value, hash) in group.drain(..) {
                let key = key.borrow();
                let found = match (tx[self].root, hash) {
                    (Some(root), Some(hash)) => find_hash(tx, root, tx[root].top, hash, key),
                    _ => tx[self].find(tx, key),
                };
                match found {
                    Ok(home) => *self.value_mut(tx, &home) = value,
                    Err(absence) => self.add(tx, absence, key, value).map(drop)?,
                }
            }
        }
    }

    /// Keeps the entries for which `keep` is true. O(n).
    pub fn retain(self, tx: &mut Txn<'r>, mut keep: impl FnMut(&K::Query, &V) -> bool) {
        let mut cursor = Cursor::new(&tx[self], tx);
        let mut homes = Vec::new();
        // The user's code comes first: should it panic, nothing has changed.
        while let Some(at) = cursor.next(tx) {
            // SAFETY: a slot with an entry.
            let pair = unsafe { buffer::read(tx, at).value() };
            if !keep(pair.key.query(tx), &pair.value) {
                homes.push(cursor.home(at));
            }
        }
        // From the last one on: among few, the last one moves to where another was.
        for home in homes.iter().rev() {
            self.take(tx, home);
        }
    }

    /// Calls `change` with each entry; the value can be changed. O(n). All entries are logged: to change a few of many, find those first.
    pub fn for_each_mut(self, tx: &mut Txn<'r>, mut change: impl FnMut(&K::Query, &mut V)) {
        let mut cursor = Cursor::new(&tx[self], tx);
        while let Some(at) = cursor.next(tx) {
            // SAFETY: a slot with an entry. The key is written by nobody, neither here nor where the entry was before it was copied; and a reference
            // to it stays good while a transaction goes from copies to the undo log.
            unsafe {
                let query = std::ptr::from_ref(buffer::read(tx, at).value().key.query(tx));
                let pair = tx.writable(at).cast::<Pair<K, V>>();
                change(&*query, &mut (*pair).value);
            }
        }
    }

    /// Removes all entries and returns them, in no particular order. O(n).
    pub fn drain(self, tx: &mut Txn<'r>) -> std::vec::IntoIter<(K, V)> {
        let mut cursor = Cursor::new(&tx[self], tx);
        let mut drained = Vec::with_capacity(tx[self].len());
        while let Some(at) = cursor.next(tx) {
            // SAFETY: a slot with an entry, that moves out: nobody looks at the slot again.
            let Pair { key, value } = unsafe { buffer::read(tx, at).take() };
            drained.push((key.into_inner(), value));
        }
        let old = std::mem::take(&mut tx[self]);
        // SAFETY: the map has let go of its buffers, and all entries are moved out.
        unsafe { old.free(tx) };
        drained.into_iter()
    }

    /// Removes all entries, and frees all memory. O(n).
    pub fn clear(self, tx: &mut Txn<'r>) {
        let old = std::mem::take(&mut tx[self]);
        if K::POINTERS {
            let mut cursor = Cursor::new(&old, tx);
            while let Some(at) = cursor.next(tx) {
                // SAFETY: a slot with an entry, at which nobody looks again.
                unsafe { buffer::read(tx, at).take() }.key.give_up(tx);
            }
        }
        // SAFETY: the map has let go of its buffers.
        unsafe { old.free(tx) };
    }

    /// Frees unused memory: all entries move. O(n).
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn shrink_to_fit(self, tx: &mut Txn<'r>) -> Result<()> {
        let new = tx.alloc(PHashMap::new())?;
        let mut cursor = Cursor::new(&tx[self], tx);
        while let Some(at) = cursor.next(tx) {
            // SAFETY: a slot with an entry, of which the copy is the only one when this is done, and garbage if that fails. For the reference see
            // `for_each_mut`.
            unsafe {
                let query = &*std::ptr::from_ref(buffer::read(tx, at).value().key.query(tx));
                let absence = match tx[new].root {
                    Some(root) => {
                        Absence::Bucket { root, hash: hash_in(tx, tx[root].secret, at), free: None }
                    }
                    None => Absence::Few,
                };
                new.add_pair(tx, absence, query, |tx| Ok(buffer::read(tx, at).take()))?;
            }
        }
        let new_map = std::mem::take(&mut tx[new]);
        let old = std::mem::replace(&mut tx[self], new_map);
        // SAFETY: the map has let go of its buffers; and `new` has never been anything but a way to make others.
        unsafe {
            old.free(tx);
            buffer::free(tx, new);
        }
        Ok(())
    }
}

impl<'r, K: Persist, V: Persist> PHashMap<'r, K, V> {
    /// Frees all buffers when the transaction commits.
    ///
    /// # Safety
    /// They are no map's.
    unsafe fn free(self, tx: &Txn<'r>) {
        // SAFETY: passed on to the caller.
        unsafe {
            if let Some(few) = self.few {
                buffer::free(tx, few);
            }
            if let Some(root) = self.root {
                free_all(tx, tx[root].top);
                buffer::free(tx, root);
            }
        }
    }
}
