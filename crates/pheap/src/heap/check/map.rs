//! A heap as its tables describe it, read anew for each check: where its spans and objects are, and whether a
//! pointer leads to an object.
//!
//! The map shares no state with the allocator and the collector, because a check must find their mistakes.
//! The code that reads the map does not trust the span tables, the headers of regions and the objects.

use std::collections::HashMap;
use std::sync::Arc;

use super::plan::{CheckPlan, header_of, holds};
use crate::error::Result;
use crate::heap::memory::{QuiescentHeap, QuiescentMemory};
use crate::layout::{Shape, TypeLayout, encode_as};
use crate::store::Tables;
use crate::store::arena::{Arena, ENTRY, SpanEntry, SpanKind};
use crate::store::region_header::{REGION_SIZE, RegionHeader};
use crate::store::spans::all_spans;
use crate::store::types::TypeTable;
use crate::store::words::MetadataWords;
use crate::units::PAGE;

/// A span with the content of its entry in the span table.
pub(crate) struct MappedSpan {
    pub(crate) offset: u64,
    pub(crate) kind: SpanKind,
    pub(crate) pages: u64,
    /// Class of the type of the span's objects: see [`HeapMap::classes`].
    pub(crate) ty: u32,
    pub(crate) region: u32,
    /// Bytes of a slot, and number of slots. Both are 0 if the span does not hold objects, or its entry is
    /// wrong.
    pub(crate) slot: u64,
    pub(crate) slots: u64,
    /// Number of slots in all spans before this one.
    pub(crate) first_slot: u64,
}

impl MappedSpan {
    /// Returns the number (in the whole heap) of the slot with the byte at `offset`, and the number of the
    /// slot's bytes before it.
    #[inline]
    pub(crate) fn slot_at(&self, offset: u64) -> (u64, u64) {
        let within = offset - self.offset;
        let slot = if self.slots == 1 { 0 } else { within / self.slot };
        (self.first_slot + slot, within - slot * self.slot)
    }
}

/// A root with the content of its region's header.
pub(crate) struct MappedRoot {
    pub(crate) name: String,
    pub(crate) region: u32,
    /// [Class](HeapMap::classes) of the root's type.
    pub(crate) ty: u32,
    /// Offset of the root object.
    pub(crate) object: u64,
}

/// A place within a slot that holds an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotPlace {
    pub(crate) span: u32,
    /// The number of the slot in the whole heap.
    pub(crate) number: u64,
    /// Offset of the object in the heap.
    pub(crate) start: u64,
    /// Bytes from the object's start to the place.
    pub(crate) inside: u64,
}

/// The spans, types and roots of a heap; see the [module](self).
pub(crate) struct HeapMap<'s> {
    memory: QuiescentMemory<'s>,
    pub(crate) mapped: u64,
    /// The types of the type table, by number. Their pointers name their targets by class.
    pub(crate) types: Arc<Vec<TypeLayout>>,
    /// The class of each type: the number of the first type that is the same. The check compares classes, not
    /// types.
    classes: Vec<u32>,
    /// The plan for checking each type, by the type's number; `None` if the type's layout is impossible.
    pub(super) plans: Vec<Option<CheckPlan>>,
    /// All spans, ordered by offset.
    pub(crate) spans: Vec<MappedSpan>,
    /// Offsets of the spans, in a separate array because each pointer is looked up there.
    starts: Vec<u64>,
    pub(crate) roots: Vec<MappedRoot>,
    pub(crate) slots: u64,
    /// The problems that were found in the heap's tables, as sentences.
    pub(crate) problems: Vec<String>,
}

/// Returns the first page of an arena that has an entry in the span table, but begins none of `spans`.
/// `data_from` returns the offset of the next word that may not be zero, so that holes of a long table are
/// not read.
fn hidden_page(
    heap: MetadataWords<'_>,
    arena: &Arena,
    spans: &[MappedSpan],
    data_from: impl Fn(u64) -> Option<u64>,
) -> Option<u64> {
    let mut at = arena.table();
    while let Some(data) = data_from(at).filter(|&data| data < arena.first_free()) {
        let part = data & !(PAGE - 1);
        at = part + PAGE;
        let entries = (part..at).step_by(ENTRY as usize).filter(|&entry| heap.get(entry) != 0);
        let begins_none = |page: &u64| spans.binary_search_by_key(page, |span| span.offset).is_err();
        if let Some(page) = entries.filter_map(|entry| arena.page_of(entry)).find(begins_none) {
            return Some(page);
        }
    }
    None
}

impl<'s> HeapMap<'s> {
    /// Reads the tables of a heap. No thread changes the heap while the result exists.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) if the tables cannot be read at all.
    pub(super) fn read(still: &'s QuiescentHeap<'_>) -> Result<HeapMap<'s>> {
        let memory = still.memory();
        let tables = &*still.tables();
        let roots = still.roots();
        let types = &tables.types.types;
        let classes = classes(types);
        let mut map = HeapMap {
            memory,
            mapped: tables.header.mapped,
            types: by_class(types, &classes),
            classes,
            plans: Vec::new(),
            spans: Vec::new(),
            starts: Vec::new(),
            roots: Vec::new(),
            slots: 0,
            problems: Vec::new(),
        };
        map.read_types();
        let spans = all_spans(tables.heap, &tables.arenas)?;
        let (salt, first) = (tables.header.salt, tables.header.types);
        let stored = TypeTable::read(tables.heap, salt, first, &spans);
        match stored {
            Ok(stored) => map.problems.extend(tables.types.problems(&stored)),
            Err(error) => map.problems.push(error.to_string()),
        }
        for span in spans {
            map.add_span(span.offset, span.entry);
        }
        for arena in &tables.arenas {
            let Some(page) = hidden_page(tables.heap, arena, &map.spans, |at| still.data_from(at)) else {
                continue;
            };
            map.problems.push(match map.span_at(page) {
                Some(number) => {
                    let at = map.spans[number].offset;
                    format!("the spans at bytes {at} and {page} overlap")
                }
                None => format!("there is a span at byte {page}, where nothing was ever used"),
            });
        }
        map.read_roots(tables, &roots);
        Ok(map)
    }

    fn read_types(&mut self) {
        for (number, ty) in self.types.iter().enumerate() {
            let plan = CheckPlan::compile(ty, &self.types);
            let plan = plan.map_err(|what| self.problems.push(format!("type {number}, {what}")));
            self.plans.push(plan.ok());
        }
    }

    fn add_span(&mut self, offset: u64, entry: SpanEntry) {
        let SpanEntry { kind, slot, pages, ty, region } = entry;
        let pages = u64::from(pages);
        let mut span = MappedSpan {
            offset,
            kind,
            pages,
            ty: self.class(ty),
            region,
            slot: 0,
            slots: 0,
            first_slot: self.slots,
        };
        match self.slots_of(&span, slot.into()) {
            Ok((slot, slots)) => {
                (span.slot, span.slots) = (slot, slots);
                self.slots += slots;
            }
            Err(what) => self.problems.push(format!("the span at byte {offset} {what}")),
        }
        self.starts.push(offset);
        self.spans.push(span);
    }

    /// Returns the size and number of the slots of a span whose entry has the slot size `slot`. The error
    /// describes a wrong entry.
    fn slots_of(&self, span: &MappedSpan, slot: u64) -> Result<(u64, u64), String> {
        let len = span.pages * PAGE;
        match span.kind {
            SpanKind::Region if slot != 0 || len != REGION_SIZE => {
                Err("is not like that of a root".to_owned())
            }
            SpanKind::Log if slot != 0 || span.ty != 0 => Err("is not like one of a log".to_owned()),
            SpanKind::Types if (slot, span.ty, span.region) != (0, 0, 0) => {
                Err("is not like one of the type table".to_owned())
            }
            SpanKind::Region | SpanKind::Log | SpanKind::Types => Ok((0, 0)),
            SpanKind::Small | SpanKind::Large => {
                let Some(plan) = self.plans.get(span.ty as usize) else {
                    return Err(format!("is of type {}, which is not in the type table", span.ty));
                };
                let Some(plan) = plan else { return Err("is of an impossible type".to_owned()) };
                let large = span.kind == SpanKind::Large;
                let size = if large { len } else { slot };
                let fits = size >= plan.least.max(8)
                    && size <= len
                    && size.is_multiple_of(plan.align.max(8))
                    && plan.align <= PAGE
                    && (!large || slot == 0);
                if fits {
                    Ok((size, if large { 1 } else { len / size }))
                } else {
                    let name = &self.types[span.ty as usize].name;
                    Err(format!("has slots of {size} bytes, which do not fit its type `{name}`"))
                }
            }
        }
    }

    /// Returns the class of a type; the number itself, if there is no such type.
    fn class(&self, ty: u32) -> u32 {
        self.classes.get(ty as usize).copied().unwrap_or(ty)
    }

    fn read_roots(&mut self, tables: &Tables, roots: &[String]) {
        let mut missing: Vec<&str> = roots.iter().map(String::as_str).collect();
        for i in 0..self.spans.len() {
            let MappedSpan { offset, kind, region, ty, pages, .. } = self.spans[i];
            if kind != SpanKind::Region || pages * PAGE != REGION_SIZE {
                continue;
            }
            let read = || -> Result<_> {
                let header = RegionHeader::from_offset(tables.heap, offset);
                Ok((header.read(tables.header.salt)?, header.root()?, header.name()?, header.is_removed()?))
            };
            match read() {
                Err(error) => self.problems.push(format!("the root at byte {offset}: {error}")),
                Ok((_, object, _, removed)) if removed || object == 0 => {
                    self.problems.push(format!("the root at byte {offset} was removed, or never made"));
                }
                Ok(((id, of), ..)) if (id, self.class(of)) != (region, ty) => {
                    self.problems
                        .push(format!("the root at byte {offset} and its span contradict each other"));
                }
                Ok((_, object, name, _)) => {
                    if let Some(at) = missing.iter().position(|other| *other == name) {
                        missing.swap_remove(at);
                    } else {
                        self.problems
                            .push(format!("root {name:?}, at byte {offset}, is not in the list of roots"));
                    }
                    if self.roots.iter().any(|other| other.region == region) {
                        self.problems.push(format!("root {name:?} has the number of another one"));
                    }
                    self.roots.push(MappedRoot { name, region, ty, object });
                }
            }
        }
        self.problems.extend(missing.iter().map(|name| format!("root {name:?} is not in the span tables")));
        let of_nobody = |span: &&MappedSpan| {
            span.kind != SpanKind::Types && !self.roots.iter().any(|root| root.region == span.region)
        };
        let orphans: Vec<u64> = self.spans.iter().filter(of_nobody).map(|span| span.offset).collect();
        self.problems.extend(orphans.iter().map(|at| format!("the span at byte {at} belongs to no root")));
    }

    /// Returns `len` bytes at offset `at` of the heap.
    ///
    /// # Panics
    /// If the range is not within the heap.
    #[inline]
    pub(crate) fn bytes(&self, at: u64, len: u64) -> &'s [u8] {
        self.memory.bytes(at, len)
    }

    /// Returns the word at an offset.
    #[inline]
    fn read_word(&self, at: u64) -> u64 {
        u64::from_ne_bytes(*self.bytes(at, 8).first_chunk().expect("as many were asked for"))
    }

    /// Returns the address at which the byte at `offset` is mapped.
    #[inline(always)]
    pub(crate) fn addr(&self, offset: u64) -> *const u8 {
        self.memory.base().wrapping_add(offset as usize)
    }

    /// Returns the name of a type; `?` if there is no such type.
    pub(crate) fn type_name(&self, ty: u32) -> &str {
        self.types.get(ty as usize).map_or("?", |ty| ty.name.as_str())
    }

    /// Returns the offset in the heap of an address. The subtraction wraps around if the address is before
    /// the heap.
    #[inline(always)]
    pub(crate) fn offset_of(&self, addr: u64) -> u64 {
        addr.wrapping_sub(self.memory.base().addr() as u64)
    }

    /// Returns the number of the span with the byte at `offset`.
    #[inline]
    fn span_at(&self, offset: u64) -> Option<usize> {
        let number = self.starts.partition_point(|&start| start <= offset).checked_sub(1)?;
        let span = &self.spans[number];
        (offset - span.offset < span.pages * PAGE).then_some(number)
    }

    /// Returns the place to which a pointer to a `target` leads that was found in an object of `region`.
    /// Returns `None` if the pointer is null, or if a `target` has no bytes, and the address is aligned for
    /// it and leads to no object with such a part.
    ///
    /// # Errors
    /// A text that describes the problem.
    #[inline]
    pub(crate) fn locate(&self, addr: u64, target: u32, region: u32) -> Result<Option<SlotPlace>, String> {
        match self.locate_target(addr, target, region) {
            None if addr == 0 => Ok(None),
            None if self.is_empty(target) && addr.is_multiple_of(self.types[target as usize].align) => {
                Ok(None)
            }
            None => Err(self.explain(addr, target, region)),
            found => Ok(found),
        }
    }

    /// Returns whether a type has no bytes. A pointer to such a type leads to no object, whatever is at its
    /// address.
    #[inline]
    pub(super) fn is_empty(&self, ty: u32) -> bool {
        self.types.get(ty as usize).is_some_and(TypeLayout::is_empty)
    }

    /// Returns the place of a `target` at an address, in an object of a region.
    #[inline]
    fn locate_target(&self, addr: u64, target: u32, region: u32) -> Option<SlotPlace> {
        let offset = self.offset_of(addr);
        let number = self.span_at(offset)?;
        let span = &self.spans[number];
        if span.region != region || span.slots == 0 {
            return None;
        }
        let (slot, inside) = span.slot_at(offset);
        let start = offset - inside;
        let is_there = slot < span.first_slot + span.slots
            && (inside == 0 && span.ty == target || self.lies_in(span, start, inside, target));
        is_there.then_some(SlotPlace { span: number as u32, number: slot, start, inside })
    }

    /// Describes why there is no `target` at the address in an object of `region`.
    #[cold]
    fn explain(&self, addr: u64, target: u32, region: u32) -> String {
        let offset = self.offset_of(addr);
        if offset >= self.mapped {
            return format!("points to {addr:#x}, outside of the heap");
        }
        let why = match self.span_at(offset).map(|number| &self.spans[number]) {
            None => "which belongs to no span".to_owned(),
            Some(span) if !matches!(span.kind, SpanKind::Small | SpanKind::Large) => {
                "which is not for objects".to_owned()
            }
            Some(span) if span.region != region => {
                match self.roots.iter().find(|root| root.region == span.region) {
                    Some(root) => format!("which belongs to root {:?}", root.name),
                    None => "which belongs to no root".to_owned(),
                }
            }
            Some(span) if span.slots == 0 => "in a span that is damaged".to_owned(),
            Some(span) => {
                let (found, target) = (self.type_name(span.ty), self.type_name(target));
                format!("{} bytes into a `{found}`, as if it were a `{target}`", span.slot_at(offset).1)
            }
        };
        format!("points to byte {offset}, {why}")
    }

    /// Returns whether there is a value of type `target` at byte `inside` of the object at byte `start`,
    /// which is in `span`. Values in variants of enums do not count.
    #[cold]
    fn lies_in(&self, span: &MappedSpan, start: u64, inside: u64, target: u32) -> bool {
        let Some(target) = self.types.get(target as usize) else { return false };
        let ty = &self.types[span.ty as usize];
        let Shape::Slice(elem) = &ty.shape else { return holds(ty, inside, target) };
        let Some(at) = inside.checked_sub(header_of(elem)) else { return false };
        if elem.size == 0 || at % elem.size + target.size > elem.size {
            return false;
        }
        let len = self.read_word(start);
        let room = (span.slot - header_of(elem)) / elem.size;
        at / elem.size < len && len <= room && holds(elem, at % elem.size, target)
    }

    /// Returns the number of elements of the slice, or of bytes of the string, at `start` in a slot of
    /// `span`; 0 for other objects.
    ///
    /// # Errors
    /// A text with the length, if it does not fit into the slot.
    #[inline]
    pub(crate) fn len_of(&self, span: &MappedSpan, start: u64) -> Result<u64, String> {
        let plan = self.plan(span);
        let Some(stride) = plan.stride else { return Ok(0) };
        let (len, slot) = (self.read_word(start), span.slot);
        match len.checked_mul(stride) {
            // If the elements have no bytes, any number of them fits.
            Some(bytes) if bytes <= slot - plan.least => Ok(len),
            _ => Err(format!("has a length of {len}, in a slot of {slot} bytes")),
        }
    }

    /// Returns the number of the span with the byte at `offset`, and the offset in the heap of the slot that
    /// has this byte. Returns `None` if no slot has it.
    pub(crate) fn slot_at(&self, offset: u64) -> Option<(u32, u64)> {
        let number = self.span_at(offset)?;
        let span = &self.spans[number];
        if span.slots == 0 {
            return None;
        }
        let (slot, inside) = span.slot_at(offset);
        // Behind the last slot, a span may have bytes of no slot.
        (slot < span.first_slot + span.slots && inside < span.slot)
            .then_some((number as u32, offset - inside))
    }

    /// Returns the plan for the objects of a span that has slots.
    #[inline(always)]
    pub(super) fn plan(&self, span: &MappedSpan) -> &CheckPlan {
        self.plans[span.ty as usize].as_ref().expect("a span with slots has a type that is possible")
    }
}

/// Returns the types, with pointers that name their targets by class.
fn by_class(types: &Arc<Vec<TypeLayout>>, classes: &[u32]) -> Arc<Vec<TypeLayout>> {
    if classes.iter().copied().eq(0..classes.len() as u32) {
        return types.clone(); // no type is in the table twice
    }
    Arc::new(types.iter().map(|ty| ty.renumbered(&|to| classes[to as usize])).collect())
}

/// Returns the class of each type: the first type that is the same, which has the same layout, with pointers
/// to types that are the same. (The type table may have a type twice.)
fn classes(types: &[TypeLayout]) -> Vec<u32> {
    // At first, types that are equal except for their pointers' targets are one class.
    let mut first = HashMap::new();
    let classes = types.iter().zip(0..).map(|(ty, number)| {
        let mut key = Vec::new();
        encode_as(ty, &mut key, &|_| 0);
        *first.entry(key).or_insert(number)
    });
    let mut classes: Vec<u32> = classes.collect();
    let mut count = first.len();
    // Each round separates types whose pointers lead to different classes.
    while count < types.len() {
        let mut first = HashMap::new();
        let refined = types.iter().zip(0..).map(|(ty, number)| {
            let mut key = vec![classes[number as usize]];
            ty.for_each_pointer(&mut |to| key.push(classes[to as usize]));
            *first.entry(key).or_insert(number)
        });
        let refined: Vec<u32> = refined.collect();
        if first.len() == count {
            break;
        }
        (classes, count) = (refined, first.len());
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the type of a pointer to the type with the number `to`.
    fn to(to: u32) -> TypeLayout {
        TypeLayout { name: "P".into(), size: 8, align: 8, shape: Shape::Ptr { nullable: true, to } }
    }

    #[test]
    fn types_are_the_same_if_all_that_they_lead_to_is() {
        let str = TypeLayout { name: "str".into(), size: 1, align: 1, shape: Shape::Str };
        // Types 0 and 1 lead to each other, and types 3 and 4 do, too. Type 6 leads to type 7, which is the
        // end of another chain of the same length.
        let types = [to(1), to(0), str.clone(), to(4), to(3), to(2), to(7), str, to(6), to(5)];
        assert_eq!(classes(&types), [0, 0, 2, 0, 0, 5, 5, 2, 8, 8]);
        assert_eq!(classes(&types[..2]), [0, 0]);
        assert_eq!(classes(&[]), [0; 0]);
    }
}
