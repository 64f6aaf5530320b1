//! Makes room for an entry by dividing a bucket in two, as in R. Fagin, J. Nievergelt, N. Pippenger, H. R.
//! Strong, "Extendible hashing: a fast access method for dynamic files", 1979. But here the directory is a
//! trie, and each node of the trie grows separately, so that no insertion takes long.

use super::HashKey;
use super::bucket::{Bucket, BucketSlot, Pair, hash_of};
use super::directory::{Root, TrieCursor};
use super::tags::{HASH, bits};
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::error::Result;
use crate::layout::Persist;
use crate::ptr::P;

/// Makes room for a missing entry with this hash, and returns the slot for it.
#[cold]
#[inline(never)]
pub(super) fn make_room<'r, K, V>(
    tx: &mut Txn<'r>,
    root: P<'r, Root<'r, K, V>>,
    hash: u64,
) -> Result<BucketSlot<'r, K, V>>
where
    K: HashKey<'r>,
    V: Persist<At<'r> = V>,
{
    let secret = tx[root].parts().0;
    loop {
        let spot = TrieCursor::new(tx, root, hash);
        let Some(bucket) = spot.bucket() else {
            spot.insert_bucket()?;
            continue;
        };
        let head = bucket.head(spot.view());
        let tags = head.tags();
        let is_deepest = tags.depth() == HASH;
        let chained = match head.next() {
            Some(_) => {
                let Some(other) = hash_of_chain(spot.view(), secret, bucket) else {
                    bucket.drop_empty(tx);
                    continue;
                };
                if other == hash || is_deepest {
                    return place_in_chain(tx, bucket);
                }
                Some(other)
            }
            None => {
                if let Some(free) = tags.free_near(hash, <Pair<K, V>>::IN_LINE) {
                    return Ok((bucket, free));
                }
                let view = spot.view();
                let mut hashes =
                    bucket.entries(view).map(|(_, pair)| hash_of::<K>(secret, pair.key.query(view)));
                if is_deepest || tags.all_match(hash) && hashes.all(|other| other == hash) {
                    return place_in_chain(tx, bucket);
                }
                None
            }
        };
        match (tags.depth() < spot.known(), chained) {
            (false, _) => spot.grow()?,
            (true, Some(other)) => spot.set_chain_apart(other),
            (true, None) => spot.divide(secret)?,
        }
    }
}

/// Returns the hash of all entries of a chain, if there are any.
fn hash_of_chain<'r, K: HashKey<'r>, V: Persist>(
    view: &View<'r>,
    secret: [u64; 2],
    first: P<'r, Bucket<'r, K, V>>,
) -> Option<u64> {
    let mut chain = std::iter::successors(Some(first), |bucket| bucket.next(view));
    let (_, pair) = chain.find_map(|bucket| bucket.entries(view).next())?;
    Some(hash_of::<K>(secret, pair.key.query(view)))
}

/// Returns a free slot in the chain that begins with `first`. If there is none, adds a bucket to the chain.
fn place_in_chain<'r, K: Persist, V: Persist>(
    tx: &mut Txn<'r>,
    first: P<'r, Bucket<'r, K, V>>,
) -> Result<BucketSlot<'r, K, V>> {
    let mut chain = std::iter::successors(Some(first), |bucket| bucket.next(tx));
    let found = chain.find_map(|bucket| Some((bucket, bits(bucket.tags(tx).free()).next()?)));
    found.map_or_else(|| Ok((first.push_behind(tx)?, 0)), Ok)
}
