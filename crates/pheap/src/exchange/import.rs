//! `Import`: imports an object, with all objects that it points to, by serde.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, DeserializeSeed, Deserializer};

use super::path::{PathStep, ValuePath};
use super::{MAX_DEPTH, TooDeep};
use crate::api::tx::Txn;
use crate::error::Error;
use crate::layout::Persist;

/// A type whose values can be imported. `#[persist(serde)]` with `#[derive(Persist)]` implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be imported",
    label = "not `Import`",
    note = "structs and enums of your own need `#[persist(serde)]` beside `#[derive(Persist)]`"
)]
pub trait Import<'r>: Persist<At<'r> = Self> {
    /// Makes a value from a deserialiser. Allocate the objects that it points to in
    /// [`into.tx()`](Importer::tx); read its parts by [`into.seed()`](Importer::seed).
    ///
    /// # Errors
    /// Those of the deserialiser. [`into.heap()`](Importer::heap) converts an error of the heap to one of
    /// them, and keeps it.
    fn import<'de, D: Deserializer<'de>>(
        into: &mut Importer<'_, 'r>,
        deserializer: D,
    ) -> Result<Self, D::Error>;

    /// Returns the value of a missing field, if a missing field is no error.
    #[doc(hidden)]
    fn missing() -> Option<Self> {
        None
    }
}

/// The state of an import: the transaction in which objects are created, the depth of nesting, and any
/// failure.
///
/// [`Txn::import`] suffices for most programs. With an importer, a program's `Visitor` can read values one by
/// one:
///
/// ```
/// # use pheap::exchange::Importer;
/// # use pheap::{Heap, P, PVec, Persist, Root};
/// # use serde::de::{Deserializer as _, Error as _, SeqAccess, Visitor};
/// /// Appends to an existing list.
/// struct Append<'i, 't, 'r>(&'i mut Importer<'t, 'r>, P<'r, PVec<'r, P<'r, str>>>);
///
/// impl<'de> Visitor<'de> for Append<'_, '_, '_> {
///     type Value = ();
///     # fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
///     #     f.write_str("a list of names")
///     # }
///
///     fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
///         let Append(into, names) = self;
///         while let Some(name) = seq.next_element_seed(into.seed())? {
///             let pushed = names.push(into.tx(), name);
///             into.heap(pushed)?;
///         }
///         Ok(())
///     }
/// }
///
/// # fn main() -> pheap::Result<()> {
/// # let heap = Heap::in_memory()?;
/// let names: Root<PVec<P<str>>> = heap.root("names")?;
/// names.txn(|tx, names| {
///     let mut json = serde_json::Deserializer::from_str(r#"["Ada", "Grace"]"#);
///     let mut into = Importer::new(tx);
///     let result = json.deserialize_seq(Append(&mut into, names));
///     result.map_err(|error| into.error(error))
/// })?;
/// # assert_eq!(names.read(|view, names| names.len(view))?, 2);
/// # Ok(())
/// # }
/// ```
pub struct Importer<'t, 'r> {
    tx: &'t mut Txn<'r>,
    depth: usize,
    max_depth: usize,
    failure: Option<Error>,
    path: ValuePath,
}

impl<'t, 'r> Importer<'t, 'r> {
    /// Begins an import into the transaction `tx`.
    pub fn new(tx: &'t mut Txn<'r>) -> Self {
        Importer { tx, depth: 0, max_depth: MAX_DEPTH, failure: None, path: ValuePath::default() }
    }

    /// Allows `levels` levels of nested pointers and collections, instead of [`MAX_DEPTH`]. Each level takes
    /// space on the stack, also for the values themselves. The deserialiser may have another limit.
    #[must_use]
    pub fn max_depth(mut self, levels: usize) -> Self {
        self.max_depth = levels;
        self
    }

    /// Returns the transaction in which objects are created.
    pub fn tx(&mut self) -> &mut Txn<'r> {
        self.tx
    }

    /// Returns a seed that reads a value, for `next_element_seed` and the like.
    pub fn seed<T: Import<'r>>(&mut self) -> Seed<'_, 't, 'r, T> {
        Seed { into: self, of: PhantomData }
    }

    /// Converts an error of the heap to one of the deserialiser's type, and keeps it for
    /// [`error`](Self::error).
    ///
    /// # Errors
    /// The converted error, if `result` is an error.
    pub fn heap<T, E: de::Error>(&mut self, result: crate::Result<T>) -> Result<T, E> {
        result.map_err(|error| {
            let message = E::custom(&error);
            self.failure = Some(error);
            message
        })
    }

    /// Runs `f` one level deeper: through a pointer, or into a collection.
    ///
    /// # Errors
    /// A custom error of the deserialiser if the depth would exceed the [limit](Self::max_depth); the errors
    /// of `f`.
    pub fn nested<T, E: de::Error>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        if self.depth == self.max_depth {
            return Err(E::custom(TooDeep(self.max_depth)));
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        result
    }

    /// Returns the cause of an error of the deserialiser: the error of the heap, if there was one, else
    /// [`Error::Malformed`].
    pub fn error(self, error: impl fmt::Display) -> Error {
        match self.failure {
            Some(failure) => failure,
            None if self.path.is_empty() => Error::Malformed { what: error.to_string() },
            None => Error::Malformed { what: format!("{}: {error}", self.path) },
        }
    }

    /// Records a step of the path to the place in the data where the import has failed. The innermost step is
    /// recorded first.
    pub(super) fn failed_at(&mut self, step: PathStep) {
        self.path.push(step);
    }
}

impl fmt::Debug for Importer<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Importer").field("depth", &self.depth).finish_non_exhaustive()
    }
}

/// Reads a value of type `T`; made by [`Importer::seed`].
#[derive(Debug)]
pub struct Seed<'i, 't, 'r, T> {
    into: &'i mut Importer<'t, 'r>,
    of: PhantomData<fn() -> T>,
}

impl<'de, 'r, T: Import<'r>> DeserializeSeed<'de> for Seed<'_, '_, 'r, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::import(self.into, deserializer)
    }
}

impl<'r> Txn<'r> {
    /// Makes a value from a deserialiser of serde, with new objects for its pointers. See
    /// [`exchange`](crate::exchange).
    ///
    /// ```
    /// # use pheap::{Heap, PVec, Root};
    /// # fn main() -> pheap::Result<()> {
    /// # let heap = Heap::in_memory()?;
    /// # let list: Root<PVec<u64>> = heap.root("list")?;
    /// list.txn(|tx, list| {
    ///     tx[list] = tx.import(&mut serde_json::Deserializer::from_str("[1, 2]"))?;
    ///     Ok(())
    /// })?;
    /// # assert_eq!(list.read(|view, list| list.len(view))?, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// If the deserialiser has more data after the value, the caller reads them, or checks that there are
    /// none (by the method `end` of serde_json's deserialiser, for example).
    ///
    /// # Errors
    /// [`Error::Malformed`], with the deserialiser's message and the place in the data, if it is known;
    /// [`Error::OutOfSpace`] and the like if there is no memory for the objects. If the transaction
    /// continues, the new objects are garbage. (Existing objects are unchanged, unless an [`Import`] of the
    /// program changes them.)
    pub fn import<'de, T: Import<'r>, D: Deserializer<'de>>(&mut self, deserializer: D) -> crate::Result<T> {
        let mut into = Importer::new(self);
        T::import(&mut into, deserializer).map_err(|error| into.error(error))
    }
}
