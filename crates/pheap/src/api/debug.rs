//! `View::debug`: shows objects, and the objects that they lead to, as `{:?}` does.

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::fmt::{self, Debug as _};

use super::view::View;
use crate::heap::ViewedObjects;
use crate::heap::{Entries, Fields, Object, Value};
use crate::layout::{Graph, Pointee, TypeLayout};
use crate::ptr::P;

/// Default of [`depth`](DebugObject::depth): how many pointers in a row the output follows.
const DEPTH: usize = 8;

/// The largest [`depth`](DebugObject::depth): each pointer that the output follows takes room on the stack.
const MAX_DEPTH: usize = 100;

/// Default of [`items`](DebugObject::items): how many elements of each collection the output shows.
const ITEMS: usize = 100;

/// The output shows at most this many values for each element that it may show of a collection: `VALUES`
/// times [`items`](DebugObject::items) in all.
const VALUES: usize = 100;

/// An object, and the objects that it leads to, for `{:?}` and `{:#?}`; made by [`View::debug`].
#[derive(Clone, Copy)]
#[must_use = "it does nothing but print itself"]
pub struct DebugObject<'v, 'r, T: ?Sized> {
    view: &'v View<'r>,
    object: P<'r, T>,
    depth: usize,
    items: usize,
}

impl<'r> View<'r> {
    /// Returns the object that `p` points to, for `{:?}` and `{:#?}`. Structs and enums are shown with their
    /// fields, collections by their elements, and a pointer as the object that it points to.
    /// The types need no `Debug`.
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
    /// The output is cut off at an object that is being shown already (`<Person above>`), at an object that
    /// is more than 8 pointers away (`Person { .. }`) unless it is a `str` or a `[u8]`, after 100 elements of
    /// a collection, and after 10,000 values in all. [`depth`](DebugObject::depth) and
    /// [`items`](DebugObject::items) set other limits. An object that is reached twice, but not through
    /// itself, is shown twice. `Some(value)` is shown as the value.
    ///
    /// In a transaction, the output contains the changes of the transaction.
    ///
    /// # Cost
    /// Meant for people to read: each output describes the types anew. A transaction that has changed parts
    /// of a shown object may become a long one.
    pub fn debug<T: Pointee + ?Sized>(&self, p: P<'r, T>) -> DebugObject<'_, 'r, T> {
        DebugObject { view: self, object: p, depth: DEPTH, items: ITEMS }
    }
}

impl<T: ?Sized> DebugObject<'_, '_, T> {
    /// Sets the number of pointers to follow in a row, at most 100.
    pub fn depth(mut self, pointers: usize) -> Self {
        self.depth = pointers.min(MAX_DEPTH);
        self
    }

    /// Sets the number of elements to show of each collection. The limit of values in all is 100 times that
    /// number.
    pub fn items(mut self, elements: usize) -> Self {
        self.items = elements;
        self
    }
}

impl<T: Pointee + ?Sized> fmt::Debug for DebugObject<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A heap cannot hold objects of a type without a graph. So no object is shown, only the pointer.
        let Ok(Graph { types }) = Graph::from_root(T::desc()) else { return self.object.fmt(f) };
        let seen = DebugObjects { view: self.view, types };
        // SAFETY: `self.object` is a pointer of `self.view` to a live `T`, and the type of `T` is the first
        // of the graph.
        let object = unsafe { Object::from_view(&seen, self.object.addr().addr().get() as u64) };
        let left = Cell::new(self.items.saturating_mul(VALUES));
        let printer = Printer { above: RefCell::new(Vec::new()), left, depth: self.depth, items: self.items };
        printer.object(object, f)
    }
}

/// The objects that a view shows: each in place, or as its copy in the view's transaction.
struct DebugObjects<'a, 'r> {
    view: &'a View<'r>,
    types: Vec<TypeLayout>,
}

impl ViewedObjects for DebugObjects<'_, '_> {
    fn types(&self) -> &[TypeLayout] {
        &self.types
    }

    unsafe fn bytes(&self, addr: u64, len: u64) -> &[u8] {
        let first = std::ptr::with_exposed_provenance_mut(addr as usize);
        let place = self.view.place_of(std::ptr::slice_from_raw_parts_mut(first, len as usize));
        // SAFETY: the caller has promised that the `len` bytes at `addr` are within a live object of this
        // region. `place_of` returns the address of these bytes, or of their copy. No `&mut` to them exists
        // while the view is borrowed, as in `Index` of `View`. All bytes of a heap and of copies are
        // initialized, padding included.
        unsafe { &*place }
    }
}

struct Printer {
    /// Address and type name of each object that is being shown, the outermost first.
    above: RefCell<Vec<(u64, *const str)>>,
    /// Number of values that may still be shown.
    left: Cell<usize>,
    depth: usize,
    items: usize,
}

/// A value, and the printer that shows it.
struct DebugValue<'p, 'v> {
    printer: &'p Printer,
    value: Value<'v>,
}

impl Printer {
    fn show<'v>(&self, value: Value<'v>) -> DebugValue<'_, 'v> {
        DebugValue { printer: self, value }
    }

    fn object(&self, object: Object<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if object.is_text() {
            return self.show(object.value()).fmt(f);
        }
        // A struct and its first field have the same address. So the type names are compared, too.
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

impl fmt::Debug for DebugValue<'_, '_> {
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

/// Returns the name of a type without its path and its arguments.
fn short(name: &str) -> &str {
    let name = &name[..name.find('<').unwrap_or(name.len())];
    &name[name.rfind("::").map_or(0, |at| at + 2)..]
}
