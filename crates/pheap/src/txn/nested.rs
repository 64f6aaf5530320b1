//! Nested parts of a transaction, which can be taken back alone, by [savepoints](super::savepoint).
//!
//! While a savepoint is open, each store to an object that is older than the savepoint gets its place from
//! [`Context::writable`], or from the cache of [`recent`](super::recent) places, or follows a call of
//! [`Context::save_in_place`]. That cache is emptied when the savepoint is opened, so it has only places that
//! `writable` has returned since then.

#![allow(unsafe_code)]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "a block is about one context, which is borrowed piece by piece"
)]

use super::context::{Context, Mode};
use super::savepoint::Word;
use crate::faults::{Bug, bug};
use crate::layout::Padding;

/// The `unsafe` functions here that state no premises have those of [`paths`](super::paths).
impl Context {
    /// Opens a savepoint.
    pub(crate) fn open_savepoint(&mut self) {
        let padded = std::mem::take(&mut self.padded);
        self.savepoints.open(self.held.len(), self.alloc.mark(), padded);
        self.set_route();
        if !bug(Bug::RecentAfterSavepoint) {
            self.hot().recent.forget();
        }
    }

    /// Closes the newest savepoint, and keeps the changes since it was opened.
    pub(crate) fn keep_changes(&mut self) {
        let Some(mut savepoint) = self.savepoints.close() else { return };
        let inside = std::mem::replace(&mut self.padded, std::mem::take(&mut savepoint.padded));
        inside.iter().for_each(|(addr, padding)| self.padded.add(addr, padding));
        self.savepoints.merge_into_outer(savepoint);
        if !bug(Bug::SavepointKeepsRoute) {
            self.set_route();
        }
    }

    /// Closes the newest savepoint, and neither keeps nor takes back the changes since it was opened: the
    /// region is between two states, or the transaction belongs to the parent of this process.
    pub(crate) fn drop_savepoint(&mut self) {
        self.savepoints.close();
        self.set_route();
    }

    /// Takes back the changes since the newest savepoint was opened, and closes it. Returns the slots of
    /// pointers that were held since then.
    pub(crate) unsafe fn take_changes_back(cx: *mut Context) -> Vec<u32> {
        // SAFETY: `cx` points to the context of this thread's open transaction, and no reference to it exists
        // (premises 1 and 2). The words were written by this transaction, so they are its to write, and no
        // reference to them is alive (premise 4).
        unsafe {
            let Some(mut savepoint) = (*cx).savepoints.close() else { return Vec::new() };
            // Padding is zeroed before the changes are taken back: new objects become garbage, which must not
            // keep stray padding, and the noted places may then hold no valid values of their types.
            if (*cx).mode != Mode::Doomed {
                (*cx).write_back_copies();
                (*cx).zero_padding();
            }
            (*cx).padded = std::mem::take(&mut savepoint.padded);
            if !bug(Bug::SavepointKeepsFrees) {
                (*cx).alloc.take_back_frees(savepoint.allocated);
            }
            let held = (*cx).held.split_off(savepoint.held);
            let before = (*cx).savepoints.take_since(savepoint);
            for (start, words) in before.newest_first() {
                if bug(Bug::DoomKeepsChanges) && (*cx).mode == Mode::Doomed {
                    continue;
                }
                let place = Context::writable_now(cx, (*cx).base() + start, words.len() * 8, 8, None);
                place.cast::<Word>().copy_from_nonoverlapping(words.as_ptr(), words.len());
            }
            (*cx).set_route();
            (*cx).ahead.clear();
            // The cache has places that `writable` has returned since the inner savepoint was opened. For the
            // outer savepoint, the old content of the words there may not be saved.
            if !bug(Bug::RecentAfterTakenBack) {
                (*cx).hot().recent.forget();
            }
            held
        }
    }

    /// [`writable`](Self::writable) while a savepoint is open.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn writable_since_savepoint(
        cx: *mut Context,
        addr: usize,
        len: usize,
        align: usize,
        padding: Option<Padding>,
    ) -> *mut u8 {
        if len == 0 {
            return std::ptr::with_exposed_provenance_mut(addr);
        }
        // Old content is saved in whole words. The words around the value belong to the same object, and are
        // in the same copy.
        let (start, end) = (addr & !7, (addr + len).next_multiple_of(8));
        // SAFETY: the premises of `writable`, which the caller guarantees. The range from `start` to `end`
        // may have some bytes more than the value, of the same object.
        unsafe {
            let place = Context::writable_now(cx, start, end - start, align.max(8), None);
            (*cx).save_words(start, place, end - start);
            let place = place.wrapping_add(addr - start);
            (*cx).note_padding(addr, padding);
            if (*cx).mode != Mode::Doomed {
                (*cx).hot().recent.record_recent(addr, len, place);
            }
            place
        }
    }

    /// Saves the old content of these bytes for the newest savepoint, if one is open. The bytes belong to an
    /// object that this transaction has made, and are about to be changed in place.
    pub(crate) fn save_in_place(&mut self, addr: usize, len: usize) {
        if self.savepoints.is_open() && !bug(Bug::SavepointForgetsNodes) {
            // SAFETY: an object that this transaction has made is in place at its address, mapped in whole
            // words, and no other thread writes to it.
            unsafe {
                self.save_words(addr, std::ptr::with_exposed_provenance(addr), len.next_multiple_of(8))
            };
        }
    }

    /// Saves the words at `addr`, whose present content is at `place`, for the newest savepoint, if one is
    /// open, unless their object was allocated since that savepoint was opened.
    ///
    /// # Safety
    /// At `place` are `len` bytes, which are whole words, and no thread writes to them during the call.
    unsafe fn save_words(&mut self, addr: usize, place: *const u8, len: usize) {
        let Some(savepoint) = self.savepoints.last() else { return };
        // Once the savepoint is taken back, no pointer to an object that was allocated since its opening can
        // exist.
        if self.alloc.is_fresh_since(addr, savepoint.allocated) {
            return;
        }
        if bug(Bug::SavepointForgetsFresh) && self.alloc.is_fresh(addr) {
            return;
        }
        // SAFETY: the caller guarantees that `len` bytes at `place` are whole words, and that no thread
        // writes to them.
        let now = unsafe { std::slice::from_raw_parts(place.cast::<Word>(), len / 8) };
        self.savepoints.save(addr - self.base(), now);
    }
}
