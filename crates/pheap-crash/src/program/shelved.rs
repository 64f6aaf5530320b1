//! Operations on the collections of a root.

use crate::named::named;

named! {
    /// An operation on the collections of one root.
    pub enum Shelved {
        /// Gives the root collections. (Operations that need them do so as well; crashes during that step are
        /// explored for this operation only.)
        Shelve = "shelve",
        /// Inserts a key into the hash map.
        MapInsert = "map-insert",
        /// Inserts keys until the map has as many as a bucket takes. If it already has, inserts as many
        /// again.
        MapFill = "map-fill",
        /// Sets the value of the first key.
        MapSet = "map-set",
        /// Removes the first key.
        MapRemove = "map-remove",
        /// Empties the hash map.
        MapClear = "map-clear",
        /// Empties the hash map, fills a bucket, and inserts one more key, four times.
        MapChurn = "map-churn",
        /// Inserts a key, a string, into the ordered map.
        TreeInsert = "tree-insert",
        /// Inserts keys until the map has as many as a leaf takes. If it already has, inserts as many again.
        TreeFill = "tree-fill",
        /// Removes the first key.
        TreeRemove = "tree-remove",
        /// Removes all but a [few](THIN) keys, so that leaves are merged.
        TreeThin = "tree-thin",
        /// Inserts a key into the map with versions.
        SnapInsert = "snap-insert",
        /// Inserts keys until the map has 32, one more than a leaf takes. If it already has, inserts 32 more.
        SnapFill = "snap-fill",
        /// Removes all but a [few](THIN) keys, so that leaves are merged, and sets the value of the last one.
        SnapThin = "snap-thin",
        /// Appends an object to the vector.
        VecPush = "vec-push",
        /// Appends so many objects that the vector moves to another buffer.
        VecGrow = "vec-grow",
        /// Sets the string.
        StringSet = "string-set",
        /// Changes all collections, then fails.
        MapAbort = "map-abort",
        /// Changes all collections, then panics.
        MapPanic = "map-panic",
        /// Changes the map with versions, then all collections in a nested part that fails, then the map with
        /// versions in a nested part that succeeds.
        MapNest = "map-nest",
    }
}

/// Returns the number of keys of a hash map after [`Shelved::MapFill`].
pub fn filled_map(len: usize) -> usize {
    filled(len, 27)
}

/// Returns the number of keys of an ordered map after [`Shelved::TreeFill`] or [`Shelved::SnapFill`].
pub fn filled_tree(len: usize) -> usize {
    filled(len, 32)
}

fn filled(len: usize, node: usize) -> usize {
    if len < node { node } else { len + node }
}

/// Number of keys that [`Shelved::TreeThin`] and [`Shelved::SnapThin`] leave.
pub const THIN: usize = 8;
