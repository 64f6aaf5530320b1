//! Tests: the heap's file is copied while checkpoints write to it, and a stream of records makes one state of
//! the copy.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use super::stream::{RecordStream, records};
use super::tests::{InMemory, TestDisk};
use super::{SyncPolicy, Wal, WalIdentity, WalSettings};
use crate::log::{Range, ranges};
use crate::os::cpu::bytes;
use crate::os::storage::{FileId, Storage};
use crate::units::{HEADER_SIZE, PAGE};

const WORDS: usize = 10 * PAGE as usize / 8;
const END: usize = HEADER_SIZE as usize + WORDS * 8;
/// Bytes of the heap's file that the copier reads at once. Most writes are longer, so the copy may be torn.
const PIECE: usize = 512;

#[derive(Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % n as u64) as usize
    }
}

/// Copies the heap's file, step by step.
#[derive(Debug)]
struct Copier {
    random: Random,
    stream: RecordStream,
    /// Numbers of the pieces of the file that were not read yet.
    left: Vec<usize>,
    copy: Vec<u8>,
}

impl Copier {
    fn begin(wal: &Arc<Wal>, mut random: Random) -> Copier {
        let most = [0, 3000, 1 << 20][random.below(3)];
        let stream = wal.stream_with(Box::new(tempfile::tempfile), most).unwrap();
        let left = (HEADER_SIZE as usize / PIECE..END / PIECE).collect();
        Copier { random, stream, left, copy: vec![0; END] }
    }

    /// Reads a piece of the file, or takes records. Returns whether there was something to do.
    fn step(&mut self, file: &InMemory) -> bool {
        if !self.left.is_empty() && self.random.below(20) > 0 {
            let piece = self.left.swap_remove(self.random.below(self.left.len())) * PIECE;
            let mut now = [0; PIECE];
            (file as &dyn Storage).read_up_to(&mut now, piece as u64).unwrap();
            self.copy[piece..piece + PIECE].copy_from_slice(&now);
            return true;
        }
        let words = self.stream.take_records().unwrap();
        assert_eq!(records(&words).map(<[u64]>::len).sum::<usize>(), words.len());
        for range in records(&words).flat_map(ranges) {
            self.copy[range.offset as usize..range.end() as usize].copy_from_slice(bytes(range.words));
        }
        !words.is_empty()
    }
}

/// The heap's file. Each write and each sync lets the copier make a few steps, or none.
#[derive(Debug)]
struct Data {
    file: InMemory,
    random: Mutex<Random>,
    copier: Mutex<Option<Copier>>,
}

impl Data {
    fn steps(&self, most: usize) {
        let n = self.random.lock().unwrap().below(most);
        if let Some(copier) = &mut *self.copier.lock().unwrap() {
            for _ in 0..n {
                copier.step(&self.file);
            }
        }
    }
}

impl Storage for Data {
    fn read_some(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_some(buf, at)
    }

    fn write_some(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let n = bytes.len().min(8 + 8 * self.random.lock().unwrap().below(400));
        self.file.write_some(&bytes[..n], at)?;
        self.steps(4);
        Ok(n)
    }

    fn sync_now(&self) -> io::Result<()> {
        self.steps(4);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn extend_now(&self, from: u64, to: u64) -> io::Result<()> {
        self.file.extend_now(from, to)
    }

    fn id(&self) -> FileId {
        FileId { device: 0, inode: 0 }
    }
}

/// A log of a small heap, and all states that the heap has had, by the position behind the record that made
/// the state.
struct World {
    data: Arc<Data>,
    wal: Arc<Wal>,
    random: Random,
    state: Vec<u64>,
    states: BTreeMap<u64, Vec<u64>>,
    number: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let random = || Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let data = Data { file: InMemory::default(), random: Mutex::new(random()), copier: Mutex::new(None) };
        let data = Arc::new(data);
        let files = TestDisk::new(data.clone(), Arc::<InMemory>::default());
        let (mapped, reserved) = (1 << 20, 1 << 30);
        let of = WalIdentity { uuid: 7, salt: 99, id: 3, nonce: 5, in_use: false, mapped, reserved };
        let (log_limit, memory_limit, unsynced_limit) = (256 << 10, 1 << 20, 1 << 20);
        let policy = SyncPolicy::OnDemand;
        let settings = WalSettings { policy, log_limit, memory_limit, unsynced_limit };
        let wal = Wal::begun(files, of, settings).unwrap();
        World { data, wal, random: random(), state: vec![0; WORDS], states: BTreeMap::new(), number: 0 }
    }

    /// Appends a transaction. If the log has no room and may not grow, this makes a checkpoint.
    fn append(&mut self) {
        let mut content = Vec::new();
        for _ in 0..=self.random.below(4) {
            let most = [10, 100, 3000][self.random.below(3)];
            let len = 1 + self.random.below(most);
            let at = self.random.below(WORDS - len);
            self.number += 1;
            self.state[at..at + len].fill(self.number);
            content.push((HEADER_SIZE + at as u64 * 8, vec![self.number; len]));
        }
        let words = content.iter().map(|(_, words)| words.len() + 1).sum();
        let ranges = content.iter().map(|(offset, words)| Range { offset: *offset, words });
        let positions = self.wal.append(words, ranges, false).unwrap();
        self.states.insert(positions.end, self.state.clone());
    }

    fn change(&mut self) {
        for _ in 0..self.random.below(12) {
            match self.random.below(6) {
                0 => self.wal.checkpoint(|| {}).unwrap(),
                _ => self.append(),
            }
            self.data.steps(8);
        }
    }
}

#[test]
fn a_copy_is_one_state() {
    for seed in 0..400 {
        let mut world = World::new(seed);
        world.change();
        let copier = Copier::begin(&world.wal, Random(seed));
        *world.data.copier.lock().unwrap() = Some(copier);
        let is_left = |world: &World| {
            world.data.copier.lock().unwrap().as_ref().is_some_and(|copier| !copier.left.is_empty())
        };
        while is_left(&world) {
            world.change();
        }
        world.wal.checkpoint(|| {}).unwrap();
        let mut copier = world.data.copier.lock().unwrap().take().unwrap();
        copier.stream.end_stream();
        let end = world.wal.state.lock().folded;
        assert!(world.wal.folded.lock().streams.is_empty());
        // These changes come after the end of the stream, so they must not be in the copy.
        world.change();
        while copier.step(&world.data.file) {}
        let empty = vec![0; WORDS];
        let expected = world.states.get(&end).unwrap_or(&empty);
        assert!(copier.copy[HEADER_SIZE as usize..] == *bytes(expected), "seed {seed}");
    }
}

#[test]
fn records_that_cannot_be_kept_are_an_error_of_the_stream_alone() {
    let mut world = World::new(1);
    let full = || Err(io::Error::from_raw_os_error(libc::ENOSPC));
    let stream = world.wal.stream_with(Box::new(full), 100).unwrap();
    (0..20).for_each(|_| world.append());
    world.wal.checkpoint(|| {}).unwrap();
    for _ in 0..2 {
        assert_eq!(stream.take_records().unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    }
    (0..20).for_each(|_| world.append());
    world.wal.checkpoint(|| {}).unwrap();
}
