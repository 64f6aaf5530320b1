//! Converts values of a heap's type to values of a program's type: bytes are copied to other places, new
//! fields get defaults, and functions of the program are called.
//!
//! [`successors`](super::successors) compiles a conversion from a layout in the type table and a description
//! in the program.

#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::desc::{DefaultFn, Desc, Kind};
use super::{Graph, Persist, PointerMap, TypeLayout, Words, difference, put_value};

/// Converts a value: reads the old value at the first address, and writes the new one to the second, padding
/// included. Neither address need be aligned.
pub(crate) type ConvertFn = unsafe fn(*const u8, *mut u8);

/// Converts a value of an older version of a type to one of this version: see
/// [`Heap::evolve`](crate::Heap::evolve).
///
/// The function can read only the value. The targets of pointers may have been converted or not: reading them
/// needs a view, and the function has none. So it can only pass pointers on, as pointers to the same type
/// (except to a [`field!`](crate::field), whose place may change). Collections are passed on unchanged, or
/// begin empty.
///
/// The function is called only for values that the program has stored and that are reachable from the root:
/// not for removed entries of a collection, or slots without a value. It is called once for each such value.
/// If a crash or a panic takes a step of the conversion back, the function is called again for the values of
/// that step.
///
/// A collection keeps its structure. So a function must not change the order of the elements of a
/// [`PPriorityQueue`](crate::PPriorityQueue): the queue would keep the old order.
///
/// The function runs with the root locked. If it calls a method of the heap that would wait, the method
/// returns [`Error::Nested`](crate::Error::Nested).
pub trait Migrate<Old>: Sized {
    /// Converts `old` to a value of this type.
    ///
    /// # Panics
    /// The conversion panics if the returned value has a pointer that `old` does not have.
    fn migrate(old: Old) -> Self;
}

/// A function of the program that converts values of one type to another.
//
// Invariant: `call` and `pointers` are for the types `old` and `new`.
pub(crate) struct Converter {
    pub(crate) old: &'static Desc,
    pub(crate) new: &'static Desc,
    pub(super) call: ConvertFn,
    /// The check of the new value's pointers; `None` if the new type has no pointers.
    pub(super) pointers: Option<Arc<ConvertedPointers>>,
}

impl Converter {
    /// Makes a converter that calls `Migrate`.
    pub(crate) fn for_migrate<Old: Persist, New: Persist>() -> Converter
    where
        for<'r> New::At<'r>: Migrate<Old::At<'r>>,
    {
        let (old, new) = (Old::desc(), New::desc());
        Converter {
            old,
            new,
            call: migrate::<Old, New>,
            pointers: ConvertedPointers::from_descs(old, new).map(Arc::new),
        }
    }
}

/// The places of the pointers in a value, before and after a function of the program converts it.
//
// Invariant: the maps are compiled for the types of an old and a new value, and `words` are the sizes of
// these types in words.
pub(super) struct ConvertedPointers {
    ty: &'static Desc,
    words: (usize, usize),
    /// For each type to which the new value may have pointers: the places of the old value's pointers to that
    /// type, and of the new value's.
    by_target: Vec<(PointerMap, PointerMap)>,
}

impl ConvertedPointers {
    /// Returns `None` if the new type has no pointers, or one of the types cannot be described.
    fn from_descs(old: &'static Desc, new: &'static Desc) -> Option<ConvertedPointers> {
        // A type that cannot be described is not in a heap.
        let (given, made) = (Graph::from_root(old).ok()?.types, Graph::from_root(new).ok()?.types);
        let targets = |types: &[TypeLayout]| {
            let mut targets = BTreeSet::new();
            types[0].for_each_pointer(&mut |to| _ = targets.insert(to));
            targets
        };
        let maps = |to: u32| {
            let mut same = targets(&given);
            same.retain(|&from| difference((&given, from), (&made, to)).is_none());
            let of_given = given[0].with_pointers(&|_, from| same.contains(&from));
            (PointerMap::from_layout(&of_given), PointerMap::from_layout(&made[0].with_pointers_to(to)))
        };
        let by_target: Vec<_> = targets(&made).into_iter().map(maps).collect();
        let words = (old.size / 8, new.size / 8);
        (!by_target.is_empty()).then_some(ConvertedPointers { ty: new, words, by_target })
    }

    /// Panics unless each pointer of the new value is null, or is one of the old value, to the same type.
    /// Other pointers lead to parts of objects, and these may move. The address alone does not suffice,
    /// because another object may be where a part is going to be.
    ///
    /// # Safety
    /// `old` and `new` point to values of the old and the new type, which no thread writes during the call.
    /// If the types may have pointers, both addresses are aligned to words.
    unsafe fn check(&self, old: *const u8, new: *const u8) {
        let read = |map: &PointerMap, words: usize, value: *const u8, visit: &mut dyn FnMut(u64)| {
            if !map.has_pointers() {
                return;
            }
            // SAFETY: `value` points to a value of `words` words, aligned, which no thread writes (premise),
            // and pointers have definite values.
            let value = unsafe { Words::new(value.cast(), words) };
            // SAFETY: `visit` passes addresses of words of the value only.
            map.visit(value, 0..words * 8, |word| visit(unsafe { word.read() }));
        };
        let mut given = Vec::new();
        for (of_old, of_new) in &self.by_target {
            given.clear();
            given.push(0);
            read(of_old, self.words.0, old, &mut |pointer| given.push(pointer));
            given.sort_unstable();
            read(of_new, self.words.1, new, &mut |pointer| {
                assert!(
                    given.binary_search(&pointer).is_ok(),
                    "`Migrate` for `{}` has made a pointer; it can only return pointers of the old value, \
                     because the objects that they point to are being converted",
                    self.ty.name.as_str()
                );
            });
        }
    }
}

/// Converts a value by `Migrate`: a [`ConvertFn`].
///
/// # Safety
/// `old` points to a readable, valid `Old`, and `new` is valid for writes of a `New`.
unsafe fn migrate<Old: Persist, New: Persist>(old: *const u8, new: *mut u8)
where
    for<'r> New::At<'r>: Migrate<Old::At<'r>>,
{
    // SAFETY: `old` points to a valid value of `Old` at some brand, readable (premise). Brands do not change
    // the layout, and the function works for all of them.
    let old = unsafe { old.cast::<Old::At<'static>>().read_unaligned() };
    let value = <New::At<'static> as Migrate<Old::At<'static>>>::migrate(old);
    // SAFETY: `new` is valid for writes of a `New` (premise).
    unsafe { put_value(new, value) };
}

/// One step of a conversion, at byte `from` of the old value and byte `to` of the new one. The new value's
/// bytes are zero before the conversion.
pub(super) struct ConvertOp {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) step: ConvertStep,
}

pub(super) enum ConvertStep {
    /// Copies this many bytes.
    Copy(u64),
    /// Writes the default of a new field.
    Default(DefaultFn),
    Call {
        call: ConvertFn,
        pointers: Option<Arc<ConvertedPointers>>,
    },
    /// Runs the ops, unless all of the `size` bytes of the old value are zero.
    UnlessZero {
        size: u64,
        ops: Vec<ConvertOp>,
    },
    /// Copies the tag, which has `tag` bytes, and runs the ops of its variant, if the tag is known.
    Variants {
        tag: usize,
        variants: Vec<(u128, Vec<ConvertOp>)>,
    },
    /// Runs the ops for `len` values. The strides are those of the old and the new values, in bytes.
    Repeat {
        strides: (u64, u64),
        len: u64,
        /// For slots of a collection's node: the bytes from the node's start to the old slots, and how the
        /// node says which slots have no value. The new slots without values stay zero, or repeat the last
        /// value ([`VacantSlots::Behind`]).
        vacant: Option<(u64, VacantSlots)>,
        ops: Vec<ConvertOp>,
    },
}

/// How a node of a collection says which of its slots have no value. Offsets are in bytes from the node's
/// start.
#[derive(Debug, Clone, Copy)]
pub(super) enum VacantSlots {
    /// A slot is vacant if its tag is zero. The tags, of two bytes each, begin at offset `tags`.
    Untagged { tags: u64 },
    /// A slot is vacant if its number is not in the list at offset `order`, which has a byte for each number.
    /// The word at offset `len` is the length of the list.
    Unordered { len: u64, order: u64 },
    /// A slot is vacant if its number is not less than the word at offset `len`. The new slot gets a copy of
    /// the new slot before it; the first slot stays zero.
    Behind { len: u64 },
}

impl VacantSlots {
    /// Returns whether slot `i` of `slots` is vacant.
    ///
    /// # Safety
    /// `node` points to a node of `slots` slots, whose bytes are definite. It has the words, tags or order
    /// that `self` names, at these offsets. `i` is less than `slots`.
    unsafe fn is_slot_vacant(self, node: *const u8, (i, slots): (u64, u64)) -> bool {
        let at = |offset: u64| node.wrapping_add(offset as usize);
        // SAFETY: the node has a word at this offset (premise).
        let word = |offset: u64| unsafe { at(offset).cast::<u64>().read_unaligned() };
        match self {
            // SAFETY: the node has as many tags as slots, and `i` is less than that (premise).
            VacantSlots::Untagged { tags } => unsafe { at(tags + 2 * i).cast::<u16>().read_unaligned() == 0 },
            VacantSlots::Unordered { len, order } => {
                // SAFETY: the order has as many bytes as the node has slots (premise), and `place` is less
                // than that.
                let number = |place: u64| unsafe { at(order + place).read() };
                !(0..word(len).min(slots)).any(|place| u64::from(number(place)) == i)
            }
            VacantSlots::Behind { len } => i >= word(len),
        }
    }
}

/// The slots of a collection's buffer that have values: `count` of them, from slot `first` on, wrapping
/// around.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OccupiedSlots {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl OccupiedSlots {
    /// Returns the numbers of the slots that have values, in a buffer of `slots` slots.
    fn slots(self, slots: u64) -> impl Iterator<Item = u64> {
        let (first, count) = (self.first, self.count.min(slots));
        (0..count).map(move |i| ((u128::from(first) + u128::from(i)) % u128::from(slots)) as u64)
    }
}

/// Makes an op that copies `len` bytes to the same place.
pub(super) fn same(at: u64, len: u64) -> ConvertOp {
    ConvertOp { from: at, to: at, step: ConvertStep::Copy(len) }
}

impl ConvertOp {
    /// Makes an op at the starts of both values.
    pub(super) fn here(step: ConvertStep) -> ConvertOp {
        ConvertOp { from: 0, to: 0, step }
    }

    pub(super) fn variants(tag: usize, variants: Vec<(i128, Vec<ConvertOp>)>) -> ConvertOp {
        let mask = u128::MAX >> (128 - tag * 8);
        let variants = variants.into_iter().map(|(tag, ops)| (tag as u128 & mask, ops)).collect();
        ConvertOp::here(ConvertStep::Variants { tag, variants })
    }

    /// Returns the op for an old value that lies `old` bytes further behind, and a new value that lies `new`
    /// bytes further behind.
    pub(super) fn moved(self, old: u64, new: u64) -> ConvertOp {
        ConvertOp { from: self.from + old, to: self.to + new, ..self }
    }

    /// Returns whether the op calls a function of the program.
    fn calls(&self) -> bool {
        match &self.step {
            ConvertStep::Call { .. } => true,
            ConvertStep::Copy(_) | ConvertStep::Default(_) => false,
            ConvertStep::UnlessZero { ops, .. } | ConvertStep::Repeat { ops, .. } => {
                ops.iter().any(ConvertOp::calls)
            }
            ConvertStep::Variants { variants, .. } => {
                variants.iter().any(|(_, ops)| ops.iter().any(ConvertOp::calls))
            }
        }
    }

    /// Returns the end of the bytes that the op writes, from the new value's start; only its start for a
    /// default or a call.
    fn reach(&self) -> u64 {
        self.to
            + match &self.step {
                ConvertStep::Copy(len) => *len,
                // The function is compiled for types of known sizes: it writes only within the new type that
                // it is a part of.
                ConvertStep::Default(_) | ConvertStep::Call { .. } => 0,
                ConvertStep::UnlessZero { ops, .. } => reach(ops),
                ConvertStep::Variants { tag, variants } => {
                    variants.iter().fold(*tag as u64, |most, (_, ops)| most.max(reach(ops)))
                }
                ConvertStep::Repeat { strides, len, ops, .. } => {
                    len.saturating_sub(1) * strides.1 + reach(ops)
                }
            }
    }

    /// Runs the op for the value at `old`.
    ///
    /// # Safety
    /// The premises of the function [`run`], for ops that were compiled for these values.
    unsafe fn run(&self, old: *const u8, new: *mut u8) {
        let (old, new) = (old.wrapping_add(self.from as usize), new.wrapping_add(self.to as usize));
        match &self.step {
            // SAFETY: the ops are compiled from the layouts, so both values have `len` bytes at these places.
            // The values do not overlap (premise of `run`).
            ConvertStep::Copy(len) => unsafe { new.copy_from_nonoverlapping(old, *len as usize) },
            // SAFETY: the new value has a field of this type here, so there is room for it.
            ConvertStep::Default(write) => unsafe { write(new) },
            ConvertStep::Call { call, pointers } => {
                // SAFETY: the old value has a value of the function's old type here, and the new one has room
                // for its new type.
                unsafe { call(old, new) };
                if let Some(pointers) = pointers {
                    // SAFETY: both values exist now, and no other thread writes to them. A value with
                    // pointers is aligned for them within its object, and old objects are copied to aligned
                    // words.
                    unsafe { pointers.check(old, new) };
                }
            }
            ConvertStep::UnlessZero { size, ops } => {
                // SAFETY: the old value has `size` bytes here, and they are definite (premise of `run`).
                let bytes = unsafe { std::slice::from_raw_parts(old, *size as usize) };
                if bytes.iter().any(|&byte| byte != 0) {
                    // SAFETY: the bytes are not all zero, so the slot has a value. There is room for the new
                    // one.
                    unsafe { run(ops, old, new) };
                }
            }
            ConvertStep::Variants { tag, variants } => {
                let mut bytes = [0; 16];
                // SAFETY: the old value begins with a tag of `tag` bytes, at most 16, and `bytes` has 16.
                unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(old, *tag) };
                // SAFETY: `bytes` has at least `tag` bytes, and the new value has room for its tag, which is
                // as long.
                unsafe { new.copy_from_nonoverlapping(bytes.as_ptr(), *tag) };
                let value = u128::from_le_bytes(bytes);
                if let Some((_, ops)) = variants.iter().find(|(tag, _)| *tag == value) {
                    // SAFETY: the tag says that the old value is of this variant, for which `ops` are
                    // compiled. The new value has room for it.
                    unsafe { run(ops, old, new) };
                }
            }
            ConvertStep::Repeat { strides, len, vacant, ops } => {
                for i in 0..*len {
                    let here = old.wrapping_add((i * strides.0) as usize);
                    let new = new.wrapping_add((i * strides.1) as usize);
                    let vacant = vacant.filter(|(behind, vacant)| {
                        // SAFETY: the op is compiled for a node with `len` slots, which begins `behind` bytes
                        // before its slots, and `i < len`. Its bytes are definite (premise of `run`).
                        unsafe { vacant.is_slot_vacant(old.wrapping_sub(*behind as usize), (i, *len)) }
                    });
                    match vacant {
                        // SAFETY: the slot has a value, and the new slot has room for one of the new type.
                        None => unsafe { run(ops, here, new) },
                        Some((_, VacantSlots::Behind { .. })) if i > 0 => {
                            let last = new.wrapping_sub(strides.1 as usize);
                            // SAFETY: `i > 0`, so there is a new slot before this one. Both have `strides.1`
                            // bytes and do not overlap.
                            unsafe { new.copy_from_nonoverlapping(last, strides.1 as usize) };
                        }
                        Some(_) => {}
                    }
                }
            }
        }
    }
}

fn reach(ops: &[ConvertOp]) -> u64 {
    ops.iter().map(ConvertOp::reach).max().unwrap_or(0)
}

/// Runs the ops of a value.
///
/// # Safety
/// `old` points to a value of the type that the ops were compiled for, whose bytes are definite. `new` points
/// to bytes for a value of the new type, which are zero. The two do not overlap, and no other thread writes
/// to them.
unsafe fn run(ops: &[ConvertOp], old: *const u8, new: *mut u8) {
    for op in ops {
        // SAFETY: the premises of `ConvertOp::run` are those of this function.
        unsafe { op.run(old, new) };
    }
}

/// A conversion of objects of a heap's type to objects of a program's type.
//
// Invariant: `ops` are compiled for these two types, and `size` and `align` are those of the program's type.
pub(crate) struct Conversion {
    ops: Vec<ConvertOp>,
    size: u64,
    pub(crate) align: u64,
    /// For a slice: the offsets of the elements in old and new objects, and the bytes of an old element.
    slice: Option<((u64, u64), u64)>,
    /// Whether the objects are slices of slots, for whose values a function of the program is called.
    asks_for_owner: bool,
}

impl fmt::Debug for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversion")
            .field("size", &self.size)
            .field("align", &self.align)
            .finish_non_exhaustive()
    }
}

impl Conversion {
    pub(super) fn sized(ops: Vec<ConvertOp>, new: &Desc) -> Conversion {
        debug_assert!(reach(&ops) <= new.size as u64);
        let (size, align) = (new.size as u64, new.align as u64);
        Conversion { ops, size, align, slice: None, asks_for_owner: false }
    }

    /// Makes a conversion of slices whose elements are converted. `elem` is the new type of the elements.
    pub(super) fn slice(headers: (u64, u64), ops: Vec<ConvertOp>, old: u64, elem: &Desc) -> Conversion {
        Conversion {
            asks_for_owner: matches!(elem.kind, Kind::Slot { .. }) && ops.iter().any(ConvertOp::calls),
            ops,
            size: elem.size as u64,
            align: (elem.align as u64).max(8),
            slice: Some((headers, old)),
        }
    }

    /// Returns whether the owner of the object must say which of its slots have values.
    pub(crate) fn asks_for_owner(&self) -> bool {
        self.asks_for_owner
    }

    /// Returns whether objects of the new type may differ in size.
    pub(crate) fn is_unsized(&self) -> bool {
        self.slice.is_some()
    }

    /// Returns the least size of a new object, in bytes.
    pub(crate) fn least_bytes(&self) -> u64 {
        self.slice.map_or(self.size, |(headers, _)| headers.1)
    }

    /// Returns the bytes of the new object for the one at `old`.
    ///
    /// # Safety
    /// `old` points to an object of the old type, whose bytes are definite.
    pub(crate) unsafe fn bytes(&self, old: *const u8) -> u64 {
        match self.slice {
            None => self.size,
            Some((headers, _)) => {
                // SAFETY: `old` points to a slice (premise), which begins with its length.
                let len = unsafe { old.cast::<u64>().read_unaligned() };
                // The arithmetic saturates, because a slice of elements without bytes may have any length.
                len.saturating_mul(self.size).saturating_add(headers.1)
            }
        }
    }

    /// Returns the bytes of the object at `old`, in a slot of `slot` bytes: for a sized type, all of the
    /// slot's.
    ///
    /// # Safety
    /// `old` points to an object of the old type, whose bytes are definite.
    pub(crate) unsafe fn old_bytes(&self, old: *const u8, slot: u64) -> u64 {
        match self.slice {
            None => slot,
            Some((headers, size)) => {
                // SAFETY: `old` points to a slice (premise), which begins with its length.
                let len = unsafe { old.cast::<u64>().read_unaligned() };
                (headers.0 + len * size).min(slot)
            }
        }
    }

    /// Converts the object at `old` to a new one at `new`. If `occupied` says which of its slots have values,
    /// only these are converted.
    ///
    /// # Safety
    /// `old` points to an object of the old type, whose bytes are definite. `new` points to as many
    /// [bytes](Self::bytes) as the new object needs, all zero. The two do not overlap, and no other thread
    /// writes to them.
    pub(crate) unsafe fn run(&self, old: *const u8, new: *mut u8, occupied: Option<OccupiedSlots>) {
        match self.slice {
            // SAFETY: the premises of the other `run` are those of this method, and the types are sized.
            None => unsafe { run(&self.ops, old, new) },
            Some((headers, size)) => {
                // SAFETY: `old` points to a slice (premise), which begins with its length.
                let len = unsafe { old.cast::<u64>().read_unaligned() };
                // SAFETY: the new object is a slice, too, so `new` has room for a length.
                unsafe { new.cast::<u64>().write_unaligned(len) };
                let occupied = occupied.unwrap_or(OccupiedSlots { first: 0, count: len });
                for i in occupied.slots(len) {
                    let old = old.wrapping_add((headers.0 + i * size) as usize);
                    let new = new.wrapping_add((headers.1 + i * self.size) as usize);
                    // SAFETY: slot `i` is less than `len`, so `old` points to one of the elements, and `new`
                    // has room for the new one.
                    unsafe { run(&self.ops, old, new) };
                }
            }
        }
    }
}
