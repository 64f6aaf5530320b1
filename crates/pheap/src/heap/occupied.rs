//! Finds the used slots in buffers of collections. A buffer does not say which of its slots are used; the
//! collection that owns the buffer does.

use std::collections::{BTreeSet, HashMap};

use super::check::rule::{CollectionRule, Vector};
use crate::layout::{OccupiedSlots, PointerMap, TypeLayout};
use crate::region::Exclusive;

/// The used slots of each buffer, by the buffer's address.
pub(crate) type Occupants = HashMap<u64, OccupiedSlots>;

/// Returns the used slots of each buffer in the region whose type has one of the numbers `buffers`. `types`
/// is the type table.
///
/// The result takes some 40 bytes of memory for each buffer.
pub(crate) fn occupied(
    exclusive: &Exclusive<'_>,
    types: &[TypeLayout],
    buffers: &BTreeSet<u32>,
) -> Occupants {
    let mut found = HashMap::new();
    if buffers.is_empty() {
        return found;
    }
    let mut owners: HashMap<u32, Vec<(Vector, PointerMap)>> = HashMap::new();
    for (number, span) in exclusive.object_spans() {
        let ty = span.entry.ty;
        for (owner, map) in owners.entry(ty).or_insert_with(|| owners_in(&types[ty as usize], buffers)) {
            let distance = |at: u64| at as i64 - owner.buffer.at as i64;
            let distances = [owner.len, owner.head.unwrap_or(owner.len)].map(distance);
            exclusive.pointers_with(number, map, distances, |buffer, [count, head]| {
                let first = if owner.head.is_some() { head } else { 0 };
                found.insert(buffer, OccupiedSlots { first, count });
            });
        }
    }
    found
}

/// Returns the collections in a value of type `ty`, the value itself included, that own a buffer whose type
/// has one of the numbers `buffers`. For each, returns the offsets of the words that say which slots are
/// used, and the map of the pointer to the buffer.
fn owners_in(ty: &TypeLayout, buffers: &BTreeSet<u32>) -> Vec<(Vector, PointerMap)> {
    // The key includes the buffer's type, because two types of a program may have the same name.
    let mut parts: HashMap<(&str, u32), Vector> = HashMap::new();
    let owner_of = |part: &TypeLayout| -> Option<Vector> {
        let owner = match CollectionRule::from_layout(part)? {
            CollectionRule::Vector(vector) => vector,
            CollectionRule::Hash(hash) => Vector::entries(hash.len, hash.few),
            CollectionRule::Tree(_) | CollectionRule::Snap(_) => return None,
        };
        buffers.contains(&owner.buffer.to).then_some(owner)
    };
    let mut visit = |part| {
        if let Some(owner) = owner_of(part) {
            parts.insert((&part.name, owner.buffer.to), owner);
        }
    };
    visit(ty);
    ty.for_each_part(&mut visit);
    let with_map = |((name, _), owner): ((&str, u32), Vector)| {
        let is_it = |place: (&str, u64), to: u32| place == (name, owner.buffer.at) && to == owner.buffer.to;
        (owner, PointerMap::from_layout(&ty.with_pointers(&is_it)))
    };
    parts.into_iter().map(with_map).collect()
}
