//! Roots that are maps with snapshots: a reader may ask for the durable version at any time, without the
//! root's lock.

use std::fmt::Debug;
use std::sync::Barrier;
use std::thread;

use pheap::{
    Durability, Error, Heap, Migrate, Options, P, PSnapMap, Persist, Plain, Result, Root, SyncPolicy,
};
use pheap_testkit::*;

#[derive(Persist, Clone, Copy, PartialEq, Debug)]
#[repr(C)]
struct Pence(u64);

/// The same bytes by another name.
#[derive(Persist, Clone, Copy, PartialEq, Debug)]
#[repr(C)]
#[persist(was = "Pence")]
struct Cents(u64);

/// As large.
#[derive(Persist, Clone, Copy, PartialEq, Debug)]
#[repr(C)]
#[persist(was = "Pence")]
struct Pounds(f64);

/// Larger.
#[derive(Persist, Clone, Copy, PartialEq, Debug)]
#[repr(C)]
#[persist(was = "Pence")]
struct Price {
    pence: u64,
    currency: [u8; 24],
}

impl Migrate<Pence> for Pounds {
    fn migrate(old: Pence) -> Pounds {
        Pounds(old.0 as f64 / 100.0)
    }
}

impl Migrate<Pence> for Price {
    fn migrate(old: Pence) -> Price {
        Price { pence: old.0, currency: *b"GBP                     " }
    }
}

type Map<V> = PSnapMap<'static, u64, V>;

const MANY: u64 = 3000;

/// Makes a map of several transactions, with gaps between its keys.
fn fill(heap: &Heap) -> Result<Root<Map<Pence>>> {
    let map: Root<Map<Pence>> = heap.root("map")?;
    for from in (0..MANY).step_by(500) {
        map.txn(|tx, map| (from..from + 500).try_for_each(|n| map.insert(tx, &n, &Pence(n)).map(drop)))?;
    }
    map.txn(|tx, map| (0..MANY).step_by(3).try_for_each(|n| map.remove(tx, &n).map(drop)))?;
    Ok(map)
}

fn check<V>(heap: &Heap, value: impl Fn(u64) -> V) -> Result<Root<Map<V>>>
where
    V: 'static + Plain + Copy + Send + Sync + for<'r> Persist<At<'r> = V> + PartialEq + Debug,
{
    let map: Root<Map<V>> = heap.root("map")?;
    let expected: Vec<(u64, V)> = (0..MANY).filter(|n| n % 3 != 0).map(|n| (n, value(n))).collect();
    let found = map.read(|view, map| view[map].iter(view).map(|(n, v)| (*n, *v)).collect::<Vec<_>>())?;
    assert_eq!(found, expected);
    // The durable version has the same content now, whichever syncs there were.
    let durable = map.durable_snapshot()?;
    assert!(durable.read(|map| map.iter().map(|(n, v)| (*n, *v)).eq(expected.iter().copied()))?);
    map.txn(|tx, map| map.insert(tx, &MANY, &value(7)))?;
    durable.read(|map| assert_eq!(map.len(), expected.len()))?;
    map.txn(|tx, map| map.remove(tx, &MANY))?;
    heap.collect()?;
    assert!(durable.read(|map| map.iter().map(|(n, v)| (*n, *v)).eq(expected.iter().copied()))?);
    let report = heap.check()?;
    assert!(report.is_clean(), "{report}");
    Ok(map)
}

/// Runs a test on a new heap of each kind.
fn each_kind(test: impl Fn(&Heap) -> Result<()>) -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("heap");
    let options = || small().durability(Durability::Wal);
    for options in
        [small().durability(Durability::Process), options(), options().sync_policy(SyncPolicy::OnDemand)]
    {
        let heap = options.open(&path)?;
        test(&heap)?;
        heap.close()?;
        std::fs::remove_file(&path).unwrap();
    }
    test(&small().in_memory()?)
}

#[test]
fn the_same_bytes() -> Result<()> {
    each_kind(|heap| {
        let old = fill(heap)?;
        heap.sync()?;
        old.txn(|tx, map| map.insert(tx, &MANY, &Pence(7)))?; // with `OnDemand`, not durable before the end
        let before = old.durable_snapshot()?;
        assert!(matches!(heap.root::<Map<Cents>>("map"), Err(Error::HeldPointers { .. })));
        let durable = before.read(|map| map.len())?;
        drop(before);
        let new: Root<Map<Cents>> = heap.root("map")?;
        // No version is lost, and none is taken for durable that was not.
        assert_eq!(new.durable_snapshot()?.read(|map| map.len())?, durable);
        assert!(matches!(old.durable_snapshot(), Err(Error::Migrated { .. })));
        new.txn(|tx, map| map.remove(tx, &MANY))?;
        heap.sync()?;
        check(heap, Cents).map(drop)
    })
}

#[test]
fn values_that_are_as_large() -> Result<()> {
    each_kind(|heap| {
        let old = fill(heap)?;
        assert!(heap.evolve::<Map<Pounds>>("map").with::<Pence, Pounds>().run()?);
        assert!(matches!(old.durable_snapshot(), Err(Error::Migrated { .. })));
        assert!(matches!(old.read(|_, _| ()), Err(Error::Migrated { .. })));
        check(heap, |n| Pounds(n as f64 / 100.0))?;
        assert!(!heap.evolve::<Map<Pounds>>("map").with::<Pence, Pounds>().run()?);
        Ok(())
    })
}

fn larger(heap: &Heap) -> Result<bool> {
    heap.evolve::<Map<Price>>("map").with::<Pence, Price>().run()
}

#[test]
fn values_that_are_larger() -> Result<()> {
    each_kind(|heap| {
        fill(heap)?;
        assert!(larger(heap)?);
        check(heap, |n| Price::migrate(Pence(n))).map(drop)
    })
}

#[test]
fn texts_and_slices() -> Result<()> {
    type Texts<V> = PSnapMap<'static, P<'static, str>, P<'static, [V]>>;
    each_kind(|heap| {
        let old: Root<Texts<Pence>> = heap.root("texts")?;
        old.txn(|tx, map| {
            (0..500u64)
                .try_for_each(|n| map.insert(tx, &n.to_string(), &vec![Pence(n); n as usize % 5]).map(drop))
        })?;
        assert!(heap.evolve::<Texts<Price>>("texts").with::<Pence, Price>().run()?);
        let new: Root<Texts<Price>> = heap.root("texts")?;
        new.durable_snapshot()?.read(|map| {
            assert_eq!(map.len(), 500);
            for n in 0..500u64 {
                assert_eq!(map.get(&n.to_string()), Some(&*vec![Price::migrate(Pence(n)); n as usize % 5]));
            }
        })?;
        let report = heap.check()?;
        assert!(report.is_clean(), "{report}");
        Ok(())
    })
}

#[test]
fn an_empty_map() -> Result<()> {
    each_kind(|heap| {
        let old: Root<Map<Pence>> = heap.root("map")?;
        let empty = old.durable_snapshot()?;
        assert!(larger(heap)?);
        empty.read(|map| assert!(map.is_empty()))?;
        let new: Root<Map<Price>> = heap.root("map")?;
        new.durable_snapshot()?.read(|map| assert!(map.is_empty()))
    })
}

#[test]
fn keys_stay_as_they_are() -> Result<()> {
    let heap = small().in_memory()?;
    drop(heap.root::<PSnapMap<'static, [u32; 2], u64>>("map")?);
    let error = heap.evolve::<PSnapMap<'static, [u32; 3], u64>>("map").run().expect_err("other keys");
    assert!(matches!(error, Error::TypeMismatch { .. }), "{error}");
    Ok(())
}

/// A snapshot keeps the map as it is: nothing has happened when that is said.
#[test]
fn snapshots_that_are_held() -> Result<()> {
    each_kind(|heap| {
        let old = fill(heap)?;
        let snapshot = old.read(|view, map| view[map].snapshot(view))??;
        assert!(matches!(larger(heap), Err(Error::HeldPointers { .. })));
        snapshot.read(|map| assert_eq!(map.get(&1), Some(&Pence(1))))?;
        old.txn(|tx, map| map.insert(tx, &1, &Pence(2)))?;
        drop(snapshot);
        old.txn(|tx, map| map.insert(tx, &1, &Pence(1)))?;
        assert!(larger(heap)?);
        check(heap, |n| Price::migrate(Pence(n))).map(drop)
    })
}

/// During a conversion, a durable snapshot of the old type is refused: it would show a version from before.
#[test]
fn nobody_gets_a_version_of_before_while_it_is_converted() -> Result<()> {
    each_kind(|heap| {
        let old = fill(heap)?;
        let mut asked = 0;
        let evolution = heap.evolve::<Map<Price>>("map").with::<Pence, Price>();
        evolution
            .on_progress(|_| {
                assert!(matches!(old.durable_snapshot(), Err(Error::Migrated { .. })));
                asked += 1;
            })
            .run()?;
        assert!(asked > 0);
        Ok(())
    })
}

/// A thread that has a durable snapshot keeps it unchanged. Then the conversion fails before it begins.
#[test]
fn a_durable_version_that_is_asked_for_beside() -> Result<()> {
    let dir = tempdir();
    let options: Options = small().durability(Durability::Wal).sync_policy(SyncPolicy::OnDemand);
    let mut refused = 0;
    for round in 0..40 {
        let path = dir.path().join(format!("heap{round}"));
        let heap = options.open(&path)?;
        let old = fill(&heap)?;
        heap.sync()?;
        let start = Barrier::new(2);
        let result = thread::scope(|scope| {
            let looker = scope.spawn(|| {
                start.wait();
                while let Ok(snapshot) = old.durable_snapshot() {
                    let sum =
                        snapshot.read(|map| map.iter().map(|(n, v)| n - v.0).sum::<u64>() + map.len() as u64);
                    assert_eq!(sum.unwrap(), 2000);
                    drop(snapshot);
                    thread::yield_now(); // nobody holds one for a moment, so that the conversion may begin
                }
            });
            start.wait();
            let result = loop {
                match larger(&heap) {
                    Err(Error::HeldPointers { .. }) => refused += 1,
                    other => break other,
                }
            };
            looker.join().unwrap();
            result
        });
        assert!(result?);
        check(&heap, |n| Price::migrate(Pence(n)))?;
        heap.close()?;
    }
    println!("refused {refused} times");
    Ok(())
}
