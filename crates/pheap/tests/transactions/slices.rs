//! Random programs of stores to slices, and of reads: element by element, by ranges, and as a whole. They run
//! in nested parts that are rolled back, while there are references, after a spill in the middle of a read,
//! and without room for a log. Some elements share a word, and some have padding. Within a transaction, reads
//! see exactly the stored values. If the program is killed, nothing of the transaction is left.

use pheap::{Durability, Error, Heap, Options, P, Persist, Result, Root, Txn, View};
use pheap_testkit::{Rng, copy_as_killed, rounds};
use proptest::prelude::*;

/// With a byte of padding.
#[derive(Persist, Default, Clone, Copy, PartialEq, Debug)]
#[repr(C)]
struct Odd {
    small: u8,
    large: u16,
}

#[derive(Persist)]
#[repr(C)]
struct All<'r> {
    bytes: P<'r, [u8]>,
    odd: P<'r, [Odd]>,
    triples: P<'r, [[u16; 3]]>,
    /// More than a copy may have.
    words: P<'r, [u64]>,
    /// More than there may be room for in a log.
    large: P<'r, [u64]>,
}

const BYTES: usize = 100;
const ODD: usize = 45;
const TRIPLES: usize = 30;
const WORDS: usize = 400;

#[derive(Clone, PartialEq, Debug)]
struct Model {
    bytes: Vec<u8>,
    odd: Vec<Odd>,
    triples: Vec<[u16; 3]>,
    words: Vec<u64>,
}

fn odd(value: u64) -> Odd {
    Odd { small: value as u8, large: (value >> 8) as u16 }
}

fn triple(value: u64) -> [u16; 3] {
    [value as u16, (value >> 16) as u16, (value >> 32) as u16]
}

fn is_short(tx: &Txn<'_>) -> bool {
    format!("{tx:?}").contains("Short")
}

/// One step with one slice.
fn step_in<'r, T: Persist + Copy + PartialEq + std::fmt::Debug>(
    tx: &mut Txn<'r>,
    slice: P<'r, [T]>,
    model: &mut [T],
    random: &mut Rng,
    value: impl Fn(u64) -> T,
) {
    let len = slice.len(tx);
    let (i, j) = (random.below(len), random.below(len));
    let range = i.min(j)..i.max(j) + random.below(2);
    let new = value(random.next_u64());
    match random.below(12) {
        0..3 => {
            let element = slice.at(tx, i);
            (tx[element], model[i]) = (new, new);
        }
        3 => {
            tx.slice_mut(slice, range.clone()).fill(new);
            model[range].fill(new);
        }
        4 => {
            let few = i..len.min(i + 3);
            tx.slice_mut(slice, few.clone()).fill(new);
            model[few].fill(new);
        }
        5 => {
            tx[slice][range.clone()].reverse();
            model[range].reverse();
        }
        6 => {
            tx.swap(slice.at(tx, i), slice.at(tx, j));
            model.swap(i, j);
        }
        7 => assert_eq!(tx[slice], *model),
        8 => assert_eq!(tx[slice][range.clone()], model[range]),
        _ => assert_eq!((tx[slice.at(tx, i)], tx[slice.at(tx, j)]), (model[i], model[j])),
    }
}

fn step<'r>(
    tx: &mut Txn<'r>,
    p: P<'r, All<'r>>,
    model: &mut Model,
    random: &mut Rng,
    depth: u32,
    killed: &mut dyn FnMut(),
) -> Result<()> {
    let &All { bytes, odd: odds, triples, words, large } = &tx[p];
    match random.below(100) {
        0..22 => step_in(tx, bytes, &mut model.bytes, random, |value| value as u8),
        22..44 => step_in(tx, odds, &mut model.odd, random, odd),
        44..66 => step_in(tx, triples, &mut model.triples, random, triple),
        66..84 => {
            // To see the whole slice ends the short path, so mostly one element is looked at.
            let i = random.below(WORDS);
            match random.below(10) {
                0 => step_in(tx, words, &mut model.words, random, |value| value),
                1..6 => {
                    model.words[i] = random.next_u64();
                    let element = words.at(tx, i);
                    tx[element] = model.words[i];
                }
                _ => assert_eq!(tx[words.at(tx, i)], model.words[i]),
            }
        }
        84..88 if depth > 0 => {
            let (before, fails) = (model.clone(), random.below(2) == 0);
            let result = tx.nested(p, |tx, p| {
                for _ in 0..random.below(30) {
                    step(tx, p, model, random, depth - 1, killed)?;
                }
                if fails { Err(Error::abort("as it was told")) } else { Ok(()) }
            });
            if let Err(error @ Error::OutOfSpace { .. }) = result {
                return Err(error);
            }
            assert_eq!(result.is_err(), fails, "{result:?}");
            if fails {
                *model = before;
            }
        }
        88..92 => {
            // References that live while so much is looked at that copies are left.
            let seen = (&tx[bytes], &tx[odds], &tx[triples], &tx[words.at(tx, 3)]);
            for k in 0..random.below(1200) {
                let i = k * 7 % WORDS;
                assert_eq!(tx[words.at(tx, i)], model.words[i]);
            }
            let parts = (&tx[bytes.at(tx, 9)], &tx[odds.at(tx, 9)], &tx[triples.at(tx, 9)]);
            assert_eq!((&seen.0[9], &seen.1[9], &seen.2[9]), parts);
            assert_eq!((seen.0, seen.1, seen.2), (&model.bytes[..], &model.odd[..], &model.triples[..]));
            assert_eq!(*seen.3, model.words[3]);
        }
        92 => {
            let new = tx.alloc_slice(random.below(100), |i| i as u8)?;
            let other = tx.alloc_slice_copy(&[1, 2, 3])?;
            step_in(tx, other, &mut [1, 2, 3], random, |value| value as u8);
            assert!(tx[new].iter().enumerate().all(|(i, &byte)| byte == i as u8));
        }
        93 => {
            // Many stores, for which copies may be left.
            for i in (0..WORDS).step_by(4) {
                model.words[i] = model.words[i].wrapping_add(1);
                let element = words.at(tx, i);
                tx[element] = model.words[i];
            }
        }
        94 if random.below(8) == 0 => tx[large].iter_mut().for_each(|word| *word = word.wrapping_add(1)),
        95 if is_short(tx) || random.below(4) == 0 => killed(),
        _ => {}
    }
    Ok(())
}

fn seen<'r>(view: &View<'r>, p: P<'r, All<'r>>) -> Model {
    let all = &view[p];
    assert!(view[all.large].iter().all(|word| *word == view[all.large][0]));
    Model {
        bytes: view[all.bytes].to_vec(),
        odd: view[all.odd].to_vec(),
        triples: view[all.triples].to_vec(),
        words: view[all.words].to_vec(),
    }
}

fn root(heap: &Heap, large: usize) -> Root<All<'static>> {
    let root = heap.root_or("all", |tx| {
        Ok(All {
            bytes: tx.alloc_slice(BYTES, |i| i as u8)?,
            odd: tx.alloc_slice(ODD, |i| odd(i as u64))?,
            triples: tx.alloc_slice(TRIPLES, |i| triple(i as u64))?,
            words: tx.alloc_slice(WORDS, |i| i as u64)?,
            large: tx.alloc_slice(large, |_| 0)?,
        })
    });
    root.unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: rounds(50), ..ProptestConfig::default() })]

    #[test]
    fn slices_behave_like_memory_and_nothing_is_stored_without_a_log(
        seed in any::<u64>(),
        durability in prop_oneof![3 => Just(Durability::Process), 1 => Just(Durability::Pmem), 1 => Just(Durability::Wal)],
        is_full in any::<bool>(),
        pins_undo in prop::bool::weighted(0.2),
        most in prop_oneof![Just(12), Just(60), Just(400)],
    ) {
        const SIZE: u64 = 1 << 20;
        let dir = tempfile::tempdir().unwrap();
        let (path, copy) = (dir.path().join("heap"), dir.path().join("copy"));
        let options = Options::new().durability(durability).arena_size(SIZE).reserve(1 << 30).pin_undo(pins_undo);
        let options = options.max_size(if is_full { SIZE } else { 8 * SIZE });
        let heap = options.open(&path).unwrap();
        let root = root(&heap, if is_full { 60_000 } else { 20_000 });
        let mut model = root.read(seen).unwrap();
        let mut random = Rng::from_seed(seed);
        for _ in 0..6 {
            let (before, fails) = (model.clone(), random.below(3) == 0);
            // With a log, the content of the file is older.
            let mut kills = if durability == Durability::Wal { 0 } else { 2 };
            let mut killed = || {
                if kills > 0 {
                    kills -= 1;
                    copy_as_killed(&path, &copy);
                    let left = options.clone().durability(Durability::Process).open(&copy).unwrap();
                    let left_root: Root<All> = left.root_or("all", |_| unreachable!("it is there")).unwrap();
                    assert_eq!(left_root.read(seen).unwrap(), before);
                }
            };
            let result = root.txn(|tx, p| {
                for _ in 0..random.below(most) {
                    step(tx, p, &mut model, &mut random, 2, &mut killed)?;
                }
                if fails { Err(Error::abort("as it was told")) } else { Ok(()) }
            });
            match &result {
                Ok(()) => prop_assert!(!fails),
                Err(Error::OutOfSpace { .. }) => prop_assert!(is_full),
                Err(error) => prop_assert!(fails, "{error}"),
            }
            if result.is_err() {
                model = before;
            }
            prop_assert_eq!(&root.read(seen).unwrap(), &model);
        }
        prop_assert!(heap.check().unwrap().is_clean());
    }
}
