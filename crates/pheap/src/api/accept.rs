//! A root whose type the program has annotated since: it is taken as what it is now.
//!
//! Objects stay as they are: all that the heap has of the old types are values of the new ones ([`successors`](crate::layout::successors)). What changes is what the heap says of them: the type of the
//! root, and that of each span of objects. That must change before any object is written as one of a new type: with a pointer in a variant that the old type did not have, the collector would not find
//! it. **One transaction writes all of it**, so there is no crash that leaves some of it.
//!
//! Somebody who holds a pointer, or a snapshot, has it as one of an old type, and might read a value that this type does not have. So nobody may hold any. (A snapshot of a root that is a map may be taken
//! meanwhile, of its [durable version](crate::Root::durable_snapshot): nothing in it is written any more, so it has old values only.)

use std::collections::HashMap;

use super::parts::Changes;
use super::root::write_root;
use crate::error::{Error, Result};
use crate::heap::types::are_values;
use crate::heap::{Heap, HeapInner};
use crate::layout::desc::Desc;
use crate::layout::{Successor, successors};
use crate::region::{Exclusive, NewRoot, Region};
use crate::store::arena::SpanEntry;
use crate::store::spans::Span;

impl Heap {
    /// Gives a root the type that the program has made of its type, if annotations say how. Returns whether the root has it.
    ///
    /// # Errors
    /// [`Error::Nested`], [`Error::HeldPointers`], [`Error::PointerToPart`], and those of a transaction.
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
        if heap.tables.lock().types.is(region.ty(), desc)? {
            return Ok(true); // somebody else was faster
        }
        let Some(found) = found(&region) else { return Ok(false) };
        let (ty, numbers) = heap.numbers(desc, &found)?;
        heap.retype(&region, name, ty, &found, &numbers)?;
        Ok(true)
    }
}

impl HeapInner {
    /// The number of a type, and what the numbers of others become.
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

    /// Gives the root of a region the type `ty`, and its objects others, by their numbers.
    pub(super) fn retype(
        &self,
        region: &Region,
        name: &str,
        ty: u32,
        found: &[Successor],
        numbers: &HashMap<u32, u32>,
    ) -> Result<()> {
        let mut exclusive = Exclusive::begin(self, region, region.ty())?;
        // A read that has begun may still take a snapshot.
        exclusive.context().upgrade();
        if region.held.is_used() {
            return Err(Error::HeldPointers { root: name.to_owned() });
        }
        let changes = Changes::new(self, found, numbers);
        if changes.check(&exclusive, name).is_err() {
            // The pointer may be in a dead object.
            exclusive.trace();
            changes.check(&exclusive, name)?;
        }
        let context = exclusive.context();
        let retyped = |span: &Span| {
            let ty = *numbers.get(&span.entry.ty).filter(|ty| **ty != span.entry.ty)?;
            Some(Span { entry: SpanEntry { ty, ..span.entry }, ..*span })
        };
        let spans: Vec<Span> = context.alloc.spans.iter().filter_map(|span| retyped(&span.span)).collect();
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
