//! Macros that the collections share: for their sizes, for reading through a `P` to a collection, for
//! iterators, for the entries of maps, and for sets made of maps.

/// Implements `Clone` and `Copy` for a type, whatever its type parameters are. (`derive` would require these
/// to be `Copy`, too.)
macro_rules! copied {
    ($([$($param:tt)*] $handle:ty;)*) => {$(
        impl<$($param)*> Clone for $handle {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<$($param)*> Copy for $handle {}
    )*};
}

/// Implements `new`, `default`, `len` and `is_empty` for a collection. `$what` and `$buffers` are nouns for
/// their documentation: the elements, and the memory that an empty collection does without.
macro_rules! sized {
    (
        $name:ident<$($arg:ident),*> of $what:literal, $buffers:literal, $empty:expr,
        |$this:ident| $len:expr
    ) => {
        impl<$($arg),*> Default for $name<'_, $($arg),*> {
            fn default() -> Self {
                $name::new()
            }
        }

        impl<$($arg),*> $name<'_, $($arg),*> {
            #[doc = concat!("Without ", $what, ", and without ", $buffers, ".")]
            pub const fn new() -> Self {
                $empty
            }

            #[doc = concat!("Number of ", $what, ".")]
            #[inline(always)]
            pub fn len(&self) -> usize {
                let $this = self;
                $len
            }

            #[doc = concat!("Whether there are no ", $what, ".")]
            #[inline(always)]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }
    };
}

/// Implements methods of a `P` to a collection that read the collection: each calls the collection's method
/// of the same name.
macro_rules! by_pointer {
    (
        $(#[$doc:meta])*
        [$($param:tt)*] $name:ident<$($arg:ident),*>:
        $($(#[$attr:meta])* fn $method:ident($($input:ident: $type:ty),*) -> $out:ty;)*
    ) => {
        $(#[$doc])*
        impl<'r, $($param)*> P<'r, $name<'r, $($arg),*>> {
            #[doc = concat!("[`", stringify!($name), "::len`].")]
            #[inline]
            #[allow(clippy::len_without_is_empty)] // `is_empty` follows; clippy does not find it here
            pub fn len(self, view: &View<'r>) -> usize {
                view[self].len()
            }

            #[doc = concat!("[`", stringify!($name), "::is_empty`].")]
            #[inline]
            pub fn is_empty(self, view: &View<'r>) -> bool {
                view[self].is_empty()
            }

            $(
                #[doc = concat!("[`", stringify!($name), "::", stringify!($method), "`].")]
                $(#[$attr])*
                #[inline]
                pub fn $method<'v>(self, view: &'v View<'r>, $($input: $type),*) -> $out {
                    view[self].$method(view, $($input),*)
                }
            )*
        }
    };
}

/// A bound that no type satisfies. Methods with this bound cannot be called: they exist so that the
/// compiler's message for a call explains how to change a collection.
#[diagnostic::on_unimplemented(
    message = "a collection is changed through a pointer to it, which `field!` makes: use `field!(shop.prices).insert(tx, ..)` for `tx[shop].prices.insert(..)`",
    label = "this is the collection itself",
    note = "a collection within a collection cannot be changed in place: let the outer one have a `P` to it, as in `PHashMap<'r, K, P<'r, PVec<'r, T>>>`, and use \
            `let list = *map.get(tx, key).unwrap(); list.push(tx, value)`"
)]
pub trait ChangedInPlace {}

/// Declares methods that cannot be called, with the names of those that change a collection. A collection is
/// changed through a `P` to it; the compiler's message for a call of such a method on the collection itself
/// says so.
macro_rules! not_in_place {
    ([$($param:tt)*] $ty:ty: $($method:ident($($arg:ident),*) -> $out:ty;)*) => {
        #[doc(hidden)]
        impl<'r, $($param)*> $ty {
            $(
                #[doc(hidden)]
                #[allow(non_camel_case_types)]
                pub fn $method<$($arg),*>(&self, $(_: $arg),*) -> $out
                where
                    Self: crate::collections::common::ChangedInPlace,
                {
                    unreachable!("nothing implements the bound")
                }
            )*
        }
    };
}

/// Defines public iterators. Each wraps another iterator, and returns a part of each of its items. `exact`
/// adds `ExactSizeIterator`, and `both_ends` adds `DoubleEndedIterator`.
macro_rules! iterators {
    (@also $params:tt $name:tt $args:tt $item:ty, |$entry:pat_param| $part:expr;) => {};
    (
        @also [$($param:tt)*] $name:ident [$($arg:ident),*] $item:ty, |$entry:pat_param| $part:expr;
        exact $($also:ident)*
    ) => {
        impl<'v, 'r, $($param)*> ExactSizeIterator for $name<'v, 'r, $($arg),*> {}

        iterators!(@also [$($param)*] $name [$($arg),*] $item, |$entry| $part; $($also)*);
    };
    (
        @also [$($param:tt)*] $name:ident [$($arg:ident),*] $item:ty, |$entry:pat_param| $part:expr;
        both_ends
    ) => {
        impl<'v, 'r, $($param)*> DoubleEndedIterator for $name<'v, 'r, $($arg),*> {
            #[inline]
            fn next_back(&mut self) -> Option<$item> {
                self.0.next_back().map(|$entry| $part)
            }
        }
    };
    ($(
        $(#[$doc:meta])*
        [$($param:tt)*] $name:ident<$($arg:ident),*>($source:ty) => $item:ty, |$entry:pat_param| $part:expr;
        $debug:ident of [$($shown:ty),*] $($also:ident)*;
    )*) => {$(
        $(#[$doc])*
        pub struct $name<'v, 'r, $($arg),*>(pub(super) $source);

        impl<'v, 'r, $($param)*> Iterator for $name<'v, 'r, $($arg),*> {
            type Item = $item;

            #[inline]
            fn next(&mut self) -> Option<$item> {
                self.0.next().map(|$entry| $part)
            }

            #[inline]
            fn size_hint(&self) -> (usize, Option<usize>) {
                self.0.size_hint()
            }

            #[inline]
            fn nth(&mut self, n: usize) -> Option<$item> {
                self.0.nth(n).map(|$entry| $part)
            }

            #[inline]
            fn count(self) -> usize {
                self.0.count()
            }

            #[inline]
            fn fold<B, F: FnMut(B, $item) -> B>(self, init: B, mut f: F) -> B {
                self.0.fold(init, |all, $entry| f(all, $part))
            }
        }

        impl<'v, 'r, $($param)*> std::iter::FusedIterator for $name<'v, 'r, $($arg),*> {}

        iterators!(@also [$($param)*] $name [$($arg),*] $item, |$entry| $part; $($also)*);

        impl<$($arg),*> Clone for $name<'_, '_, $($arg),*> {
            fn clone(&self) -> Self {
                $name(self.0.clone())
            }
        }

        impl<'v, 'r, $($param)*> std::fmt::Debug for $name<'v, 'r, $($arg),*>
        where
            $($shown: std::fmt::Debug),*
        {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.$debug().entries(self.clone()).finish()
            }
        }
    )*};
}

/// An iterator over the entries of a map, with the number of entries that are left as its size hint.
#[derive(Clone)]
pub(super) struct CountedEntries<I> {
    entries: I,
    left: usize,
}

impl<I> CountedEntries<I> {
    pub(super) fn new(entries: I, left: usize) -> Self {
        CountedEntries { entries, left }
    }
}

impl<I: Iterator> Iterator for CountedEntries<I> {
    type Item = I::Item;

    #[inline(always)]
    fn next(&mut self) -> Option<I::Item> {
        let entry = self.entries.next()?;
        self.left = self.left.saturating_sub(1);
        Some(entry)
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }

    #[inline]
    fn count(self) -> usize {
        self.left
    }
}

impl<I: DoubleEndedIterator> DoubleEndedIterator for CountedEntries<I> {
    #[inline(always)]
    fn next_back(&mut self) -> Option<I::Item> {
        let entry = self.entries.next_back()?;
        self.left = self.left.saturating_sub(1);
        Some(entry)
    }
}

/// Implements the methods of `Entry`, the entry of a key in a map, for a kind of map. An `Entry` is occupied
/// or vacant.
macro_rules! entries {
    ($key:ident) => {
        impl<'t, 'q, 'r, K: $key<'r>, V: Persist<At<'r> = V>> Entry<'t, 'q, 'r, K, V> {
            /// Returns the key in its borrowed form.
            pub fn key(&self) -> &K::Query {
                match self {
                    Entry::Occupied(entry) => entry.key(),
                    Entry::Vacant(entry) => entry.key(),
                }
            }

            /// Returns the value of the key, to write. If the entry is vacant, inserts `value` first.
            ///
            /// # Errors
            /// As for [`insert`](P::insert).
            #[inline]
            pub fn or_insert(self, value: V) -> Result<&'t mut V> {
                self.or_insert_with(|_| Ok(value))
            }

            /// Returns the value of the key, to write. If the entry is vacant, inserts the result of `make`
            /// first. `make` gets the transaction, with which it can allocate objects.
            ///
            /// # Errors
            /// The error of `make`, and as for [`insert`](P::insert).
            #[inline]
            pub fn or_insert_with(self, make: impl FnOnce(&Txn<'r>) -> Result<V>) -> Result<&'t mut V> {
                self.or_insert_with_key(|tx, _| make(tx))
            }

            /// Returns the value of the key, to write. If the entry is vacant, inserts the result of `make`
            /// first. `make` gets the transaction, and the key in its borrowed form.
            ///
            /// # Errors
            /// As for [`or_insert_with`](Self::or_insert_with).
            #[inline]
            pub fn or_insert_with_key(
                self,
                make: impl FnOnce(&Txn<'r>, &K::Query) -> Result<V>,
            ) -> Result<&'t mut V> {
                match self {
                    Entry::Occupied(entry) => Ok(entry.into_mut()),
                    Entry::Vacant(entry) => {
                        let value = make(entry.tx, entry.key())?;
                        entry.insert(value)
                    }
                }
            }

            /// Returns the value of the key, to write. If the entry is vacant, inserts the default value
            /// first.
            ///
            /// # Errors
            /// As for [`insert`](P::insert).
            #[inline]
            pub fn or_default(self) -> Result<&'t mut V>
            where
                V: Default,
            {
                self.or_insert_with(|_| Ok(V::default()))
            }

            /// Calls `change` with the value, if the entry is occupied. Returns the entry.
            #[inline]
            pub fn and_modify(mut self, change: impl FnOnce(&mut V)) -> Self {
                if let Entry::Occupied(entry) = &mut self {
                    change(entry.get_mut());
                }
                self
            }
        }
    };
}

/// Implements a set as a map whose values are `()`: its size, the methods that read it, and those that change
/// it.
macro_rules! set_of {
    (
        $set:ident, $map:ident of $key:ident, $buffers:literal, $order:literal, $iter:ident
        $(; $($by_pointer:tt)*)?
    ) => {
        sized!($set<K> of "elements", $buffers, $set { map: $map::new() }, |set| set.map.len());

        /// Reading a set. The program gets elements in their [borrowed form](crate::collections::MapKey): a
        /// `&str` for a `PString`.
        impl<'r, K: $key<'r>> $set<'r, K> {
            #[doc = concat!("Whether there is such an element. ", $order)]
            #[inline]
            pub fn contains(&self, view: &View<'r>, element: impl KeyArg<'r, K>) -> bool {
                self.map.contains_key(view, element)
            }
        }

        by_pointer! {
            /// Reading a set through a `P` to it: short for `view[set].contains(view, …)` and so on.
            [K: $key<'r>] $set<K>:
            fn contains(element: impl KeyArg<'r, K>) -> bool;
            fn iter() -> $iter<'v, 'r, K>;
            $($($by_pointer)*)?
        }

        not_in_place! {
            [K] $set<'r, K>:
            insert(tx, element) -> Result<bool>;
            remove(tx, element) -> bool;
            extend(tx, elements) -> Result<()>;
            retain(tx, keep) -> ();
            clear(tx) -> ();
        }

        #[doc = concat!("<a id=\"change-", stringify!($set), "\"></a>Changing a set.")]
        impl<'r, K: $key<'r>> P<'r, $set<'r, K>> {
            #[inline(always)]
            #[allow(unsafe_code)] // `field!` expands to unsafe code
            fn map(self) -> P<'r, $map<'r, K, ()>> {
                crate::field!(self.map)
            }

            #[doc = concat!("Inserts an element. Returns whether it was not there. ", $order)]
            ///
            /// # Errors
            #[doc = concat!("If memory cannot be allocated, as for a [`", stringify!($map), "`].")]
            #[inline]
            pub fn insert(self, tx: &mut Txn<'r>, element: impl KeyArg<'r, K>) -> Result<bool> {
                self.map().insert_key(tx, element)
            }

            #[doc = concat!("Removes an element. Returns whether it was there. ", $order)]
            #[inline]
            pub fn remove(self, tx: &mut Txn<'r>, element: impl KeyArg<'r, K>) -> bool {
                self.map().remove(tx, element).is_some()
            }

            /// Removes the elements for which `keep` is false. O(n).
            pub fn retain(self, tx: &mut Txn<'r>, mut keep: impl FnMut(&K::Query) -> bool) {
                self.map().retain(tx, |element, ()| keep(element));
            }

            /// Removes all elements. The memory of the set, and of keys that own memory, is freed when the
            /// transaction commits. O(n).
            pub fn clear(self, tx: &mut Txn<'r>) {
                self.map().clear(tx);
            }
        }
    };
}

pub(super) use {by_pointer, copied, entries, iterators, not_in_place, set_of, sized};
