//! The paths of a write: into a copy, or in place behind the undo log; and the change from the one to the other (`spill`).

#![allow(unsafe_code)]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "a block is about one context, which is borrowed piece by piece, or about one word"
)]

use std::ops::Range;

use super::context::{Context, Mode, Route};
use super::doomed::Byte;
use super::word_map::BLOCK;
use super::write_set::{Find, filter_bits, filter_bits_aligned};
use crate::error::Result;
use crate::faults::{Bug, bug};
use crate::layout::Padding;
use crate::os::cpu;
use crate::units::LINE;

/// Bytes of an object that a store to one of its fields may take a copy of, at most.
const SMALL: usize = 256;

/// The paths of a write. They take a pointer, and borrow from it piece by piece: a spill reaches the other contexts of the
/// transaction through [`group`](Context::group), this one among them.
///
/// # Safety
/// For all of these:
/// 1. `cx` is the context of an open transaction of this thread. The contexts of its group are distinct, and this thread has the locks of all.
/// 2. Nobody has a reference to one of these contexts. (Here, too, each borrow ends before the next call that takes the pointer.)
/// 3. Places (`addr`, `len`) are within live values of the region, or are words of its header; they are aligned to `align`, and `padding` is that of their type.
/// 4. Who writes has the root's `&mut Txn`, so nobody has a reference to what he is going to write.
impl Context {
    /// Where to write `len` bytes at `addr`: the place is crash-safe on return.
    #[inline(always)]
    pub(crate) unsafe fn writable(
        cx: *mut Context,
        addr: usize,
        len: usize,
        align: usize,
        padding: Option<Padding>,
    ) -> *mut u8 {
        // SAFETY: the context is there, and nobody else's (premises 1 and 2); the others are passed on.
        unsafe {
            if (*cx).route == Route::Short && len > 0 {
                Context::writable_in_short(cx, addr, len, align, padding)
            } else {
                Context::writable_otherwise(cx, addr, len, align, padding)
            }
        }
    }

    /// The same in a short transaction, for one byte or more.
    #[inline(always)]
    unsafe fn writable_in_short(
        cx: *mut Context,
        addr: usize,
        len: usize,
        align: usize,
        padding: Option<Padding>,
    ) -> *mut u8 {
        // SAFETY: the context is there, and nobody else's; the place is in a live value (premises 1 to 3), of which a copy that `find` has shown is one.
        unsafe {
            let mut found = Find::Nothing;
            let (filter, lines) = ((*cx).hot().filter.get(), filter_bits(addr, len));
            if filter & lines != 0 {
                found = (*cx).set.find_aligned(addr, len, align);
            }
            match found {
                Find::Copy(copy) if !(*cx).looks_again() => {
                    (*cx).hot().recent.note(addr, len, copy);
                    (*cx).note_padding(addr, padding);
                    return copy;
                }
                Find::Nothing if !(*cx).alloc.has_fresh() => {
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

    /// The same, without a look at savepoints.
    pub(super) unsafe fn writable_now(
        cx: *mut Context,
        addr: usize,
        len: usize,
        align: usize,
        padding: Option<Padding>,
    ) -> *mut u8 {
        // SAFETY: the context is there, and nobody else's (premises 1 and 2); the others are passed on.
        unsafe {
            match (*cx).mode {
                Mode::Short if len > 0 => Context::writable_in_short(cx, addr, len, align, padding),
                _ => Context::writable_by_log(cx, addr, len, padding),
            }
        }
    }

    /// The same in a transaction that is not short, or if a savepoint is to know of it. By itself, for what it takes would be at the expense of those that are.
    #[inline(never)]
    unsafe fn writable_otherwise(
        cx: *mut Context,
        addr: usize,
        len: usize,
        align: usize,
        padding: Option<Padding>,
    ) -> *mut u8 {
        // SAFETY: the context is there, and nobody else's; the place is in a live value (premises 1 to 3).
        unsafe {
            if padding.is_none() && (*cx).is_in_place(addr, len, align) {
                let in_place = std::ptr::with_exposed_provenance_mut(addr);
                (*cx).hot().recent.note(addr, len, in_place);
                return in_place;
            }
            if (*cx).savepoints.is_open() {
                return Context::writable_since_savepoint(cx, addr, len, align, padding);
            }
            Context::writable_by_log(cx, addr, len, padding)
        }
    }

    /// A copy of a value without padding in a short transaction, if that is simple: there is none of anything in the same lines, nothing is fresh, and there is room.
    ///
    /// # Safety
    /// Premises 3 and 4.
    #[inline(always)]
    pub(crate) unsafe fn copy_at_once(&mut self, addr: usize, len: usize, align: usize) -> Option<*mut u8> {
        debug_assert!(self.route == Route::Short || bug(Bug::SavepointForgetsFields));
        let hot = self.hot();
        let (filter, lines) = (hot.filter.get(), filter_bits_aligned(addr, len, align));
        if filter & lines != 0 || len == 0 || self.alloc.has_fresh() {
            return None;
        }
        let is_fields = self.granularity.is_fields();
        // SAFETY: a live value (premise 3), which is mapped in whole words, for objects are of whole words. The words are in the same lines.
        let copy = unsafe { self.set.insert_at_once(addr, len, align) }?;
        self.hot().filter.set(filter | lines);
        self.note_new_copy(addr, len, copy, is_fields);
        Some(copy)
    }

    /// Whether a store to a part of an object of so many bytes is to take a copy of all of the object. A long transaction logs the part: most come to an object once.
    #[inline(always)]
    pub(crate) fn takes_objects(&self, bytes: usize) -> bool {
        bytes <= SMALL && self.mode == Mode::Short && !self.granularity.is_fields()
    }

    /// Whether there is a copy of some other part of a small `object` (address, bytes) than this `place` within it. A part in lines of which the place has none is not
    /// noticed. That costs a copy more, no harm.
    #[inline(always)]
    pub(crate) fn has_other_part(&self, object: (usize, usize), place: (usize, usize)) -> bool {
        object.1 <= SMALL
            && place.1 > 0
            && self.hot().filter.get() & filter_bits(place.0, place.1) != 0
            && self.finds_other_part(object, place)
    }

    #[inline(never)]
    fn finds_other_part(&self, object: (usize, usize), place: (usize, usize)) -> bool {
        // Mostly nothing, and then one look is enough: in a large transaction the filter says little.
        match self.set.find(object.0, object.1) {
            Find::Nothing => false,
            Find::Copy(_) => true,
            Find::Part => !matches!(self.set.find(place.0, place.1), Find::Copy(_)),
        }
    }

    /// The same in a short transaction where the write set has no copy of all of it, and cannot simply take one: parts of it have copies, it may be fresh, or it does not fit. Or
    /// there is a copy, which is not to be used any more.
    #[inline(never)]
    unsafe fn writable_or_spill(
        cx: *mut Context,
        addr: usize,
        len: usize,
        align: usize,
        padding: Option<Padding>,
        found: Find,
    ) -> *mut u8 {
        // SAFETY: the context is there, and nobody else's; the place is in a live value (premises 1 to 3).
        unsafe {
            let in_part = matches!(found, Find::Part);
            if !matches!(found, Find::Copy(_))
                && let Some(place) = (*cx).writable_in_set(addr, len, align, in_part)
            {
                (*cx).note_padding(addr, padding);
                return place;
            }
            Context::spill(cx);
            Context::writable_by_log(cx, addr, len, padding)
        }
    }

    /// The same in a transaction that is not short, and has not logged all of it, if no savepoint is to know of it.
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
        // SAFETY: the context is there, and nobody else's; the place is in a live value (premises 1 to 3).
        unsafe {
            (*cx).write_back_copies();
            // A doomed transaction, too, for what is new was written where it is before.
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

    /// A copy in the write set, which has none or, if `in_part`, copies of parts only; or the place itself if it is fresh. `None` if the transaction must spill.
    ///
    /// # Safety
    /// Premises 3 and 4.
    #[inline]
    unsafe fn writable_in_set(
        &mut self,
        addr: usize,
        len: usize,
        align: usize,
        in_part: bool,
    ) -> Option<*mut u8> {
        if in_part {
            // SAFETY: the caller's premises.
            return unsafe { self.widen(addr, len, align) };
        }
        if self.alloc.is_fresh(addr) {
            let in_place = std::ptr::with_exposed_provenance_mut(addr);
            self.hot().recent.note(addr, len, in_place);
            return Some(in_place);
        }
        if self.set.len() == self.set.limit() && !self.may_grow() {
            return None;
        }
        // SAFETY: a live value (premise 3), which is mapped in whole words, for objects are of whole words.
        let copy = unsafe { self.set.insert(addr, len, align) }?;
        self.note_copy(addr, len, copy);
        Some(copy)
    }

    /// Notes a copy that was just made, for programs that come back to it. The first one of a transaction is not noted: what comes back to that tells [which
    /// copies](super::copy_granularity) to take, and a transaction that has one copy only, and comes back to nothing, has nothing to forget.
    #[inline(always)]
    fn note_copy(&self, addr: usize, len: usize, copy: *mut u8) {
        let hot = self.hot();
        // The copy is of whole words, which are in the same lines.
        hot.filter.set(hot.filter.get() | filter_bits(addr, len));
        self.note_new_copy(addr, len, copy, self.granularity.is_fields());
    }

    /// The same, but for the filter.
    #[inline(always)]
    fn note_new_copy(&self, addr: usize, len: usize, copy: *mut u8, is_fields: bool) {
        let hot = self.hot();
        if !bug(Bug::RecentAfterCopy) {
            hot.recent.forget_unwritten();
        }
        if !is_fields && self.set.len() > 1 {
            hot.recent.note(addr, len, copy);
        }
    }

    /// One copy of a value of which there are copies in part. `None` if the transaction must spill.
    ///
    /// # Safety
    /// Premises 3 and 4.
    #[cold]
    unsafe fn widen(&mut self, addr: usize, len: usize, align: usize) -> Option<*mut u8> {
        self.granularity.note_part();
        if self.set.len() == self.set.limit() && !self.may_grow() {
            return None;
        }
        // SAFETY: a live value (premise 3), to whose old copies nobody has a `&mut` (4).
        let copy = unsafe { self.set.widen(addr, len, align) }?;
        self.hot().forget_copies(self.hot().filter.get() | filter_bits(addr, len), Bug::RecentAfterWider);
        Some(copy)
    }

    /// Notes a value that may have padding, to be zeroed at commit.
    #[inline(always)]
    pub(crate) fn note_padding(&mut self, addr: usize, padding: Option<Padding>) {
        if let Some(padding) = padding {
            self.padded.add(addr, padding);
        }
    }

    /// Where to read `len` bytes at `addr`; only called when the filter says that a copy may exist.
    ///
    /// Like a spill, this may give a range another place while references into the heap are alive, and changes no byte that they can see: the
    /// old copies stay as they are, and nothing is written before the references end.
    pub(crate) unsafe fn readable(cx: *mut Context, addr: usize, len: usize, align: usize) -> *const u8 {
        let in_place = std::ptr::with_exposed_provenance::<u8>(addr);
        // SAFETY: the context is there, and nobody else's; the place is in a live value (premises 1 to 3).
        unsafe {
            if (*cx).mode == Mode::Short {
                match (*cx).set.find_aligned(addr, len, align) {
                    Find::Copy(copy) if !(*cx).looks_again() => {
                        // What was read, and not written since a savepoint, is to be asked for once more.
                        if !(*cx).savepoints.is_open() {
                            (*cx).hot().recent.note(addr, len, copy);
                        }
                        return copy;
                    }
                    Find::Copy(_) => Context::spill(cx),
                    Find::Nothing => {
                        (*cx).hot().recent.note_unwritten(addr, len);
                        return in_place;
                    }
                    Find::Part => match (*cx).widen(addr, len, align) {
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

    /// Moves what is in the write set to its place.
    pub(crate) unsafe fn leave_write_set(cx: *mut Context) {
        // SAFETY: the context is there, and nobody else's (premises 1 and 2).
        unsafe {
            if (*cx).mode == Mode::Short {
                Context::spill(cx);
            }
            (*cx).write_back_copies();
        }
    }

    /// Moves the copies that had to stay where they were when another root spilled: whoever comes here has the `Txn` of this root, so no `&mut` to a copy
    /// is alive any more.
    #[inline(always)]
    pub(crate) fn write_back_copies(&mut self) {
        if self.copies_pending {
            self.move_pending();
        }
    }

    #[cold]
    fn move_pending(&mut self) {
        self.copies_pending = false;
        match self.mode {
            Mode::Doomed => self.move_copies_to_doomed(),
            Mode::Long => self.write_back(),
            Mode::Short => unreachable!("a root that has not spilled has its copies at home"),
        }
    }

    /// Changes from the write set to the undo log.
    ///
    /// May be called from a read (`&View`) while references into the heap are alive. That is sound, because it stores to no byte
    /// that such a reference covers, be it padding: every `&T` that is alive was made after the last write (`IndexMut` takes `&mut Txn`). If it
    /// overlapped a copy at that time, then the copy covered it, so it points to the copy, and the buffer of the copies is kept
    /// as it is until the transaction ends; or the copy covered a part of it, and then a wider copy covers it, or the transaction spilled there and then.
    /// Or it was taken from the original, and a wider copy came later; then its bytes are the same in both, and only words that differ are stored.
    /// Padding is zeroed when the transaction ends.
    ///
    /// Of the other roots of the transaction there may be a `&mut` to a copy: these copies stay until someone comes with the root's `Txn`.
    #[cold]
    #[inline(never)]
    unsafe fn spill(cx: *mut Context) {
        // SAFETY: the context is there, and nobody else's (premises 1 and 2).
        unsafe {
            if Context::spill_all(cx).is_err() {
                Context::doom(cx);
            }
        }
    }

    /// The context whose log takes the entries of all.
    unsafe fn lead(cx: *mut Context) -> *mut Context {
        // SAFETY: the context is there, and nobody else's (premises 1 and 2).
        let group = unsafe { &(*cx).group };
        group.as_ref().map_or(cx, |group| group[0])
    }

    /// Whether there is room for the undo entries of all copies, and some more: a transaction that fits into its write set is not to fail for want of it.
    #[cold]
    pub(super) fn can_spill(&mut self) -> bool {
        let this = &raw mut *self;
        // To this one there is a reference, which the group's pointer is not made of.
        let known = |other: *mut Context| if other == this { this } else { other };
        // SAFETY: the contexts of a group are distinct, this thread has the locks of all, and nobody has a reference to another one now.
        unsafe {
            let sets = Context::members(this).map(|member| &(*known(member)).set);
            let words: usize = sets.map(|set| set.words() + set.len()).sum();
            (*known(Context::lead(this))).has_log_for(8 * (words + (*this).most_copies) as u64)
        }
    }

    /// The contexts of this transaction, one after the other; this one among them.
    ///
    /// # Safety
    /// Premises 1 and 2.
    unsafe fn members(cx: *mut Context) -> impl Iterator<Item = *mut Context> {
        // SAFETY: the context is there, and nobody else's (premises 1 and 2).
        let group = unsafe { (*cx).group.clone() };
        let number = group.as_ref().map_or(1, |group| group.len());
        (0..number).map(move |i| group.as_ref().map_or(cx, |group| group[i]))
    }

    unsafe fn spill_all(cx: *mut Context) -> Result<()> {
        let mut originals = Vec::new();
        {
            // SAFETY: the contexts of a group are distinct, and there is no reference to any (premises 1 and 2).
            let members: Vec<&mut Context> =
                unsafe { Context::members(cx) }.map(|member| unsafe { &mut *member }).collect();
            Context::upgrade_all(&members);
        }
        // SAFETY: the context is there, and nobody else's (premises 1 and 2).
        for member in unsafe { Context::members(cx) } {
            // SAFETY: one of the group, of which there is no reference to any (premises 1 and 2).
            let member = unsafe { &mut *member };
            debug_assert_eq!(member.mode, Mode::Short);
            // Old records must not be replayed over what is now written in place.
            member.retire_records();
            member.set_mode(Mode::Long);
            let first = originals.len();
            originals.extend(member.set.copies().map(|(addr, _, words)| (addr, words * 8)));
            originals[first..].iter().for_each(|&(addr, len)| member.shade(addr, len));
        }
        cpu::settle(std::ptr::null_mut());
        if !originals.is_empty() {
            // SAFETY: the first context of the group, to which there is no reference (premises 1 and 2); originals, which are mapped, and which `settle` has made definite.
            unsafe { (*Context::lead(cx)).append_undo(&originals)? };
        }
        // SAFETY: the context is there, and nobody else's (premises 1 and 2).
        for member in unsafe { Context::members(cx) } {
            // SAFETY: one of the group, of which there is no reference to any (premises 1 and 2).
            let other = unsafe { &mut *member };
            if member == cx {
                other.write_back();
            } else {
                other.leave_copies();
            }
        }
        Ok(())
    }

    /// Leaves the copies where they are until this root is accessed.
    fn leave_copies(&mut self) {
        self.copies_pending = !self.set.is_empty();
        if self.copies_pending {
            self.hot().forget_copies(u64::MAX, Bug::RecentAfterSpill);
        }
    }

    /// Writes the copies over their originals, which are in the undo log.
    fn write_back(&mut self) {
        let base = self.base();
        // They may have been written since the originals were logged: those of another root were left to whoever had its `Txn`.
        cpu::settle(std::ptr::null_mut());
        let Context { set, logged, media, .. } = self;
        for (addr, copy, words) in set.copies() {
            logged.insert(addr - base, addr - base + words * 8, |_, _| {});
            let original = std::ptr::with_exposed_provenance_mut::<u64>(addr);
            media.expect_stores(original.cast(), words * 8);
            for i in 0..words {
                // SAFETY: copy and original have this many words, definite since `settle`; no reference to a word that differs is alive.
                unsafe {
                    if original.add(i).read() != copy.add(i).read() {
                        media.store(original.add(i).cast(), copy.add(i).cast(), 8);
                    }
                }
            }
        }
        set.forget();
        self.hot().forget_copies(0, Bug::RecentAfterSpill);
    }

    /// From here on the transaction happens in memory, and ends in a rollback.
    #[cold]
    unsafe fn doom(cx: *mut Context) {
        // SAFETY: the context is there, and nobody else's (premises 1 and 2).
        for member in unsafe { Context::members(cx) } {
            // SAFETY: one of the group, of which there is no reference to any (premises 1 and 2).
            let member = unsafe { &mut *member };
            member.set_mode(Mode::Doomed);
            member.gc.wanted = true;
            if std::ptr::eq(member, cx) {
                member.copies_pending = false;
                member.move_copies_to_doomed();
            } else {
                member.leave_copies();
                member.hot().forget_copies(u64::MAX, Bug::RecentAfterDoom);
            }
        }
    }

    fn move_copies_to_doomed(&mut self) {
        for (addr, copy, words) in self.set.copies() {
            // SAFETY: an original is mapped, as long as there is its copy (premise 1 of `WriteSet`); so are others that were copied before.
            let place = self.doomed.copy(addr, words * 8, |addr, to| unsafe { original(addr, to) });
            // SAFETY: so many bytes in memory of their own, and in the set's copy (premise 1 of `WriteSet`).
            unsafe { place.copy_from_nonoverlapping(copy.cast(), words * 8) };
        }
        // The copies stay in the buffer for references that are alive.
        self.set.forget();
        self.hot().forget_copies(u64::MAX, Bug::RecentAfterDoom);
    }

    /// Puts the old content of a range into the undo log, unless it is there.
    #[inline]
    unsafe fn log_range(cx: *mut Context, addr: usize, len: usize) -> Result<()> {
        // SAFETY: the context is there, and nobody else's; the place is in a live value (premises 1 to 3).
        unsafe {
            let offset = addr - (*cx).base();
            if (*cx).logged.contains(offset, offset + len) {
                return Ok(());
            }
            Context::log_ranges(cx, &[(addr, len)])
        }
    }

    /// Puts the old content of several ranges into the undo log, behind one fence.
    unsafe fn log_ranges(cx: *mut Context, places: &[(usize, usize)]) -> Result<()> {
        // SAFETY: the context is there, and nobody else's (premises 1 and 2).
        let mut new = unsafe { (*cx).new_ranges(places) };
        let mut result = Ok(());
        if !new.is_empty() {
            cpu::settle(std::ptr::null_mut());
            // SAFETY: the first context of the group, to which there is no reference (premises 1 and 2); words of live objects or of the header (premise 3), which `settle` has
            // made definite.
            result = unsafe { (*Context::lead(cx)).append_undo(&new) };
            new.clear();
        }
        // SAFETY: the context is there, and nobody else's (premises 1 and 2).
        unsafe { (*cx).scratch = new };
        result
    }

    /// The parts of these places that are not in the undo log, and now must be.
    fn new_ranges(&mut self, places: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let base = self.base();
        let mut new = std::mem::take(&mut self.scratch);
        // All are looked up first: a program has not come back to a block because it asks for two places of it at once.
        for &(addr, len) in places {
            if len > 0 && !self.alloc.is_fresh(addr) {
                new.push(self.range_to_log(addr - base, addr - base + len));
            }
        }
        let wanted = new.len();
        for i in 0..wanted {
            let (start, end) = new[i];
            self.logged.insert(start, end, |offset, bytes| new.push((base + offset, bytes)));
        }
        new.drain(..wanted);
        for &(addr, len) in &new {
            self.shade(addr, len);
            self.media.expect_stores(std::ptr::without_provenance(addr), len);
        }
        new
    }

    /// What to log for a store to `start..end` (offsets in the heap): that, or from the second store to a block of an object on, all of the block.
    ///
    /// A fence, or just making an entry, costs more than the seven lines of old content that go with it then, and most programs that have come back to a block
    /// will again. At worst, if they come back once, the log is five times as long. Large objects whose elements are changed in any order get two fences
    /// for 64 words. (Other objects in the block count as well: to tell them apart would take a look at more than a word of the map.)
    #[inline]
    fn range_to_log(&self, start: usize, end: usize) -> (usize, usize) {
        // The record of a write-ahead log will hold all lines of which anything was logged here.
        let block = if self.media.wal().is_some() { LINE } else { BLOCK };
        if !self.logged.is_begun(start, block) || self.logged.contains(start, end) {
            return (start, end);
        }
        let Some(object) = self.object_at(start) else {
            return (start, end); // metadata
        };
        (object.start.max(start & !(block - 1)), object.end.min(end.next_multiple_of(block)))
    }

    /// Where the object lies (offsets in the heap) that the byte at `offset` belongs to, with what is free behind it.
    pub(super) fn object_at(&self, offset: usize) -> Option<Range<usize>> {
        let (number, slot) = self.alloc.spans.find(&self.store().page_map, offset as u64)?;
        let span = self.alloc.spans.get(number)?;
        let start = span.offset_of(slot) as usize;
        Some(start..start + span.slot as usize)
    }

    /// Whether a place can be written where it is, for its transaction is long and has logged it, and no savepoint is to know of it.
    #[inline(always)]
    pub(crate) fn is_in_place(&self, addr: usize, len: usize, align: usize) -> bool {
        self.route == Route::Long && len > 0 && self.is_logged(addr, len, align)
    }

    /// Whether one byte or more are in the undo log of a transaction that is long, and in their place.
    #[inline(always)]
    fn is_logged(&self, addr: usize, len: usize, align: usize) -> bool {
        let offset = addr - self.base();
        let logged = match len <= align && align <= 8 {
            true => self.logged.contains_word(offset),
            false => self.logged.contains(offset, offset + len),
        };
        logged && !self.copies_pending
    }

    /// Notes a place in `ahead`, unless it is in the undo log.
    #[inline]
    pub(crate) fn note_ahead(&mut self, addr: usize, len: usize, align: usize) {
        if len > 0 && !self.is_logged(addr, len, align) {
            self.ahead.push((addr, len));
        }
    }

    /// Logs the places that were noted in `ahead`, behind one fence.
    #[inline]
    pub(crate) unsafe fn log_ahead(cx: *mut Context) {
        // SAFETY: the context is there, and nobody else's (premises 1 and 2).
        unsafe {
            if !(*cx).ahead.is_empty() {
                Context::log_noted(cx);
            }
        }
    }

    /// As [`log_ahead`](Self::log_ahead), of which this is the rare part.
    unsafe fn log_noted(cx: *mut Context) {
        // SAFETY: the context is there, and nobody else's (premises 1 and 2).
        unsafe {
            let mut ahead = std::mem::take(&mut (*cx).ahead);
            if (*cx).mode == Mode::Long && Context::log_ranges(cx, &ahead).is_err() {
                Context::doom(cx);
            }
            ahead.clear();
            (*cx).ahead = ahead;
        }
    }
}

/// What is in the heap at an address.
///
/// # Safety
/// So much is mapped there, and nobody writes to it.
unsafe fn original(addr: usize, to: &mut [Byte]) {
    let from = std::ptr::with_exposed_provenance::<Byte>(addr);
    // SAFETY: so many bytes are mapped, and nobody writes to them: the caller's premise. What is in a slice of this is in no heap.
    unsafe { to.as_mut_ptr().copy_from_nonoverlapping(from, to.len()) };
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ptr::value_of;
    use crate::txn::doomed::Doomed;
    use crate::{Durability, Options, P, Persist};

    proptest! {
        #[test]
        fn copies_of_a_doomed_transaction_behave_like_memory(
            writes in prop::collection::vec((0usize..500, 1usize..60, any::<u8>(), any::<bool>()), 1..40)
        ) {
            let memory: Vec<u8> = (0..600).map(|i| i as u8).collect();
            let base = memory.as_ptr().expose_provenance();
            let mut model = memory.clone();
            let mut doomed = Doomed::default();
            for (at, len, byte, write) in writes {
                // SAFETY: within `memory`, and within a copy of so many bytes.
                unsafe {
                    let show = |addr, to: &mut [Byte]| original(addr, to);
                    if write {
                        doomed.copy(base + at, len, show).write_bytes(byte, len);
                        model[at..at + len].fill(byte);
                    }
                    let seen = std::slice::from_raw_parts(doomed.readable(base + at, len, show), len);
                    prop_assert_eq!(seen, &model[at..at + len]);
                }
            }
            prop_assert!(memory.iter().enumerate().all(|(i, &b)| b == i as u8));
        }
    }

    /// 4 bytes, the second of which is padding.
    #[derive(Persist, Clone, Copy)]
    #[persist(crate = "crate")]
    #[repr(C)]
    struct Small {
        byte: u8,
        number: u16,
    }

    /// What is in the file where two neighbours in one word are, which a transaction writes with `stale` bytes in their padding, after it has written the first field of `others`.
    fn stored(stale: u8, durability: Durability, others: &[usize]) -> [u8; 8] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("heap");
        let heap = Options::new().durability(durability).open(&path).unwrap();
        let zeros = Small { byte: 0, number: 0 };
        let root = heap.root_or::<P<[Small]>>("small", |tx| tx.alloc_slice(8, |_| zeros)).unwrap();
        let offset = root
            .txn(|tx, p| {
                let small = tx[p];
                others.iter().for_each(|&i| tx[crate::field!((small.at(i)).byte)] = 1);
                for i in [2, 3] {
                    let place: *mut Small = &raw mut tx[small.at(i)];
                    // SAFETY: the transaction's place for a `Small`, of which any bytes are a value.
                    unsafe { place.cast::<u8>().write_bytes(stale, size_of::<Small>()) };
                }
                Ok(value_of(small.at(2)).addr() - heap.inner().base().addr())
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
            // Without other copies, with one of a part of a value, with one that both of them are beside of.
            for others in [&[][..], &[2], &[3], &[7, 6, 5, 4, 3, 2, 1, 0]] {
                assert_eq!(stored(0xa5, durability, others), expected, "{durability:?}, {others:?}");
            }
        }
    }

    /// 7 bytes of padding.
    #[derive(Persist, Clone, Copy)]
    #[persist(crate = "crate")]
    #[repr(C, align(8))]
    struct Gap {
        byte: u8,
    }

    #[derive(Persist, Clone, Copy)]
    #[persist(crate = "crate")]
    #[repr(C)]
    struct Pair {
        one: Gap,
        two: Gap,
    }

    #[test]
    fn a_spill_leaves_padding_alone_that_a_reference_covers() {
        let heap = Options::new().in_memory().unwrap();
        let root: crate::Root<Pair> =
            heap.root_or("pair", |_| Ok(Pair { one: Gap { byte: 1 }, two: Gap { byte: 2 } })).unwrap();
        root.txn(|tx, pair| {
            let gap = crate::field!(pair.two);
            let original = value_of(gap).cast::<[u8; 8]>();
            // SAFETY: the bytes of a value, to which there is no reference.
            unsafe { original.write([2; 8]) };
            tx[crate::field!(pair.one)].byte = 3;
            // In its place, for it has no copy. Then it gets one, as a part of a wider one.
            let two = &tx[gap];
            assert_eq!(tx[pair].one.byte, 3);
            tx.shared();
            assert_eq!(std::ptr::from_ref(two).addr(), original.addr());
            // SAFETY: the bytes of a value, to which there are shared references.
            assert_eq!(unsafe { original.read() }, [2; 8]);
            assert_eq!(two.byte, 2);
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn places_that_were_noted_and_not_logged_go_with_their_transaction() {
        let heap = Options::new().in_memory().unwrap();
        let root = heap.root::<u64>("number").unwrap();
        root.txn(|tx, p| {
            // SAFETY: all of a live object.
            unsafe { tx.__ahead(value_of(p), Some(value_of(p))) };
            assert!(tx.__is_ahead());
            Ok(())
        })
        .unwrap();
        let is_ahead = root.txn(|tx, _| Ok(tx.__is_ahead())).unwrap();
        assert!(!is_ahead);
    }

    #[test]
    fn places_that_are_logged_together_share_a_fence() {
        let dir = tempfile::tempdir().unwrap();
        let fences = [false, true].map(|together| {
            let options = Options::new().durability(Durability::Pmem).pin_undo(true);
            let heap = options.open(dir.path().join(together.to_string())).unwrap();
            let root = heap
                .root_or::<Option<P<[u64]>>>("numbers", |tx| Ok(Some(tx.alloc_slice(1000, |_| 7)?)))
                .unwrap();
            root.txn(|tx, p| {
                let numbers = tx[p].unwrap();
                let places = [3, 400, 405, 990].map(|i| numbers.at(i));
                let before = heap.stats().fences;
                if together {
                    // SAFETY: the places of elements.
                    unsafe { tx.announce(&places.map(|p| (value_of(p).cast(), 8))) };
                    assert_eq!(heap.stats().fences, before + 1);
                }
                places.iter().for_each(|&p| tx[p] = 8);
                Ok(heap.stats().fences - before)
            })
            .unwrap()
        });
        assert_eq!(fences, [4, 1]);
    }
}
