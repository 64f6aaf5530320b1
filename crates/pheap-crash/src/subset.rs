//! Which of the words that may have reached the medium did.

use std::ops::ControlFlow;

use crate::rng::Rng;

/// How many subsets are tried at each point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breadth {
    /// All of them, if there are at most two to the power of this.
    pub exhaustive: u32,
    /// Else none and all, and so many of each kind: one word alone, all words but one, the first few words.
    pub corners: usize,
    /// And so many random ones.
    pub random: usize,
}

/// Calls `visit` with subsets of `pending`, as a flag for each, until it breaks.
pub fn subsets<B>(
    pending: &[(u32, u64)],
    breadth: Breadth,
    rng: &mut Rng,
    mut visit: impl FnMut(&[bool]) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let len = pending.len();
    if len <= breadth.exhaustive as usize {
        let mut chosen = vec![false; len];
        for mask in 0..1u64 << len {
            (0..len).for_each(|i| chosen[i] = mask >> i & 1 == 1);
            visit(&chosen)?;
        }
        return ControlFlow::Continue(());
    }
    let mut chosen = vec![false; len];
    visit(&chosen)?;
    if len == 0 {
        return ControlFlow::Continue(());
    }
    visit(&vec![true; len])?;
    for i in some_of(len, breadth.corners, rng) {
        chosen.fill(false);
        chosen[i] = true;
        visit(&chosen)?;
        chosen.iter_mut().for_each(|c| *c = !*c);
        visit(&chosen)?;
        (0..len).for_each(|j| chosen[j] = j < i);
        visit(&chosen)?;
    }
    for round in 0..breadth.random {
        let density = [128, 32, 224][round % 3];
        if round % 2 == 0 {
            chosen.iter_mut().for_each(|c| *c = rng.chance(density));
        } else {
            // Whole cache lines, as a processor evicts them.
            let mut line = (u32::MAX, false);
            for (c, &(word, _)) in chosen.iter_mut().zip(pending) {
                if line.0 != word / 8 {
                    line = (word / 8, rng.chance(density));
                }
                *c = line.1;
            }
        }
        visit(&chosen)?;
    }
    ControlFlow::Continue(())
}

/// All numbers below `len`, or `most` random ones of them.
fn some_of(len: usize, most: usize, rng: &mut Rng) -> Vec<usize> {
    if len <= most { (0..len).collect() } else { (0..most).map(|_| rng.below(len)).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn all(len: u32, breadth: Breadth) -> Vec<Vec<bool>> {
        let pending: Vec<(u32, u64)> = (0..len).map(|word| (word, 1)).collect();
        let mut seen = Vec::new();
        let done: ControlFlow<()> = subsets(&pending, breadth, &mut Rng::new(&[1]), |chosen| {
            seen.push(chosen.to_vec());
            ControlFlow::Continue(())
        });
        assert!(done.is_continue());
        seen
    }

    #[test]
    fn few_words_are_exhausted() {
        let seen = all(5, Breadth { exhaustive: 5, corners: 0, random: 0 });
        assert_eq!((seen.len(), seen.iter().collect::<BTreeSet<_>>().len()), (32, 32));
    }

    #[test]
    fn many_words_have_corners() {
        let seen = all(20, Breadth { exhaustive: 5, corners: 20, random: 7 });
        assert_eq!(seen.len(), 2 + 3 * 20 + 7);
        let with = |n| seen.iter().filter(|chosen| chosen.iter().filter(|c| **c).count() == n).count();
        assert!(with(0) >= 1 && with(1) >= 20 && with(19) >= 20 && with(20) >= 1);
    }

    #[test]
    fn the_first_break_ends_it() {
        let mut count = 0;
        let breadth = Breadth { exhaustive: 5, corners: 0, random: 0 };
        let done = subsets(&[(0, 1), (1, 1)], breadth, &mut Rng::new(&[]), |_| {
            count += 1;
            if count == 3 { ControlFlow::Break(count) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(done, ControlFlow::Break(3));
    }
}
