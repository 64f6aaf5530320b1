//! The paths of a write: into a copy, in place after an undo entry, or in place in a new object. Also the
//! lookup of a read that may meet a copy.

#![allow(unsafe_code)]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "a block is about one context, which is borrowed piece by piece, or about one word"
)]

use super::context::{Context, Mode, StoreRoute};
use super::write_back::original;
use super::write_set::{RangeLookup, filter_bits, filter_bits_aligned};
use crate::faults::{Bug, bug};
use crate::layout::Padding;

/// The most bytes that an object may have for a store to one of its fields to copy the whole object.
const SMALL: usize = 256;

/// The paths of a write. Functions that may spill take a pointer, and make short borrows from it: a spill
/// reaches the contexts of all roots of the transaction, including this one, through
/// [`group`](Context::group).
///
/// # Safety
/// The premises of the unsafe functions that take a pointer:
/// 1. `cx` is the context of an open transaction of this thread. The contexts of its group are distinct, and
///    this thread has the locks of all.
/// 2. No reference to one of these contexts exists. (Here, too, each borrow ends before the next call that
///    takes the pointer.)
/// 3. Places (`addr`, `len`) are within live values of the region, are whole spans of it, or are words of
///    its header. They are aligned to `align`, and `padding` is that of their type.
/// 4. No `&mut` to a value of the region is alive. For a write, no reference to the bytes that the caller is
///    going to write exists: the caller has the root's `&mut Txn`, or no `Txn` of it is used any more.
impl Context {
    /// Returns the place at which the caller is to write `len` bytes of the heap at `addr`. When this
    /// returns, a crash or a rollback can undo a write to that place.
    #[inline(always)]
    pub(crate) unsafe fn writable(
        cx: *mut Context,
        addr: usize,
        len: usize,
        align: usize,
        padding: Option<Padding>,
    ) -> *mut u8 {
        // SAFETY: `cx` is valid, and no reference to it exists (premises 1 and 2). The caller also guarantees
        // premises 3 and 4 for the place.
        unsafe {
            if (*cx).route == StoreRoute::Short && len > 0 {
                Context::writable_in_short(cx, addr, len, align, padding)
            } else {
                Context::writable_otherwise(cx, addr, len, align, padding)
            }
        }
    }

    /// [`writable`](Self::writable) in a short transaction, for one byte or more.
    #[inline(always)]
    unsafe fn writable_in_short(
        cx: *mut Context,
        addr: usize,
        len: usize,
        align: usize,
        padding: Option<Padding>,
    ) -> *mut u8 {
        // SAFETY: `cx` is valid, and no reference to it exists (premises 1 and 2). The place is in a live
        // value (premise 3), and so is a copy that `find_copy` has returned.
        unsafe {
            let mut found = RangeLookup::Nothing;
            let (filter, lines) = ((*cx).hot().filter.get(), filter_bits(addr, len));
            if filter & lines != 0 {
                found = (*cx).set.find_aligned(addr, len, align);
            }
            match found {
                RangeLookup::Copy(copy) if !(*cx).looks_again() => {
                    (*cx).hot().recent.record_recent(addr, len, copy);
                    (*cx).note_padding(addr, padding);
                    return copy;
                }
                RangeLookup::Nothing if !(*cx).alloc.has_fresh() => {
                    if let Some(copy) = (*cx).set.insert(addr, len, align) {
                        (*cx).note_padding(addr, padding);
                        (*cx).note_copy(addr, len, copy);
                        return copy;
                    }
                }
                _ => {}
            }
            Context::writable_or_spill(cx, addr, len, align, padding, found)
        }
    }

    /// [`writable`](Self::writable), but saves no old content for savepoints.
    pub(super) unsafe fn writable_now(
        cx: *mut Context,
        addr: usize,
        len: usize,
        align: usize,
        padding: Option<Padding>,
    ) -> *mut u8 {
        // SAFETY: `cx` is valid, and no reference to it exists (premises 1 and 2). The caller also guarantees
        // premises 3 and 4 for the place.
        unsafe {
            match (*cx).mode {
                Mode::Short if len > 0 => Context::writable_in_short(cx, addr, len, align, padding),
                _ => Context::writable_by_log(cx, addr, len, padding),
            }
        }
    }

    /// [`writable`](Self::writable) in a transaction that is not short, or that must save old content for a
    /// savepoint; or for no bytes. A separate function, because inlined it would slow down short
    /// transactions.
    #[inline(never)]
    unsafe fn writable_otherwise(
        cx: *mut Context,
        addr: usize,
        len: usize,
        align: usize,
        padding: Option<Padding>,
    ) -> *mut u8 {
        // SAFETY: `cx` is valid, and no reference to it exists (premises 1 and 2). The place is in a live
        // value (premise 3).
        unsafe {
            if padding.is_none() && (*cx).hot().is_in_place(addr, len, align) {
                let in_place = std::ptr::with_exposed_provenance_mut(addr);
                (*cx).hot().recent.record_recent(addr, len, in_place);
                return in_place;
            }
            if (*cx).savepoints.is_open() {
                return Context::writable_since_savepoint(cx, addr, len, align, padding);
            }
            Context::writable_by_log(cx, addr, len, padding)
        }
    }

    /// Copies a value (address, bytes) without padding in a short transaction, if that is simple: the value
    /// is not empty, the transaction has no new objects, `WriteSet::insert_at_once` makes the copy, and no
    /// other copy is in the way. No copy is in the way if the filter (of the cache lines that have copies)
    /// has no line of the value; or if there are few copies, and none in `beside`, a range that contains the
    /// value. Returns the copy; `None` if copying is not simple.
    ///
    /// # Safety
    /// Premises 3 and 4 of [`Context::writable`].
    #[inline(always)]
    pub(crate) unsafe fn copy_at_once(
        &mut self,
        (addr, len): (usize, usize),
        beside: (usize, usize),
        align: usize,
    ) -> Option<*mut u8> {
        debug_assert!(self.route == StoreRoute::Short || bug(Bug::SavepointForgetsFields));
        let hot = self.hot();
        let (filter, lines) = (hot.filter.get(), filter_bits_aligned(addr, len, align));
        // A line's bit in the filter may also stand for a copy of another object in that line.
        if len == 0
            || self.alloc.has_fresh()
            || filter & lines != 0 && !self.set.has_none_of_few(beside.0, beside.1)
        {
            return None;
        }
        let is_fields = self.granularity.is_fields();
        // SAFETY: the value is live (premise 3), so it is mapped in whole words, because objects consist of
        // whole words. The set has no copy of these words: the filter or `has_none_of_few` says so.
        let copy = unsafe { self.set.insert_at_once(addr, len, align) }?;
        self.hot().filter.set(filter | lines);
        self.note_new_copy(addr, len, copy, is_fields);
        Some(copy)
    }

    /// Whether a store to a part of an object of `bytes` bytes copies the whole object. A long transaction
    /// logs the part only.
    #[inline(always)]
    pub(crate) fn takes_objects(&self, bytes: usize) -> bool {
        bytes <= SMALL && self.mode == Mode::Short && !self.granularity.is_fields()
    }

    /// Returns the range that must have no copies if `place` (address, bytes) within `object` is to get a
    /// separate copy: the whole object if it is small, or else the place.
    #[inline(always)]
    pub(crate) fn beside(object: (usize, usize), place: (usize, usize)) -> (usize, usize) {
        if object.1 <= SMALL { object } else { place }
    }

    /// Whether a part of a small `object` (address, bytes) other than `place`, which is within it, has a
    /// copy. This may miss a copy in lines in which the place has no byte. Then the write set gets one copy
    /// more, which is harmless. False also if a copy covers the place, but not the object.
    #[inline(always)]
    pub(crate) fn has_other_part(&self, object: (usize, usize), place: (usize, usize)) -> bool {
        object.1 <= SMALL
            && place.1 > 0
            && self.hot().filter.get() & filter_bits(place.0, place.1) != 0
            && self.finds_other_part(object, place)
    }

    #[inline(never)]
    fn finds_other_part(&self, object: (usize, usize), place: (usize, usize)) -> bool {
        // Mostly no part of the object has a copy, and one lookup finds that out. (The filter does not: in a
        // large transaction it excludes little.)
        match self.set.find_copy(object.0, object.1) {
            RangeLookup::Nothing => false,
            RangeLookup::Copy(_) => true,
            RangeLookup::Part => !matches!(self.set.find_copy(place.0, place.1), RangeLookup::Copy(_)),
        }
    }

    /// [`writable`](Self::writable) in a short transaction, in rare cases. Either parts of the value have
    /// copies, or the value may be in a new object, or its copy does not fit. Or the value has a copy, but
    /// the transaction should spill because of its many lookups.
    #[inline(never)]
    unsafe fn writable_or_spill(
        cx: *mut Context,
        addr: usize,
        len: usize,
        align: usize,
        padding: Option<Padding>,
        found: RangeLookup,
    ) -> *mut u8 {
        // SAFETY: `cx` is valid, and no reference to it exists (premises 1 and 2). The place is in a live
        // value (premise 3).
        unsafe {
            let in_part = matches!(found, RangeLookup::Part);
            if !matches!(found, RangeLookup::Copy(_))
                && let Some(place) = (*cx).writable_in_set(addr, len, align, in_part)
            {
                (*cx).note_padding(addr, padding);
                return place;
            }
            Context::spill(cx);
            Context::writable_by_log(cx, addr, len, padding)
        }
    }

    /// [`writable`](Self::writable) in a transaction that is not short, or for no bytes. This saves no old
    /// content for savepoints.
    #[inline(never)]
    pub(crate) unsafe fn writable_by_log(
        cx: *mut Context,
        addr: usize,
        len: usize,
        padding: Option<Padding>,
    ) -> *mut u8 {
        let in_place = std::ptr::with_exposed_provenance_mut::<u8>(addr);
        if len == 0 {
            return in_place;
        }
        // SAFETY: `cx` is valid, and no reference to it exists (premises 1 and 2). The place is in a live
        // value (premise 3).
        unsafe {
            (*cx).write_back_copies();
            // New objects are written in place even in a doomed transaction, because they were written in
            // place before.
            if (*cx).alloc.is_fresh(addr) && !bug(Bug::DoomCopiesFresh) {
                (*cx).note_padding(addr, padding);
                return in_place;
            }
            if (*cx).mode == Mode::Long {
                if Context::log_range(cx, addr, len).is_ok() {
                    (*cx).note_padding(addr, padding);
                    return in_place;
                }
                Context::doom(cx);
            }
            (*cx).doomed.copy(addr, len, |addr, to| original(addr, to))
        }
    }

    /// Returns a copy of the value in the write set, or the value's own address if it is in a new object. The
    /// set has no copy of the value or, if `in_part`, copies of parts only. `None` if the transaction must
    /// spill.
    ///
    /// # Safety
    /// Premises 3 and 4 of [`Context::writable`].
    #[inline]
    unsafe fn writable_in_set(
        &mut self,
        addr: usize,
        len: usize,
        align: usize,
        in_part: bool,
    ) -> Option<*mut u8> {
        if in_part {
            // SAFETY: premises 3 and 4, which the caller guarantees.
            return unsafe { self.widen(addr, len, align) };
        }
        if self.alloc.is_fresh(addr) {
            let in_place = std::ptr::with_exposed_provenance_mut(addr);
            self.hot().recent.record_recent(addr, len, in_place);
            return Some(in_place);
        }
        if self.set.len() == self.set.limit() && !self.may_grow() {
            return None;
        }
        // SAFETY: the value is live (premise 3), so it is mapped in whole words, because objects consist of
        // whole words.
        let copy = unsafe { self.set.insert(addr, len, align) }?;
        self.note_copy(addr, len, copy);
        Some(copy)
    }

    /// Enters a new copy into the filter and the cache, and forgets values in the cache that have no copies.
    /// If stores copy fields only, the copy is not entered into the cache. Neither is the first copy of a
    /// transaction: the next lookup of it shows [how large](super::copy_granularity) copies should be, and a
    /// transaction with a single copy and no further access has no cache to empty.
    #[inline(always)]
    fn note_copy(&self, addr: usize, len: usize, copy: *mut u8) {
        let hot = self.hot();
        // The copy covers whole words, which are in the same cache lines as the value.
        hot.filter.set(hot.filter.get() | filter_bits(addr, len));
        self.note_new_copy(addr, len, copy, self.granularity.is_fields());
    }

    /// [`note_copy`](Self::note_copy) without the filter.
    #[inline(always)]
    fn note_new_copy(&self, addr: usize, len: usize, copy: *mut u8, is_fields: bool) {
        let hot = self.hot();
        if !bug(Bug::RecentAfterCopy) {
            hot.recent.forget_unwritten();
        }
        if !is_fields && self.set.len() > 1 {
            hot.recent.record_recent(addr, len, copy);
        }
    }

    /// Makes one copy of a value of which parts have copies. `None` if the transaction must spill.
    ///
    /// # Safety
    /// Premises 3 and 4 of [`Context::writable`].
    #[cold]
    unsafe fn widen(&mut self, addr: usize, len: usize, align: usize) -> Option<*mut u8> {
        self.granularity.note_part();
        if self.set.len() == self.set.limit() && !self.may_grow() {
            return None;
        }
        // SAFETY: the value is live (premise 3), and no `&mut` to its old copies is alive (premise 4).
        let copy = unsafe { self.set.widen(addr, len, align) }?;
        self.hot().forget_copies(self.hot().filter.get() | filter_bits(addr, len), Bug::RecentAfterWider);
        Some(copy)
    }

    /// Notes a value that has padding, if `padding` says so. The commit zeroes the padding.
    #[inline(always)]
    pub(crate) fn note_padding(&mut self, addr: usize, padding: Option<Padding>) {
        if let Some(padding) = padding {
            self.padded.add(addr, padding);
        }
    }

    /// Returns the place at which the caller is to read `len` bytes of the heap at `addr`. Called only when
    /// the filter says that a copy may exist.
    ///
    /// This may spill, or make a wider copy, so it may change the place of a range while references into the
    /// heap are alive. It changes no byte that these references cover: old copies stay as they are, and
    /// [`spill`](Self::spill) explains why it changes no such byte of an original.
    pub(crate) unsafe fn readable(cx: *mut Context, addr: usize, len: usize, align: usize) -> *const u8 {
        let in_place = std::ptr::with_exposed_provenance::<u8>(addr);
        // SAFETY: `cx` is valid, and no reference to it exists (premises 1 and 2). The place is in a live
        // value (premise 3).
        unsafe {
            if (*cx).mode == Mode::Short {
                match (*cx).set.find_aligned(addr, len, align) {
                    RangeLookup::Copy(copy) if !(*cx).looks_again() => {
                        // A value that was only read since the savepoint was opened must not be in the cache:
                        // a store to it must ask `writable`.
                        if !(*cx).savepoints.is_open() {
                            (*cx).hot().recent.record_recent(addr, len, copy);
                        }
                        return copy;
                    }
                    RangeLookup::Nothing if !(*cx).looks_beside() => {
                        (*cx).hot().recent.note_unwritten(addr, len);
                        return in_place;
                    }
                    RangeLookup::Copy(_) | RangeLookup::Nothing => Context::spill(cx),
                    RangeLookup::Part => match (*cx).widen(addr, len, align) {
                        Some(copy) => return copy,
                        None => Context::spill(cx),
                    },
                }
            }
            (*cx).write_back_copies();
            if (*cx).mode != Mode::Doomed {
                return in_place;
            }
            (*cx).doomed.readable(addr, len, |addr, to| original(addr, to))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ptr::value_of;
    use crate::{Durability, Options, P, Persist};

    /// A value of 4 bytes. The second byte is padding.
    #[derive(Persist, Clone, Copy)]
    #[persist(crate = "crate")]
    #[repr(C)]
    struct Small {
        byte: u8,
        number: u16,
    }

    /// Returns the word in the file that holds two neighbours (elements 2 and 3 of a slice). A transaction
    /// writes both with `stale` bytes in all places, padding included, after it has written the first field
    /// of the `others`.
    fn stored(stale: u8, durability: Durability, others: &[usize]) -> [u8; 8] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("heap");
        let heap = Options::new().durability(durability).open(&path).unwrap();
        let zeros = Small { byte: 0, number: 0 };
        let root = heap.root_or::<P<[Small]>>("small", |tx| tx.alloc_slice(8, |_| zeros)).unwrap();
        let offset = root
            .txn(|tx, p| {
                let small = tx[p];
                others.iter().for_each(|&i| {
                    let element = small.at(tx, i);
                    tx[crate::field!(element.byte)] = 1;
                });
                for i in [2, 3] {
                    let element = small.at(tx, i);
                    let place: *mut Small = &raw mut tx[element];
                    // SAFETY: `place` is the transaction's place for a `Small`, and any bytes are a valid
                    // `Small`.
                    unsafe { place.cast::<u8>().write_bytes(stale, size_of::<Small>()) };
                }
                Ok(value_of(small.at(tx, 2)).addr() - heap.inner().base().addr())
            })
            .unwrap();
        drop(heap);
        let file = std::fs::read(&path).unwrap();
        assert!(!file.as_chunks::<4>().0.contains(&[stale; 4]), "the log has the padding");
        file[offset..][..8].try_into().unwrap()
    }

    #[test]
    fn padding_beside_another_value_is_zeroed() {
        for durability in [Durability::Process, Durability::Pmem] {
            let expected = [0xa5, 0, 0xa5, 0xa5, 0xa5, 0, 0xa5, 0xa5];
            // The cases: no other copies; a copy of a part of one value; and copies of parts of all values.
            for others in [&[][..], &[2], &[3], &[7, 6, 5, 4, 3, 2, 1, 0]] {
                assert_eq!(stored(0xa5, durability, others), expected, "{durability:?}, {others:?}");
            }
        }
    }
}
