//! What the macros expand to.
//!
//! All code that is `unsafe` is in `macro_rules!` of this crate, which name everything by `$crate`, and never in what the procedural macros write: these
//! name pheap by a path of the user's choice, at which anything may be. So each of these `macro_rules!` is to be safe whatever it is given; what the
//! procedural macros have looked at is checked here once more, by the compiler, on the type as it is in the end.
//!
//! An expression of the user's is the body of a closure or constant of its own, outside of each `unsafe`
//! block. The macro that has an `unsafe` block also writes the pointer in it: a program can call each of
//! these macros.

mod field;
mod persist;
mod shape;

use std::ops::Deref;

/// By this path, since `::core` may be something else in a user's crate (`extern crate self as core`).
#[doc(hidden)]
pub use ::core;

#[cfg(feature = "serde")]
pub use crate::exchange::derived as serde;
pub use crate::layout::desc::{Desc, DescFn, Field, History, Kind, Name, Prim, Variant, part_name};
pub use crate::ptr::part::{
    Elements, Part, Select, element, element_if_any, field as part_field, object, place as part_place,
};

/// What `#[persist(serde)]` adds to a type.
#[cfg(feature = "serde")]
#[doc(hidden)]
#[macro_export]
macro_rules! __with_serde {
    ($($impls:tt)*) => { $($impls)* };
}

/// Says why it cannot be added.
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

/// Implemented by everything that implements `Deref`, so that the impl that the derive emits collides with it: a path of fields
/// through a `DerefMut` of the user's would run code that could store without a log entry.
pub trait NotDeref {
    /// Whether the derive has implemented this, not the impl for all types that are `Deref`.
    const DERIVED: bool = false;
}
impl<T: Deref + ?Sized> NotDeref for T {}
