//! Heap files from elsewhere. With `verify`, a heap with a changed byte in a collection is refused, or can be
//! used.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use pheap::{
    Durability, Error, InlineBytes, Options, P, PBTreeMap, PHashMap, PHashSet, PSnapMap, PString, PVec,
    PVecDeque, Persist, Result, Root, Value, View, field,
};
use pheap_testkit::{Rng, rounds};

#[derive(Persist, Default)]
#[repr(C)]
struct All<'r> {
    numbers: PVec<'r, u64>,
    pointers: PVec<'r, P<'r, u64>>,
    queue: PVecDeque<'r, P<'r, u64>>,
    text: PString<'r>,
    few: PHashMap<'r, P<'r, str>, u64>,
    hashed: PHashMap<'r, P<'r, str>, P<'r, u64>>,
    by_number: PHashMap<'r, u64, u64>,
    ordered: PBTreeMap<'r, P<'r, str>, P<'r, u64>>,
    in_order: PBTreeMap<'r, u64, PString<'r>>,
    inline: PBTreeMap<'r, InlineBytes<'r>, u64>,
    versions: PSnapMap<'r, P<'r, str>, P<'r, str>>,
    named: Option<P<'r, str>>,
}

fn options() -> Options {
    Options::new().arena_size(256 << 10).reserve(1 << 28).durability(Durability::Process)
}

/// Some of them lie in the key, others elsewhere.
fn inline(number: u64) -> Vec<u8> {
    [&[7; 27][..], &number.to_be_bytes()[6 - number as usize % 4..]].concat()
}

fn sample(path: &Path) -> Result<Vec<u8>> {
    let heap = options().open(path)?;
    let root: Root<All> = heap.root("all")?;
    root.txn(|tx, all| {
        field!(all.numbers).extend(tx, 0..20)?;
        field!(all.text).push_str(tx, "persistent √ heaps")?;
        for i in 0..20 {
            let number = tx.alloc(i)?;
            field!(all.pointers).push(tx, number)?;
            field!(all.queue).push_front(tx, number)?;
        }
        field!(all.queue).pop_back(tx);
        field!(all.queue).pop_front(tx);
        field!(all.few).insert(tx, "one", 1)?;
        field!(all.few).insert(tx, "two", 2)?;
        for i in 0..300u64 {
            let (key, number) = (format!("key {}", i * 7 % 300), tx.alloc(i)?);
            field!(all.hashed).insert(tx, &key, number)?;
            field!(all.ordered).insert(tx, &key, number)?;
            field!(all.by_number).insert(tx, &i, i)?;
            let text = PString::from_str(tx, &key)?;
            field!(all.in_order).insert(tx, &i, text)?;
            field!(all.inline).insert(tx, &inline(i), i)?;
            field!(all.versions).insert(tx, &key, &key)?;
        }
        for i in 0..20u64 {
            field!(all.hashed).remove(tx, &format!("key {i}"));
            field!(all.ordered).remove(tx, &format!("key {i}"));
        }
        Ok(())
    })?;
    drop(root);
    heap.close()?;
    Ok(fs::read(path).expect("the file can be read"))
}

/// Reads the collections, most of them in several ways.
fn read<'r>(view: &View<'r>, all: P<'r, All<'r>>) -> u64 {
    let all = &view[all];
    let number = |p: &P<'r, u64>| view[*p];
    let mut sum = all.numbers.iter(view).fold(0u64, |sum, n| sum.wrapping_add(*n));
    sum ^= all.pointers.iter(view).chain(all.queue.iter(view)).map(number).fold(0, u64::wrapping_add);
    sum ^= all.text.as_str(view).chars().map(|c| u64::from(u32::from(c))).sum::<u64>();
    let texts = all.few.iter(view).map(|(key, _)| key);
    let texts = texts.chain(all.hashed.iter(view).map(|(key, _)| key));
    let texts = texts.chain(all.ordered.iter(view).map(|(key, _)| key));
    let texts = texts.chain(all.ordered.iter(view).rev().map(|(key, _)| key));
    let texts = texts.chain(all.in_order.iter(view).map(|(_, text)| text.as_str(view)));
    let texts = texts.chain(all.versions.iter(view).flat_map(|(key, value)| [key, value]));
    let texts = texts.chain(all.versions.iter(view).rev().map(|(key, _)| key));
    sum ^= texts.map(|text| text.chars().count() as u64).sum::<u64>();
    let keys =
        all.inline.iter(view).map(|(key, _)| key).chain(all.inline.iter(view).rev().map(|(key, _)| key));
    sum ^= keys.flatten().map(|&byte| u64::from(byte)).sum::<u64>();
    sum ^= all.hashed.iter(view).map(|(_, p)| view[*p]).fold(0, u64::wrapping_add);
    sum ^= all.by_number.iter(view).map(|(a, b)| a ^ b).fold(0, u64::wrapping_add);
    for i in 0..300u64 {
        let key = format!("key {i}");
        sum ^= all.hashed.get(view, &key).map_or(0, number) ^ all.ordered.get(view, &key).map_or(1, number);
        sum ^= all.by_number.get(view, &i).copied().unwrap_or(2);
        sum ^= all.inline.get(view, &inline(i)).copied().unwrap_or(5);
        sum ^= all.in_order.get(view, &i).map_or(3, |text| text.as_str(view).len() as u64);
        sum ^= all.versions.get(view, &key).map_or(4, |text| text.len() as u64);
    }
    sum
}

/// Changes most of the collections.
fn change(root: &Root<All<'static>>) -> Result<()> {
    root.txn(|tx, all| {
        let number = tx.alloc(1)?;
        for i in 0..40u64 {
            let key = format!("new {i}");
            field!(all.numbers).push(tx, i)?;
            field!(all.pointers).push(tx, number)?;
            field!(all.queue).push_front(tx, number)?;
            field!(all.few).insert(tx, &key, i)?;
            field!(all.hashed).insert(tx, &key, number)?;
            field!(all.ordered).insert(tx, &key, number)?;
            field!(all.by_number).insert(tx, &(i + 1000), i)?;
            field!(all.hashed).remove(tx, &format!("key {}", i + 20));
            field!(all.ordered).remove(tx, &format!("key {}", i + 20));
            field!(all.by_number).remove(tx, &i);
            field!(all.in_order).remove(tx, &i);
            field!(all.inline).insert(tx, &inline(i + 1000), i)?;
            field!(all.inline).remove(tx, &inline(i));
            field!(all.versions).insert(tx, &key, &key)?;
            field!(all.versions).remove(tx, &format!("key {}", i + 20))?;
        }
        field!(all.text).push_str(tx, "more")
    })
}

#[test]
fn changed_bytes_are_errors_or_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let good = sample(&dir.path().join("sample")).unwrap();
    let path = dir.path().join("forged");
    let mut rng = Rng::from_seed(7);
    // Bytes that are not zero, behind the header.
    let places: Vec<usize> = (4096 * 4..good.len()).filter(|&at| good[at] != 0).collect();
    let (mut refused, mut used) = (0, 0);
    for i in 0..600 {
        let mut bytes = good.clone();
        let at = places[rng.below(places.len())];
        bytes[at] ^= if i % 2 == 0 { 1 << rng.below(8) } else { 1 + rng.below(255) as u8 };
        fs::write(&path, &bytes).unwrap();
        let heap = match options().verify(true).open(&path) {
            Ok(heap) => heap,
            Err(Error::Corrupt { .. }) => {
                refused += 1;
                continue;
            }
            Err(error) => panic!("byte {at}: {error}"),
        };
        let Ok(root) = heap.existing_root::<All>("all") else { continue };
        root.read(|view, all| std::hint::black_box(read(view, all))).unwrap();
        if i % 4 == 0 {
            // A length may be wrong now, and a sum overflow. What must not happen is that memory is damaged.
            let _ = catch_unwind(AssertUnwindSafe(|| change(&root)));
            if let Ok(root) = heap.existing_root::<All>("all") {
                let _ = catch_unwind(AssertUnwindSafe(|| root.read(read).unwrap()));
            }
        }
        used += 1;
    }
    assert!(refused > 60 && used > 60, "{refused} were refused, {used} used");
}

/// Opens a forged heap with `verify`, and reads it if that succeeds. Returns whether opening refused it.
fn is_refused(path: &Path, bytes: &[u8], what: &str) -> bool {
    fs::write(path, bytes).unwrap();
    let heap = match options().verify(true).read_only(true).open(path) {
        Ok(heap) => heap,
        Err(Error::Corrupt { .. }) => return true,
        Err(error) => panic!("{what}: {error}"),
    };
    match heap.existing_root::<All>("all") {
        Ok(root) => drop(root.read(|view, all| std::hint::black_box(read(view, all))).unwrap()),
        Err(Error::TypeMismatch { .. } | Error::NoSuchRoot(_)) => {}
        Err(error) => panic!("{what}: {error}"),
    }
    false
}

/// Lengths, capacities, pointers, tags and links that are as large as they can be, or a little too large.
#[test]
fn hostile_words_are_errors_or_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let good = sample(&dir.path().join("sample")).unwrap();
    let path = dir.path().join("forged");
    let heap = Options::new().read_only(true).open(dir.path().join("sample")).unwrap();
    let all = heap.inspect("all", |object| object.offset()).unwrap() as usize;
    drop(heap);
    let word = |at: usize| u64::from_le_bytes(*good[at..].first_chunk().unwrap());
    let header = (all..all + size_of::<All>()).step_by(8);
    let mut rng = Rng::from_seed(9);
    let objects: Vec<usize> = (4096 * 6..good.len()).step_by(8).filter(|&at| word(at) != 0).collect();
    let others: Vec<usize> = (0..rounds(20)).map(|_| objects[rng.below(objects.len())]).collect();
    let base = pheap_testkit::base_of(&good);
    let mut refused = 0;
    for at in header.chain(others) {
        for value in [
            0,
            1,
            word(at).wrapping_add(1),
            word(at) << 1,
            1 << 32,
            1 << 63,
            u64::MAX,
            base,
            base + good.len() as u64 - 8,
        ] {
            let mut bytes = good.clone();
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            refused += u32::from(is_refused(&path, &bytes, &format!("{value:#x} at byte {at}")));
        }
    }
    assert!(refused > 150, "{refused}");
}

/// Types that may be nonsense, with checksums that hold.
#[test]
fn a_forged_type_table_is_refused_or_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let good = sample(&dir.path().join("sample")).unwrap();
    let path = dir.path().join("forged");
    let word = |at: usize| u64::from_le_bytes(*good[at..].first_chunk().unwrap());
    let record = word(17 * 8) as usize + 64;
    let len = word(record + 8) as u32 as usize;
    let end = record + (16 + len).next_multiple_of(8);
    let mut rng = Rng::from_seed(11);
    let mut refused = 0;
    for _ in 0..rounds(150) {
        let mut bytes = good.clone();
        let at = record + 8 + rng.below(8 + len);
        bytes[at] = [0, 1, 0x7f, 0x80, 0xff, bytes[at] ^ 1 << rng.below(8)][rng.below(6)];
        let sealed = [&bytes[record + 8..end], &(record as u64).to_le_bytes(), &good[64..72]].concat();
        let sum = xxhash_rust::xxh3::xxh3_64(&sealed);
        bytes[record..record + 8].copy_from_slice(&sum.to_le_bytes());
        refused += u32::from(is_refused(&path, &bytes, &format!("byte {at}")));
    }
    assert!(refused > 25, "{refused}");
}

/// Of a key that lies in its node, and of one that does not.
#[test]
fn inline_bytes_have_a_form_and_own_their_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let good = sample(&dir.path().join("sample")).unwrap();
    let path = dir.path().join("forged");
    let word = |at: usize| u64::from_le_bytes(*good[at..].first_chunk().unwrap());
    let short = [&[0, 29][..], &[7; 27]].concat();
    let heap = pheap_testkit::base_of(&good)..pheap_testkit::base_of(&good) + good.len() as u64;
    let is_long = |at: &usize| {
        let (one, two) = (word(at + 8), word(at + 16));
        let is_vector = |len, buffer| (31..=32).contains(&len) && heap.contains(&buffer);
        word(*at) == 1 && word(at + 24) == 0 && (is_vector(one, two) || is_vector(two, one))
    };
    let keys = || (4096 * 6..good.len() - 32).step_by(8);
    let shorts: Vec<usize> = keys().filter(|at| good[*at..].starts_with(&short)).collect();
    let longs: Vec<usize> = keys().filter(is_long).collect();
    let (short, long) = (shorts[9], longs[9]);
    let refused = |place: usize, by: &[u8]| {
        let mut bytes = good.clone();
        bytes[place..place + by.len()].copy_from_slice(by);
        is_refused(&path, &bytes, &format!("{by:?} at byte {place}"))
    };
    for tag in 0..=u8::MAX {
        assert_eq!(refused(short, &[tag]), tag > 0, "the tag {tag} instead of 0");
        // Zeros in its place are a short one.
        assert_eq!(refused(long, &[tag]), tag > 1, "the tag {tag} instead of 1");
    }
    // A reader takes as many bytes as there is room for.
    assert!((0..=u8::MAX).all(|len| !refused(short + 1, &[len])));
    for other in [short, longs[8]] {
        assert!(refused(other, &good[long..long + 32]), "two keys have one buffer");
    }
}

/// Returns the report on a heap in which one word of the root object was overwritten.
fn verdict(field: &str, place: u64, value: u64) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("forged");
    let mut bytes = sample(&path).unwrap();
    let heap = Options::new().read_only(true).open(&path).unwrap();
    let offset = heap.inspect("all", |object| object.offset()).unwrap();
    drop(heap);
    let at = (offset + place) as usize;
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    match options().verify(true).open(&path) {
        Err(Error::Corrupt { what }) => what,
        other => panic!("{field}: {other:?}"),
    }
}

#[test]
fn what_a_collection_promises_is_checked() {
    let at = |offset: usize| offset as u64;
    let numbers = at(std::mem::offset_of!(All<'_>, numbers));
    assert!(verdict("numbers", numbers, 1 << 40).contains("in a buffer for 20"));
    let pointers = at(std::mem::offset_of!(All<'_>, pointers));
    assert!(verdict("pointers", pointers, 30).contains("is null"));
    let queue = at(std::mem::offset_of!(All<'_>, queue));
    assert!(verdict("queue", queue, 1 << 20).contains("from place 1048576"));
    let text = at(std::mem::offset_of!(All<'_>, text));
    assert!(verdict("text", text, 12).contains("is not UTF-8"));
    let few = at(std::mem::offset_of!(All<'_>, few));
    assert!(verdict("few", few, 300).contains("has 300 elements"));
    let hashed = at(std::mem::offset_of!(All<'_>, by_number));
    assert!(verdict("by_number", hashed, 1 << 40).contains("has 300 entries"));
    let ordered = at(std::mem::offset_of!(All<'_>, in_order));
    assert!(verdict("in_order", ordered, 299).contains("has 300 entries"));
    let versions = at(std::mem::offset_of!(All<'_>, versions));
    assert!(verdict("versions", versions, 1 << 40).contains("has 300 entries"));
}

/// Elements without a size: a buffer has room for any number of them.
#[test]
fn few_entries_are_few() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("forged");
    let heap = options().open(&path).unwrap();
    let root: Root<PHashSet<[u8; 0]>> = heap.root("set").unwrap();
    root.txn(|tx, set| set.insert(tx, &[])).unwrap();
    let set = heap.inspect("set", |object| object.offset()).unwrap() as usize;
    drop(root);
    heap.close().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let buffer =
        u64::from_le_bytes(*bytes[set + 8..].first_chunk().unwrap()) - pheap_testkit::base_of(&bytes);
    for at in [set, buffer as usize] {
        bytes[at..at + 8].copy_from_slice(&40u64.to_le_bytes());
    }
    fs::write(&path, bytes).unwrap();
    match options().verify(true).open(&path) {
        Err(Error::Corrupt { what }) => assert!(what.contains("has 40 entries"), "{what}"),
        other => panic!("{other:?}"),
    }
}

/// A vector and a queue with one buffer: the second of them to grow would free what the first has freed.
#[test]
fn a_buffer_has_one_owner() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("forged");
    let mut bytes = sample(&path).unwrap();
    let heap = Options::new().read_only(true).open(&path).unwrap();
    let all = heap.inspect("all", |object| object.offset()).unwrap() as usize;
    drop(heap);
    // The queue has three words: the last one is the pointer to the buffer. In the vector, that pointer is
    // the second word.
    let (vector, queue) =
        (all + std::mem::offset_of!(All<'_>, pointers) + 8, all + std::mem::offset_of!(All<'_>, queue) + 16);
    bytes.copy_within(queue..queue + 8, vector);
    bytes[vector - 8..vector].fill(0);
    fs::write(&path, bytes).unwrap();
    match options().verify(true).open(&path) {
        Err(Error::Corrupt { what }) => assert!(what.contains("belongs to something else"), "{what}"),
        other => panic!("{other:?}"),
    }
}

/// A text that a map shows without a lock, and a pointer by which a transaction writes to it.
#[test]
fn what_nobody_writes_has_no_other_pointers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("forged");
    let mut bytes = sample(&path).unwrap();
    let heap = Options::new().read_only(true).open(&path).unwrap();
    let all = heap.inspect("all", |object| object.offset()).unwrap() as usize;
    drop(heap);
    let texts = bytes.windows(13).enumerate().filter(|(_, text)| *text == b"\x05\0\0\0\0\0\0\0key 7");
    let texts: Vec<u64> = texts.map(|(at, _)| pheap_testkit::base_of(&bytes) + at as u64).collect();
    assert!(texts.len() >= 3, "of other maps, too");
    let named = all + std::mem::offset_of!(All<'_>, named);
    let complaints: Vec<String> = texts
        .iter()
        .map(|text| {
            bytes[named..named + 8].copy_from_slice(&text.to_le_bytes());
            fs::write(&path, &bytes).unwrap();
            match options().verify(true).open(&path) {
                Err(Error::Corrupt { what }) => what,
                Ok(_) => "garbage, or shared as it may be".to_owned(),
                Err(other) => panic!("{other}"),
            }
        })
        .collect();
    // A key and a value.
    let owned = complaints.iter().filter(|what| what.contains("what a collection owns"));
    assert_eq!(owned.count(), 2, "{complaints:?}");
}

/// Counts this value and all values below it, down from `left`. Returns `None` if there are more. Follows no
/// pointers except those of texts, such as keys. A damaged value is shown as damaged, and has nothing below
/// it.
fn count(value: &Value<'_>, left: &mut u64) -> Option<()> {
    *left = left.checked_sub(1)?;
    match value {
        Value::Struct(fields) | Value::Enum(_, fields) => {
            fields.clone().try_for_each(|field| count(&field.value, left))
        }
        Value::List(elements) => elements.clone().try_for_each(|element| count(&element, left)),
        Value::Map(entries) | Value::Set(entries) => entries.clone().try_for_each(|entry| {
            count(&entry.key, left)?;
            count(&entry.value, left)
        }),
        Value::Pointer(pointer) => match pointer.target() {
            Ok(Some(target)) if target.is_text() => count(&target.value(), left),
            _ => Some(()),
        },
        _ => Some(()),
    }
}

/// Tools do not check a heap before they look at it.
#[test]
fn tools_look_at_hostile_words() {
    let dir = tempfile::tempdir().unwrap();
    let good = sample(&dir.path().join("sample")).unwrap();
    let path = dir.path().join("forged");
    let heap = Options::new().read_only(true).open(dir.path().join("sample")).unwrap();
    let (all, whole) = heap
        .inspect("all", |object| {
            let mut left = good.len() as u64;
            count(&object.value(), &mut left).expect("no value is there twice");
            let Value::Struct(mut fields) = object.value() else { panic!("a struct") };
            let of_map = |value| match value {
                Value::Map(entries) => Some(entries.count()),
                _ => None,
            };
            let maps: Vec<usize> = fields.clone().filter_map(|field| of_map(field.value)).collect();
            assert_eq!(maps, [2, 280, 300, 280, 300, 300, 300]);
            let Some(Value::List(queue)) =
                fields.find(|field| field.name == "queue").map(|field| field.value)
            else {
                panic!("a list")
            };
            assert_eq!(queue.len(), 18);
            (object.offset() as usize, good.len() as u64 - left)
        })
        .unwrap();
    drop(heap);
    assert!(whole > 2000, "{whole}");
    let word = |at: usize| u64::from_le_bytes(*good[at..].first_chunk().unwrap());
    let mut rng = Rng::from_seed(11);
    let objects: Vec<usize> = (4096 * 6..good.len()).step_by(8).filter(|&at| word(at) != 0).collect();
    let others: Vec<usize> = (0..rounds(12)).map(|_| objects[rng.below(objects.len())]).collect();
    let base = pheap_testkit::base_of(&good);
    let mut looked_at = 0;
    for at in (all..all + size_of::<All>()).step_by(8).chain(others) {
        let elsewhere = word(objects[rng.below(objects.len())]);
        for value in [0, 1, word(at).wrapping_add(1), 1 << 63, u64::MAX, base, base + all as u64, elsewhere] {
            let mut bytes = good.clone();
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            fs::write(&path, &bytes).unwrap();
            let Ok(heap) = Options::new().read_only(true).open(&path) else { continue };
            let left = heap.inspect("all", |object| {
                let mut left = good.len() as u64;
                count(&object.value(), &mut left).map(|()| left)
            });
            looked_at += usize::from(left.is_ok_and(|left| left.is_some()));
            heap.objects(|objects| {
                let mut bytes = 0;
                objects.survey(|_| {}, |span| bytes += span.reached * span.slot_bytes);
                assert!(bytes <= good.len() as u64);
            })
            .unwrap();
        }
    }
    assert!(looked_at > 300, "{looked_at}");
}
