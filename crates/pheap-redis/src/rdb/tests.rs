//! Restores dumps of Redis and dumps them again, reads files, and reads damaged dumps and files.

use std::io::Cursor;

use super::samples::*;
use super::*;
use crate::data::streams::{Past, Progress, id, pack};
use crate::data::{Owned, OwnedGroup, OwnedStream};

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn hash(pairs: &[(&str, &str)]) -> Owned {
    Owned::Hash(
        pairs.iter().map(|(field, value)| (field.as_bytes().to_vec(), value.as_bytes().to_vec())).collect(),
    )
}

fn sorted(members: &[(&str, f64)]) -> Owned {
    Owned::Sorted(members.iter().map(|(member, score)| (member.as_bytes().to_vec(), *score)).collect())
}

fn string(text: &str) -> Owned {
    Owned::String(text.as_bytes().to_vec())
}

/// The value of [`STREAM`].
fn stream() -> OwnedStream {
    let seen = 0x01a2_134e_b93d;
    let group = |name: &str, last, consumers: &[&str], pending: &[(u128, usize)]| OwnedGroup {
        name: name.as_bytes().to_vec(),
        progress: Progress { last, read: -1 },
        consumers: texts(consumers).into_iter().map(|name| (name, seen)).collect(),
        pending: pending.iter().map(|&(id, consumer)| (id, consumer, seen, 1)).collect(),
    };
    let entry = |id, words: &[&str]| {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        (id, pack(&words).to_vec())
    };
    OwnedStream {
        entries: vec![
            entry(id(1, 1), &["f", "a", "g", "1"]),
            entry(id(3, 0), &["x", "c"]),
            entry(id(9, 0), &["f", "d", "g", "-7"]),
        ],
        past: Past { last: id(9, 0), deleted: id(2, 5), added: 4 },
        groups: vec![
            group("g1", id(3, 0), &["alice", "bob", "idle"], &[(id(1, 1), 0), (id(3, 0), 1)]),
            group("g2", id(3, 0), &[], &[]),
        ],
    }
}

#[test]
fn what_redis_dumps_is_read() {
    let empty_stream =
        OwnedStream { past: Past { last: id(1, 1), deleted: id(1, 1), added: 1 }, ..OwnedStream::default() };
    let x30 = "x".repeat(30);
    let y25 = "y".repeat(25);
    let expected = [
        string("hello"),
        string("-5"),
        string("1000"),
        string("-100000"),
        string("12345678901"),
        string(&"ab".repeat(50)),
        Owned::List(texts(&["a", "1", "-5", "300", &x30, "9223372036854775807"])),
        Owned::List(texts(&["a", &y25, "b"])),
        Owned::Set(texts(&["-2", "1", "70000"])),
        Owned::Set(texts(&["a", "1"])),
        hash(&[("f", "v"), ("n", "17")]),
        hash(&[("n", "17"), ("f", "v")]),
        sorted(&[("b", f64::NEG_INFINITY), ("a", 1.5), ("c", 3.0)]),
        sorted(&[("c", 3.0), ("a", 1.5), ("b", f64::NEG_INFINITY)]),
        Owned::Stream(stream()),
        Owned::Stream(empty_stream),
    ];
    assert_eq!(ALL.len(), expected.len());
    for (payload, expected) in ALL.iter().zip(expected) {
        let value = restore(open(payload).unwrap()).unwrap();
        assert_eq!(value, expected);
        assert_eq!(restore(open(&dump(&value).unwrap()).unwrap()).unwrap(), value);
    }
    // This server dumps these values as Redis does.
    for payload in [STRING, INT_8, INT_16, INT_32, INT_64, SET, HASH, ZSET_2, EMPTY_STREAM] {
        assert_eq!(dump(&restore(open(payload).unwrap()).unwrap()).unwrap(), payload);
    }
}

#[test]
fn what_older_versions_dumped_is_read() {
    let ziplist = b"\x15\x15\0\0\0\x12\0\0\0\x04\0\x00\x01a\x03\xf2\x02\x01b\x03\xf4\xff";
    let of = |kind: u8, before: &[u8]| restore(&[&[kind], before, &ziplist[..]].concat()).unwrap();
    assert_eq!(of(kinds::LIST_ZIPLIST, b""), Owned::List(texts(&["a", "1", "b", "3"])));
    assert_eq!(of(kinds::LIST_QUICKLIST, b"\x01"), Owned::List(texts(&["a", "1", "b", "3"])));
    assert_eq!(of(kinds::HASH_ZIPLIST, b""), hash(&[("a", "1"), ("b", "3")]));
    assert_eq!(of(kinds::ZSET_ZIPLIST, b""), sorted(&[("a", 1.0), ("b", 3.0)]));
    let zipmap = b"\x09\x0b\x01\x03foo\x03\0bar\xff";
    assert_eq!(restore(zipmap).unwrap(), hash(&[("foo", "bar")]));
    assert_eq!(restore(b"\x01\x02\x01a\xc0\x05").unwrap(), Owned::List(texts(&["a", "5"])));
    let texts = b"\x03\x03\x01a\x041e-1\x01b\xfe\x01c\xff";
    let expected = [("a", 0.1), ("b", f64::INFINITY), ("c", f64::NEG_INFINITY)];
    assert_eq!(restore(texts).unwrap(), sorted(&expected));
}

#[test]
fn streams_of_older_versions_are_read() {
    // Removes the parts of a stream that Redis 7.0 added: the first id, the greatest deleted id, the number
    // of added entries, and how far groups have read.
    let opened = open(STREAM).unwrap();
    let without = |bytes: &[u8], part: &[u8]| {
        let at = bytes.windows(part.len()).position(|window| window == part).unwrap();
        [&bytes[..at], &bytes[at + part.len()..]].concat()
    };
    let old = without(opened, b"\x01\x01\x02\x05\x04");
    let mut old =
        [b"\x81\xff\xff\xff\xff\xff\xff\xff\xff"; 2].iter().fold(old, |old, read| without(&old, *read));
    old[0] = kinds::STREAM_LISTPACKS;
    let mut expected = stream();
    expected.past = Past { last: id(9, 0), deleted: 0, added: 3 };
    assert_eq!(restore(&old).unwrap(), Owned::Stream(expected.clone()));
    // The position of a group is known if its last entry is the last one of the stream.
    let at = old.windows(4).rposition(|window| window == b"\x02g2\x03").unwrap();
    old[at + 3] = 9;
    expected.groups[1].progress = Progress { last: id(9, 0), read: 3 };
    assert_eq!(restore(&old).unwrap(), Owned::Stream(expected));
}

#[test]
fn what_is_wrong_is_refused() {
    let kind = |bytes: &[u8]| restore(bytes).unwrap_err();
    for empty in [&b"\x01\0"[..], b"\x02\0", b"\x03\0", b"\x04\0", b"\x05\0", b"\x0e\0", b"\x12\0"] {
        assert!(matches!(kind(empty), Error::Empty), "{empty:?}");
    }
    let empty_listpack = b"\x07\x07\0\0\0\0\0\xff";
    for of in [&b"\x10"[..], b"\x11", b"\x12\x01\x02"] {
        assert!(matches!(kind(&[of, empty_listpack].concat()), Error::Empty));
    }
    assert!(matches!(kind(b"\x07\x01"), Error::Unknown(_)) && matches!(kind(b"\x08\x01"), Error::Unknown(_)));
    for corrupt in [
        // An element occurs twice.
        &b"\x02\x02\x01a\x01a"[..],
        b"\x04\x02\x01a\x01b\x01a\x01c",
        // A score that is not a number.
        b"\x05\x01\x01a\0\0\0\0\0\0\xf8\x7f",
        b"\x03\x01\x01a\xfd",
        b"\x03\x01\x01a\x01x",
        // Unknown encodings of lengths, strings, and parts of lists.
        b"\x00\x82\0\0\0\0",
        b"\x00\xc4\0",
        b"\x01\xc0\x01",
        b"\x12\x01\x03\x01a",
    ] {
        assert!(matches!(kind(corrupt), Error::Corrupt(_)), "{corrupt:?}");
    }
    for truncated in
        [&b""[..], b"\x00", b"\x00\x81\xff\xff\xff\xff\xff\xff\xff\xff", b"\x01\x80\xff\xff\xff\xff\0"]
    {
        assert!(matches!(kind(truncated), Error::Truncated), "{truncated:?}");
    }
    assert!(matches!(open(b"\x00\x05"), Err(Error::Truncated)));
    let mut sealed = STRING.to_vec();
    let version = sealed.len() - 10;
    sealed[version] = 11;
    assert!(matches!(open(&sealed), Err(Error::Version(11))));
    sealed[version] = 9;
    assert!(matches!(open(&sealed), Err(Error::Checksum)));
    // Only in files does a checksum of 0 mean that there is none.
    let at = sealed.len() - 8;
    sealed[at..].fill(0);
    assert!(matches!(open(&sealed), Err(Error::Checksum)));
}

/// A deterministic source of pseudorandom numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit.max(1)
    }

    /// Changes, removes, repeats or inserts some bytes, or cuts off the end.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len());
            let len = self.below(9).min(bytes.len() - at);
            let byte = [0, 1, 0x7f, 0x80, 0x81, 0xc3, 0xf4, 0xff, self.below(256) as u8][self.below(9)];
            match self.below(6) {
                0 => bytes.truncate(at),
                1 => _ = bytes.drain(at..at + len),
                2 => bytes.extend_from_within(at..at + len),
                3 => bytes.insert(at, byte),
                _ if bytes.is_empty() => bytes.push(byte),
                _ => bytes[at] = byte,
            }
        }
    }
}

/// Returns about how many bytes the strings of a value need.
fn weight(value: &Owned) -> usize {
    let all = |strings: &mut dyn Iterator<Item = &Vec<u8>>| strings.map(|string| string.len() + 24).sum();
    match value {
        Owned::String(bytes) => bytes.len(),
        Owned::List(strings) | Owned::Set(strings) => all(&mut strings.iter()),
        Owned::Hash(pairs) => all(&mut pairs.iter().flat_map(|(field, value)| [field, value])),
        Owned::Sorted(members) => all(&mut members.iter().map(|(member, _)| member)),
        Owned::Stream(stream) => all(&mut stream.entries.iter().map(|(_, words)| words)),
    }
}

#[test]
fn damaged_values_are_refused_or_read() {
    let (mut random, mut read, mut refused) = (Random(0x9e37_79b9_7f4a_7c15), 0, 0);
    for _ in 0..40_000 {
        let mut bytes = open(ALL[random.below(ALL.len())]).unwrap().to_vec();
        random.damage(&mut bytes);
        match restore(&bytes) {
            Err(_) => refused += 1,
            Ok(value) => {
                assert!(weight(&value) <= bytes.len() * 10_000, "{bytes:?}");
                assert_eq!(restore(open(&dump(&value).unwrap()).unwrap()).unwrap(), value, "{bytes:?}");
                read += 1;
            }
        }
    }
    assert!(read > 1000 && refused > 1000, "{read} {refused}");
}

/// Reads all parts of a file. Returns them, and the number of keys without elements.
fn parts(file: &[u8]) -> Result<(Vec<FilePart>, u64)> {
    let mut reader = FileReader::new(file, file.len() as u64)?;
    let parts = std::iter::from_fn(|| reader.next_part().transpose()).collect::<Result<_>>()?;
    Ok((parts, reader.empty()))
}

/// Returns a file and its parts.
fn file() -> (Vec<u8>, Vec<FilePart>) {
    let mut writer = FileWriter::new(Cursor::new(Vec::new())).unwrap();
    writer.library(b"#!lua name=a\n").unwrap();
    let mut expected = vec![FilePart::Library(b"#!lua name=a\n".to_vec())];
    for (at, payload) in ALL.iter().enumerate() {
        let (db, key, value) = (at as u64 / 2, format!("key-{at}"), restore(open(payload).unwrap()).unwrap());
        if at % 2 == 0 {
            writer.database(db, 2, 1).unwrap();
        }
        let deadline = (at % 2 == 0).then_some(i64::MAX - at as i64);
        writer.entry(key.as_bytes(), &value, deadline).unwrap();
        expected.push(FilePart::Entry(RdbEntry {
            db,
            key: key.into_bytes(),
            value,
            deadline,
            idle: None,
            frequency: None,
        }));
    }
    (writer.finish().unwrap().into_inner(), expected)
}

#[test]
fn files() {
    let (mut bytes, expected) = file();
    assert_eq!(parts(&bytes).unwrap(), (expected, 0));
    // The bytes behind the end of a file may be anything.
    bytes.push(7);
    assert!(parts(&bytes).is_ok());
    bytes.pop();
    assert!(matches!(parts(&bytes[..bytes.len() - 1]), Err(Error::Truncated)));
    let at = bytes.len() - 1;
    bytes[at] ^= 1;
    assert!(matches!(parts(&bytes), Err(Error::Checksum)));
    bytes[at - 7..].fill(0);
    assert!(parts(&bytes).is_ok());
    for (wrong, at) in [(b'X', 0), (b'x', 5), (b'9', 5)] {
        let mut bytes = bytes.clone();
        bytes[at] = wrong;
        assert!(parts(&bytes).is_err());
    }
}

#[test]
fn files_of_older_versions() {
    // A file of version 4: without a checksum, with a deadline in seconds; then an empty set with a deadline,
    // and the usage of a key.
    let old = b"REDIS0004\xfe\x03\xfd\x02\0\0\0\x00\x01a\x01b\xfd\x02\0\0\0\x02\x01e\0\xf8\x05\xf9\x01\x00\x01c\x01d\xff";
    let entry = |key: &str, text, deadline, idle, frequency| {
        FilePart::Entry(RdbEntry {
            db: 3,
            key: key.as_bytes().to_vec(),
            value: string(text),
            deadline,
            idle,
            frequency,
        })
    };
    let expected = vec![entry("a", "b", Some(2000), None, None), entry("c", "d", None, Some(5), Some(1))];
    assert_eq!(parts(old).unwrap(), (expected, 1));
    let library = b"REDIS0010\xf6\x01n\x03LUA\x01\x04desc\x04code\xff\0\0\0\0\0\0\0\0";
    assert_eq!(parts(library).unwrap().0, [FilePart::Library(b"#!LUA name=n\ncode".to_vec())]);
    assert!(matches!(parts(b"REDIS0011\xff"), Err(Error::Version(11))));
    assert!(matches!(parts(b"REDIS0010\xf7\x01"), Err(Error::Unknown(_))));
}

#[test]
fn damaged_files_are_refused_or_read() {
    let (bytes, expected) = file();
    let (mut random, mut read) = (Random(88_172_645_463_325_252), 0);
    for _ in 0..4000 {
        let mut bytes = bytes.clone();
        random.damage(&mut bytes);
        if let Ok((parts, _)) = parts(&bytes) {
            // The parts are unchanged: only bytes behind the end of the file have changed, or none.
            assert_eq!(parts, expected);
            read += 1;
        }
        // Reads the damaged file without its checksum, too.
        let len = bytes.len();
        bytes[len.saturating_sub(8)..].fill(0);
        _ = parts(&bytes);
    }
    assert!(read < 4000);
}
