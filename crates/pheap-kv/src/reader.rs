//! `Reader`: reads a key space, either its newest values or those of a snapshot.

use crate::Result;
use crate::keys::SpaceId;
use crate::part::{self, Part, ReadEra};
use crate::range;
use crate::range::{Range, SpanCursor};
use crate::shards::{DurableWait, Shards};
use crate::snapshot::EraPin;
use pheap::{P, View};
use std::ops::{ControlFlow, RangeBounds};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Reads the entries of a key space. A [`KeySpace`](crate::KeySpace) dereferences to a reader of its newest
/// values; a [`Snapshot`](crate::Snapshot) has readers of its values.
#[derive(Clone)]
pub struct Reader {
    pub(crate) shards: Arc<Shards>,
    pub(crate) id: SpaceId,
    /// The snapshot that the reader shows; `None` if it shows the newest values.
    pub(crate) pin: Option<Arc<EraPin>>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("space", &self.id.number()).finish_non_exhaustive()
    }
}

impl Reader {
    pub(crate) fn at(&self) -> ReadEra {
        self.pin.as_ref().map(|pin| pin.era)
    }

    /// Copies the value of a key.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// store.put(b"tea", b"green")?;
    /// assert_eq!(store.get(b"tea")?.as_deref(), Some(&b"green"[..]));
    /// assert_eq!(store.get(b"milk")?, None);
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::KeyTooLong`](crate::Error::KeyTooLong); [`Error::Heap`](crate::Error::Heap), for instance if
    /// the store has failed or is closed.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_with(key, <[u8]>::to_vec)
    }

    /// Calls `f` with the value of a key in place, without a copy. Returns the result of `f`, or `None` if
    /// the key has no value.
    ///
    /// While `f` runs, writers of the same shard wait. `f` must not write to the store.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// store.put(b"tea", b"green")?;
    /// assert_eq!(store.get_with(b"tea", |value| value.len())?, Some(5));
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    #[inline]
    pub fn get_with<R>(&self, key: impl AsRef<[u8]>, f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.look(key.as_ref(), |view, part, key, at| {
            let value = part::get(view, part, key, at)?;
            self.shards.heap.will_read(value);
            Some(f(value))
        })
    }

    /// Returns whether the key exists.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// assert!(!store.contains_key(b"tea")?);
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_with(key, |_| ())?.is_some())
    }

    /// Iterates over the entries in a range of keys, in bytewise order, from both ends.
    ///
    /// The iterator copies entries from the store in steps that grow. In a [`Snapshot`](crate::Snapshot), all
    /// entries are of one moment. Otherwise each step shows the store at the time of the step.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// store.put("a", "1")?;
    /// store.put("b", "2")?;
    /// store.put("c", "3")?;
    /// let keys: Vec<Vec<u8>> = store.range("a".."c").map(|entry| entry.map(|(key, _)| key)).collect::<Result<_, _>>()?;
    /// assert_eq!(keys, [b"a", b"b"]);
    /// let (last, _) = store.range::<[u8]>(..).next_back().unwrap()?;
    /// assert_eq!(last, b"c");
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    pub fn range<K: AsRef<[u8]> + ?Sized>(&self, range: impl RangeBounds<K>) -> Range {
        Range::new(self.cursor(self.id.span(&range)))
    }

    /// Iterates over the entries whose keys begin with `prefix`, as [`range`](Self::range) does.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// store.put("user:1", "Ann")?;
    /// store.put("user:2", "Bob")?;
    /// store.put("value", "3")?;
    /// assert_eq!(store.prefix("user:").count(), 2);
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        Range::new(self.cursor(self.id.beginning_with(prefix.as_ref())))
    }

    /// Iterates over all entries, as [`range`](Self::range) does.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// store.put("a", "1")?;
    /// for entry in store.iter() {
    ///     let (key, value) = entry?;
    ///     assert_eq!((key, value), (b"a".to_vec(), b"1".to_vec()));
    /// }
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    pub fn iter(&self) -> Range {
        self.range::<[u8]>(..)
    }

    /// Calls `f` with the entries in a range in place, without copies, until `f` breaks.
    ///
    /// While `f` runs, writers of the same shard wait. They continue between two steps of a few hundred keys.
    /// `f` must not write to the store.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// use std::ops::ControlFlow::Continue;
    ///
    /// store.put("a", "one")?;
    /// store.put("b", "two")?;
    /// let mut bytes = 0;
    /// store.for_each::<[u8]>(.., |_, value| {
    ///     bytes += value.len();
    ///     Continue(())
    /// })?;
    /// assert_eq!(bytes, 6);
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Heap`](crate::Error::Heap), for instance if the store has failed or is closed.
    pub fn for_each<K: AsRef<[u8]> + ?Sized>(
        &self,
        range: impl RangeBounds<K>,
        mut f: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut cursor = self.cursor(self.id.span(&range));
        let mut going = true;
        while going
            && cursor.step(false, range::MOST, &mut |key, value, _| {
                going = f(key, value).is_continue();
                going
            })?
        {}
        Ok(())
    }

    pub(crate) fn cursor(&self, span: crate::keys::KeySpan) -> SpanCursor {
        SpanCursor::new(self.clone(), span)
    }

    /// Returns when a key expires, or `None` if it never does, has expired, or does not exist.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// use std::time::{Duration, SystemTime};
    ///
    /// store.put_for("session", "Ann", Duration::from_secs(60))?;
    /// assert!(store.expires_at("session")?.unwrap() > SystemTime::now());
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn expires_at(&self, key: impl AsRef<[u8]>) -> Result<Option<SystemTime>> {
        Ok(self.expiry(key.as_ref())?.map(|time| UNIX_EPOCH + Duration::from_millis(time)))
    }

    pub(crate) fn expiry(&self, key: &[u8]) -> Result<Option<u64>> {
        self.look(key, part::expires)
    }

    /// Calls `f` with the shard of a key, the stored key, and the moment that the reader sees.
    #[inline]
    fn look<R>(
        &self,
        key: &[u8],
        f: impl for<'r> FnOnce(&View<'r>, P<'r, Part<'r>>, &[u8], ReadEra) -> R,
    ) -> Result<R> {
        let (key, at) = (self.id.key(key)?, self.at());
        // A reader of a snapshot waits for no write: the values of the snapshot were durable when it was
        // taken.
        let wait = if at.is_some() { DurableWait::Nothing } else { DurableWait::Key(&key) };
        self.shards.read(&key, wait, |view, part| f(view, part, &key, at))
    }
}
