//! `Stored`, for types of others whose layout is not known.

#![allow(unsafe_code)]

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use super::desc::Desc;
use super::{Persist, Plain};

/// How a `T` is stored. An adapter is a type that implements it: `enum Millis {}`.
pub trait StoreAs<T> {
    /// What is stored. A struct of your own, with an id of its own, is told apart from others of the same form; a number is a number.
    type Form: Plain;

    /// The form of a value.
    fn store(value: T) -> Self::Form;

    /// The value of a form. A file may have any, so it should not panic.
    fn load(form: &Self::Form) -> T;
}

/// A value of a type that cannot live in a heap itself, for it comes from another crate, and whose layout is therefore not known: it is stored in another form, as an adapter `A`
/// says. So `Stored<DateTime<Utc>, Millis>` is what `#[persist(with = Millis)]` on a field would be, and says in the type that there is a conversion.
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

// SAFETY: `repr(transparent)`, and described as the form that it is. A form is the same at each brand, being `Plain`, and so is this.
unsafe impl<T, A: StoreAs<T>> Persist for Stored<T, A> {
    type At<'r> = Self;
    const PADDED: bool = <A::Form as Persist>::PADDED;
    const POINTERS: bool = <A::Form as Persist>::POINTERS;

    fn desc() -> &'static Desc {
        <A::Form as Persist>::desc()
    }

    #[inline]
    unsafe fn zero_padding(this: *mut Self) {
        // SAFETY: a valid form, which is all there is; the rest is the caller's premise.
        unsafe { <A::Form as Persist>::zero_padding(this.cast()) }
    }
}

impl<T, A: StoreAs<T>> Plain for Stored<T, A> {}

impl<T, A: StoreAs<T>> Stored<T, A> {
    /// With this value.
    pub fn new(value: T) -> Self {
        Stored { form: A::store(value), of: PhantomData }
    }

    /// The value.
    pub fn get(&self) -> T {
        A::load(&self.form)
    }

    /// Sets the value.
    pub fn set(&mut self, value: T) {
        self.form = A::store(value);
    }

    /// What is stored.
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

/// By the form, as are order and hashes.
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
