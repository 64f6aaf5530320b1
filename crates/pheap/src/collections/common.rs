//! Macros that the collections share: their sizes, reading them by their pointers, their iterators, the
//! entries of maps, and sets made of maps.

/// Makes handles `Copy`, whatever their type parameters are.
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

/// `new`, `default`, `len` and `is_empty` of a collection.
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

/// Methods that read a collection by its pointer.
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
            #[allow(clippy::len_without_is_empty)] // it exists; clippy does not see through the `impl` blocks
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

/// A bound that no type satisfies. It belongs to methods that exist only for the compiler's message.
#[diagnostic::on_unimplemented(
    message = "a collection is changed through a pointer to it, which `field!` makes: use `field!(shop.prices).insert(tx, ..)` for `tx[shop].prices.insert(..)`",
    label = "this is the collection itself",
    note = "a collection within a collection cannot be changed in place: let the outer one have a `P` to it, as in `PHashMap<'r, K, P<'r, PVec<'r, T>>>`, and use \
            `let list = *map.get(tx, key).unwrap(); list.push(tx, value)`"
)]
pub trait ChangedInPlace {}

/// Methods that a collection does not have, because it is changed through its pointer. The compiler's message
/// for a call says so.
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

/// Iterators that show a part of each item of an iterator within this crate. An `exact` one knows its length,
/// and one with `both_ends` is double-ended.
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

/// An iterator over entries, and the number of entries that are left.
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

/// The methods of the entry of a key, occupied or vacant.
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

            /// Returns the value, to write. If there is none, inserts `value`.
            ///
            /// # Errors
            /// As for [`insert`](P::insert).
            #[inline]
            pub fn or_insert(self, value: V) -> Result<&'t mut V> {
                self.or_insert_with(|_| Ok(value))
            }

            /// Returns the value, to write. If there is none, inserts the result of `make`, which gets the
            /// transaction to allocate objects.
            ///
            /// # Errors
            /// The error of `make`, and as for [`insert`](P::insert).
            #[inline]
            pub fn or_insert_with(self, make: impl FnOnce(&Txn<'r>) -> Result<V>) -> Result<&'t mut V> {
                self.or_insert_with_key(|tx, _| make(tx))
            }

            /// Returns the value, to write. If there is none, inserts the result of `make`, which gets the
            /// key.
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

            /// Returns the value, to write. If there is none, inserts the default value.
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

            /// Calls `change` with the value, if there is one.
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

/// A set: a map without values.
macro_rules! set_of {
    (
        $set:ident, $map:ident of $key:ident, $buffers:literal, $order:literal, $iter:ident
        $(; $($by_pointer:tt)*)?
    ) => {
        sized!($set<K> of "elements", $buffers, $set { map: $map::new() }, |set| set.map.len());

        /// Reading. The program gets elements in their [borrowed form](crate::collections::MapKey): a `&str`
        /// for a `PString`.
        impl<'r, K: $key<'r>> $set<'r, K> {
            #[doc = concat!("Whether there is such an element. ", $order)]
            #[inline]
            pub fn contains(&self, view: &View<'r>, element: impl KeyArg<'r, K>) -> bool {
                self.map.contains_key(view, element)
            }
        }

        by_pointer! {
            /// Reading a set by its pointer: short for `view[set].contains(view, …)`.
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
            #[allow(unsafe_code)] // of `field!`
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

            /// Removes all elements, and frees all memory. O(n).
            pub fn clear(self, tx: &mut Txn<'r>) {
                self.map().clear(tx);
            }
        }
    };
}

pub(super) use {by_pointer, copied, entries, iterators, not_in_place, set_of, sized};
