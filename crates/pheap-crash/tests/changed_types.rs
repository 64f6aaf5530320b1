//! Conversions of objects (`Heap::evolve`), with a crash at any moment. The heap that the crash leaves can be
//! opened. Its root can be opened as the old type before the conversion, as the new type after it, and as
//! neither in the middle. Converting again always ends with the same content.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use pheap::sim::{Bug, set_bug};
use pheap::{
    Durability, Error, Heap, Migrate, Options, P, PBTreeMap, PHashMap, PSnapMap, PVec, Persist, SyncPolicy,
    field,
};
use pheap_crash::medium::{Content, Medium, Snapshot};
use pheap_crash::run::catching;
use pheap_crash::subset::Breadth;
use pheap_crash::tuning::SMALL;
use pheap_testkit::Rng;

/// The tests copy images all the time. The C library's allocator may return the memory of each image to the
/// kernel at once.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Persist, Default)]
#[repr(C)]
#[persist(id = "Root")]
struct Before<'r> {
    by_id: PHashMap<'r, u64, P<'r, Old<'r>>>,
    inline: PBTreeMap<'r, u64, Size>,
    vector: PVec<'r, Size>,
    fixed: Option<P<'r, [Size]>>,
    last: Option<P<'r, Old<'r>>>,
}

#[derive(Persist)]
#[repr(C)]
#[persist(id = "Item")]
struct Old<'r> {
    id: u64,
    next: Option<P<'r, Old<'r>>>,
}

#[derive(Persist, Clone, Copy, PartialEq)]
#[repr(C)]
struct Size(u64);

/// A value to which the root does not lead. Converting it would be a mistake.
const DEAD: Size = Size(u64::MAX);

/// The same root with other items and larger sizes.
#[derive(Persist, Default)]
#[repr(C)]
#[persist(id = "Root")]
struct After<'r> {
    by_id: PHashMap<'r, u64, P<'r, New<'r>>>,
    inline: PBTreeMap<'r, u64, Sizes>,
    vector: PVec<'r, Sizes>,
    fixed: Option<P<'r, [Sizes]>>,
    last: Option<P<'r, New<'r>>>,
}

#[derive(Persist)]
#[repr(C)]
#[persist(id = "Item")]
struct New<'r> {
    next: Option<P<'r, New<'r>>>,
    id: u64,
    #[persist(since = 2, default = 5)]
    more: u64,
}

#[derive(Persist, Clone, Copy, PartialEq, Debug)]
#[repr(C)]
#[persist(id = "Size")]
struct Sizes(i64, u64);

impl Migrate<Size> for Sizes {
    fn migrate(old: Size) -> Sizes {
        assert!(old != DEAD, "a value that the root does not lead to");
        Sizes(-(old.0 as i64), 7)
    }
}

const ITEMS: u64 = 20;

/// A root of which versions are kept.
type Map<V> = PSnapMap<'static, u64, V>;

fn make_map(heap: &Heap) -> pheap::Result<()> {
    let map = heap.root::<Map<Size>>("it")?;
    // In several transactions, so that there are older versions.
    for from in (0..ITEMS * 4).step_by(20) {
        map.txn(|tx, map| (from..from + 20).try_for_each(|id| map.insert(tx, &id, &Size(id)).map(drop)))?;
    }
    Ok(())
}

fn check_map(heap: &Heap) -> Result<(), String> {
    let map = heap.existing_root::<Map<Sizes>>("it").map_err(|e| e.to_string())?;
    let expected = || (0..ITEMS * 4).map(|id| (id, Sizes(-(id as i64), 7)));
    let holds = map.read(|view, map| view[map].iter(view).map(|(id, v)| (*id, *v)).eq(expected()));
    let durable = map
        .durable_snapshot()
        .and_then(|map| map.read(|map| map.iter().map(|(id, v)| (*id, *v)).eq(expected())));
    if (matches!(holds, Ok(true)), matches!(durable, Ok(true))) != (true, true) {
        return Err(format!("something else is in the map: {holds:?}, {durable:?}"));
    }
    is_clean(heap)
}

/// A conversion under test.
#[derive(Clone, Copy)]
struct Case {
    make: fn(&Heap) -> pheap::Result<()>,
    evolve: fn(&Heap) -> pheap::Result<bool>,
    check: fn(&Heap) -> Result<(), String>,
    /// Opens the root as the old type, and as the new type.
    found: fn(&Heap) -> [Result<(), Error>; 2],
}

const OBJECTS: Case = Case {
    make,
    evolve,
    check,
    found: |heap| [heap.existing_root::<Before>("it").map(drop), heap.existing_root::<After>("it").map(drop)],
};

const VERSIONS: Case = Case {
    make: make_map,
    evolve: |heap| heap.evolve::<Map<Sizes>>("it").with::<Size, Sizes>().run(),
    check: check_map,
    found: |heap| {
        [heap.existing_root::<Map<Size>>("it").map(drop), heap.existing_root::<Map<Sizes>>("it").map(drop)]
    },
};

fn make(heap: &Heap) -> pheap::Result<()> {
    heap.root::<Before>("it")?.txn(|tx, root| {
        for id in 0..ITEMS {
            let item = tx.alloc(Old { id, next: tx[root].last })?;
            tx[root].last = Some(item);
            field!(root.by_id).insert(tx, id, item)?;
            field!(root.inline).insert(tx, id, Size(id))?;
            field!(root.vector).push(tx, Size(id))?;
            field!(root.inline).insert(tx, ITEMS + id, DEAD)?;
            let fixed = tx.alloc_slice(2, |i| if i == 0 { Size(id) } else { DEAD })?;
            tx[root].fixed = Some(fixed);
        }
        for id in ITEMS..2 * ITEMS {
            field!(root.inline).remove(tx, &id);
        }
        let fixed = tx.alloc_slice(2, |_| Size(0))?;
        tx[root].fixed = Some(fixed);
        field!(root.vector).push(tx, DEAD)?;
        field!(root.vector).pop(tx);
        Ok(())
    })?;
    heap.root::<u64>("other").map(drop)
}

fn check(heap: &Heap) -> Result<(), String> {
    let root = heap.existing_root::<After>("it").map_err(|e| e.to_string())?;
    root.read(|view, root| {
        let root = &view[root];
        let mut next = root.last;
        for id in (0..ITEMS).rev() {
            let item = next.unwrap();
            assert_eq!(root.by_id.get(view, &id), Some(&item));
            assert_eq!((view[item].id, view[item].more), (id, 5));
            let sizes = Sizes(-(id as i64), 7);
            assert_eq!(root.inline.get(view, &id), Some(&sizes));
            assert_eq!(root.vector.get(view, id as usize), Some(&sizes));
            next = view[item].next;
        }
        assert!(next.is_none());
        assert_eq!(view[root.fixed.unwrap()], [Sizes(0, 7); 2]);
    })
    .map_err(|e| e.to_string())?;
    is_clean(heap)
}

fn is_clean(heap: &Heap) -> Result<(), String> {
    let report = heap.check().map_err(|e| e.to_string())?;
    if report.is_clean() { Ok(()) } else { Err(report.to_string()) }
}

/// Converts the root. After each step, another thread changes another root.
fn evolve(heap: &Heap) -> pheap::Result<bool> {
    let other = heap.root::<u64>("other")?;
    let add = || {
        other.txn(|tx, steps| {
            tx[steps] += 1;
            Ok(())
        })
    };
    let change = || add().unwrap();
    let step = |_| thread::scope(|scope| scope.spawn(change).join().unwrap());
    heap.evolve::<After>("it").with::<Size, Sizes>().on_progress(step).run()
}

/// Converts the root. Returns content that a crash can leave during the conversion.
fn crashes(case: Case, content: &Content, options: &Options, breadth: Breadth, seed: u64) -> Vec<Content> {
    let medium = Medium::new(content.clone());
    let heap = medium.open(options).unwrap();
    let opening = medium.take_points();
    catching(|| (case.evolve)(&heap).map_err(|e| e.to_string())).unwrap();
    medium.look();
    let points = medium.take_points();
    (case.check)(&heap).unwrap();
    drop(heap);
    assert_eq!(medium.violations(), Vec::<String>::new());
    let mut left = Vec::new();
    let mut now = Snapshot::new(content.clone());
    opening.iter().for_each(|point| now.advance(point));
    for (i, point) in points.iter().enumerate() {
        now.advance(point);
        let mut rng = Rng::new(&[seed, i as u64]);
        let _: ControlFlow<()> = point.subsets(breadth, &mut rng, |chosen| {
            left.push(now.left(point, chosen, false));
            ControlFlow::Continue(())
        });
    }
    left
}

/// Opens the heap that is left, checks it, and converts the root if that is not done. Returns whether the
/// crash was in the middle of the conversion.
fn go_on(case: Case, content: &Content, options: &Options) -> Result<bool, String> {
    let medium = Medium::new(content.clone());
    let heap = catching(|| medium.open(options).map_err(|e| format!("opening fails: {e}")))?;
    is_clean(&heap)?;
    let found = (case.found)(&heap);
    let is_before = found[0].is_ok();
    let middle = match found {
        [Ok(()), Err(Error::TypeMismatch { .. })] | [Err(Error::TypeMismatch { .. }), Ok(())] => false,
        [Err(Error::Unfinished { .. }), Err(Error::Unfinished { .. })] => true,
        other => return Err(format!("{other:?}")),
    };
    let goes_on = is_before || middle;
    let did = catching(|| (case.evolve)(&heap).map_err(|e| e.to_string()))?;
    if did != goes_on {
        return Err(format!("there was something to do: {goes_on}, and it did: {did}"));
    }
    catching(|| (case.check)(&heap))?;
    Ok(middle)
}

fn explore(case: Case, durability: Durability, pin: bool, breadth: Breadth) {
    let options = Options::new()
        .tuning(SMALL)
        .arena_size(256 << 10)
        .reserve(16 << 20)
        .durability(durability)
        .pin_undo(pin);
    let empty = Content::default();
    let empty = if durability == Durability::Wal { empty.on_disk() } else { empty };
    let medium = Medium::new(empty);
    let heap = medium.open(&options).unwrap();
    (case.make)(&heap).unwrap();
    heap.close().unwrap();
    let begin = medium.durable();
    let (mut known, mut middle, mut opened) = (HashSet::new(), 0, 0);
    for (i, left) in crashes(case, &begin, &options, breadth, 0).iter().enumerate() {
        if !known.insert(format!("{left:?}")) {
            continue;
        }
        opened += 1;
        let was =
            go_on(case, left, &options).unwrap_or_else(|error| panic!("{durability:?}, {pin}, {i}: {error}"));
        middle += u64::from(was);
        // In some of the cases, crashes once more while the conversion goes on.
        if was && middle % 40 == 0 {
            let few = Breadth { exhaustive: 0, corners: 1, random: 1 };
            for (j, again) in crashes(case, left, &options, few, i as u64).iter().enumerate().step_by(7) {
                opened += 1;
                go_on(case, again, &options)
                    .unwrap_or_else(|error| panic!("{durability:?}, {pin}, {i}, {j}: {error}"));
            }
        }
    }
    println!("{durability:?}, {pin}: {opened} openings, {middle} in the middle");
    assert!(middle > 30, "there was hardly anything to explore: {middle} of {opened}");
}

const BREADTH: Breadth = Breadth { exhaustive: 2, corners: 2, random: 3 };

#[test]
fn a_crash_at_any_moment_in_memory() {
    explore(OBJECTS, Durability::Pmem, false, BREADTH);
}

#[test]
fn a_crash_at_any_moment_of_long_transactions() {
    explore(OBJECTS, Durability::Pmem, true, BREADTH);
}

#[test]
fn a_crash_at_any_moment_on_a_disk() {
    // There are few points, so more images of each are tried.
    explore(OBJECTS, Durability::Wal, false, Breadth { exhaustive: 4, corners: 8, random: 24 });
}

#[test]
fn a_map_of_versions_in_memory() {
    explore(VERSIONS, Durability::Pmem, true, BREADTH);
}

#[test]
fn a_map_of_versions_on_a_disk() {
    explore(VERSIONS, Durability::Wal, false, Breadth { exhaustive: 4, corners: 8, random: 24 });
}

/// Returns whether a handle of the old type gets a version during the conversion.
fn is_given_out(bug: Option<Bug>) -> bool {
    let options = Options::new()
        .tuning(SMALL)
        .arena_size(256 << 10)
        .reserve(16 << 20)
        .durability(Durability::Wal)
        .sync_policy(SyncPolicy::OnDemand);
    let medium = Medium::new(Content::default().on_disk());
    let heap = medium.open(&options).unwrap();
    make_map(&heap).unwrap();
    heap.sync().unwrap();
    let old = heap.existing_root::<Map<Size>>("it").unwrap();
    let mut is_given_out = false;
    set_bug(bug);
    let evolution = heap.evolve::<Map<Sizes>>("it").with::<Size, Sizes>();
    evolution.on_progress(|_| is_given_out |= old.durable_snapshot().is_ok()).run().unwrap();
    set_bug(None);
    check_map(&heap).unwrap();
    is_given_out
}

#[test]
fn a_version_that_is_converted_under_its_reader_is_noticed() {
    assert!(!is_given_out(None));
    assert!(is_given_out(Some(Bug::ConvertVersions)));
}

#[test]
fn a_conversion_of_dead_objects_is_noticed() {
    let options = Options::new().tuning(SMALL).arena_size(256 << 10).reserve(16 << 20);
    let medium = Medium::new(Content::default());
    let convert = |bug| {
        let heap = medium.open(&options).unwrap();
        set_bug(bug);
        let converted = catch_unwind(AssertUnwindSafe(|| evolve(&heap)));
        set_bug(None);
        converted
    };
    let heap = medium.open(&options).unwrap();
    make(&heap).unwrap();
    heap.close().unwrap();
    let panic = convert(Some(Bug::ConvertDead)).unwrap_err();
    assert!(panic.downcast_ref::<&str>().is_some_and(|text| text.contains("does not lead to")));
    assert!(convert(None).unwrap().unwrap());
}
