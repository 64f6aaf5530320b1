//! Values and files as Redis writes them, which may be anything.
//!
//! What can be read can be written, and is read again as the same; and it can be stored. Nothing needs more memory than some multiple of its length: `-malloc_limit_mb` sees to that.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use pheap_redis::data::{Change, Owned, Store};
use pheap_redis::rdb::{self, FileReader, Part};

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    match first % 3 {
        0 => value(rest),
        1 => file(rest),
        _ => file(&[b"REDIS0010", rest].concat()),
    }
});

fn value(bytes: &[u8]) {
    // With a checksum, whatever it is.
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
            Part::Library(text) => assert!(text.len() <= 264 * bytes.len()),
            Part::Entry(entry) => there_and_back(&entry.value),
        }
    }
    assert!(reader.position() <= bytes.len() as u64);
}

thread_local! {
    static STORE: RefCell<Store> = RefCell::new(Store::in_memory().expect("there is memory"));
}

/// It can be put in a heap, and is the same there, but for the order of what has none.
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
                        // Deliveries name consumers by their places.
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
            let place = tx[root].dbs.at(0);
            place.set(tx, b"key", stored)?;
            let stored = tx[place].get(tx, b"key", i64::MIN).expect("it was set");
            Ok(Owned::of(tx, stored))
        });
        assert_eq!(in_order(&again.expect("there is room")), in_order(value));
    });
}
