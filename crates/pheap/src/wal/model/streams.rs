//! A copy of the heap's file that is made during checkpoints.

use super::Log;
use crate::log::{Range, ranges};
use crate::os::storage::Storage;
use crate::wal::stream::{RecordStream, records};

const WORDS: [u64; 2] = [0, 1];

/// Appends a transaction that stores a number in two pages.
fn store(log: &Log, number: u64) {
    let words = [number];
    let ranges = WORDS.map(|thread| Range { offset: Log::place(thread), words: &words });
    log.wal.append(4, ranges.into_iter(), false).expect("there is room");
}

fn apply(stream: &RecordStream, copy: &mut [u64; 2]) {
    let words = stream.take_records().expect("they are kept");
    for range in records(&words).flat_map(ranges) {
        let word = WORDS.into_iter().position(|thread| Log::place(thread) == range.offset);
        copy[word.expect("one of these was stored to")] = range.words[0];
    }
}

pub(super) fn a_copy_is_one_state() {
    let log = Log::every_commit();
    store(&log, 1);
    let stream = log.wal.stream(Box::new(|| Err(std::io::ErrorKind::Unsupported.into())));
    let stream = stream.expect("the disk is fine");
    let other = log.spawn(|log| {
        store(log, 2);
        log.wal.checkpoint(|| {}).expect("the disk is fine");
    });
    let mut copy = [0; 2];
    for word in WORDS {
        let mut bytes = [0; 8];
        (&*log.disk.data as &dyn Storage).read_up_to(&mut bytes, Log::place(word)).expect("it can be read");
        copy[word as usize] = u64::from_le_bytes(bytes);
        apply(&stream, &mut copy);
    }
    log.wal.checkpoint(|| {}).expect("the disk is fine");
    stream.end_stream();
    apply(&stream, &mut copy);
    assert!(copy == [1; 2] || copy == [2; 2], "{copy:?} never was");
    other.join().unwrap();
}
