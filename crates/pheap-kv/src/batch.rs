//! `Batch`: writes that one transaction carries out.

use crate::part;
use crate::shards::Shards;
use crate::space::{check_value, expiry};
use crate::spaces::RemovedFlag;
use crate::{Error, KeySpace, Result};
use pheap::Commit;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Writes to any key spaces of one store that happen together or not at all; see
/// [`Store::write`](crate::Store::write).
///
/// A batch keeps its writes in memory. `Store::write` carries them out in their order: of two writes to one
/// key, the later one counts.
///
/// ```
/// # let store = pheap_kv::Store::in_memory()?;
/// use pheap_kv::Batch;
///
/// let by_name = store.space("by name")?;
/// let mut batch = Batch::new();
/// batch.put(&store, "1", "Ann")?;
/// batch.put(&by_name, "Ann", "1")?;
/// batch.delete(&by_name, "Anne")?;
/// store.write(&batch)?;
/// assert_eq!(by_name.get("Ann")?.as_deref(), Some(&b"1"[..]));
/// # Ok::<(), pheap_kv::Error>(())
/// ```
#[derive(Default)]
pub struct Batch {
    /// The store that the writes are for. `None` until the first write.
    shards: Option<Arc<Shards>>,
    /// Removal flags of the key spaces that the batch writes to. A key space may be listed several times.
    spaces: SmallVec<[RemovedFlag; 2]>,
    /// The bytes of all keys and values; `writes` has their ranges.
    buffer: Vec<u8>,
    writes: Vec<BatchWrite>,
}

struct BatchWrite {
    key: Range<usize>,
    what: WriteKind,
}

#[derive(Clone)]
enum WriteKind {
    Put { value: Range<usize>, expires: Option<u64> },
    Delete,
}

/// Bytes from which on a batch, if it is not deferred, folds the log before it returns. Otherwise the log is
/// folded later, while the next writers wait for the same disk.
const LARGE: usize = 64 << 20;

impl Batch {
    /// Returns a batch without writes.
    ///
    /// ```
    /// assert!(pheap_kv::Batch::new().is_empty());
    /// ```
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Sets the value of a key.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// let mut batch = pheap_kv::Batch::new();
    /// batch.put(&store, "tea", "green")?;
    /// assert_eq!(batch.len(), 1);
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`]; [`Error::OtherStore`] if the batch has writes for
    /// another store.
    pub fn put(&mut self, space: &KeySpace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.set(space, key.as_ref(), value.as_ref(), None)
    }

    /// Sets the value of a key and lets it expire after `ttl`, counted from this call.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// let mut batch = pheap_kv::Batch::new();
    /// batch.put_for(&store, "session", "Ann", std::time::Duration::from_secs(60))?;
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn put_for(
        &mut self,
        space: &KeySpace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        self.set(space, key.as_ref(), value.as_ref(), Some(expiry(ttl)))
    }

    pub(crate) fn set(
        &mut self,
        space: &KeySpace,
        key: &[u8],
        value: &[u8],
        expires: Option<u64>,
    ) -> Result<()> {
        check_value(value)?;
        let key = self.key(space, key)?;
        let value = self.push(value);
        self.writes.push(BatchWrite { key, what: WriteKind::Put { value, expires } });
        Ok(())
    }

    /// Removes a key.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// let mut batch = pheap_kv::Batch::new();
    /// batch.delete(&store, "tea")?;
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::KeyTooLong`]; [`Error::OtherStore`] if the batch has writes for another store.
    pub fn delete(&mut self, space: &KeySpace, key: impl AsRef<[u8]>) -> Result<()> {
        let key = self.key(space, key.as_ref())?;
        self.writes.push(BatchWrite { key, what: WriteKind::Delete });
        Ok(())
    }

    /// Returns the number of writes.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Returns whether the batch has no writes.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Returns the bytes of all keys and values. Each key counts with the prefix of its key space, 1 to 9
    /// bytes.
    pub fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Removes all writes and keeps the memory. Afterwards the batch accepts writes for any store.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.writes.clear();
        self.spaces.clear();
        self.shards = None;
    }

    fn key(&mut self, space: &KeySpace, key: &[u8]) -> Result<Range<usize>> {
        let key = space.id.key(key)?;
        let shards = self.shards.get_or_insert_with(|| space.shards.clone());
        if !Arc::ptr_eq(shards, &space.shards) {
            return Err(Error::OtherStore);
        }
        if self.spaces.last().is_none_or(|last| !last.is(space.removed())) {
            self.spaces.push(space.removed().clone());
        }
        Ok(self.push(&key))
    }

    fn push(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(bytes);
        start..self.buffer.len()
    }

    /// Returns whether all writes are for this store.
    pub(crate) fn is_for(&self, shards: &Arc<Shards>) -> bool {
        self.shards.as_ref().is_none_or(|own| Arc::ptr_eq(own, shards))
    }

    /// Carries out the writes in one transaction. Returns a `Commit` if `deferred` is set and the batch has
    /// writes.
    pub(crate) fn write(&self, deferred: bool) -> Result<Option<Commit>> {
        let Some(shards) = &self.shards else { return Ok(None) };
        let keys = self.writes.iter().map(|write| &self.buffer[write.key.clone()]);
        shards.prepare(keys.clone());
        let mut large = None;
        let commit = shards.write_all(keys, &self.spaces, deferred, |index, tx, part, counts| {
            let BatchWrite { key, what } = &self.writes[index];
            let key = &self.buffer[key.clone()];
            let mut is_new = false;
            match what.clone() {
                WriteKind::Put { value, expires } => {
                    let value = &self.buffer[value];
                    counts.put(key.len() + value.len());
                    is_new = part::put(tx, part, key, value, expires, &shards.eras)?;
                }
                WriteKind::Delete => {
                    counts.delete(key.len());
                    part::delete(tx, part, key, &shards.eras)?;
                }
            }
            part::tidy_a_little(tx, part, &shards.eras, key)?;
            let len = part::len(tx, part);
            if is_new && shards.may_split(len) {
                large = Some((index, len));
            }
            Ok(())
        })?;
        if let Some((index, len)) = large {
            shards.consider_split(&self.buffer[self.writes[index].key.clone()], Some(len));
        }
        if self.bytes() >= LARGE && !deferred {
            // The batch is committed, so its caller gets no error of folding the log.
            let _ = shards.heap.fold_log();
        }
        Ok(commit)
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").field("len", &self.len()).finish_non_exhaustive()
    }
}
