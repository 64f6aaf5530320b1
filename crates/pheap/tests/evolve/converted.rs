//! Changes for which objects are converted.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pheap::{
    Durability, Error, Heap, Migrate, Options, P, PBTreeMap, PHashMap, PString, PVec, PVecDeque, Persist,
    Result, Root, Spare, field,
};
use pheap_testkit::*;

/// The types of the first version.
pub(super) mod v1 {
    use super::*;

    #[derive(Persist, Default)]
    #[repr(C)]
    pub(crate) struct Shop<'r> {
        pub(crate) orders: PHashMap<'r, u64, P<'r, Order<'r>>>,
        pub(crate) prices: PBTreeMap<'r, P<'r, str>, Price>,
        pub(crate) inline: PHashMap<'r, u64, Price>,
        pub(crate) recent: PVec<'r, Price>,
        pub(crate) waiting: PVecDeque<'r, State>,
        pub(crate) fixed: Option<P<'r, [Price]>>,
        pub(crate) last: Option<P<'r, Order<'r>>>,
    }

    #[derive(Persist)]
    #[repr(C)]
    pub(crate) struct Order<'r> {
        pub(crate) number: u64,
        pub(crate) text: PString<'r>,
        pub(crate) state: State,
        pub(crate) before: Option<P<'r, Order<'r>>>,
        pub(crate) prices: PVec<'r, P<'r, Price>>,
        pub(crate) obsolete: u64,
    }

    #[derive(Persist, Clone, Copy)]
    #[repr(u8)]
    pub(crate) enum State {
        Open = 1,
        Paid,
    }

    /// Cents.
    #[derive(Persist, Clone, Copy, Default, Debug)]
    #[repr(C)]
    pub(crate) struct Price {
        pub(crate) cents: u64,
    }
}

/// The second version, in which objects are as large as before.
pub(super) mod v2 {
    use super::*;

    #[derive(Persist, Default)]
    #[repr(C)]
    pub(crate) struct Shop<'r> {
        pub(crate) orders: PHashMap<'r, u64, P<'r, Order<'r>>>,
        pub(crate) prices: PBTreeMap<'r, P<'r, str>, Price>,
        pub(crate) inline: PHashMap<'r, u64, Price>,
        pub(crate) recent: PVec<'r, Price>,
        pub(crate) waiting: PVecDeque<'r, v1::State>,
        pub(crate) fixed: Option<P<'r, [Price]>>,
        pub(crate) last: Option<P<'r, Order<'r>>>,
    }

    #[derive(Persist)]
    #[repr(C)]
    #[persist(removed = "obsolete")]
    pub(crate) struct Order<'r> {
        pub(crate) before: Option<P<'r, Order<'r>>>,
        pub(crate) text: PString<'r>,
        #[persist(was = "number")]
        pub(crate) id: u64,
        #[persist(since = 2, default = 7)]
        pub(crate) rating: u64,
        pub(crate) state: v1::State,
        pub(crate) prices: PVec<'r, P<'r, Price>>,
    }

    /// Euros.
    #[derive(Persist, Clone, Copy, Default, Debug, PartialEq)]
    #[repr(C)]
    pub(crate) struct Price {
        pub(crate) euros: f64,
    }

    impl Migrate<v1::Price> for Price {
        fn migrate(old: v1::Price) -> Price {
            TICKS.with(|ticks| match ticks.get() {
                1 => resume_unwind(Box::new("enough")),
                left => ticks.set(left.saturating_sub(1)),
            });
            Price { euros: old.cents as f64 / 100.0 }
        }
    }
}

/// The third version, in which they grow.
pub(super) mod v3 {
    use super::*;

    #[derive(Persist, Default)]
    #[repr(C)]
    pub(crate) struct Shop<'r> {
        #[persist(since = 3, default = 3)]
        pub(crate) version: u64,
        pub(crate) orders: PHashMap<'r, u64, P<'r, Order<'r>>>,
        pub(crate) prices: PBTreeMap<'r, P<'r, str>, Price>,
        pub(crate) inline: PHashMap<'r, u64, Price>,
        pub(crate) recent: PVec<'r, Price>,
        pub(crate) waiting: PVecDeque<'r, State<'r>>,
        pub(crate) fixed: Option<P<'r, [Price]>>,
        pub(crate) last: Option<P<'r, Order<'r>>>,
    }

    #[derive(Persist)]
    #[repr(C)]
    #[persist(removed = "obsolete", removed = "rating")]
    pub(crate) struct Order<'r> {
        pub(crate) text: PString<'r>,
        #[persist(was = "number")]
        pub(crate) id: u64,
        pub(crate) state: State<'r>,
        pub(crate) before: Option<P<'r, Order<'r>>>,
        pub(crate) prices: PVec<'r, P<'r, Price>>,
        #[persist(since = 3)]
        pub(crate) notes: PVec<'r, u32>,
        #[persist(since = 3, default = [1; 20])]
        pub(crate) more: [u64; 20],
    }

    #[derive(Persist, Clone, Copy)]
    #[repr(u8)]
    #[allow(dead_code)] // some of it is only there
    pub(crate) enum State<'r> {
        Open = 1,
        Paid,
        #[persist(since = 3)]
        Sent {
            to: Option<P<'r, str>>,
            at: u64,
        },
    }

    /// With a currency.
    #[derive(Persist, Clone, Copy, Default, Debug, PartialEq)]
    #[repr(C)]
    pub(crate) struct Price {
        pub(crate) currency: [u8; 3],
        pub(crate) amount: f64,
    }

    impl Migrate<v1::Price> for Price {
        fn migrate(old: v1::Price) -> Price {
            <Price as Migrate<v2::Price>>::migrate(v2::Price::migrate(old))
        }
    }

    impl Migrate<v2::Price> for Price {
        fn migrate(old: v2::Price) -> Price {
            Price { currency: *b"EUR", amount: old.euros }
        }
    }
}

thread_local! {
    /// The function that converts prices panics at this one of its calls from now on, unless it is 0.
    static TICKS: Cell<u32> = const { Cell::new(0) };
}

pub(super) fn make(heap: &Heap, n: u64) -> Result<Root<v1::Shop<'static>>> {
    let shop: Root<v1::Shop> = heap.root("shop")?;
    shop.txn(|tx, shop| {
        for i in 0..n {
            let price = v1::Price { cents: 100 * i };
            let text = PString::from_str(tx, &format!("order {i}"))?;
            let mut prices = Vec::new();
            for k in 0..i % 3 {
                prices.push(tx.alloc(v1::Price { cents: 100 * k })?);
            }
            let prices = PVec::from_iter(tx, prices)?;
            let state = if i % 2 == 0 { v1::State::Open } else { v1::State::Paid };
            let order =
                v1::Order { number: i, text, state, before: tx[shop].last, prices, obsolete: u64::MAX };
            let order = tx.alloc(order)?;
            tx[shop].last = Some(order);
            field!(shop.orders).insert(tx, i, order)?;
            field!(shop.prices).insert(tx, &*format!("order {i}"), price)?;
            field!(shop.inline).insert(tx, i, price)?;
            field!(shop.recent).push(tx, price)?;
            field!(shop.waiting).push_back(tx, state)?;
        }
        let fixed = tx.alloc_slice(n as usize, |i| v1::Price { cents: 100 * i as u64 })?;
        tx[shop].fixed = Some(fixed);
        // Some are gone again.
        for i in (0..n).step_by(10) {
            field!(shop.inline).remove(tx, &i);
            field!(shop.recent).pop(tx);
        }
        Ok(())
    })?;
    Ok(shop)
}

/// Asserts what each version finds, with the names of its fields and types.
macro_rules! holds {
    ($name:ident, $version:ident, $amount:ident, $state:ident, $also:expr) => {
        pub(super) fn $name(heap: &Heap, n: u64) -> Result<()> {
            heap.existing_root::<$version::Shop>("shop")?.read(|view, shop| {
                let shop = &view[shop];
                assert_eq!(shop.orders.len() as u64, n);
                let mut order = shop.last;
                for i in (0..n).rev() {
                    let p = order.unwrap();
                    assert_eq!(shop.orders.get(view, &i), Some(&p));
                    let it = &view[p];
                    assert_eq!((it.id, it.text.as_str(view)), (i, &*format!("order {i}")));
                    let is_paid = |state: &$state::State| matches!(state, $state::State::Paid);
                    assert_eq!(is_paid(&it.state), i % 2 == 1);
                    let prices: Vec<f64> = it.prices.iter(view).map(|&price| view[price].$amount).collect();
                    assert_eq!(prices, (0..i % 3).map(|k| k as f64).collect::<Vec<_>>());
                    let price = |price: Option<&$version::Price>| price.map(|price| price.$amount);
                    let amount = Some(i as f64);
                    assert_eq!(price(shop.prices.get(view, &*format!("order {i}"))), amount);
                    assert_eq!(price(shop.inline.get(view, &i)), amount.filter(|_| i % 10 != 0));
                    let gone = n - n.div_ceil(10);
                    assert_eq!(price(shop.recent.get(view, i as usize)), amount.filter(|_| i < gone));
                    assert_eq!(is_paid(shop.waiting.get(view, i as usize).unwrap()), i % 2 == 1);
                    assert_eq!(Some(view[shop.fixed.unwrap()][i as usize].$amount), amount);
                    #[allow(clippy::redundant_closure_call)]
                    $also(shop, it);
                    order = it.before;
                }
                assert!(order.is_none());
            })?;
            for _ in 0..2 {
                let report = heap.check()?;
                assert!(report.is_clean(), "{report}");
                heap.collect()?;
            }
            Ok(())
        }
    };
}

holds!(holds_second, v2, euros, v1, |_: &v2::Shop<'_>, order: &v2::Order<'_>| assert_eq!(order.rating, 7));
holds!(holds_third, v3, amount, v3, |shop: &v3::Shop<'_>, order: &v3::Order<'_>| {
    assert_eq!((shop.version, order.notes.len(), order.more), (3, 0, [1; 20]));
});

fn to_second(heap: &Heap) -> Result<bool> {
    heap.evolve::<v2::Shop>("shop").with::<v1::Price, v2::Price>().run()
}

pub(super) fn to_third(heap: &Heap) -> Result<bool> {
    heap.evolve::<v3::Shop>("shop").with::<v1::Price, v3::Price>().with::<v2::Price, v3::Price>().run()
}

fn all() -> [Options; 3] {
    let [short, long] = both();
    [short.clone().durability(Durability::Wal), short, long]
}

#[test]
fn in_place_and_then_to_larger_slots() -> Result<()> {
    let dir = tempdir();
    for (i, options) in all().into_iter().enumerate() {
        let path = dir.path().join(i.to_string());
        let heap = options.open(&path)?;
        assert!(!to_second(&heap)?); // there is no such root
        let old = make(&heap, 500)?;
        heap.collect()?;
        let before = heap.stats().live_objects;
        assert!(to_second(&heap)?);
        assert!(!to_second(&heap)?);
        assert!(matches!(old.read(|_, _| ()), Err(Error::Migrated { .. })));
        holds_second(&heap, 500)?;
        assert_eq!(heap.stats().live_objects, before);
        heap.close()?;
        let heap = options.open(&path)?;
        holds_second(&heap, 500)?;
        assert!(to_third(&heap)?);
        holds_third(&heap, 500)?;
        assert_eq!(heap.stats().live_objects, before);
        heap.close()?;
        let heap = options.clone().base(1 << 44).open(&path)?;
        holds_third(&heap, 500)?;
        heap.close()?;
        let heap = options.open(&path)?;
        heap.remove_root("shop")?;
        make(&heap, 300)?;
        assert!(to_third(&heap)?); // over one version
        holds_third(&heap, 300)?;
        heap.close()?;
    }
    Ok(())
}

/// More than one transaction converts.
pub(super) const MANY: u64 = 40_000;

/// Cuts the conversion short by panics, each time later: when it reports progress, or within a transaction.
/// The heap can be reopened, and the next run goes on where the last one stopped.
#[test]
fn it_goes_on_where_it_was_cut_short() -> Result<()> {
    let dir = tempdir();
    for (i, options) in all().into_iter().enumerate() {
        let path = dir.path().join(i.to_string());
        let mut heap = options.open(&path)?;
        make(&heap, MANY)?;
        let mut cut = 0;
        for third in [false, true] {
            for ticks in 1.. {
                let steps = Cell::new(ticks);
                let step = |_| match steps.get() {
                    1 => resume_unwind(Box::new("enough")),
                    left => steps.set(left - 1),
                };
                TICKS.set(if ticks % 2 == 0 { 9_001 * ticks } else { 0 });
                let result = catch_unwind(AssertUnwindSafe(|| match third {
                    false => {
                        heap.evolve::<v2::Shop>("shop").with::<v1::Price, v2::Price>().on_progress(step).run()
                    }
                    true => {
                        heap.evolve::<v3::Shop>("shop").with::<v2::Price, v3::Price>().on_progress(step).run()
                    }
                }));
                TICKS.set(0);
                if let Ok(result) = result {
                    assert!(result?);
                    break;
                }
                cut += 1;
                let unfinished =
                    |error| matches!(error, Error::Unfinished { .. } | Error::TypeMismatch { .. });
                assert!(unfinished(heap.root::<v3::Shop>("shop").unwrap_err()));
                let report = heap.check()?;
                assert!(report.is_clean(), "{report}");
                if ticks % 3 == 0 {
                    heap.collect()?;
                }
                if ticks % 4 == 0 {
                    heap.close()?;
                    heap = options
                        .clone()
                        .verify(true)
                        .base((1 << 44) + ((u64::from(ticks) % 3) << 40))
                        .open(&path)?;
                }
            }
            if third { holds_third(&heap, MANY)? } else { holds_second(&heap, MANY)? }
        }
        assert!(cut > 2, "{cut}");
        heap.close()?;
    }
    Ok(())
}

#[test]
fn who_may_not_open_what_is_not_finished() -> Result<()> {
    let heap = small().in_memory()?;
    make(&heap, 50)?;
    TICKS.set(60);
    catch_unwind(AssertUnwindSafe(|| to_second(&heap))).unwrap_err();
    TICKS.set(0);
    let is_unfinished = |result: Result<()>| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Unfinished { .. }), "{error}");
    };
    is_unfinished(heap.root::<v1::Shop>("shop").map(drop));
    is_unfinished(heap.existing_root::<v2::Shop>("shop").map(drop));
    is_unfinished(heap.migrate::<v1::Shop, u64>("shop", |_, _| Ok(5)).map(drop));
    is_unfinished(to_third(&heap).map(drop));
    // Without the function.
    assert!(matches!(heap.evolve::<v2::Shop>("shop").run(), Err(Error::TypeMismatch { .. })));
    assert!(to_second(&heap)?);
    holds_second(&heap, 50)
}

#[test]
fn what_stands_in_the_way_changes_nothing() -> Result<()> {
    let heap = small().in_memory()?;
    let shop = make(&heap, 50)?;
    let types = heap.types().len();
    let error = heap.evolve::<v2::Shop>("shop").run().unwrap_err().to_string();
    assert!(error.contains("in `Price`: field `euros` is in the program only"), "{error}");
    let error = heap.root::<v2::Shop>("shop").unwrap_err().to_string();
    assert!(error.contains("`euros`"), "{error}");
    let held = shop.txn(|tx, shop| Ok(tx.hold(tx[shop].last.unwrap())))?;
    assert!(matches!(to_second(&heap), Err(Error::HeldPointers { .. })));
    drop(held);
    shop.read(|_, _| assert!(matches!(to_second(&heap), Err(Error::Nested))))?;
    assert!(heap.types().len() <= types + 40);
    assert!(to_second(&heap)?);
    holds_second(&heap, 50)
}

#[test]
fn a_pointer_to_a_part_of_what_changes() -> Result<()> {
    mod old {
        use super::*;
        #[derive(Persist, Default)]
        #[repr(C)]
        pub(crate) struct Pair<'r> {
            pub(crate) whole: Option<P<'r, Both>>,
            pub(crate) part: Option<P<'r, u64>>,
        }
        #[derive(Persist, Default)]
        #[repr(C)]
        pub(crate) struct Both {
            pub(crate) a: u64,
            pub(crate) b: u64,
        }
    }
    mod new {
        use super::*;
        #[derive(Persist, Default)]
        #[repr(C)]
        pub(crate) struct Pair<'r> {
            pub(crate) whole: Option<P<'r, Both>>,
            pub(crate) part: Option<P<'r, u64>>,
        }
        #[derive(Persist, Default)]
        #[repr(C)]
        pub(crate) struct Both {
            pub(crate) b: u64,
            pub(crate) a: u64,
        }
    }
    for at_start in [true, false] {
        let heap = small().in_memory()?;
        let pair: Root<old::Pair> = heap.root("pair")?;
        pair.txn(|tx, pair| {
            let both = tx.alloc(old::Both { a: 1, b: 2 })?;
            tx[pair].whole = Some(both);
            Ok(tx[pair].part = Some(if at_start { field!(both.a) } else { field!(both.b) }))
        })?;
        let error = heap.evolve::<new::Pair>("pair").run().unwrap_err();
        assert!(matches!(&error, Error::PointerToPart { type_name, .. } if type_name == "Both"), "{error}");
        pair.txn(|tx, pair| Ok(tx[pair].part = None))?;
        assert!(heap.evolve::<new::Pair>("pair").run()?);
        heap.existing_root::<new::Pair>("pair")?.read(|view, pair| {
            let both = &view[view[pair].whole.unwrap()];
            assert_eq!((both.a, both.b), (1, 2));
        })?;
    }
    Ok(())
}

#[test]
fn keys_stay_what_they_are() -> Result<()> {
    mod old {
        use super::*;
        #[derive(Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[persist(key)]
        #[repr(C)]
        pub(crate) struct Key {
            pub(crate) a: u32,
        }
    }
    mod new {
        use super::*;
        #[derive(Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[persist(key)]
        #[repr(C)]
        pub(crate) struct Key {
            pub(crate) a: u32,
            #[persist(since = 2)]
            pub(crate) b: u32,
        }
    }
    let heap = small().in_memory()?;
    drop(heap.root::<PHashMap<old::Key, u8>>("hash")?);
    drop(heap.root::<PBTreeMap<old::Key, u8>>("tree")?);
    drop(heap.root::<PHashMap<u8, old::Key>>("value")?);
    for error in [
        heap.evolve::<PHashMap<new::Key, u8>>("hash").run().unwrap_err(),
        heap.evolve::<PBTreeMap<new::Key, u8>>("tree").run().unwrap_err(),
    ] {
        assert!(error.to_string().contains("the key of a map may get other names"), "{error}");
    }
    assert!(heap.evolve::<PHashMap<u8, new::Key>>("value").run()?);
    drop(heap.existing_root::<PHashMap<u8, new::Key>>("value")?);
    Ok(())
}

/// Room for later fields, and its use.
#[test]
fn spare_bytes_and_a_default() -> Result<()> {
    mod old {
        use super::*;
        #[derive(Persist, Default)]
        #[repr(C)]
        pub(crate) struct T {
            pub(crate) a: u64,
            pub(crate) spare: Spare<8>,
        }
    }
    mod new {
        use super::*;
        #[derive(Persist, Default)]
        #[repr(C)]
        pub(crate) struct T {
            pub(crate) a: u64,
            #[persist(since = 2, default = 5)]
            pub(crate) b: u32,
            pub(crate) spare: Spare<4>,
        }
    }
    let heap = small().in_memory()?;
    heap.root::<old::T>("t")?.txn(|tx, t| Ok(tx[t].a = 9))?;
    let error = heap.root::<new::T>("t").unwrap_err().to_string();
    assert!(
        error.contains("objects have to be converted: `heap.evolve::<T>(\"t\").run()?` does that"),
        "{error}"
    );
    assert!(heap.evolve::<new::T>("t").run()?);
    heap.root::<new::T>("t")?
        .read(|view, t| assert_eq!((view[t].a, view[t].b, view[t].spare), (9, 5, Spare::NEW)))
}
