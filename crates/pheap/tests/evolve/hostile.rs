//! Programs that try to see a value as of a type that it is not of.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pheap::{Error, Heap, Migrate, P, PSnapMap, PVec, Persist, Result, Root, Spare, field};
use pheap_testkit::*;

macro_rules! persist {
    ($($(#[$meta:meta])* struct $name:ident $(<$r:lifetime>)? { $($(#[$of:meta])* $field:ident: $ty:ty,)* })*) => {$(
        #[derive(Persist, Default)]
        #[repr(C)]
        $(#[$meta])*
        pub(crate) struct $name $(<$r>)? { $($(#[$of])* pub(crate) $field: $ty,)* }
    )*};
}

/// Functions that make pointers to parts of objects that move.
mod functions {
    use super::*;

    pub(super) mod old {
        use super::*;
        persist! {
            struct Top<'r> { jobs: Option<P<'r, [Job]>>, holder: Option<P<'r, Holder<'r>>>, }
            struct Holder<'r> { job: Option<P<'r, Job>>, jobs: Option<P<'r, [Job]>>, }
            struct Job { a: u64, b: u64, }
        }
    }

    pub(super) mod new {
        use super::*;
        persist! {
            struct Top<'r> { jobs: Option<P<'r, [Job]>>, holder: Option<P<'r, Holder<'r>>>, }
            struct Holder<'r> { a: Option<P<'r, u64>>, b: Option<P<'r, u64>>, last: Option<P<'r, Job>>, }
            struct Job { a: u64, b: u64, #[persist(since = 2)] c: [u64; 9], }
        }
    }

    /// What a holder has, and what becomes of it.
    macro_rules! made {
        ($name:ident, |$job:ident, $jobs:ident| $make:expr) => {
            #[derive(Persist)]
            #[repr(C)]
            #[persist(id = "Holder")]
            pub(super) struct $name<'r> {
                job: Option<P<'r, new::Job>>,
                jobs: Option<P<'r, [new::Job]>>,
            }

            impl<'r> Migrate<$name<'r>> for new::Holder<'r> {
                fn migrate(old: $name<'r>) -> Self {
                    let ($job, $jobs) = (old.job.unwrap(), old.jobs.unwrap());
                    $make
                }
            }
        };
    }

    made!(First, |job, _jobs| new::Holder { a: Some(field!(job.a)), ..Default::default() });
    made!(Second, |job, _jobs| new::Holder { b: Some(field!(job.b)), ..Default::default() });
    made!(Passed, |job, _jobs| new::Holder { last: Some(job), ..Default::default() });
}

/// Asserts that a conversion ends with the panic of a function that has made a pointer.
pub(crate) fn makes_a_pointer(name: &str, evolve: impl FnOnce() -> Result<bool>) {
    let panic = catch_unwind(AssertUnwindSafe(evolve)).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains(&format!("`Migrate` for `{name}` has made a pointer")), "{text}");
}

#[test]
fn a_function_makes_pointers_to_parts() -> Result<()> {
    use functions::*;
    let make = || -> Result<Heap> {
        let heap = small().in_memory()?;
        heap.root::<old::Top>("top")?.txn(|tx, top| {
            let job = tx.alloc(old::Job { a: 0x1234_5678, b: 0x1234_5678 })?;
            let jobs = tx.alloc_slice(2, |_| old::Job { a: 0x1234_5678, b: 0x1234_5678 })?;
            tx[top].jobs = Some(jobs);
            let holder = tx.alloc(old::Holder { job: Some(job), jobs: Some(jobs) })?;
            Ok(tx[top].holder = Some(holder))
        })?;
        Ok(heap)
    };
    let heap = make()?;
    // The first part is where the whole is, whose pointer was given; but it is something else.
    makes_a_pointer("Holder", || heap.evolve::<new::Top>("top").with::<First, new::Holder>().run());
    makes_a_pointer("Holder", || heap.evolve::<new::Top>("top").with::<Second, new::Holder>().run());
    assert!(matches!(heap.root::<new::Top>("top"), Err(Error::Unfinished { .. })));
    assert!(heap.evolve::<new::Top>("top").with::<Passed, new::Holder>().run()?);
    heap.existing_root::<new::Top>("top")?.read(|view, top| {
        let holder = &view[view[top].holder.unwrap()];
        assert_eq!(view[holder.last.unwrap()].a, 0x1234_5678);
    })
}

/// The parts that pointers lead to change their type. The objects around them are reachable only through
/// these pointers, or have another content in the new program.
mod parts {
    use super::*;

    pub(super) mod old {
        use super::*;
        persist! {
            struct Top<'r> { inner: Option<P<'r, Inner>>, spare: Option<P<'r, Spare<8>>>, whole: Option<P<'r, Outer>>, }
            struct Outer { x: u64, inner: Inner, }
            struct Inner { a: u64, spare: Spare<8>, }
        }
    }

    /// `Inner` has got a pointer; `Outer` has not.
    pub(super) mod accepted {
        use super::*;
        persist! {
            struct Top<'r> { inner: Option<P<'r, Inner<'r>>>, spare: Option<P<'r, Spare<8>>>, whole: Option<P<'r, Outer>>, }
            struct Outer { x: u64, inner: Other, }
            #[persist(was = "Inner")]
            struct Other { a: u64, #[persist(since = 2)] number: u64, }
            struct Inner<'r> { a: u64, #[persist(since = 2)] more: Option<P<'r, str>>, }
        }
    }

    /// In `Inner`, a pointer has taken the place of the spare bytes and stands first, so `a` has moved. The
    /// part in `Outer` is as before.
    pub(super) mod converted {
        use super::*;
        persist! {
            struct Top<'r> { inner: Option<P<'r, Inner<'r>>>, spare: Option<P<'r, Spare<8>>>, whole: Option<P<'r, Outer>>, }
            struct Outer { x: u64, inner: Other, }
            #[persist(was = "Inner")]
            struct Other { a: u64, spare: Spare<8>, }
            struct Inner<'r> { #[persist(since = 2)] more: Option<P<'r, str>>, a: u64, }
        }
    }

    #[derive(Clone, Copy, Debug)]
    pub(super) struct Pointers {
        pub(super) inner: bool,
        pub(super) spare: bool,
        pub(super) whole: bool,
    }

    pub(super) fn make(heap: &Heap, which: Pointers) -> Result<Root<old::Top<'static>>> {
        let top: Root<old::Top> = heap.root("top")?;
        top.txn(|tx, top| {
            let outer = tx.alloc(old::Outer { x: 1, inner: old::Inner { a: 77, spare: Spare::NEW } })?;
            tx[top].inner = which.inner.then(|| field!(outer.inner));
            tx[top].spare = which.spare.then(|| field!(outer.inner.spare));
            Ok(tx[top].whole = which.whole.then_some(outer))
        })?;
        Ok(top)
    }
}

fn is_for_a_part(result: Result<()>) {
    let error = result.unwrap_err();
    assert!(matches!(&error, Error::PointerToPart { type_name, .. } if type_name == "Outer"), "{error}");
}

#[test]
fn pointers_to_parts_of_what_they_do_not_say() -> Result<()> {
    use parts::*;
    for inner in [true, false] {
        for whole in [true, false] {
            let which = Pointers { inner, spare: !inner, whole };
            let heap = small().in_memory()?;
            let top = make(&heap, which)?;
            let accepted = || heap.root::<accepted::Top>("top").map(drop);
            if inner || whole {
                is_for_a_part(accepted());
                is_for_a_part(heap.evolve::<accepted::Top>("top").run().map(drop));
                heap.root::<old::Top>("top")?;
            }
            top.txn(|tx, top| {
                (tx[top].inner, tx[top].spare) = (None, None);
                Ok(())
            })?;
            accepted()?;
            assert!(heap.check()?.is_clean());
        }
        let heap = small().in_memory()?;
        let top = make(&heap, Pointers { inner, spare: false, whole: !inner })?;
        let evolve = || heap.evolve::<converted::Top>("top").run();
        if inner {
            is_for_a_part(evolve().map(drop));
            heap.root::<old::Top>("top")?;
            top.txn(|tx, top| Ok(tx[top].inner = None))?;
        }
        assert!(evolve()?);
        assert!(heap.check()?.is_clean());
    }
    Ok(())
}

/// A read that has begun before the new program came takes a snapshot of a map.
#[test]
fn a_snapshot_by_a_read_beside() -> Result<()> {
    mod old {
        use super::*;
        persist! { struct Top<'r> { map: PSnapMap<'r, u64, u64>, spare: Spare<8>, } }
    }
    mod new {
        use super::*;
        persist! { struct Top<'r> { map: PSnapMap<'r, u64, u64>, #[persist(since = 2)] more: [u8; 8], } }
    }
    let heap = small().in_memory()?;
    let top: Root<old::Top> = heap.root("top")?;
    top.txn(|tx, top| field!(top.map).insert(tx, &1, &2).map(drop))?;
    let (begun, begins) = mpsc::channel();
    let snapshot = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            top.read(|view, top| {
                begun.send(()).unwrap();
                // So that the other thread runs until it must wait.
                thread::sleep(Duration::from_millis(50));
                view[top].map.snapshot(view)
            })
        });
        begins.recv().unwrap();
        let error = heap.root::<new::Top>("top").map(drop).unwrap_err();
        assert!(matches!(error, Error::HeldPointers { .. }), "{error}");
        reader.join().unwrap()
    })??;
    drop(snapshot);
    heap.root::<new::Top>("top").map(drop)
}

/// Maps whose values are in nodes without slots.
#[test]
fn maps_of_which_snapshots_are_taken() -> Result<()> {
    mod old {
        use super::*;
        persist! {
            struct Top<'r> { numbers: PSnapMap<'r, u64, Value>, names: PSnapMap<'r, P<'r, str>, Value>, }
        }
        #[derive(Persist, Clone, Copy)]
        #[repr(u8)]
        pub(crate) enum Value {
            One = 1,
            Number { n: u32 },
        }
    }
    mod new {
        use super::*;
        persist! {
            struct Top<'r> { numbers: PSnapMap<'r, u64, Value>, names: PSnapMap<'r, P<'r, str>, Value>, }
        }
        #[derive(Persist, Clone, Copy, Debug, PartialEq)]
        #[repr(u8)]
        pub(crate) enum Value {
            One = 1,
            Number {
                n: u32,
                #[persist(since = 2, default = 8)]
                m: u32,
            },
            #[persist(since = 2)]
            Large([u64; 9]),
        }
    }
    let heap = small().in_memory()?;
    let top: Root<old::Top> = heap.root("top")?;
    let value = |n: u32| if n.is_multiple_of(2) { old::Value::One } else { old::Value::Number { n } };
    top.txn(|tx, top| {
        for n in 0..2000 {
            field!(top.numbers).insert(tx, &n.into(), &value(n))?;
            field!(top.names).insert(tx, &n.to_string(), &value(n))?;
        }
        for n in (0..2000u32).step_by(3) {
            field!(top.numbers).remove(tx, &n.into())?;
            field!(top.names).remove(tx, &n.to_string())?;
        }
        Ok(())
    })?;
    let snapshot = top.read(|view, top| view[top].names.snapshot(view))??;
    let evolve = || heap.evolve::<new::Top>("top").run();
    assert!(matches!(evolve(), Err(Error::HeldPointers { .. })));
    snapshot.read(|map| assert_eq!(map.len(), 1333))?;
    drop(snapshot);
    assert!(evolve()?);
    let top: Root<new::Top> = heap.root("top")?;
    let value = |n: u32| if n.is_multiple_of(2) { new::Value::One } else { new::Value::Number { n, m: 8 } };
    let check = || {
        top.read(|view, top| {
            for n in 0..2000 {
                let expected = (n % 3 != 0).then(|| value(n));
                assert_eq!(view[top].numbers.get(view, &n.into()), expected.as_ref());
                assert_eq!(view[top].names.get(view, &n.to_string()), expected.as_ref());
            }
        })
    };
    check()?;
    let snapshot = top.read(|view, top| view[top].numbers.snapshot(view))??;
    top.txn(|tx, top| {
        for n in (0..2000u32).step_by(3) {
            field!(top.numbers).insert(tx, &n.into(), &new::Value::Large([1; 9]))?;
        }
        for n in (0..2000u32).step_by(3) {
            field!(top.numbers).remove(tx, &n.into())?;
        }
        Ok(())
    })?;
    snapshot.read(|map| assert_eq!(map.len(), 1333))?;
    drop(snapshot);
    check()?;
    heap.collect()?;
    check()?;
    let report = heap.check()?;
    assert!(report.is_clean(), "{report}");
    Ok(())
}

/// A name that a field had is that of a new one, and it is clear which is which, whatever the heap has.
#[test]
fn a_name_that_is_used_again() -> Result<()> {
    mod first {
        use super::*;
        persist! { struct T { a: u64, } }
    }
    mod second {
        use super::*;
        persist! { struct T { #[persist(since = 2, default = 2)] a: u64, #[persist(was = "a")] b: u64, } }
    }
    mod third {
        use super::*;
        persist! {
            struct T {
                #[persist(was = "a")] b: u64,
                #[persist(since = 3, default = 3)] c: u64,
                #[persist(since = 2, default = 2)] a: u64,
            }
        }
    }
    for over_second in [true, false] {
        let heap = small().in_memory()?;
        heap.root::<first::T>("top")?.txn(|tx, top| Ok(tx[top].a = 1))?;
        if over_second {
            assert!(heap.evolve::<second::T>("top").run()?);
            heap.root::<second::T>("top")?.txn(|tx, top| {
                assert_eq!((tx[top].b, tx[top].a), (1, 2));
                Ok(tx[top].a = 20)
            })?;
        }
        assert!(heap.evolve::<third::T>("top").run()?);
        let a = if over_second { 20 } else { 2 };
        heap.root::<third::T>("top")?.read(|view, top| {
            assert_eq!((view[top].b, view[top].c, view[top].a), (1, 3, a));
        })?;
    }
    Ok(())
}

const WORDS: usize = 16 << 10;

#[test]
fn a_larger_alignment() -> Result<()> {
    mod old {
        use super::*;
        #[derive(Persist)]
        #[repr(C)]
        pub(crate) struct T(pub(crate) [u64; WORDS]);
    }
    macro_rules! aligned {
        ($new:ident, $to:literal) => {
            mod $new {
                use super::*;
                #[derive(Persist)]
                #[repr(C, align($to))]
                pub(crate) struct T(pub(crate) [u64; WORDS]);
            }
        };
    }
    aligned!(possible, 4096);
    aligned!(impossible, 65536);
    let heap = small().in_memory()?;
    heap.root::<PVec<P<old::T>>>("top")?.txn(|tx, top| {
        for i in 0..4 {
            let one = tx.alloc(old::T([i; WORDS]))?;
            top.push(tx, one)?;
        }
        Ok(())
    })?;
    let error = heap.evolve::<PVec<P<impossible::T>>>("top").run().unwrap_err().to_string();
    assert!(
        error.contains("`T` is aligned to 65536 bytes, and objects can be aligned to 4096 at most"),
        "{error}"
    );
    assert!(heap.evolve::<PVec<P<possible::T>>>("top").run()?);
    heap.existing_root::<PVec<P<possible::T>>>("top")?.read(|view, top| {
        for (i, p) in view[top].iter(view).enumerate() {
            let at = &view[*p];
            assert_eq!((std::ptr::from_ref(at).addr() % 4096, at.0[WORDS - 1]), (0, i as u64));
        }
    })
}
