//! The other layout that a root can have, and the way there and back.
//!
//! What a root holds does not depend on its layout, so the [model](crate::model) knows nothing of it. A [migration](change) sets a field as well, so
//! that one can tell whether it has happened. Whatever needs the first layout [goes back](crate::objects::handle) to it.

use pheap::{Error, Heap, P, Persist, Root, View};

use crate::model::RootState;
use crate::objects::{Handle, Node, Record};

/// What a [`Record`] is, in another order, and in one cache line: the two migrations are not alike.
#[derive(Persist)]
#[repr(C)]
pub struct Other<'r> {
    /// See [`RootState`], also for the other fields.
    pub list: Option<P<'r, Node<'r>>>,
    /// The bytes of one word.
    pub bytes: [u8; 8],
    /// Many numbers.
    pub big: Option<P<'r, [u64]>>,
    /// A number.
    pub y: u64,
    /// Another one.
    pub x: u64,
    /// Never `None`; see [`Record::slice`].
    pub slice: Option<P<'r, [u64]>>,
}

/// A root, whichever layout it has.
#[derive(Debug, Clone)]
pub enum Found {
    /// The one that it is made with.
    First(Handle),
    /// The other one.
    Other(Root<Other<'static>>),
}

impl Found {
    /// The root with this name.
    ///
    /// # Errors
    /// As for [`Heap::existing_root`].
    pub fn of(heap: &Heap, name: &str) -> pheap::Result<Found> {
        match heap.existing_root(name) {
            Err(Error::TypeMismatch { .. }) => heap.existing_root(name).map(Found::Other),
            root => root.map(Found::First),
        }
    }

    /// Reads in it.
    ///
    /// # Errors
    /// As for [`Root::read`].
    pub fn read<R>(&self, f: impl for<'r> FnOnce(&View<'r>) -> R) -> pheap::Result<R> {
        match self {
            Found::First(root) => root.read(|view, _| f(view)),
            Found::Other(root) => root.read(|view, _| f(view)),
        }
    }
}

/// Gives a root its first layout, if it has the other one.
///
/// # Errors
/// As for [`Heap::migrate`].
pub fn back(heap: &Heap, name: &str) -> pheap::Result<bool> {
    to_first(heap, name, None)
}

fn to_first(heap: &Heap, name: &str, value: Option<u64>) -> pheap::Result<bool> {
    heap.migrate::<Other, Record>(name, |tx, old| {
        let Other { list, bytes, big, y, x, slice } = tx[old];
        Ok(Record { x: value.unwrap_or(x), bytes, gap: [0; 30], y, slice, big, list })
    })
}

/// Gives a root the layout that it does not have, and sets a field.
///
/// # Errors
/// As for [`Heap::migrate`].
pub fn change(heap: &Heap, name: &str, model: &mut RootState, value: u64) -> pheap::Result<()> {
    model.x = value;
    if to_first(heap, name, Some(value))? {
        return Ok(());
    }
    let done = heap.migrate::<Record, Other>(name, |tx, old| {
        let Record { bytes, y, slice, big, list, .. } = tx[old];
        Ok(Other { list, bytes, big, y, x: value, slice })
    })?;
    if done { Ok(()) } else { Err(Error::abort("the root has neither of its layouts")) }
}
