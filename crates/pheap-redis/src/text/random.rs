//! Pseudorandom numbers for choices. They are not secure.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

thread_local! {
    /// The state of this thread's generator, which starts with a random value.
    static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0));
}

/// Returns the next number, uniformly distributed: SplitMix64 (Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", 2014).
pub fn random() -> u64 {
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Returns a number below `end`, which must not be 0. (The bias is less than `end` in 2⁶⁴.)
pub fn below(end: usize) -> usize {
    ((u128::from(random()) * end as u128) >> 64) as usize
}

/// Returns an index with a probability in proportion to its size. None if all sizes are 0.
pub fn weighted(sizes: &[usize]) -> Option<usize> {
    let all = sizes.iter().sum();
    let mut nth = if all == 0 { return None } else { below(all) };
    sizes.iter().position(|&size| {
        nth < size || {
            nth -= size;
            false
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_comes() {
        let mut seen = [false; 10];
        while seen.contains(&false) {
            seen[below(10)] = true;
        }
        assert_ne!(random(), random());
    }

    #[test]
    fn larger_ones_come_more_often() {
        let mut seen = [0; 4];
        (0..10_000).for_each(|_| seen[weighted(&[10, 0, 1, 5]).unwrap()] += 1);
        assert!(seen[1] == 0 && 0 < seen[2] && seen[2] < seen[3] && seen[3] < seen[0], "{seen:?}");
        assert_eq!([weighted(&[]), weighted(&[0, 0])], [None, None]);
    }
}
