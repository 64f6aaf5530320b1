//! `POption`.

use pheap_macros::Persist;

use crate::layout::Plain;

/// An `Option` that can live in a heap, for any type that can.
///
/// Rust defines the layout of an `Option` only for pointers and `NonZero`: `Option<P<T>>` and
/// `Option<NonZero<u32>>` can be stored directly. For all other types there is `POption`, which is one byte,
/// padding up to the alignment of the value, and the value. It converts from and to an `Option` by
/// [`into`](Into::into), and can be matched like one.
///
/// ```
/// # use pheap::{Heap, POption, Persist, Root};
/// #[derive(Persist, Default)]
/// #[repr(C)]
/// struct Person {
///     born: u32,
///     died: POption<u32>,
/// }
///
/// # fn main() -> pheap::Result<()> {
/// # let heap = Heap::in_memory()?;
/// let ada: Root<Person> = heap.root("ada")?;
/// ada.txn(|tx, ada| {
///     tx[ada].born = 1815;
///     tx[ada].died = Some(1852).into();
///     Ok(())
/// })?;
/// let age = ada.read(|view, ada| view[ada].died.get().map(|died| died - view[ada].born))?;
/// assert_eq!(age, Some(37));
/// # Ok(())
/// # }
/// ```
#[derive(Persist, Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[persist(own, id = "pheap::POption", crate = "crate")]
pub enum POption<T> {
    /// The option has no value.
    #[default]
    None,
    /// The option has this value.
    Some(T),
}

impl<T: Plain> Plain for POption<T> {}

impl<T> POption<T> {
    /// Returns a copy of the option as an `Option`, if the value can be copied. (Otherwise use
    /// [`as_ref`](Self::as_ref), [`take`](Self::take), or [`into`](Into::into).)
    #[inline]
    pub fn get(&self) -> Option<T>
    where
        T: Copy,
    {
        self.as_ref().copied()
    }

    /// Sets the option from an `Option`, or from a value.
    #[inline]
    pub fn set(&mut self, value: impl Into<Option<T>>) {
        *self = value.into().into();
    }

    /// Returns a reference to the value, if there is one.
    #[inline]
    pub fn as_ref(&self) -> Option<&T> {
        match self {
            POption::None => None,
            POption::Some(value) => Some(value),
        }
    }

    /// Returns a mutable reference to the value, if there is one.
    #[inline]
    pub fn as_mut(&mut self) -> Option<&mut T> {
        match self {
            POption::None => None,
            POption::Some(value) => Some(value),
        }
    }

    /// Moves the value out, if there is one, and leaves `None`.
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        std::mem::take(self).into()
    }

    /// Whether there is a value.
    #[inline]
    pub fn is_some(&self) -> bool {
        matches!(self, POption::Some(_))
    }

    /// Whether there is no value.
    #[inline]
    pub fn is_none(&self) -> bool {
        !self.is_some()
    }
}

impl<T> From<Option<T>> for POption<T> {
    #[inline]
    fn from(value: Option<T>) -> Self {
        value.map_or(POption::None, POption::Some)
    }
}

impl<T> From<POption<T>> for Option<T> {
    #[inline]
    fn from(value: POption<T>) -> Self {
        match value {
            POption::None => None,
            POption::Some(value) => Some(value),
        }
    }
}

impl<T: PartialEq> PartialEq<Option<T>> for POption<T> {
    #[inline]
    fn eq(&self, other: &Option<T>) -> bool {
        self.as_ref() == other.as_ref()
    }
}
