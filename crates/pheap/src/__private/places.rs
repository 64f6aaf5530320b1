//! What a store under `#[txn]` expands to.

/// A place that a transaction has made crash-safe, as a `&mut`: `place!((tx) (key) [i, j] .field [0] .0 [1])`, where `[0]` stands for the first index.
///
/// The key and the indices are evaluated in the order in which Rust would, but before the transaction is borrowed, and outside of the `unsafe` block.
#[doc(hidden)]
#[macro_export]
macro_rules! __place {
    (($tx:expr) ($key:expr) [$($index:expr,)*] $($steps:tt)*) => {{
        let key: $crate::P<'_, _> = $key;
        let indices: [$crate::__private::core::primitive::usize; _] = [$($index),*];
        let tx: &mut $crate::Txn<'_> = $tx;
        let object = $crate::Txn::__object(tx, key);
        // SAFETY: the place is made of fields and `element` only, and no type in a heap is `Deref`: an address within the object, and no code of the
        // user's. The key has the brand of the transaction.
        unsafe { $crate::Txn::__place(tx, object, &raw mut $crate::__place_in!(indices (*object) $($steps)*)) }
    }};
}

/// Notes such a place for the log. An index out of bounds must panic where it stands, after the stores in front of it: here it notes nothing.
#[doc(hidden)]
#[macro_export]
macro_rules! __place_ahead {
    (($tx:expr) ($key:expr) [$($index:expr,)*] $($steps:tt)*) => {{
        let key: $crate::P<'_, _> = $key;
        let indices: [$crate::__private::core::primitive::usize; _] = [$($index),*];
        let tx: &mut $crate::Txn<'_> = $tx;
        let object = $crate::Txn::__object(tx, key);
        // SAFETY: the place is made of fields and `element_checked` only, and no type in a heap is `Deref`: an address within the object, and no
        // code of the user's. The key has the brand of the transaction.
        unsafe { $crate::Txn::__ahead(tx, $crate::__place_checked!([$($index)*] indices (*object) $($steps)*)) }
    }};
}

/// Logs the places of neighbouring stores at once, if each would be logged on its own otherwise.
#[doc(hidden)]
#[macro_export]
macro_rules! __place_group {
    (($tx:expr) { $($places:tt)* } { $($last:tt)* }) => {
        if $crate::Txn::__logs_in_place($tx) {
            $($places)*
            if $crate::Txn::__is_ahead($tx) {
                $($last)*;
                $crate::Txn::__ahead_done($tx);
            }
        }
    };
}

/// The place that steps lead to. `.await` looks like a field, and would run code of the user's.
#[doc(hidden)]
#[macro_export]
macro_rules! __place_in {
    ($indices:ident $place:tt) => { $place };
    ($indices:ident $place:tt . await $($steps:tt)*) => {
        $crate::__private::core::compile_error!("`.await` is not a field")
    };
    ($indices:ident $place:tt . $field:tt $($steps:tt)*) => { $crate::__place_in!($indices ($place.$field) $($steps)*) };
    ($indices:ident $place:tt [$index:literal] $($steps:tt)*) => {
        $crate::__place_in!($indices (*$crate::__private::element(&raw mut $place, $indices[$index])) $($steps)*)
    };
    ($indices:ident $place:tt [$index:literal ?] $($steps:tt)*) => {
        $crate::__place_in!($indices (*$crate::__private::element_checked(&raw mut $place, $indices[$index])?) $($steps)*)
    };
}

/// The address of a place, if all indices are in bounds.
#[doc(hidden)]
#[macro_export]
macro_rules! __place_checked {
    ([] $($steps:tt)*) => {
        $crate::__private::core::option::Option::Some(&raw mut $crate::__place_in!($($steps)*))
    };
    // A closure for `?` only.
    ([$($index:tt)+] $($steps:tt)*) => { (|| $crate::__place_checked!([] $($steps)*))() };
}
