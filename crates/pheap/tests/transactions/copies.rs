//! A transaction copies a value, and later finds the copy for another value at the same address: of the whole
//! and of its parts, by all ways to write and to read.

use pheap::{Durability, Error, Heap, Options, P, Persist, Root, Txn, field, txn};
use pheap_testkit::rounds;
use proptest::prelude::*;

#[derive(Persist, Default, Clone, Copy)]
#[repr(C, align(64))]
struct Aligned {
    words: [u64; 8],
}

#[txn]
fn set_aligned<'r>(tx: &mut Txn<'r>, p: P<'r, Aligned>, n: u64) {
    tx[p].words[1] = n;
}

/// A part that is as long as the whole has a copy first, and is aligned to less.
#[test]
fn a_copy_of_a_part_is_aligned_like_the_whole() {
    let heap = Options::new().durability(Durability::Process).in_memory().unwrap();
    let root: Root<P<Aligned>> = heap.root_or("aligned", |tx| tx.alloc(Aligned::default())).unwrap();
    root.txn(|tx, root| {
        let p = tx[root];
        // A copy of a word, so that the next one would begin behind it.
        let _ = &mut tx[root];
        for _ in 0..3 {
            tx[field!(p.words)][0] += 1;
        }
        assert!((&raw const tx[p]).is_aligned(), "to be read");
        assert!((&raw mut tx[p]).is_aligned(), "to be written");
        set_aligned(tx, p, 5);
        assert_eq!(tx[p].words[..2], [3, 5]);
        Ok(())
    })
    .unwrap();
}

/// Words of an object, and number of objects of each kind.
const WORDS: usize = 6;
const OBJECTS: usize = 5;

#[derive(Persist, Default, Clone, Copy)]
#[repr(C)]
struct Inner {
    first: u64,
    pair: [u64; 2],
}

#[derive(Persist, Default, Clone, Copy)]
#[repr(C)]
struct Object {
    a: u64,
    inner: Inner,
    bytes: [u8; 16],
}

#[derive(Persist)]
#[repr(C)]
struct All<'r> {
    objects: P<'r, [P<'r, Object>]>,
    /// Side by side, with shared lines.
    slice: P<'r, [Object]>,
    large: P<'r, [u64]>,
}

/// Where an object lies: by itself or in a slice, which is an alias of its elements.
#[derive(Debug, Clone, Copy)]
enum Of {
    Object(usize),
    Element(usize),
}

#[derive(Debug, Clone)]
enum Step {
    /// The word of an object, in one of several ways.
    Set {
        of: Of,
        word: usize,
        how: u8,
        value: u64,
    },
    Get {
        of: Of,
        word: usize,
        how: u8,
    },
    Swap(usize, usize),
    SwapParts(usize, usize),
    /// All elements at once: a copy of the whole slice, or none.
    FillElements(u64),
    Large(u64),
    Share,
    Allocate,
    /// The transaction ends here.
    End {
        fails: bool,
    },
}

fn of() -> impl Strategy<Value = Of> {
    prop_oneof![(0..OBJECTS).prop_map(Of::Object), (0..OBJECTS).prop_map(Of::Element)]
}

fn step() -> impl Strategy<Value = Step> {
    let index = || 0..OBJECTS;
    prop_oneof![
        24 => (of(), 0..WORDS, 0u8..5, any::<u64>()).prop_map(|(of, word, how, value)| Step::Set { of, word, how, value }),
        24 => (of(), 0..WORDS, 0u8..3).prop_map(|(of, word, how)| Step::Get { of, word, how }),
        2 => (index(), index()).prop_map(|(a, b)| Step::Swap(a, b)),
        2 => (index(), index()).prop_map(|(a, b)| Step::SwapParts(a, b)),
        1 => any::<u64>().prop_map(Step::FillElements),
        1 => any::<u64>().prop_map(Step::Large),
        1 => Just(Step::Share),
        2 => Just(Step::Allocate),
        4 => any::<bool>().prop_map(|fails| Step::End { fails }),
    ]
}

/// The words of an object.
fn words(object: &Object) -> [u64; WORDS] {
    let bytes = |i: usize| u64::from_le_bytes(object.bytes[i * 8..][..8].try_into().unwrap());
    [object.a, object.inner.first, object.inner.pair[0], object.inner.pair[1], bytes(0), bytes(1)]
}

fn set_word(object: &mut Object, word: usize, value: u64) {
    match word {
        0 => object.a = value,
        1 => object.inner.first = value,
        2 | 3 => object.inner.pair[word - 2] = value,
        _ => object.bytes[(word - 4) * 8..][..8].copy_from_slice(&value.to_le_bytes()),
    }
}

#[txn]
fn set_in_object<'r>(tx: &mut Txn<'r>, p: P<'r, Object>, word: usize, value: u64) {
    match word {
        0 => tx[p].a = value,
        1 => tx[p].inner.first = value,
        2 | 3 => tx[p].inner.pair[word - 2] = value,
        _ => {
            for (i, byte) in value.to_le_bytes().into_iter().enumerate() {
                tx[p].bytes[(word - 4) * 8 + i] = byte;
            }
        }
    }
}

#[txn]
fn set_in_slice<'r>(tx: &mut Txn<'r>, p: P<'r, [Object]>, i: usize, word: usize, value: u64) {
    match word {
        0 => tx[p][i].a = value,
        1 => tx[p][i].inner.first = value,
        2 | 3 => tx[p][i].inner.pair[word - 2] = value,
        _ => {
            for (j, byte) in value.to_le_bytes().into_iter().enumerate() {
                tx[p][i].bytes[(word - 4) * 8 + j] = byte;
            }
        }
    }
}

/// By pointers to parts.
fn set_in_part<'r>(tx: &mut Txn<'r>, p: P<'r, Object>, word: usize, value: u64) {
    match word {
        0 => tx[field!(p.a)] = value,
        1 => tx[field!(p.inner)].first = value,
        2 | 3 => tx[field!(p.inner.pair)][word - 2] = value,
        _ => tx[field!(p.bytes)][(word - 4) * 8..][..8].copy_from_slice(&value.to_le_bytes()),
    }
}

#[txn]
fn set_inner<'r>(tx: &mut Txn<'r>, p: P<'r, Inner>, word: usize, value: u64) {
    match word {
        1 => tx[p].first = value,
        _ => tx[p].pair[word - 2] = value,
    }
}

type Model = [[[u64; WORDS]; OBJECTS]; 2];

fn run<'r>(tx: &mut Txn<'r>, root: P<'r, All<'r>>, steps: &[Step], model: &mut Model) {
    let All { objects, slice, large } = tx[root];
    let place = |of: Of| match of {
        Of::Object(i) => (0, i),
        Of::Element(i) => (1, i),
    };
    for step in steps {
        let pointer = |tx: &Txn<'r>, of: Of| match of {
            Of::Object(i) => tx[objects][i],
            Of::Element(i) => slice.at(tx, i),
        };
        match *step {
            Step::Set { of, word, how, value } => {
                let p = pointer(tx, of);
                let (row, column) = place(of);
                model[row][column][word] = value;
                match (how, of) {
                    (0, _) => set_word(&mut tx[p], word, value),
                    (1, _) => set_in_part(tx, p, word, value),
                    (2, _) if (1..4).contains(&word) => set_inner(tx, field!(p.inner), word, value),
                    (3, Of::Element(i)) => set_in_slice(tx, slice, i, word, value),
                    _ => set_in_object(tx, p, word, value),
                }
            }
            Step::Get { of, word, how } => {
                let p = pointer(tx, of);
                let (row, column) = place(of);
                let expected = model[row][column][word];
                let seen = match how {
                    0 => words(&tx[p])[word],
                    1 => match word {
                        0 => tx[field!(p.a)],
                        1 => tx[field!(p.inner.first)],
                        2 | 3 => tx[field!(p.inner.pair)][word - 2],
                        _ => words(&Object { bytes: tx[field!(p.bytes)], ..Object::default() })[word],
                    },
                    _ => match of {
                        Of::Element(i) => words(&tx[slice][i])[word],
                        Of::Object(_) => words(&Object { inner: tx[field!(p.inner)], ..tx[p] })[word],
                    },
                };
                assert_eq!(seen, expected, "{step:?}");
            }
            Step::Swap(i, j) => {
                let (a, b) = (pointer(tx, Of::Object(i)), slice.at(tx, j));
                tx.swap(a, b);
                let [objects, elements] = &mut *model;
                std::mem::swap(&mut objects[i], &mut elements[j]);
            }
            Step::SwapParts(i, j) => {
                let (a, b) = (pointer(tx, Of::Object(i)), slice.at(tx, j));
                tx.swap(field!(a.inner), field!(b.inner));
                let [objects, elements] = &mut *model;
                objects[i][1..4].swap_with_slice(&mut elements[j][1..4]);
            }
            Step::FillElements(value) => {
                tx[slice].iter_mut().for_each(|object| object.a = value);
                model[1].iter_mut().for_each(|words| words[0] = value);
            }
            Step::Large(value) => tx[large].fill(value),
            Step::Share => drop(tx.shared()),
            Step::Allocate => {
                let new = tx.alloc(Object::default()).unwrap();
                set_in_object(tx, new, 2, 7);
                assert_eq!(tx[new].inner.pair[0], 7);
            }
            Step::End { .. } => unreachable!("steps are of one transaction"),
        }
    }
}

fn seen(root: &Root<All<'static>>) -> Model {
    root.read(|view, root| {
        let All { objects, slice, .. } = view[root];
        let of = |i: usize| words(&view[view[objects][i]]);
        let in_slice = |i: usize| words(&view[slice][i]);
        [std::array::from_fn(of), std::array::from_fn(in_slice)]
    })
    .unwrap()
}

fn root(heap: &Heap, name: &str) -> Root<All<'static>> {
    let all = heap.root_or(name, |tx| {
        let mut objects = Vec::new();
        for _ in 0..OBJECTS {
            objects.push(tx.alloc(Object::default())?);
        }
        Ok(All {
            objects: tx.alloc_slice_copy(&objects)?,
            slice: tx.alloc_slice(OBJECTS, |_| Object::default())?,
            large: tx.alloc_slice(2000, |_| 0)?,
        })
    });
    all.unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: rounds(400), ..ProptestConfig::default() })]

    #[test]
    fn copies_behave_like_memory(
        durability in prop_oneof![Just(Durability::Process), Just(Durability::Pmem)],
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new().durability(durability).arena_size(1 << 20).reserve(1 << 30);
        let heap = options.open(dir.path().join("heap")).unwrap();
        let root = root(&heap, "all");
        let mut model = Model::default();
        for transaction in steps.split_inclusive(|step| matches!(step, Step::End { .. })) {
            let (steps, fails) = match transaction.split_last() {
                Some((&Step::End { fails }, steps)) => (steps, fails),
                _ => (transaction, false),
            };
            let before = model;
            let result = root.txn(|tx, root| {
                run(tx, root, steps, &mut model);
                if fails { Err(Error::abort("as it was told")) } else { Ok(()) }
            });
            prop_assert_eq!(result.is_err(), fails);
            if fails {
                model = before;
            }
            prop_assert_eq!(seen(&root), model);
        }
    }
}

proptest! {
    // Fewer cases than above.
    #![proptest_config(ProptestConfig { cases: rounds(100), ..ProptestConfig::default() })]

    /// A transaction over two roots leaves the copies of both roots, whichever root causes that, also while
    /// there is a reference to a copy of the other root.
    #[test]
    fn copies_of_two_roots_behave_like_memory(
        durability in prop_oneof![Just(Durability::Process), Just(Durability::Pmem)],
        steps in prop::collection::vec((0usize..2, any::<bool>(), 0..OBJECTS, 0..WORDS, any::<u64>(), step()), 1..120),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new().durability(durability).arena_size(1 << 20).reserve(1 << 30);
        let heap = options.open(dir.path().join("heap")).unwrap();
        let roots = ["one", "two"].map(|name| root(&heap, name));
        let mut models = [Model::default(); 2];
        for transaction in steps.split_inclusive(|(.., step)| matches!(step, Step::End { .. })) {
            let (steps, fails) = match transaction.split_last() {
                Some(((.., Step::End { fails }), steps)) => (steps, *fails),
                _ => (transaction, false),
            };
            let before = models;
            let result = pheap::txn(&roots[..], |mut roots| {
                for (number, is_held, i, word, value, step) in steps {
                    let (here, there) = (*number, 1 - *number);
                    let step = std::slice::from_ref(step);
                    if !is_held {
                        roots.with(here, |tx, root| run(tx, root, step, &mut models[here]));
                        continue;
                    }
                    roots.with_two(here, there, |tx, root, other_tx, other| {
                        let slice = tx[root].slice;
                        let element = slice.at(tx, *i);
                        let held = &mut tx[element];
                        run(other_tx, other, step, &mut models[there]);
                        set_word(held, *word, *value);
                        models[here][1][*i][*word] = *value;
                        assert_eq!(words(&tx[slice.at(tx, *i)]), models[here][1][*i]);
                    });
                }
                if fails { Err(Error::abort("as it was told")) } else { Ok(()) }
            });
            prop_assert_eq!(result.is_err(), fails);
            if fails {
                models = before;
            }
            prop_assert_eq!([seen(&roots[0]), seen(&roots[1])], models);
        }
    }
}
