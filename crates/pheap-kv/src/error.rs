//! `Error`: why a call failed, and how to respond.

/// The result of most functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. A failed call has changed nothing, unless the text of the error or the documentation of
/// the call says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The heap under the store refused the call, for instance because the file is foreign, newer, truncated,
    /// locked or on a full disk. The message says how to respond.
    #[error(transparent)]
    Heap(#[from] pheap::Error),

    /// The file is a heap that holds no store but other roots. No root was changed or added.
    #[error("the heap has other roots ({root:?}) and no key-value store; give the store a file of its own")]
    NotAStore {
        /// The name of one of the heap's roots.
        root: String,
    },

    /// A newer version of this crate wrote the store.
    #[error(
        "the store has format {found}, this program knows formats up to {known}; use a program built with a newer pheap-kv"
    )]
    NewerFormat {
        /// The number of the store's format.
        found: u64,
        /// The number of the newest format that this version knows.
        known: u64,
    },

    /// A key is longer than [`MAX_KEY`](crate::MAX_KEY).
    #[error(
        "the key has {len} bytes, and keys have at most {max}; use a hash of it as the key, and keep the \
         whole key in the value",
        max = crate::MAX_KEY
    )]
    KeyTooLong {
        /// The length of the key in bytes.
        len: usize,
    },

    /// A value is longer than [`MAX_VALUE`](crate::MAX_VALUE).
    #[error(
        "the value has {len} bytes, and values have at most {max}; split it, or keep it in a file",
        max = crate::MAX_VALUE
    )]
    ValueTooLong {
        /// The length of the value in bytes.
        len: usize,
    },

    /// The name of a key space is empty, or longer than 255 bytes.
    #[error("the name of a key space has {len} bytes; choose a name of 1 to 255 bytes")]
    InvalidName {
        /// The length of the name in bytes.
        len: usize,
    },

    /// The key space of the handle was removed by [`Store::remove_space`](crate::Store::remove_space).
    #[error("the key space was removed; get a handle of a new one from `Store::space`")]
    SpaceRemoved,

    /// A key space of another store was passed to a batch or a snapshot, or a batch was written to another
    /// store than that of its key spaces.
    #[error("the key space belongs to another store; get a handle from this store with `Store::space`")]
    OtherStore,

    /// The input of [`load`](crate::KeySpace::load) is not in ascending order. The entries before the
    /// offending one are in the store.
    #[error(
        "entry {index} does not come after the one before it; sort the input by key, bytewise, without duplicates, or use `Batch`"
    )]
    NotSorted {
        /// Number of the offending entry, from 0.
        index: u64,
    },
}
