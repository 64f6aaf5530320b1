//! Checks pointers to parts of objects when types change: a part may move, or may become something else than
//! the type of its pointer.
//!
//! The collector finds the objects below a root by the types of the pointers, and a pointer to a part does
//! not name the type of the whole object. So the whole may keep its type while its part changes, or may get
//! another part at the same place. Then the collector would not find the objects that the new part leads to,
//! or one word would have two types. Pointers to parts are allowed if both whole and part stay unchanged, and
//! pointers to numbers if the whole is not converted.
//!
//! A pointer to a type without bytes leads nowhere. So it is allowed, unless the type gets bytes, or has lost
//! them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::heap::HeapInner;
use crate::layout::{PointerMap, Successor, TypeLayout};
use crate::region::Exclusive;

/// The type changes below a root. Made while the region is locked, when the type table has the types of all
/// objects of the region.
pub(super) struct TypeChanges<'a> {
    found: &'a [Successor],
    numbers: &'a HashMap<u32, u32>,
    types: Arc<Vec<TypeLayout>>,
}

impl<'a> TypeChanges<'a> {
    pub(super) fn new(heap: &HeapInner, found: &'a [Successor], numbers: &'a HashMap<u32, u32>) -> Self {
        TypeChanges { found, numbers, types: heap.tables.lock().types.types.clone() }
    }

    fn layout_of(&self, number: u32) -> &TypeLayout {
        &self.types[number as usize]
    }

    /// Whether the type changes forbid a pointer to the type `part` that leads into an object of the type
    /// `whole`.
    fn forbids(&self, part: u32, whole: u32) -> bool {
        let changes = |ty: u32| self.numbers.get(&ty).is_some_and(|new| *new != ty);
        let is_converted = self.found.iter().any(|one| one.old == whole && one.conversion.is_some());
        is_converted || (changes(part) || changes(whole)) && !self.layout_of(part).is_number()
    }

    /// Whether values of a type get bytes where they had none, or lose their bytes. Then no pointer to the
    /// type may exist.
    fn is_of_nothing(&self, ty: u32) -> bool {
        let is_empty = |one: &Successor| self.layout_of(ty).is_empty() || one.new.is_empty();
        self.found.iter().any(|one| one.old == ty && one.conversion.is_some() && is_empty(one))
    }

    /// Returns the types to which there may be forbidden pointers, judged by the types of the region's
    /// objects.
    fn suspects(&self, exclusive: &Exclusive<'_>) -> BTreeSet<u32> {
        let wholes: BTreeSet<u32> = exclusive.object_spans().iter().map(|(_, span)| span.entry.ty).collect();
        let mut parts = BTreeSet::new();
        wholes.iter().for_each(|ty| {
            self.layout_of(*ty).for_each_pointer(&mut |to| {
                parts.insert(to);
            })
        });
        parts.retain(|&part| {
            let name = &self.layout_of(part).name;
            let is_in = |&ty: &u32| ty != part && self.layout_of(ty).has_part(name) && self.forbids(part, ty);
            self.is_of_nothing(part) || !self.layout_of(part).is_empty() && wholes.iter().any(is_in)
        });
        parts
    }

    /// Fails with [`Error::PointerToPart`] if an object of the region has a forbidden pointer.
    pub(super) fn check(&self, exclusive: &Exclusive<'_>, root: &str) -> Result<()> {
        let suspects = self.suspects(exclusive);
        if suspects.is_empty() {
            return Ok(());
        }
        let mut maps: HashMap<u32, Vec<(u32, PointerMap)>> = HashMap::new();
        for (number, span) in exclusive.object_spans() {
            let ty = span.entry.ty;
            let maps = maps.entry(ty).or_insert_with(|| {
                let map = |&to: &u32| (to, PointerMap::from_layout(&self.layout_of(ty).with_pointers_to(to)));
                suspects.iter().map(map).filter(|(_, map)| map.has_pointers()).collect()
            });
            let mut whole = None;
            for (to, map) in maps {
                let is_of_nothing = self.is_of_nothing(*to);
                exclusive.pointers_in(number, map, |pointer| {
                    if is_of_nothing {
                        whole = whole.or((pointer != 0).then_some(*to));
                    } else if let Some((ty, is_whole)) = exclusive.type_at(pointer)
                        && (ty != *to || !is_whole)
                        && self.forbids(*to, ty)
                    {
                        whole = Some(ty);
                    }
                });
            }
            if let Some(ty) = whole {
                let type_name = self.layout_of(ty).name.clone();
                return Err(Error::PointerToPart { root: root.to_owned(), type_name });
            }
        }
        Ok(())
    }
}
