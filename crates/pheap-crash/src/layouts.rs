//! The layouts that a root can have, and the ways between them.
//!
//! What a root holds does not depend on its layout, so the [model](crate::model) knows nothing of it. A root is made as a [`Record`], and becomes a
//! [`Store`] when it needs [collections](crate::shelf). Both have another layout, which a [migration](change) gives them; that sets a field as well,
//! so that one can tell whether it has happened. Whatever needs the first layout [goes back](crate::objects::handle) to it.

use pheap::{Commit, Error, Heap, P, Persist, Root, Txn, View, field};

use crate::model::RootState;
use crate::shelf::Shelf;

/// The object that a root is. Larger than 256 bytes, so that `#[txn]` logs fields, and in several cache lines.
#[derive(Persist)]
#[repr(C)]
pub struct Record<'r> {
    /// See [`RootState`], also for the other fields.
    pub x: u64,
    /// The bytes of one word.
    pub bytes: [u8; 8],
    /// Moves the rest to other cache lines.
    pub gap: [u64; 30],
    /// A number.
    pub y: u64,
    /// Never `None`; an `Option`, because zeros must be a valid value for a test of what crashes leave.
    pub slice: Option<P<'r, [u64]>>,
    /// Many numbers.
    pub big: Option<P<'r, [u64]>>,
    /// The first node.
    pub list: Option<P<'r, Node<'r>>>,
}

/// A node of a list. So large that a span has four: slots that become free are soon used again.
#[derive(Persist)]
#[repr(C)]
pub struct Node<'r> {
    /// Its value.
    pub value: u64,
    /// The value again, inverted: a torn node does not pass for a whole one.
    pub check: u64,
    /// The next node.
    pub next: Option<P<'r, Node<'r>>>,
    /// Zeros, which are cheap.
    pub gap: [u64; 121],
    /// The value once more.
    pub tail: u64,
}

impl<'r> Node<'r> {
    /// A node before another one.
    pub fn new(value: u64, next: Option<P<'r, Node<'r>>>) -> Node<'r> {
        Node { value, check: !value, next, gap: [0; 121], tail: value }
    }
}

/// What a root with collections is.
#[derive(Persist)]
#[repr(C)]
pub struct Store<'r> {
    /// What each root has.
    pub record: Record<'r>,
    /// The collections.
    pub shelf: Shelf<'r>,
}

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

/// What a [`Store`] is, in another order.
#[derive(Persist)]
#[repr(C)]
pub struct OtherStore<'r> {
    /// The collections.
    pub shelf: Shelf<'r>,
    /// What each root has.
    pub other: Other<'r>,
}

/// A root, whichever layout it has.
#[derive(Debug, Clone)]
pub enum Found {
    /// The one that it is made with, or that with collections.
    First(Handle),
    /// The other one of that which it is made with.
    Other(Root<Other<'static>>),
    /// The other one of that with collections.
    OtherStore(Root<OtherStore<'static>>),
}

/// A root in its first layout, with or without collections.
#[derive(Debug, Clone)]
pub enum Handle {
    /// Without.
    Record(Root<Record<'static>>),
    /// With.
    Store(Root<Store<'static>>),
}

impl Handle {
    /// Runs a transaction on what each root has.
    ///
    /// # Errors
    /// As for [`Root::txn`].
    pub fn txn<R>(
        &self,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, Record<'r>>) -> pheap::Result<R>,
    ) -> pheap::Result<R> {
        match self {
            Handle::Record(root) => root.txn(f),
            Handle::Store(root) => root.txn(|tx, store| f(tx, field!(store.record))),
        }
    }

    /// The same, and then a read, neither of which waits: what tells when they are durable.
    ///
    /// # Errors
    /// As for [`Root::txn_deferred`].
    pub fn defer<R>(
        &self,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, Record<'r>>) -> pheap::Result<R>,
    ) -> pheap::Result<[Commit; 2]> {
        let (changed, seen) = match self {
            Handle::Record(root) => (root.txn_deferred(f)?.1, root.read_deferred(|_, _| ())?.1),
            Handle::Store(root) => {
                let changed = root.txn_deferred(|tx, store| f(tx, field!(store.record)))?;
                (changed.1, root.read_deferred(|_, _| ())?.1)
            }
        };
        Ok([changed, seen])
    }
}

impl Found {
    /// The root with this name.
    ///
    /// # Errors
    /// As for [`Heap::existing_root`].
    pub fn of(heap: &Heap, name: &str) -> pheap::Result<Found> {
        // To ask for the wrong type takes long: types are compared.
        let ty = heap.roots().into_iter().find(|root| root.name == name).map(|root| root.type_name);
        match ty.as_deref() {
            Some("Other") => heap.existing_root(name).map(Found::Other),
            Some("Store") => heap.existing_root(name).map(|root| Found::First(Handle::Store(root))),
            Some("OtherStore") => heap.existing_root(name).map(Found::OtherStore),
            _ => heap.existing_root(name).map(|root| Found::First(Handle::Record(root))),
        }
    }

    /// Reads in it.
    ///
    /// # Errors
    /// As for [`Root::read`].
    pub fn read<R>(&self, f: impl for<'r> FnOnce(&View<'r>) -> R) -> pheap::Result<R> {
        match self {
            Found::First(Handle::Record(root)) => root.read(|view, _| f(view)),
            Found::First(Handle::Store(root)) => root.read(|view, _| f(view)),
            Found::Other(root) => root.read(|view, _| f(view)),
            Found::OtherStore(root) => root.read(|view, _| f(view)),
        }
    }

    /// Whether it has collections.
    pub fn has_shelf(&self) -> bool {
        matches!(self, Found::First(Handle::Store(_)) | Found::OtherStore(_))
    }
}

impl<'r> Record<'r> {
    /// From the other layout; with another number, or the one that it had.
    fn from_other(other: &Other<'r>, x: Option<u64>) -> Record<'r> {
        let Other { list, bytes, big, y, x: old, slice } = *other;
        Record { x: x.unwrap_or(old), bytes, gap: [0; 30], y, slice, big, list }
    }

    /// The same.
    fn again(&self) -> Record<'r> {
        Record { ..*self }
    }
}

impl<'r> Other<'r> {
    fn from_record(record: &Record<'r>, x: u64) -> Other<'r> {
        let Record { bytes, y, slice, big, list, .. } = *record;
        Other { list, bytes, big, y, x, slice }
    }
}

/// Gives a root its first layout, if it has the other one.
///
/// # Errors
/// As for [`Heap::migrate`].
pub fn back(heap: &Heap, name: &str) -> pheap::Result<bool> {
    to_first(heap, name, None)
}

fn to_first(heap: &Heap, name: &str, x: Option<u64>) -> pheap::Result<bool> {
    let done = heap.migrate::<Other, Record>(name, |tx, old| Ok(Record::from_other(&tx[old], x)))?;
    let move_shelf = || {
        heap.migrate::<OtherStore, Store>(name, |tx, old| {
            let record = Record::from_other(&tx[old].other, x);
            Ok(Store { record, shelf: std::mem::take(&mut tx[field!(old.shelf)]) })
        })
    };
    Ok(done || move_shelf()?)
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
    let done = heap.migrate::<Record, Other>(name, |tx, old| Ok(Other::from_record(&tx[old], value)))?;
    let move_shelf = || {
        heap.migrate::<Store, OtherStore>(name, |tx, old| {
            let other = Other::from_record(&tx[old].record, value);
            Ok(OtherStore { other, shelf: std::mem::take(&mut tx[field!(old.shelf)]) })
        })
    };
    if done || move_shelf()? { Ok(()) } else { Err(Error::abort("the root has none of its layouts")) }
}

/// Gives a root in its first layout collections, if it has none.
///
/// # Errors
/// As for [`Heap::migrate`].
pub fn shelve(heap: &Heap, name: &str) -> pheap::Result<bool> {
    heap.migrate::<Record, Store>(name, |tx, old| {
        Ok(Store { record: tx[old].again(), shelf: Shelf::default() })
    })
}
