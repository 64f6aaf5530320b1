//! Files that are no heaps, or no good ones: each is refused and left as it was, or opened without loss.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::fs;

use pheap::{Error, Result, Root};
use pheap_testkit::sample::*;
use pheap_testkit::*;

#[test]
fn a_file_of_another_kind_is_not_a_heap() {
    let mut image = vec![0; 40_000]; // as ISO 9660 has it: nothing in the first 32 KiB
    image[32_769..32_774].copy_from_slice(b"CD001");
    for bytes in [
        image,
        b"hello, this is a text\n".to_vec(),
        b"x".to_vec(),
        vec![0; 1],
        vec![0; 100],
        vec![0; 8191],
        "all work and no play\n".repeat(1000).into_bytes(),
        fs::read("/proc/self/exe").unwrap()[..20_000].to_vec(), // ELF
    ] {
        let error = opening(&bytes);
        assert!(matches!(error, Error::NotAHeap { .. }), "{error}");
    }
}

#[test]
fn a_directory_that_is_not_there_is_an_error_of_the_system() {
    let dir = tempdir();
    assert!(matches!(small().open(dir.path().join("no/such/directory")), Err(Error::Io { .. })));
}

/// Opening waits for no writer of a pipe, and makes no device do anything.
#[test]
fn what_is_no_file_is_not_opened() {
    let dir = tempdir();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("directory")).unwrap();
    let name = std::ffi::CString::new(path("fifo").to_str().unwrap()).unwrap();
    // SAFETY: `name` is a C string, which lives until the call returns.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    std::os::unix::fs::symlink(path("fifo"), path("link")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", path("zero")).unwrap();
    let names = [
        ("directory", "a directory"),
        ("fifo", "a FIFO"),
        ("socket", "a socket"),
        ("link", "a FIFO"),
        ("zero", "a device"),
    ];
    for (name, is) in names {
        for options in [small(), small().read_only(true), small().verify(true)] {
            let error = options.open(path(name)).expect_err("it is no file");
            assert!(matches!(&error, Error::NotAFile { kind, .. } if *kind == is), "{name}: {error}");
        }
    }
    // What the message about a directory advises.
    small().open(path("directory").join("new")).unwrap().close().unwrap();
    // Nor is a copy written there.
    let heap = pheap::Heap::in_memory().unwrap();
    for (name, _) in names {
        let error = heap.backup(path(name)).unwrap_err();
        let exists = |error: &std::io::Error| error.kind() == std::io::ErrorKind::AlreadyExists;
        assert!(matches!(&error, Error::Io { source, .. } if exists(source)), "{error}");
    }
}

#[test]
fn nothing_to_open_read_only() {
    let dir = tempdir();
    let path = dir.path().join("x");
    assert!(matches!(small().read_only(true).open(&path), Err(Error::Io { .. })));
    assert!(!path.exists());
    fs::write(&path, "").unwrap();
    assert!(matches!(small().read_only(true).open(&path), Err(Error::NotAHeap { .. })));
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
}

#[test]
fn a_truncated_heap() {
    let dir = tempdir();
    let bytes = sample(&dir.path().join("sample"));
    assert_eq!(bytes.len() as u64, MIB);
    for len in [8, 100, 4096, 8191] {
        let error = opening(&bytes[..len]);
        assert!(
            matches!(error, Error::Truncated { have, need: 8192, .. } if have == len as u64),
            "{len}: {error}"
        );
    }
    for len in [8192, 8200, 12_288, 20_000, bytes.len() - 4096, bytes.len() - 1] {
        let error = opening(&bytes[..len]);
        assert!(
            matches!(error, Error::Truncated { have, need: MIB, .. } if have == len as u64),
            "{len}: {error}"
        );
        assert!(error.to_string().contains(&format!("{len} of {MIB} bytes")), "{error}");
    }
    // Less than a word: not even its kind can be told.
    assert!(matches!(opening(&bytes[..7]), Error::NotAHeap { .. }));
}

#[test]
fn a_longer_file_than_the_header_says_is_fine() -> Result<()> {
    // A crash while the heap grows may leave it so.
    let dir = tempdir();
    let path = dir.path().join("x");
    let mut bytes = sample(&path);
    bytes.resize(bytes.len() + 123_456, 0x55);
    fs::write(&path, &bytes).unwrap();
    let heap = small().open(&path)?;
    let root: Root<Record> = heap.existing_root("record")?;
    assert_eq!(root.read(|view, r| view[r].number)?, 7);
    for _ in 0..20 {
        root.txn(|tx, r| {
            let items = tx.alloc_slice(10_000, |i| i as u64)?;
            tx[r].items = Some(items);
            Ok(())
        })?;
    }
    drop(root);
    heap.close()?;
    let heap = small().open(&path)?;
    let root: Root<Record> = heap.existing_root("record")?;
    assert_eq!(root.read(|view, r| view[view[r].items.unwrap()].iter().sum::<u64>())?, 49_995_000);
    Ok(())
}

#[test]
fn a_newer_format() {
    let error = altered(|bytes| {
        let slot = newest_slot(bytes);
        patch_header(bytes, slot, 1, 4);
    });
    assert!(matches!(error, Error::NewerFormat { found: 4, supported: 3 }), "{error}");
}

#[test]
fn an_older_format() {
    let error = altered(|bytes| {
        let slot = newest_slot(bytes);
        patch_header(bytes, slot, 1, 2);
    });
    assert!(matches!(error, Error::OlderFormat { found: 2, oldest: 3 }), "{error}");
}

#[test]
fn an_unknown_feature_flag() {
    let error = altered(|bytes| {
        let slot = newest_slot(bytes);
        patch_header(bytes, slot, 1, 1 << 40 | 3);
    });
    assert!(matches!(error, Error::NewerFormat { found: 0x100_0000_0003, .. }), "{error}");
}

#[test]
fn one_bad_header_slot_of_two_is_no_loss() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let mut bytes = sample(&path);
    let slot = newest_slot(&bytes);
    bytes[slot + 40] ^= 0x10;
    fs::write(&path, &bytes).unwrap();
    let heap = small().open(&path)?;
    assert_eq!(heap.existing_root::<Record>("record")?.read(|view, r| view[r].number)?, 7);
    Ok(())
}

/// Also if the heap was never closed, nor has grown.
#[test]
fn a_bad_header_in_the_first_session_is_no_empty_heap() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().open(&path)?;
    let root: Root<u64> = heap.root("n")?;
    root.txn(|tx, n| Ok(tx[n] = 7))?;
    let image = as_killed(&path);
    drop(root);
    heap.close()?;
    for slot in [0, PAGE] {
        let mut bytes = image.clone();
        bytes[slot + 20] ^= 1;
        fs::write(&path, &bytes).unwrap();
        match small().open(&path) {
            Ok(heap) => assert_eq!(heap.existing_root::<u64>("n")?.read(|view, n| view[n])?, 7),
            Err(error) => {
                assert!(matches!(error, Error::Corrupt { .. }), "{error}");
                assert!(fs::read(&path).unwrap() == bytes);
            }
        }
    }
    Ok(())
}

/// The other header is older: it does not know of the arena that the heap has grown by.
#[test]
fn a_bad_header_after_growth_is_noticed_or_made_good() -> Result<()> {
    const TEST: &str = "files::a_bad_header_after_growth_is_noticed_or_made_good";
    let sum = |root: &Root<Record>| root.read(|view, r| view[view[r].items.unwrap()].iter().sum::<u64>());
    if let Some((_, path)) = role() {
        match small().open(&path) {
            Ok(heap) => {
                let root: Root<Record> = heap.existing_root("record")?;
                assert_eq!(sum(&root)?, 19_999_900_000);
                // And new objects do not come to lie on it.
                for _ in 0..20 {
                    root.txn(|tx, _| tx.alloc_slice(50_000, |_| 1u64).map(drop))?;
                }
                assert_eq!(sum(&root)?, 19_999_900_000);
            }
            Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "{error}"),
        }
        return Ok(());
    }
    let dir = tempdir();
    let (path, copy) = (dir.path().join("x"), dir.path().join("copy"));
    let heap = small().pin_undo(true).open(&path)?; // so that no record in the log gives it away
    let root: Root<Record> = heap.root("record")?;
    root.txn(|tx, r| {
        let items = tx.alloc_slice(200_000, |i| i as u64)?;
        tx[r].items = Some(items);
        Ok(())
    })?;
    let mut image = as_killed(&path);
    let slot = newest_slot(&image);
    image[slot + 20] ^= 1;
    fs::write(&copy, &image).unwrap();
    run_well(TEST, "reader", &copy);
    drop(root);
    heap.close()
}

#[test]
fn both_headers_corrupt() {
    for at in [16, 30, 63 * 8, 500] {
        let error = altered(|bytes| {
            bytes[at] ^= 1;
            bytes[PAGE + at] ^= 1;
        });
        assert!(matches!(error, Error::Corrupt { .. }), "{at}: {error}");
    }
}

/// As it looks when a creation was cut short, except that the heap has data.
#[test]
fn a_header_that_is_only_its_first_word() {
    let error = altered(|bytes| bytes[8..8192].fill(0));
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}

#[test]
fn a_header_that_contradicts_itself() {
    let values = [
        (5, 12_345),    // arena unit
        (5, 4096),      // too small
        (6, 3),         // mapped size
        (6, 1 << 40),   // more than reserved
        (7, 3 << 20),   // reserved
        (9, 0),         // number of bases
        (9, 3),         //
        (10, 0x1_2345), // base
        (16, 9),        // use
        (17, 1 << 50),  // type table
    ];
    for (number, value) in values {
        let error = altered(|bytes| {
            let slot = newest_slot(bytes);
            patch_header(bytes, slot, number, value);
        });
        // A larger heap than the file is a truncated one.
        let expected = matches!(error, Error::Corrupt { .. } | Error::Truncated { .. });
        assert!(expected, "word {number} = {value}: {error}");
    }
}

/// Offsets in a heap of one arena of 1 MiB.
const ARENA_HEAD: usize = 2 * PAGE;
const SPAN_TABLE: usize = 3 * PAGE;
const TYPE_TABLE: usize = 4 * PAGE;

#[test]
fn a_corrupt_arena_head() {
    for at in [0, 8, 17, 25, 56, 66, 71] {
        let error = altered(|bytes| bytes[ARENA_HEAD + at] ^= 4);
        assert!(matches!(&error, Error::Corrupt { what } if what.contains("arena")), "{error}");
    }
}

#[test]
fn a_corrupt_span_table() {
    let error = altered(|bytes| {
        let entry = SPAN_TABLE; // of the first page behind it
        assert_eq!(bytes[entry], 3, "the type table's entry");
        bytes[entry] = 9;
    });
    assert!(matches!(&error, Error::Corrupt { what } if what.contains("unknown kind 9")), "{error}");
    let error = altered(|bytes| {
        let entry = SPAN_TABLE; // of the first page behind it
        bytes[entry + 4..entry + 8].copy_from_slice(&u32::MAX.to_le_bytes()); // its pages
    });
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    let error = altered(|bytes| {
        let entry = SPAN_TABLE; // of the first page behind it
        bytes[entry + 4..entry + 8].copy_from_slice(&0u32.to_le_bytes());
    });
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}

#[test]
fn a_corrupt_type_table() {
    for at in [0, 8, 12, 16, 40] {
        let error = altered(|bytes| bytes[TYPE_TABLE + 64 + at] ^= 1);
        assert!(matches!(&error, Error::Corrupt { what } if what.contains("type")), "{at}: {error}");
    }
    let error = altered(|bytes| set_word(bytes, TYPE_TABLE, 0x1234_5000)); // the next extent
    assert!(matches!(&error, Error::Corrupt { what } if what.contains("type table")), "{error}");
}

#[test]
fn a_corrupt_region_header() {
    for at in [0, 8, 16, 56] {
        let error = altered(|bytes| {
            let regions = find(bytes, b"\x89PREGIO\n");
            assert_eq!(regions.len(), 1);
            bytes[regions[0] + at] ^= 1;
        });
        assert!(matches!(&error, Error::Corrupt { what } if what.contains("region")), "{at}: {error}");
    }
    // Both copies of its name.
    let error = altered(|bytes| {
        let region = find(bytes, b"\x89PREGIO\n")[0];
        bytes[region + 512 + 16] ^= 1;
        bytes[region + 1024 + 16] ^= 1;
    });
    assert!(matches!(&error, Error::Corrupt { what } if what.contains("name")), "{error}");
}

#[test]
fn a_log_segment_that_leads_nowhere() {
    for next in [5, 0x7_0000, 1 << 40] {
        let error = altered(|bytes| {
            let region = find(bytes, b"\x89PREGIO\n")[0];
            set_word(bytes, region + PAGE, next);
        });
        assert!(matches!(&error, Error::Corrupt { what } if what.contains("log segment")), "{error}");
    }
}

#[test]
fn a_heap_that_the_machine_went_down_with() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    sample(&path);
    let mut bytes = {
        let heap = small().open(&path)?;
        let bytes = as_killed(&path);
        heap.close()?;
        bytes
    };
    let slot = newest_slot(&bytes);
    patch_header(&mut bytes, slot, 14, 4711); // another boot
    assert!(matches!(opening(&bytes), Error::NotClosed));
    Ok(())
}
