//! What a conversion relies on before it changes anything, and when it goes on.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pheap::{Durability, Error, Heap, Migrate, P, PSnapMap, PVec, Persist, Result, Root, SyncPolicy, field};
use pheap_testkit::*;

/// Two programs that make a root of the same type, by other ways.
mod programs {
    use super::*;

    pub(super) mod old {
        use super::*;

        #[derive(Persist, Default)]
        #[repr(C)]
        #[persist(id = "Top")]
        pub(crate) struct Top<'r> {
            pub(crate) fill: Option<P<'r, [F]>>,
            pub(crate) x: Option<P<'r, X<'r>>>,
        }

        #[derive(Persist, Clone, Copy)]
        #[repr(C)]
        #[persist(id = "F")]
        pub(crate) struct F {
            pub(crate) a: u64,
        }

        #[derive(Persist)]
        #[repr(C)]
        #[persist(id = "X")]
        pub(crate) struct X<'r> {
            pub(crate) p: Option<P<'r, A>>,
        }

        #[derive(Persist)]
        #[repr(C)]
        #[persist(id = "A")]
        pub(crate) struct A {
            pub(crate) n: u64,
        }
    }

    macro_rules! program {
        ($name:ident, $c:meta, $d:meta, $field_c:meta, $field_d:meta) => {
            pub(super) mod $name {
                use super::*;

                #[derive(Persist, Default)]
                #[repr(C)]
                #[persist(id = "Top")]
                pub(crate) struct Top<'r> {
                    pub(crate) fill: Option<P<'r, [F]>>,
                    pub(crate) x: Option<P<'r, X<'r>>>,
                }

                #[derive(Persist, Clone, Copy)]
                #[repr(C)]
                #[persist(id = "F")]
                pub(crate) struct F {
                    a: u64,
                    #[persist(since = 2, default = 1)]
                    b: u64,
                }

                #[derive(Persist)]
                #[repr(C)]
                #[persist(id = "X")]
                pub(crate) struct X<'r> {
                    #[$field_c]
                    pub(crate) c: Option<P<'r, C>>,
                    #[$field_d]
                    pub(crate) d: Option<P<'r, D<'r>>>,
                }

                #[derive(Persist)]
                #[repr(C)]
                #[persist(id = "C")]
                #[$c]
                pub(crate) struct C {
                    pub(crate) n: u64,
                }

                #[derive(Persist)]
                #[repr(C)]
                #[persist(id = "D")]
                #[$d]
                pub(crate) struct D<'r> {
                    #[persist(since = 2)]
                    pub(crate) s: Option<P<'r, str>>,
                }
            }
        };
    }

    program!(one, persist(was = "A"), persist(removed = "n"), persist(was = "p"), persist(since = 2));
    program!(
        two,
        persist(was = "Q"),
        persist(was = "A", removed = "n"),
        persist(since = 2),
        persist(was = "p")
    );
}

#[test]
fn a_program_that_makes_other_types_of_the_same_does_not_go_on() -> Result<()> {
    use programs::*;
    let heap = small().in_memory()?;
    heap.root::<old::Top>("top")?.txn(|tx, top| {
        let fill = tx.alloc_slice(100_000, |i| old::F { a: i as u64 })?;
        let p = tx.alloc(old::A { n: 0x4141_4141_4141 })?;
        let x = tx.alloc(old::X { p: Some(p) })?;
        (tx[top].fill, tx[top].x) = (Some(fill), Some(x));
        Ok(())
    })?;
    let cut = heap.evolve::<one::Top>("top").on_progress(|_| resume_unwind(Box::new("enough")));
    assert!(catch_unwind(AssertUnwindSafe(|| cut.run())).is_err());
    assert!(matches!(heap.evolve::<two::Top>("top").run(), Err(Error::Unfinished { .. })));
    assert!(heap.evolve::<one::Top>("top").run()?);
    assert!(heap.check()?.is_clean());
    heap.existing_root::<one::Top>("top")?.read(|view, top| {
        let x = &view[view[top].x.unwrap()];
        assert_eq!((view[x.c.unwrap()].n, x.d.is_none()), (0x4141_4141_4141, true));
    })
}

/// In two modules of a program.
#[test]
fn two_types_of_one_name() -> Result<()> {
    macro_rules! module {
        ($name:ident, $field:ident) => {
            mod $name {
                use super::*;

                #[derive(Persist, Clone, Copy)]
                #[repr(C)]
                #[persist(id = "Entry")]
                pub(super) struct Old {
                    pub(super) $field: u64,
                }

                #[derive(Persist, Clone, Copy)]
                #[repr(C)]
                #[persist(id = "Entry")]
                pub(super) struct Entry {
                    pub(super) $field: u64,
                    pub(super) twice: u64,
                }

                impl Migrate<Old> for Entry {
                    fn migrate(old: Old) -> Self {
                        Entry { $field: old.$field, twice: old.$field * 2 }
                    }
                }
            }
        };
    }
    module!(a, apples);
    module!(b, pears);

    #[derive(Persist, Default)]
    #[repr(C)]
    #[persist(id = "Top")]
    struct OldTop<'r> {
        a: PVec<'r, a::Old>,
        b: PVec<'r, b::Old>,
    }

    #[derive(Persist, Default)]
    #[repr(C)]
    #[persist(id = "Top")]
    struct Top<'r> {
        a: PVec<'r, a::Entry>,
        b: PVec<'r, b::Entry>,
    }

    let heap = small().in_memory()?;
    heap.root::<OldTop>("top")?.txn(|tx, top| {
        field!(top.a).push(tx, a::Old { apples: 1 })?;
        field!(top.b).push(tx, b::Old { pears: 2 })
    })?;
    let evolution = heap.evolve::<Top>("top").with::<a::Old, a::Entry>().with::<b::Old, b::Entry>();
    assert!(evolution.run()?);
    heap.existing_root::<Top>("top")?.read(|view, top| {
        let (a, b) = (view[top].a.get(view, 0).unwrap(), view[top].b.get(view, 0).unwrap());
        assert_eq!((a.twice, b.twice), (2, 4));
    })
}

/// A vector has room for any number of values without bytes, for nothing.
#[test]
fn a_buffer_that_would_be_too_large() -> Result<()> {
    #[derive(Persist, Clone, Copy)]
    #[repr(C)]
    #[persist(id = "Z")]
    struct Nothing {}

    #[derive(Persist, Clone, Copy)]
    #[repr(C)]
    #[persist(id = "Z")]
    struct Number {
        #[persist(since = 2, default = 7)]
        n: u64,
    }

    for room in [1 << 45, 1 << 61, usize::MAX - 8] {
        let heap = small().in_memory()?;
        let old = heap.root::<PVec<Nothing>>("list")?;
        let reserved = old.txn(|tx, list| {
            list.push(tx, Nothing {})?;
            list.reserve(tx, room)
        });
        if reserved.is_err() {
            continue;
        }
        assert!(matches!(heap.evolve::<PVec<Number>>("list").run(), Err(Error::TooLarge { .. })));
        // Nothing was begun.
        old.txn(|tx, list| list.shrink_to_fit(tx))?;
        assert!(heap.evolve::<PVec<Number>>("list").run()?);
        heap.existing_root::<PVec<Number>>("list")?.read(|view, list| {
            assert!(view[list].iter(view).map(|number| number.n).eq([7]));
        })?;
    }
    Ok(())
}

/// The values of a map with versions.
mod value {
    use super::*;

    #[derive(Persist, Clone, Copy, Debug, PartialEq)]
    #[repr(u64)]
    #[persist(id = "V")]
    pub(super) enum Old {
        Zero,
        One,
        Two,
    }

    #[derive(Persist, Clone, Copy, Debug, PartialEq)]
    #[repr(C)]
    #[persist(id = "V")]
    pub(super) struct New {
        pub(super) n: u64,
        /// A value that is not zero.
        pub(super) kind: Kind,
    }

    #[derive(Persist, Clone, Copy, Debug, PartialEq)]
    #[repr(u64)]
    pub(super) enum Kind {
        First = 1,
    }

    impl Migrate<Old> for New {
        fn migrate(old: Old) -> New {
            assert!(old != Old::One, "a value that was replaced");
            New { n: 0x4141 + old as u64, kind: Kind::First }
        }
    }
}

type Map<V> = PSnapMap<'static, u64, V>;

#[derive(Persist)]
#[repr(C)]
#[persist(id = "S")]
struct Within<'r, V> {
    map: PSnapMap<'r, u64, V>,
    n: u64,
}

/// A migration, which is not durable yet, has made another root of a map.
#[test]
fn the_durable_version_of_what_the_root_was() -> Result<()> {
    use value::*;
    let dir = tempdir();
    let options = small().durability(Durability::Wal).sync_policy(SyncPolicy::OnDemand);
    let heap = options.open(dir.path().join("heap"))?;
    let old: Root<Map<Old>> = heap.root("map")?;
    old.txn(|tx, map| (0..5).try_for_each(|key| map.insert(tx, &key, &Old::Two).map(drop)))?;
    heap.sync()?;
    heap.migrate::<Map<Old>, Within<'static, Old>>("map", |tx, map| {
        Ok(Within { map: std::mem::take(&mut tx[map]), n: 1 })
    })?;
    let evolve = || heap.evolve::<Within<New>>("map").with::<Old, New>().run();
    let held = old.durable_snapshot()?;
    assert!(matches!(evolve(), Err(Error::HeldPointers { .. })));
    held.read(|map| assert!(map.iter().all(|(_, value)| *value == Old::Two) && map.len() == 5))?;
    drop(held);
    assert!(evolve()?);
    assert!(matches!(old.durable_snapshot(), Err(Error::Migrated { .. })));
    Ok(())
}

/// Also where the durable version has another one.
#[test]
fn a_value_that_was_replaced_is_not_seen() -> Result<()> {
    use value::*;
    let dir = tempdir();
    let options = small().durability(Durability::Wal).sync_policy(SyncPolicy::OnDemand);
    let heap = options.open(dir.path().join("heap"))?;
    let old: Root<Map<Old>> = heap.root("map")?;
    for value in [Old::One, Old::Two] {
        old.txn(|tx, map| map.insert(tx, &1, &value).map(drop))?;
        if value == Old::One {
            heap.sync()?;
        }
    }
    assert!(heap.evolve::<Map<New>>("map").with::<Old, New>().run()?);
    Ok(())
}

/// Places behind the values of a node repeat the last one, also if that is zero in all bytes.
#[test]
fn a_map_whose_last_value_is_zero() -> Result<()> {
    use value::*;
    for last in [Old::Zero, Old::Two] {
        let dir = tempdir();
        let path = dir.path().join("heap");
        let heap: Heap = small().open(&path)?;
        heap.root::<Map<Old>>("map")?.txn(|tx, map| map.insert(tx, &1, &last).map(drop))?;
        assert!(heap.evolve::<Map<New>>("map").with::<Old, New>().run()?);
        let report = heap.check()?;
        assert!(report.is_clean(), "{report}");
        heap.close()?;
        small().verify(true).open(&path)?.close()?;
    }
    Ok(())
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
#[persist(id = "Item")]
struct Item {
    n: u64,
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
#[persist(id = "Item")]
struct LargerItem {
    n: u64,
    #[persist(since = 2, default = [7; 63])]
    more: [u64; 63],
}

/// Not even in the largest file that the heap may have.
#[test]
fn a_conversion_for_which_there_never_is_room() -> Result<()> {
    let heap = small().reserve(4 * MIB).in_memory()?;
    let old = heap.root::<PVec<P<Item>>>("items")?;
    old.txn(|tx, items| {
        (0..8000).try_for_each(|n| {
            let item = tx.alloc(Item { n })?;
            items.push(tx, item)
        })
    })?;
    let evolve = || heap.evolve::<PVec<P<LargerItem>>>("items").run();
    assert!(matches!(evolve(), Err(Error::ReservationFull { .. })));
    // Nothing was begun.
    old.txn(|tx, items| {
        items.truncate(tx, 1000);
        Ok(())
    })?;
    assert!(evolve()?);
    heap.existing_root::<PVec<P<LargerItem>>>("items")?.read(|view, items| {
        for (n, item) in view[items].iter(view).enumerate() {
            assert!((view[*item].n, view[*item].more) == (n as u64, [7; 63]));
        }
    })
}

/// However full the heap is, a conversion that cannot be completed is refused: if it had begun, no program
/// could open the root any more.
#[test]
fn a_conversion_that_has_begun_has_room() -> Result<()> {
    let (mut done, mut refused) = (0, 0);
    for (number, count) in (5000..8000).step_by(100).enumerate() {
        let dir = tempdir();
        let durability = [Durability::Process, Durability::Wal][number % 2];
        let options = small().reserve(4 * MIB).durability(durability);
        let heap = options.open(dir.path().join("heap"))?;
        let old = heap.root::<PVec<P<Item>>>("items")?;
        old.txn(|tx, items| {
            (0..count).try_for_each(|n| {
                let item = tx.alloc(Item { n })?;
                items.push(tx, item)
            })
        })?;
        match heap.evolve::<PVec<P<LargerItem>>>("items").run() {
            Err(Error::ReservationFull { need, reserved }) => {
                assert!(need > reserved, "{need} of {reserved}");
                old.read(|view, items| assert_eq!(view[items].len() as u64, count))?;
                refused += 1;
            }
            finished => {
                assert!(finished?);
                done += 1;
            }
        }
    }
    assert!(done > 5 && refused > 5, "{done} done, {refused} refused");
    Ok(())
}

/// The allocator keeps the span that it fills, also when there is nothing in it.
#[test]
fn a_type_without_objects_that_grows() -> Result<()> {
    #[derive(Persist, Default)]
    #[repr(C)]
    #[persist(id = "Top")]
    struct Before<'r> {
        item: Option<P<'r, Item>>,
    }

    #[derive(Persist, Default)]
    #[repr(C)]
    #[persist(id = "Top")]
    struct After<'r> {
        item: Option<P<'r, LargerItem>>,
    }

    let dir = tempdir();
    let path = dir.path().join("heap");
    let heap = small().open(&path)?;
    let old = heap.root::<Before>("top")?;
    old.txn(|tx, top| {
        let item = tx.alloc(Item { n: 1 })?;
        tx[top].item = Some(item);
        Ok(())
    })?;
    old.txn(|tx, top| {
        tx[top].item = None;
        Ok(())
    })?;
    let cut = heap.evolve::<After>("top").on_progress(|_| resume_unwind(Box::new("enough")));
    assert!(catch_unwind(AssertUnwindSafe(|| cut.run())).is_err());
    let report = heap.check()?;
    assert!(report.is_clean(), "{report}");
    assert!(heap.evolve::<After>("top").run()?);
    let report = heap.check()?;
    assert!(report.is_clean(), "{report}");
    heap.close()?;
    small().verify(true).open(&path)?.close()
}
