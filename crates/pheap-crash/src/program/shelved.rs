//! Operations on the collections of a root.

use crate::named::named;

named! {
    /// A transaction over the collections of one root.
    pub enum Shelved {
        /// Gives the root collections. (Operations that need them do so as well; their crashes are not
        /// explored.)
        Shelve = "shelve",
        /// Inserts a key into the hash map.
        MapInsert = "map-insert",
        /// Inserts keys until a bucket is full. If one already is, inserts as many again, so that it is
        /// split.
        MapFill = "map-fill",
        /// Sets the value of a key.
        MapSet = "map-set",
        /// Removes a key.
        MapRemove = "map-remove",
        /// Empties the hash map, which releases its buffers.
        MapClear = "map-clear",
        /// Fills the hash map, splits a bucket, and empties it, until buffers are used again.
        MapChurn = "map-churn",
        /// Inserts a key, a string, into the ordered map.
        TreeInsert = "tree-insert",
        /// Inserts keys until a leaf is full. If one already is, inserts as many again, so that it is split.
        TreeFill = "tree-fill",
        /// Removes a key.
        TreeRemove = "tree-remove",
        /// Removes all but a [few](THIN) keys, so that leaves are merged.
        TreeThin = "tree-thin",
        /// Inserts a key into the map with versions.
        SnapInsert = "snap-insert",
        /// Inserts keys until a leaf is full. If one already is, inserts as many again.
        SnapFill = "snap-fill",
        /// Sets a value, and removes all but a [few](THIN) keys, so that leaves are merged.
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
        /// Changes the map with versions, then all collections in a nested part that fails.
        MapNest = "map-nest",
    }
}

/// Returns the length of a hash map after it was filled: one full bucket, or one bucket more than before.
pub fn filled_map(len: usize) -> usize {
    filled(len, 27)
}

/// Returns the length of an ordered map after it was filled: one full leaf, or one leaf more than before.
pub fn filled_tree(len: usize) -> usize {
    filled(len, 32)
}

fn filled(len: usize, node: usize) -> usize {
    if len < node { node } else { len + node }
}

/// Number of keys that are left in an ordered map that was thinned.
pub const THIN: usize = 8;
