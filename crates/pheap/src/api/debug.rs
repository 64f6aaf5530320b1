//! `View::debug`: objects as `{:?}` shows them, with what they lead to.

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::fmt::{self, Debug as _};

use super::view::View;
use crate::heap::Sight;
use crate::heap::{Entries, Fields, Object, Value};
use crate::layout::{Graph, Pointee, TypeLayout};
use crate::ptr::P;

/// So many pointers are followed, one behind the other, unless [`depth`](DebugObject::depth) says something else.
const DEPTH: usize = 8;

/// No more are followed: each takes some room on the stack.
const MAX_DEPTH: usize = 100;

/// So many elements of a collection are shown, unless [`items`](DebugObject::items) says something else.
const ITEMS: usize = 100;

/// So many values are shown in all, for each element that may be shown of a collection.
const VALUES: usize = 100;

/// An object, and what it leads to, for `{:?}` and `{:#?}`; made by [`View::debug`].
#[derive(Clone, Copy)]
#[must_use = "it does nothing but print itself"]
pub struct DebugObject<'v, 'r, T: ?Sized> {
    view: &'v View<'r>,
    object: P<'r, T>,
    depth: usize,
    items: usize,
}

impl<'r> View<'r> {
    /// The object that `p` points to, for `{:?}` and `{:#?}`: structs and enums by the names of their fields, collections by their elements, and in the place of a pointer
    /// what it points to. So the types need no `Debug`.
    ///
    /// ```
    /// # use pheap::{Durability, Options, P, Persist, PVec, field};
    /// #[derive(Persist)]
    /// #[repr(C)]
    /// struct Person<'r> {
    ///     name: P<'r, str>,
    ///     friends: PVec<'r, P<'r, Person<'r>>>,
    /// }
    ///
    /// # let heap = Options::new().durability(Durability::Process).in_memory()?;
    /// let ada = heap.root_or::<Person>("ada", |tx| Ok(Person { name: tx.alloc_str("Ada")?, friends: PVec::new() }))?;
    /// ada.txn(|tx, ada| {
    ///     let charles = Person { name: tx.alloc_str("Charles")?, friends: PVec::new() };
    ///     let charles = tx.alloc(charles)?;
    ///     field!(ada.friends).push(tx, charles)?;
    ///     field!(charles.friends).push(tx, ada)
    /// })?;
    /// ada.read(|view, ada| {
    ///     let shown = format!("{:?}", view.debug(ada));
    ///     assert_eq!(
    ///         shown,
    ///         r#"Person { name: "Ada", friends: [Person { name: "Charles", friends: [<Person above>] }] }"#
    ///     );
    /// })?;
    /// # Ok::<_, pheap::Error>(())
    /// ```
    ///
    /// What an object leads to is cut off where that object is being shown already (`<Person above>`), where it is more than 8 pointers away (`Person { .. }`), and after 100 elements of a
    /// collection; and everything after 10,000 values. [`depth`](DebugObject::depth) and [`items`](DebugObject::items) set other limits. What is met twice, but not within itself, is shown twice.
    /// What has a value of `Some` is shown as that value.
    ///
    /// In a transaction, it shows what the transaction has written.
    ///
    /// # Cost
    /// For people: some microseconds to describe the types, and some tens of nanoseconds for each value. A transaction that has changed
    /// parts of what is shown may become a long one.
    pub fn debug<T: Pointee + ?Sized>(&self, p: P<'r, T>) -> DebugObject<'_, 'r, T> {
        DebugObject { view: self, object: p, depth: DEPTH, items: ITEMS }
    }
}

impl<T: ?Sized> DebugObject<'_, '_, T> {
    /// Follows so many pointers one behind the other, at most 100.
    pub fn depth(mut self, pointers: usize) -> Self {
        self.depth = pointers.min(MAX_DEPTH);
        self
    }

    /// Shows so many elements of each collection, and a hundred times as many values in all.
    pub fn items(mut self, elements: usize) -> Self {
        self.items = elements;
        self
    }
}

impl<T: Pointee + ?Sized> fmt::Debug for DebugObject<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A type that no heap can hold has no objects.
        let Ok(Graph { types }) = Graph::of(T::desc()) else { return self.object.fmt(f) };
        let seen = Seen { view: self.view, types };
        // SAFETY: a pointer of this view, to a `T`; its type is the first one.
        let object = unsafe { Object::seen(&seen, self.object.addr().addr().get() as u64) };
        let left = Cell::new(self.items.saturating_mul(VALUES));
        let printer = Printer { above: RefCell::new(Vec::new()), left, depth: self.depth, items: self.items };
        printer.object(object, f)
    }
}

/// Objects as a view shows them.
struct Seen<'a, 'r> {
    view: &'a View<'r>,
    types: Vec<TypeLayout>,
}

impl Sight for Seen<'_, '_> {
    fn types(&self) -> &[TypeLayout] {
        &self.types
    }

    unsafe fn bytes(&self, addr: u64, len: u64) -> &[u8] {
        let first = std::ptr::with_exposed_provenance_mut(addr as usize);
        let place = self.view.place_of(std::ptr::slice_from_raw_parts_mut(first, len as usize));
        // SAFETY: bytes of a live object of this region (the caller's premise), where `place_of` says that they, or their copy, are: as in `Index` of views, nobody has a `&mut` to them as long as the view is borrowed. All of
        // a heap's bytes are definite, and those of copies, padding included.
        unsafe { &*place }
    }
}

struct Printer {
    /// Objects that are being shown.
    above: RefCell<Vec<(u64, *const str)>>,
    /// How many values may still be shown.
    left: Cell<usize>,
    depth: usize,
    items: usize,
}

/// A value that is about to be shown.
struct Shown<'p, 'v> {
    printer: &'p Printer,
    value: Value<'v>,
}

impl Printer {
    fn show<'v>(&self, value: Value<'v>) -> Shown<'_, 'v> {
        Shown { printer: self, value }
    }

    fn object(&self, object: Object<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if object.is_text() {
            return self.show(object.value()).fmt(f);
        }
        // A struct and its first field are at one address.
        let this = (object.offset(), std::ptr::from_ref(object.type_name()));
        let name = short(object.type_name());
        let depth = self.above.borrow().len();
        if self.above.borrow().contains(&this) {
            return write!(f, "<{name} above>");
        }
        if depth > self.depth {
            return write!(f, "{name} {{ .. }}");
        }
        self.above.borrow_mut().push(this);
        let shown = self.show(object.value()).fmt(f);
        self.above.borrow_mut().pop();
        shown
    }

    fn fields(&self, name: &str, fields: Fields<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if fields.clone().next().is_some_and(|field| field.name == "0") {
            let mut shown = f.debug_tuple(name);
            fields.for_each(|field| _ = shown.field(&self.show(field.value)));
            shown.finish()
        } else {
            let mut shown = f.debug_struct(name);
            fields.for_each(|field| _ = shown.field(field.name, &self.show(field.value)));
            shown.finish()
        }
    }

    fn list<'v>(
        &self,
        mut values: impl Iterator<Item = Value<'v>>,
        mut f: fmt::DebugList<'_, '_>,
    ) -> fmt::Result {
        for value in values.by_ref().take(self.items) {
            f.entry(&self.show(value));
        }
        if values.next().is_some() { f.finish_non_exhaustive() } else { f.finish() }
    }

    fn set(&self, mut entries: Entries<'_>, mut f: fmt::DebugSet<'_, '_>) -> fmt::Result {
        for entry in entries.by_ref().take(self.items) {
            f.entry(&self.show(entry.key));
        }
        if entries.left() > 0 { f.finish_non_exhaustive() } else { f.finish() }
    }

    fn map(&self, mut entries: Entries<'_>, mut f: fmt::DebugMap<'_, '_>) -> fmt::Result {
        for entry in entries.by_ref().take(self.items) {
            f.entry(&self.show(entry.key), &self.show(entry.value));
        }
        if entries.left() > 0 { f.finish_non_exhaustive() } else { f.finish() }
    }
}

impl fmt::Debug for Shown<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let printer = self.printer;
        let Some(left) = printer.left.get().checked_sub(1) else { return f.write_str("..") };
        printer.left.set(left);
        match &self.value {
            Value::Unit => f.write_str("()"),
            Value::Bool(value) => value.fmt(f),
            Value::Char(value) => value.fmt(f),
            Value::Unsigned(value) => value.fmt(f),
            Value::Signed(value) => value.fmt(f),
            Value::F32(value) => value.fmt(f),
            Value::F64(value) => value.fmt(f),
            Value::Str(text) => text.fmt(f),
            Value::Bytes(bytes) => {
                let mut shown = f.debug_list();
                shown.entries(bytes.iter().take(printer.items));
                if bytes.len() > printer.items { shown.finish_non_exhaustive() } else { shown.finish() }
            }
            Value::Null => f.write_str("None"),
            Value::Pointer(pointer) => match pointer.target() {
                Ok(Some(object)) => printer.object(object, f),
                Ok(None) => f.write_str(short(pointer.type_name())),
                Err(what) => write!(f, "<{what}>"),
            },
            Value::Struct(fields) => printer.fields(short(fields.type_name()), fields.clone(), f),
            Value::Enum(name, fields) => printer.fields(name, fields.clone(), f),
            Value::List(elements) => printer.list(elements.clone(), f.debug_list()),
            Value::Map(entries) => printer.map(entries.clone(), f.debug_map()),
            Value::Set(entries) => printer.set(entries.clone(), f.debug_set()),
            Value::Invalid(what) => write!(f, "<{what}>"),
        }
    }
}

/// The name of a type without its path and its arguments.
fn short(name: &str) -> &str {
    let name = &name[..name.find('<').unwrap_or(name.len())];
    &name[name.rfind("::").map_or(0, |at| at + 2)..]
}
