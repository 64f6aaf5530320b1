//! `Stored`, for types of other crates whose layout is not known.

#![allow(unsafe_code)]

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use super::desc::Desc;
use super::{Persist, Plain};

/// Says how a `T` is stored. An adapter is a type that implements this: `enum Millis {}`.
pub trait StoreAs<T> {
    /// The type that is stored. If the form is a struct of your program, with an id of its own, a heap tells
    /// it apart from other types with the same bytes. If two adapters store the same type of number, the heap
    /// cannot tell their values apart.
    type Form: Plain;

    /// Converts a value to its form.
    fn store(value: T) -> Self::Form;

    /// Converts a form to its value. A file may have any form, so this should not panic.
    fn load(form: &Self::Form) -> T;
}

/// A value of a type that cannot live in a heap, because it comes from another crate and its layout is not
/// known. It is stored in another form, by an adapter `A`. `Stored<DateTime<Utc>, Millis>` does what
/// `#[persist(with = Millis)]` on a field does, and shows the conversion in the type.
///
/// ```
/// use std::net::Ipv4Addr;
/// # use pheap::{Heap, Persist, Root, StoreAs, Stored};
///
/// enum Octets {}
///
/// impl StoreAs<Ipv4Addr> for Octets {
///     type Form = [u8; 4];
///
///     fn store(value: Ipv4Addr) -> [u8; 4] {
///         value.octets()
///     }
///
///     fn load(form: &[u8; 4]) -> Ipv4Addr {
///         (*form).into()
///     }
/// }
///
/// #[derive(Persist)]
/// #[repr(C)]
/// struct Peer {
///     address: Stored<Ipv4Addr, Octets>,
/// }
///
/// # fn main() -> pheap::Result<()> {
/// # let heap = Heap::in_memory()?;
/// let peer: Root<Peer> = heap.root_or("peer", |_| Ok(Peer { address: Ipv4Addr::LOCALHOST.into() }))?;
/// peer.txn(|tx, peer| Ok(tx[peer].address.set(Ipv4Addr::BROADCAST)))?;
/// assert_eq!(peer.read(|view, peer| view[peer].address.get())?, Ipv4Addr::BROADCAST);
/// # Ok(())
/// # }
/// ```
#[repr(transparent)]
pub struct Stored<T, A: StoreAs<T>> {
    form: A::Form,
    of: PhantomData<fn() -> T>,
}

// SAFETY: the struct is `repr(transparent)`, has no field but the form and a `PhantomData`, and is described
// as the form. A form is `Plain`, so it is the same type at each brand, and so is a `Stored`.
unsafe impl<T, A: StoreAs<T>> Persist for Stored<T, A> {
    type At<'r> = Self;
    const PADDED: bool = <A::Form as Persist>::PADDED;
    const POINTERS: bool = <A::Form as Persist>::POINTERS;

    fn desc() -> &'static Desc {
        <A::Form as Persist>::desc()
    }

    #[inline]
    unsafe fn zero_padding(this: *mut Self) {
        // SAFETY: a `Stored` has no data but its form, and the same layout. So `this` points to a valid form.
        // It is aligned, and valid for reads and writes (premise).
        unsafe { <A::Form as Persist>::zero_padding(this.cast()) }
    }
}

impl<T, A: StoreAs<T>> Plain for Stored<T, A> {}

impl<T, A: StoreAs<T>> Stored<T, A> {
    /// Stores a value.
    pub fn new(value: T) -> Self {
        Stored { form: A::store(value), of: PhantomData }
    }

    /// Returns the value.
    pub fn get(&self) -> T {
        A::load(&self.form)
    }

    /// Sets the value.
    pub fn set(&mut self, value: T) {
        self.form = A::store(value);
    }

    /// Returns the stored form.
    pub fn form(&self) -> &A::Form {
        &self.form
    }
}

impl<T, A: StoreAs<T>> From<T> for Stored<T, A> {
    fn from(value: T) -> Self {
        Stored::new(value)
    }
}

impl<T, A: StoreAs<T, Form: Clone>> Clone for Stored<T, A> {
    fn clone(&self) -> Self {
        Stored { form: self.form.clone(), of: PhantomData }
    }
}

impl<T, A: StoreAs<T, Form: Copy>> Copy for Stored<T, A> {}

impl<T: Default, A: StoreAs<T>> Default for Stored<T, A> {
    fn default() -> Self {
        Stored::new(T::default())
    }
}

impl<T: fmt::Debug, A: StoreAs<T>> fmt::Debug for Stored<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// Compares the forms. Order and hashes are those of the forms, too.
impl<T, A: StoreAs<T, Form: PartialEq>> PartialEq for Stored<T, A> {
    fn eq(&self, other: &Self) -> bool {
        self.form == other.form
    }
}

impl<T, A: StoreAs<T, Form: Eq>> Eq for Stored<T, A> {}

impl<T, A: StoreAs<T, Form: PartialOrd>> PartialOrd for Stored<T, A> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.form.partial_cmp(&other.form)
    }
}

impl<T, A: StoreAs<T, Form: Ord>> Ord for Stored<T, A> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.form.cmp(&other.form)
    }
}

impl<T, A: StoreAs<T, Form: Hash>> Hash for Stored<T, A> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.form.hash(hasher);
    }
}
