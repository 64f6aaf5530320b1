//! `Range`, which iterates over entries, and the cursor below it, which reads them in steps.

use crate::Result;
use crate::keys::{self, Span, StoredKey};
use crate::part;
use crate::reader::Reader;
use crate::shards::Wait;
use std::collections::VecDeque;
use std::ops::Bound;

/// Entries of the first step of a [`Range`], and of the largest: a reader of few entries copies few.
const FIRST: usize = 16;
pub(crate) const MOST: usize = 256;
/// Bytes after which a step ends.
const BYTES: usize = 256 << 10;

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// A span of keys that is read from its ends.
pub(crate) struct Cursor {
    reader: Reader,
    /// What is left.
    span: Span,
}

impl Cursor {
    pub(crate) fn new(reader: Reader, span: Span) -> Cursor {
        Cursor { reader, span }
    }

    /// Shows `f` up to `most` entries at one end, and when they expire, all of one shard, until it returns false. Returns whether something may be left.
    pub(crate) fn step(
        &mut self,
        backwards: bool,
        most: usize,
        f: &mut impl FnMut(&[u8], &[u8], Option<u64>) -> bool,
    ) -> Result<bool> {
        if keys::is_empty(&self.span) {
            return Ok(false);
        }
        let (mut seen, mut bytes, mut last) = (0, 0, StoredKey::new());
        let (prefix, at) = (self.reader.id.prefix_len(), self.reader.at());
        let heap = &self.reader.shards.heap;
        let mut show = |key: &[u8], value: &[u8], expires| {
            heap.will_read(value);
            seen += 1;
            bytes += key.len() + value.len();
            let more = f(&key[prefix..], value, expires) && seen < most && bytes < BYTES;
            if !more {
                last = StoredKey::from_slice(key);
            }
            more
        };
        // What is behind this shard; nothing, if the step has ended within it.
        let next = self.reader.shards.read(
            |map| match (&self.span, backwards) {
                ((_, Bound::Included(end)), true) => map.index_of(end),
                ((_, Bound::Excluded(end)), true) => map.index_before(end),
                ((_, Bound::Unbounded), true) => map.shards.len() - 1,
                ((Bound::Included(start) | Bound::Excluded(start), _), false) => map.index_of(start),
                ((Bound::Unbounded, _), false) => 0,
            },
            if at.is_some() { Wait::Nothing } else { Wait::All },
            |view, part, extent| {
                let ended = part::scan(view, part, &self.span, at, backwards, &mut show);
                (!ended).then(|| if backwards { extent.start() } else { extent.end() })
            },
        )?;
        let rest = match (next, backwards) {
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

/// The entries in a range of keys, in order and from both ends; made by [`Reader::range`]. An error ends it.
pub struct Range {
    cursor: Cursor,
    /// Read at the front, and at the back; both in order.
    front: VecDeque<Entry>,
    back: VecDeque<Entry>,
    step: usize,
}

impl Range {
    pub(crate) fn new(cursor: Cursor) -> Range {
        Range { cursor, front: VecDeque::new(), back: VecDeque::new(), step: FIRST }
    }

    /// Reads at one end until there is something, or nothing is left.
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
            *step = MOST.min(*step * 2);
        }
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
