//! Hashes by which types are found.

use xxhash_rust::xxh3::xxh3_64;

use super::encode::encode_as;
use super::graph::TypeLayout;

/// Number of pointers that a fingerprint follows along a path.
const ROUNDS: usize = 3;

/// Returns, for each type of a list, a hash of the type and of the types that are a few pointers away. Equal
/// types have equal hashes, in any list. Unequal types may have equal hashes, too, so a match is compared by
/// [`difference`](super::difference).
pub(crate) fn fingerprints(types: &[TypeLayout]) -> Vec<u64> {
    // In each round a hash takes in the types that are one pointer further away. It depends only on paths of
    // pointers, so it does not matter if a program has several descriptions of one type.
    let mut bytes = Vec::new();
    let mut hash = |write: &dyn Fn(&mut Vec<u8>)| {
        bytes.clear();
        write(&mut bytes);
        xxh3_64(&bytes)
    };
    let mut hashes: Vec<u64> = types.iter().map(|ty| hash(&|bytes| encode_as(ty, bytes, &|_| 0))).collect();
    for _ in 0..ROUNDS {
        let further = |(ty, own): (&TypeLayout, &u64)| {
            hash(&|bytes| {
                bytes.extend(own.to_le_bytes());
                ty.for_each_pointer(&mut |to| bytes.extend(hashes[to as usize].to_le_bytes()));
            })
        };
        hashes = types.iter().zip(&hashes).map(further).collect();
    }
    hashes
}
