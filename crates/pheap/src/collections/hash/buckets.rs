//! Iteration over the buckets of a map.

use super::PHashMap;
use super::bucket::{Bucket, BucketEntries};
use super::directory::Root;
use crate::api::view::View;
use crate::collections::common::copied;
use crate::layout::Persist;
use crate::ptr::P;

/// Number of chains whose first buckets are prefetched ahead of the iteration.
const AHEAD: usize = 4;

/// A bucket and the first bucket of its chain, and the entries of the former.
type ChainBucket<'v, 'r, K, V> = ([P<'r, Bucket<'r, K, V>>; 2], BucketEntries<'v, 'r, K, V>);

/// A position between the buckets of a map.
pub(super) struct Buckets<'r, K, V> {
    /// The next bucket of the current chain, with the first bucket of that chain. When the chain ends, those
    /// in `ahead` follow, which were prefetched, and then the chains from the hash `from` on.
    behind: Option<[P<'r, Bucket<'r, K, V>>; 2]>,
    ahead: [Option<P<'r, Bucket<'r, K, V>>>; AHEAD],
    from: Option<u64>,
    root: Option<P<'r, Root<'r, K, V>>>,
}

copied! { [K, V] Buckets<'_, K, V>; }

impl<'r, K: Persist, V: Persist> Buckets<'r, K, V> {
    /// Returns the position before the first bucket.
    #[inline]
    pub(super) fn new(map: &PHashMap<'r, K, V>, view: &View<'r>) -> Self {
        let root = map.root();
        let mut buckets = Buckets { behind: None, ahead: [None; AHEAD], from: root.map(|_| 0), root };
        if root.is_some() {
            for _ in 0..AHEAD {
                buckets.next_chain(view);
            }
        }
        buckets
    }

    /// Returns the position before the first bucket of a chain; the iteration ends with the chain.
    pub(super) fn of_chain(first: Option<P<'r, Bucket<'r, K, V>>>) -> Self {
        Buckets { behind: first.map(|first| [first; 2]), ahead: [None; AHEAD], from: None, root: None }
    }

    /// Returns the next bucket of the chain, or the first bucket of the next chain; `None` at the end.
    #[inline]
    pub(super) fn next<'v>(&mut self, view: &'v View<'r>) -> Option<ChainBucket<'v, 'r, K, V>> {
        let [bucket, first] = match self.behind {
            Some(behind) => behind,
            None => [self.next_chain(view)?; 2],
        };
        let (entries, next) = bucket.parts(view);
        self.behind = next.map(|next| [next, first]);
        Some(([bucket, first], entries))
    }

    /// Returns the first bucket of the next chain, and prefetches a later one.
    #[inline]
    fn next_chain(&mut self, view: &View<'r>) -> Option<P<'r, Bucket<'r, K, V>>> {
        let newest = self.ahead[AHEAD - 1];
        let mut later = None;
        while let Some(root) = self.root {
            later = root.bucket_from(view, &mut self.from);
            if later.is_none() || later != newest {
                break;
            }
        }
        if let Some(bucket) = later {
            bucket.ask_for_all();
        }
        let next = self.ahead[0];
        self.ahead.rotate_left(1);
        self.ahead[AHEAD - 1] = later;
        next
    }
}
