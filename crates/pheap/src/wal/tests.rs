//! Tests of the log as a sequence of records: recovery finds the records that were appended.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range as Bytes;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::buffer::WalBuffer;
use super::fold::Fold;
use super::format::{
    ChecksumSeed, Head, LogLayout, LogMark, MARKS, ReadLog, each_record, read_all, read_head,
};
use super::{Wal, WalIdentity, WalSettings, WalTail, begin};
use crate::error::Result;
use crate::log::{Range, ranges};
use crate::os::cpu::bytes;
use crate::os::storage::{Disk, FileId, Storage};
use crate::units::{HEADER_SIZE, PAGE};
use crate::wal::SyncPolicy;

pub(super) const LAYOUT: LogLayout = LogLayout { uuid: 7 << 64 | 9, id: 3, nonce: 5, segment: 64 << 10 };

#[derive(Debug, Default)]
pub(crate) struct InMemory(pub(super) Mutex<Vec<u8>>);

impl Storage for InMemory {
    fn read_some(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let file = self.0.lock().unwrap();
        let rest = &file[file.len().min(at as usize)..];
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn write_some(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let (mut file, end) = (self.0.lock().unwrap(), at as usize + bytes.len());
        let len = file.len().max(end);
        file.resize(len, 0);
        file[at as usize..end].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn sync_now(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn extend_now(&self, _: u64, to: u64) -> io::Result<()> {
        self.0.lock().unwrap().resize(to as usize, 0);
        Ok(())
    }

    fn cut_off(&self, to: u64) -> io::Result<()> {
        self.0.lock().unwrap().truncate(to as usize);
        Ok(())
    }

    fn id(&self) -> FileId {
        FileId { device: 0, inode: 0 }
    }
}

/// A disk with a heap's file and its log, which always keep their names.
#[derive(Debug, Default)]
pub(crate) struct TestDisk<D, L> {
    pub(super) data: Arc<D>,
    pub(super) log: Arc<L>,
    nonces: AtomicU64,
}

impl<D: Storage + 'static, L: Storage + 'static> TestDisk<D, L> {
    pub(crate) fn new(data: Arc<D>, log: Arc<L>) -> Arc<TestDisk<D, L>> {
        Arc::new(TestDisk { data, log, nonces: AtomicU64::default() })
    }
}

impl<D: Storage + 'static, L: Storage + 'static> Disk for TestDisk<D, L> {
    fn log_path(&self) -> PathBuf {
        "log".into()
    }

    fn data(&self) -> Arc<dyn Storage> {
        self.data.clone()
    }

    fn open_log(&self) -> io::Result<Option<Arc<dyn Storage>>> {
        Ok(Some(self.log.clone()))
    }

    fn create_log(&self) -> io::Result<Arc<dyn Storage>> {
        Ok(self.log.clone())
    }

    fn find_log(&self, _: &dyn Storage) -> io::Result<()> {
        Ok(())
    }

    fn keep_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn remove_log(&self, _: &dyn Storage) -> io::Result<()> {
        Ok(())
    }

    fn nonce(&self) -> io::Result<u64> {
        Ok(self.nonces.fetch_add(2, Ordering::Relaxed) + 1)
    }
}

impl Wal {
    /// Creates a log that has begun, for a heap's file without a header.
    pub(crate) fn begun(disk: Arc<dyn Disk>, of: WalIdentity, settings: WalSettings) -> Result<Arc<Wal>> {
        let wal = Wal::new(disk, of, settings)?;
        wal.use_log(begin::make(&*wal.disk, wal.layout)?);
        // The first line of the first segment is still to be written, as in a log that goes on in a new
        // segment.
        let synced = wal.state.lock().buffer.synced();
        [&wal.written, &wal.wanted, &wal.durable]
            .iter()
            .for_each(|position| position.store(synced, Ordering::Relaxed));
        wal.begun.store(true, Ordering::Relaxed);
        Ok(wal)
    }
}

/// Ranges of a transaction: offset and length, both in words. `content` makes the words from their offsets
/// and a number.
pub(super) type Ranges = Vec<(u64, usize)>;

pub(super) fn content(ranges: &Ranges, number: u64) -> Vec<(u64, Vec<u64>)> {
    let words = |&(at, len): &(u64, usize)| (0..len as u64).map(|i| (at + i) << 20 | number).collect();
    ranges.iter().map(|range| (HEADER_SIZE + range.0 * 8, words(range))).collect()
}

/// A log that a test writes, without a `Wal`.
struct Log {
    buffer: WalBuffer,
    file: InMemory,
    seed: ChecksumSeed,
}

impl Log {
    fn new(segments: u64) -> Log {
        let file = InMemory::default();
        let seed = ChecksumSeed::new(99, LAYOUT);
        (&file as &dyn Storage).write_all(&LAYOUT.to_bytes(), 0).unwrap();
        file.extend_now(0, LAYOUT.file_offset(segments)).unwrap();
        Log { buffer: WalBuffer::new(LAYOUT, seed, segments), file, seed }
    }

    fn append(&mut self, content: &[(u64, Vec<u64>)]) {
        let words = content.iter().map(|(_, words)| words.len() + 1).sum();
        while self.buffer.need(words) > self.buffer.room() {
            let have = self.buffer.segments();
            self.file.extend_now(0, LAYOUT.file_offset(have + 1)).unwrap();
            self.buffer.add_segments(have..have + 1);
        }
        self.buffer.append(content.iter().map(|(offset, words)| Range { offset: *offset, words }), |_| false);
    }

    fn write(&mut self) {
        let chunks = self.buffer.take_chunks();
        for chunk in &chunks {
            (&self.file as &dyn Storage).write_all(bytes(&chunk.words), chunk.file_offset).unwrap();
        }
        self.buffer.give_back(chunks);
    }

    /// Writes the buffer, and a mark that says that the heap's file has all records.
    fn checkpoint(&mut self) {
        self.write();
        let end = self.buffer.end_position();
        (&self.file as &dyn Storage).write_all(bytes(&mark(end, self.seed)), MARKS[0]).unwrap();
        self.buffer.recycle(end);
    }

    /// Returns the words of the heap after a replay, and the number of transactions found.
    fn replay(&self) -> (BTreeMap<u64, u64>, u64) {
        let found = read_all(&self.file, LAYOUT, self.seed).unwrap();
        let mut heap = BTreeMap::new();
        self.each_record(&found, |record| {
            for range in ranges(record) {
                heap.extend((range.offset..).step_by(8).zip(range.words.iter().copied()));
            }
        });
        (heap, found.transactions)
    }

    fn each_record(&self, found: &ReadLog, mut visit: impl FnMut(&[u64])) {
        let ReadLog { begin, end, segments, .. } = found;
        each_record(&self.file, LAYOUT, segments, *begin..*end, |record| {
            visit(record);
            Ok(())
        })
        .unwrap();
    }
}

/// Returns a mark that says that the heap's file has everything before `folded`.
fn mark(folded: u64, seed: ChecksumSeed) -> [u64; 8] {
    LogMark { folded, ..LogMark::first(LAYOUT) }.to_words(seed)
}

pub(super) fn model<'a>(transactions: impl Iterator<Item = &'a Vec<(u64, Vec<u64>)>>) -> BTreeMap<u64, u64> {
    let mut heap = BTreeMap::new();
    for (offset, words) in transactions.flatten() {
        heap.extend((*offset..).step_by(8).zip(words.iter().copied()));
    }
    heap
}

pub(super) fn some_ranges() -> impl Strategy<Value = Ranges> {
    let len = prop_oneof![4 => 1usize..20, 2 => 20usize..3000, 1 => 3000usize..20_000];
    prop::collection::vec((0u64..100_000, len), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_found(
        transactions in prop::collection::vec((some_ranges(), any::<bool>(), 0u8..8), 1..30),
        choices in prop::collection::vec(any::<bool>(), 1..100),
    ) {
        let mut log = Log::new(2);
        let mut all = Vec::new();
        let mut folded = 0;
        // The log's file at the last sync, and the number of transactions until then.
        let mut synced = (log.file.0.lock().unwrap().clone(), 0);
        for (number, (ranges, write, recycle)) in transactions.iter().enumerate() {
            let content = content(ranges, number as u64);
            log.append(&content);
            all.push(content);
            if *recycle == 0 {
                log.checkpoint();
                folded = all.len();
            }
            if *write || *recycle == 0 {
                log.write();
                synced = (log.file.0.lock().unwrap().clone(), all.len());
            }
        }
        log.write();
        let (heap, found) = log.replay();
        prop_assert_eq!(found as usize, all.len() - folded);
        prop_assert_eq!(heap, model(all[folded..].iter()));

        // The disk has any of the sectors that were not synced. A prefix is found, never a part of a
        // transaction.
        let mut file = log.file.0.lock().unwrap();
        synced.0.resize(file.len(), 0);
        let sectors = file.chunks_mut(512).zip(synced.0.chunks(512)).filter(|(new, old)| new != old);
        for ((new, old), keep) in sectors.zip(choices.iter().cycle()) {
            if !keep {
                new.copy_from_slice(old);
            }
        }
        drop(file);
        let (heap, found) = log.replay();
        let found = folded + found as usize;
        prop_assert!((synced.1..=all.len()).contains(&found), "{found} found, {} synced", synced.1);
        prop_assert_eq!(heap, model(all[folded..found].iter()));
    }

    #[test]
    fn a_fold_writes_what_the_records_say(transactions in prop::collection::vec(some_ranges(), 1..12)) {
        let mut log = Log::new(2);
        let mut expected: Vec<u8> = (0..HEADER_SIZE as usize + 130_000 * 8).map(|i| i as u8).collect();
        let data = InMemory(Mutex::new(expected.clone()));
        for (number, ranges) in transactions.iter().enumerate() {
            let content = content(ranges, number as u64);
            log.append(&content);
            for (offset, words) in &content {
                expected[*offset as usize..][..words.len() * 8].copy_from_slice(bytes(words));
            }
        }
        log.write();
        let found = read_all(&log.file, LAYOUT, log.seed).unwrap();
        let mut fold = Fold::with_room(&data, 64 << 20);
        let mut pages = BTreeSet::new();
        log.each_record(&found, |record| {
            fold.add(record).unwrap();
            pages.extend(ranges(record).flat_map(|range| range.offset / PAGE..range.end().div_ceil(PAGE)));
        });
        let written = fold.flush_rest().unwrap();
        prop_assert_eq!(written, pages.len() as u64 * PAGE, "each page once");
        prop_assert_eq!(written, found.pages.bytes());
        prop_assert!(data.0.lock().unwrap()[..expected.len()] == expected[..]);
    }
}

#[test]
fn a_head_says_whose_log_it_is() {
    let log = Log::new(2);
    assert_eq!(read_head(&log.file).unwrap(), Head::Log(LAYOUT));
    assert_eq!(read_head(&InMemory::default()).unwrap(), Head::Nothing);
    assert!(matches!(read_head(&InMemory(Mutex::new(b"text".to_vec()))).unwrap(), Head::Foreign(_)));
    // The write of the head was cut short: behind the first bytes of the head, the file has zeros.
    let head = LAYOUT.to_bytes();
    for len in 0..head.len() - 1 {
        let file = InMemory(Mutex::new([&head[..len], &[0; 500]].concat()));
        let expected = if len <= 32 { Head::Nothing } else { Head::Damaged(LAYOUT.uuid) };
        assert_eq!(read_head(&file).unwrap(), expected, "{len}");
    }
    // The head was torn while it was written: any of its words are there.
    for words in 0u32..256 {
        let mut torn = [vec![0; head.len()], vec![0; 5000]].concat();
        for word in (0..8).filter(|word| words >> word & 1 == 1) {
            torn[word * 8..][..8].copy_from_slice(&head[word * 8..][..8]);
        }
        let found = read_head(&InMemory(Mutex::new(torn.clone()))).unwrap();
        let is_whole = words == 255 || words == 191 && head[48..56] == [0; 8];
        assert!(
            matches!(found, Head::Nothing | Head::Damaged(_)) || is_whole && found == Head::Log(LAYOUT),
            "{words:#b}: {found:?}"
        );
        // With other bytes behind the head, the file does not count as an unused log, unless only words of
        // the first half of the head are there.
        torn[4500] = 1;
        let found = read_head(&InMemory(Mutex::new(torn))).unwrap();
        assert!(found != Head::Nothing || words & 0b1111_0000 == 0, "{words:#b}");
    }
    // No record of another log is taken for a record of this one.
    let mut log = log;
    log.append(&content(&vec![(5, 5)], 1));
    log.write();
    assert_eq!(log.replay().1, 1);
    log.seed = ChecksumSeed::new(99, LogLayout { id: LAYOUT.id + 1, ..LAYOUT });
    assert_eq!(log.replay().1, 0);
    log.seed = ChecksumSeed::new(98, LAYOUT);
    assert_eq!(log.replay().1, 0);
    log.seed = ChecksumSeed::new(99, LogLayout { nonce: LAYOUT.nonce + 1, ..LAYOUT });
    assert_eq!(log.replay().1, 0);
}

#[test]
fn a_segment_is_read_only_behind_the_end_of_the_one_before() {
    let mut log = Log::new(4);
    let mut number = 0;
    // The last record of the first segment is going to be damaged. The records of the second segment stay
    // whole.
    while LAYOUT.sequence(log.buffer.end_position()) < 2 {
        log.append(&content(&vec![(number * 40, 30)], number));
        number += 1;
    }
    log.write();
    let all = log.replay().1;
    assert_eq!(all, number);
    let end = LAYOUT.file_offset(1) as usize;
    let mut file = log.file.0.lock().unwrap();
    let last = (0..end).rev().find(|&at| file[at] != 0).unwrap();
    file[last] ^= 1;
    drop(file);
    let found = log.replay().1;
    assert!(found < all - 1 || found == all - 2, "{found} of {all}");
    assert_eq!(
        log.replay().0,
        model((0..found).map(|n| content(&vec![(n * 40, 30)], n)).collect::<Vec<_>>().iter())
    );
}

#[test]
fn segments_that_are_used_again_are_not_read() {
    // Segments are used again, and a part of them still has its old content on the disk: first lines,
    // records, or both.
    for lost in [0..512, 0..64 << 10, 512..1024, 64 << 10..65 << 10, 0..192 << 10] {
        let mut log = Log::new(5);
        let mut number = 0;
        let one = |number: u64| content(&vec![(number * 40, 30)], number);
        let mut fill = |log: &mut Log, to: u64| {
            while LAYOUT.sequence(log.buffer.end_position()) < to {
                log.append(&one(number));
                number += 1;
            }
            log.write();
            number
        };
        fill(&mut log, 3);
        log.checkpoint();
        let folded = fill(&mut log, 4);
        // The last of these records is in the sixth segment, which is the first one that is used again.
        let synced = fill(&mut log, 6) - 1;
        let old = log.file.0.lock().unwrap().clone();
        let all = fill(&mut log, 8);
        let place = LAYOUT.file_offset(0) + lost.start..LAYOUT.file_offset(0) + lost.end;
        let old = &old[place.start as usize..place.end as usize];
        (&log.file as &dyn Storage).write_all(old, place.start).unwrap();
        let heap = log.replay().0;
        let has = |number: u64| heap.contains_key(&one(number)[0].0);
        assert!(has(folded) && has(synced - 1) && !has(all - 1) && !has(0), "{lost:?}");
    }
}

#[test]
fn a_transaction_over_several_roots_takes_no_position_back() {
    let dir = tempfile::tempdir().unwrap();
    let options = crate::Options::new().durability(crate::Durability::Wal).arena_size(1 << 20);
    let heap = options.open(dir.path().join("heap")).unwrap();
    let (a, b) = (heap.root::<u64>("a").unwrap(), heap.root::<u64>("b").unwrap());
    // The record of this transaction has only fresh objects, which belong to the second root.
    let garbage = || {
        crate::txn((&a, &b), |(_, (tb, _))| (0..200u64).try_for_each(|i| tb.alloc(i).map(drop))).unwrap();
    };
    // The first such transaction takes spans.
    garbage();
    for root in [&a, &b] {
        root.txn(|tx, p| {
            tx[p] = 1;
            Ok(())
        })
        .unwrap();
    }
    let positions = || [&a, &b].map(|root| root.region.counters.position.get());
    let before = positions();
    garbage();
    assert!(positions().into_iter().zip(before).all(|(after, before)| after >= before));
}

/// Returns the ranges of the marks and of the first lines of `segments` segments.
fn heads(segments: u64) -> Vec<Bytes<usize>> {
    let starts = MARKS.into_iter().chain((0..segments).map(|index| LAYOUT.file_offset(index)));
    starts.map(|at| at as usize..at as usize + 64).collect()
}

/// Returns a log of three segments that were used again and again, one of which is free, and the words that
/// the log's records store.
fn used() -> (Log, BTreeMap<u64, u64>) {
    let mut log = Log::new(3);
    let one = |number: u64| content(&vec![(number * 40, 30)], number);
    let (mut number, mut folded) = (0, 0);
    while LAYOUT.sequence(log.buffer.end_position()) < 6 {
        log.append(&one(number));
        number += 1;
        if log.buffer.free_segments() == 0 {
            log.checkpoint();
            folded = number;
        }
    }
    log.write();
    (log, model((folded..number).map(one).collect::<Vec<_>>().iter()))
}

proptest! {
    /// With any damage to first lines and marks, the log can be read, and has only words that were once
    /// appended.
    #[test]
    fn no_head_or_mark_is_too_strange(
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0usize..8, prop_oneof![
            any::<u64>(),
            Just(u64::MAX),
            Just(u64::MAX / LAYOUT.segment),
            Just(u64::MAX / LAYOUT.segment + 1),
            0u64..20,
        ], any::<bool>()), 1..6),
    ) {
        let (log, _) = used();
        let heads = heads(3);
        for (head, word, value, sealed) in damage {
            let head = heads[head.index(heads.len())].clone();
            let mut file = log.file.0.lock().unwrap();
            file[head.start + word * 8..][..8].copy_from_slice(&value.to_le_bytes());
            let words: Vec<u64> =
                file[head.clone()]
                    .chunks(8)
                    .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
                    .collect();
            if sealed {
                // The damaged words get a valid checksum, as from a program that knows the salt.
                let position = if (head.start as u64) < super::format::HEAD {
                    u64::MAX
                } else {
                    words[1].wrapping_mul(LAYOUT.segment)
                };
                let mut words = words;
                log.seed.seal(position, &mut words);
                file[head].copy_from_slice(bytes(&words));
            }
        }
        let (heap, _) = log.replay();
        // Only words that were once appended are found.
        prop_assert!(heap.iter().all(|(at, word)| word >> 20 == (at - HEADER_SIZE) / 8));
    }

    /// With any damage to the head except its first word and half of the uuid, also if its checksum is right:
    /// the file is not a log, or can be read as a log.
    #[test]
    fn no_beginning_of_a_file_is_too_strange(
        words in prop::collection::vec(
            prop_oneof![any::<u64>(), 0u64..9, Just(u64::MAX), Just(LAYOUT.segment), Just(1 << 63)],
            6,
        ),
        sealed in any::<bool>(),
    ) {
        let (log, _) = used();
        let mut head: [u64; 8] = std::array::from_fn(|i| {
            u64::from_le_bytes(log.file.0.lock().unwrap()[i * 8..][..8].try_into().unwrap())
        });
        head[1..7].copy_from_slice(&words);
        head[2] = LAYOUT.uuid as u64;
        if sealed {
            head[7] = xxhash_rust::xxh3::xxh3_64(bytes(&head[..7]));
        }
        log.file.0.lock().unwrap()[..64].copy_from_slice(bytes(&head));
        if let Head::Log(layout) = read_head(&log.file).unwrap() {
            read_all(&log.file, layout, ChecksumSeed::new(99, layout)).unwrap();
        }
    }
}

#[test]
fn damaged_heads_of_free_segments_and_one_damaged_mark_change_nothing() {
    let (log, whole) = used();
    assert_eq!(log.replay().0, whole);
    let free = heads(3).into_iter().skip(MARKS.len()).find(|head| {
        let file = log.file.0.lock().unwrap();
        let sequence = u64::from_le_bytes(file[head.start + 8..][..8].try_into().unwrap());
        !log.buffer.live().iter().any(|live| live.sequence == sequence)
    });
    let free = free.expect("a segment is free");
    let good = log.file.0.lock().unwrap().clone();
    for sequence in (0..9).chain([u64::MAX, u64::MAX / LAYOUT.segment, u64::MAX / LAYOUT.segment + 1]) {
        log.file.0.lock().unwrap()[free.start + 8..][..8].copy_from_slice(&sequence.to_le_bytes());
        assert_eq!(log.replay().0, whole, "{sequence}");
    }
    *log.file.0.lock().unwrap() = good;
}

/// Marks are written in turns, so one of them is whole when the power fails.
#[test]
fn a_torn_mark_leaves_the_other_one() {
    let mut log = Log::new(4);
    let one = |number: u64| content(&vec![(number * 40, 30)], number);
    let mut number = 0;
    for mark in [0, 1] {
        while LAYOUT.sequence(log.buffer.end_position()) < 2 + 2 * mark {
            log.append(&one(number));
            number += 1;
        }
        log.write();
        let end = log.buffer.end_position();
        (&log.file as &dyn Storage)
            .write_all(bytes(&super::tests::mark(end, log.seed)), MARKS[mark as usize])
            .unwrap();
        if mark == 0 {
            log.buffer.recycle(end);
        }
    }
    let folded = number;
    log.append(&one(number));
    log.write();
    assert_eq!(log.replay().1, 1, "the newer mark counts");
    log.file.0.lock().unwrap()[MARKS[1] as usize] ^= 1;
    let (heap, found) = log.replay();
    assert!(found > 1 && heap.contains_key(&one(folded)[0].0), "without it, the older one does");
}

/// A log that keeps a copy of itself from the middle of `shows_writes`.
#[derive(Debug, Default)]
struct Tried {
    log: InMemory,
    amid: Mutex<Vec<u8>>,
}

impl Storage for Tried {
    fn read_some(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        self.log.read_some(buf, at)
    }

    fn write_some(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.log.write_some(bytes, at)
    }

    fn sync_now(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.log.len()
    }

    fn extend_now(&self, from: u64, to: u64) -> io::Result<()> {
        self.log.extend_now(from, to)
    }

    fn id(&self) -> FileId {
        self.log.id()
    }

    fn shows_writes(&self, at: u64) -> io::Result<bool> {
        self.log.write_some(&4u64.to_le_bytes(), at)?;
        self.amid.lock().unwrap().clone_from(&self.log.0.lock().unwrap());
        self.log.write_some(&[0; 8], at)?;
        Ok(true)
    }
}

/// A program is killed in the test of a new log's mapping. The opening then finds a closed heap and an unused
/// log.
#[test]
fn what_is_left_of_trying_out_a_log_is_none() {
    let of = WalIdentity {
        uuid: LAYOUT.uuid,
        salt: 99,
        id: 3,
        nonce: 5,
        in_use: false,
        mapped: 1 << 20,
        reserved: 1 << 30,
    };
    let (log_limit, memory_limit, unsynced_limit) = (1 << 20, 1 << 20, 1 << 20);
    let settings = WalSettings { policy: SyncPolicy::EveryCommit, log_limit, memory_limit, unsynced_limit };
    let tried = Arc::<Tried>::default();
    let disk = TestDisk::new(Arc::<InMemory>::default(), tried.clone());
    drop(Wal::begun(disk.clone(), of, settings).unwrap());
    let whole = tried.log.0.lock().unwrap().clone();
    let amid = std::mem::take(&mut *tried.amid.lock().unwrap());
    assert!(!amid.is_empty());
    // The log's file is as it was when the program was killed, or has some words of the head, which the disk
    // may have before the rest.
    let rest = &amid[LAYOUT.to_bytes().len()..];
    for words in 0u32..256 {
        let mut head = whole[..whole.len() - rest.len()].to_vec();
        (0..8).filter(|word| words >> word & 1 == 0).for_each(|word| head[word * 8..][..8].fill(0));
        *tried.log.0.lock().unwrap() = [&head, rest].concat();
        let read = WalTail::read(&*disk, &of).map(|tail| tail.transactions());
        assert!(matches!(read, Ok(0)), "{words:#b}: {read:?}");
    }
    for left in [whole, amid] {
        *tried.log.0.lock().unwrap() = left;
        assert_eq!(WalTail::read(&*disk, &of).unwrap().transactions(), 0);
    }
}
