//! Whatever stores to an object, a rollback restores exactly the old content, on the short path and on the
//! long one.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pheap::{Durability, Error, Heap, P, Persist, Result, Root, Txn, View};
use pheap_testkit::*;
use proptest::prelude::*;

#[derive(Persist, Clone, Copy, Default, PartialEq, Debug)]
#[repr(C)]
struct Big {
    words: [u64; 20], // crosses lines
}

#[derive(Persist, Default)]
#[repr(C)]
struct Data<'r> {
    numbers: Option<P<'r, [u64]>>,
    bytes: Option<P<'r, [u8]>>,
    text: Option<P<'r, str>>,
    big: Option<P<'r, Big>>,
    bigs: Option<P<'r, [Big]>>,
    pointers: Option<P<'r, [P<'r, Big>]>>,
    a: u32,
    b: u32,
    flag: bool,
}

fn fill(heap: &Heap) -> Result<Root<Data<'static>>> {
    heap.root_or("data", |tx| {
        let big = |i: usize| Big { words: std::array::from_fn(|j| (i * 100 + j) as u64) };
        let many: Vec<P<'_, Big>> = (0..100).map(|i| tx.alloc(big(i))).collect::<Result<_>>()?;
        Ok(Data {
            numbers: Some(tx.alloc_slice(3000, |i| (i * 7 % 1000) as u64)?),
            bytes: Some(tx.alloc_slice(100, |i| i as u8)?),
            text: Some(tx.alloc_str("Hello, Heap! 123")?),
            big: Some(tx.alloc(big(77))?),
            bigs: Some(tx.alloc_slice(50, big)?),
            pointers: Some(tx.alloc_slice_copy(&many)?),
            a: 1,
            b: 2,
            flag: true,
        })
    })
}

fn dump<'r>(view: &View<'r>, d: P<'r, Data<'r>>) -> String {
    let d = &view[d];
    let through: Vec<Big> = view[d.pointers.unwrap()].iter().map(|&p| view[p]).collect();
    format!(
        "{:?} {:?} {:?} {:?} {:?} {through:?} {:?} {} {} {}",
        &view[d.numbers.unwrap()],
        &view[d.bytes.unwrap()],
        &view[d.text.unwrap()],
        view[d.big.unwrap()],
        &view[d.bigs.unwrap()],
        &view[d.pointers.unwrap()],
        d.a,
        d.b,
        d.flag
    )
}

/// `change`, then an error or a panic: nothing is left. Then `change` alone: it is the same as seen inside.
fn rolls_back(change: impl for<'r> Fn(&mut Txn<'r>, P<'r, Data<'r>>)) {
    for options in both() {
        let heap = options.in_memory().unwrap();
        let root = fill(&heap).unwrap();
        let before = root.read(dump).unwrap();
        for round in 0..2 {
            let mut inside = String::new();
            let error = root.txn(|tx, d| {
                change(tx, d);
                inside = dump(tx, d);
                Err::<(), _>(Error::abort("no"))
            });
            assert!(matches!(error, Err(Error::Aborted(_))), "{error:?}");
            assert_ne!(inside, before);
            assert_eq!(root.read(dump).unwrap(), before, "round {round}, error");
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                root.txn(|tx, d| -> Result<()> {
                    change(tx, d);
                    resume_unwind(Box::new("no"))
                })
            }));
            assert!(panicked.is_err());
            assert_eq!(root.read(dump).unwrap(), before, "round {round}, panic");
        }
        let inside = root
            .txn(|tx, d| {
                change(tx, d);
                Ok(dump(tx, d))
            })
            .unwrap();
        assert_eq!(root.read(dump).unwrap(), inside);
    }
}

/// More words in a piece than recovery writes one by one.
#[test]
fn large_transactions_that_a_crash_has_cut_short() -> Result<()> {
    #[derive(Persist)]
    #[repr(C)]
    struct Large<'r> {
        words: P<'r, [u64]>,
    }
    const WORDS: u64 = 20_001;
    for durability in [Durability::Pmem, Durability::Process] {
        let dir = tempdir();
        let (path, killed) = (dir.path().join("x"), dir.path().join("killed"));
        let options = small().durability(durability);
        let heap = options.open(&path)?;
        let root: Root<Large> =
            heap.root_or("large", |tx| Ok(Large { words: tx.alloc_slice(WORDS as usize, |i| i as u64)? }))?;
        root.txn(|tx, large| {
            let words = tx[large].words;
            // Not from the beginning of a line on, and in the middle once more.
            tx.slice_mut(words, 3..).iter_mut().for_each(|word| *word += 1);
            tx.slice_mut(words, 1..5).fill(7);
            tx.slice_mut(words, 9000..15_000).fill(8);
            copy_as_killed(&path, &killed);
            Ok(())
        })?;
        let heap = options.open(&killed)?;
        assert!(heap.stats().rolled_back_entries > 1);
        let root: Root<Large> = heap.existing_root("large")?;
        root.read(|view, large| assert!(view[view[large].words].iter().copied().eq(0..WORDS)))?;
        assert!(heap.check()?.is_clean());
    }
    Ok(())
}

#[test]
fn mem_swap_replace_and_take() {
    rolls_back(|tx, d| {
        let (big, bigs) = (tx[d].big.unwrap(), tx[d].bigs.unwrap());
        let mut mine = Big { words: [9; 20] };
        std::mem::swap(&mut tx[big], &mut mine);
        let element = bigs.at(tx, 3);
        let old = std::mem::replace(&mut tx[element], mine);
        let element = bigs.at(tx, 4);
        let _ = std::mem::take(&mut tx[element]);
        let element = bigs.at(tx, 5);
        tx[element] = old;
        let d = &mut tx[d];
        std::mem::swap(&mut d.a, &mut d.b);
    });
}

#[test]
fn sorting_and_its_kin() {
    rolls_back(|tx, d| {
        let numbers = tx[d].numbers.unwrap();
        tx[numbers].sort();
        tx[numbers].reverse();
        tx[numbers].rotate_left(17);
        tx.slice_mut(numbers, 100..200).sort_unstable_by(|a, b| b.cmp(a));
    });
    rolls_back(|tx, d| {
        let bytes = tx[d].bytes.unwrap();
        tx.slice_mut(bytes, ..50).reverse();
        tx.slice_mut(bytes, 25..=75).fill(3);
        tx[bytes].copy_within(3..20, 50);
    });
}

#[test]
fn fill_iter_mut_and_chunks() {
    rolls_back(|tx, d| {
        let (numbers, bytes, bigs) = (tx[d].numbers.unwrap(), tx[d].bytes.unwrap(), tx[d].bigs.unwrap());
        tx[numbers].fill(1);
        tx[bytes].iter_mut().rev().step_by(3).for_each(|b| *b ^= 0x55);
        for chunk in tx[bigs].chunks_mut(7) {
            chunk[0].words[19] = 0;
        }
        let (left, right) = tx[bytes].split_at_mut(13);
        left[12] = right[0];
    });
}

#[test]
fn strings_in_place() {
    rolls_back(|tx, d| {
        let text = tx[d].text.unwrap();
        tx[text].make_ascii_uppercase();
        assert_eq!(&tx[text], "HELLO, HEAP! 123");
    });
}

#[test]
fn functions_with_mut_references() {
    fn callee(big: &mut Big, flag: &mut bool) {
        big.words.iter_mut().for_each(|w| *w += 1);
        *flag = !*flag;
    }
    fn deep(data: &mut Data<'_>) {
        data.a += 10;
        data.flag = false;
        data.numbers = None;
    }
    rolls_back(|tx, d| {
        let big = tx[d].big.unwrap();
        let mut flag = tx[d].flag;
        callee(&mut tx[big], &mut flag);
        tx[d].flag = flag;
        let numbers = tx[d].numbers;
        deep(&mut tx[d]);
        tx[d].numbers = numbers;
    });
}

#[test]
fn more_objects_than_the_write_set_has() {
    for count in [31, 32, 33, 100] {
        rolls_back(move |tx, d| {
            let pointers = tx[d].pointers.unwrap();
            for i in 0..count {
                let p = tx[pointers.at(tx, i)];
                tx[p].words[i % 20] += 1_000_000;
            }
            for i in (0..count).rev() {
                let p = tx[pointers][i];
                tx[p].words[0] ^= 1;
            }
        });
    }
}

#[test]
fn more_bytes_than_the_write_set_has() {
    // 4 KiB, in objects of 160 bytes; one object of more than 1 KiB.
    for count in [25, 26, 27] {
        rolls_back(move |tx, d| {
            let bigs = tx[d].bigs.unwrap();
            for i in 0..count {
                let element = bigs.at(tx, i);
                tx[element] = Big { words: [1; 20] };
            }
        });
    }
    for len in [127, 128, 129, 3000] {
        rolls_back(move |tx, d| {
            let numbers = tx[d].numbers.unwrap();
            tx.slice_mut(numbers, 5..).iter_mut().take(len).for_each(|n| *n += 1);
            tx.slice_mut(numbers, 5..5 + len.min(2995)).iter_mut().for_each(|n| *n += 1);
        });
    }
}

#[test]
fn overlapping_accesses() {
    // An element, then the whole.
    rolls_back(|tx, d| {
        let bytes = tx[d].bytes.unwrap();
        let element = bytes.at(tx, 33);
        tx[element] = 1;
        tx[bytes][34] = 2;
        assert_eq!(tx[bytes][33..35], [1, 2]);
        let element = bytes.at(tx, 34);
        tx[element] = 3;
        assert_eq!(tx[bytes.at(tx, 34)], 3);
    });
    // The whole, then an element.
    rolls_back(|tx, d| {
        let bytes = tx[d].bytes.unwrap();
        tx[bytes].fill(7);
        let element = bytes.at(tx, 50);
        tx[element] = 8;
        tx.slice_mut(bytes, 49..52)[0] = 9;
        assert_eq!(tx[bytes][48..53], [7, 9, 8, 7, 7]);
    });
    // Ranges that overlap in parts, and share words with their neighbours.
    rolls_back(|tx, d| {
        let bytes = tx[d].bytes.unwrap();
        tx.slice_mut(bytes, 3..13).fill(1);
        tx.slice_mut(bytes, 11..22).fill(2);
        tx.slice_mut(bytes, 22..25).fill(3);
        tx.slice_mut(bytes, 0..3).fill(4);
        let expected: Vec<u8> =
            [4; 3].into_iter().chain([1; 8]).chain([2; 11]).chain([3; 3]).chain([25]).collect();
        assert_eq!(tx[bytes][..26], expected);
    });
}

/// Reading the whole slice after an element of it was written ends the short path, with references alive.
#[test]
fn references_stay_good_while_the_transaction_spills() {
    rolls_back(|tx, d| {
        let (numbers, big, text) = (tx[d].numbers.unwrap(), tx[d].big.unwrap(), tx[d].text.unwrap());
        tx[big].words[3] = 4711;
        let element = numbers.at(tx, 8);
        tx[element] = 1 << 40;
        let element = numbers.at(tx, 2000);
        tx[element] = 1 << 41;
        tx[text].make_ascii_lowercase();
        {
            // Into the copies, and past them.
            let copy: &Big = &tx[big];
            let element: &u64 = &tx[numbers.at(tx, 8)];
            let other: &u64 = &tx[numbers.at(tx, 9)];
            let word: &str = &tx[text];
            let whole: &[u64] = &tx[numbers]; // spills
            assert_eq!((whole[8], whole[9], whole[2000]), (1 << 40, 63, 1 << 41));
            assert_eq!((*element, *other, copy.words[3], copy.words[4]), (1 << 40, 63, 4711, 7704));
            assert_eq!(word, "hello, heap! 123");
            let again: &Big = &tx[big];
            assert_eq!(again, copy);
            let _new = tx.alloc(Big::default()).unwrap();
            assert_eq!((whole[8], *element), (1 << 40, 1 << 40));
        }
        let element = numbers.at(tx, 8);
        tx[element] += 1;
        assert_eq!(tx[numbers][8], (1 << 40) + 1);
    });
}

#[test]
fn elements_with_padding_keep_to_themselves() -> Result<()> {
    // 12 bytes, aligned to 4: every second one starts in the middle of a word.
    #[derive(Persist, Clone, Copy, PartialEq, Debug)]
    #[repr(C)]
    struct Odd {
        a: u8,
        b: u32,
        c: u32,
    }
    // 6 bytes, aligned to 2.
    #[derive(Persist, Clone, Copy, PartialEq, Debug)]
    #[repr(C)]
    struct Tiny {
        a: u8,
        b: u16,
        c: u16,
    }
    #[derive(Persist, Clone, Copy, PartialEq, Debug)]
    #[repr(u8)]
    enum Choice {
        No,
        Yes { a: u16, b: u16, c: u8 },
    }
    #[derive(Persist)]
    #[repr(C)]
    struct All<'r> {
        odd: P<'r, [Odd]>,
        tiny: P<'r, [Tiny]>,
        choice: P<'r, [Choice]>,
    }
    const ODD: Odd = Odd { a: 0xff, b: u32::MAX, c: u32::MAX };
    const TINY: Tiny = Tiny { a: 0xff, b: u16::MAX, c: u16::MAX };
    const YES: Choice = Choice::Yes { a: u16::MAX, b: u16::MAX, c: 0xff };
    for options in both() {
        let heap = options.in_memory()?;
        let root: Root<All> = heap.root_or("r", |tx| {
            Ok(All {
                odd: tx.alloc_slice(9, |_| ODD)?,
                tiny: tx.alloc_slice(9, |_| TINY)?,
                choice: tx.alloc_slice(9, |_| YES)?,
            })
        })?;
        for i in 0..9 {
            root.txn(|tx, r| {
                let (o, t, c) = (tx[r].odd.at(tx, i), tx[r].tiny.at(tx, i), tx[r].choice.at(tx, i));
                tx[o].a = 1;
                tx[t].a = 2;
                tx[c] = if i % 2 == 0 { Choice::No } else { Choice::Yes { a: 1, b: 2, c: 3 } };
                Ok(())
            })?;
            root.read(|view, r| {
                for j in 0..9 {
                    let (o, t, c) = (
                        view[view[r].odd.at(view, j)],
                        view[view[r].tiny.at(view, j)],
                        view[view[r].choice.at(view, j)],
                    );
                    if j > i {
                        assert_eq!((o, t, c), (ODD, TINY, YES), "{j} after a write to {i}");
                    } else {
                        assert_eq!(
                            (o, t),
                            (Odd { a: 1, ..ODD }, Tiny { a: 2, ..TINY }),
                            "{j} after a write to {i}"
                        );
                        assert_eq!(c, if j % 2 == 0 { Choice::No } else { Choice::Yes { a: 1, b: 2, c: 3 } });
                    }
                }
            })?;
        }
    }
    Ok(())
}

#[test]
fn a_transaction_goes_on_after_a_panic_that_was_caught_inside() -> Result<()> {
    for options in both() {
        let heap = options.in_memory()?;
        let root = fill(&heap)?;
        root.txn(|tx, d| {
            tx[d].a = 50;
            let caught = catch_unwind(AssertUnwindSafe(|| {
                tx.alloc_slice::<u64>(100, |i| if i < 50 { i as u64 } else { resume_unwind(Box::new("no")) })
            }));
            assert!(caught.is_err());
            let numbers = tx[d].numbers.unwrap();
            let caught = catch_unwind(AssertUnwindSafe(|| {
                tx[numbers].sort_by(|a, b| if *a == 999 { resume_unwind(Box::new("no")) } else { a.cmp(b) });
            }));
            assert!(caught.is_err());
            tx[numbers].fill(3);
            // An allocation in the closure of another one.
            let nested = tx.alloc_slice(10, |i| tx.alloc(Big { words: [i as u64; 20] }).unwrap())?;
            tx[d].pointers = Some(nested);
            tx[d].b = 60;
            Ok(())
        })?;
        root.read(|view, d| {
            assert_eq!((view[d].a, view[d].b), (50, 60));
            assert!(view[view[d].numbers.unwrap()].iter().all(|&n| n == 3));
            for (i, &p) in view[view[d].pointers.unwrap()].iter().enumerate() {
                assert_eq!(view[p].words, [i as u64; 20]);
            }
        })?;
    }
    Ok(())
}

#[test]
fn several_roots_roll_back_together() -> Result<()> {
    for options in both() {
        let heap = options.in_memory()?;
        let roots: Vec<Root<Data>> = (0..3)
            .map(|i| {
                let root: Root<Data> = heap.root(&format!("r{i}"))?;
                root.txn(|tx, d| {
                    let numbers = tx.alloc_slice(2000, |j| (i * j) as u64)?;
                    tx[d].numbers = Some(numbers);
                    Ok(())
                })?;
                Ok(root)
            })
            .collect::<Result<_>>()?;
        // Short, and with a spill in the last one only.
        for long in [false, true] {
            for commit in [false, true] {
                let result = pheap::txn(&roots, |mut shards| {
                    for i in 0..3 {
                        shards.with(i, |tx, d| {
                            tx[d].a += 1;
                            let numbers = tx[d].numbers.unwrap();
                            let element = numbers.at(tx, i);
                            tx[element] += 1;
                            if long && i == 2 {
                                tx[numbers].iter_mut().for_each(|n| *n += 1);
                            }
                            tx[d].b += 1;
                        });
                    }
                    if commit { Ok(()) } else { Err(Error::abort("no")) }
                });
                assert_eq!(result.is_ok(), commit);
            }
        }
        for (i, root) in roots.iter().enumerate() {
            root.read(|view, d| {
                assert_eq!((view[d].a, view[d].b), (2, 2));
                for (j, &n) in view[view[d].numbers.unwrap()].iter().enumerate() {
                    assert_eq!(n, (i * j + 2 * usize::from(i == j) + usize::from(i == 2)) as u64, "{i} {j}");
                }
            })?;
        }
    }
    Ok(())
}

// --- random programs on slices, against a `Vec` ------------------------------------------------------------

#[derive(Debug, Clone)]
enum Op {
    Set(usize, u64),
    Swap(usize, usize),
    Fill(usize, usize, u64),
    CopyWithin(usize, usize, usize),
    Reverse,
    Get(usize),
    All,
    Shared,
}

const MAX: usize = 700;

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..MAX, any::<u64>()).prop_map(|(i, v)| Op::Set(i, v)),
        2 => (0..MAX, 0..MAX).prop_map(|(i, j)| Op::Swap(i, j)),
        3 => (0..MAX, 0..40usize, any::<u64>()).prop_map(|(i, n, v)| Op::Fill(i, n, v)),
        1 => (0..MAX, 0..MAX, 0..MAX).prop_map(|(i, n, j)| Op::CopyWithin(i, n, j)),
        1 => Just(Op::Reverse),
        3 => (0..MAX).prop_map(Op::Get),
        1 => Just(Op::All),
        1 => Just(Op::Shared),
    ]
}

type Program = Vec<(Vec<Op>, bool)>;

#[derive(Persist)]
#[repr(C)]
struct Holder<'r, T> {
    before: u8,
    items: P<'r, [T]>,
    sum: u32,
}

fn run_program<T>(pin: bool, len: usize, program: &Program, make: fn(u64) -> T) -> Result<()>
where
    T: for<'r> Persist<At<'r> = T> + Copy + PartialEq + Debug,
{
    let heap = small().pin_undo(pin).in_memory()?;
    let root: Root<Holder<'static, T>> = heap.root_or("r", |tx| {
        Ok(Holder { before: 1, items: tx.alloc_slice(len, |i| make(i as u64 * 0x0101))?, sum: 0 })
    })?;
    let mut model: Vec<T> = (0..len).map(|i| make(i as u64 * 0x0101)).collect();
    for (ops, commit) in program {
        let before = model.clone();
        let result = root.txn(|tx, r| {
            let s = tx[r].items;
            for op in ops {
                match *op {
                    Op::Set(i, v) => {
                        let element = s.at(tx, i % len);
                        tx[element] = make(v);
                        model[i % len] = make(v);
                    }
                    Op::Swap(i, j) => {
                        tx.swap(s.at(tx, i % len), s.at(tx, j % len));
                        model.swap(i % len, j % len);
                    }
                    Op::Fill(i, n, v) => {
                        let (i, end) = (i % len, (i % len + n).min(len));
                        tx.slice_mut(s, i..end).fill(make(v));
                        model[i..end].fill(make(v));
                    }
                    Op::CopyWithin(i, n, j) => {
                        let (i, j) = (i % len, j % len);
                        let n = n.min(len - i).min(len - j);
                        tx[s].copy_within(i..i + n, j);
                        model.copy_within(i..i + n, j);
                    }
                    Op::Reverse => {
                        tx[s].reverse();
                        model.reverse();
                    }
                    Op::Get(i) => assert_eq!(tx[s.at(tx, i % len)], model[i % len]),
                    Op::All => assert_eq!(tx[s], model[..]),
                    Op::Shared => {
                        let shared = tx.shared();
                        assert_eq!(shared[s], model[..]);
                    }
                }
            }
            assert_eq!(tx[s], model[..]);
            tx[r].sum += 1;
            if *commit { Ok(()) } else { Err(Error::abort("no")) }
        });
        assert_eq!(result.is_ok(), *commit);
        if !commit {
            model = before;
        }
        root.read(|view, r| assert_eq!(view[view[r].items], model[..]))?;
    }
    let commits = program.iter().filter(|(_, commit)| *commit).count() as u32;
    assert_eq!(root.read(|view, r| (view[r].before, view[r].sum))?, (1, commits));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn slices_behave_like_vectors(
        pin in any::<bool>(),
        len in 1..MAX,
        program in prop::collection::vec((prop::collection::vec(any_op(), 0..25), any::<bool>()), 1..8),
    ) {
        run_program::<u8>(pin, len, &program, |v| v as u8).unwrap();
        run_program::<u16>(pin, len, &program, |v| v as u16).unwrap();
        run_program::<u32>(pin, len, &program, |v| v as u32).unwrap();
        run_program::<u128>(pin, len, &program, |v| u128::from(v) << 64 | u128::from(!v)).unwrap();
        run_program::<[u8; 3]>(pin, len, &program, |v| [v as u8, (v >> 8) as u8, (v >> 16) as u8]).unwrap();
    }
}
