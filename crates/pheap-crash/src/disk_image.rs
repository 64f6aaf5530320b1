//! The image that a crash leaves on a disk, with a hash that each change updates.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use pheap::sim::disk::{DiskChange, DiskImage, SECTOR, Which, sectors};

use pheap_testkit::rng::mix;

const ZERO: [u8; SECTOR] = [0; SECTOR];

/// The files of a disk.
#[derive(Debug, Clone)]
pub struct Files {
    image: DiskImage,
    /// Hashes of the heap's file and of the log; 0 if there is no log.
    hashes: [u64; 2],
}

/// Returns the contribution of a sector to the hash of its file: zero for a sector of zeros, so trailing
/// sectors of zeros do not change the hash.
fn share(number: u32, bytes: &[u8]) -> u64 {
    if bytes == &ZERO[..bytes.len()] {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    mix(mix(u64::from(number) + 1) ^ hasher.finish())
}

fn hash(which: Which, file: &[u8]) -> u64 {
    sectors(which, file).fold(0, |hash, change| match change {
        DiskChange::Sector(_, number, bytes) => hash ^ share(number, &bytes[..]),
        _ => hash,
    })
}

fn together(hashes: [u64; 2], data: usize, log: Option<usize>) -> u64 {
    let lengths = mix(data as u64) ^ mix(log.map_or(1, |len| len as u64 + 2));
    mix(mix(hashes[0]).wrapping_add(hashes[1]) ^ lengths)
}

fn sector(file: &[u8], number: u32) -> &[u8] {
    let at = number as usize * SECTOR;
    file.get(at..at + SECTOR).unwrap_or(&ZERO)
}

impl Files {
    /// Makes a disk with this content.
    pub fn new(image: DiskImage) -> Files {
        let log = image.log.as_ref().map_or(0, |log| hash(Which::Log, log));
        let hashes = [hash(Which::Data, &image.data), log];
        Files { image, hashes }
    }

    /// Returns the content.
    pub fn image(&self) -> &DiskImage {
        &self.image
    }

    /// Applies changes that have become durable.
    pub fn advance(&mut self, durable: &[DiskChange]) {
        (self.hashes, _, _) = self.after(durable);
        durable.iter().for_each(|change| self.image.apply(change));
    }

    /// Returns a hash of the content and the lengths of the files after these changes.
    pub fn hash_with(&self, changes: &[DiskChange]) -> u64 {
        let (hashes, data, log) = self.after(changes);
        together(hashes, data, log)
    }

    /// Returns the hashes and the lengths of the files after these changes. The second length is `None` if
    /// there is no log then.
    fn after(&self, changes: &[DiskChange]) -> ([u64; 2], usize, Option<usize>) {
        let mut new: BTreeMap<(bool, u32), &[u8]> = BTreeMap::new();
        let mut data = self.image.data.len();
        let mut log = self.image.log.as_ref().map(Vec::len);
        let mut old_log = self.image.log.as_deref().unwrap_or_default();
        let mut hashes = self.hashes;
        for change in changes {
            match change {
                DiskChange::NewLog | DiskChange::NoLog => {
                    new.retain(|(is_log, _), _| !is_log);
                    (old_log, hashes[1]) = (&[], 0);
                    log = (*change == DiskChange::NewLog).then_some(0);
                }
                DiskChange::Sector(which, number, bytes) => {
                    let end = (*number as usize + 1) * SECTOR;
                    match (which, &mut log) {
                        (Which::Data, _) => data = data.max(end),
                        (Which::Log, Some(log)) => *log = (*log).max(end),
                        (Which::Log, None) => continue,
                    }
                    new.insert((*which == Which::Log, *number), &bytes[..]);
                }
                DiskChange::Length(which, len) => match (which, &mut log) {
                    (Which::Data, _) => data = data.max(*len as usize),
                    (Which::Log, Some(log)) => *log = (*log).max(*len as usize),
                    (Which::Log, None) => {}
                },
            }
        }
        for ((is_log, number), bytes) in new {
            let old = if is_log { old_log } else { &self.image.data };
            hashes[usize::from(is_log)] ^= share(number, sector(old, number)) ^ share(number, bytes);
        }
        (hashes, data, log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn change(which: Which, number: u32, byte: u8) -> DiskChange {
        DiskChange::Sector(which, number, Arc::new([byte; SECTOR]))
    }

    #[test]
    fn the_hash_of_a_choice_is_that_of_the_image() {
        let image = DiskImage { data: vec![1; 3 * SECTOR], log: Some(vec![2; 2 * SECTOR]) };
        let files = Files::new(image);
        let all = [
            change(Which::Data, 1, 7),
            change(Which::Log, 1, 8),
            change(Which::Log, 1, 0),
            DiskChange::NoLog,
            DiskChange::NewLog,
            DiskChange::Length(Which::Log, 4096),
            change(Which::Log, 3, 9),
            change(Which::Data, 5, 3),
        ];
        let mut seen = Vec::new();
        for mask in 0..1u32 << all.len() {
            let chosen: Vec<DiskChange> =
                (0..all.len()).filter(|i| mask >> i & 1 == 1).map(|i| all[i].clone()).collect();
            let mut made = files.image().clone();
            chosen.iter().for_each(|change| made.apply(change));
            let mut advanced = files.clone();
            advanced.advance(&chosen);
            let hash = files.hash_with(&chosen);
            assert_eq!((hash, hash), (Files::new(made.clone()).hash_with(&[]), advanced.hash_with(&[])));
            assert_eq!(advanced.image(), &made);
            seen.push((made, hash));
        }
        for (image, hash) in &seen[..64] {
            assert!(seen.iter().all(|(other, h)| (other == image) == (h == hash)));
        }
    }
}
