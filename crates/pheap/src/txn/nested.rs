//! Parts of a transaction that can be taken back alone, by [savepoints](super::savepoint).
//!
//! While a savepoint is open, each store asks [`Context::writable`], unless [`recent`](super::recent) knows the place; and that knows only what was asked for since the savepoint.

#![allow(unsafe_code)]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "a block is about one context, which is borrowed piece by piece"
)]

use super::context::{Context, Mode};
use super::savepoint::Word;
use crate::faults::{Bug, bug};
use crate::layout::Padding;

/// The premises of [`Context::writable`].
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

    /// Closes the savepoint that was opened last. What has changed since then stays.
    pub(crate) fn keep_changes(&mut self) {
        let Some(mut savepoint) = self.savepoints.close() else { return };
        let inside = std::mem::replace(&mut self.padded, std::mem::take(&mut savepoint.padded));
        inside.iter().for_each(|(addr, padding)| self.padded.add(addr, padding));
        self.savepoints.keep(savepoint);
        if !bug(Bug::SavepointKeepsRoute) {
            self.set_route();
        }
    }

    /// Closes the savepoint that was opened last without another look at it: its transaction is taken back as a whole.
    pub(crate) fn drop_savepoint(&mut self) {
        self.savepoints.close();
        self.set_route();
    }

    /// Takes back what has changed since the savepoint was opened that was opened last, and closes it. Returns the slots of pointers that were held since.
    pub(crate) unsafe fn take_changes_back(cx: *mut Context) -> Vec<u32> {
        // SAFETY: the context is there, and nobody else's. What was written is the transaction's to write again: nobody has a reference to it.
        unsafe {
            let Some(mut savepoint) = (*cx).savepoints.close() else { return Vec::new() };
            // What is left of it as garbage is to have no padding, either, and soon values may be no values of their types.
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
            // What was asked for since is not what was asked for since the savepoint around.
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
        // Whole words, for what they were is kept by the word. They belong to the same object, and are in the same copy.
        let (start, end) = (addr & !7, (addr + len).next_multiple_of(8));
        // SAFETY: the premises of `writable`, but that the words may have a byte more than the value, of the same object.
        unsafe {
            let place = Context::writable_now(cx, start, end - start, align.max(8), None);
            (*cx).save_words(start, place, end - start);
            let place = place.wrapping_add(addr - start);
            (*cx).note_padding(addr, padding);
            if (*cx).mode != Mode::Doomed {
                (*cx).hot().recent.note(addr, len, place);
            }
            place
        }
    }

    /// Makes the transaction able to go back to its last savepoint, if one is open, although these bytes of an object of its own are about to be changed where they are.
    pub(crate) fn save_in_place(&mut self, addr: usize, len: usize) {
        if self.savepoints.is_open() && !bug(Bug::SavepointForgetsNodes) {
            // SAFETY: an object of the transaction's own is where its address says, and nobody else has it.
            unsafe {
                self.save_words(addr, std::ptr::with_exposed_provenance(addr), len.next_multiple_of(8))
            };
        }
    }

    /// # Safety
    /// So many bytes, which are whole words, are at `place`, and nobody writes to them.
    unsafe fn save_words(&mut self, addr: usize, place: *const u8, len: usize) {
        let Some(savepoint) = self.savepoints.last() else { return };
        // Nobody can have a pointer to what was allocated since, when that is taken back.
        if self.alloc.is_fresh_since(addr, savepoint.allocated) {
            return;
        }
        if bug(Bug::SavepointForgetsFresh) && self.alloc.is_fresh(addr) {
            return;
        }
        // SAFETY: so many bytes are there, which are whole words, and nobody writes to them: the caller's premises.
        let now = unsafe { std::slice::from_raw_parts(place.cast::<Word>(), len / 8) };
        self.savepoints.save(addr - self.base(), now);
    }
}
