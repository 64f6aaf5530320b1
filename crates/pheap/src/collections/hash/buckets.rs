//! The buckets of a map, one after the other.

use super::PHashMap;
use super::bucket::{Bucket, Entries};
use super::directory::Root;
use crate::api::view::View;
use crate::collections::common::copied;
use crate::layout::Persist;
use crate::ptr::P;

/// Buckets that are on their way from memory.
const AHEAD: usize = 4;

/// A bucket and the first of its chain, and the entries of the bucket.
type Next<'v, 'r, K, V> = ([P<'r, Bucket<'r, K, V>>; 2], Entries<'v, 'r, K, V>);

/// A place between the buckets of a map.
pub(super) struct Buckets<'r, K, V> {
    /// Where to go on: behind this bucket, in its chain, which begins with this one; then at the next buckets, which are on their way from memory; then at this
    /// hash.
    behind: Option<[P<'r, Bucket<'r, K, V>>; 2]>,
    ahead: [Option<P<'r, Bucket<'r, K, V>>>; AHEAD],
    from: Option<u64>,
    root: Option<P<'r, Root<'r, K, V>>>,
}

copied! { [K, V] Buckets<'_, K, V>; }

impl<'r, K: Persist, V: Persist> Buckets<'r, K, V> {
    /// Before the first one.
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

    /// Before the first one of a chain, behind which none comes.
    pub(super) fn of_chain(first: Option<P<'r, Bucket<'r, K, V>>>) -> Self {
        Buckets { behind: first.map(|first| [first; 2]), ahead: [None; AHEAD], from: None, root: None }
    }

    /// The next one.
    #[inline]
    pub(super) fn next<'v>(&mut self, view: &'v View<'r>) -> Option<Next<'v, 'r, K, V>> {
        let [bucket, first] = match self.behind {
            Some(behind) => behind,
            None => [self.next_chain(view)?; 2],
        };
        let (entries, next) = bucket.parts(view);
        self.behind = next.map(|next| [next, first]);
        Some(([bucket, first], entries))
    }

    /// The next one that a directory leads to. Asks for one that comes later.
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
