//! Hashes by which types are found.

use xxhash_rust::xxh3::xxh3_64;

use super::encode::encode_as;
use super::graph::TypeLayout;

/// How many pointers away a fingerprint looks.
const ROUNDS: usize = 3;

/// A hash of each type of a list together with what lies a few pointers away. Equal for equal types, whatever list they are in; that
/// unequal ones may share it, [`difference`](super::difference) finds out.
pub(crate) fn fingerprints(types: &[TypeLayout]) -> Vec<u64> {
    // Round by round each hash takes in what lies one pointer further away. Several descriptions of one type in a program do not
    // show: only what is seen along a path of pointers counts.
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
