//! Numbers at random: for choices, not for secrets.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

thread_local! {
    /// Where this thread's sequence is. Each begins elsewhere.
    static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0));
}

/// The next number. They are uniformly distributed: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
pub fn random() -> u64 {
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// A number below `end`, which is not 0. (The bias is less than `end` in 2⁶⁴.)
pub fn below(end: usize) -> usize {
    ((u128::from(random()) * end as u128) >> 64) as usize
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
}
