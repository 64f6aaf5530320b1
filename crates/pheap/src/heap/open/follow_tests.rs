//! Tests followers, with actions of a writer between their steps. A follower shows one committed state, not
//! older than when the follower began, or that of a heap that has taken the place of the first one.

use std::fs;
use std::path::{Path, PathBuf};

use pheap_testkit::{log_of, tempdir};

use super::follow::follow_beside;
use crate::{Durability, Error, Heap, Options, PVec, Result, Root, SyncPolicy};

/// Number of words in the heap's root. They fill several of the chunks in which a follower copies pages.
const WORDS: usize = 480 << 10;

/// An action of the writer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Commit,
    Checkpoint,
    /// Writes so much that each segment of the log is reused.
    Lap,
    Grow,
    Close,
    Reopen,
    /// The writer is killed, and started again.
    Restart,
    /// The heap is renamed together with its log.
    Rename,
    /// Another heap takes the place of this one.
    Replace,
    Remove,
}

const ALL: [Act; 10] = {
    use Act::*;
    [Commit, Checkpoint, Lap, Grow, Close, Reopen, Restart, Rename, Replace, Remove]
};

fn options() -> Options {
    let options = Options::new().arena_size(1 << 20).reserve(1 << 30).log_limit(128 << 10);
    options.durability(Durability::Wal).sync_policy(SyncPolicy::OnDemand)
}

/// Returns the places and values that the transaction with this number writes: single numbers all over the
/// heap, and some adjacent ones.
fn changes(number: u64) -> impl Iterator<Item = (usize, u64)> {
    let place = move |i: u64| ((number * 7919 + i * 61_441) as usize) % (WORDS - 1) + 1;
    let beside = (0..512).map(move |i| (place(9) + i, number));
    let all = (0..8).map(move |i| (place(i), number * 8 + i)).chain(beside);
    all.filter(|&(place, _)| place < WORDS).chain([(0, number)])
}

/// Returns the state after `count` transactions.
fn state(count: u64) -> Vec<u64> {
    let mut words = vec![0; WORDS];
    (1..=count).flat_map(changes).for_each(|(place, word)| words[place] = word);
    words
}

struct World {
    dir: tempfile::TempDir,
    path: PathBuf,
    heap: Option<Heap>,
    count: u64,
}

impl World {
    fn new(template: &[u8]) -> World {
        let dir = tempdir();
        let path = dir.path().join("heap");
        fs::write(&path, template).unwrap();
        World { heap: Some(options().open(&path).unwrap()), dir, path, count: 0 }
    }

    fn open(&mut self) {
        self.heap = Some(options().open(&self.path).unwrap());
    }

    fn commit(&mut self, times: u64) {
        let root: Root<PVec<u64>> = self.heap.as_ref().unwrap().root("words").unwrap();
        for _ in 0..times {
            self.count += 1;
            root.txn(|tx, words| {
                for (place, word) in changes(self.count) {
                    words.set(tx, place, word);
                }
                Ok(())
            })
            .unwrap();
        }
    }

    fn checkpoint(&mut self, times: u64) {
        for _ in 0..times {
            self.commit(3);
            self.heap.as_ref().unwrap().checkpoint().unwrap();
            self.commit(3);
        }
    }

    fn act(&mut self, act: Act, template: &[u8]) {
        let other = self.dir.path().join("other");
        match act {
            Act::Commit => self.commit(3),
            Act::Checkpoint => self.checkpoint(1),
            Act::Lap => self.checkpoint(8),
            Act::Grow => {
                let name = format!("beside {}", self.count);
                let heap = self.heap.as_ref().unwrap();
                let made = heap.root_or::<PVec<u64>>(&name, |tx| PVec::from_slice(tx, &vec![1; 400 << 10]));
                drop(made.unwrap());
                self.checkpoint(2);
            }
            Act::Close => self.heap.take().unwrap().close().unwrap(),
            Act::Reopen => {
                self.act(Act::Close, template);
                self.open();
                self.checkpoint(2);
            }
            Act::Restart => {
                self.heap.take().unwrap().inner().abandon();
                self.open();
                self.checkpoint(2);
            }
            Act::Rename => {
                fs::rename(log_of(&self.path), log_of(&other)).unwrap();
                fs::rename(&self.path, &other).unwrap();
                self.checkpoint(2);
            }
            Act::Replace => {
                self.act(Act::Rename, template);
                fs::write(&self.path, template).unwrap();
            }
            Act::Remove => fs::remove_file(&self.path).unwrap(),
        }
    }
}

/// Opens a follower, and returns the number of transactions that it shows.
fn seen(path: &Path, meanwhile: &mut dyn FnMut()) -> Result<u64> {
    let heap = follow_beside(&options(), path, meanwhile)?;
    let report = heap.check()?;
    if !report.is_clean() {
        return Err(Error::corrupt(report.to_string()));
    }
    let root = heap.existing_root::<PVec<u64>>("words")?;
    let words = root.read(|view, words| view[words].as_slice(view, ..).to_vec())?;
    let count = words[0];
    if count > 1 << 20 || words != state(count) {
        return Err(Error::corrupt(format!("no state: {count}")));
    }
    Ok(count)
}

fn template() -> Vec<u8> {
    let dir = tempdir();
    let path = dir.path().join("template");
    let heap = options().open(&path).unwrap();
    heap.root_or::<PVec<u64>>("words", |tx| PVec::from_slice(tx, &vec![0; WORDS])).unwrap();
    heap.close().unwrap();
    fs::read(path).unwrap()
}

/// Tries each action of the writer at each step of a follower. Returns the first wrong result as an error.
pub(super) fn explore() -> std::result::Result<(), String> {
    let template = template();
    for act in ALL {
        let mut at = 0;
        loop {
            let mut world = World::new(&template);
            world.commit(20);
            let (path, before, mut step) = (world.path.clone(), world.count, 0);
            let found = seen(&path, &mut || {
                if step == at {
                    world.act(act, &template);
                }
                step += 1;
            });
            let may_be_gone = matches!(act, Act::Rename | Act::Remove);
            let is_good = match &found {
                Ok(0) => act == Act::Replace,
                Ok(count) => (before..=world.count).contains(count),
                Err(Error::Io { source, .. }) => may_be_gone && source.kind() == std::io::ErrorKind::NotFound,
                Err(_) => false,
            };
            if !is_good {
                return Err(format!("{act:?} at {at}: {found:?}, after {before}, of {}", world.count));
            }
            if step <= at {
                break;
            }
            at += 1;
        }
        assert!(at > 5, "there are more steps");
    }
    Ok(())
}

#[test]
fn a_state_is_seen_whatever_happens_meanwhile() {
    explore().unwrap();
}

/// A follower's copy has only a part of a root that is created during the copy; the rest is in the log. That
/// is no damage.
#[test]
fn a_root_that_is_made_meanwhile_is_not_taken_for_one_that_was_lost() {
    let dir = tempdir();
    let path = dir.path().join("heap");
    let options = options().arena_size(4 << 20).log_limit(32 << 20);
    let heap = options.open(&path).unwrap();
    let make = |name: &str, bytes: usize| {
        let words = vec![1; bytes / 8];
        drop(heap.root_or::<PVec<u64>>(name, |tx| PVec::from_slice(tx, &words)).unwrap());
        heap.checkpoint().unwrap();
    };
    // The header of the next root is far behind the span table with its entry, and its elements are in the
    // second arena.
    make("first", 5 << 19);
    make("second", 8 << 20);
    let mut at = 0;
    loop {
        let mut step = 0;
        let seen = follow_beside(&options.clone().verify(true), &path, &mut || {
            if step == at {
                make("third", 2 << 20);
            }
            step += 1;
        });
        if let Err(error) = seen {
            panic!("made at step {at}: {error}");
        }
        if step <= at {
            break;
        }
        heap.remove_root("third").unwrap();
        heap.checkpoint().unwrap();
        at += 1;
    }
    assert!(at > 5, "there are more steps");
}

/// A follower succeeds at its first attempt, as long as the writer does not reuse the whole log between two
/// steps of the follower.
#[test]
fn a_writer_that_never_stops_is_followed_at_once() {
    let template = template();
    let mut world = World::new(&template);
    world.checkpoint(1); // without a commit, the header would still say closed
    let (path, mut steps) = (world.path.clone(), [0; 2]);
    seen(&path, &mut || steps[0] += 1).unwrap();
    let found = seen(&path, &mut || {
        steps[1] += 1;
        world.checkpoint(1);
    });
    assert!((1..=world.count).contains(&found.unwrap()) && steps[0] == steps[1], "{steps:?}");
}

#[test]
fn one_that_is_too_fast_is_given_up() {
    let template = template();
    let mut world = World::new(&template);
    let path = world.path.clone();
    let found = seen(&path, &mut || world.act(Act::Lap, &template));
    assert!(matches!(found, Err(Error::Overtaken { tries: 16, .. })), "{found:?}");
    assert_eq!(seen(&path, &mut || {}).unwrap(), world.count);
}

/// A heap is being prepared for a log when its follower comes, and is open with the log a moment later.
#[test]
fn a_heap_that_is_being_prepared_is_waited_for() {
    let dir = tempdir();
    let path = dir.path().join("heap");
    options().open(&path).unwrap().root_or::<u64>("number", |_| Ok(7)).unwrap();
    let closed = fs::read(&path).unwrap();
    let mut prepared = closed.clone();
    for slot in [0, 4096] {
        pheap_testkit::patch_header(&mut prepared, slot, 16, 4);
    }
    fs::write(&path, &prepared).unwrap();
    let mut looks = 0;
    let followed = follow_beside(&options().follower(true), &path, &mut || {
        looks += 1;
        if looks == 3 {
            fs::write(&path, &closed).unwrap();
        }
    });
    let number = followed.unwrap().existing_root::<u64>("number").unwrap();
    assert_eq!(number.read(|view, n| view[n]).unwrap(), 7);
    // If a heap stays marked as being prepared, the process that prepared it was killed.
    fs::write(&path, &prepared).unwrap();
    let refused = options().follower(true).open(&path);
    assert!(matches!(refused, Err(Error::NotFollowed { .. })), "{refused:?}");
}
