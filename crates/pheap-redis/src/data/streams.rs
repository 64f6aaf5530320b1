//! Streams: entries in the order of their ids, and consumer groups that share them.
//!
//! Functions read and write the parts of a stream one by one, through pointers to the fields (`field!`).
//! After a write to one part, a transaction therefore need not build a copy of the whole stream to read
//! another part.

use pheap::{P, PBTreeMap, PBTreeSet, Persist, Txn, View, field};
use smallvec::SmallVec;

use super::value::Str;

/// The id of an entry: milliseconds in the upper half, and in the lower half a sequence number within the
/// millisecond.
pub type Id = u128;

/// Makes an id.
pub const fn id(ms: u64, seq: u64) -> Id {
    (ms as Id) << 64 | seq as Id
}

/// Returns the milliseconds of an id.
pub const fn ms(id: Id) -> u64 {
    (id >> 64) as u64
}

/// Returns the sequence number of an id.
pub const fn seq(id: Id) -> u64 {
    id as u64
}

/// A stream. A stream without entries is kept.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Stream<'r> {
    /// The fields and values of each entry, alternating, as [`pack`] writes them.
    pub entries: PBTreeMap<'r, Id, Str<'r>>,
    /// The consumer groups, by name.
    pub groups: PBTreeMap<'r, Str<'r>, P<'r, Consumers<'r>>>,
    /// The stream's counters, which outlive deleted entries.
    pub past: Past,
}

/// Counters of a stream, which outlive deleted entries. `XSETID` and `RESTORE` may set them.
#[derive(Persist, Default, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Past {
    /// The greatest id of all entries ever added, or a greater id that was set.
    pub last: Id,
    /// The greatest id of the entries that `XDEL` removed.
    pub deleted: Id,
    /// Number of entries ever added.
    pub added: u64,
}

/// A consumer group. Each of its consumers gets some of the entries.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Consumers<'r> {
    /// Entries that were delivered to a consumer and not acknowledged.
    pub pending: PBTreeMap<'r, Id, Delivery<'r>>,
    /// The consumers, by name.
    pub names: PBTreeMap<'r, Str<'r>, P<'r, Consumer<'r>>>,
    /// How far the group has read.
    pub progress: Progress,
}

/// How far a group has read.
#[derive(Persist, Default, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Progress {
    /// The id of the last entry that a consumer got as a new one, or the id that `XGROUP` or `XCLAIM` set.
    pub last: Id,
    /// Number of entries ever added up to `last`, or the number that `XGROUP` set and the entries read since.
    /// `XCLAIM` does not change it when it sets `last`. Negative if it is unknown.
    pub read: i64,
}

/// The delivery of an entry to a consumer.
#[derive(Persist, Clone, Copy, Debug)]
#[repr(C)]
pub struct Delivery<'r> {
    /// The consumer.
    pub consumer: P<'r, Consumer<'r>>,
    /// The time of the last delivery, or the time that `XCLAIM` set, in milliseconds since 1970.
    pub at: i64,
    /// Number of deliveries, or the number that `XCLAIM` set.
    pub count: i64,
}

/// A consumer.
#[derive(Persist)]
#[repr(C)]
pub struct Consumer<'r> {
    /// The name.
    pub name: Str<'r>,
    /// When the consumer was last seen, in milliseconds since 1970.
    pub seen: i64,
    /// The entries that were delivered to this consumer and not acknowledged. Their deliveries are in
    /// [`Consumers::pending`].
    pub pending: PBTreeSet<'r, Id>,
}

/// The figures of a stream on which the progress of groups depends.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Number of entries in the stream.
    pub len: u64,
    /// The id of the first entry, or 0.
    pub first: Id,
    /// The stream's counters.
    pub past: Past,
}

impl Extent {
    /// Returns the figures of a stream.
    pub fn of<'r>(view: &View<'r>, stream: P<'r, Stream<'r>>) -> Extent {
        let entries = field!(stream.entries);
        let first = entries.iter(view).next().map_or(0, |(id, _)| *id);
        Extent { len: view[entries].len() as u64, first, past: view[field!(stream.past)] }
    }

    /// Returns whether an entry may have been deleted that was at `from` or behind it, and behind the first
    /// present entry. Entries in front of all present ones do not count. False if the stream is empty.
    fn has_gaps_from(&self, from: Id) -> bool {
        let deleted = self.past.deleted;
        self.len > 0 && deleted > 0 && self.first <= deleted && from <= deleted
    }

    /// Returns the number of entries ever added up to this id, if it is known. As in Redis, all entries that
    /// are gone from the beginning count, even if their ids were greater.
    pub fn position(&self, id: Id) -> Option<i64> {
        let Past { last, deleted, added } = self.past;
        if added == 0 {
            return Some(0);
        }
        if id == last || self.len == 0 && id < last {
            return Some(added as i64);
        }
        if id > last || deleted >= self.first && deleted > 0 {
            return None;
        }
        let before = added.wrapping_sub(self.len) as i64;
        match id.cmp(&self.first) {
            std::cmp::Ordering::Less => Some(before),
            std::cmp::Ordering::Equal => Some(before.wrapping_add(1)),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// Returns the number of entries that a group has not read yet, if it is known.
    pub fn lag(&self, progress: Progress) -> Option<i64> {
        let added = self.past.added as i64;
        if added == 0 {
            return Some(0);
        }
        if progress.read >= 0 && !self.has_gaps_from(progress.last) {
            return Some(added.wrapping_sub(progress.read));
        }
        self.position(progress.last).map(|position| added.wrapping_sub(position))
    }

    /// Moves a group's progress to its next entry, `id`. Does nothing if the group has already read up to
    /// `id`.
    pub fn advance(&self, progress: &mut Progress, id: Id) {
        if id <= progress.last {
            return;
        }
        if progress.read >= 0 && !self.has_gaps_from(id) {
            progress.read = progress.read.saturating_add(1);
        } else if self.past.added > 0 {
            progress.read = self.position(id).unwrap_or(-1);
        }
        progress.last = id;
    }
}

/// Encodes words one after the other: the number of words, then the length and the bytes of each word. A
/// number has 7 bits in each byte, the lowest first. The last byte of a number is below 128.
pub fn pack(words: &[&[u8]]) -> SmallVec<[u8; 256]> {
    let mut packed = SmallVec::with_capacity(words.iter().map(|word| word.len() + 2).sum::<usize>() + 2);
    let number = |packed: &mut SmallVec<[u8; 256]>, mut number: usize| {
        while number >= 128 {
            packed.push(number as u8 | 128);
            number >>= 7;
        }
        packed.push(number as u8);
    };
    number(&mut packed, words.len());
    for word in words {
        number(&mut packed, word.len());
        packed.extend_from_slice(word);
    }
    packed
}

/// Decodes the output of [`pack`]. Returns the number of words, and the words.
pub fn unpack(mut packed: &[u8]) -> (usize, impl Iterator<Item = &[u8]>) {
    fn number(packed: &mut &[u8]) -> usize {
        let (mut number, mut shift) = (0, 0);
        while let Some((byte, rest)) = packed.split_first() {
            *packed = rest;
            number |= usize::from(byte & 127) << shift;
            shift += 7;
            if *byte < 128 {
                break;
            }
        }
        number
    }
    let count = number(&mut packed);
    let words = (0..count).map(move |_| {
        let len = number(&mut packed);
        let (word, rest) = packed.split_at(len);
        packed = rest;
        word
    });
    (count, words)
}

/// Adds an entry to a stream. Its id must be greater than those of all entries ever added.
///
/// # Errors
/// If the heap cannot allocate memory.
pub fn append<'r>(tx: &mut Txn<'r>, stream: P<'r, Stream<'r>>, id: Id, words: &[&[u8]]) -> pheap::Result<()> {
    let packed = tx.alloc_slice_copy(&pack(words))?;
    field!(stream.entries).insert(tx, &id, packed)?;
    let past = &mut tx[field!(stream.past)];
    past.last = id;
    past.added += 1;
    Ok(())
}

/// Selects entries to remove from the beginning.
#[derive(Debug, Clone, Copy)]
pub struct Trim {
    /// The bound of the entries to remove.
    pub to: TrimTo,
    /// Set if some of the entries within the bound may stay.
    pub approximate: Option<ApproximateTrim>,
}

/// Limits of an approximate removal.
#[derive(Debug, Clone, Copy)]
pub struct ApproximateTrim {
    /// The number of entries of a block. Only whole blocks are removed, or all entries. A block has fewer
    /// entries if the first entry is long.
    pub block: u64,
    /// Bytes of a block; 0: no limit.
    pub block_bytes: u64,
    /// The most entries to remove; 0: no limit.
    pub most: u64,
}

/// The bound of the entries to remove.
#[derive(Debug, Clone, Copy)]
pub enum TrimTo {
    /// Keeps only this many entries, the last ones.
    Len(u64),
    /// Removes the entries with lesser ids than this one.
    Id(Id),
}

/// Removes entries from the beginning of a stream. Returns the number of removed entries.
pub fn trim<'r>(tx: &mut Txn<'r>, stream: P<'r, Stream<'r>>, trim: Trim) -> u64 {
    let entries = field!(stream.entries);
    let (len, added) = (tx[entries].len() as u64, tx[field!(stream.past)].added);
    let most = trim.approximate.map(|how| how.most).filter(|&most| most > 0).unwrap_or(u64::MAX);
    let excess = match trim.to {
        TrimTo::Len(max) => len.saturating_sub(max),
        TrimTo::Id(min) => {
            entries.range(tx, ..min).take(usize::try_from(most).unwrap_or(usize::MAX)).count() as u64
        }
    };
    let count = match trim.approximate {
        None => excess,
        Some(ApproximateTrim { mut block, block_bytes, .. }) => {
            if let Some((_, &first)) = tx[entries].iter(tx).next().filter(|_| block_bytes > 0) {
                block = block.min(block_bytes / tx[first].len().max(1) as u64);
            }
            whole_blocks(len, added, block.max(1), excess.min(most))
        }
    };
    if count == len {
        entries.clear(tx);
    } else {
        (0..count).for_each(|_| _ = entries.pop_first(tx));
    }
    count
}

/// Returns the number of entries in the leading blocks that together have at most `most` entries. Each
/// `block`th entry ever added begins a block. The last block need not be full if `most` covers all entries.
fn whole_blocks(len: u64, added: u64, block: u64, most: u64) -> u64 {
    if most >= len {
        return len;
    }
    let first = block - added.wrapping_sub(len) % block;
    if first > most { 0 } else { first + (most - first) / block * block }
}

/// Returns the consumer with this name, and whether this call created it. Sets the time when it was last seen
/// to `now`.
///
/// # Errors
/// If the heap cannot allocate memory.
pub fn consumer_or_new<'r>(
    tx: &mut Txn<'r>,
    group: P<'r, Consumers<'r>>,
    name: &[u8],
    now: i64,
) -> pheap::Result<(P<'r, Consumer<'r>>, bool)> {
    if let Some(&consumer) = field!(group.names).get(tx, name) {
        tx[field!(consumer.seen)] = now;
        return Ok((consumer, false));
    }
    let own = tx.alloc_slice_copy(name)?;
    let consumer = tx.alloc(Consumer { name: own, seen: now, pending: PBTreeSet::new() })?;
    field!(group.names).insert(tx, name, consumer)?;
    Ok((consumer, true))
}

/// Delivers an entry to a consumer. If the entry was pending for another consumer, that consumer loses it.
///
/// # Errors
/// If the heap cannot allocate memory.
pub fn deliver_entry<'r>(
    tx: &mut Txn<'r>,
    group: P<'r, Consumers<'r>>,
    id: Id,
    delivery: Delivery<'r>,
) -> pheap::Result<()> {
    let consumer = delivery.consumer;
    if let Some(before) = field!(group.pending).insert(tx, &id, delivery)? {
        let before = before.consumer;
        if before == consumer {
            return Ok(());
        }
        field!(before.pending).remove(tx, &id);
    }
    field!(consumer.pending).insert(tx, &id)?;
    Ok(())
}

/// Removes an entry from the pending ones. Returns whether it was pending.
pub fn remove_pending<'r>(tx: &mut Txn<'r>, group: P<'r, Consumers<'r>>, id: Id) -> bool {
    let Some(Delivery { consumer, .. }) = field!(group.pending).remove(tx, &id) else { return false };
    field!(consumer.pending).remove(tx, &id);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_packed() {
        let long = vec![b'x'; 20_000];
        let words: [&[u8]; 4] = [b"", b"field", &long, &long[..128]];
        let packed = pack(&words);
        assert_eq!(packed.len(), 1 + 1 + 6 + 3 + 20_000 + 2 + 128);
        let (count, unpacked) = unpack(&packed);
        assert_eq!((count, unpacked.collect::<Vec<_>>()), (4, words.to_vec()));
    }

    #[test]
    fn blocks_begin_at_round_numbers() {
        // 1000 entries were added, and 555 are left. Of the block that begins behind the first 400, 55
        // entries are left.
        assert_eq!(whole_blocks(555, 1000, 100, 54), 0);
        assert_eq!(whole_blocks(555, 1000, 100, 111), 55);
        assert_eq!(whole_blocks(555, 1000, 100, 155), 155);
        assert_eq!(whole_blocks(555, 1000, 100, 555), 555);
        // The last block is not full.
        assert_eq!(whole_blocks(3, 3, 2, 1), 0);
        assert_eq!(whole_blocks(3, 3, 2, 2), 2);
        assert_eq!(whole_blocks(3, 3, 2, 3), 3);
        assert_eq!(whole_blocks(0, 3, 2, 3), 0);
        assert_eq!(whole_blocks(3, 3, 100, 2), 0);
        assert_eq!(whole_blocks(3, 3, 100, 3), 3);
    }

    #[test]
    fn what_a_group_has_not_got_yet() {
        let extent = |len, first, deleted| Extent { len, first, past: Past { last: 5, deleted, added: 5 } };
        let lag = |extent: Extent, last, read| extent.lag(Progress { last, read });
        let whole = extent(5, 1, 0);
        assert_eq!([lag(whole, 0, -1), lag(whole, 1, -1), lag(whole, 2, -1)], [Some(5), Some(4), None]);
        assert_eq!([lag(whole, 2, 2), lag(whole, 5, -1), lag(whole, 6, -1)], [Some(3), Some(0), None]);
        // The third entry was deleted.
        let gap = extent(4, 1, 3);
        assert_eq!([lag(gap, 2, 2), lag(gap, 4, 4), lag(gap, 5, -1)], [None, Some(1), Some(0)]);
        // The deleted entry was in front of the present ones.
        assert_eq!(lag(extent(2, 4, 3), 2, 2), Some(3));
        assert_eq!(lag(extent(0, 0, 3), 2, -1), Some(0));
        let mut progress = Progress { last: 2, read: 2 };
        gap.advance(&mut progress, 3);
        assert_eq!(progress, Progress { last: 3, read: -1 });
        gap.advance(&mut progress, 5);
        assert_eq!(progress, Progress { last: 5, read: 5 });
        gap.advance(&mut progress, 4);
        assert_eq!(progress, Progress { last: 5, read: 5 });
    }
}
