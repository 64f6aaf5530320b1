//! The words of a region's header that are written alone carry their own check.

use std::fs;

use pheap::{Error, Options, Root};

const MAGIC: &[u8; 8] = b"\x89PREGIO\n";

fn small() -> Options {
    Options::new().arena_size(1 << 20).reserve(1 << 30)
}

/// Root offset, `removed` mark, log generation.
#[test]
fn a_flipped_bit_in_a_commit_word_is_corruption() -> pheap::Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let heap = small().open(&path)?;
    let root: Root<u64> = heap.root("number")?;
    root.txn(|tx, n| {
        tx[n] = 7;
        Ok(())
    })?;
    heap.close()?;
    let whole = fs::read(&path).unwrap();
    let header = whole.windows(8).position(|bytes| bytes == MAGIC).expect("a heap with a root has a region");
    for word in [3, 4, 5] {
        for bit in 0..64 {
            let mut flipped = whole.clone();
            flipped[header + word * 8 + bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &flipped).unwrap();
            let error = small().open(&path).expect_err("the bit matters");
            assert!(matches!(error, Error::Corrupt { .. }), "word {word}, bit {bit}: {error}");
        }
    }
    fs::write(&path, &whole).unwrap();
    let root: Root<u64> = small().open(&path)?.existing_root("number")?;
    assert_eq!(root.read(|view, n| view[n])?, 7);
    Ok(())
}

/// A thread can have reads of at most sixteen heaps open, one inside the other. To drop another heap, which
/// closes it, needs no further one.
#[test]
fn a_heap_can_be_dropped_deep_within_others() -> pheap::Result<()> {
    fn within(roots: &[Root<u64>], last: &mut dyn FnMut() -> pheap::Result<()>) -> pheap::Result<()> {
        match roots.split_first() {
            Some((first, rest)) => first.read(|_, _| within(rest, last))?,
            None => last(),
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let roots = (0..17)
        .map(|_| Options::new().arena_size(1 << 20).reserve(1 << 22).in_memory()?.root("n"))
        .collect::<pheap::Result<Vec<Root<u64>>>>()?;
    let mut heap = Some(small().open(&path)?);
    within(&roots[..16], &mut || {
        drop(heap.take());
        Ok(())
    })?;
    assert!(small().open(&path).is_ok());
    let too_deep = within(&roots, &mut || Ok(()));
    assert!(matches!(too_deep, Err(Error::Unsupported(_))), "{too_deep:?}");
    Ok(())
}
