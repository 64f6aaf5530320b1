//! What is done to the collections of a root.

use crate::named::named;

named! {
    /// A transaction over the collections of one root.
    pub enum Shelved {
        /// Gives the root collections. (What needs them does so as well, unseen.)
        Shelve = "shelve",
        /// Inserts a key into the hash map.
        MapInsert = "map-insert",
        /// Inserts until a bucket is full, and if one is, as many more: it is divided.
        MapFill = "map-fill",
        /// Sets the value of a key.
        MapSet = "map-set",
        /// Removes a key.
        MapRemove = "map-remove",
        /// Empties the hash map: all its buffers are given up.
        MapClear = "map-clear",
        /// Fills the hash map, divides a bucket, and empties it, so often that buffers are used again.
        MapChurn = "map-churn",
        /// Inserts a key, which is a string, into the ordered map.
        TreeInsert = "tree-insert",
        /// Inserts until a leaf is full, and if one is, as many more: it is divided.
        TreeFill = "tree-fill",
        /// Removes a key.
        TreeRemove = "tree-remove",
        /// Removes all keys but a [few](THIN): leaves are merged.
        TreeThin = "tree-thin",
        /// Inserts a key into the map that has versions.
        SnapInsert = "snap-insert",
        /// Inserts until a leaf is full, and if one is, as many more.
        SnapFill = "snap-fill",
        /// Sets a value, and removes all keys but a [few](THIN): leaves are joined.
        SnapThin = "snap-thin",
        /// Appends an object to the vector.
        VecPush = "vec-push",
        /// Appends so many that the vector moves to another buffer.
        VecGrow = "vec-grow",
        /// Sets the string.
        StringSet = "string-set",
        /// Fails after changes to all collections.
        MapAbort = "map-abort",
        /// Panics after these.
        MapPanic = "map-panic",
        /// Changes the map that has versions, then all of them in a nested part, which fails.
        MapNest = "map-nest",
    }
}

/// How long a hash map is that was filled: a bucket, or one more than there were.
pub fn filled_map(len: usize) -> usize {
    filled(len, 27)
}

/// How long an ordered map is that was filled: a leaf, or one more than there were.
pub fn filled_tree(len: usize) -> usize {
    filled(len, 32)
}

fn filled(len: usize, node: usize) -> usize {
    if len < node { node } else { len + node }
}

/// What is left of an ordered map that was thinned.
pub const THIN: usize = 8;
