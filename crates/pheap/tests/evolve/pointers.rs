//! Programs whose pointers are where other objects are: those that a function has made, and those to types
//! without bytes.

use pheap::{Error, Heap, Migrate, P, PVec, Persist, Result, Root, field};
use pheap_testkit::*;

use super::hostile::makes_a_pointer;

/// A part lies behind the old object, where the next object is, to which there is a pointer of another type.
#[test]
fn a_part_where_another_object_is() -> Result<()> {
    mod old {
        use super::*;
        persist! {
            struct Top<'r> { x: Option<P<'r, X<'r>>>, }
            struct X<'r> { all: [Option<P<'r, Outer>>; 15], }
            struct Outer { a: u64, b: u64, }
        }
    }
    persist! {
        struct Top<'r> { x: Option<P<'r, X<'r>>>, }
        struct Outer<'r> { a: u64, b: u64, #[persist(since = 2)] inner: Inner<'r>, }
        struct Inner<'r> { text: Option<P<'r, str>>, }
        struct X<'r> { inner: Option<P<'r, Inner<'r>>>, all: [Option<P<'r, Outer<'r>>>; 15], }
    }
    #[derive(Persist)]
    #[repr(C)]
    #[persist(id = "X")]
    struct OldX<'r> {
        all: [Option<P<'r, Outer<'r>>>; 15],
    }
    impl<'r> Migrate<OldX<'r>> for X<'r> {
        fn migrate(old: OldX<'r>) -> Self {
            X { inner: Some(field!((old.all[7].unwrap()).inner)), all: old.all }
        }
    }
    let heap = small().in_memory()?;
    heap.root::<old::Top>("top")?.txn(|tx, top| {
        let mut x = old::X::default();
        for outer in &mut x.all {
            *outer = Some(tx.alloc(old::Outer { a: 0x1234_5678, b: 0x1234_5678 })?);
        }
        Ok(tx[top].x = Some(tx.alloc(x)?))
    })?;
    makes_a_pointer("X", || heap.evolve::<Top>("top").with::<OldX, X>().run());
    Ok(())
}

/// A part without bytes, which only the new object has.
#[test]
fn a_part_without_bytes() -> Result<()> {
    mod old {
        use super::*;
        persist! {
            struct Top<'r> { x: Option<P<'r, X<'r>>>, }
            struct X<'r> { p: Option<P<'r, Outer>>, }
            struct Outer { a: u64, }
        }
    }
    persist! {
        struct Top<'r> { x: Option<P<'r, X<'r>>>, }
        struct X<'r> { p: Option<P<'r, Outer>>, z: Option<P<'r, [u64; 0]>>, }
        struct Outer { a: u64, #[persist(since = 2)] z: [u64; 0], }
    }
    #[derive(Persist)]
    #[repr(C)]
    #[persist(id = "X")]
    struct OldX<'r> {
        p: Option<P<'r, Outer>>,
    }
    impl<'r> Migrate<OldX<'r>> for X<'r> {
        fn migrate(old: OldX<'r>) -> Self {
            X { p: old.p, z: Some(field!((old.p.unwrap()).z)) }
        }
    }
    let heap = small().in_memory()?;
    heap.root::<old::Top>("top")?.txn(|tx, top| {
        let p = tx.alloc(old::Outer { a: 1 })?;
        Ok(tx[top].x = Some(tx.alloc(old::X { p: Some(p) })?))
    })?;
    makes_a_pointer("X", || heap.evolve::<Top>("top").with::<OldX, X>().run());
    Ok(())
}

/// A part without bytes may lie behind the object that it belongs to.
mod nothing {
    use super::*;

    pub(super) mod old {
        use super::*;
        persist! {
            struct Top<'r> {
                z: Option<P<'r, Z>>,
                outer: Option<P<'r, Outer>>,
                all: PVec<'r, P<'r, Outer>>,
                ends: PVec<'r, P<'r, Z>>,
            }
            struct Outer { a: u64, z: Z, }
            struct Z {}
        }
    }

    /// A program in which `Z` is as it is, and `Outer` is larger.
    pub(super) mod same {
        use super::*;
        persist! {
            struct Top<'r> {
                z: Option<P<'r, Z>>,
                outer: Option<P<'r, Outer>>,
                all: PVec<'r, P<'r, Outer>>,
                ends: PVec<'r, P<'r, Z>>,
            }
            struct Outer { a: u64, z: Z, #[persist(since = 2, default = 5)] more: u64, }
            struct Z {}
        }
    }

    /// A program in which `Z` has a pointer.
    pub(super) mod some {
        use super::*;
        persist! {
            struct Top<'r> {
                z: Option<P<'r, Z<'r>>>,
                outer: Option<P<'r, Outer<'r>>>,
                all: PVec<'r, P<'r, Outer<'r>>>,
                ends: PVec<'r, P<'r, Z<'r>>>,
            }
            struct Outer<'r> { a: u64, z: Z<'r>, }
            struct Z<'r> { #[persist(since = 2)] text: Option<P<'r, str>>, }
        }
    }
}
use nothing::*;

/// Every other one of many objects is garbage. The others have pointers to their ends.
fn with_ends(heap: &Heap) -> Result<Root<old::Top<'static>>> {
    let top: Root<old::Top> = heap.root("top")?;
    top.txn(|tx, top| {
        for i in 0..1000 {
            let outer = tx.alloc(old::Outer { a: i, z: old::Z {} })?;
            if i % 2 == 0 {
                field!(top.all).push(tx, outer)?;
                field!(top.ends).push(tx, field!(outer.z))?;
            }
        }
        Ok(())
    })?;
    Ok(top)
}

fn check(heap: &Heap) -> Result<()> {
    let report = heap.check()?;
    assert!(report.is_clean(), "{report}");
    Ok(())
}

#[test]
fn a_pointer_to_no_bytes_keeps_nothing() -> Result<()> {
    let dir = tempdir();
    let (path, base) = (dir.path().join("x"), 77 << 40);
    let heap = small().base(base).open(&path)?;
    let top = with_ends(&heap)?;
    heap.collect()?;
    // The root, two buffers, and what the first one leads to.
    assert_eq!(top.live().objects, 503);
    top.txn(|tx, top| {
        field!(top.all).truncate(tx, 1);
        // Of a type without bytes alone there may be an object.
        let alone = tx.alloc(old::Z {})?;
        Ok(tx[top].z = Some(alone))
    })?;
    heap.collect()?;
    assert_eq!(top.live().objects, 4);
    // Something else may lie there now.
    top.txn(|tx, _| (0..5000).try_for_each(|i| tx.alloc([i; 3]).map(drop)))?;
    check(&heap)?;
    drop(top);
    heap.close()?;
    let heap = small().base(base + (1 << 40)).verify(true).open(&path)?;
    heap.existing_root::<old::Top>("top")?.txn(|tx, top| {
        let ends: Vec<_> = tx[top].ends.iter(tx).copied().collect();
        let outer = *tx[top].all.iter(tx).next().unwrap();
        assert_eq!(ends[0], field!(outer.z), "the pointers move with the heap");
        ends.into_iter().for_each(|end| tx[end] = old::Z {});
        Ok(())
    })?;
    check(&heap)
}

#[test]
fn what_pointers_to_no_bytes_lead_to_is_converted() -> Result<()> {
    let heap = small().in_memory()?;
    drop(with_ends(&heap)?);
    assert!(heap.evolve::<same::Top>("top").run()?);
    heap.existing_root::<same::Top>("top")?.read(|view, top| {
        for (outer, i) in view[top].all.iter(view).zip(0..) {
            assert_eq!((view[*outer].a, view[*outer].more), (2 * i, 5));
        }
    })?;
    check(&heap)
}

/// There would be nothing behind the pointers.
#[test]
fn types_that_have_had_no_bytes() -> Result<()> {
    let is_refused = |result: Result<bool>| {
        let error = result.unwrap_err();
        assert!(matches!(&error, Error::PointerToPart { type_name, .. } if type_name == "Z"), "{error}");
    };
    for alone in [true, false] {
        let heap = small().in_memory()?;
        let top: Root<old::Top> = heap.root("top")?;
        top.txn(|tx, top| {
            let outer = tx.alloc(old::Outer { a: 7, z: old::Z {} })?;
            tx[top].outer = Some(outer);
            Ok(tx[top].z = Some(if alone { tx.alloc(old::Z {})? } else { field!(outer.z) }))
        })?;
        is_refused(heap.evolve::<some::Top>("top").run());
        top.txn(|tx, top| Ok(tx[top].z = None))?;
        assert!(heap.evolve::<some::Top>("top").run()?);
        let top: Root<some::Top> = heap.root("top")?;
        top.txn(|tx, top| {
            let z = field!((tx[top].outer.unwrap()).z);
            assert!(tx[z].text.is_none());
            Ok(tx[top].z = Some(z))
        })?;
        check(&heap)?;
    }
    Ok(())
}

#[test]
fn types_that_lose_their_bytes() -> Result<()> {
    mod old {
        use super::*;
        persist! {
            struct Top<'r> { z: Option<P<'r, Z>>, }
            struct Z { a: u64, }
        }
    }
    mod new {
        use super::*;
        persist! { struct Top<'r> { z: Option<P<'r, Z>>, } }
        #[derive(Persist)]
        #[repr(C, align(64))]
        #[persist(removed = "a")]
        pub(crate) struct Z {}
    }
    let heap = small().in_memory()?;
    let top: Root<old::Top> = heap.root("top")?;
    top.txn(|tx, top| Ok(tx[top].z = Some(tx.alloc(old::Z { a: 7 })?)))?;
    let error = heap.evolve::<new::Top>("top").run().unwrap_err();
    assert!(matches!(error, Error::PointerToPart { .. }), "{error}");
    top.txn(|tx, top| Ok(tx[top].z = None))?;
    assert!(heap.evolve::<new::Top>("top").run()?);
    check(&heap)
}
