//! Roots by name and type: looking them up, and creating them.

use std::sync::Arc;

use super::root::Root;
use super::tx::Txn;
use crate::error::{Error, Result};
use crate::heap::{Heap, HeapInner, check_name};
use crate::layout::Persist;
use crate::region::{Exclusive, Region, guard};
use crate::store::region_header::root_word;
use crate::txn::context::Context;

impl Heap {
    /// The root with this name. Created, with the default value, if there is none.
    ///
    /// # Errors
    /// [`Error::TypeMismatch`] if the root is of another type (see [`migrate`](Self::migrate)); [`Error::InvalidName`]; [`Error::ReadOnly`], [`Error::OutOfSpace`] and
    /// [`Error::Nested`] if it would have to be created.
    pub fn root<T: Persist + Default>(&self, name: &str) -> Result<Root<T>> {
        // SAFETY: a value made outside of any transaction contains no pointers.
        self.root_or_init(name, |tx| unsafe { tx.alloc_unbranded(T::default()) }.map(|p| p.addr().as_ptr()))
    }

    /// The root with this name. Created by `init`, which runs in the transaction that creates it, if there is none.
    ///
    /// # Errors
    /// As for [`root`](Self::root), and what `init` returns.
    pub fn root_or<T: Persist>(
        &self,
        name: &str,
        init: impl for<'r> FnOnce(&mut Txn<'r>) -> Result<T::At<'r>>,
    ) -> Result<Root<T>> {
        self.root_or_init(name, |tx| {
            let value = init(tx)?;
            // SAFETY: `init` works for all brands, so what it returns has that of the transaction.
            unsafe { tx.alloc_unbranded(value) }.map(|p| p.addr().as_ptr())
        })
    }

    /// The root with this name, which must exist.
    ///
    /// # Errors
    /// [`Error::NoSuchRoot`], [`Error::TypeMismatch`].
    pub fn existing_root<T: Persist>(&self, name: &str) -> Result<Root<T>> {
        let heap = self.inner();
        heap.check_open()?;
        let region = heap.region(name)?;
        let ty = heap.check_type(&region, name, <T as Persist>::desc())?;
        // SAFETY: the number was just looked up.
        Ok(unsafe { Root::new(heap.clone(), region, ty) })
    }

    /// `init` allocates the root object and returns its address.
    fn root_or_init<T: Persist>(
        &self,
        name: &str,
        init: impl FnOnce(&mut Txn<'_>) -> Result<*mut u8>,
    ) -> Result<Root<T>> {
        match self.existing_root(name) {
            Err(Error::NoSuchRoot(_)) => {}
            found => return found,
        }
        let heap = self.inner();
        heap.check_writable()?;
        check_name(name)?;
        if guard::is_inside(heap.id()) {
            return Err(Error::Nested);
        }
        let mut creation = heap.lock_creation()?;
        match self.existing_root(name) {
            Err(Error::NoSuchRoot(_)) => {} // nobody else was faster
            found => return found,
        }
        let region = Arc::new(heap.create_region(&mut creation, name, <T as Persist>::desc())?);
        let mut unfinished = Unfinished { heap, region: Some(region) };
        let offset = heap.create_root_object(unfinished.region(), init)?;
        let region = unfinished.region.take().expect("it was there just now");
        region.set_root(offset);
        heap.directory.lock().insert(name.to_owned(), region.clone());
        let ty = region.ty();
        // SAFETY: the region was created with the number of `T`.
        Ok(unsafe { Root::new(heap.clone(), region, ty) })
    }
}

/// A region whose root object is not there yet. Its pages are given back if that comes to nothing, also by a panic.
struct Unfinished<'a> {
    heap: &'a HeapInner,
    region: Option<Arc<Region>>,
}

impl Unfinished<'_> {
    fn region(&self) -> &Region {
        self.region.as_ref().expect("only taken when it is finished")
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(region) = &self.region
            && !self.heap.is_forked()
            && let Ok(spans) = region.retire(self.heap, |context| context.spans())
        {
            // SAFETY: a region without a root counts as removed, and nobody else has seen it.
            unsafe { self.heap.tables.lock().free_spans(&spans) };
        }
    }
}

impl HeapInner {
    /// The transaction that completes a region. Returns the offset of its root object.
    fn create_root_object(
        &self,
        region: &Region,
        init: impl FnOnce(&mut Txn<'_>) -> Result<*mut u8>,
    ) -> Result<u64> {
        let mut exclusive = Exclusive::begin(self, region, region.ty())?;
        // SAFETY: the region is locked until `exclusive` goes.
        let root = unsafe { init(&mut Txn::new(exclusive.hot(), &region.held))? };
        self.check_not_forked()?;
        let offset = (root.addr() - self.base().addr()) as u64;
        // SAFETY: a word of the region's header, which nothing refers to.
        unsafe { write_word(&exclusive, region.header.root_word(), root_word(offset)) };
        exclusive.commit()?;
        Ok(offset)
    }
}

/// Writes a word of metadata within the open transaction.
///
/// # Safety
/// The word is mapped and belongs to the region; nothing refers to it.
pub(crate) unsafe fn write_word(exclusive: &Exclusive<'_>, at: *mut u64, word: u64) {
    // SAFETY: the transaction is open, and nobody has a reference to its context; the place is 8 bytes, this transaction's own.
    unsafe {
        let place = Context::writable(exclusive.context(), at.expose_provenance(), 8, 8, None);
        place.cast::<u64>().write(word);
    }
}
