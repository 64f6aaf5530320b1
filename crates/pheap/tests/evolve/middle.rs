//! A conversion that is not finished: what others make of it, and what becomes of it if there is no room.

use std::cell::Cell;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pheap::{Durability, Error, Heap, Options, P, PVec, Persist, Result};
use pheap_testkit::*;

use super::converted::{MANY, holds_third, make, to_third, v1, v2, v3};

/// Converts until progress was reported so many times. Returns `None` if the conversion was not finished by
/// then.
fn cut(heap: &Heap, steps: u32) -> Option<bool> {
    let left = Cell::new(steps);
    let step = |_| match left.get() {
        1 => resume_unwind(Box::new("enough")),
        n => left.set(n - 1),
    };
    let evolution = heap.evolve::<v3::Shop>("shop").with::<v1::Price, v3::Price>().on_progress(step);
    catch_unwind(AssertUnwindSafe(|| evolution.run().unwrap())).ok()
}

fn is_unfinished<T: Persist>(heap: &Heap) {
    let error = heap.existing_root::<T>("shop").unwrap_err();
    assert!(matches!(error, Error::Unfinished { .. }), "{error}");
}

/// Asserts that none of the three programs can open the root, and that the heap can be checked and inspected.
fn looks_unfinished(heap: &Heap) -> Result<()> {
    is_unfinished::<v1::Shop>(heap);
    is_unfinished::<v2::Shop>(heap);
    is_unfinished::<v3::Shop>(heap);
    let report = heap.check()?;
    assert!(report.is_clean(), "{report}");
    heap.inspect("shop", |object| assert_eq!(object.type_name(), "pheap::Evolution"))?;
    let mut spans = 0;
    let report = heap.objects(|objects| objects.survey(|_| {}, |_| spans += 1))?;
    assert!(report.is_clean() && spans > 0, "{report}");
    Ok(())
}

#[test]
fn others_look_at_it_and_go_on_with_a_backup() -> Result<()> {
    let dir = tempdir();
    let (path, copy) = (dir.path().join("heap"), dir.path().join("copy"));
    let heap = small().durability(Durability::Wal).open(&path)?;
    make(&heap, MANY)?;
    let mut cuts = 0;
    while cut(&heap, 1).is_none() {
        cuts += 1;
        looks_unfinished(&heap)?;
        let follower = small().follower(true).verify(true).open(&path)?;
        looks_unfinished(&follower)?;
        assert!(matches!(to_third(&follower), Err(Error::ReadOnly)));
        drop(follower);
        heap.backup(&copy)?;
        let before = fs::read(&copy).unwrap();
        let moved = small().read_only(true).verify(true).base(1 << 44).open(&copy)?;
        looks_unfinished(&moved)?;
        drop(moved);
        assert!(fs::read(&copy).unwrap() == before);
        if cuts % 3 == 1 {
            let moved = small().base(1 << 45).open(&copy)?;
            looks_unfinished(&moved)?;
            assert!(to_third(&moved)?);
            holds_third(&moved, MANY)?;
            moved.close()?;
        }
        fs::remove_file(&copy).unwrap();
    }
    assert!(cuts > 3, "{cuts}");
    holds_third(&heap, MANY)?;
    heap.close()
}

#[test]
fn there_is_no_room() -> Result<()> {
    let dir = tempdir();
    for (i, durability) in [Durability::Wal, Durability::Process].into_iter().enumerate() {
        let path = dir.path().join(i.to_string());
        let options = small().durability(durability);
        let heap = options.open(&path)?;
        make(&heap, MANY)?;
        heap.close()?;
        let size = fs::metadata(&path).unwrap().len();
        let mut failed = 0;
        for more in 0.. {
            let heap = options.clone().max_size(size + more * 2 * MIB).open(&path)?;
            match to_third(&heap) {
                Err(Error::OutOfSpace { .. }) => failed += 1,
                done => {
                    assert!(done?);
                    holds_third(&heap, MANY)?;
                    heap.close()?;
                    break;
                }
            }
            let report = heap.check()?;
            assert!(report.is_clean(), "{report}");
            heap.close()?;
        }
        assert!(failed > 1, "{failed}");
    }
    Ok(())
}

/// One object is one transaction, whatever its size.
#[test]
fn an_object_that_is_larger_than_a_batch_and_the_log() -> Result<()> {
    #[derive(Persist, Clone, Copy)]
    #[repr(C)]
    #[persist(id = "Point")]
    struct Old {
        x: u64,
    }
    #[derive(Persist, Clone, Copy)]
    #[repr(C)]
    #[persist(id = "Point")]
    struct Same {
        #[persist(was = "x")]
        y: u64,
    }
    #[derive(Persist, Clone, Copy)]
    #[repr(C)]
    #[persist(id = "Point", removed = "x", removed = "y")]
    struct Gone {
        #[persist(since = 2, default = 7)]
        z: u64,
    }
    #[derive(Persist, Clone, Copy)]
    #[repr(C)]
    #[persist(id = "Point")]
    struct Larger {
        #[persist(since = 3, default = 1)]
        w: u8,
        z: u64,
    }
    let dir = tempdir();
    for (i, durability) in [Durability::Wal, Durability::Process].into_iter().enumerate() {
        let path = dir.path().join(i.to_string());
        let options = small().durability(durability).log_limit(MIB);
        let heap = options.open(&path)?;
        heap.root::<PVec<Old>>("points")?
            .txn(|tx, points| points.extend(tx, (0..3 << 20).map(|x| Old { x })))?;
        heap.existing_root::<PVec<Same>>("points")?.read(|view, points| {
            assert_eq!(view[points].last(view).unwrap().y, (3 << 20) - 1);
        })?;
        assert!(heap.evolve::<PVec<Gone>>("points").run()?);
        assert!(heap.evolve::<PVec<Larger>>("points").run()?);
        heap.close()?;
        let heap = options.verify(true).open(&path)?;
        heap.existing_root::<PVec<Larger>>("points")?.read(|view, points| {
            assert!(view[points].iter(view).all(|point| (point.w, point.z) == (1, 7)));
        })?;
        heap.close()?;
    }
    Ok(())
}

/// The root is locked to the end, so no other thread can give pages of it back.
#[test]
fn private_memory_stays_near_its_limit() -> Result<()> {
    const OBJECTS: u64 = 8 << 10;
    #[derive(Persist)]
    #[repr(C)]
    #[persist(id = "Page")]
    struct Old {
        words: [u64; 512],
    }
    #[derive(Persist)]
    #[repr(C)]
    #[persist(id = "Page")]
    struct Larger {
        words: [u64; 512],
        #[persist(since = 2, default = 7)]
        more: u64,
    }
    let dir = tempdir();
    let options = Options::new().durability(Durability::Wal).memory_limit(8 * MIB).log_limit(8 * MIB);
    let heap = options.open(dir.path().join("heap"))?;
    let pages = heap.root::<PVec<P<Old>>>("pages")?;
    for from in (0..OBJECTS).step_by(256) {
        pages.txn(|tx, pages| {
            (from..from + 256).try_for_each(|n| {
                let page = tx.alloc(Old { words: [n; 512] })?;
                pages.push(tx, page)
            })
        })?;
    }
    heap.checkpoint()?;
    let most = Cell::new(0);
    let look = |_| most.set(heap.stats().private_bytes.max(most.get()));
    assert!(heap.evolve::<PVec<P<Larger>>>("pages").on_progress(look).run()?);
    // Of 32 MiB of objects that become as many others.
    assert!(most.get() < 24 * MIB, "{} MiB", most.get() / MIB);
    heap.existing_root::<PVec<P<Larger>>>("pages")?.read(|view, pages| {
        assert_eq!(view[pages].len() as u64, OBJECTS);
        for (n, page) in view[pages].iter(view).enumerate() {
            assert!((view[*page].words, view[*page].more) == ([n as u64; 512], 7));
        }
    })
}
