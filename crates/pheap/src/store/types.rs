//! The type table: the layout of every type that objects in the heap ever had, as the program that wrote them
//! had it.
//!
//! It is append-only. Its extents (spans of pages) are a linked list. An extent is a line with the offset of
//! the next extent, then records:
//!
//! | bytes | |
//! |---|---|
//! | 0..8 | checksum, salted, of the rest and of the record's offset |
//! | 8..12 | length of the payload |
//! | 12..16 | number of types in it |
//! | 16.. | for each type: 8 unused bytes (they once held a fingerprint), layout |
//!
//! All types that one program adds at a time are one record, so that they may refer to one another and appear
//! together. A table is never written that could not be read again, and a layout that no compiler could
//! produce is not read.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};
use crate::faults::holds;
use crate::layout::desc::Desc;
use crate::layout::{
    Graph, MAX_BYTES, PointerMap, TypeLayout, check_layout, decode, difference, encode, fingerprints,
};
use crate::media::Media;
use crate::store::arena::SpanKind;
use crate::store::spans::{TakenSpan, span_at};
use crate::store::words::MetadataWords;
use crate::units::LINE;
use crate::units::PAGE;

/// The type table of an open heap.
#[derive(Debug, Default)]
pub(crate) struct TypeTable {
    /// The layouts of all types, by number. Shared with threads that look at one state of the heap.
    pub(crate) types: Arc<Vec<TypeLayout>>,
    /// The numbers of types by fingerprint. Types that may be equal have equal fingerprints. The fingerprints
    /// are computed when they are first needed, and never stored: fingerprints in the file might not fit the
    /// types.
    by_fingerprint: OnceCell<Fingerprints>,
    /// The type numbers of the descriptions that were looked up before, by the description's address.
    by_desc: HashMap<usize, (&'static Desc, u32)>,
    pointer_maps: HashMap<u32, Arc<PointerMap>>,
    /// `extent` has the offset and length of the last extent; `end` is the offset of the next record in it.
    extent: (u64, u64),
    end: u64,
    /// Offsets of all extents of the table.
    extents: Vec<u64>,
}

/// The numbers of types, by fingerprint.
type Fingerprints = HashMap<u64, Vec<u32>>;

impl TypeTable {
    /// Creates an empty table in a new extent, whose pages are zero.
    pub(crate) fn create(extent: u64, len: u64) -> TypeTable {
        TypeTable {
            extent: (extent, len),
            end: extent + LINE as u64,
            extents: vec![extent],
            ..TypeTable::default()
        }
    }

    /// Reads the type table, whose first extent is at the offset `first`. `spans` are all spans of the heap.
    pub(crate) fn read(
        heap: MetadataWords<'_>,
        salt: u64,
        first: u64,
        spans: &[TakenSpan],
    ) -> Result<TypeTable> {
        let is_extent = |span: &&TakenSpan| span.entry.kind == SpanKind::Types;
        let extent_len = |at: u64| span_at(spans, at).filter(is_extent).map(TakenSpan::bytes);
        let bad = || Error::corrupt("the type table leads to a place that is not part of it");
        let mut table = TypeTable::create(first, extent_len(first).ok_or_else(bad)?);
        for _ in 0..64 {
            let (start, len) = table.extent;
            while let Some((record, len, count)) = record_at(heap, table.end, start + len, salt) {
                table.load(&record[16..16 + len], count)?;
                table.end += record.len() as u64;
            }
            match heap.get(start) {
                0 => return Ok(table),
                next => {
                    table.extent = (next, extent_len(next).ok_or_else(bad)?);
                    table.end = next + LINE as u64;
                    table.extents.push(next);
                }
            }
        }
        // Each extent is at least twice as long as the one before, so a longer chain is a circle.
        Err(bad())
    }

    /// Returns the numbers of the types by their fingerprints.
    fn by_fingerprint(&self) -> &Fingerprints {
        self.by_fingerprint.get_or_init(|| {
            let mut all = Fingerprints::new();
            for (print, number) in fingerprints(&self.types).into_iter().zip(0..) {
                all.entry(print).or_default().push(number);
            }
            all
        })
    }

    /// Adds the types of a record that was read from the table.
    fn load(&mut self, payload: &[u8], count: u32) -> Result<()> {
        let mut new = Vec::new();
        read_layouts(payload, count, &mut new)?;
        check_layouts(&self.types, &new).map_err(Error::corrupt)?;
        Arc::make_mut(&mut self.types).append(&mut new);
        self.by_fingerprint.take();
        Ok(())
    }

    /// Returns whether an extent of the table is at this offset.
    pub(crate) fn has_extent(&self, offset: u64) -> bool {
        self.extents.contains(&offset)
    }

    /// Returns the number of a type, if its description was looked up before.
    pub(crate) fn cached_number(&self, desc: &'static Desc) -> Option<u32> {
        self.by_desc.get(&std::ptr::from_ref(desc).addr()).map(|&(_, number)| number)
    }

    /// Returns whether the type with this number is the type of a description.
    ///
    /// # Errors
    /// [`Error::UnsupportedType`] if the description cannot be stored.
    pub(crate) fn matches_type(&mut self, number: u32, desc: &'static Desc) -> Result<bool> {
        let found = self.cached_number(desc);
        // The table could have one type under two numbers.
        let is = found == Some(number) || self.difference(number, desc)?.is_none();
        if is && found.is_none() {
            self.remember(desc, number);
        }
        Ok(is)
    }

    /// Returns the difference between the type with this number and that of a description, if there is one.
    pub(crate) fn difference(&self, number: u32, desc: &'static Desc) -> Result<Option<String>> {
        Ok(difference((&self.types, number), (&Graph::from_root(desc)?.types, 0)))
    }

    /// Returns the map of the pointers of a type that are [followed](PointerMap::followed).
    pub(crate) fn pointer_map(&mut self, number: u32) -> Arc<PointerMap> {
        let map = || Arc::new(PointerMap::followed(&self.types[number as usize], &self.types));
        self.pointer_maps.entry(number).or_insert_with(map).clone()
    }

    /// Notes that `desc` describes the type with this number.
    fn remember(&mut self, desc: &'static Desc, number: u32) {
        self.by_desc.insert(std::ptr::from_ref(desc).addr(), (desc, number));
    }

    /// Returns the types that must be written so that the table has a type: the type, and all types that it
    /// reaches and that the table does not have.
    ///
    /// # Errors
    /// [`Error::UnsupportedType`] if the description cannot be stored, or the table could not be read with
    /// these types.
    pub(crate) fn prepare(&self, desc: &'static Desc) -> Result<NewTypes> {
        let graph = Graph::from_root(desc)?;
        let prints = fingerprints(&graph.types);
        let mut new: Vec<usize> = Vec::new();
        let mut numbers = Vec::with_capacity(prints.len());
        for (i, print) in prints.iter().enumerate() {
            // A fingerprint is only a hint: the program chooses names and fields, so it can make two types
            // share one.
            let here = (graph.types.as_slice(), i as u32);
            let mut known = self.by_fingerprint().get(print).into_iter().flatten().copied();
            let known = known.find(|&number| difference((&self.types, number), here).is_none());
            let pending = || {
                // The type may have another description in this graph, whose layout is added already.
                let same =
                    |&j: &usize| prints[j] == *print && difference((&graph.types, j as u32), here).is_none();
                new.iter().position(same).map(|at| (self.types.len() + at) as u32)
            };
            let number = known.or_else(pending);
            numbers.push(number.unwrap_or_else(|| {
                new.push(i);
                (self.types.len() + new.len() - 1) as u32
            }));
        }
        let types: Vec<_> =
            new.iter().map(|&i| (prints[i], graph.types[i].renumbered(&|to| numbers[to as usize]))).collect();
        let mut payload = Vec::new();
        for (_, layout) in &types {
            payload.extend_from_slice(&[0; 8]);
            encode(layout, &mut payload);
        }
        let new = NewTypes { desc, number: numbers[0], types, payload };
        self.must_be_readable(&new)?;
        Ok(new)
    }

    /// Fails unless the new types could be read again, behind the types that the table has.
    fn must_be_readable(&self, new: &NewTypes) -> Result<()> {
        let refused = |why: String| Error::UnsupportedType {
            type_name: new.types.first().map_or_else(String::new, |(_, ty)| ty.name.clone()),
            why,
        };
        if new.is_empty() {
            return Ok(());
        }
        let count = u32::try_from(new.types.len()).ok().filter(|_| u32::try_from(new.payload.len()).is_ok());
        let count = count.ok_or_else(|| {
            refused(
                "its description is too long; put parts of it into objects of their own, behind a `P`"
                    .to_owned(),
            )
        })?;
        let mut read = Vec::new();
        read_layouts(&new.payload, count, &mut read).map_err(|e| refused(e.to_string()))?;
        check_layouts(&self.types, &read).map_err(refused)?;
        let same = read.iter().eq(new.types.iter().map(|(_, ty)| ty));
        if same { Ok(()) } else { Err(refused("its description cannot be read again".to_owned())) }
    }

    /// Returns how this table contradicts `stored`. This table was read when the heap was opened, and types
    /// were added to it since. `stored` was read from the heap just now.
    pub(crate) fn problems(&self, stored: &TypeTable) -> Vec<String> {
        let mut problems = Vec::new();
        if self.types != stored.types {
            problems.push("the type table is not the one that the heap was opened with".to_owned());
        }
        if self.by_fingerprint.get().is_some_and(|prints| prints != stored.by_fingerprint()) {
            problems.push("types are not found by their fingerprints".to_owned());
        }
        for &(desc, number) in self.by_desc.values() {
            if !matches!(self.difference(number, desc), Ok(None)) {
                problems.push(format!("type {number} is taken for another one"));
            }
        }
        for (&number, map) in &self.pointer_maps {
            let layout = self.types.get(number as usize);
            if layout.is_none_or(|layout| **map != PointerMap::followed(layout, &self.types)) {
                problems.push(format!("the pointers of type {number} are looked for elsewhere"));
            }
        }
        problems
    }

    /// Returns the length of the extent that is needed before the new types can be [added](Self::add), if an
    /// extent is needed.
    pub(crate) fn extent_needed(&self, new: &NewTypes) -> Option<u64> {
        let (start, len) = self.extent;
        let fits = new.types.is_empty() || self.end + new.record_size() <= start + len;
        (!fits).then(|| (LINE as u64 + new.record_size()).max(2 * len).next_multiple_of(PAGE))
    }

    /// Writes the new types to the table, [persists](Media::persist) them, and returns the number of the type
    /// that was asked for. `extent` is the [needed](Self::extent_needed) extent, as offset and length. Its
    /// zeros were stored, and its span was recorded; neither need be durable.
    pub(crate) fn add(
        &mut self,
        new: NewTypes,
        media: &Media,
        heap: MetadataWords<'_>,
        salt: u64,
        extent: Option<(u64, u64)>,
    ) -> u32 {
        let ends = self.extent.0;
        if let Some(extent) = extent {
            self.extent = extent;
            self.end = extent.0 + LINE as u64;
            self.extents.push(extent.0);
        }
        if !new.types.is_empty() {
            let mut record = vec![0; new.record_size() as usize];
            record[8..12].copy_from_slice(&(new.payload.len() as u32).to_le_bytes());
            record[12..16].copy_from_slice(&(new.types.len() as u32).to_le_bytes());
            record[16..16 + new.payload.len()].copy_from_slice(&new.payload);
            let sum = checksum(&record[8..], self.end, salt);
            record[..8].copy_from_slice(&sum.to_le_bytes());
            heap.store_bytes(media, self.end, &record);
            // Of a new extent, all bytes are persisted, because the first bytes that are no complete record
            // end the table.
            let (from, len) = extent.unwrap_or((self.end, record.len() as u64));
            media.persist(heap.addr(from), len as usize);
            self.end += record.len() as u64;
        }
        if let Some((next, _)) = extent {
            heap.set(media, ends, next);
            // The link to a new extent is stored last, because the extent exists once this word leads to it.
            // It becomes durable before anything that is stored later, so before all uses of the new types.
            // (With a write-ahead log, its record comes before theirs.)
            media.persist(heap.addr(ends), 8);
        }
        for (print, layout) in new.types {
            if let Some(prints) = self.by_fingerprint.get_mut() {
                prints.entry(print).or_default().push(self.types.len() as u32);
            }
            Arc::make_mut(&mut self.types).push(layout);
        }
        self.remember(new.desc, new.number);
        new.number
    }
}

/// Decodes the `count` layouts in the payload of a record, and appends them to `types`.
fn read_layouts(mut payload: &[u8], count: u32, types: &mut Vec<TypeLayout>) -> Result<()> {
    for _ in 0..count {
        payload = payload.get(8..).ok_or_else(|| Error::corrupt("a record of the type table is cut off"))?;
        types.push(decode(&mut payload)?);
    }
    Ok(())
}

/// Fails if the `new` types, which follow the types that are `there` already, are not valid. The error says
/// why.
fn check_layouts(there: &[TypeLayout], new: &[TypeLayout]) -> Result<(), String> {
    let name = |to: u32| {
        let to = to as usize;
        there.get(to).or_else(|| new.get(to.checked_sub(there.len())?)).map(|ty| ty.name.as_str())
    };
    for (ty, number) in new.iter().zip(there.len()..) {
        check_layout(ty, &name).map_err(|what| format!("type {number}, {what}"))?;
    }
    Ok(())
}

/// Types that are about to be added to the table.
pub(crate) struct NewTypes {
    desc: &'static Desc,
    /// The number of the type that was asked for.
    pub(crate) number: u32,
    types: Vec<(u64, TypeLayout)>,
    payload: Vec<u8>,
}

impl NewTypes {
    /// Returns whether the table has all the types already, so that none is to be added.
    pub(crate) fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    fn record_size(&self) -> u64 {
        (16 + self.payload.len() as u64).next_multiple_of(8)
    }
}

/// Returns the record at `at` of an extent that ends at `end`, with the length of its payload and its number
/// of types, if it is complete. The lengths are checked first, because a damaged length may be larger than
/// memory.
fn record_at(heap: MetadataWords<'_>, at: u64, end: u64, salt: u64) -> Option<(Vec<u8>, usize, u32)> {
    let room = end - at;
    if room < 16 {
        return None;
    }
    let [sum, lengths] = heap.read(at);
    let (len, count) = (lengths as u32 as usize, (lengths >> 32) as u32);
    let size = (16 + len as u64).next_multiple_of(8);
    if count == 0 || len > MAX_BYTES || size > room {
        return None;
    }
    let record = heap.bytes(at, size);
    holds(sum, checksum(&record[8..], at, salt)).then_some((record, len, count))
}

fn checksum(rest: &[u8], offset: u64, salt: u64) -> u64 {
    xxh3_64(&[rest, &offset.to_le_bytes(), &salt.to_le_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::pairs_tests::{describe_root, pair};
    use proptest::prelude::*;

    /// Returns a table with this type and the types that it reaches, as an opening reads the table.
    fn table_of(desc: &'static Desc) -> TypeTable {
        let mut table = TypeTable::default();
        let new = table.prepare(desc).unwrap();
        table.load(&new.payload, new.types.len() as u32).unwrap();
        table
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn a_type_is_found_and_one_that_differs_is_not(seed in any::<u64>()) {
            let (world, other, what) = pair(seed);
            let mut table = table_of(describe_root(&world, 1));
            let types = table.types.len();
            for copies in [1, 3] {
                let again = describe_root(&world, copies);
                let found = table.prepare(again).unwrap();
                prop_assert_eq!((found.number, found.is_empty()), (0, true));
                prop_assert!(table.matches_type(0, again).unwrap());
                prop_assert_eq!(table_of(again).types.len(), types, "a type is written twice");
            }
            let other = describe_root(&other, 2);
            prop_assert!(!table.matches_type(0, other).unwrap(), "{}", what);
            prop_assert!(table.prepare(other).unwrap().number != 0, "{}", what);
            prop_assert!(!table_of(other).matches_type(0, describe_root(&world, 1)).unwrap(), "{}", what);
            prop_assert_eq!(table.problems(&table), Vec::<String>::new());
        }
    }
}
