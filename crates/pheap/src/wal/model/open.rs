//! A log that is mapped, to which threads append without its mutex, beside all that closes it.

use std::sync::Arc;

use super::{Log, Program};
use crate::error::{Error, Result};
use crate::log::{Kind, Staged, head};
use crate::sync::model::{Seed, explore, failure};
use crate::sync::{Mistake, Mutex};
use crate::units::LINE_WORDS;
use crate::wal::SyncPolicy;
use crate::wal::format::LEAST;

impl Log {
    /// That is open.
    fn open() -> Log {
        let log = Log::new(SyncPolicy::OnDemand, true);
        log.adds(3, 9).expect("there is room");
        log
    }

    /// Appends an entry as a transaction does.
    fn append_entry(&self, thread: u64, words: &[u64]) -> Result<u64> {
        let mut staged = Staged::default();
        staged.begin(Kind::Redo);
        staged.words.push(head(Log::place(thread), words.len()));
        staged.words.extend_from_slice(words);
        Ok(self.wal.append_staged(&mut staged)?.end)
    }

    /// A transaction that stores a number, and is lost only if the power fails.
    fn adds(&self, thread: u64, number: u64) -> Result<u64> {
        let position = self.append_entry(thread, &[number])?;
        self.wal.acknowledge(position)?;
        assert_eq!(self.survives_kill(thread), Some(number), "acknowledged, but not in the file");
        Ok(position)
    }

    fn add(&self, thread: u64, number: u64) {
        self.adds(thread, number).expect("the disk is fine");
    }
}

fn two_append() {
    let log = Log::open();
    let other = log.spawn(|log| log.add(1, 1));
    log.add(0, 1);
    log.add(0, 2);
    other.join().unwrap();
    assert_eq!([0, 1, 3].map(|thread| log.survives_kill(thread)), [Some(2), Some(1), Some(9)]);
}

fn three_append() {
    let log = Log::open();
    let others = [1, 2].map(|thread| log.spawn(move |log| log.add(thread, 1)));
    log.add(0, 1);
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!([0, 1, 2].map(|thread| log.survives_kill(thread)), [Some(1); 3]);
}

/// Two threads append, and one of them syncs.
fn beside_a_sync() {
    let log = Log::open();
    let other = log.spawn(|log| {
        let position = log.adds(1, 1).expect("the disk is fine");
        if log.wal.is_durable(position) {
            assert_eq!(log.durable(1), 1, "said to be durable");
        }
    });
    log.add(0, 1);
    log.wal.sync().expect("the disk is fine");
    assert_eq!(log.durable(0), 1);
    other.join().unwrap();
    log.add(0, 2);
    log.wal.sync().expect("the disk is fine");
    assert_eq!([log.durable(0), log.durable(1)], [2, 1]);
}

/// What a page has that no record of this epoch changes is in the heap's file once the checkpoint is complete: the page may be given back.
fn beside_a_checkpoint() {
    let log = Log::open();
    // What is in memory, with the lock of the region.
    let region = Arc::new(Mutex::new(0));
    let (memory, changed) = (region.clone(), region);
    let other = log.spawn(move |log| {
        for number in 1..=2 {
            let mut memory = changed.lock();
            log.append_entry(1, &[number]).expect("there is room");
            *memory = number;
        }
    });
    let look = || {
        let memory = memory.lock();
        if log.wal.pages.is_old(Log::place(1)) {
            assert_eq!(log.disk.after_power_cut().0.word(Log::place(1)), *memory, "given back");
        }
    };
    log.wal.checkpoint(|| {}).expect("the disk is fine");
    log.add(0, 1); // opens the log, in the next epoch
    look();
    other.join().unwrap();
    log.wal.checkpoint(look).expect("the disk is fine");
    assert_eq!(log.disk.after_power_cut().0.word(Log::place(1)), 2);
}

/// Nobody is told that a commit is good after the log has failed.
fn fails() {
    let log = Log::open();
    let other = log.spawn(|log| {
        for number in 1..=2 {
            match log.adds(1, number) {
                Ok(_) => {}
                Err(Error::Failed { .. }) => return assert!(log.wal.failure().is_some()),
                Err(error) => panic!("{error}"),
            }
        }
    });
    log.wal.poison("a test", &std::io::Error::other("it"));
    let written = log.wal.tail.written.get();
    other.join().unwrap();
    assert_eq!(log.wal.tail.written.get(), written, "acknowledged after the failure");
    assert!(matches!(log.adds(0, 1), Err(Error::Failed { .. })));
}

/// Two threads append where there is room for one record more in the segment, or none.
fn a_segment_ends() {
    let log = Log::open();
    let segment = log.wal.layout.segment;
    let left = |log: &Log| (segment - log.wal.end() % segment) as usize / 8;
    // After a record of a line there is room for one of three, and another one would go beyond the end.
    const LEFT: usize = LEAST + 2 * LINE_WORDS;
    let add = |log: &Log, thread, number| {
        log.append_entry(thread, &[number; 3 * LINE_WORDS - 3]).expect("there is room");
        assert_eq!(log.survives_kill(thread), Some(number), "acknowledged, but not in the file");
    };
    while left(&log) > LEFT {
        let words = vec![7; (left(&log) - LEFT).min(2000) - 3];
        log.append(2, &words, true).expect("there is room, also for metadata");
    }
    assert_eq!(left(&log), LEFT);
    log.wal.grow(1).expect("the disk is fine");
    log.add(3, 9);
    assert!(log.wal.tail.look(64).is_some(), "it is open until the segment ends");
    let other = log.spawn(move |log| (1..=2).for_each(|number| add(log, 1, number)));
    (1..=2).for_each(|number| add(&log, 0, number));
    other.join().unwrap();
    assert_eq!([0, 1].map(|thread| log.survives_kill(thread)), [Some(2), Some(2)]);
}

const PROGRAMS: [Program; 6] = [
    ("two append", two_append, 3),
    ("three append", three_append, 1),
    ("beside a sync", beside_a_sync, 4),
    ("beside a checkpoint", beside_a_checkpoint, 3),
    ("the log fails", fails, 4),
    ("a segment ends", a_segment_ends, 3),
];

#[test]
fn every_order_is_good() {
    for (name, program, preemptions) in PROGRAMS {
        explore(name, preemptions, program);
    }
}

#[test]
fn mistakes_are_found() {
    let mistakes: [(_, fn(), _); 5] = [
        (Mistake::PublishEarly, two_append, "acknowledged, but not in the file"),
        (Mistake::CloseEarly, beside_a_sync, "said to be durable"),
        (Mistake::NoteEarly, beside_a_checkpoint, "given back"),
        (Mistake::FailOpen, fails, "acknowledged after the failure"),
        (Mistake::OverlookEnd, a_segment_ends, "acknowledged, but not in the file"),
    ];
    let wrong = mistakes.into_iter().filter_map(|(mistake, program, why)| {
        let found = failure(Seed::Mistake(mistake), 3, program);
        (!found.as_ref().is_some_and(|found| found.contains(why))).then_some((mistake, found))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), []);
}

#[test]
fn an_open_log_is_one() {
    // Or the programs look at nothing.
    loom::model(|| {
        let log = Log::open();
        assert!(log.wal.tail.look(64).is_some());
        log.wal.end();
        assert!(log.wal.tail.look(64).is_none(), "closed by who locks the mutex");
        log.add(0, 1);
        assert!(log.wal.tail.look(64).is_some());
    });
}
