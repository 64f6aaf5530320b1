//! Streams: entries in the order of their ids, and groups of consumers that share them.
//!
//! The parts of a stream are read and written one by one, by pointers to them (`field!`): so a transaction that has written to one of them need not put it together again when
//! all are read.

use pheap::{P, PBTreeMap, PBTreeSet, Persist, Txn, View, field};
use smallvec::SmallVec;

use super::value::Str;

/// What an entry is known by: milliseconds in the upper half, and a number among those of the same millisecond in the lower one.
pub type Id = u128;

/// The id of an entry.
pub const fn id(ms: u64, seq: u64) -> Id {
    (ms as Id) << 64 | seq as Id
}

/// The milliseconds of an id.
pub const fn ms(id: Id) -> u64 {
    (id >> 64) as u64
}

/// The number of an id among those of the same millisecond.
pub const fn seq(id: Id) -> u64 {
    id as u64
}

/// A stream. One without entries is kept.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Stream<'r> {
    /// Fields and values of each entry, in turn, as [`pack`] writes them.
    pub entries: PBTreeMap<'r, Id, Str<'r>>,
    /// Groups of consumers, by their names.
    pub groups: PBTreeMap<'r, Str<'r>, P<'r, Consumers<'r>>>,
    /// What has been.
    pub past: Past,
}

/// What has been in a stream.
#[derive(Persist, Default, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Past {
    /// The greatest id that was given.
    pub last: Id,
    /// The greatest one of the entries that were deleted one by one.
    pub deleted: Id,
    /// Number of entries that were ever added.
    pub added: u64,
}

/// A group of consumers, each of which gets some of the entries.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Consumers<'r> {
    /// Entries that a consumer has got and not acknowledged.
    pub pending: PBTreeMap<'r, Id, Delivery<'r>>,
    /// The consumers, by their names.
    pub names: PBTreeMap<'r, Str<'r>, P<'r, Consumer<'r>>>,
    /// How far it is.
    pub progress: Progress,
}

/// How far a group is.
#[derive(Persist, Default, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Progress {
    /// The last entry that a consumer has got.
    pub last: Id,
    /// How many entries that were ever added are not behind that one. Negative if that is not known.
    pub read: i64,
}

/// An entry that a consumer has got.
#[derive(Persist, Clone, Copy, Debug)]
#[repr(C)]
pub struct Delivery<'r> {
    /// Who.
    pub consumer: P<'r, Consumer<'r>>,
    /// When, in milliseconds since 1970. The last time counts.
    pub at: i64,
    /// How many times.
    pub count: i64,
}

/// A consumer.
#[derive(Persist)]
#[repr(C)]
pub struct Consumer<'r> {
    /// Its name.
    pub name: Str<'r>,
    /// When it was last seen, in milliseconds since 1970.
    pub seen: i64,
    /// The entries that it has got and not acknowledged. What else is known of them is in [`Consumers::pending`].
    pub pending: PBTreeSet<'r, Id>,
}

/// The entries of a stream, as far as groups depend on them.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// How many there are.
    pub len: u64,
    /// The id of the first one, or 0.
    pub first: Id,
    /// What has been.
    pub past: Past,
}

impl Extent {
    /// That of a stream.
    pub fn of<'r>(view: &View<'r>, stream: P<'r, Stream<'r>>) -> Extent {
        let entries = field!(stream.entries);
        let first = entries.iter(view).next().map_or(0, |(id, _)| *id);
        Extent { len: view[entries].len() as u64, first, past: view[field!(stream.past)] }
    }

    /// Whether an entry may have been deleted from `from` on.
    fn has_gaps_from(&self, from: Id) -> bool {
        let deleted = self.past.deleted;
        self.len > 0 && deleted > 0 && self.first <= deleted && from <= deleted
    }

    /// How many entries that were ever added are not behind this id, if that can be told.
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

    /// How many entries there are that a group has not got yet, if that can be told.
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

    /// A group gets the next entry.
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

/// Writes words one behind the other: their number, then the length and the bytes of each one. Numbers have 7 bits in a byte, the lowest first; the last byte is below 128.
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

/// Reads what [`pack`] wrote: how many words there are, and they.
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

/// Adds an entry behind all others.
///
/// # Errors
/// If there is no memory for it.
pub fn append<'r>(tx: &mut Txn<'r>, stream: P<'r, Stream<'r>>, id: Id, words: &[&[u8]]) -> pheap::Result<()> {
    let packed = tx.alloc_slice_copy(&pack(words))?;
    field!(stream.entries).insert(tx, &id, packed)?;
    let past = &mut tx[field!(stream.past)];
    past.last = id;
    past.added += 1;
    Ok(())
}

/// Which entries are to go, from the first one on.
#[derive(Debug, Clone, Copy)]
pub struct Trim {
    /// Which ones.
    pub to: TrimTo,
    /// If it need not be all of them.
    pub roughly: Option<Roughly>,
}

/// What need not be removed.
#[derive(Debug, Clone, Copy)]
pub struct Roughly {
    /// Only whole blocks of so many entries are removed; fewer if entries are long.
    pub block: u64,
    /// Bytes of a block (0: any number).
    pub block_bytes: u64,
    /// Entries that are removed at most (0: any number).
    pub most: u64,
}

/// Which entries are to go.
#[derive(Debug, Clone, Copy)]
pub enum TrimTo {
    /// Those before the last so many.
    Len(u64),
    /// Those with lesser ids.
    Id(Id),
}

/// Removes entries. How many.
pub fn trim<'r>(tx: &mut Txn<'r>, stream: P<'r, Stream<'r>>, trim: Trim) -> u64 {
    let entries = field!(stream.entries);
    let (len, added) = (tx[entries].len() as u64, tx[field!(stream.past)].added);
    let most = trim.roughly.map(|how| how.most).filter(|&most| most > 0).unwrap_or(u64::MAX);
    let excess = match trim.to {
        TrimTo::Len(max) => len.saturating_sub(max),
        TrimTo::Id(min) => {
            entries.range(tx, ..min).take(usize::try_from(most).unwrap_or(usize::MAX)).count() as u64
        }
    };
    let count = match trim.roughly {
        None => excess,
        Some(Roughly { mut block, block_bytes, .. }) => {
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

/// How many entries there are in the whole blocks at the beginning that have no more than `most` together. Blocks begin at each `block`th entry that was ever added.
fn whole_blocks(len: u64, added: u64, block: u64, most: u64) -> u64 {
    if most >= len {
        return len;
    }
    let first = block - added.wrapping_sub(len) % block;
    if first > most { 0 } else { first + (most - first) / block * block }
}

/// The consumer of a name, which is seen now, and is made if there is none; and whether it was made.
///
/// # Errors
/// If there is no memory for it.
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

/// A consumer gets an entry. If another one has it, it is taken from that one.
///
/// # Errors
/// If there is no memory for it.
pub fn deliver<'r>(
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

/// An entry is not pending any more. Whether it was.
pub fn settle<'r>(tx: &mut Txn<'r>, group: P<'r, Consumers<'r>>, id: Id) -> bool {
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
        // 1000 were added, 55 of the block that begins at the 400th are left.
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
        // The third one was deleted.
        let gap = extent(4, 1, 3);
        assert_eq!([lag(gap, 2, 2), lag(gap, 4, 4), lag(gap, 5, -1)], [None, Some(1), Some(0)]);
        // It was the first one.
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
