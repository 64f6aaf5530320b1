//! What makes a value of a type in a heap into one of a type of the program: bytes that are copied to other places, fields that are new, functions of the program's.
//!
//! Compiled by [`successors`](super::successors) from a layout in the type table, and a description in the program.

#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::desc::{DefaultFn, Desc, Kind};
use super::{Graph, Persist, PointerMap, TypeLayout, Words, difference, put_value};

/// Makes a value of one type into one of another: reads the value at the first address, and writes it to the second, padding included. Neither need be aligned.
pub(crate) type ConvertFn = unsafe fn(*const u8, *mut u8);

/// How a value of an older version of a type becomes one of this version: see [`Heap::evolve`](crate::Heap::evolve).
///
/// All that there is to look at is the value, with the lengths of slices and strings that it has pointers to.
/// What pointers lead to may have been converted or not: nothing reads it without a transaction, and the function
/// has none. So they can be passed on only, as pointers to the same type (where an element of a slice is, or a
/// [`field!`](crate::field), is not certain); collections are passed on as they are, or begin empty.
///
/// The function sees only values that the program has stored and that the root leads to: not what a collection has
/// removed, nor places of it without a value. It sees each of them once, but for the values of the steps that a crash
/// or a panic takes back: these are repeated.
///
/// A collection keeps its structure. So a function must not change the order of the elements of a
/// [`PPriorityQueue`](crate::PPriorityQueue): that would have the old order.
///
/// The function runs inside the root's lock. A method of the heap that would wait is [`Error::Nested`](crate::Error::Nested).
pub trait Migrate<Old>: Sized {
    /// The value.
    ///
    /// # Panics
    /// The conversion does if the value has a pointer that is none of those of `old`.
    fn migrate(old: Old) -> Self;
}

/// A function of the program's, by which values of one type become values of another.
//
// Invariant: `call` and `pointers` are for these two.
pub(crate) struct Converter {
    pub(crate) old: &'static Desc,
    pub(crate) new: &'static Desc,
    pub(super) call: ConvertFn,
    /// If it may make pointers.
    pub(super) pointers: Option<Arc<Pointers>>,
}

impl Converter {
    /// By `Migrate`.
    pub(crate) fn of<Old: Persist, New: Persist>() -> Converter
    where
        for<'r> New::At<'r>: Migrate<Old::At<'r>>,
    {
        let (old, new) = (Old::desc(), New::desc());
        Converter { old, new, call: migrate::<Old, New>, pointers: Pointers::of(old, new).map(Arc::new) }
    }
}

/// Where the pointers of a value are, before and after a function of the program's has converted it.
//
// Invariant: compiled for the types of an old value and a new one, of so many words.
pub(super) struct Pointers {
    ty: &'static Desc,
    words: (usize, usize),
    /// For each type to which the new value may have pointers: where the old value has pointers to that type,
    /// and where the new one has.
    by_target: Vec<(PointerMap, PointerMap)>,
}

impl Pointers {
    /// `None` if there are none afterwards.
    fn of(old: &'static Desc, new: &'static Desc) -> Option<Pointers> {
        // What cannot be described is not in a heap.
        let (given, made) = (Graph::of(old).ok()?.types, Graph::of(new).ok()?.types);
        let targets = |types: &[TypeLayout]| {
            let mut targets = BTreeSet::new();
            types[0].for_each_pointer(&mut |to| _ = targets.insert(to));
            targets
        };
        let maps = |to: u32| {
            let mut same = targets(&given);
            same.retain(|&from| difference((&given, from), (&made, to)).is_none());
            let of_given = given[0].with_pointers(&|_, from| same.contains(&from));
            (PointerMap::of(&of_given), PointerMap::of(&made[0].with_pointers_to(to)))
        };
        let by_target: Vec<_> = targets(&made).into_iter().map(maps).collect();
        let words = (old.size / 8, new.size / 8);
        (!by_target.is_empty()).then_some(Pointers { ty: new, words, by_target })
    }

    /// Fails unless each pointer of the new value is one that the old value has, to the same type: others
    /// lead to parts of objects, and these may move. The address alone says nothing: where a part is to be,
    /// another object may be.
    ///
    /// # Safety
    /// At both addresses, which are aligned for words if there may be pointers, are such values, which nobody else writes.
    unsafe fn check(&self, old: *const u8, new: *const u8) {
        let read = |map: &PointerMap, words: usize, value: *const u8, visit: &mut dyn FnMut(u64)| {
            if !map.has_pointers() {
                return;
            }
            // SAFETY: the words of a value, the caller's premise.
            let value = unsafe { Words::new(value.cast(), words) };
            // SAFETY: one of these words.
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
                    "`Migrate` for `{}` has made a pointer; it can only pass on those that the old value has, \
                     for what they lead to is being converted",
                    self.ty.name.as_str()
                );
            });
        }
    }
}

/// # Safety
/// See [`ConvertFn`].
unsafe fn migrate<Old: Persist, New: Persist>(old: *const u8, new: *mut u8)
where
    for<'r> New::At<'r>: Migrate<Old::At<'r>>,
{
    // SAFETY: there is a value of the type at some brand, the caller's premise; the function works for all of them.
    let old = unsafe { old.cast::<Old::At<'static>>().read_unaligned() };
    let value = <New::At<'static> as Migrate<Old::At<'static>>>::migrate(old);
    // SAFETY: there is room for one, the caller's premise.
    unsafe { put_value(new, value) };
}

/// One thing to do, so many bytes behind the start of the old value (`from`) and of the new one (`to`), of
/// which all bytes are zero before.
pub(super) struct Op {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) step: Step,
}

pub(super) enum Step {
    /// So many bytes as they are.
    Copy(u64),
    /// The value of a field that is new.
    Default(DefaultFn),
    Call {
        call: ConvertFn,
        pointers: Option<Arc<Pointers>>,
    },
    /// Nothing if so many bytes are zero.
    UnlessZero {
        size: u64,
        ops: Vec<Op>,
    },
    /// What the tag says, which has so many bytes, and is copied.
    Variants {
        tag: usize,
        variants: Vec<(u128, Vec<Op>)>,
    },
    /// So many values, each so many bytes behind the one before, which are not the same for old and new.
    Repeat {
        strides: (u64, u64),
        len: u64,
        /// If they are slots of a collection's node, of which those without a value stay zero: how many bytes
        /// behind the start of the node the old ones are, and how that says which have no value.
        vacant: Option<(u64, Vacant)>,
        ops: Vec<Op>,
    },
}

/// Where a node of a collection says which of its slots have no value. Offsets are in bytes from its start.
#[derive(Debug, Clone, Copy)]
pub(super) enum Vacant {
    /// The slot's tag, of two bytes, is zero.
    Untagged { tags: u64 },
    /// The slot's number, of one byte, is not among the first `len` of the `order`.
    Unordered { len: u64, order: u64 },
    /// The slot's number is not less than `len`. It repeats the last value before that.
    Behind { len: u64 },
}

impl Vacant {
    /// Whether slot `i` of `slots` has no value of its own.
    ///
    /// # Safety
    /// At `node` is a node with so many slots, which has the words that `self` names where it says. Its bytes are
    /// definite.
    unsafe fn is(self, node: *const u8, (i, slots): (u64, u64)) -> bool {
        let at = |offset: u64| node.wrapping_add(offset as usize);
        // SAFETY: a word of the node, the caller's premise.
        let word = |offset: u64| unsafe { at(offset).cast::<u64>().read_unaligned() };
        match self {
            // SAFETY: the node has as many tags as slots, and `i` is less than that.
            Vacant::Untagged { tags } => unsafe { at(tags + 2 * i).cast::<u16>().read_unaligned() == 0 },
            Vacant::Unordered { len, order } => {
                // SAFETY: the order has as many bytes as the node has slots, and `place` is less than that.
                let number = |place: u64| unsafe { at(order + place).read() };
                !(0..word(len).min(slots)).any(|place| u64::from(number(place)) == i)
            }
            Vacant::Behind { len } => i >= word(len),
        }
    }
}

/// The slots of a collection's buffer that have values: `count` of them, from number `first` on, and round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Occupied {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl Occupied {
    /// The numbers of the slots that have values, in a buffer of `slots` slots.
    fn slots(self, slots: u64) -> impl Iterator<Item = u64> {
        let (first, count) = (self.first, self.count.min(slots));
        (0..count).map(move |i| ((u128::from(first) + u128::from(i)) % u128::from(slots)) as u64)
    }
}

/// So many bytes as they are, where they are.
pub(super) fn same(at: u64, len: u64) -> Op {
    Op { from: at, to: at, step: Step::Copy(len) }
}

impl Op {
    /// At the starts of both values.
    pub(super) fn here(step: Step) -> Op {
        Op { from: 0, to: 0, step }
    }

    pub(super) fn variants(tag: usize, variants: Vec<(i128, Vec<Op>)>) -> Op {
        let mask = u128::MAX >> (128 - tag * 8);
        let variants = variants.into_iter().map(|(tag, ops)| (tag as u128 & mask, ops)).collect();
        Op::here(Step::Variants { tag, variants })
    }

    /// The same for values that lie further behind.
    pub(super) fn moved(self, old: u64, new: u64) -> Op {
        Op { from: self.from + old, to: self.to + new, ..self }
    }

    /// Whether a function of the program's is called.
    fn calls(&self) -> bool {
        match &self.step {
            Step::Call { .. } => true,
            Step::Copy(_) | Step::Default(_) => false,
            Step::UnlessZero { ops, .. } | Step::Repeat { ops, .. } => ops.iter().any(Op::calls),
            Step::Variants { variants, .. } => variants.iter().any(|(_, ops)| ops.iter().any(Op::calls)),
        }
    }

    /// Bytes of the new value that this touches at most, from its start.
    fn reach(&self) -> u64 {
        self.to
            + match &self.step {
                Step::Copy(len) => *len,
                // A function is compiled for types of these sizes: what it needs is within the types that it
                // stands in.
                Step::Default(_) | Step::Call { .. } => 0,
                Step::UnlessZero { ops, .. } => reach(ops),
                Step::Variants { tag, variants } => {
                    variants.iter().fold(*tag as u64, |most, (_, ops)| most.max(reach(ops)))
                }
                Step::Repeat { strides, len, ops, .. } => len.saturating_sub(1) * strides.1 + reach(ops),
            }
    }

    /// # Safety
    /// See [`run`].
    unsafe fn run(&self, old: *const u8, new: *mut u8) {
        let (old, new) = (old.wrapping_add(self.from as usize), new.wrapping_add(self.to as usize));
        match &self.step {
            // SAFETY: both values have so many bytes there, for so their types are laid out, and they are
            // apart.
            Step::Copy(len) => unsafe { new.copy_from_nonoverlapping(old, *len as usize) },
            // SAFETY: the new value has room for a field of this type there.
            Step::Default(write) => unsafe { write(new) },
            Step::Call { call, pointers } => {
                // SAFETY: there is a value of the old type, and room for one of the new.
                unsafe { call(old, new) };
                if let Some(pointers) = pointers {
                    // SAFETY: both are there now. A value with pointers is aligned for these within its
                    // object, and old objects are copied to aligned words.
                    unsafe { pointers.check(old, new) };
                }
            }
            Step::UnlessZero { size, ops } => {
                // SAFETY: so many bytes, which are definite, the premise of `run`.
                let bytes = unsafe { std::slice::from_raw_parts(old, *size as usize) };
                if bytes.iter().any(|&byte| byte != 0) {
                    // SAFETY: they are a value.
                    unsafe { run(ops, old, new) };
                }
            }
            Step::Variants { tag, variants } => {
                let mut bytes = [0; 16];
                // SAFETY: a tag of so many bytes, at most 16, is in front of both values.
                unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(old, *tag) };
                // SAFETY: so many bytes of `bytes`, and room for the new value's tag, which is as long.
                unsafe { new.copy_from_nonoverlapping(bytes.as_ptr(), *tag) };
                let value = u128::from_le_bytes(bytes);
                if let Some((_, ops)) = variants.iter().find(|(tag, _)| *tag == value) {
                    // SAFETY: a value of this variant.
                    unsafe { run(ops, old, new) };
                }
            }
            Step::Repeat { strides, len, vacant, ops } => {
                for i in 0..*len {
                    let here = old.wrapping_add((i * strides.0) as usize);
                    let new = new.wrapping_add((i * strides.1) as usize);
                    let vacant = vacant.filter(|(behind, vacant)| {
                        // SAFETY: a node of the type that the op was compiled for is there, with `len` slots.
                        unsafe { vacant.is(old.wrapping_sub(*behind as usize), (i, *len)) }
                    });
                    match vacant {
                        // SAFETY: one of the values, and room for one of the new type.
                        None => unsafe { run(ops, here, new) },
                        Some((_, Vacant::Behind { .. })) if i > 0 => {
                            let last = new.wrapping_sub(strides.1 as usize);
                            // SAFETY: the new slot before this one, and this one, of so many bytes each.
                            unsafe { new.copy_from_nonoverlapping(last, strides.1 as usize) };
                        }
                        Some(_) => {}
                    }
                }
            }
        }
    }
}

fn reach(ops: &[Op]) -> u64 {
    ops.iter().map(Op::reach).max().unwrap_or(0)
}

/// # Safety
/// At `old` there is a value of the type that the ops were compiled for, whose bytes are definite; at `new`, bytes that are zero, for a value of the new type. They are apart.
unsafe fn run(ops: &[Op], old: *const u8, new: *mut u8) {
    for op in ops {
        // SAFETY: the caller's premises.
        unsafe { op.run(old, new) };
    }
}

/// How an object becomes one of another type.
//
// Invariant: made for a type in the heap and one of the program, of which `size` and `align` are.
pub(crate) struct Conversion {
    ops: Vec<Op>,
    size: u64,
    pub(crate) align: u64,
    /// Of a slice: where elements begin, in old objects and in new ones, and how long an old element is.
    slice: Option<((u64, u64), u64)>,
    /// Whether it is a slice of slots, whose values a function of the program's converts.
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
    pub(super) fn sized(ops: Vec<Op>, new: &Desc) -> Conversion {
        debug_assert!(reach(&ops) <= new.size as u64);
        let (size, align) = (new.size as u64, new.align as u64);
        Conversion { ops, size, align, slice: None, asks_for_owner: false }
    }

    /// For slices whose elements are converted. `elem` is the new type of these.
    pub(super) fn slice(headers: (u64, u64), ops: Vec<Op>, old: u64, elem: &Desc) -> Conversion {
        Conversion {
            asks_for_owner: matches!(elem.kind, Kind::Slot { .. }) && ops.iter().any(Op::calls),
            ops,
            size: elem.size as u64,
            align: (elem.align as u64).max(8),
            slice: Some((headers, old)),
        }
    }

    /// Whether the collection that owns the object must say which of its slots have values.
    pub(crate) fn asks_for_owner(&self) -> bool {
        self.asks_for_owner
    }

    /// Whether objects of the new type differ in size.
    pub(crate) fn is_unsized(&self) -> bool {
        self.slice.is_some()
    }

    /// Bytes that each new object has at least.
    pub(crate) fn least_bytes(&self) -> u64 {
        self.slice.map_or(self.size, |(headers, _)| headers.1)
    }

    /// Bytes of the new object for the one at `old`.
    ///
    /// # Safety
    /// There is an object of the old type, whose bytes are definite.
    pub(crate) unsafe fn bytes(&self, old: *const u8) -> u64 {
        match self.slice {
            None => self.size,
            Some((headers, _)) => {
                // SAFETY: a slice begins with its length, the caller's premise.
                let len = unsafe { old.cast::<u64>().read_unaligned() };
                // There may be any number of elements without bytes.
                len.saturating_mul(self.size).saturating_add(headers.1)
            }
        }
    }

    /// Bytes of the object at `old`, of which the slot has `slot`.
    ///
    /// # Safety
    /// As for [`bytes`](Self::bytes).
    pub(crate) unsafe fn old_bytes(&self, old: *const u8, slot: u64) -> u64 {
        match self.slice {
            None => slot,
            Some((headers, size)) => {
                // SAFETY: a slice begins with its length, the caller's premise.
                let len = unsafe { old.cast::<u64>().read_unaligned() };
                (headers.0 + len * size).min(slot)
            }
        }
    }

    /// Makes a new object of the one at `old`. If `occupied` says which slots of that have values, only these are
    /// converted.
    ///
    /// # Safety
    /// At `old` is an object of the old type, whose bytes are definite. At `new` are as many [bytes](Self::bytes) as it
    /// needs, and zero. The two are apart.
    pub(crate) unsafe fn run(&self, old: *const u8, new: *mut u8, occupied: Option<Occupied>) {
        match self.slice {
            // SAFETY: the caller's premises.
            None => unsafe { run(&self.ops, old, new) },
            Some((headers, size)) => {
                // SAFETY: a slice begins with its length.
                let len = unsafe { old.cast::<u64>().read_unaligned() };
                // SAFETY: there is room for a length.
                unsafe { new.cast::<u64>().write_unaligned(len) };
                let occupied = occupied.unwrap_or(Occupied { first: 0, count: len });
                for i in occupied.slots(len) {
                    let old = old.wrapping_add((headers.0 + i * size) as usize);
                    let new = new.wrapping_add((headers.1 + i * self.size) as usize);
                    // SAFETY: an element, and room for the new one.
                    unsafe { run(&self.ops, old, new) };
                }
            }
        }
    }
}
