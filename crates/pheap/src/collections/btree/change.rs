//! Changing a map.

use super::PBTreeMap;
use super::grow;
use super::search::{self, Found, Wanted};
use super::shrink;
use crate::collections::key::OrdKey;
use crate::error::Result;
use crate::layout::Persist;
use crate::ptr::P;
use crate::txn::Txn;

/// Changing a map.
impl<'r, K: OrdKey<'r>, V: Persist<At<'r> = V>> P<'r, PBTreeMap<'r, K, V>> {
    /// Inserts an entry, or replaces the value of a key that is there, and returns the old one. O(log n).
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn insert(self, tx: &mut Txn<'r>, key: &K::Query, value: V) -> Result<Option<V>> {
        let wanted = Wanted::new::<K>(key);
        let found = search::find(tx, tx[self].top, wanted);
        if let Some(Found { leaf, place: Ok(place), .. }) = found {
            let slot = leaf.head(tx).slot(place);
            // SAFETY: in use.
            let old = unsafe { leaf.value_mut(tx, slot) };
            return Ok(Some(std::mem::replace(old, value)));
        }
        grow::insert(self, tx, found, wanted, value)?;
        Ok(None)
    }

    /// The value of a key, to write, if it is there. O(log n).
    pub fn get_mut<'t>(self, tx: &'t mut Txn<'r>, key: &K::Query) -> Option<&'t mut V> {
        let wanted = Wanted::new::<K>(key);
        let leaf = search::descend(tx, tx[self].top, wanted, |_, _| {})?;
        let head = leaf.head(tx);
        let slot = head.slot(search::in_leaf(tx, leaf, head, wanted).ok()?);
        // SAFETY: in use.
        Some(unsafe { leaf.value_mut(tx, slot) })
    }

    /// Removes a key, and returns its value. O(log n).
    pub fn remove(self, tx: &mut Txn<'r>, key: &K::Query) -> Option<V> {
        let found = search::find(tx, tx[self].top, Wanted::new::<K>(key))?;
        let entry = shrink::remove(self, tx, found.leaf, found.path, found.place.ok()?);
        // SAFETY: made by `from_query` for this map, which has shown nobody more than what it is looked up by.
        unsafe { entry.key.give_up(tx) };
        Some(entry.value)
    }
}
