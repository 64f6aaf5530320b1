//! Bitmaps against vectors of `bool`.

use pheap_gc::bitmap::Bitmap;
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Set(usize),
    SetShared(usize),
    SetRange(usize, usize),
    ClearRange(usize, usize),
    Clear,
    Reload,
    CopyFromNew,
}

fn op() -> impl Strategy<Value = Op> {
    let number = any::<usize>;
    prop_oneof![
        4 => number().prop_map(Op::Set),
        4 => number().prop_map(Op::SetShared),
        3 => (number(), number()).prop_map(|(first, count)| Op::SetRange(first, count)),
        3 => (number(), number()).prop_map(|(first, count)| Op::ClearRange(first, count)),
        1 => Just(Op::Clear),
        1 => Just(Op::Reload),
        1 => Just(Op::CopyFromNew),
    ]
}

/// Lengths around whole words, too.
fn len() -> impl Strategy<Value = usize> {
    prop_oneof![1..300_usize, (1..4_usize, 0..3_usize).prop_map(|(words, more)| words * 64 + more - 1)]
}

fn bits(map: &Bitmap) -> Vec<bool> {
    (0..map.len()).map(|bit| map.test(bit)).collect()
}

proptest! {
    #[test]
    fn a_bitmap_is_a_vector_of_bool(len in len(), ops in vec(op(), 0..40)) {
        let (mut map, mut model) = (Bitmap::new(len), vec![false; len]);
        for op in ops {
            match op {
                Op::Set(bit) => {
                    prop_assert_eq!(map.set(bit % len), !model[bit % len]);
                    model[bit % len] = true;
                }
                Op::SetShared(bit) => {
                    prop_assert_eq!(map.set_shared(bit % len), !model[bit % len]);
                    model[bit % len] = true;
                }
                Op::SetRange(first, count) => {
                    let (first, count) = (first % (len + 1), count % (len - first % (len + 1) + 1));
                    map.set_range(first, count);
                    model[first..first + count].fill(true);
                }
                Op::ClearRange(first, count) => {
                    let (first, count) = (first % (len + 1), count % (len - first % (len + 1) + 1));
                    map.clear_range(first, count);
                    model[first..first + count].fill(false);
                }
                Op::Clear => {
                    map.clear();
                    model.fill(false);
                }
                Op::Reload => {
                    let (loaded, copied) = (Bitmap::new(len), Bitmap::new(len));
                    copied.set_range(0, len);
                    loaded.load(&map.words().collect::<Vec<_>>());
                    copied.copy_from(&loaded);
                    map = copied;
                }
                Op::CopyFromNew => {
                    map.copy_from(&Bitmap::new(len));
                    model.fill(false);
                }
            }
            prop_assert_eq!(&bits(&map), &model);
            prop_assert_eq!(map.count_ones(), model.iter().filter(|&&bit| bit).count());
            prop_assert_eq!(map.ones().collect::<Vec<_>>(), (0..len).filter(|&bit| model[bit]).collect::<Vec<_>>());
            for from in 0..len + 130 {
                let start = (from..len).find(|&bit| !model[bit]);
                let run = start.map(|start| {
                    let end = (start..len).find(|&bit| model[bit]).unwrap_or(len);
                    (start, end - start)
                });
                prop_assert_eq!(map.next_free_run(from), run);
            }
        }
    }
}

#[test]
fn no_bits() {
    let map = Bitmap::new(0);
    map.set_range(0, 0);
    map.load(&[]);
    assert!(map.is_empty() && map.next_free_run(0).is_none() && map.ones().next().is_none());
}

#[test]
fn bits_beyond_the_end_are_not_loaded() {
    let map = Bitmap::new(70);
    map.load(&[0, u64::MAX]);
    assert_eq!((map.count_ones(), map.next_free_run(0)), (6, Some((0, 64))));
    let whole = Bitmap::new(64);
    whole.load(&[u64::MAX]);
    assert_eq!((whole.count_ones(), whole.next_free_run(0)), (64, None));
}

#[test]
#[should_panic(expected = "60 bits from 10 on, of 65")]
fn a_range_that_is_too_long() {
    Bitmap::new(65).set_range(10, 60);
}

#[test]
fn one_of_two_threads_sets_a_bit() {
    let map = Bitmap::new(10_000);
    let set = || (0..map.len()).filter(|&bit| map.set_shared(bit)).count();
    let total = std::thread::scope(|scope| {
        let other = scope.spawn(set);
        set() + other.join().unwrap()
    });
    assert_eq!((total, map.count_ones()), (10_000, 10_000));
}
