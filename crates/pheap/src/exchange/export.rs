//! `Export`: exports an object, with all objects that it points to, by serde.

use std::fmt;

use serde::ser::{Serialize, Serializer};

use super::{MAX_DEPTH, TooDeep};
use crate::api::view::View;
use crate::layout::Pointee;
use crate::ptr::P;

/// A type whose values can be exported. `#[persist(serde)]` with `#[derive(Persist)]` implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be exported",
    label = "not `Export`",
    note = "structs and enums of your own need `#[persist(serde)]` beside `#[derive(Persist)]`"
)]
pub trait Export<'r> {
    /// Serialises the value, with the objects that it points to. Pass its parts on as
    /// [`at.of(&self.part)`](Exporter::of).
    ///
    /// # Errors
    /// Those of the serialiser, and a custom one if the value is nested too deep.
    fn export<S: Serializer>(&self, at: Exporter<'_, 'r>, serializer: S) -> Result<S::Ok, S::Error>;
}

/// The state of an export: the view in which objects are read, and the depth of nesting.
#[derive(Clone, Copy)]
pub struct Exporter<'v, 'r> {
    view: &'v View<'r>,
    depth: usize,
    max_depth: usize,
}

impl<'v, 'r> Exporter<'v, 'r> {
    /// Returns the view in which objects are read.
    pub fn view(self) -> &'v View<'r> {
        self.view
    }

    /// Makes `value`, a part of the value that is being exported, serialisable.
    pub fn of<T: Export<'r> + ?Sized>(self, value: &'v T) -> Exported<'v, 'r, T> {
        Exported { value, at: self }
    }

    /// Returns the state for one level deeper: through a pointer, or into a collection.
    ///
    /// # Errors
    /// A custom error of the serialiser if the depth would exceed the [limit](Exported::max_depth).
    pub fn deeper<E: serde::ser::Error>(self) -> Result<Self, E> {
        if self.depth == self.max_depth {
            return Err(E::custom(TooDeep(self.max_depth)));
        }
        Ok(Exporter { depth: self.depth + 1, ..self })
    }

    /// Exports the elements as a sequence, one level deeper.
    pub(super) fn sequence<S: Serializer, T: Export<'r> + 'v>(
        self,
        serializer: S,
        elements: impl ExactSizeIterator<Item = &'v T>,
    ) -> Result<S::Ok, S::Error> {
        let at = self.deeper()?;
        serializer.collect_seq(elements.map(|element| at.of(element)))
    }
}

impl fmt::Debug for Exporter<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").field("depth", &self.depth).finish_non_exhaustive()
    }
}

/// A value that serde can serialise; made by [`View::export`] and [`Exporter::of`].
#[derive(Debug)]
pub struct Exported<'v, 'r, T: ?Sized> {
    value: &'v T,
    at: Exporter<'v, 'r>,
}

impl<T: ?Sized> Exported<'_, '_, T> {
    /// Allows `levels` levels of nested pointers and collections, instead of [`MAX_DEPTH`]. Each level takes
    /// space on the stack.
    #[must_use]
    pub fn max_depth(mut self, levels: usize) -> Self {
        self.at.max_depth = levels;
        self
    }
}

impl<'r, T: Export<'r> + ?Sized> Serialize for Exported<'_, 'r, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.export(self.at, serializer)
    }
}

impl<'r> View<'r> {
    /// Returns an object, with all objects that it points to, for a serialiser of serde. See
    /// [`exchange`](crate::exchange).
    ///
    /// Shared objects are exported once for each pointer to them. Nesting too deep, as by a cycle, is an
    /// error of the serialiser's type.
    ///
    /// ```
    /// # use pheap::{Heap, PVec, Root};
    /// # fn main() -> pheap::Result<()> {
    /// # let heap = Heap::in_memory()?;
    /// # let list: Root<PVec<u64>> = heap.root("list")?;
    /// # list.txn(|tx, list| list.extend(tx, [1, 2]))?;
    /// let text = list.read(|view, list| serde_json::to_string(&view.export(list)))?;
    /// assert_eq!(text.unwrap(), "[1,2]");
    /// # Ok(())
    /// # }
    /// ```
    pub fn export<T: Pointee + Export<'r> + ?Sized>(&self, p: P<'r, T>) -> Exported<'_, 'r, T> {
        Exported { value: &self[p], at: Exporter { view: self, depth: 0, max_depth: MAX_DEPTH } }
    }
}
