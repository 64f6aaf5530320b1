//! The layouts of a root, and the migrations between them.
//!
//! The content of a root does not depend on its layout, so the [model](crate::model) does not know layouts. A
//! root is created as a [`Record`], and becomes a [`Store`] when it needs [collections](crate::shelf). Each
//! of them has another layout. A [migration](change) changes the root from one of its two layouts to the
//! other, and sets a field, which shows whether the migration has happened. An operation that needs the first
//! layout [migrates the root back](crate::objects::handle).

use pheap::{Commit, Error, Heap, P, Persist, Root, Txn, View, field};

use crate::model::RootState;
use crate::shelf::Shelf;

/// The object of a root without collections. It has more than 256 bytes, so a store to a field does not copy
/// the whole object, and it has several cache lines.
#[derive(Persist)]
#[repr(C)]
pub struct Record<'r> {
    /// See [`RootState`], also for the other fields. The state has the content of the objects that they point
    /// to.
    pub x: u64,
    /// Bytes that share one word.
    pub bytes: [u8; 8],
    /// Moves the following fields to other cache lines.
    pub gap: [u64; 30],
    /// A number in another cache line than `x`.
    pub y: u64,
    /// Never `None`. It is an `Option` so that zeros are a valid value: a crash may leave zeros.
    pub slice: Option<P<'r, [u64]>>,
    /// A large object; `None` if there is none.
    pub big: Option<P<'r, [u64]>>,
    /// First node of the list.
    pub list: Option<P<'r, Node<'r>>>,
}

/// A node of a list. It is so large that a span has few slots, so free slots are soon used again.
#[derive(Persist)]
#[repr(C)]
pub struct Node<'r> {
    /// Value of the node.
    pub value: u64,
    /// The inverted value: it tells a torn node from a whole one.
    pub check: u64,
    /// The next node.
    pub next: Option<P<'r, Node<'r>>>,
    /// Zeros. Where the memory is already zero, they add no images.
    pub gap: [u64; 121],
    /// The value again, at the end of the node.
    pub tail: u64,
}

impl<'r> Node<'r> {
    /// Makes a node before `next`.
    pub fn new(value: u64, next: Option<P<'r, Node<'r>>>) -> Node<'r> {
        Node { value, check: !value, next, gap: [0; 121], tail: value }
    }
}

/// The object of a root with collections.
#[derive(Persist)]
#[repr(C)]
pub struct Store<'r> {
    /// The fields that each root has.
    pub record: Record<'r>,
    /// The collections.
    pub shelf: Shelf<'r>,
}

/// The other layout of a [`Record`]: it has another order of fields, and is smaller than a cache line. So the
/// migrations in the two directions differ.
#[derive(Persist)]
#[repr(C)]
pub struct Other<'r> {
    /// See [`RootState`], also for the other fields.
    pub list: Option<P<'r, Node<'r>>>,
    /// Bytes that share one word.
    pub bytes: [u8; 8],
    /// A large object; `None` if there is none.
    pub big: Option<P<'r, [u64]>>,
    /// A number.
    pub y: u64,
    /// Another number.
    pub x: u64,
    /// Never `None`; see [`Record::slice`].
    pub slice: Option<P<'r, [u64]>>,
}

/// The other layout of a [`Store`].
#[derive(Persist)]
#[repr(C)]
pub struct OtherStore<'r> {
    /// The collections.
    pub shelf: Shelf<'r>,
    /// The fields that each root has.
    pub other: Other<'r>,
}

/// Handle of a root in any layout.
#[derive(Debug, Clone)]
pub enum Found {
    /// A [`Record`] or a [`Store`].
    First(Handle),
    /// The other layout of a [`Record`].
    Other(Root<Other<'static>>),
    /// The other layout of a [`Store`].
    OtherStore(Root<OtherStore<'static>>),
}

/// Handle of a root in its first layout.
#[derive(Debug, Clone)]
pub enum Handle {
    /// Without collections.
    Record(Root<Record<'static>>),
    /// With collections.
    Store(Root<Store<'static>>),
}

impl Handle {
    /// Runs a transaction on the fields that each root has.
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

    /// Runs a deferred transaction, then a deferred read. Returns their commits, which tell when they are
    /// durable.
    ///
    /// # Errors
    /// As for [`Root::txn_deferred`] and [`Root::read_deferred`].
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
    /// Returns the root with this name.
    ///
    /// # Errors
    /// As for [`Heap::existing_root`].
    pub fn of(heap: &Heap, name: &str) -> pheap::Result<Found> {
        // Looks at the type's name first: opening a root with the wrong type is slow, because it compares
        // types.
        let ty = heap.roots().into_iter().find(|root| root.name == name).map(|root| root.type_name);
        match ty.as_deref() {
            Some("Other") => heap.existing_root(name).map(Found::Other),
            Some("Store") => heap.existing_root(name).map(|root| Found::First(Handle::Store(root))),
            Some("OtherStore") => heap.existing_root(name).map(Found::OtherStore),
            _ => heap.existing_root(name).map(|root| Found::First(Handle::Record(root))),
        }
    }

    /// Reads the root.
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

    /// Returns whether the root has collections.
    pub fn has_shelf(&self) -> bool {
        matches!(self, Found::First(Handle::Store(_)) | Found::OtherStore(_))
    }
}

impl<'r> Record<'r> {
    /// Converts the other layout. `x` replaces the number if it is given.
    fn from_other(other: &Other<'r>, x: Option<u64>) -> Record<'r> {
        let Other { list, bytes, big, y, x: old, slice } = *other;
        Record { x: x.unwrap_or(old), bytes, gap: [0; 30], y, slice, big, list }
    }

    /// Copies the record.
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

/// Migrates a root to its first layout if it has the other one. Returns whether it had.
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

/// Migrates a root from one of its two layouts to the other, and sets a field.
///
/// # Errors
/// As for [`Heap::migrate`]. [`Error::Aborted`] if the root has none of these layouts.
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

/// Migrates a [`Record`] to a [`Store`] with empty collections. Returns whether the root was a [`Record`].
///
/// # Errors
/// As for [`Heap::migrate`].
pub fn shelve(heap: &Heap, name: &str) -> pheap::Result<bool> {
    heap.migrate::<Record, Store>(name, |tx, old| {
        Ok(Store { record: tx[old].again(), shelf: Shelf::default() })
    })
}
