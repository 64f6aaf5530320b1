//! Reads values and files in the format of Redis, which may have any bytes.
//!
//! If a value can be read, it can be written, and is the same when it is read again. A single value is also
//! stored in a heap. Memory is limited to a multiple of the input's length; `-malloc_limit_mb` checks this.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use pheap_redis::data::{Change, Owned, Store};
use pheap_redis::rdb::{self, FilePart, FileReader, FileWriter};

#[path = "../../../crates/pheap-redis/src/rdb/samples.rs"]
mod samples;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    match first % 5 {
        0 => value(rest),
        1 => value(&damaged(&opened(rest.first()), rest)),
        2 => file(rest),
        3 => file(&[b"REDIS0010", rest].concat()),
        _ => file(&damaged(&whole_file(), rest)),
    }
});

/// Returns a sample that Redis has dumped, without the checksum.
fn opened(which: Option<&u8>) -> Vec<u8> {
    let sample = samples::ALL[usize::from(*which.unwrap_or(&0)) % samples::ALL.len()];
    rdb::open(sample).expect("Redis has dumped it").to_vec()
}

/// Returns a file with all samples, and a library.
fn whole_file() -> Vec<u8> {
    let mut writer = FileWriter::new(Vec::new()).expect("there is memory");
    writer.library(b"#!lua name=lib\nredis.register_function('f', print)").expect("there is memory");
    for (number, sample) in samples::ALL.iter().enumerate() {
        let value = rdb::restore(sample).expect("Redis has dumped it");
        let deadline = (number % 2 == 0).then_some(4_000_000_000_000);
        writer.entry(&number.to_le_bytes(), &value, deadline).expect("there is memory");
    }
    writer.finish().expect("there is memory")
}

/// Returns the bytes with some of them replaced, inserted, removed or repeated.
fn damaged(bytes: &[u8], how: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for damage in how.get(1..).unwrap_or_default().chunks_exact(4).take(8) {
        let at = usize::from(u16::from_le_bytes([damage[0], damage[1]])) % (bytes.len() + 1);
        let end = (at + usize::from(damage[3])).min(bytes.len());
        match damage[2] % 4 {
            0 if at < bytes.len() => bytes[at] = damage[3],
            1 => bytes.insert(at, damage[3]),
            2 => drop(bytes.drain(at..end)),
            _ => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
        }
    }
    bytes
}

fn value(bytes: &[u8]) {
    // A checksum can be added and removed again.
    let mut sealed = bytes.to_vec();
    rdb::seal(&mut sealed);
    assert_eq!(rdb::open(&sealed).expect("it was sealed"), bytes);
    let _ = rdb::open(bytes);
    if let Ok(value) = rdb::restore(bytes) {
        there_and_back(&value);
        stored(&value);
    }
}

fn there_and_back(value: &Owned) {
    let dumped = rdb::dump(value).expect("it is small enough");
    let restored = rdb::restore(rdb::open(&dumped).expect("it was sealed")).expect("it was dumped");
    assert_eq!(*value, restored);
}

fn file(bytes: &[u8]) {
    let Ok(mut reader) = FileReader::new(bytes, bytes.len() as u64) else { return };
    while let Ok(Some(part)) = reader.next_part() {
        match part {
            FilePart::Library(text) => assert!(text.len() <= 264 * bytes.len()),
            FilePart::Entry(entry) => there_and_back(&entry.value),
        }
    }
    assert!(reader.position() <= bytes.len() as u64);
}

thread_local! {
    static STORE: RefCell<Store> = RefCell::new(Store::in_memory().expect("there is memory"));
}

/// Checks that a value can be stored in a heap, and stays the same, except for the order of unordered
/// elements.
fn stored(value: &Owned) {
    STORE.with_borrow(|store| {
        let in_order = |value: &Owned| {
            let mut value = value.clone();
            match &mut value {
                Owned::Hash(pairs) => pairs.sort(),
                Owned::Set(members) => members.sort(),
                Owned::Sorted(members) => members.sort_by(|a, b| a.0.cmp(&b.0)),
                Owned::Stream(stream) => {
                    for group in &mut stream.groups {
                        // Deliveries refer to consumers by index.
                        let names: Vec<_> = group.consumers.iter().map(|(name, _)| name.clone()).collect();
                        group.consumers.sort();
                        for pending in &mut group.pending {
                            let name = &names[pending.1];
                            pending.1 =
                                group.consumers.iter().position(|c| c.0 == *name).expect("it is there");
                        }
                        group.pending.sort_unstable();
                    }
                    stream.groups.sort_by(|a, b| a.name.cmp(&b.name));
                    stream.entries.sort();
                }
                Owned::String(_) | Owned::List(_) => {}
            }
            value
        };
        let again = store.root(0).try_txn::<_, pheap::Error>(|tx, root| {
            let stored = value.store(tx)?;
            let place = tx[root].dbs.at(tx, 0);
            place.set(tx, b"key", stored)?;
            let stored = tx[place].get(tx, b"key", i64::MIN).expect("it was set");
            Ok(Owned::of(tx, stored))
        });
        assert_eq!(in_order(&again.expect("there is room")), in_order(value));
    });
}
