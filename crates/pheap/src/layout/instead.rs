//! Messages that say what to use instead of types that cannot live in a heap. Each such type has an impl of
//! `Persist` that never holds, because of a condition with that message. The compiler shows the innermost
//! condition that fails, and an attribute of `Persist` itself can have only one message for all types.

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant, SystemTime};

use super::Persist;
use super::desc::Desc;

/// Makes traits that no type implements, and impls that need them. (The lifetime keeps the compiler from
/// evaluating the condition before the impl is used. The type is an argument, because the compiler shows the
/// message of the outer type if the conditions of two nested types are on one type.)
macro_rules! instead {
    ($($condition:ident: $message:literal, $label:literal $(, $why:literal)? => { $([$($param:tt)*] $ty:ty;)* })*) => {$(
        #[diagnostic::on_unimplemented(message = $message, label = $label $(, note = $why)?)]
        pub trait $condition<'a, T: ?Sized> {}

        $(
            #[doc(hidden)]
            // SAFETY: the condition never holds, so this impl is never used.
            unsafe impl<'a, $($param)*> Persist for $ty
            where
                (): $condition<'a, $ty>,
            {
                type At<'r> = $ty;
                const PADDED: bool = false;
                const POINTERS: bool = false;

                fn desc() -> &'static Desc {
                    unreachable!("the condition never holds")
                }

                unsafe fn zero_padding(_: *mut Self) {}
            }
        )*
    )*};
}

instead! {
    UsePString: "`{T}` cannot live in a persistent heap: use `PString<'r>`", "use `PString<'r>`", "a `P<'r, str>` is a text that stays as it is; both are `&str` when they are read" => {
        [] String;
    }
    UsePVec: "`{T}` cannot live in a persistent heap: use `PVec<'r, T>`", "use `PVec<'r, T>`", "a `P<'r, [T]>` is a slice that stays as long as it is" => {
        [T] Vec<T>;
    }
    UsePVecDeque: "`{T}` cannot live in a persistent heap: use `PVecDeque<'r, T>`", "use `PVecDeque<'r, T>`" => {
        [T] VecDeque<T>;
    }
    UsePHashMap: "`{T}` cannot live in a persistent heap: use `PHashMap<'r, K, V>`", "use `PHashMap<'r, K, V>`" => {
        [K, V, S] HashMap<K, V, S>;
    }
    UsePHashSet: "`{T}` cannot live in a persistent heap: use `PHashSet<'r, K>`", "use `PHashSet<'r, K>`" => {
        [K, S] HashSet<K, S>;
    }
    UsePBTreeMap: "`{T}` cannot live in a persistent heap: use `PBTreeMap<'r, K, V>`", "use `PBTreeMap<'r, K, V>`" => {
        [K, V] BTreeMap<K, V>;
    }
    UsePBTreeSet: "`{T}` cannot live in a persistent heap: use `PBTreeSet<'r, K>`", "use `PBTreeSet<'r, K>`" => {
        [K] BTreeSet<K>;
    }
    UseP: "`{T}` cannot live in a persistent heap: use `P<'r, T>`", "use `P<'r, T>`", "`tx.alloc(value)?` makes one; an object that may be missing is an `Option<P<'r, T>>`" => {
        [T: ?Sized] Box<T>;
        [T: ?Sized] Rc<T>;
        [T: ?Sized] Arc<T>;
        ['x, T: ?Sized] &'x T;
        ['x, T: ?Sized] &'x mut T;
        [T: ?Sized] *const T;
        [T: ?Sized] *mut T;
    }
    UseOptionP: "`{T}` cannot live in a persistent heap: use `Option<P<'r, T>>`", "use `Option<P<'r, T>>`" => {
        [T: ?Sized] Option<Box<T>>;
        [T: ?Sized] Option<Rc<T>>;
        [T: ?Sized] Option<Arc<T>>;
        ['x, T: ?Sized] Option<&'x T>;
    }
    UseFixedWidth: "`{T}` cannot live in a persistent heap: use `u64` or `i64`, whose size does not depend on the machine", "use `u64` or `i64`, whose size does not depend on the machine" => {
        [] usize;
        [] isize;
    }
    UsePOption: "`{T}` cannot live in a persistent heap: use `POption<T>`", "use `POption<T>`", "Rust does not define how an `Option` of this type is laid out, and a file outlives the compiler; `.into()` converts, and `get()` gives the `Option`" => {
        [] Option<u8>;
        [] Option<u16>;
        [] Option<u32>;
        [] Option<u64>;
        [] Option<u128>;
        [] Option<i8>;
        [] Option<i16>;
        [] Option<i32>;
        [] Option<i64>;
        [] Option<i128>;
        [] Option<f32>;
        [] Option<f64>;
        [] Option<bool>;
        [] Option<char>;
        [] Option<()>;
        [T, const N: usize] Option<[T; N]>;
    }
    UsePOptionOfCounterpart: "`{T}` cannot live in a persistent heap: use a `POption` of the type that replaces its content: `POption<PString<'r>>`, `POption<PDuration>` and so on", "use a `POption` of the type that replaces its content: `POption<PString<'r>>`, `POption<PDuration>` and so on" => {
        [] Option<usize>;
        [] Option<isize>;
        [] Option<String>;
        [T] Option<Vec<T>>;
        [] Option<Duration>;
        [] Option<SystemTime>;
        [A, B] Option<(A, B)>;
        [A, B, C] Option<(A, B, C)>;
    }
    UsePTuple: "`{T}` cannot live in a persistent heap: use `PTuple2<A, B>`, `PTuple3<A, B, C>` and so on", "use `PTuple2<A, B>`, `PTuple3<A, B, C>` and so on", "Rust does not define how a tuple is laid out, and a file outlives the compiler; `.into()` converts, and the fields are `.0`, `.1` and so on" => {
        [A, B] (A, B);
        [A, B, C] (A, B, C);
        [A, B, C, D] (A, B, C, D);
        [A, B, C, D, E] (A, B, C, D, E);
        [A, B, C, D, E, F] (A, B, C, D, E, F);
        [A, B, C, D, E, F, G] (A, B, C, D, E, F, G);
        [A, B, C, D, E, F, G, H] (A, B, C, D, E, F, G, H);
    }
    UsePDuration: "`{T}` cannot live in a persistent heap: use `PDuration`", "use `PDuration`", "Rust does not define how a `Duration` is laid out, and a file outlives the compiler; `.into()` converts, and `get()` gives the `Duration`" => {
        [] Duration;
    }
    UsePSystemTime: "`{T}` cannot live in a persistent heap: use `PSystemTime`", "use `PSystemTime`", "Rust does not define how a `SystemTime` is laid out, and a file outlives the compiler; `.into()` converts, and `get()` gives the `SystemTime`" => {
        [] SystemTime;
    }
    UseTimeOfDay: "`{T}` cannot live in a persistent heap: use `PSystemTime`: an `Instant` has a meaning only within one process", "use `PSystemTime`: an `Instant` has a meaning only within one process" => {
        [] Instant;
    }
    UseTypeWithin: "`{T}` cannot live in a persistent heap: use the inner type: only a transaction changes it, without other threads", "use the inner type: only a transaction changes it, without other threads" => {
        [T] Cell<T>;
        [T] RefCell<T>;
        [T] UnsafeCell<T>;
        [T] Mutex<T>;
        [T] RwLock<T>;
    }
    UsePBytes: "`{T}` cannot live in a persistent heap: use `PBytes<'r>`, with the bytes of `as_encoded_bytes`", "use `PBytes<'r>`, with the bytes of `as_encoded_bytes`" => {
        [] PathBuf;
        [] OsString;
    }
}
