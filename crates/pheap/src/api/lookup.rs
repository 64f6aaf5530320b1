//! `Heap::root`, `root_or` and `existing_root`: look up a root by name and type, or create it.

use super::root::Root;
use super::tx::Txn;
use crate::error::{Error, Result};
use crate::heap::{Heap, check_name};
use crate::layout::Persist;
use crate::ptr::P;

/// A type with a `Default`, from which a root is created. It is a separate trait so that the compiler's
/// message for other types names the alternative.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no `Default` to create the root with: use `heap.root_or(name, |tx| ..)`, whose closure makes the first value",
    label = "without a `Default`",
    note = "for a pointer: `heap.root_or(\"first\", |tx| tx.alloc(0))`. A type of your own may also derive `Default`"
)]
pub trait FirstValue: Default {}

#[diagnostic::do_not_recommend]
impl<T: Default> FirstValue for T {}

impl Heap {
    /// Returns the root with this name. If it does not exist, creates it with the default value.
    ///
    /// # Errors
    /// Those of [`existing_root`](Self::existing_root), except [`Error::NoSuchRoot`]. If the root would have
    /// to be created, also [`Error::InvalidName`], [`Error::ReadOnly`], [`Error::OutOfSpace`],
    /// [`Error::ReservationFull`], [`Error::OutcomeUnknown`], other errors of a transaction, and, if this
    /// thread is inside a transaction or read, [`Error::Nested`] or [`Error::SeveralHeaps`].
    pub fn root<T: Persist + FirstValue>(&self, name: &str) -> Result<Root<T>> {
        self.root_or_init(name, |tx| tx.alloc_default::<T>())
    }

    /// Returns the root with this name. If it does not exist, creates it with the result of `init`, which
    /// runs in the creating transaction.
    ///
    /// # Errors
    /// As for [`root`](Self::root), and the errors that `init` returns.
    pub fn root_or<T: Persist>(
        &self,
        name: &str,
        init: impl for<'r> FnOnce(&mut Txn<'r>) -> Result<T::At<'r>>,
    ) -> Result<Root<T>> {
        self.root_or_init(name, |tx| {
            let value = init(tx)?;
            tx.alloc_at::<T>(value)
        })
    }

    /// Returns the root with this name, which must exist.
    ///
    /// # Errors
    /// [`Error::NoSuchRoot`]; [`Error::TypeMismatch`] if the root is of another type (see
    /// [`migrate`](Self::migrate)); [`Error::Unfinished`]; [`Error::UnsupportedType`]; [`Error::Closed`],
    /// [`Error::Forked`], [`Error::Failed`], [`Error::Misplaced`]. If the program has annotated the type
    /// since the root was created, the heap records the new type: that may fail with [`Error::HeldPointers`],
    /// [`Error::PointerToPart`], [`Error::Nested`], [`Error::SeveralHeaps`], and the errors of a transaction.
    pub fn existing_root<T: Persist>(&self, name: &str) -> Result<Root<T>> {
        match Root::find_by_name(self.inner(), name) {
            Err(Error::TypeMismatch { .. }) if self.accept(name, <T as Persist>::desc())? => {
                Root::find_by_name(self.inner(), name)
            }
            found => found,
        }
    }

    /// Returns the root with this name. If it does not exist, creates it; `init` allocates the root object.
    fn root_or_init<T: Persist>(
        &self,
        name: &str,
        init: impl for<'r> FnOnce(&mut Txn<'r>) -> Result<P<'r, T::At<'r>>>,
    ) -> Result<Root<T>> {
        match self.existing_root(name) {
            Err(Error::NoSuchRoot(_)) => {}
            found => return found,
        }
        let heap = self.inner();
        heap.check_writable()?;
        check_name(name)?;
        let mut creation = heap.lock_creation()?;
        match self.existing_root(name) {
            Err(Error::NoSuchRoot(_)) => {} // no other thread has created it meanwhile
            found => return found,
        }
        let region = heap.create_region(&mut creation, name, <T as Persist>::desc())?;
        let region = Root::<T>::complete(heap, region, name, init)?;
        heap.shown.add(name, &region);
        heap.directory.lock().insert(name.to_owned(), region);
        self.existing_root(name)
    }
}
