//! `Range`, an iterator over entries, and the cursor below it, which reads the entries in steps.

use crate::Result;
use crate::keys::{self, KeySpan, StoredKey};
use crate::part;
use crate::reader::Reader;
use crate::shards::DurableWait;
use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds};

/// Maximal number of entries of the first step of a [`Range`]. It is small, so that a reader of few entries
/// copies few.
const FIRST: usize = 16;
/// Maximal number of entries of later steps. Also the maximal number of keys that a step visits, shown or
/// not: writers of the shard wait for the step.
pub(crate) const MOST: usize = 256;
/// Bytes of shown keys and values after which a step ends.
const BYTES: usize = 256 << 10;

#[cfg(test)]
thread_local! {
    /// Number of keys that the steps of this thread have visited.
    pub(crate) static VISITS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// Reads a span of keys from both ends.
pub(crate) struct SpanCursor {
    reader: Reader,
    /// The keys still to read.
    span: KeySpan,
}

impl SpanCursor {
    pub(crate) fn new(reader: Reader, span: KeySpan) -> SpanCursor {
        SpanCursor { reader, span }
    }

    /// Calls `f` with up to `most` entries at one end of the span, each with its time of expiry, until `f`
    /// returns false. All these entries are in one shard. Returns whether entries may be left. A step also
    /// ends after many keys without a value for this reader, so it may show no entry although some are left.
    pub(crate) fn step(
        &mut self,
        backwards: bool,
        most: usize,
        f: &mut impl FnMut(&[u8], &[u8], Option<u64>) -> bool,
    ) -> Result<bool> {
        if keys::is_empty(&self.span) {
            return Ok(false);
        }
        let (mut bytes, mut last) = (0, StoredKey::new());
        // Keys that the step may still visit. A shown entry counts as `each` keys, so at most `most` are
        // shown. (`most` divides `MOST`.)
        let (mut left, each) = (MOST, MOST / most);
        let (prefix, at) = (self.reader.id.prefix_len(), self.reader.at());
        let heap = &self.reader.shards.heap;
        let mut visit = |key: &[u8], fresh: Option<(&[u8], Option<u64>)>| {
            #[cfg(test)]
            VISITS.with(|visits| visits.set(visits.get() + 1));
            let more = match fresh {
                Some((value, expires)) => {
                    heap.will_read(value);
                    left = left.saturating_sub(each);
                    bytes += key.len() + value.len();
                    f(&key[prefix..], value, expires) && bytes < BYTES
                }
                None => {
                    left -= 1;
                    true
                }
            };
            let more = more && left > 0;
            if !more {
                last = StoredKey::from_slice(key);
            }
            more
        };
        // The edge of the shard in the direction of the step, or `None` if the step has ended within the
        // shard.
        let next = self.reader.shards.read_from(
            |map| match (&self.span, backwards) {
                ((_, Bound::Included(end)), true) => map.index_of(end),
                ((_, Bound::Excluded(end)), true) => map.index_before(end),
                ((_, Bound::Unbounded), true) => map.shards.len() - 1,
                ((Bound::Included(start) | Bound::Excluded(start), _), false) => map.index_of(start),
                ((Bound::Unbounded, _), false) => 0,
            },
            backwards,
            if at.is_some() { DurableWait::Nothing } else { DurableWait::All },
            |view, part, extent| {
                // Empty shards are skipped in one step: a store that is used as a queue has many of them in
                // front of its first entry.
                let edge = extent.edge(backwards);
                if part::is_empty(view, part) && edge.is_some_and(|edge| self.span.contains(edge)) {
                    return None;
                }
                let ended = part::scan(view, part, &self.span, at, backwards, &mut visit);
                Some((!ended).then(|| edge.cloned()))
            },
        )?;
        let rest = match (next.unwrap_or(Some(None)), backwards) {
            (None, _) => Bound::Excluded(last),
            (Some(Some(start)), true) => Bound::Excluded(start),
            (Some(Some(end)), false) => Bound::Included(end),
            (Some(None), _) => {
                self.span = keys::nothing();
                return Ok(false);
            }
        };
        if backwards {
            self.span.1 = rest;
        } else {
            self.span.0 = rest;
        }
        Ok(!keys::is_empty(&self.span))
    }
}

/// Iterates over the entries in a range of keys, in order and from both ends; made by [`Reader::range`]. The
/// iterator ends after an error.
pub struct Range {
    cursor: SpanCursor,
    /// Entries that were read at the front of the range, and at its back; both in ascending order.
    front: VecDeque<Entry>,
    back: VecDeque<Entry>,
    /// Maximal number of entries of the next step. It doubles with each read, up to [`MOST`].
    step: usize,
}

impl Range {
    pub(crate) fn new(cursor: SpanCursor) -> Range {
        Range { cursor, front: VecDeque::new(), back: VecDeque::new(), step: FIRST }
    }

    /// Reads at one end until an entry is found or none is left.
    fn fill(&mut self, backwards: bool) -> Result<()> {
        let Range { cursor, front, back, step } = self;
        let mut more = true;
        while more && if backwards { back.is_empty() } else { front.is_empty() } {
            more = cursor.step(backwards, *step, &mut |key, value, _| {
                let entry = (key.to_vec(), value.to_vec());
                if backwards {
                    back.push_front(entry)
                } else {
                    front.push_back(entry)
                }
                true
            })?;
        }
        // The step grows only after the loop: a step without entries does not show that the reader will read
        // many.
        *step = MOST.min(*step * 2);
        Ok(())
    }

    fn end(&mut self, error: crate::Error) -> Option<Result<Entry>> {
        (self.front, self.back) = Default::default();
        self.cursor.span = keys::nothing();
        Some(Err(error))
    }
}

impl Iterator for Range {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        if self.front.is_empty()
            && let Err(error) = self.fill(false)
        {
            return self.end(error);
        }
        self.front.pop_front().or_else(|| self.back.pop_front()).map(Ok)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Result<Entry>> {
        if self.back.is_empty()
            && let Err(error) = self.fill(true)
        {
            return self.end(error);
        }
        self.back.pop_back().or_else(|| self.front.pop_back()).map(Ok)
    }
}

impl std::iter::FusedIterator for Range {}

impl std::fmt::Debug for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Range").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, Store};
    use std::time::Duration;

    /// Steps through all entries. Returns their keys, and the number of keys that the longest step has
    /// visited.
    fn steps(reader: &Reader, backwards: bool) -> (Vec<Vec<u8>>, usize) {
        let mut cursor = reader.cursor(reader.id.span::<[u8]>(&..));
        let (mut shown, mut longest, mut is_more) = (Vec::new(), 0, true);
        while is_more {
            let before = VISITS.get();
            let mut show = |key: &[u8], _: &[u8], _| {
                shown.push(key.to_vec());
                true
            };
            is_more = cursor.step(backwards, MOST, &mut show).unwrap();
            longest = longest.max(VISITS.get() - before);
        }
        (shown, longest)
    }

    fn check(reader: &Reader, expected: &[&[u8]]) {
        for backwards in [false, true] {
            let (mut shown, longest) = steps(reader, backwards);
            if backwards {
                shown.reverse();
            }
            assert_eq!(shown, expected);
            assert!(longest <= MOST, "a step has visited {longest} keys");
        }
        assert!(reader.iter().map(|entry| entry.unwrap().0).eq(expected.iter().copied()));
        assert!(reader.iter().rev().map(|entry| entry.unwrap().0).eq(expected.iter().rev().copied()));
        assert_eq!(reader.prefix(expected[0]).count(), 1);
    }

    #[test]
    fn steps_over_what_a_snapshot_does_not_see_are_short() {
        let store = Store::in_memory().unwrap();
        store.put([0, 7], "old").unwrap();
        store.put([0xFF], "old").unwrap();
        let old = store.snapshot().unwrap();
        for n in 0..10_000u32 {
            store.put(n.wrapping_mul(0x9E37_79B1).to_be_bytes(), "newer").unwrap();
        }
        let newer = store.snapshot().unwrap();
        for n in 0..10_000u32 {
            store.delete(n.wrapping_mul(0x9E37_79B1).to_be_bytes()).unwrap();
        }
        check(&old, &[&[0, 7], &[0xFF]]);
        check(&store, &[&[0, 7], &[0xFF]]);
        assert_eq!(newer.iter().count(), 10_002);
    }

    #[test]
    fn steps_over_what_has_expired_are_short() {
        let store = Store::in_memory().unwrap();
        let mut batch = Batch::new();
        for n in 0..5000u32 {
            batch.put_for(&store, n.to_be_bytes(), "", Duration::from_millis(200)).unwrap();
        }
        batch.put(&store, [7], "").unwrap();
        batch.put(&store, [0xFF], "").unwrap();
        store.write(&batch).unwrap();
        while store.iter().count() > 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        check(&store, &[&[7], &[0xFF]]);
    }

    #[test]
    fn the_first_entry_of_a_queue_is_found_without_reading_many_behind_it() {
        let store = Store::in_memory().unwrap();
        const N: u32 = 40_000;
        (0..N).for_each(|n| store.put(n.to_be_bytes(), "").unwrap());
        (0..N - 1000).for_each(|n| assert!(store.delete(n.to_be_bytes()).unwrap()));
        assert!(store.stats().unwrap().shards > 4);
        let before = VISITS.get();
        assert_eq!(store.iter().next().unwrap().unwrap().0, (N - 1000).to_be_bytes());
        assert!(VISITS.get() - before <= FIRST, "{} visits", VISITS.get() - before);
        // Only the first shard has an entry; the shards behind it are empty.
        store.put([0], "").unwrap();
        (N - 1000..N).for_each(|n| assert!(store.delete(n.to_be_bytes()).unwrap()));
        let before = VISITS.get();
        assert_eq!(store.iter().next_back().unwrap().unwrap().0, [0]);
        assert_eq!(store.range([0]..[1]).count() + store.range([1]..).count(), 1);
        assert!(VISITS.get() - before <= FIRST, "{} visits", VISITS.get() - before);
    }
}
