//! A root whose type the program has annotated since it was created: the heap accepts it as the new type.
//!
//! The objects stay as they are: every value of an old type is a value of the new one
//! ([`successors`](crate::layout::successors)). Only the heap's records of the types change: the type of the
//! root, and the types of the spans of its objects. These records must change before the program writes an
//! object of a new type. Otherwise, if a variant that the old type did not have contains a pointer, the
//! collector would miss that pointer. **One transaction writes all the records**, so no crash leaves only
//! some of them.
//!
//! No held pointer and no snapshot of the root may exist: such a pointer or snapshot would have the old type,
//! and might read a value that the old type does not have. (A thread may still take a snapshot of the
//! [durable version](crate::Root::durable_snapshot) of a map: no transaction writes into that version any
//! more, so it has values of the old type only.)

use std::collections::HashMap;

use super::parts::TypeChanges;
use super::root::write_root;
use crate::error::{Error, Result};
use crate::heap::types::are_values;
use crate::heap::{Heap, HeapInner};
use crate::layout::desc::Desc;
use crate::layout::{Successor, successors};
use crate::region::{Exclusive, NewRoot, Region};
use crate::store::arena::SpanEntry;
use crate::store::spans::TakenSpan;

impl Heap {
    /// Changes the recorded type of a root to the program's type, if annotations explain the difference.
    /// Returns whether the root has that type now.
    ///
    /// # Errors
    /// [`Error::NoSuchRoot`], [`Error::Nested`], [`Error::SeveralHeaps`], [`Error::HeldPointers`],
    /// [`Error::PointerToPart`], and others, such as those of a transaction.
    pub(super) fn accept(&self, name: &str, desc: &'static Desc) -> Result<bool> {
        let heap = self.inner();
        let found = |region: &Region| {
            let types = &heap.tables.lock().types.types;
            successors(types, region.ty(), desc, &[]).ok().filter(|found| are_values(found))
        };
        if heap.is_read_only() || found(&*heap.region(name)?).is_none() {
            return Ok(false);
        }
        let _creation = heap.lock_creation()?;
        let region = heap.region(name)?;
        if heap.tables.lock().types.matches_type(region.ty(), desc)? {
            return Ok(true); // another thread has accepted the type meanwhile
        }
        let Some(found) = found(&region) else { return Ok(false) };
        let (ty, numbers) = heap.numbers(desc, &found)?;
        heap.retype(&region, name, ty, &found, &numbers)?;
        Ok(true)
    }
}

impl HeapInner {
    /// Returns the number of the type that `desc` describes, and a map from the number of each old type to
    /// the number of its successor. Adds types that the type table does not have yet.
    pub(super) fn numbers(
        &self,
        desc: &'static Desc,
        found: &[Successor],
    ) -> Result<(u32, HashMap<u32, u32>)> {
        let mut tables = self.tables.lock();
        let ty = tables.register(self, desc)?;
        let mut register = |successor: &Successor| Ok((successor.old, tables.register(self, successor.new)?));
        let numbers = found.iter().map(&mut register).collect::<Result<_>>()?;
        Ok((ty, numbers))
    }

    /// Changes the recorded types in one transaction: that of the region's root to `ty`, and those of the
    /// spans of its objects as the map `numbers` says (old type number to new type number).
    pub(super) fn retype(
        &self,
        region: &Region,
        name: &str,
        ty: u32,
        found: &[Successor],
        numbers: &HashMap<u32, u32>,
    ) -> Result<()> {
        let mut exclusive = Exclusive::begin_transaction(self, region, region.ty())?;
        // Waits until running reads have ended, because a read may still take a snapshot of the root.
        exclusive.context().upgrade();
        if region.held.is_used() {
            return Err(Error::HeldPointers { root: name.to_owned() });
        }
        let changes = TypeChanges::new(self, found, numbers);
        if changes.check(&exclusive, name).is_err() {
            // The forbidden pointer may be in a dead object. So frees the dead objects, and checks again.
            exclusive.trace();
            changes.check(&exclusive, name)?;
        }
        let context = exclusive.context();
        let retyped = |span: &TakenSpan| {
            let ty = *numbers.get(&span.entry.ty).filter(|ty| **ty != span.entry.ty)?;
            Some(TakenSpan { entry: SpanEntry { ty, ..span.entry }, ..*span })
        };
        let spans: Vec<TakenSpan> =
            context.alloc.spans.iter().filter_map(|span| retyped(&span.span)).collect();
        spans.iter().for_each(|span| context.alloc.record_again(*span));
        let from = region.ty();
        let by = NewRoot::Renamed { from };
        let replace = write_root(self, region, &mut exclusive, region.root(), ty, by)?;
        exclusive.commit(|context| {
            replace(context);
            context.alloc.retype(self, &spans);
        })?;
        region.set_ty(ty);
        Ok(())
    }
}
