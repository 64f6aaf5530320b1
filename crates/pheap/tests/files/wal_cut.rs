//! A user has cut off the log of a heap that was killed, or has damaged it.

use std::fs::{self, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use pheap::{Durability, Error, Heap, Options, Root};
use pheap_testkit::{copy_as_killed, log_of};

/// Bytes of the log's head, and of a segment with the limit below.
const HEAD: u64 = 4096;
const SEGMENT: u64 = 64 << 10;
const COMMITS: u64 = 60;

fn options() -> Options {
    Options::new().durability(Durability::Wal).arena_size(1 << 20).reserve(1 << 32).log_limit(1 << 20)
}

/// A killed heap with a log whose file was used more than once, and a folder for copies of both.
struct Killed {
    folder: tempfile::TempDir,
    heap: PathBuf,
}

impl Killed {
    /// `resumed` tells whether the heap was killed and opened before. All commits are synced.
    fn new(resumed: bool) -> Killed {
        let folder = tempfile::tempdir().unwrap();
        let [first, heap] = ["first", "heap"].map(|name| folder.path().join(name));
        let copy = |to: &Path| {
            copy_as_killed(&first, to);
            fs::copy(log_of(&first), log_of(to)).unwrap();
        };
        let mut open = options().open(&first).unwrap();
        for number in 1..=COMMITS {
            let root: Root<[u64; 1024]> = open.root_or("all", |_| Ok([0; 1024])).unwrap();
            root.txn(|tx, all| {
                tx[all] = [number; 1024];
                Ok(())
            })
            .unwrap();
            if number == 30 {
                open.fold_log().unwrap();
            }
            if resumed && [25, 35, 59].contains(&number) {
                copy(&heap);
                drop((root, open));
                fs::rename(&heap, &first).unwrap();
                fs::rename(log_of(&heap), log_of(&first)).unwrap();
                open = options().open(&first).unwrap();
            }
        }
        copy(&heap);
        Killed { folder, heap }
    }

    fn log(&self) -> Vec<u8> {
        fs::read(log_of(&self.heap)).unwrap()
    }

    /// Opens a copy of the heap with another log. Returns whether everything is there. If not, the opening
    /// was refused and has changed nothing, and everything is there when the whole log is.
    fn has_all(&self, log: &[u8]) -> bool {
        let copy = self.folder.path().join("copy");
        copy_as_killed(&self.heap, &copy);
        let heap = fs::read(&copy).unwrap();
        fs::write(log_of(&copy), log).unwrap();
        let all = |opened: pheap::Result<Heap>| match opened {
            Ok(heap) => {
                let root: Root<[u64; 1024]> = heap.root_or("all", |_| unreachable!()).unwrap();
                Some(root.read(|view, all| view[all]).unwrap() == [COMMITS; 1024])
            }
            Err(Error::Corrupt { .. } | Error::LogMissing { .. } | Error::ForeignLog { .. }) => {
                assert!(fs::read(&copy).unwrap() == heap && fs::read(log_of(&copy)).unwrap() == log);
                None
            }
            Err(error) => panic!("{error}"),
        };
        let followed = all(options().read_only(true).follower(true).open(&copy));
        let opened = all(options().open(&copy));
        assert_ne!(opened, Some(false), "transactions are lost");
        // A follower is not refused for damage: another process may be writing the log.
        assert!(followed == opened || opened.is_none(), "{followed:?}");
        let refused = opened.is_none();
        if refused {
            assert!(self.has_all(&self.log()));
        }
        !refused
    }
}

/// Returns the number of the segment of the newest mark: of more runs, or else of the larger position.
fn number_of_mark(log: &[u8]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(log[at..at + 8].try_into().unwrap());
    [512, 1024].map(|mark| (word(mark + 16), word(mark + 8))).into_iter().max().unwrap().1 / SEGMENT
}

/// Returns the number in each segment's first line, 0 if the segment was never used.
fn numbers(log: &[u8]) -> Vec<u64> {
    let line = |segment: &[u8]| u64::from_le_bytes(segment[8..16].try_into().unwrap());
    log[HEAD as usize..].chunks_exact(SEGMENT as usize).map(line).collect()
}

#[test]
fn a_log_that_was_cut_off_is_refused() {
    for resumed in [false, true] {
        let killed = Killed::new(resumed);
        let log = killed.log();
        let numbers = numbers(&log);
        let used = numbers.iter().rposition(|&number| number > 0).unwrap() as u64 + 1;
        // The log has grown since the file was first used anew.
        assert!(used > 4 && numbers.iter().max() > Some(&used), "{numbers:?}");
        // A cut between two segments leaves a log that a crash may leave.
        // So does a cut in a segment that a crash may have cut off in part, because a mark is behind it. Of
        // the mark's own segment, the first record behind the mark has to be there.
        let mark = number_of_mark(&log);
        let of_mark = numbers.iter().position(|&number| number == mark).unwrap() as u64;
        assert!(of_mark >= 2 && !killed.has_all(&log[..(HEAD + (of_mark + 1) * SEGMENT - 1) as usize]));
        let needed = (0..used).filter(|&place| place < 2 || numbers[place as usize] > mark);
        let within = needed.flat_map(|place| [64, 100, 4096, 10_000, SEGMENT - 1].map(|at| (place, at)));
        let lengths = within.map(|(place, at)| HEAD + place * SEGMENT + at);
        for len in [0, 1, 64, 600, HEAD - 1, HEAD, HEAD + SEGMENT].into_iter().chain(lengths) {
            assert!(!killed.has_all(&log[..len as usize]), "{len} bytes, resumed: {resumed}");
        }
        for len in (HEAD + used * SEGMENT..=log.len() as u64).step_by(9999) {
            assert!(killed.has_all(&log[..len as usize]), "nothing is cut off that was used");
        }
    }
}

#[test]
fn a_log_whose_synced_records_are_damaged_is_refused() {
    for resumed in [false, true] {
        let killed = Killed::new(resumed);
        let log = killed.log();
        let numbers = numbers(&log);
        let newest = *numbers.iter().max().unwrap();
        let damaged = |number: u64, bytes: Range<u64>| {
            let place = numbers.iter().position(|&there| there == number).unwrap() as u64;
            let copy = killed.folder.path().join("damaged");
            fs::write(&copy, &log).unwrap();
            let file = OpenOptions::new().write(true).open(&copy).unwrap();
            let zeros = vec![0; (bytes.end - bytes.start) as usize];
            file.write_all_at(&zeros, HEAD + place * SEGMENT + bytes.start).unwrap();
            fs::read(copy).unwrap()
        };
        for number in newest - 2..newest {
            for bytes in [0..64, 0..SEGMENT, 64..128, 512..1024, 20_000..20_001, 40_000..SEGMENT] {
                let has_all = killed.has_all(&damaged(number, bytes.clone()));
                // A run that was killed may have left few records.
                assert!(!has_all || resumed && bytes.start > 8192, "{number}, {bytes:?}, {resumed}");
            }
        }
    }
}
