//! Values by type: reading, changing and creating them, and removing them with their last elements.

use pheap::Persist;

use super::{Args, Cx, Done, Fail};
use crate::data::streams::Stream;
use crate::data::{Change, Db, Hash, List, Owned, P, Set, Sorted, Txn, Value, View};
use crate::resp::Reply;

/// A type of values: lists, hashes, sets, sorted sets, streams.
pub(super) trait ValueType: Persist {
    /// The class of keyspace notifications about this type.
    const CLASS: u8;

    /// Returns a value as this type, if it has this type.
    fn from_value<'r>(value: Value<'r>) -> Option<P<'r, Self::At<'r>>>;

    /// Returns a value of this type as a [`Value`].
    fn into_value<'r>(this: P<'r, Self::At<'r>>) -> Value<'r>;

    /// Creates an empty value.
    fn new<'r>(tx: &Txn<'r>) -> pheap::Result<P<'r, Self::At<'r>>>;

    /// Returns the number of elements.
    fn len<'r>(view: &View<'r>, this: P<'r, Self::At<'r>>) -> usize;
}

macro_rules! value_types {
    ($($kind:ident: $variant:ident, $class:literal, |$tx:ident| $new:expr, |$this:ident| $len:expr;)*) => {$(
        impl ValueType for $kind<'_> {
            const CLASS: u8 = $class;

            fn from_value<'r>(value: Value<'r>) -> Option<P<'r, Self::At<'r>>> {
                if let Value::$variant(this) = value { Some(this) } else { None }
            }

            fn into_value<'r>(this: P<'r, Self::At<'r>>) -> Value<'r> {
                Value::$variant(this)
            }

            fn new<'r>($tx: &Txn<'r>) -> pheap::Result<P<'r, Self::At<'r>>> {
                $tx.alloc($new)
            }

            fn len<'r>(view: &View<'r>, this: P<'r, Self::At<'r>>) -> usize {
                let $this = &view[this];
                $len
            }
        }
    )*};
}

value_types! {
    List: List, b'l', |tx| List::new(), |this| this.len();
    Hash: Hash, b'h', |tx| Hash::new(), |this| this.len();
    Set: Set, b's', |tx| Set::new(), |this| this.len();
    Sorted: Sorted, b'z', |tx| Sorted::new(tx)?, |this| this.len();
    Stream: Stream, b't', |tx| Stream::default(), |this| this.entries.len();
}

/// Returns the value of a key, if the key exists. Fails if the value has another type.
pub(super) fn get<'r, K: ValueType>(
    view: &View<'r>,
    db: &Db<'r>,
    key: &[u8],
    now: i64,
) -> Result<Option<P<'r, K::At<'r>>>, Fail> {
    let value = db.get(view, key, now);
    value.map(|value| K::from_value(value).ok_or(Fail::WRONG_TYPE)).transpose()
}

/// Returns the value of a key, which is created if the key does not exist. Fails if the value has another
/// type.
pub(super) fn get_or_new<'r, K: ValueType>(
    tx: &mut Txn<'r>,
    db: P<'r, Db<'r>>,
    key: &[u8],
    now: i64,
) -> Result<P<'r, K::At<'r>>, Fail> {
    if let Some(there) = get::<K>(tx, &tx[db], key, now)? {
        return Ok(there);
    }
    let new = K::new(tx)?;
    db.set(tx, key, K::into_value(new))?;
    Ok(new)
}

impl Cx<'_> {
    /// Returns whether a key exists.
    pub(super) fn key_exists(&mut self, key: &[u8]) -> bool {
        self.key_exists_in(self.session.db, key)
    }

    /// Returns whether a key in some database exists.
    pub(super) fn key_exists_in(&mut self, db: usize, key: &[u8]) -> bool {
        let (now, shard) = (self.now, self.shard_of(key));
        self.read_shard(shard, |view, dbs| view[dbs.at(view, db)].get(view, key, now).is_some())
    }

    /// Returns a copy of the value of a key, and its deadline.
    pub(super) fn copy_of(&mut self, key: &[u8]) -> Option<(Owned, Option<i64>)> {
        self.copy_in(self.session.db, key)
    }

    /// Returns a copy of the value of a key in some database, and its deadline.
    pub(super) fn copy_in(&mut self, db: usize, key: &[u8]) -> Option<(Owned, Option<i64>)> {
        let (now, shard) = (self.now, self.shard_of(key));
        self.read_shard(shard, |view, dbs| {
            let db = &view[dbs.at(view, db)];
            Some((Owned::of(view, db.get(view, key, now)?), db.deadline(view, key)))
        })
    }

    /// Calls `f` with the value of a key, for reading. Fails if the value has another type.
    pub(super) fn read_value<K: ValueType, R>(
        &mut self,
        key: &[u8],
        f: impl for<'r> FnOnce(&View<'r>, Option<P<'r, K::At<'r>>>) -> Result<R, Fail>,
    ) -> Result<R, Fail> {
        let now = self.now;
        self.read(key, |view, db| f(view, get::<K>(view, db, key, now)?))
    }

    /// Calls `f` with the string of a key, for reading. Fails if the value is no string.
    pub(super) fn read_string<R>(
        &mut self,
        key: &[u8],
        f: impl FnOnce(Option<&[u8]>) -> Result<R, Fail>,
    ) -> Result<R, Fail> {
        let now = self.now;
        self.read(key, |view, db| match db.get(view, key, now) {
            None => f(None),
            Some(value) => value.with_bytes(view, |bytes| f(Some(bytes))).ok_or(Fail::WRONG_TYPE)?,
        })
    }

    /// Calls `f` with the value of a key, for changes. Fails if the value has another type.
    pub(super) fn change_value<K: ValueType, R>(
        &mut self,
        key: &[u8],
        f: impl for<'r> FnOnce(&mut Txn<'r>, Option<P<'r, K::At<'r>>>) -> Result<R, Fail>,
    ) -> Result<R, Fail> {
        let now = self.now;
        self.write(key, |tx, db| {
            let there = get::<K>(tx, &tx[db], key, now)?;
            f(tx, there)
        })
    }

    /// Calls `f` with the value of a key, for changes. Creates the value if the key does not exist. Fails if
    /// the value has another type.
    pub(super) fn change_or_create<K: ValueType, R>(
        &mut self,
        key: &[u8],
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, K::At<'r>>) -> Result<R, Fail>,
    ) -> Result<R, Fail> {
        let now = self.now;
        self.write(key, |tx, db| {
            let this = get_or_new::<K>(tx, db, key, now)?;
            f(tx, this)
        })
    }

    /// Removes elements of the value of a key. `f` gets the number of all elements, and returns how many it
    /// removes. If it returns that number, the key is removed, and `f` may leave the elements in place.
    /// Returns the result of `f`, or `None` if there is no such key.
    pub(super) fn remove_elements<K: ValueType>(
        &mut self,
        key: &[u8],
        event: &str,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, K::At<'r>>, usize) -> Result<usize, Fail>,
    ) -> Result<Option<usize>, Fail> {
        let now = self.now;
        let removed = self.write(key, |tx, db| {
            let Some(this) = get::<K>(tx, &tx[db], key, now)? else { return Ok::<_, Fail>(None) };
            let len = K::len(tx, this);
            let count = f(tx, this, len)?;
            if count == len {
                db.remove(tx, key);
            }
            Ok(Some((count, count == len)))
        })?;
        if let Some((count @ 1.., is_gone)) = removed {
            self.touched_often(K::CLASS, event, key, count as u64);
            if is_gone {
                self.notify(b'g', "del", key);
            }
        }
        Ok(removed.map(|(count, _)| count))
    }

    /// Sets the value of a key and removes its deadline, or removes the key if the new value is empty.
    pub(super) fn replace_value(&mut self, key: &[u8], class: u8, event: &str, value: &Owned) -> Done {
        if value.is_empty() {
            self.remove(key);
            return Ok(());
        }
        self.write(key, |tx, db| {
            let value = value.store(tx)?;
            db.set(tx, key, value)
        })?;
        self.touched(class, event, key);
        Ok(())
    }
}

/// Answers with the number of elements of the value of a key.
pub(super) fn answer_len<K: ValueType>(cx: &mut Cx<'_>, args: &Args<'_>, out: &mut Reply) -> Done {
    let len = cx.read_value::<K, _>(args[1], |view, this| Ok(this.map_or(0, |this| K::len(view, this))));
    len.map(|len| out.count(len))
}
