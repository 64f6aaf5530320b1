//! The content of a shard in the heap, and the transactions on it.
//!
//! A write of a value allocates a new object, stores its pointer in place of the old one, and frees the old
//! object at the commit. Only if a snapshot needs the old value, the write moves its pointer to `older`; the
//! bytes are not copied. So without snapshots, a write keeps and copies nothing for them.

use crate::eras::Eras;
use crate::keys::{self, KeySpan, SpaceId};
use pheap::collections::btree::Entry;
use pheap::{InlineBytes, P, PBTreeMap, PBTreeSet, PBytes, PVec, Persist, Txn, View, field};
use std::cmp::Ordering;
use std::mem;
use std::ops::Bound;
use std::time::{SystemTime, UNIX_EPOCH};

/// One shard: the entries of a range of stored keys.
#[derive(Persist, Default)]
#[repr(C)]
pub(crate) struct Part<'r> {
    /// A number that identifies the shard's range of keys; 0 if the shard is not in use. Each change of the
    /// range changes the number, so a thread with an old map finds that the map is old.
    pub(crate) bounds: u64,
    /// The least key of the range. The range ends where the next shard begins.
    pub(crate) start: PBytes<'r>,
    newest: PBTreeMap<'r, InlineBytes<'r>, Value<'r>>,
    /// Versions that a snapshot needed when they were replaced or removed, until they are tidied.
    older: PBTreeMap<'r, InlineBytes<'r>, P<'r, PVec<'r, Older<'r>>>>,
    /// The keys of values that expire, each behind its time of expiry; see [`due_key`].
    due: PBTreeSet<'r, InlineBytes<'r>>,
}

/// Flag in the era of a value that expires. The time of expiry follows the bytes of such a value.
const EXPIRES: u64 = 1 << 63;
/// Bytes of a time of expiry: milliseconds since 1970, the most significant byte first.
const TIME: usize = 8;

#[derive(Persist)]
#[repr(C)]
struct Value<'r> {
    /// The era in which the value was written, and the flag [`EXPIRES`].
    era: u64,
    /// The user's bytes. If the value expires, the time follows them.
    bytes: PBytes<'r>,
}

#[derive(Persist)]
#[repr(C)]
struct Older<'r> {
    value: Value<'r>,
    /// The era in which the value was replaced or removed.
    to: u64,
}

impl<'r> Value<'r> {
    fn new(tx: &Txn<'r>, bytes: &[u8], expires: Option<u64>, era: u64) -> pheap::Result<Value<'r>> {
        Ok(match expires {
            None => Value { era, bytes: PBytes::from_slice(tx, bytes)? },
            Some(time) => {
                let bytes = [bytes, &time.to_be_bytes()].concat();
                Value { era: era | EXPIRES, bytes: PBytes::from_slice(tx, &bytes)? }
            }
        })
    }

    fn era(&self) -> u64 {
        self.era & !EXPIRES
    }

    /// Returns the time of expiry, in milliseconds since 1970, or `None` if the value never expires.
    #[inline]
    fn expires(&self, view: &View<'r>) -> Option<u64> {
        if self.era & EXPIRES == 0 {
            return None;
        }
        // Only a forged file has a flag without a time. Such a value counts as expired.
        Some(self.bytes.as_slice(view).last_chunk().map_or(0, |time| u64::from_be_bytes(*time)))
    }

    /// Returns the bytes and the time of expiry, or `None` if the value has expired.
    #[inline]
    fn fresh<'v>(&self, view: &'v View<'r>) -> Option<(&'v [u8], Option<u64>)> {
        let bytes = self.bytes.as_slice(view);
        match self.expires(view) {
            None => Some((bytes, None)),
            Some(time) => {
                let (value, _) = bytes.split_last_chunk::<TIME>().filter(|_| time > now())?;
                Some((value, Some(time)))
            }
        }
    }
}

/// Returns the time of the system's clock, in milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
    #[cfg(test)]
    let now = now + LATER.get();
    now
}

#[cfg(test)]
thread_local! {
    /// Milliseconds by which this thread's clock is ahead of the system's clock.
    pub(crate) static LATER: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    /// Number of calls of [`cut`] by this thread.
    pub(crate) static CUTS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

fn due_key(time: u64, key: &[u8]) -> Vec<u8> {
    [&time.to_be_bytes(), key].concat()
}

/// The moment that a reader sees: the end of an era if it reads a snapshot, otherwise `None` for the newest
/// values.
pub(crate) type ReadEra = Option<u64>;

/// Returns the value of a key as the reader sees it, or `None` if there is none or it has expired.
#[inline]
pub(crate) fn get<'v, 'r>(
    view: &'v View<'r>,
    part: P<'r, Part<'r>>,
    key: &[u8],
    at: ReadEra,
) -> Option<&'v [u8]> {
    find(view, part, key, at)?.fresh(view).map(|(value, _)| value)
}

/// Returns the time of expiry of a key's value, or `None` if there is no value, or it never expires or has
/// expired.
pub(crate) fn expires<'r>(view: &View<'r>, part: P<'r, Part<'r>>, key: &[u8], at: ReadEra) -> Option<u64> {
    find(view, part, key, at)?.fresh(view)?.1
}

#[inline]
fn find<'v, 'r>(view: &'v View<'r>, part: P<'r, Part<'r>>, key: &[u8], at: ReadEra) -> Option<&'v Value<'r>> {
    let newest = field!(part.newest).get(view, key);
    match at {
        None => newest,
        Some(at) => visible(view, newest, field!(part.older).get(view, key), at),
    }
}

fn visible<'v, 'r>(
    view: &'v View<'r>,
    newest: Option<&'v Value<'r>>,
    older: Option<&'v P<'r, PVec<'r, Older<'r>>>>,
    at: u64,
) -> Option<&'v Value<'r>> {
    if let Some(value) = newest
        && value.era() <= at
    {
        return newest;
    }
    // The versions are in the order of their eras. Versions that were replaced before the snapshot was taken
    // come first. (An earlier opening may have left some in another order. All of them were replaced before
    // any snapshot of this opening was taken.)
    let versions = &view[*older?];
    let version = versions.get(view, versions.partition_point(view, |version| version.to <= at))?;
    (version.value.era() <= at).then_some(&version.value)
}

/// The bytes of a value, and its time of expiry if it expires.
type Fresh<'v> = (&'v [u8], Option<u64>);

/// Visits the keys of a span, forwards or backwards, until `f` returns false. Calls `f` even for a key
/// without a value for this reader, because the value has expired or only another snapshot sees it. Returns
/// whether `f` returned false.
pub(crate) fn scan<'r>(
    view: &View<'r>,
    part: P<'r, Part<'r>>,
    span: &KeySpan,
    at: ReadEra,
    backwards: bool,
    mut f: impl FnMut(&[u8], Option<Fresh<'_>>) -> bool,
) -> bool {
    fn end(bound: &Bound<crate::keys::StoredKey>) -> Bound<&[u8]> {
        bound.as_ref().map(|key| key.as_slice())
    }
    let range = (end(&span.0), end(&span.1));
    let newest = field!(part.newest).range(view, range);
    let Some(at) = at else {
        let mut show = |(key, value): (&[u8], &Value<'r>)| f(key, value.fresh(view));
        let mut newest = newest;
        return !if backwards { newest.rev().all(show) } else { newest.all(&mut show) };
    };
    let older = field!(part.older).range(view, range);
    let mut show = |key: &[u8], newest, older| {
        f(key, visible(view, newest, older, at).and_then(|value| value.fresh(view)))
    };
    if backwards {
        merge(newest.rev(), older.rev(), |one, two| two.cmp(one), &mut show)
    } else {
        merge(newest, older, |one, two| one.cmp(two), &mut show)
    }
}

/// Merges two iterators. Calls `show` for each key, with the items of both iterators if they have equal keys,
/// until `show` returns false. Returns whether `show` returned false.
fn merge<'v, A: Copy, B: Copy>(
    one: impl Iterator<Item = (&'v [u8], A)>,
    two: impl Iterator<Item = (&'v [u8], B)>,
    order: impl Fn(&[u8], &[u8]) -> Ordering,
    show: &mut impl FnMut(&[u8], Option<A>, Option<B>) -> bool,
) -> bool {
    let (mut one, mut two) = (one.peekable(), two.peekable());
    loop {
        let (key, a, b) = match (one.peek().copied(), two.peek().copied()) {
            (None, None) => return false,
            (Some((key, a)), None) => (key, Some(a), None),
            (None, Some((key, b))) => (key, None, Some(b)),
            (Some((key, a)), Some((other, b))) => match order(key, other) {
                Ordering::Less => (key, Some(a), None),
                Ordering::Equal => (key, Some(a), Some(b)),
                Ordering::Greater => (other, None, Some(b)),
            },
        };
        if a.is_some() {
            one.next();
        }
        if b.is_some() {
            two.next();
        }
        if !show(key, a, b) {
            return true;
        }
    }
}

/// Prefetches the memory that writes to these keys will read. The call is only a hint.
pub(crate) fn prefetch<'r, 'k>(
    view: &View<'r>,
    part: P<'r, Part<'r>>,
    keys: impl IntoIterator<Item = &'k [u8]>,
) {
    field!(part.newest).prefetch(view, keys);
}

/// Sets the value of a key. Returns whether the shard has one entry more.
pub(crate) fn put<'r>(
    tx: &mut Txn<'r>,
    part: P<'r, Part<'r>>,
    key: &[u8],
    value: &[u8],
    expires: Option<u64>,
    eras: &Eras,
) -> pheap::Result<bool> {
    let new = Value::new(tx, value, expires, eras.now())?;
    let old = match field!(part.newest).entry(tx, key) {
        Entry::Occupied(mut entry) => Some(mem::replace(entry.get_mut(), new)),
        Entry::Vacant(entry) => {
            entry.insert(new)?;
            None
        }
    };
    let is_new = old.is_none();
    // `retire` comes before the insertion below: the old value may have the same time of expiry.
    old.map_or(Ok(()), |old| retire(tx, part, key, old, eras))?;
    if let Some(time) = expires {
        field!(part.due).insert(tx, &due_key(time, key)[..])?;
    }
    Ok(is_new)
}

/// Removes a key. Returns whether it had a value that had not expired.
pub(crate) fn delete<'r>(
    tx: &mut Txn<'r>,
    part: P<'r, Part<'r>>,
    key: &[u8],
    eras: &Eras,
) -> pheap::Result<bool> {
    let Some(old) = field!(part.newest).remove(tx, key) else { return Ok(false) };
    let was_there = old.fresh(tx).is_some();
    retire(tx, part, key, old, eras)?;
    Ok(was_there)
}

/// Frees a value that was replaced or removed, or moves it to `older` if a snapshot needs it.
fn retire<'r>(
    tx: &mut Txn<'r>,
    part: P<'r, Part<'r>>,
    key: &[u8],
    old: Value<'r>,
    eras: &Eras,
) -> pheap::Result<()> {
    if let Some(time) = old.expires(tx) {
        field!(part.due).remove(tx, &due_key(time, key)[..]);
    }
    let to = eras.now();
    // An expired value is freed in any case, because snapshots do not show expired values.
    if !eras.needs(old.era()..to) || old.fresh(tx).is_none() {
        old.bytes.free(tx);
        return Ok(());
    }
    let older = field!(part.older);
    let versions = match older.get(tx, key) {
        Some(&versions) => versions,
        None => {
            let versions = tx.alloc(PVec::new())?;
            older.insert(tx, key, versions)?;
            versions
        }
    };
    versions.push(tx, Older { value: old, to })
}

/// Number of expired values, and of keys with older versions, that each write tidies at most.
const TIDIED: usize = 2;

/// Removes up to `most` expired values. Also removes unneeded versions of up to `most` keys from `from` on.
/// Returns the key from which to continue, or `None` if no expired value is left, and no key with older
/// versions behind the visited keys.
pub(crate) fn tidy<'r>(
    tx: &mut Txn<'r>,
    part: P<'r, Part<'r>>,
    eras: &Eras,
    from: &[u8],
    most: usize,
) -> pheap::Result<Option<Vec<u8>>> {
    let (due, now) = (field!(part.due), now());
    for _ in 0..most {
        let Some(key) = tx[due].first(tx).and_then(|due| expired(due, now)) else { break };
        if let Some(due) = due.pop_first(tx) {
            due.free(tx);
        }
        delete(tx, part, &key, eras)?;
    }
    let older = field!(part.older);
    let range = (Bound::Included(from), Bound::Unbounded);
    let keys: Vec<Vec<u8>> = older.range(tx, range).take(most).map(|(key, _)| key.to_vec()).collect();
    for key in &keys {
        tidy_versions(tx, part, eras, key);
    }
    let is_more = tx[due].first(tx).is_some_and(|due| expired(due, now).is_some());
    Ok(match keys.into_iter().nth(most - 1) {
        Some(last) => Some(after(&last)),
        None => is_more.then(|| from.to_vec()),
    })
}

/// Removes versions of a key that have expired or that no snapshot needs. Returns whether versions are left.
fn tidy_versions<'r>(tx: &mut Txn<'r>, part: P<'r, Part<'r>>, eras: &Eras, key: &[u8]) -> bool {
    let older = field!(part.older);
    let Some(&versions) = older.get(tx, key) else { return false };
    let shown = |version: &Older<'r>| match version.value.fresh(tx) {
        Some(_) => version.value.era()..version.to,
        None => version.to..version.to,
    };
    let needed = eras.need_each(tx[versions].iter(tx).map(shown));
    if needed.contains(&false) {
        let mut needed = needed.into_iter();
        let unneeded = versions.extract_if(tx, |_| needed.next() == Some(false));
        unneeded.for_each(|version| version.value.bytes.free(tx));
    }
    let is_left = !versions.is_empty(tx);
    if !is_left {
        older.remove(tx, key);
    }
    is_left
}

/// Removes up to `most` keys of a span: their values, even expired ones, and their versions that no snapshot
/// needs. Returns the key from which to continue, or `None` if all keys of the span have been visited. Also
/// returns whether the visited keys have versions left.
pub(crate) fn clear<'r>(
    tx: &mut Txn<'r>,
    part: P<'r, Part<'r>>,
    eras: &Eras,
    span: (Bound<&[u8]>, Bound<&[u8]>),
    most: usize,
) -> pheap::Result<(Option<Vec<u8>>, bool)> {
    let newest = field!(part.newest).range(tx, span).take(most).map(|(key, _)| key.to_vec());
    let older = field!(part.older).range(tx, span).take(most).map(|(key, _)| key.to_vec());
    let mut keys: Vec<Vec<u8>> = newest.chain(older).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.truncate(most);
    let mut is_left = false;
    for key in &keys {
        delete(tx, part, key, eras)?;
        is_left |= tidy_versions(tx, part, eras, key);
    }
    Ok((keys.into_iter().nth(most - 1).map(|last| after(&last)), is_left))
}

/// Returns the least key that is greater than `key`.
fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// Runs a small [`tidy`] from `key` on. Each write of a program runs this with its key.
#[inline]
pub(crate) fn tidy_a_little<'r>(
    tx: &mut Txn<'r>,
    part: P<'r, Part<'r>>,
    eras: &Eras,
    key: &[u8],
) -> pheap::Result<()> {
    if field!(part.due).is_empty(tx) && field!(part.older).is_empty(tx) {
        return Ok(());
    }
    tidy(tx, part, eras, key, TIDIED).map(drop)
}

/// Returns the key of a `due` entry if its time has passed.
fn expired(due: &[u8], now: u64) -> Option<Vec<u8>> {
    let (time, key) = due.split_first_chunk::<TIME>()?;
    (u64::from_be_bytes(*time) <= now).then(|| key.to_vec())
}

/// Returns the number of entries of a shard.
pub(crate) fn len<'r>(view: &View<'r>, part: P<'r, Part<'r>>) -> usize {
    field!(part.newest).len(view)
}

/// Returns whether a shard has neither entries nor older versions.
pub(crate) fn is_empty<'r>(view: &View<'r>, part: P<'r, Part<'r>>) -> bool {
    field!(part.newest).is_empty(view) && field!(part.older).is_empty(view)
}

/// Takes a shard out of use if it is empty. Returns whether it did.
pub(crate) fn give_up<'r>(tx: &mut Txn<'r>, part: P<'r, Part<'r>>) -> bool {
    let is_unused = is_empty(tx, part) && field!(part.due).is_empty(tx);
    if is_unused {
        tx[field!(part.bounds)] = 0;
        mem::take(&mut tx[field!(part.start)]).free(tx);
    }
    is_unused
}

/// Returns whether a shard has older versions.
pub(crate) fn has_older<'r>(view: &View<'r>, part: P<'r, Part<'r>>) -> bool {
    !field!(part.older).is_empty(view)
}

/// A written key counts as appended if the shard, or the key space in it, has at most this many entries from
/// the key on, the key's own entry included.
const APPENDED: usize = 256;
/// Maximal numbers of entries, and of bytes of values, that a split moves. (The last value may exceed the
/// bytes.) A write waits for the move.
const MOVED: usize = 16_384;
const MOVED_BYTES: usize = 32 << 20;

/// Chooses where to split a shard after a write of `written`. Returns the first key of the new shard, or
/// `None` if the shard stays whole.
///
/// If the key was appended to the shard, the new shard begins with it: later keys will follow it, and the
/// keys before it stay together. If the key was appended only to its key space, the new shard begins behind
/// that key space. Then the next key is appended to the shard. Otherwise the shard is halved, unless there
/// are enough shards, or too much would have to move. The catalogue is never divided.
pub(crate) fn cut<'r>(
    view: &View<'r>,
    part: P<'r, Part<'r>>,
    written: &[u8],
    is_enough: bool,
) -> Option<Vec<u8>> {
    #[cfg(test)]
    CUTS.with(|cuts| cuts.set(cuts.get() + 1));
    let entries = field!(part.newest);
    let len = entries.len(view);
    let half = len / 2;
    let is_appended =
        |end: Bound<&[u8]>| entries.range(view, (Bound::Included(written), end)).nth(APPENDED).is_none();
    let from = |wanted: &[u8]| {
        let least = SpaceId::DEFAULT.start();
        let (key, _) = entries.range(view, wanted.max(&least)..).next()?;
        let is_divided = entries.iter(view).next()?.0 < key;
        (is_divided && is_movable(view, part, key)).then(|| key.to_vec())
    };
    let end = keys::behind_space(written);
    let is_little = |from: &[u8]| entries.range(view, from..).nth(half.min(MOVED)).is_none();
    if is_appended(Bound::Unbounded) {
        from(written)
    } else if is_appended(Bound::Excluded(&end)) && is_little(&end) {
        from(&end)
    } else if !is_enough && len - half <= MOVED {
        from(entries.iter(view).nth(half)?.0)
    } else {
        None
    }
}

/// Returns `key` if a new shard can begin there at little cost: few entries follow it, and no shard begins
/// there yet. The catalogue is never divided.
pub(crate) fn cut_at<'r>(view: &View<'r>, part: P<'r, Part<'r>>, key: &[u8]) -> Option<Vec<u8>> {
    let begins = field!(part.start).as_slice(view);
    let is_free = field!(part.newest).range(view, key..).nth(APPENDED).is_none();
    let may_begin = begins < key && SpaceId::DEFAULT.start().as_slice() <= key;
    (is_free && may_begin && is_movable(view, part, key)).then(|| key.to_vec())
}

/// Returns whether the entries from `key` on are so few and so small that a write can wait for their move.
fn is_movable<'r>(view: &View<'r>, part: P<'r, Part<'r>>, key: &[u8]) -> bool {
    let mut bytes = 0;
    field!(part.newest).range(view, key..).enumerate().all(|(before, (_, value))| {
        let is_room = before < MOVED && bytes < MOVED_BYTES;
        bytes += value.bytes.len();
        is_room
    })
}

/// Moves the entries from `cut` on to a shard of another root. Neither shard may have older versions.
pub(crate) fn move_from<'a, 'b>(
    ta: &mut Txn<'a>,
    from: P<'a, Part<'a>>,
    tb: &mut Txn<'b>,
    to: P<'b, Part<'b>>,
    cut: &[u8],
) -> pheap::Result<()> {
    let (entries, due) = (field!(from.newest), field!(from.due));
    while let Some(key) = last_key(ta, from).filter(|key| key.as_slice() >= cut) {
        let Some(value) = entries.remove(ta, &key[..]) else { break };
        let copy = Value { era: value.era, bytes: PBytes::from_slice(tb, value.bytes.as_slice(ta))? };
        if let Some(time) = value.expires(ta) {
            due.remove(ta, &due_key(time, &key)[..]);
            field!(to.due).insert(tb, &due_key(time, &key)[..])?;
        }
        value.bytes.free(ta);
        field!(to.newest).insert(tb, &key[..], copy)?;
    }
    Ok(())
}

/// Returns the greatest key of a shard.
pub(crate) fn last_key<'r>(view: &View<'r>, part: P<'r, Part<'r>>) -> Option<Vec<u8>> {
    field!(part.newest).iter(view).next_back().map(|(key, _)| key.to_vec())
}
