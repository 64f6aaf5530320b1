//! What is done to the collections of a root.

use crate::model::RootState;

/// A transaction over the collections of one root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shelved {
    /// Gives the root collections. (What needs them does so as well, unseen.)
    Shelve,
    /// Inserts a key into the hash map.
    MapInsert,
    /// Inserts until a bucket is full, and if one is, as many more: it is divided.
    MapFill,
    /// Sets the value of a key.
    MapSet,
    /// Removes a key.
    MapRemove,
    /// Empties the hash map: all its buffers are given up.
    MapClear,
    /// Fills the hash map, divides a bucket, and empties it, so often that buffers are used again.
    MapChurn,
    /// Inserts a key, which is a string, into the ordered map.
    TreeInsert,
    /// Inserts until a leaf is full, and if one is, as many more: it is divided.
    TreeFill,
    /// Removes a key.
    TreeRemove,
    /// Removes all keys but a [few](THIN): leaves are merged.
    TreeThin,
    /// Appends an object to the vector.
    VecPush,
    /// Appends so many that the vector moves to another buffer.
    VecGrow,
    /// Sets the string.
    StringSet,
    /// Fails after changes to all collections.
    MapAbort,
    /// Panics after these.
    MapPanic,
}

impl Shelved {
    /// Whether it has something to work on in such a root.
    pub fn applies(self, root: &RootState) -> bool {
        match self {
            Shelved::MapSet | Shelved::MapRemove | Shelved::MapClear => !root.map.is_empty(),
            Shelved::TreeRemove => !root.tree.is_empty(),
            Shelved::TreeThin => root.tree.len() > THIN,
            _ => true,
        }
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
