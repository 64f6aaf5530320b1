//! Pointer maps: a [`TypeLayout`] compiled to the form over which tracing and relocation loop.
//!
//! Pointers are aligned words, so most positions here are in words. A layout that a program cannot have (from
//! a damaged file) makes a map that finds fewer pointers, and never one outside the object.

use std::ops::Range;

use super::graph::{FieldLayout, Shape, TypeLayout};
use super::{Words, slice_header};

#[cfg(test)]
mod tests;

/// Arrays with at most this many pointers are listed pointer by pointer, unless the elements have
/// [parts](PointerPlaces::parts).
const SPELLED_OUT: usize = 64;

/// The places of the pointers in a type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PointerMap {
    kind: PointerMapKind,
}

#[derive(Debug, PartialEq, Eq)]
enum PointerMapKind {
    Sized(PointerPlaces),
    /// The elements begin at word `first`; word 0 has their number.
    Slice {
        first: usize,
        elements: ElementPointers,
    },
    None,
}

/// The places of the pointers in a sized value, in words from its start.
#[derive(Debug, Default, PartialEq, Eq)]
struct PointerPlaces {
    /// Pointers among the first 64 words: bit `i` is set if word `i` is a pointer.
    near: u64,
    /// Numbers of the words behind the first 64 that are pointers, in ascending order.
    far: Box<[usize]>,
    /// Parts whose pointers are not always there, or are too many to list.
    parts: Box<[PointerPart]>,
}

#[derive(Debug, PartialEq, Eq)]
enum PointerPart {
    Array { at: usize, len: usize, elements: ElementPointers },
    Enum(EnumPointers),
}

/// The places of the pointers in values of one type that lie one behind the other.
#[derive(Debug, PartialEq, Eq)]
struct ElementPointers {
    /// Words of an element.
    stride: usize,
    places: PointerPlaces,
}

/// The places of the pointers in an enum, whose tag determines which pointers it has.
#[derive(Debug, PartialEq, Eq)]
struct EnumPointers {
    at: usize,
    words: usize,
    /// Bytes of the tag, at the start.
    tag: usize,
    /// Pointers of each variant by tag, in ascending order.
    variants: Box<[(u128, PointerPlaces)]>,
}

/// The words to visit: from the first number, up to the second.
type WordWindow = (usize, usize);

impl PointerMap {
    /// Returns the map of a type's pointers.
    pub(crate) fn from_layout(ty: &TypeLayout) -> PointerMap {
        let kind = match &ty.shape {
            Shape::Slice(elem) => match ElementPointers::from_layout(elem) {
                Some(elements) if elem.align.is_power_of_two() && elem.align <= 1 << 16 => {
                    PointerMapKind::Slice { first: slice_header(elem.align as usize) / 8, elements }
                }
                _ => PointerMapKind::None,
            },
            _ => PointerMapKind::Sized(PointerPlaces::from_layout(ty)),
        };
        match kind {
            PointerMapKind::Sized(places) if places.is_empty() => PointerMap { kind: PointerMapKind::None },
            kind => PointerMap { kind },
        }
    }

    /// Returns the map of those pointers of this type that are followed. Pointers to a type without bytes are
    /// not followed: anything may be at their address. `types` are the types that the pointers name.
    pub(crate) fn followed(ty: &TypeLayout, types: &[TypeLayout]) -> PointerMap {
        let leads = |to: u32| types.get(to as usize).is_none_or(|ty| !ty.is_empty());
        PointerMap::from_layout(&ty.with_pointers(&|_, to| leads(to)))
    }

    /// Returns whether an object of the type can have pointers.
    pub(crate) fn has_pointers(&self) -> bool {
        !matches!(self.kind, PointerMapKind::None)
    }

    /// Returns the pointers as bits of the first 64 words. Returns `None` if there are pointers behind these
    /// words, or if the places of pointers depend on the value; most types have neither.
    #[inline]
    pub(crate) fn plain(&self) -> Option<u64> {
        match &self.kind {
            PointerMapKind::Sized(places) if places.near_only() => Some(places.near),
            _ => None,
        }
    }

    /// Calls `visit` with the address of each word of an object that has a pointer, null or not, and a byte
    /// in `window` (in bytes from the object's start). `object` has the words of its slot; no other words are
    /// read or visited, whatever the content. An unknown tag, which a dead slot may have, means no pointers.
    #[inline]
    pub(crate) fn visit(&self, object: Words<'_>, window: Range<usize>, mut visit: impl FnMut(*mut u64)) {
        let is_empty = window.is_empty();
        let window = (window.start / 8, window.end.div_ceil(8).min(object.len()));
        if is_empty || window.0 >= window.1 {
            return;
        }
        match &self.kind {
            PointerMapKind::Sized(places) => places.visit(object, window, &mut visit),
            PointerMapKind::Slice { first, elements } if *first < object.len() => {
                let len = object.read(0, 8).unwrap_or(0) as usize;
                elements.visit(object, *first, len, window, &mut visit);
            }
            PointerMapKind::Slice { .. } | PointerMapKind::None => {}
        }
    }

    /// Does the same as [`visit`](Self::visit) for consecutive objects, in slots of `bytes` bytes. If the map
    /// is [`plain`](Self::plain), this is faster than one by one.
    pub(crate) fn visit_slots(
        &self,
        objects: Words<'_>,
        bytes: usize,
        window: Range<usize>,
        mut visit: impl FnMut(*mut u64),
    ) {
        let plain = self.plain().filter(|_| window == (0..bytes));
        let words = bytes / 8;
        for i in 0..objects.len().checked_div(words).unwrap_or(0) {
            let object = objects.part(i * words, words);
            match plain {
                Some(near) => visit_bits(object.word_ptr(0), near & bits((0, words)), &mut visit),
                None => self.visit(object, window.clone(), &mut visit),
            }
        }
    }
}

impl PointerPlaces {
    fn from_layout(ty: &TypeLayout) -> PointerPlaces {
        let mut builder = PlacesBuilder::default();
        builder.add(ty, 0, ty.size);
        builder.build()
    }

    fn is_empty(&self) -> bool {
        self.near == 0 && self.near_only()
    }

    #[inline(always)]
    fn near_only(&self) -> bool {
        self.far.is_empty() && self.parts.is_empty()
    }

    /// Visits the pointers of a value. The window ends within the value.
    #[inline]
    fn visit(&self, value: Words<'_>, window: WordWindow, visit: &mut impl FnMut(*mut u64)) {
        visit_bits(value.word_ptr(0), self.near & bits(window), visit);
        if !self.far.is_empty() {
            let first = self.far.partition_point(|&at| at < window.0);
            self.far[first..]
                .iter()
                .take_while(|&&at| at < window.1)
                .for_each(|&at| visit(value.word_ptr(at)));
        }
        for part in &self.parts {
            match part {
                PointerPart::Array { at, len, elements } => elements.visit(value, *at, *len, window, visit),
                PointerPart::Enum(choice) => choice.visit(value, window, visit),
            }
        }
    }
}

/// Visits the words of `value` whose bits are set.
#[inline(always)]
fn visit_bits(value: *const u64, mut set: u64, visit: &mut impl FnMut(*mut u64)) {
    while set != 0 {
        visit(value.wrapping_add(set.trailing_zeros() as usize).cast_mut());
        set &= set - 1;
    }
}

/// Returns the bits of the window's words among the first 64.
#[inline(always)]
fn bits((from, to): WordWindow) -> u64 {
    let below = |n: usize| if n < 64 { (1 << n) - 1 } else { u64::MAX };
    below(to) & !below(from)
}

impl ElementPointers {
    /// Returns `None` if an element has no pointers, or its size is not that of a type with pointers.
    fn from_layout(elem: &TypeLayout) -> Option<ElementPointers> {
        let places = PointerPlaces::from_layout(elem);
        // A type with a pointer is aligned like a pointer.
        let has_some = !places.is_empty() && elem.size >= 8 && elem.size.is_multiple_of(8);
        has_some.then_some(ElementPointers { stride: elem.size as usize / 8, places })
    }

    /// Visits the pointers of the `len` elements from word `first` on, or of those for which the value has
    /// room.
    #[inline]
    fn visit(
        &self,
        value: Words<'_>,
        first: usize,
        len: usize,
        window: WordWindow,
        visit: &mut impl FnMut(*mut u64),
    ) {
        let stride = self.stride;
        let len = len.min(value.len().saturating_sub(first) / stride);
        let (from, to) = (window.0.max(first), window.1.min(first + len * stride));
        if from >= to {
            return;
        }
        if stride == 1 {
            // Each element is a pointer (in a layout that a program can have).
            return (from..to).for_each(|word_ptr| visit(value.word_ptr(word_ptr)));
        }
        for i in (from - first) / stride..(to - first).div_ceil(stride) {
            let start = first + i * stride;
            let window = (from.saturating_sub(start), (to - start).min(stride));
            self.places.visit(value.part(start, stride), window, visit);
        }
    }
}

impl EnumPointers {
    fn visit(&self, value: Words<'_>, window: WordWindow, visit: &mut impl FnMut(*mut u64)) {
        let own = value.part(self.at, self.words);
        if window.1 <= self.at || window.0 >= self.at + own.len() {
            return;
        }
        let Some(tag) = own.tag(self.tag) else { return };
        // Most enums count their tags from 0, so the tag is mostly the index of the variant.
        let guess = self.variants.get(tag as usize).filter(|(known, _)| *known == tag);
        let found = guess.or_else(|| {
            let found = self.variants.binary_search_by_key(&tag, |(known, _)| *known);
            found.ok().map(|i| &self.variants[i])
        });
        if let Some((_, places)) = found {
            places.visit(own, (window.0.saturating_sub(self.at), (window.1 - self.at).min(own.len())), visit);
        }
    }
}

/// Collects the places of the pointers in a sized value.
#[derive(Default)]
struct PlacesBuilder {
    words: Vec<usize>,
    parts: Vec<PointerPart>,
}

impl PlacesBuilder {
    /// Adds the pointers of a `ty` at byte `at`. Ignores them if the `ty` ends behind byte `end`, or if `at`
    /// is not a multiple of 8.
    fn add(&mut self, ty: &TypeLayout, at: u64, end: u64) {
        let Some(own_end) = at.checked_add(ty.size).filter(|&own_end| own_end <= end) else { return };
        if !at.is_multiple_of(8) {
            return; // too little alignment for a pointer
        }
        let word = at as usize / 8;
        match &ty.shape {
            Shape::Ptr { .. } if ty.size == 8 => self.words.push(word),
            Shape::Struct(fields) => self.add_fields(fields, at, own_end),
            // A slot without a value is zero, so its pointers are null.
            Shape::Slot(of) => self.add(of, at, own_end),
            Shape::Array { elem, len } => {
                let Some(elements) = ElementPointers::from_layout(elem) else { return };
                let len = (*len).min(ty.size / elem.size) as usize;
                if len == 0 {
                    return;
                }
                let PointerPlaces { near, far, parts } = &elements.places;
                let each = near.count_ones() as usize + far.len();
                if !parts.is_empty() || len.saturating_mul(each) > SPELLED_OUT {
                    self.parts.push(PointerPart::Array { at: word, len, elements });
                    return;
                }
                for start in (0..len).map(|i| word + i * elements.stride) {
                    let near = (0..64).filter(|bit| near >> bit & 1 == 1);
                    self.words.extend(near.chain(far.iter().copied()).map(|at| start + at));
                }
            }
            Shape::Enum { tag, variants } => {
                let Some(tag) = tag.tag_bytes().filter(|&bytes| bytes as u64 <= ty.size) else { return };
                let mask = u128::MAX >> (128 - tag * 8);
                let mut variants: Vec<(u128, PointerPlaces)> = variants
                    .iter()
                    .map(|variant| {
                        let mut builder = PlacesBuilder::default();
                        builder.add_fields(&variant.fields, 0, ty.size);
                        (variant.tag as u128 & mask, builder.build())
                    })
                    .collect();
                if variants.iter().any(|(_, places)| !places.is_empty()) {
                    variants.sort_unstable_by_key(|(tag, _)| *tag);
                    let words = ty.size as usize / 8;
                    self.parts.push(PointerPart::Enum(EnumPointers {
                        at: word,
                        words,
                        tag,
                        variants: variants.into(),
                    }));
                }
            }
            Shape::Ptr { .. } | Shape::Prim(_) | Shape::Slice(_) | Shape::Str => {}
        }
    }

    fn add_fields(&mut self, fields: &[FieldLayout], at: u64, end: u64) {
        for field in fields {
            if let Some(at) = at.checked_add(field.offset) {
                self.add(&field.ty, at, end);
            }
        }
    }

    fn build(mut self) -> PointerPlaces {
        self.words.sort_unstable();
        self.words.dedup();
        let far = self.words.split_off(self.words.partition_point(|&at| at < 64));
        let near = self.words.iter().fold(0, |near, at| near | 1 << at);
        PointerPlaces { near, far: far.into(), parts: self.parts.into() }
    }
}
