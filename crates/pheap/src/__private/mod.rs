//! The items that the macros expand to.
//!
//! All `unsafe` code of expansions is in `macro_rules!` of this crate, which name items by `$crate`, and none
//! in the output of the procedural macros: these name pheap by a path that the user chooses, at which there
//! may be any crate. So each of these `macro_rules!` must be safe whatever its input is. The compiler checks
//! again here, on the final type, the facts that the procedural macros have read from its tokens.
//!
//! An expression of the user becomes the body of a separate closure or constant, outside each `unsafe` block.
//! The macro that has an `unsafe` block also writes the pointer in it, because a program can call each of
//! these macros.

mod field;
mod persist;
mod shape;

use std::ops::Deref;

/// The crate `core`. Macros use this path, because `::core` may be another crate in a user's crate
/// (`extern crate self as core`).
#[doc(hidden)]
pub use ::core;

pub use crate::api::slices::object_in;
#[cfg(feature = "serde")]
pub use crate::exchange::derived as serde;
pub use crate::layout::desc::{Desc, DescFn, Field, History, Kind, Name, Prim, Variant, part_name};
pub use crate::ptr::part::{
    Elements, Part, Select, element, element_if_any, field as part_field, object, place as part_place,
};

/// Emits the code that `#[persist(serde)]` adds to a type.
#[cfg(feature = "serde")]
#[doc(hidden)]
#[macro_export]
macro_rules! __with_serde {
    ($($impls:tt)*) => { $($impls)* };
}

/// Reports that the feature `serde` of pheap is missing.
#[cfg(not(feature = "serde"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __with_serde {
    ($($impls:tt)*) => {
        ::core::compile_error!("`#[persist(serde)]` needs the feature `serde` of pheap: pheap = { version = \"..\", features = [\"serde\"] }");
    };
}

pub use crate::__persist_enum as persist_enum;
pub use crate::__persist_key as persist_key;
pub use crate::__persist_nothing as persist_nothing;
pub use crate::__persist_struct as persist_struct;
pub use crate::__place as place;
pub use crate::__place_ahead as place_ahead;
pub use crate::__with_serde as with_serde;
pub use field::{FieldOf, NotAField};
pub use persist::{assert_whole_tag, slot_at, zero};
pub use shape::{
    AsDerived, Inside, Slot, Tag, assert_c, assert_counted, assert_tag, assert_transparent, c_slots, found,
    gaps, unlike,
};

/// Every type that implements `Deref` implements this trait. So the derive, which emits an impl of it, does
/// not compile for a `Deref` type: a path of fields through a user's `DerefMut` would run code that could
/// store without a log entry.
pub trait NotDeref {
    /// Whether the derive has implemented this trait for the type; `false` in the impl for all types that are
    /// `Deref`.
    const DERIVED: bool = false;
}
impl<T: Deref + ?Sized> NotDeref for T {}
