//! What a store under `#[txn]` expands to: the address of a place within an object, for which no code of the user's runs.

use crate::layout::Pointee;
use crate::ptr::{P, value_of};

/// A pointer, and where the object is. Both are had of one call, so that a key of another type is one error.
#[inline(always)]
pub fn object<'r, T: Pointee + ?Sized>(key: P<'r, T>) -> (P<'r, T>, *mut T) {
    (key, value_of(key))
}

/// Arrays and slices of `T`, behind raw pointers. Nobody else may say what their elements are: neither of a type of theirs, nor with a `T` of theirs. (A parameter, for of an
/// associated type the compiler would complain once more.)
#[diagnostic::on_unimplemented(
    message = "`[..]` of a `{Self}` is a call of its `IndexMut`, which `#[txn]` cannot see through: use `let part = &mut tx[p].part; part[i] = value;`",
    label = "not an array, nor a slice"
)]
pub trait Elements<T>: sealed::Sealed<T> {
    /// Number of elements.
    fn bound(this: *const Self) -> usize;
}

mod sealed {
    pub trait Sealed<T> {}
    impl<T, const N: usize> Sealed<T> for [T; N] {}
    impl<T> Sealed<T> for [T] {}
}

impl<T, const N: usize> Elements<T> for [T; N] {
    #[inline(always)]
    fn bound(_: *const Self) -> usize {
        N
    }
}

impl<T> Elements<T> for [T] {
    #[inline(always)]
    fn bound(this: *const Self) -> usize {
        this.len()
    }
}

/// This is an index.
#[inline(always)]
pub const fn index(index: usize) -> usize {
    index
}

/// The address of an element.
///
/// # Panics
/// If there are no more than `index` of them.
#[inline(always)]
#[track_caller]
pub fn element<T, A: Elements<T> + ?Sized>(array: *mut A, index: usize) -> *mut T {
    let len = A::bound(array);
    if index >= len {
        out_of_bounds(index, len);
    }
    array.cast::<T>().wrapping_add(index)
}

/// By itself: where the check is, nothing is put into memory for the message.
#[cold]
#[inline(never)]
#[track_caller]
fn out_of_bounds(index: usize, len: usize) -> ! {
    panic!("index out of bounds: the len is {len} but the index is {index}")
}

/// The address of an element, if there is one.
#[inline(always)]
pub fn element_checked<T, A: Elements<T> + ?Sized>(array: *mut A, index: usize) -> Option<*mut T> {
    if index < A::bound(array) { Some(array.cast::<T>().wrapping_add(index)) } else { None }
}

/// Logs the places of neighbouring stores at once, if each would be logged on its own otherwise.
#[doc(hidden)]
#[macro_export]
macro_rules! __place_group {
    (($tx:expr) { $($places:expr;)* } { $($last:tt)* }) => {
        if $crate::Txn::__logs_in_place($tx) {
            $crate::__private::seldom();
            // Not `||`: each one is to be noted.
            if $($places)|* {
                $($last)*;
                $crate::Txn::__ahead_done($tx);
            }
        }
    };
}

/// The place that steps lead to. With `?` behind an index, the block whose label is said with the indices ends with `false` if there is no such element. `.await` looks like a field, and would run code of the user's.
#[doc(hidden)]
#[macro_export]
macro_rules! __place_in {
    ($indices:tt $place:tt) => { $place };
    ($indices:tt $place:tt . await $($steps:tt)*) => {
        $crate::__private::core::compile_error!("`.await` is not a field")
    };
    ($indices:tt $place:tt [await $($mark:tt)?] $($steps:tt)*) => {
        $crate::__private::core::compile_error!("`await` is not the number of an index")
    };
    ($indices:tt $place:tt . $field:tt $($steps:tt)*) => { $crate::__place_in!($indices ($place.$field) $($steps)*) };
    ($indices:ident $place:tt [$index:tt] $($steps:tt)*) => {
        $crate::__place_in!($indices (*$crate::__private::element(&raw mut $place, $indices.$index)) $($steps)*)
    };
    (($indices:ident $missing:lifetime) $place:tt [$index:tt ?] $($steps:tt)*) => {
        $crate::__place_in!(
            ($indices $missing)
            (*match $crate::__private::element_checked(&raw mut $place, $indices.$index) {
                $crate::__private::core::option::Option::Some(element) => element,
                _ => break $missing false,
            })
            $($steps)*
        )
    };
}
