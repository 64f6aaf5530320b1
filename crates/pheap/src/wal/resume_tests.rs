//! Tests: logs that go on after crashes, again and again.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::format::HEAD;
use super::tests::{InMemory, LAYOUT, Ranges, TestDisk, content, model, some_ranges};
use super::{LogBeginning, SyncPolicy, Wal, WalIdentity, WalSettings, WalTail, fold_tail};
use crate::error::{Error, Result};
use crate::log::{Range, ranges};
use crate::os::storage::{Disk, FileId, Storage};
use crate::units::HEADER_SIZE;

const SECTOR: usize = 512;

/// A file of which, after a power failure, the disk has everything that was synced, and any of the sectors
/// that were written since.
#[derive(Debug, Default)]
struct Cut {
    now: InMemory,
    synced: Mutex<Vec<u8>>,
    /// Number of syncs that still succeed, `None` for all. The power fails at the next one.
    ends: Mutex<Option<usize>>,
    full: AtomicBool,
}

impl Cut {
    /// Makes the power fail. `keep` decides of each newer sector whether the disk has it.
    fn cut(&self, mut keep: impl FnMut() -> bool) {
        let (mut now, mut synced) = (self.now.0.lock().unwrap(), self.synced.lock().unwrap());
        if let Some(behind) = synced.get(now.len()..)
            && !behind.is_empty()
            && !keep()
        {
            // The file was made shorter, but the disk still has the longer one, or half of the rest.
            let kept = if keep() { behind.len() } else { (behind.len() / 2).next_multiple_of(SECTOR) };
            now.extend_from_slice(&behind[..kept.min(behind.len())]);
        }
        if now.len() > synced.len() && !keep() {
            // The file was made longer, but the disk has only half of the new part.
            let half = synced.len().midpoint(now.len()).next_multiple_of(SECTOR);
            now.truncate(half);
        }
        synced.resize(now.len(), 0);
        for (new, old) in now.chunks_mut(SECTOR).zip(synced.chunks(SECTOR)) {
            if new != old && !keep() {
                new.copy_from_slice(old);
            }
        }
        synced.clone_from(&now);
    }
}

impl Storage for Cut {
    fn read_some(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        self.now.read_some(buf, at)
    }

    fn write_some(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.now.write_some(bytes, at)
    }

    fn sync_now(&self) -> io::Result<()> {
        if let Some(left) = &mut *self.ends.lock().unwrap() {
            *left = left.checked_sub(1).ok_or(io::ErrorKind::Other)?;
        }
        self.synced.lock().unwrap().clone_from(&self.now.0.lock().unwrap());
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.now.len()
    }

    fn extend_now(&self, from: u64, to: u64) -> io::Result<()> {
        if self.full.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        self.now.extend_now(from, to)
    }

    fn cut_off(&self, to: u64) -> io::Result<()> {
        self.now.cut_off(to)
    }

    fn id(&self) -> FileId {
        self.now.id()
    }
}

/// A disk with a heap's file, which loses nothing in a power failure, and a log.
type Files = TestDisk<InMemory, Cut>;

pub(super) const SETTINGS: WalSettings = WalSettings {
    policy: SyncPolicy::EveryCommit,
    log_limit: 512 << 10,
    memory_limit: 1 << 30,
    unsynced_limit: 1 << 20,
};

pub(super) fn of(nonce: u64, id: u64, in_use: bool) -> WalIdentity {
    WalIdentity { uuid: LAYOUT.uuid, salt: 99, id, nonce, in_use, mapped: 1 << 21, reserved: 1 << 30 }
}

fn append(wal: &Wal, content: &[(u64, Vec<u64>)]) {
    let words = content.iter().map(|(_, words)| words.len() + 1).sum();
    wal.append(words, content.iter().map(|(offset, words)| Range { offset: *offset, words }), false).unwrap();
}

/// Returns the words of the heap after a replay.
fn replayed(files: &Files, tail: &WalTail) -> BTreeMap<u64, u64> {
    let data = files.data.0.lock().unwrap();
    let words = data.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let mut heap: BTreeMap<u64, u64> =
        (0..).step_by(8).zip(words).filter(|&(at, word)| at >= HEADER_SIZE && word != 0).collect();
    let read = tail.each_record(|record| {
        for range in ranges(record) {
            heap.extend((range.offset..).step_by(8).zip(range.words.iter().copied()));
        }
        Ok(())
    });
    read.unwrap();
    heap
}

/// A step of a run of the log, before the run is cut short.
#[derive(Debug, Clone)]
enum Step {
    Commit(Ranges),
    Sync,
    Write,
    Checkpoint,
    CutDown,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => some_ranges().prop_map(Step::Commit),
        2 => Just(Step::Sync),
        2 => Just(Step::Write),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::CutDown),
    ];
    prop::collection::vec(step, 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each run finds everything that was synced, and a prefix of the rest; and what was not found never
    /// comes back. A run ends by a kill or a power failure, and an opening may end by a power failure at one
    /// of its syncs.
    #[test]
    fn runs_that_are_cut_short_lose_nothing(
        runs in prop::collection::vec((steps(), any::<bool>(), any::<bool>(), 0usize..4), 1..8),
        choices in prop::collection::vec(any::<bool>(), 1..100),
    ) {
        let files = Arc::new(Files::default());
        let disk: Arc<dyn Disk> = files.clone();
        let mut choices = choices.into_iter().cycle();
        let mut wal = Wal::begun(disk.clone(), of(0, 2, false), SETTINGS).unwrap();
        let mut header = of(wal.nonce(), wal.id(), true);
        // The transactions in the heap. `synced` below counts those that were synced.
        let mut all: Vec<Vec<(u64, Vec<u64>)>> = Vec::new();
        let mut number = 0;
        for (steps, is_named, mut is_killed, syncs) in runs {
            // If the run is not named, it was cut short before the header named it, and has no steps.
            if is_named {
                header.nonce = wal.nonce();
            }
            let mut synced = all.len();
            for step in steps.into_iter().filter(|_| is_named) {
                match step {
                    Step::Commit(ranges) => {
                        number += 1;
                        all.push(content(&ranges, number));
                        append(&wal, all.last().unwrap());
                    }
                    Step::Sync => {
                        wal.sync().unwrap();
                        synced = all.len();
                    }
                    Step::Write => wal.write_at_once(&mut wal.state.lock()),
                    Step::Checkpoint => {
                        wal.checkpoint(|| {}).unwrap();
                        synced = all.len();
                    }
                    Step::CutDown => {
                        // This call does nothing if there are records for a checkpoint.
                        wal.cut_down().unwrap();
                        wal.checkpoint(|| {}).unwrap();
                        synced = all.len();
                        wal.cut_down().unwrap();
                        // The file may be longer than two segments: a power failure may have left a part of a
                        // third one.
                        prop_assert!(files.log.len().unwrap() < HEAD + 3 * SETTINGS.segment());
                    }
                }
            }
            drop(wal);
            let mut ends = Some(syncs);
            wal = loop {
                if !is_killed {
                    files.log.cut(|| choices.next().unwrap());
                }
                let tail = WalTail::read(&*disk, &header).unwrap();
                let heap = replayed(&files, &tail);
                let found = (synced..=all.len()).find(|&found| model(all[..found].iter()) == heap);
                prop_assert!(found.is_some(), "{} of {} synced", synced, all.len());
                all.truncate(found.unwrap());
                *files.log.ends.lock().unwrap() = ends;
                let resumed = Wal::resume(&disk, &header, SETTINGS, &tail);
                *files.log.ends.lock().unwrap() = None;
                match resumed {
                    Ok(Some(wal)) => break wal,
                    // The log cannot go on, because it is too long.
                    Ok(None) => return Ok(()),
                    Err(e) => prop_assert!(ends.take().is_some_and(|syncs| syncs < 2), "{e}"),
                }
                is_killed = false;
            };
        }
    }
}

/// The heap cannot go on with a copy of its log from an earlier time.
#[test]
fn a_copy_of_the_log_from_an_earlier_run_is_foreign() {
    let files = Arc::new(Files::default());
    let disk: Arc<dyn Disk> = files.clone();
    let wal = Wal::begun(disk.clone(), of(0, 2, false), SETTINGS).unwrap();
    let first = of(wal.nonce(), wal.id(), true);
    append(&wal, &content(&vec![(5, 5)], 1));
    wal.sync().unwrap();
    let copy = files.log.now.0.lock().unwrap().clone();
    let read = |of: &WalIdentity| WalTail::read(&*disk, of).map(|tail| tail.transactions());
    let resume = |of: &WalIdentity| -> Result<Arc<Wal>> {
        Ok(Wal::resume(&disk, of, SETTINGS, &WalTail::read(&*disk, of)?)?.unwrap())
    };
    let second = of(resume(&first).unwrap().nonce(), first.id, true);
    // Until there is a checkpoint, the header may name the newest run or the one before.
    assert_eq!((read(&first).unwrap(), read(&second).unwrap()), (1, 1));
    let wal = resume(&second).unwrap();
    let third = of(wal.nonce(), first.id, true);
    assert!(matches!(read(&first), Err(Error::ForeignLog { .. })));
    assert_eq!((read(&second).unwrap(), read(&third).unwrap()), (1, 1));
    wal.checkpoint(|| {}).unwrap();
    assert!(matches!(read(&second), Err(Error::ForeignLog { .. })));
    assert_eq!(read(&third).unwrap(), 0);
    *files.log.now.0.lock().unwrap() = copy;
    assert!(matches!(read(&third), Err(Error::ForeignLog { .. })));
}

/// A log does not go on with segments of another size, nor if it would need one more segment, and the disk is
/// full.
#[test]
fn a_log_does_not_go_on_where_it_cannot() {
    let files = Arc::new(Files::default());
    let disk: Arc<dyn Disk> = files.clone();
    let wal = Wal::begun(disk.clone(), of(0, 2, false), SETTINGS).unwrap();
    let header = of(wal.nonce(), wal.id(), true);
    let tail = WalTail::read(&*disk, &header).unwrap();
    let longer = WalSettings { log_limit: 64 << 20, ..SETTINGS };
    let before = files.log.now.0.lock().unwrap().clone();
    assert!(Wal::resume(&disk, &header, longer, &tail).unwrap().is_none());
    assert!(*files.log.now.0.lock().unwrap() == before);
    files.log.full.store(true, Ordering::Relaxed);
    let wal = Wal::resume(&disk, &header, SETTINGS, &tail).unwrap().unwrap();
    append(&wal, &content(&vec![(5, 5)], 1));
    wal.sync().unwrap();
    let before = files.log.now.0.lock().unwrap().clone();
    let tail = WalTail::read(&*disk, &header).unwrap();
    assert!(Wal::resume(&disk, &header, SETTINGS, &tail).unwrap().is_none());
    assert!(*files.log.now.0.lock().unwrap() == before);
    files.log.full.store(false, Ordering::Relaxed);
    assert!(Wal::resume(&disk, &header, SETTINGS, &tail).unwrap().is_some());
}

/// A power failure takes the first records behind the mark, and leaves first lines of later segments. The log
/// that goes on there is cut down only behind another mark: otherwise, if the power fails while the disk has
/// the file shorter only in part, the next opening would miss what those lines tell of.
#[test]
fn a_log_that_has_lost_records_is_cut_down_behind_a_new_mark() {
    let files = Arc::new(Files::default());
    let disk: Arc<dyn Disk> = files.clone();
    let wal = Wal::begun(disk.clone(), of(0, 2, false), SETTINGS).unwrap();
    append(&wal, &content(&vec![(5, 5)], 1));
    wal.checkpoint(|| {}).unwrap();
    let header = of(wal.nonce(), wal.id(), true);
    let before = files.log.now.0.lock().unwrap().clone();
    append(&wal, &[(HEADER_SIZE, vec![1; 20_000])]);
    wal.write_at_once(&mut wal.state.lock());
    drop(wal);
    let mut now = files.log.now.0.lock().unwrap();
    let first = now.iter().zip(&before).position(|(new, old)| new != old).unwrap() / SECTOR * SECTOR;
    now[first..first + SECTOR].copy_from_slice(&before[first..first + SECTOR]);
    drop(now);
    let tail = WalTail::read(&*disk, &header).unwrap();
    assert_eq!(tail.transactions(), 0);
    let wal = Wal::resume(&disk, &header, SETTINGS, &tail).unwrap().unwrap();
    let header = of(wal.nonce(), wal.id(), true);
    wal.checkpoint(|| {}).unwrap();
    let long = files.log.now.0.lock().unwrap().clone();
    wal.cut_down().unwrap();
    drop(wal);
    let short = files.log.now.0.lock().unwrap().clone();
    assert!(short.len() < long.len());
    for len in (short.len()..=long.len()).step_by(SECTOR) {
        *files.log.now.0.lock().unwrap() = [&short, &long[short.len()..len]].concat();
        let tail = WalTail::read(&*disk, &header).unwrap_or_else(|error| panic!("{len} bytes: {error}"));
        assert_eq!(tail.transactions(), 0);
    }
}

/// If a program is always killed soon after it has opened the heap, no run makes a checkpoint. At some
/// length, an opening brings the log to the heap's file instead of going on with it.
#[test]
fn a_log_that_goes_on_again_and_again_has_a_limit() {
    let files = Arc::new(Files::default());
    let disk: Arc<dyn Disk> = files.clone();
    let mut wal = Wal::begun(disk.clone(), of(0, 2, false), SETTINGS).unwrap();
    let mut runs = 0;
    loop {
        runs += 1;
        append(&wal, &content(&vec![(runs, 5)], runs));
        wal.sync().unwrap();
        let header = of(wal.nonce(), wal.id(), true);
        drop(wal);
        let tail = WalTail::read(&*disk, &header).unwrap();
        assert_eq!(tail.transactions(), runs);
        let Some(next) = Wal::resume(&disk, &header, SETTINGS, &tail).unwrap() else { break };
        wal = next;
        assert!(files.log.len().unwrap() <= SETTINGS.log_limit + 3 * SETTINGS.segment(), "{runs} runs");
    }
    assert!(runs * SETTINGS.segment() >= SETTINGS.log_limit / 2, "only {runs} runs");
}

/// A sync has failed, and while the heap is being opened, the page cache forgets the records that the sync
/// should have written. Records of a new run behind that gap would not be found, so this opening fails with
/// an error. The next opening finds only the records before the gap, and goes on with the log behind them.
#[test]
fn what_is_gone_since_it_was_read_is_not_gone_on_with() {
    for checkpoint in [false, true] {
        let files = Arc::new(Files::default());
        let disk: Arc<dyn Disk> = files.clone();
        let wal = Wal::begun(disk.clone(), of(0, 2, false), SETTINGS).unwrap();
        let header = of(wal.nonce(), wal.id(), true);
        append(&wal, &content(&vec![(5, 5)], 1));
        wal.sync().unwrap();
        let disk_has = files.log.now.0.lock().unwrap().clone();
        append(&wal, &content(&vec![(50, 5)], 2));
        wal.write_at_once(&mut wal.state.lock());
        if checkpoint {
            wal.checkpoint(|| {}).unwrap();
        }
        drop(wal);
        let read = || WalTail::read(&*disk, &header).unwrap();
        let tail = read();
        *files.log.now.0.lock().unwrap() = disk_has;
        assert!(matches!(Wal::resume(&disk, &header, SETTINGS, &tail), Err(Error::Io { .. })));
        if !checkpoint {
            let data = files.data.0.lock().unwrap().clone();
            fold_tail(&*disk, &tail, header.salt, 1 << 20).unwrap_err();
            assert!(*files.data.0.lock().unwrap() == data, "a part of a transaction may be there");
        }
        assert_eq!(read().transactions(), 1);
        assert!(Wal::resume(&disk, &header, SETTINGS, &read()).unwrap().is_some());
    }
}

/// Returns the file of a closed heap, which is not empty, and its log, which has not begun.
fn later(torn: Option<(usize, u64)>) -> (Arc<Cut>, Arc<Wal>) {
    let (data, log) = (Arc::new(Cut::default()), Arc::new(Cut::default()));
    (&*data as &dyn Storage).write_all(&[7; 100], 0).unwrap();
    let wal = Wal::new(TestDisk::new(data.clone(), log), of(1, 2, false), SETTINGS).unwrap();
    let found = (vec![8; 10], 0);
    wal.will_begin(LogBeginning { headers: [found.clone(), found.clone()], found: Some(found), torn });
    (data, wal)
}

/// A closed heap that is only read may be a copy that was never synced. And the header that was read may be
/// gone from the page cache when the heap is synced.
#[test]
fn what_was_found_is_synced_before_the_log_begins() {
    let (data, wal) = later(None);
    wal.sync().unwrap();
    assert_eq!(*data.synced.lock().unwrap(), [vec![8; 10], vec![7; 90]].concat());
    // The header that was found is written once: another write would need a sync, which would fail.
    *data.ends.lock().unwrap() = Some(0);
    wal.sync().unwrap();
    let (data, wal) = later(None);
    *data.ends.lock().unwrap() = Some(0);
    assert!(matches!(wal.sync(), Err(Error::OutcomeUnknown { .. })));
    assert!(matches!(wal.sync(), Err(Error::Failed { .. })));
}

/// The power fails at the sync of the first header that names the log.
#[test]
fn what_is_left_of_a_torn_header_is_erased_before_the_next_one() {
    let (data, wal) = later(Some((10, 50)));
    *data.ends.lock().unwrap() = Some(2);
    assert!(wal.ensure_log().is_err());
    assert_eq!(*data.synced.lock().unwrap(), [vec![8; 10], vec![7; 40], vec![0; 10], vec![7; 40]].concat());
}

/// A heap that has been closed is not synced any more, because another process may have its file.
#[test]
fn a_heap_that_is_closed_is_not_synced() {
    let (data, wal) = later(None);
    wal.begin_to_close();
    assert!(matches!(wal.sync(), Err(Error::Closed)));
    assert_eq!(*data.now.0.lock().unwrap(), [7; 100]);
}

/// A log that was idle is cut down once, and not again when there is more work.
#[test]
fn a_busy_log_is_not_cut_down() {
    let files = Files::new(Arc::default(), Arc::default());
    let wal = Wal::begun(files, of(1, 2, false), SETTINGS).unwrap();
    let segments = || wal.state.lock().buffer.segments();
    append(&wal, &[(HEADER_SIZE, vec![1; 20_000])]);
    wal.checkpoint(|| {}).unwrap();
    assert!(segments() > 2);
    wal.state.lock().idle = u32::MAX;
    wal.work(|| {}, |()| {});
    assert_eq!(segments(), 2);
    append(&wal, &[(HEADER_SIZE, vec![2; 20_000])]);
    wal.state.lock().fold = true;
    wal.work(|| {}, |()| {});
    assert!(segments() > 2);
}
