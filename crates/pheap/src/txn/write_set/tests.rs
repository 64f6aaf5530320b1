use proptest::prelude::*;

use super::trial::Trial;
use super::*;

/// Returns the first word of `bytes`.
fn word(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(*bytes.first_chunk().expect("as many bytes"))
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}

#[test]
fn the_filter_has_a_bit_for_each_line() {
    assert_eq!(filter_bits(0, 8), 1);
    assert_eq!(filter_bits(60, 8), 0b11);
    assert_eq!(filter_bits(64 * 63, 64), 1 << 63);
    assert_eq!(filter_bits(64 * 63, 65), 1 << 63 | 1);
    assert_eq!(filter_bits(8, 64 * 64), u64::MAX);
}

#[test]
fn bytes_of_one_word_share_a_copy() {
    let mut trial = Trial::new(vec![u64::from_le_bytes([1, 2, 3, 4, 5, 6, 7, 8]), 9]);
    trial.insert(0, 1, 1).unwrap()[0] = 10;
    trial.found(2, 1).expect("in the word's copy")[0] = 30;
    assert!(matches!(trial.find_copy(4, 8), RangeLookup::Part));
    assert!(matches!(trial.find_copy(8, 8), RangeLookup::Nothing));
    assert_eq!(trial.copies(), [(0, vec![u64::from_le_bytes([10, 2, 30, 4, 5, 6, 7, 8])])]);
}

#[test]
fn copies_are_found_by_any_part_of_them() {
    let mut trial = Trial::new(vec![0; 4000]);
    let mut held: Vec<(usize, usize)> = Vec::new();
    let mut random = 1u64;
    for _ in 0..3000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (at, len) = (8 * ((random >> 20) % 3800) as usize, 8 * (1 + (random >> 45) % 40) as usize);
        let overlapping: Vec<_> =
            held.iter().filter(|held| at < held.0 + held.1 && held.0 < at + len).collect();
        let covers = overlapping.iter().any(|held| held.0 <= at && at + len <= held.0 + held.1);
        match trial.find_copy(at, len) {
            RangeLookup::Copy(_) => assert!(covers),
            RangeLookup::Part => assert!(!covers && !overlapping.is_empty()),
            RangeLookup::Nothing => {
                assert!(overlapping.is_empty());
                if trial.insert(at, len, 8).is_some() {
                    held.push((at, len));
                }
            }
        }
    }
    assert!(held.len() > 50 && matches!(trial.find_copy(0, 32_000), RangeLookup::Part));
    trial.set.clear();
    assert!(held.iter().all(|&(at, len)| matches!(trial.find_copy(at, len), RangeLookup::Nothing)));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut trial = Trial::new(vec![0; CAPACITY / 8 + 200]);
    assert!(trial.insert(0, MAX_OBJECT + 8, 8).is_none());
    for i in 0..CAPACITY / MAX_OBJECT {
        assert!(trial.insert(i * MAX_OBJECT, MAX_OBJECT, 8).is_some());
    }
    assert!(trial.insert(CAPACITY, 8, 8).is_none());
    let mut few = Trial::new(vec![0; 3]);
    few.set.set_limit(2);
    assert!(few.insert(0, 8, 8).is_some() && few.insert(8, 8, 8).is_some());
    assert!(few.insert(16, 8, 8).is_none());
}

#[test]
fn memory_is_given_back_after_many_small_transactions() {
    let mut trial = Trial::new(vec![0; 100_000]);
    let write = |trial: &mut Trial, n: usize| {
        for i in 0..n {
            assert!(trial.insert(i * 80, 16, 8).is_some());
        }
        trial.set.clear();
    };
    for _ in 0..2 {
        write(&mut trial, 5000);
        (1..QUIET).for_each(|_| write(&mut trial, 10));
        assert!(trial.set.grown && trial.set.entries.room() >= 5000);
        write(&mut trial, 10);
        assert!(!trial.set.grown && trial.set.entries.room() < 5000);
    }
}

#[test]
fn long_ranges_are_found_but_not_for_ever() {
    let mut trial = Trial::new(vec![0; 40_000]);
    let (first, second) = ((160_000, 80_000), (160_008, 80_000));
    let insert = |trial: &mut Trial, i: usize| assert!(trial.insert(i * 16, 8, 8).is_some());
    for i in 0..1000 {
        insert(&mut trial, i);
        assert!(matches!(trial.find_copy(first.0, first.1), RangeLookup::Nothing));
    }
    insert(&mut trial, 10_000);
    assert!(matches!(trial.find_copy(first.0, first.1), RangeLookup::Part));
    trial.set.clear();
    (0..1000).for_each(|i| insert(&mut trial, i));
    let patience = (0..10_000).take_while(|i| {
        let (at, len) = if i % 2 == 0 { first } else { second };
        matches!(trial.find_copy(at, len), RangeLookup::Nothing)
    });
    assert_eq!(patience.count(), PATIENCE / 1000);
    trial.set.clear();
    // There are more entries than the range has lines.
    (0..5000).for_each(|i| insert(&mut trial, 2 * i));
    assert!(matches!(trial.find_copy(second.0 - 80_000, second.1), RangeLookup::Part));
    assert!(matches!(trial.find_copy(first.0, first.1), RangeLookup::Nothing));
    assert!(matches!(trial.find_copy(second.0, second.1), RangeLookup::Nothing));
}

// --- parts ---

#[test]
fn parts_become_one_copy() {
    let mut trial = Trial::new((0..64).collect());
    for (at, len, value) in [(8, 8, 100u64), (40, 16, 500), (160, 16, 2000)] {
        trial.insert(at, len, 8).unwrap()[..8].copy_from_slice(&value.to_ne_bytes());
    }
    assert!(trial.widen(80, 8, 8).is_none(), "nothing of it is there");
    assert!(trial.widen(44, 4, 4).is_none(), "a part of a copy");
    assert!(trial.widen(32, 16, 8).is_none(), "half of a copy");
    assert!(matches!(trial.find_copy(0, 80), RangeLookup::Part));
    let whole = trial.widen(0, 80, 8).unwrap();
    assert_eq!(words(whole), [0, 100, 2, 3, 4, 500, 6, 7, 8, 9]);
    let whole = whole.as_ptr().addr();
    assert_eq!(trial.found(40, 8).expect("it is in the new copy").as_ptr().addr(), whole + 40);
    let wider = words(trial.widen(0, 512, 8).unwrap());
    assert_eq!([wider[1], wider[5], wider[20], wider[63]], [100, 500, 2000, 63]);
    assert_eq!(trial.copies(), [(0, wider)]);
    trial.set.clear();
    assert!(matches!(trial.find_copy(0, 80), RangeLookup::Nothing));
}

// --- kept copies ---

#[test]
fn only_what_is_in_its_place_is_kept() {
    // Adds ranges (first word, words) to the set, and returns which of their copies were kept.
    let take = |trial: &mut Trial, ranges: &[(usize, usize)]| -> Vec<bool> {
        let entries = ranges.iter().map(|&(at, len)| {
            trial.insert(at * 8, len * 8, 8).unwrap();
            trial.set.kept >= trial.set.len()
        });
        entries.collect()
    };
    let (a, b) = ((0, 8), (8, 8));
    // The ranges of a transaction, those of the next one, and whether the copies of the latter were kept.
    let cases: [(&[_], &[_], &[_]); 8] = [
        (&[a, b], &[a, b], &[true, true]),
        (&[a, b], &[a], &[true]),
        (&[a], &[a, b], &[true, false]),
        (&[a, b], &[b, a], &[false, false]),
        (&[a, b], &[a, (16, 8)], &[true, false]),
        (&[a, b], &[(0, 16)], &[false]),
        // The second copy has another place in the buffer.
        (&[a, b], &[(100, 7), b], &[false, false]),
        // The second copy has the same place in the buffer. But a program that writes one other object is
        // likely to write more, so later copies are not kept.
        (&[a, b], &[(100, 8), b], &[false, false]),
    ];
    for (first, second, expected) in cases {
        let mut trial = Trial::new(vec![0; 200]);
        take(&mut trial, first);
        trial.set.retain_copies();
        assert_eq!(take(&mut trial, second), expected, "{first:?}, then {second:?}");
        trial.set.clear();
        assert!(take(&mut trial, second).iter().all(|is_kept| !is_kept), "after a rollback");
    }
}

proptest! {
    #[test]
    fn copies_are_as_their_originals(
        transactions in prop::collection::vec(
            (0usize..3, prop::collection::vec((0usize..30, 1usize..4, any::<bool>()), 0..40), any::<bool>()),
            1..30,
        ),
    ) {
        let mut trial = Trial::new(vec![0u64; 30 * 4 + 16]);
        let mut value = 0u64;
        for (repeated, ranges, is_committed) in transactions {
            let mut now = trial.words.clone();
            let before: Vec<_> = (0..repeated * 10).map(|i| (i % 30, 1, i % 3 == 0)).collect();
            for (at, len, is_written) in before.into_iter().chain(ranges) {
                // Makes a copy of the range, if no copy covers it.
                let copy = match trial.find_copy(at * 32, len * 32) {
                    RangeLookup::Nothing => trial.insert(at * 32, len * 32, 8),
                    RangeLookup::Part => trial.widen(at * 32, len * 32, 8),
                    RangeLookup::Copy(_) => None,
                };
                for (i, bytes) in copy
                    .into_iter()
                    .flat_map(|copy| copy.as_chunks_mut::<8>().0.iter_mut().enumerate())
                {
                    prop_assert_eq!(word(bytes), now[at * 4 + i]);
                    value += 1;
                    if is_written {
                        *bytes = value.to_ne_bytes();
                        now[at * 4 + i] = value;
                    }
                }
            }
            if is_committed {
                for (at, copy) in trial.copies() {
                    trial.words[at..][..copy.len()].copy_from_slice(&copy);
                }
                prop_assert_eq!(&trial.words, &now);
                trial.set.retain_copies();
            } else {
                trial.set.clear();
                // After `clear`, unlike after `retain_copies`, objects may change by other ways than the set,
                // as by stores in place. So all words change here, and a copy that the set should not have
                // kept differs from its original.
                trial.words.fill(value);
            }
        }
    }
}
