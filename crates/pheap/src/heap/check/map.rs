//! A heap as its tables describe it, made anew each time: where its spans and objects are, and whether a pointer leads to one.
//!
//! It shares nothing with the allocator and the collector, whose mistakes it is to find, and believes nothing that it reads.

use std::collections::HashMap;
use std::sync::Arc;

use super::plan::{Plan, header_of, holds};
use crate::error::Result;
use crate::heap::memory::{Still, StillMemory};
use crate::layout::{Shape, TypeLayout, encode_as};
use crate::store::Tables;
use crate::store::arena::{Arena, ENTRY, SpanEntry, SpanKind};
use crate::store::region_header::{REGION_SIZE, RegionHeader};
use crate::store::spans::all_spans;
use crate::store::types::TypeTable;
use crate::store::words::Words;
use crate::units::PAGE;

/// A span as the span table has it.
pub(crate) struct MappedSpan {
    pub(crate) offset: u64,
    pub(crate) kind: SpanKind,
    pub(crate) pages: u64,
    /// Class of its type.
    pub(crate) ty: u32,
    pub(crate) region: u32,
    /// Bytes of a slot, and their number; 0 if the span does not hold objects, or not such as it should.
    pub(crate) slot: u64,
    pub(crate) slots: u64,
    /// Slots of the spans before it.
    pub(crate) first_slot: u64,
}

impl MappedSpan {
    /// The number of the slot, in the whole heap, that a byte of the span lies in, and how many bytes are before it there.
    #[inline]
    pub(crate) fn slot_at(&self, offset: u64) -> (u64, u64) {
        let within = offset - self.offset;
        let slot = if self.slots == 1 { 0 } else { within / self.slot };
        (self.first_slot + slot, within - slot * self.slot)
    }
}

/// A root as its region has it.
pub(crate) struct MappedRoot {
    pub(crate) name: String,
    pub(crate) region: u32,
    /// Class of its type.
    pub(crate) ty: u32,
    /// Offset of the root object.
    pub(crate) object: u64,
}

/// A place in a slot that holds an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) span: u32,
    /// The number of the slot in the whole heap.
    pub(crate) number: u64,
    /// Offset of the object.
    pub(crate) start: u64,
    /// Bytes from there to the place.
    pub(crate) inside: u64,
}

/// See the [module](self).
pub(crate) struct HeapMap<'s> {
    memory: StillMemory<'s>,
    pub(crate) mapped: u64,
    /// The types, whose pointers name their targets by class.
    pub(crate) types: Arc<Vec<TypeLayout>>,
    /// The class of each type: the first type that is the same. Only classes are compared.
    classes: Vec<u32>,
    /// By type; `None` if the layout is impossible.
    pub(super) plans: Vec<Option<Plan>>,
    /// By offset.
    pub(crate) spans: Vec<MappedSpan>,
    /// Their offsets, side by side, for each pointer is looked up there.
    starts: Vec<u64>,
    pub(crate) roots: Vec<MappedRoot>,
    pub(crate) slots: u64,
    /// What is wrong with the tables themselves.
    pub(crate) problems: Vec<String>,
}

/// The first page of an arena that has an entry, and begins none of these spans. `data_from` says where the next words are that may not be zero: a table may be longer than anyone
/// could read.
fn hidden_page(
    heap: Words<'_>,
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
    /// Reads the tables of a heap that nobody changes as long as there is this.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) if they cannot even be read.
    pub(super) fn read(still: &'s Still<'_>) -> Result<HeapMap<'s>> {
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
            let plan = Plan::of(ty, &self.types);
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

    /// Size and number of the slots of a span, whose entry says `slot`, or what is wrong with the entry.
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

    /// The class of a type; the number itself, if there is no such type.
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
                let header = RegionHeader::at(tables.heap, offset);
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

    /// So many bytes of the heap.
    ///
    /// # Panics
    /// If they are not all there.
    #[inline]
    pub(crate) fn bytes(&self, at: u64, len: u64) -> &'s [u8] {
        self.memory.bytes(at, len)
    }

    /// The word at an offset.
    #[inline]
    fn word(&self, at: u64) -> u64 {
        u64::from_ne_bytes(*self.bytes(at, 8).first_chunk().expect("as many were asked for"))
    }

    /// The address of an offset.
    #[inline(always)]
    pub(crate) fn addr(&self, offset: u64) -> *const u8 {
        self.memory.base().wrapping_add(offset as usize)
    }

    /// The name of a type.
    pub(crate) fn type_name(&self, ty: u32) -> &str {
        self.types.get(ty as usize).map_or("?", |ty| ty.name.as_str())
    }

    /// The offset of an address.
    #[inline(always)]
    pub(crate) fn offset_of(&self, addr: u64) -> u64 {
        addr.wrapping_sub(self.memory.base().addr() as u64)
    }

    /// Number of the span that the byte at `offset` is in.
    #[inline]
    fn span_at(&self, offset: u64) -> Option<usize> {
        let number = self.starts.partition_point(|&start| start <= offset).checked_sub(1)?;
        let span = &self.spans[number];
        (offset - span.offset < span.pages * PAGE).then_some(number)
    }

    /// Where a pointer to a `target`, found in an object of `region`, leads. `None` if it is null, or if
    /// there is nothing to be read where it leads because a `target` has no bytes.
    ///
    /// # Errors
    /// What is wrong, for people.
    #[inline]
    pub(crate) fn locate(&self, addr: u64, target: u32, region: u32) -> Result<Option<Place>, String> {
        match self.find(addr, target, region) {
            None if addr == 0 => Ok(None),
            None if self.is_empty(target) && addr.is_multiple_of(self.types[target as usize].align) => {
                Ok(None)
            }
            None => Err(self.explain(addr, target, region)),
            found => Ok(found),
        }
    }

    /// Whether a type has no bytes. A pointer to it leads nowhere, whatever is at its address.
    #[inline]
    pub(super) fn is_empty(&self, ty: u32) -> bool {
        self.types.get(ty as usize).is_some_and(TypeLayout::is_empty)
    }

    /// Where the object of a region is that has a `target` at an address.
    #[inline]
    fn find(&self, addr: u64, target: u32, region: u32) -> Option<Place> {
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
        is_there.then_some(Place { span: number as u32, number: slot, start, inside })
    }

    /// Why that is nowhere.
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

    /// Whether a `target` lies `inside` so many bytes of the object at byte `start`, which is in a span.
    #[cold]
    fn lies_in(&self, span: &MappedSpan, start: u64, inside: u64, target: u32) -> bool {
        let Some(target) = self.types.get(target as usize) else { return false };
        let ty = &self.types[span.ty as usize];
        let Shape::Slice(elem) = &ty.shape else { return holds(ty, inside, target) };
        let Some(at) = inside.checked_sub(header_of(elem)) else { return false };
        if elem.size == 0 || at % elem.size + target.size > elem.size {
            return false;
        }
        let len = self.word(start);
        let room = (span.slot - header_of(elem)) / elem.size;
        at / elem.size < len && len <= room && holds(elem, at % elem.size, target)
    }

    /// Elements or bytes of the object in a slot of `span` at `start`.
    ///
    /// # Errors
    /// What its length is, if that does not fit; for people.
    #[inline]
    pub(crate) fn len_of(&self, span: &MappedSpan, start: u64) -> Result<u64, String> {
        let plan = self.plan(span);
        let Some(stride) = plan.stride else { return Ok(0) };
        let (len, slot) = (self.word(start), span.slot);
        match len.checked_mul(stride) {
            // Elements without bytes: as many as one likes.
            Some(bytes) if bytes <= slot - plan.least => Ok(len),
            _ => Err(format!("has a length of {len}, in a slot of {slot} bytes")),
        }
    }

    /// The span that the byte at `offset` lies in, and where the slot begins.
    pub(crate) fn slot_at(&self, offset: u64) -> Option<(u32, u64)> {
        let number = self.span_at(offset)?;
        let span = &self.spans[number];
        if span.slots == 0 {
            return None;
        }
        let (slot, inside) = span.slot_at(offset);
        (slot < span.first_slot + span.slots).then_some((number as u32, offset - inside))
    }

    /// The plan for the objects of a span that has slots.
    #[inline(always)]
    pub(super) fn plan(&self, span: &MappedSpan) -> &Plan {
        self.plans[span.ty as usize].as_ref().expect("a span with slots has a type that is possible")
    }
}

/// The types, with pointers that name their targets by class.
fn by_class(types: &Arc<Vec<TypeLayout>>, classes: &[u32]) -> Arc<Vec<TypeLayout>> {
    if classes.iter().copied().eq(0..classes.len() as u32) {
        return types.clone(); // no type is there twice
    }
    Arc::new(types.iter().map(|ty| ty.renumbered(&|to| classes[to as usize])).collect())
}

/// For each type, the first one that is the same: of the same layout, with pointers to types that are the same. (The type table may have a
/// type twice.)
fn classes(types: &[TypeLayout]) -> Vec<u32> {
    // What looks the same is one class at first, whatever its pointers lead to.
    let mut first = HashMap::new();
    let classes = types.iter().zip(0..).map(|(ty, number)| {
        let mut key = Vec::new();
        encode_as(ty, &mut key, &|_| 0);
        *first.entry(key).or_insert(number)
    });
    let mut classes: Vec<u32> = classes.collect();
    let mut count = first.len();
    // Each round tells those apart that point to different classes.
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

    /// A pointer.
    fn to(to: u32) -> TypeLayout {
        TypeLayout { name: "P".into(), size: 8, align: 8, shape: Shape::Ptr { nullable: true, to } }
    }

    #[test]
    fn types_are_the_same_if_all_that_they_lead_to_is() {
        let str = TypeLayout { name: "str".into(), size: 1, align: 1, shape: Shape::Str };
        // 0 and 1 lead to each other, and so do 3 and 4; 6 leads to 7, which is another end of the same length.
        let types = [to(1), to(0), str.clone(), to(4), to(3), to(2), to(7), str, to(6), to(5)];
        assert_eq!(classes(&types), [0, 0, 2, 0, 0, 5, 5, 2, 8, 8]);
        assert_eq!(classes(&types[..2]), [0, 0]);
        assert_eq!(classes(&[]), [0; 0]);
    }
}
