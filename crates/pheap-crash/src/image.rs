//! The image that a crash leaves in memory, with a hash that each change updates.

use pheap::sim::Point;

use pheap_testkit::rng::mix;

/// The content of a medium.
#[derive(Debug, Clone)]
pub struct Image {
    words: Vec<u64>,
    hash: u64,
}

/// Returns the contribution of a word to [`Image::hash`]: zero for a zero word, so trailing zeros do not
/// change this hash.
fn share(word: u32, value: u64) -> u64 {
    if value == 0 { 0 } else { mix(mix(u64::from(word) + 1) ^ value) }
}

impl Image {
    /// Makes the medium that holds these words.
    pub fn new(words: Vec<u64>) -> Image {
        let hash = (0..).zip(&words).fold(0, |hash, (word, &value)| hash ^ share(word, value));
        Image { words, hash }
    }

    /// Returns the words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Advances to the next point: applies the words that became durable since the point before, and sets the
    /// length of the medium. It must not become shorter.
    pub fn advance(&mut self, point: &Point) {
        if self.words.len() < point.words {
            self.words.resize(point.words, 0);
        }
        for &(word, value) in &point.durable {
            let old = std::mem::replace(&mut self.words[word as usize], value);
            self.hash ^= share(word, old) ^ share(word, value);
        }
        debug_assert!(self.words[point.words..].iter().all(|&word| word == 0), "a medium never shrinks");
        self.words.truncate(point.words);
    }

    /// Returns the words of `pending` that are `chosen`, and a hash of the image that they would make and of
    /// its length. Entries of one word must follow one another; the last chosen one counts.
    pub fn choose(&self, pending: &[(u32, u64)], chosen: &[bool]) -> (Vec<(u32, u64)>, u64) {
        let mut changes: Vec<(u32, u64)> = Vec::new();
        for (&(word, value), _) in pending.iter().zip(chosen).filter(|(_, chosen)| **chosen) {
            match changes.last_mut() {
                Some(last) if last.0 == word => last.1 = value, // a later value wins
                _ => changes.push((word, value)),
            }
        }
        let mut hash = self.hash;
        for &(word, value) in &changes {
            hash ^= share(word, self.words[word as usize]) ^ share(word, value);
        }
        (changes, mix(hash ^ self.words.len() as u64))
    }

    /// Returns the words with these changes.
    pub fn with(&self, changes: &[(u32, u64)]) -> Vec<u64> {
        let mut words = self.words.clone();
        for &(word, value) in changes {
            words[word as usize] = value;
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_choice_is_that_of_the_image() {
        let image = Image::new(vec![1, 2, 0, 4]);
        let pending = [(0, 9), (1, 5), (1, 6), (2, 7)];
        for mask in 0..16u32 {
            let chosen: Vec<bool> = (0..4).map(|i| mask >> i & 1 == 1).collect();
            let (changes, hash) = image.choose(&pending, &chosen);
            let made = Image::new(image.with(&changes));
            assert_eq!(hash, made.choose(&[], &[]).1);
            let middle = if chosen[2] {
                6
            } else if chosen[1] {
                5
            } else {
                2
            };
            assert_eq!(made.words()[1], middle);
        }
    }

    #[test]
    fn advancing_keeps_the_hash() {
        let mut image = Image::new(vec![1, 2]);
        let point = Point {
            durable: vec![(0, 7), (3, 8)],
            pending: Vec::new(),
            order: Vec::new(),
            before: 0,
            words: 4,
            acknowledged: 0,
            at: "fence",
        };
        image.advance(&point);
        assert_eq!(image.words(), [7, 2, 0, 8]);
        assert_eq!(image.hash, Image::new(vec![7, 2, 0, 8]).hash);
    }
}
