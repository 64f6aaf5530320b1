//! `Reader`: looking things up in a key space, as it is or as a snapshot has it.

use crate::Result;
use crate::keys::SpaceId;
use crate::part::{self, At, Part};
use crate::range;
use crate::range::{Cursor, Range};
use crate::shards::{Shards, Wait};
use crate::snapshot::Pin;
use pheap::{P, View};
use std::ops::{ControlFlow, RangeBounds};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The entries of a key space, to read: as they are, if this is a [`KeySpace`](crate::KeySpace) (which dereferences to it), or as they were, if it is of a
/// [`Snapshot`](crate::Snapshot).
#[derive(Clone)]
pub struct Reader {
    pub(crate) shards: Arc<Shards>,
    pub(crate) id: SpaceId,
    pub(crate) pin: Option<Arc<Pin>>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("space", &self.id.number()).finish_non_exhaustive()
    }
}

impl Reader {
    pub(crate) fn at(&self) -> At {
        self.pin.as_ref().map(|pin| pin.era)
    }

    /// A copy of the value of a key.
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
    /// [`Error::KeyTooLong`](crate::Error::KeyTooLong), or if the store has failed or is closed.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_with(key, <[u8]>::to_vec)
    }

    /// Shows `f` the value of a key where it is, without a copy. Returns what `f` does.
    ///
    /// `f` keeps writers of the same shard waiting, and must not write to the store.
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

    /// Whether there is a key.
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

    /// The entries in a range of keys, in bytewise order, from both ends.
    ///
    /// They are copied from the store some at a time, in steps that grow. In a [`Snapshot`](crate::Snapshot) they are of one moment. Otherwise each step shows the store as it is then.
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

    /// The entries whose keys begin with `prefix`, as [`range`](Self::range) has them.
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

    /// All entries, as [`range`](Self::range) has them.
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

    /// Shows `f` the entries in a range where they are, without copies, until it breaks.
    ///
    /// `f` keeps writers of the same shard waiting while it runs, and must not write to the store. Between
    /// two steps of some hundred keys they go on.
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
    /// If the store has failed or is closed.
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

    pub(crate) fn cursor(&self, span: crate::keys::Span) -> Cursor {
        Cursor::new(self.clone(), span)
    }

    /// When a key expires; `None` if it never does, if it has expired, or if there is no such key.
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

    /// Reads the shard that has a key.
    #[inline]
    fn look<R>(
        &self,
        key: &[u8],
        f: impl for<'r> FnOnce(&View<'r>, P<'r, Part<'r>>, &[u8], At) -> R,
    ) -> Result<R> {
        let (key, at) = (self.id.key(key)?, self.at());
        // What a snapshot shows was durable when it was taken.
        let wait = if at.is_some() { Wait::Nothing } else { Wait::Key(&key) };
        self.shards.read(&key, wait, |view, part| f(view, part, &key, at))
    }
}
