//! Transactions that look at so much that they leave their copies, at a read of whatever.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use pheap::{
    Durability, Error, Heap, Options, P, PBTreeMap, PHashMap, Persist, Result, Root, Txn, field, txn,
};
use pheap_testkit::{Rng, rounds};
use proptest::prelude::*;

fn is_short(tx: &Txn<'_>) -> bool {
    format!("{tx:?}").contains("Short")
}

/// Words that lie so far apart are logged by themselves.
const APART: usize = 64;
const PLACES: usize = 4000;

type Words = Root<Option<P<'static, [u64]>>>;

/// A heap that cannot grow, with so many free KiB.
fn full_heap(free: usize) -> (Heap, Words) {
    const SIZE: u64 = 4 << 20;
    let options = Options::new().durability(Durability::Process).arena_size(SIZE).max_size(SIZE);
    let heap = options.in_memory().unwrap();
    let words: Words = heap.root_or("words", |tx| Ok(Some(tx.alloc_slice(PLACES * APART, |_| 0)?))).unwrap();
    let full: Words = heap.root("full").unwrap();
    let fits = |size: usize| {
        let result = full.txn(|tx, _| {
            tx.alloc_slice(size, |_| 0u64)?;
            Err::<(), _>(Error::abort("to see whether it fits"))
        });
        matches!(result, Err(Error::Aborted(_)))
    };
    let mut sizes = (1..SIZE as usize / 4096).rev().map(|pages| pages * 512 - 1);
    let most = sizes.find(|&size| fits(size)).unwrap();
    full.txn(|tx, p| {
        tx[p] = Some(tx.alloc_slice(most - free * 128, |_| 0)?);
        Ok(())
    })
    .unwrap();
    assert_eq!(heap.stats().free_bytes, free as u64 * 1024);
    (heap, words)
}

/// Logging ahead takes no transaction its space, either, if its stores go through memory in steps, each to
/// the first block that is not logged yet.
#[test]
fn steps_through_memory_cost_no_transaction_its_space() {
    const WORDS: usize = 1 << 20;
    const STEP: usize = 8 * APART;
    for (size, looks) in [13, 14, 16, 20].into_iter().flat_map(|mib| [(mib << 20, 0), (mib << 20, 100_000)]) {
        let heap = Options::new().durability(Durability::Process).max_size(size).in_memory().unwrap();
        let root: Words = heap.root_or("words", |tx| Ok(Some(tx.alloc_slice(WORDS, |_| 0)?))).unwrap();
        root.txn(|tx, p| {
            let words = tx[p].unwrap();
            let scattered: [_; 200] = std::array::from_fn(|i| words.at(tx, WORDS - 1 - i * 2 * STEP));
            scattered.into_iter().for_each(|word| tx[word] = 1);
            (0..looks).for_each(|i| assert_eq!(tx[scattered[i % 200]], 1));
            (0..8).for_each(|i| {
                let element = words.at(tx, i * APART);
                tx[element] = 1
            });
            (1..WORDS / STEP).for_each(|i| {
                let element = words.at(tx, i * STEP);
                tx[element] = 1
            });
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{size} bytes, {looks} looks: {error}"));
    }
}

/// A transaction whose record fits into the free space commits, however much it reads before it stores.
#[test]
fn looks_cost_no_transaction_its_space() {
    for free in [64, 96, 128, 192, 256, 400] {
        let (heap, root) = full_heap(free);
        root.txn(|tx, p| {
            let words = tx[p].unwrap();
            let places: [_; 2000] = std::array::from_fn(|i| words.at(tx, i * APART));
            (0..100).for_each(|i| tx[places[i]] = 1);
            (0..10_000).for_each(|i| assert_eq!(tx[places[i % 200]], u64::from(i % 200 < 100)));
            (100..2000).for_each(|i| tx[places[i]] = 1);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{free} KiB: {error}"));
        // Nor does it ask for space all the time.
        assert!(heap.stats().growth_waits < 1000, "{:?}", heap.stats());
    }
}

const OBJECTS: usize = 400;

#[derive(Persist, Default, Clone, Copy)]
#[repr(C)]
struct Object {
    words: [u64; 3],
    bytes: [u8; 16],
    /// Of all objects and elements together these are 0, whenever a transaction ends.
    balance: u64,
}

#[derive(Persist, Default)]
#[repr(C)]
struct All<'r> {
    objects: Option<P<'r, [P<'r, Object>]>>,
    slice: Option<P<'r, [Object]>>,
    hashed: PHashMap<'r, u64, u64>,
    ordered: PBTreeMap<'r, u64, u64>,
}

type Values = ([u64; 3], [u8; 16], u64);

#[derive(Clone, PartialEq, Debug)]
struct Model {
    objects: Vec<Values>,
    map: BTreeMap<u64, u64>,
}

fn values(object: &Object) -> Values {
    (object.words, object.bytes, object.balance)
}

#[txn]
fn set_word<'r>(tx: &mut Txn<'r>, p: P<'r, Object>, word: usize, value: u64) {
    tx[p].words[word] = value;
}

/// The object with this number: by itself, or an element of the slice.
fn pointer<'r>(tx: &Txn<'r>, p: P<'r, All<'r>>, number: usize) -> P<'r, Object> {
    if number < OBJECTS {
        tx[tx[field!(p.objects)].unwrap()][number]
    } else {
        tx[field!(p.slice)].unwrap().at(tx, number - OBJECTS)
    }
}

/// Does one step, mostly a read. Except for swaps, writes only to the first `narrow` objects and elements.
/// With `whole`, a step may read the whole slice, which ends the short path if an element has a copy.
fn step<'r>(
    tx: &mut Txn<'r>,
    p: P<'r, All<'r>>,
    model: &mut Model,
    random: &mut Rng,
    (narrow, whole, depth): (usize, bool, u32),
) -> Result<()> {
    let any = |random: &mut Rng, n: usize| random.below(n) + if random.below(2) == 0 { 0 } else { OBJECTS };
    let (hashed, ordered) = (field!(p.hashed), field!(p.ordered));
    match random.below(100) {
        0..15 => {
            let at = any(random, narrow);
            let (object, value) = (pointer(tx, p, at), random.next_u64());
            let word = random.below(3);
            model.objects[at].0[word] = value;
            match random.below(4) {
                0 => tx[object].words[word] = value,
                1 => tx[field!(object.words)][word] = value,
                2 => set_word(tx, object, word, value),
                _ => {
                    let byte = random.below(16);
                    model.objects[at].1[byte] = value as u8;
                    tx[field!(object.bytes)][byte] = value as u8;
                    set_word(tx, object, word, value);
                }
            }
        }
        15..18 => {
            let (a, b) = (any(random, narrow), any(random, narrow));
            let value = random.next_u64();
            for (at, value) in [(a, value), (b, value.wrapping_neg())] {
                let object = pointer(tx, p, at);
                tx[field!(object.balance)] = tx[field!(object.balance)].wrapping_add(value);
                model.objects[at].2 = model.objects[at].2.wrapping_add(value);
            }
        }
        18..21 => {
            let (a, b) = (any(random, narrow), any(random, OBJECTS));
            let (first, second) = (pointer(tx, p, a), pointer(tx, p, b));
            tx.swap(first, second);
            model.objects.swap(a, b);
        }
        21..24 => {
            let (key, value) = (random.below(60) as u64, random.next_u64());
            hashed.insert(tx, &key, value)?;
            ordered.insert(tx, &key, value)?;
            model.map.insert(key, value);
        }
        24 => {
            let key = random.below(60) as u64;
            let expected = model.map.remove(&key);
            assert_eq!(hashed.remove(tx, &key), expected);
            assert_eq!(ordered.remove(tx, &key), expected);
        }
        25 if depth > 0 => {
            let (before, fails) = (model.clone(), random.below(2) == 0);
            let result = tx.nested(p, |tx, p| {
                for _ in 0..random.below(300) {
                    step(tx, p, model, random, (narrow, whole, depth - 1))?;
                }
                if fails { Err(Error::abort("as it was told")) } else { Ok(()) }
            });
            assert_eq!(result.is_err(), fails, "{result:?}");
            if fails {
                *model = before;
            }
        }
        26..30 => {
            // References that live while more is looked at.
            let places: Vec<usize> = (0..random.below(80)).map(|_| any(random, OBJECTS)).collect();
            let held: Vec<&Object> = places.iter().map(|&at| &tx[pointer(tx, p, at)]).collect();
            let slice = match whole {
                true => &tx[tx[field!(p.slice)].unwrap()][..random.below(OBJECTS)],
                false => &[],
            };
            for (&key, value) in &model.map {
                assert_eq!(hashed.get(tx, &key), Some(value));
            }
            assert!(ordered.iter(tx).map(|(&key, &value)| (key, value)).eq(model.map.clone()));
            assert!(places.iter().zip(held).all(|(&at, object)| values(object) == model.objects[at]));
            assert!(slice.iter().map(values).eq(model.objects[OBJECTS..][..slice.len()].iter().copied()));
        }
        _ => {
            let at = any(random, OBJECTS);
            let object = pointer(tx, p, at);
            let expected = model.objects[at];
            match random.below(3) {
                0 => assert_eq!(values(&tx[object]), expected),
                1 => assert_eq!(tx[field!(object.words)], expected.0),
                _ => assert_eq!(tx[field!(object.balance)], expected.2),
            }
        }
    }
    Ok(())
}

fn root(heap: &Heap, name: &str) -> Root<All<'static>> {
    let root: Root<All> = heap.root(name).unwrap();
    root.txn(|tx, p| {
        let objects = (0..OBJECTS).map(|_| tx.alloc(Object::default())).collect::<Result<Vec<_>>>()?;
        tx[p].objects = Some(tx.alloc_slice_copy(&objects)?);
        tx[p].slice = Some(tx.alloc_slice(OBJECTS, |_| Object::default())?);
        Ok(())
    })
    .unwrap();
    root
}

fn check(root: &Root<All<'static>>, model: &Model) {
    root.read(|view, p| {
        let all = &view[p];
        let objects = view[all.objects.unwrap()].iter().map(|&object| values(&view[object]));
        let elements = view[all.slice.unwrap()].iter().map(values);
        assert!(objects.chain(elements).eq(model.objects.iter().copied()));
        assert!(all.ordered.iter(view).map(|(&key, &value)| (key, value)).eq(model.map.clone()));
        assert!(all.hashed.len() == model.map.len());
    })
    .unwrap();
}

fn balance(root: &Root<All<'static>>) -> u64 {
    root.read(|view, p| {
        let objects = view[view[p].objects.unwrap()].iter().map(|&object| view[object].balance);
        let elements = view[view[p].slice.unwrap()].iter().map(|object| object.balance);
        objects.chain(elements).fold(0, u64::wrapping_add)
    })
    .unwrap()
}

/// Says that it is over, also in a panic.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: rounds(60), ..ProptestConfig::default() })]

    /// With a reader at the same time, over one root and over two.
    #[test]
    fn programs_that_look_at_much_behave_like_memory(
        seed in any::<u64>(),
        durability in prop_oneof![4 => Just(Durability::Process), 1 => Just(Durability::Pmem)],
        two in any::<bool>(),
        reads in any::<bool>(),
        whole in prop::bool::weighted(0.2),
        narrow in prop_oneof![Just(20), Just(150), Just(OBJECTS)],
    ) {
        let dir = tempfile::tempdir().unwrap();
        let heap = Options::new().durability(durability).arena_size(1 << 20).open(dir.path().join("heap")).unwrap();
        let roots = ["one", "two"].map(|name| root(&heap, name));
        let model = Model { objects: vec![Values::default(); 2 * OBJECTS], map: BTreeMap::new() };
        let mut models = [model.clone(), model];
        let mut random = Rng::from_seed(seed);
        let (mut spilled, mut most_steps, over) = (0, 0, AtomicBool::new(false));
        std::thread::scope(|scope| {
            let reader = || while !over.load(Ordering::Relaxed) {
                assert_eq!(roots.each_ref().map(balance), [0, 0]);
            };
            let reader = reads.then(|| scope.spawn(reader));
            let end = End(&over);
            for _ in 0..4 {
                let (before, fails) = (models.clone(), random.below(3) == 0);
                let steps = random.below(4000);
                most_steps = most_steps.max(steps);
                let result = if two {
                    let (one, other) = (&roots[0], &roots[1]);
                    pheap::txn((one, other), |((ta, a), (tb, b))| {
                        for _ in 0..steps {
                            let [first, second] = &mut models;
                            match random.below(2) {
                                0 => step(ta, a, first, &mut random, (narrow, whole, 2))?,
                                _ => step(tb, b, second, &mut random, (narrow, whole, 2))?,
                            }
                        }
                        spilled += u32::from(!is_short(ta));
                        if fails { Err(Error::abort("as it was told")) } else { Ok(()) }
                    })
                } else {
                    roots[0].txn(|tx, p| {
                        for _ in 0..steps {
                            step(tx, p, &mut models[0], &mut random, (narrow, whole, 2))?;
                        }
                        spilled += u32::from(!is_short(tx));
                        if fails { Err(Error::abort("as it was told")) } else { Ok(()) }
                    })
                };
                assert_eq!(result.is_err(), fails, "{result:?}");
                if fails {
                    models = before;
                }
                roots.iter().zip(&models).for_each(|(root, model)| check(root, model));
            }
            drop(end);
            if let Some(reader) = reader {
                reader.join().unwrap();
            }
        });
        // With `Process`, a transaction of so many steps should have left its copies. Others may be too
        // short.
        prop_assert!(durability != Durability::Process || most_steps < 2500 || spilled > 0);
        prop_assert!(heap.check().unwrap().is_clean());
    }
}
