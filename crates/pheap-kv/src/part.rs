//! What a shard consists of in the heap, and what a transaction on it does.
//!
//! Values are changed where they are found: a new one is a new object, to which one word is changed, and the old one is freed at the commit. Only if a snapshot needs it, it moves
//! to `older`, without being copied. So whoever takes no snapshots pays nothing for them.

use crate::eras::Eras;
use crate::keys::{self, SpaceId, Span};
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
    /// Changes with the range, so that nobody looks in a shard for what was in it earlier. 0 in one that is not in use.
    pub(crate) bounds: u64,
    /// The least key that belongs here. The range ends where the next shard begins.
    pub(crate) start: PBytes<'r>,
    newest: PBTreeMap<'r, InlineBytes<'r>, Value<'r>>,
    /// What was replaced or removed, and is needed by a snapshot.
    older: PBTreeMap<'r, InlineBytes<'r>, P<'r, PVec<'r, Older<'r>>>>,
    /// Keys of values that expire, behind the time of that.
    due: PBTreeSet<'r, InlineBytes<'r>>,
}

/// Set in the era of a value that expires; the time is behind its bytes.
const EXPIRES: u64 = 1 << 63;
/// Bytes of a time: milliseconds since 1970, the most significant first.
const TIME: usize = 8;

#[derive(Persist)]
#[repr(C)]
struct Value<'r> {
    era: u64,
    bytes: PBytes<'r>,
}

#[derive(Persist)]
#[repr(C)]
struct Older<'r> {
    value: Value<'r>,
    /// The era in which it was replaced.
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

    /// When it expires, if it does.
    #[inline]
    fn expires(&self, view: &View<'r>) -> Option<u64> {
        if self.era & EXPIRES == 0 {
            return None;
        }
        // Without a time, which only a forged file can have, it has expired.
        Some(self.bytes.as_slice(view).last_chunk().map_or(0, |time| u64::from_be_bytes(*time)))
    }

    /// Its bytes, and when it expires, if it has not expired.
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

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
    #[cfg(test)]
    let now = now + LATER.get();
    now
}

#[cfg(test)]
thread_local! {
    /// Milliseconds by which the clock of this thread is fast.
    pub(crate) static LATER: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    /// How often this thread has looked for a place to [`cut`] a shard.
    pub(crate) static CUTS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

fn due_key(time: u64, key: &[u8]) -> Vec<u8> {
    [&time.to_be_bytes(), key].concat()
}

/// What a reader sees: the newest values, or those of the snapshot that was taken at the end of an era.
pub(crate) type At = Option<u64>;

/// The value of a key, in a read or a transaction.
#[inline]
pub(crate) fn get<'v, 'r>(view: &'v View<'r>, part: P<'r, Part<'r>>, key: &[u8], at: At) -> Option<&'v [u8]> {
    find(view, part, key, at)?.fresh(view).map(|(value, _)| value)
}

/// When the value of a key expires; `None` if it never does, or if it has expired.
pub(crate) fn expires<'r>(view: &View<'r>, part: P<'r, Part<'r>>, key: &[u8], at: At) -> Option<u64> {
    find(view, part, key, at)?.fresh(view)?.1
}

#[inline]
fn find<'v, 'r>(view: &'v View<'r>, part: P<'r, Part<'r>>, key: &[u8], at: At) -> Option<&'v Value<'r>> {
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
    // Versions are in the order of their eras, and those that the snapshot is too young for come first. (An
    // earlier opening may have left some in another order. Any snapshot of this opening is too young for all
    // of them.)
    let versions = &view[*older?];
    let version = versions.get(view, versions.partition_point(view, |version| version.to <= at))?;
    (version.value.era() <= at).then_some(&version.value)
}

/// A value, and the time at which it expires, if it does.
type Fresh<'v> = (&'v [u8], Option<u64>);

/// Visits the keys of a span, in order or backwards, until `f` returns false. `f` is called for each key that
/// is visited, also if the reader sees no value of it: the value has expired, or another snapshot needs it.
/// Returns whether `f` has returned false.
pub(crate) fn scan<'r>(
    view: &View<'r>,
    part: P<'r, Part<'r>>,
    span: &Span,
    at: At,
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

/// Shows the items of both, those of equal keys together, until `show` returns false. Returns whether it did.
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

/// Loads what writes to these keys will look at. Only a hint.
pub(crate) fn prefetch<'r, 'k>(
    view: &View<'r>,
    part: P<'r, Part<'r>>,
    keys: impl IntoIterator<Item = &'k [u8]>,
) {
    field!(part.newest).prefetch(view, keys);
}

/// Sets the value of a key. Returns whether there is one entry more.
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
    // The old one may have the same time.
    old.map_or(Ok(()), |old| retire(tx, part, key, old, eras))?;
    if let Some(time) = expires {
        field!(part.due).insert(tx, &due_key(time, key)[..])?;
    }
    Ok(is_new)
}

/// Removes a key. Returns whether it was there.
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

/// What becomes of a value that was taken out.
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
    // What has expired, no snapshot shows.
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

/// How much each write tidies up.
const TIDIED: usize = 2;

/// Removes some of what has expired, and the versions of some keys from `from` on that no snapshot needs any more. Returns where to go on, unless all is done.
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

/// Removes the versions of a key that no snapshot needs any more, or that have expired. Returns whether
/// versions are left.
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

/// Removes up to `most` keys of a span: their values, also if they have expired, and their versions that no
/// snapshot needs. Returns the key from which to go on, unless all keys of the span were visited, and whether
/// versions are left of those that were.
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

/// The least key that is greater than this one.
fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// [`tidy`], as each write does: near the key that it was for.
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

/// The key that was due at a time that has passed.
fn expired(due: &[u8], now: u64) -> Option<Vec<u8>> {
    let (time, key) = due.split_first_chunk::<TIME>()?;
    (u64::from_be_bytes(*time) <= now).then(|| key.to_vec())
}

/// Entries of a shard.
pub(crate) fn len<'r>(view: &View<'r>, part: P<'r, Part<'r>>) -> usize {
    field!(part.newest).len(view)
}

/// Whether a shard has neither entries nor versions for snapshots.
pub(crate) fn is_empty<'r>(view: &View<'r>, part: P<'r, Part<'r>>) -> bool {
    field!(part.newest).is_empty(view) && field!(part.older).is_empty(view)
}

/// Takes a shard out of use if nothing is left in it. Returns whether it did.
pub(crate) fn give_up<'r>(tx: &mut Txn<'r>, part: P<'r, Part<'r>>) -> bool {
    let is_unused = is_empty(tx, part) && field!(part.due).is_empty(tx);
    if is_unused {
        tx[field!(part.bounds)] = 0;
        mem::take(&mut tx[field!(part.start)]).free(tx);
    }
    is_unused
}

/// Whether a shard has versions for snapshots.
pub(crate) fn has_older<'r>(view: &View<'r>, part: P<'r, Part<'r>>) -> bool {
    !field!(part.older).is_empty(view)
}

/// So few entries behind one that was written: it was appended.
const APPENDED: usize = 256;
/// Entries, and bytes of values, that are moved at most: what a split moves, a write waits for.
const MOVED: usize = 16_384;
const MOVED_BYTES: usize = 32 << 20;

/// The key from which on entries go to a new shard, if there is one, when `written` was written. If that was appended, it is the one: more will come behind it, and what is before it
/// stays together. If it was appended to its key space, it is the end of that, so that this will be so. Else it is that in the middle, unless there are shards enough. The catalogue stays
/// whole.
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

/// `key`, if a new shard can begin there at once: few entries are behind it, and it does not begin there already. The catalogue stays whole.
pub(crate) fn cut_at<'r>(view: &View<'r>, part: P<'r, Part<'r>>, key: &[u8]) -> Option<Vec<u8>> {
    let begins = field!(part.start).as_slice(view);
    let is_free = field!(part.newest).range(view, key..).nth(APPENDED).is_none();
    let may_begin = begins < key && SpaceId::DEFAULT.start().as_slice() <= key;
    (is_free && may_begin && is_movable(view, part, key)).then(|| key.to_vec())
}

/// Whether the entries from `key` on are so few, and so small, that a write can wait until they are moved.
fn is_movable<'r>(view: &View<'r>, part: P<'r, Part<'r>>, key: &[u8]) -> bool {
    let mut bytes = 0;
    field!(part.newest).range(view, key..).enumerate().all(|(before, (_, value))| {
        let is_room = before < MOVED && bytes < MOVED_BYTES;
        bytes += value.bytes.len();
        is_room
    })
}

/// Moves the entries from `cut` on to a shard of another root. Neither has older versions.
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

/// The greatest key of a shard.
pub(crate) fn last_key<'r>(view: &View<'r>, part: P<'r, Part<'r>>) -> Option<Vec<u8>> {
    field!(part.newest).iter(view).next_back().map(|(key, _)| key.to_vec())
}
