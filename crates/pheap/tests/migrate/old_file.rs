//! A heap that an older build has written: the example `list`, as it was. See `tests/data/README.md`.

use std::fs;
use std::path::{Path, PathBuf};

use pheap::Durability;

use super::*;

/// A copy of the file in `dir`.
fn old_file(dir: &Path) -> PathBuf {
    let path = dir.join("numbers.pheap");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/list-0.1.heap");
    fs::write(&path, fs::read(from).unwrap()).unwrap();
    path
}

/// What the newest build would do.
fn open(heap: &Heap) -> Result<Second> {
    heap.migrate::<v1::List, v2::List>("numbers", |tx, old| second(tx, old))?;
    heap.existing_root("numbers")
}

fn holds_list(list: &Second, expected: &[u64]) {
    list.read(|view, list| {
        assert_eq!(values(view, view[list].head), expected);
        assert_eq!((view[list].len, view[list].sum), (expected.len() as u64, expected.iter().sum()));
    })
    .unwrap();
}

#[test]
fn it_is_migrated_and_goes_on() -> Result<()> {
    for durability in [Durability::Process, Durability::Pmem, Durability::Wal] {
        let dir = tempdir();
        let path = old_file(dir.path());
        let options = small().durability(durability);
        let heap = options.open(&path)?;
        let list = open(&heap)?;
        holds_list(&list, &[7, 201, 20]);
        list.txn(|tx, list| push2(tx, list, 100))?;
        drop(list);
        heap.close()?;
        for verify in [false, true] {
            let heap = options.clone().verify(verify).open(&path)?;
            assert_eq!(heap.roots().len(), 1);
            holds_list(&open(&heap)?, &[100, 7, 201, 20]);
            let report = heap.check()?;
            assert!(report.is_clean() && report.objects == 5, "{report}");
            heap.close()?;
        }
    }
    Ok(())
}

#[test]
fn without_a_migration_it_is_refused() -> Result<()> {
    let dir = tempdir();
    let path = old_file(dir.path());
    let before = fs::read(&path).unwrap();
    let heap = small().read_only(true).open(&path)?;
    let error = heap.existing_root::<v2::List>("numbers").unwrap_err();
    assert!(matches!(error, Error::TypeMismatch { .. }) && error.to_string().contains("`Heap::migrate`"));
    heap.existing_root::<v1::List>("numbers")?
        .read(|view, list| assert_eq!(values(view, view[list].head), [7, 201, 20]))?;
    drop(heap);
    assert!(fs::read(&path).unwrap() == before);
    Ok(())
}
