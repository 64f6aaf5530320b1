//! All entries.

use std::iter::FusedIterator;

use super::node::Entry;
use super::range::Range;
use crate::collections::key::OrdKey;
use crate::layout::Persist;

/// The entries of a [`PBTreeMap`](super::PBTreeMap) in the order of their keys; made by [`PBTreeMap::iter`](super::PBTreeMap::iter).
pub struct Iter<'v, 'r, K, V> {
    range: Range<'v, 'r, K, V>,
    left: usize,
}

/// The keys of a [`PBTreeMap`](super::PBTreeMap) in order; made by [`PBTreeMap::keys`](super::PBTreeMap::keys).
pub struct Keys<'v, 'r, K, V>(pub(super) Iter<'v, 'r, K, V>);

/// The values of a [`PBTreeMap`](super::PBTreeMap) in the order of their keys; made by [`PBTreeMap::values`](super::PBTreeMap::values).
pub struct Values<'v, 'r, K, V>(pub(super) Iter<'v, 'r, K, V>);

impl<'v, 'r, K: OrdKey<'r>, V: Persist> Iter<'v, 'r, K, V> {
    #[inline]
    pub(super) fn new(range: Range<'v, 'r, K, V>, left: usize) -> Self {
        Iter { range, left }
    }

    #[inline(always)]
    fn next_entry(&mut self) -> Option<&'v Entry<K, V>> {
        let entry = self.range.next_entry()?;
        self.left = self.left.saturating_sub(1);
        Some(entry)
    }

    #[inline(always)]
    fn next_entry_back(&mut self) -> Option<&'v Entry<K, V>> {
        let entry = self.range.next_entry_back()?;
        self.left = self.left.saturating_sub(1);
        Some(entry)
    }

    #[inline(always)]
    fn size(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K, V> Clone for Iter<'_, '_, K, V> {
    fn clone(&self) -> Self {
        Iter { range: self.range.clone(), left: self.left }
    }
}

impl<K, V> Clone for Keys<'_, '_, K, V> {
    fn clone(&self) -> Self {
        Keys(self.0.clone())
    }
}

impl<K, V> Clone for Values<'_, '_, K, V> {
    fn clone(&self) -> Self {
        Values(self.0.clone())
    }
}

macro_rules! iterators {
    ($($name:ident, $item:ty, $self:ident => $iter:expr, $entry:ident => $map:expr;)*) => {$(
        impl<'v, 'r, K: OrdKey<'r>, V: Persist> Iterator for $name<'v, 'r, K, V> {
            type Item = $item;

            #[inline]
            fn next(&mut $self) -> Option<$item> {
                let $entry = $iter.next_entry()?;
                Some($map)
            }

            #[inline]
            fn size_hint(&$self) -> (usize, Option<usize>) {
                $iter.size()
            }

            #[inline]
            fn count($self) -> usize {
                $iter.left
            }
        }

        impl<'r, K: OrdKey<'r>, V: Persist> DoubleEndedIterator for $name<'_, 'r, K, V> {
            #[inline]
            fn next_back(&mut $self) -> Option<Self::Item> {
                let $entry = $iter.next_entry_back()?;
                Some($map)
            }
        }

        impl<'r, K: OrdKey<'r>, V: Persist> ExactSizeIterator for $name<'_, 'r, K, V> {}
        impl<'r, K: OrdKey<'r>, V: Persist> FusedIterator for $name<'_, 'r, K, V> {}
    )*};
}

iterators! {
    Iter, (&'v K::Query, &'v V), self => self, entry => (entry.key.query(self.range.view()), &entry.value);
    Keys, &'v K::Query, self => self.0, entry => entry.key.query(self.0.range.view());
    Values, &'v V, self => self.0, entry => &entry.value;
}

impl<'r, K, V> std::fmt::Debug for Iter<'_, 'r, K, V>
where
    K: OrdKey<'r, Query: std::fmt::Debug>,
    V: Persist + std::fmt::Debug,
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}

impl<'r, K: OrdKey<'r, Query: std::fmt::Debug>, V: Persist> std::fmt::Debug for Keys<'_, 'r, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

impl<'r, K: OrdKey<'r>, V: Persist + std::fmt::Debug> std::fmt::Debug for Values<'_, 'r, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}
