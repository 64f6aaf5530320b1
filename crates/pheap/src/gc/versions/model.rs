//! Versions of one root in a model: transactions change the root while other threads write to the same log,
//! and sync the log.

use loom::thread;

use super::{RootVersion, RootVersions};
use crate::sync::Mistake;
use crate::sync::model::{SeededMistake, explore, finds};
use crate::wal::model::Log;

/// Commits a transaction that stores the next number in the root, and does not wait for the disk.
fn commit(log: &Log, versions: &mut RootVersions, all: &mut Vec<u64>) {
    let number = all.len() as u64;
    let position = log.append(0, &[number], false).expect("there is room");
    versions.add_version(RootVersion { ty: 0, words: [0, 0, number], position }, &log.wal.next_ends());
    all.push(position);
}

/// Checks that the durable version is the newest one that is durable, and that it survives a power cut.
fn look(log: &Log, versions: &RootVersions, all: &[u64]) {
    let end = log.wal.durable_end();
    let newest = all.iter().rposition(|&position| position <= end).map(|number| number as u64);
    let found = versions.durable(end).map(|version| version.words[2]);
    assert_eq!(found, newest, "of {all:?}, with {versions:?}, durable up to {end}");
    assert!(log.durable(0) >= found.unwrap_or(0));
}

fn changed_beside_others() {
    let log = Log::every_commit();
    let others: Vec<thread::JoinHandle<()>> =
        (1..3).map(|thread| log.spawn(move |log| log.commits(thread, 1..=1))).collect();
    let (mut versions, mut all) = (RootVersions::default(), Vec::new());
    let first = RootVersion { ty: 0, words: [0; 3], position: 0 };
    versions.add_version(first, &log.wal.next_ends());
    all.push(0);
    for _ in 0..3 {
        commit(&log, &mut versions, &mut all);
    }
    look(&log, &versions, &all);
    for other in others {
        other.join().unwrap();
        look(&log, &versions, &all);
    }
    log.wal.sync().expect("the disk is fine");
    look(&log, &versions, &all);
}

#[test]
fn the_newest_durable_version_in_every_order() {
    explore("a root is changed beside others", 3, changed_beside_others);
    assert!(finds(SeededMistake::Mistake(Mistake::WriterUnseen), 3, changed_beside_others));
}
