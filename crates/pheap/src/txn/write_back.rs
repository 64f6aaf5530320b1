//! The change from copies to the undo log: how a transaction spills, and where its copies go if the log
//! cannot grow.

#![allow(unsafe_code)]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "a block is about one context, which is borrowed piece by piece, or about one word"
)]

use super::context::{Context, Mode};
use super::doomed::Byte;
use crate::error::Result;
use crate::faults::Bug;
use crate::os::cpu;

/// The unsafe functions here have the premises of [`paths`](super::paths), with their numbers.
impl Context {
    /// Stores the content of this root's write set in place, or moves it to `doomed` if the originals cannot
    /// be logged. The transaction is long or doomed afterwards.
    pub(crate) unsafe fn leave_write_set(cx: *mut Context) {
        // SAFETY: `cx` is valid, and no reference to it exists (premises 1 and 2).
        unsafe {
            if (*cx).mode == Mode::Short {
                Context::spill(cx);
            }
            (*cx).write_back_copies();
        }
    }

    /// Stores in place the copies that had to stay when another root of the transaction spilled, or moves
    /// them to `doomed` in a doomed transaction. Does nothing if no copies are pending. The caller has the
    /// `Txn` of this root, or commits, so no `&mut` to a copy is alive any more.
    #[inline(always)]
    pub(crate) fn write_back_copies(&mut self) {
        if self.copies_pending {
            self.move_pending();
        }
    }

    #[cold]
    fn move_pending(&mut self) {
        self.copies_pending = false;
        self.set_route();
        match self.mode {
            Mode::Doomed => self.move_copies_to_doomed(),
            Mode::Long => self.write_back(),
            Mode::Short => unreachable!("a root that has not spilled has its copies at home"),
        }
    }

    /// Changes from the write set to the undo log. If the log cannot grow, the transaction is doomed.
    ///
    /// A read (`&View`) may call this while references into the heap are alive. That is sound, because it
    /// stores to no byte that such a reference covers, including padding. Each live `&T` was made after the
    /// last write (`IndexMut` takes `&mut Txn`). Suppose the value overlapped a copy at that time. If the
    /// copy covered the value, the reference points to the copy, and the buffer of copies is kept unchanged
    /// until the transaction ends. If the copy covered a part of the value, the value got a wider copy, or
    /// the transaction spilled at that moment. If the value overlapped no copy, the reference points to the
    /// original. A wider copy may have come later; then the value's bytes are the same in both, and only
    /// words that differ are stored. A spill zeroes no padding.
    ///
    /// For the other roots of the transaction there may be a `&mut` to a copy. So these copies stay until
    /// the next access with that root's `Txn`, or until the commit.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn spill(cx: *mut Context) {
        // SAFETY: `cx` is valid, and no reference to it exists (premises 1 and 2).
        unsafe {
            if Context::spill_all(cx).is_err() {
                Context::doom(cx);
            }
        }
    }

    /// Returns the context whose log takes the undo entries of all roots.
    pub(super) unsafe fn lead(cx: *mut Context) -> *mut Context {
        // SAFETY: `cx` is valid, and no reference to it exists (premises 1 and 2).
        let group = unsafe { &(*cx).group };
        group.as_ref().map_or(cx, |group| group[0])
    }

    /// Makes room in the undo log for the originals of all copies, with headers. Returns whether there is
    /// room. A transaction that fits into its write set must not fail for lack of an undo log.
    #[cold]
    pub(super) fn can_spill(&mut self) -> bool {
        let this = &raw mut *self;
        // `self` is a reference to this context, so it must not be accessed through the pointer of the group.
        let known = |other: *mut Context| if other == this { this } else { other };
        // SAFETY: the contexts of a group are distinct, this thread has the locks of all, and no reference to
        // another one of them exists now. This one is accessed through `this` only.
        unsafe {
            let sets = Context::members(this).map(|member| &(*known(member)).set);
            let words: usize = sets.map(|set| set.copied_words() + set.len()).sum();
            (*known(Context::lead(this))).make_log_for(8 * (words + (*this).most_copies) as u64).is_ok()
        }
    }

    /// Returns the contexts of this transaction, one after the other, including this one.
    ///
    /// # Safety
    /// Premises 1 and 2.
    unsafe fn members(cx: *mut Context) -> impl Iterator<Item = *mut Context> {
        // SAFETY: `cx` is valid, and no reference to it exists (premises 1 and 2).
        let group = unsafe { (*cx).group.clone() };
        let number = group.as_ref().map_or(1, |group| group.len());
        (0..number).map(move |i| group.as_ref().map_or(cx, |group| group[i]))
    }

    unsafe fn spill_all(cx: *mut Context) -> Result<()> {
        let mut originals = Vec::new();
        {
            // SAFETY: the contexts of a group are distinct, and no reference to any of them exists (premises
            // 1 and 2).
            let members: Vec<&mut Context> =
                unsafe { Context::members(cx) }.map(|member| unsafe { &mut *member }).collect();
            Context::upgrade_all(&members);
        }
        // SAFETY: `cx` is valid, and no reference to it exists (premises 1 and 2).
        for member in unsafe { Context::members(cx) } {
            // SAFETY: `member` is a context of the group, and no reference to any of these exists (premises 1
            // and 2).
            let member = unsafe { &mut *member };
            debug_assert_eq!(member.mode, Mode::Short);
            // Old records must not be replayed over words that are stored in place from now on.
            member.retire_records();
            member.share_logged();
            member.set_mode(Mode::Long);
            let first = originals.len();
            originals.extend(member.set.copies().map(|(addr, _, words)| (addr, words * 8)));
            originals[first..].iter().for_each(|&(addr, len)| member.shade(addr, len));
        }
        cpu::settle(std::ptr::null_mut());
        if !originals.is_empty() {
            // SAFETY: `lead` returns a context of this transaction, to which no reference exists (premises 1
            // and 2). Originals of copies are mapped, and `settle` has made them definite.
            unsafe { (*Context::lead(cx)).append_undo(&originals)? };
        }
        // SAFETY: `cx` is valid, and no reference to it exists (premises 1 and 2).
        for member in unsafe { Context::members(cx) } {
            // SAFETY: `member` is a context of the group, and no reference to any of these exists (premises 1
            // and 2).
            let other = unsafe { &mut *member };
            if member == cx {
                other.write_back();
            } else {
                other.leave_copies();
            }
        }
        Ok(())
    }

    /// Leaves the copies in the write set until this root is accessed, or the transaction ends.
    fn leave_copies(&mut self) {
        self.copies_pending = !self.set.is_empty();
        if self.copies_pending {
            self.set_route();
            self.hot().forget_copies(u64::MAX, Bug::RecentAfterSpill);
        }
    }

    /// Stores the words in which copies differ from their originals, which are in the undo log.
    fn write_back(&mut self) {
        let base = self.base();
        // Copies of another root may have been written since the originals were logged, by the holder of that
        // root's `Txn`.
        cpu::settle(std::ptr::null_mut());
        let Context { set, logged, media, .. } = self;
        for (addr, copy, words) in set.copies() {
            logged.insert(addr - base, addr - base + words * 8, |_, _| {});
            let original = std::ptr::with_exposed_provenance_mut::<u64>(addr);
            media.expect_stores(original.cast(), words * 8);
            for i in 0..words {
                // SAFETY: `copy` and `original` have `words` words, definite since `settle`. No reference to
                // a word that differs is alive.
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

    /// Dooms the transaction: it continues with copies in DRAM, and ends in a rollback.
    #[cold]
    pub(super) unsafe fn doom(cx: *mut Context) {
        // SAFETY: `cx` is valid, and no reference to it exists (premises 1 and 2).
        for member in unsafe { Context::members(cx) } {
            // SAFETY: `member` is a context of the group, and no reference to any of these exists (premises 1
            // and 2).
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
            // SAFETY: `doomed` asks for the heap's bytes in the range of this copy, and in those of its own
            // older copies that overlap it. The former are mapped as long as the copy exists (premise 1 of
            // `WriteSet`). The latter were mapped when `doomed` copied them, and the heap stays mapped during
            // the transaction. Only this thread, the region's writer, may write to any of them. `to` is a new
            // buffer.
            let place = self.doomed.copy(addr, words * 8, |addr, to| unsafe { original(addr, to) });
            // SAFETY: `place` has `words` words in a buffer of `doomed`, and the copy has as many (premise 1
            // of `WriteSet`). The two do not overlap.
            unsafe { place.copy_from_nonoverlapping(copy.cast(), words * 8) };
        }
        // The copies stay in the buffer, because references to them may be alive.
        self.set.forget();
        self.hot().forget_copies(u64::MAX, Bug::RecentAfterDoom);
    }
}

/// Copies the bytes of the heap at `addr` to `to`.
///
/// # Safety
/// At `addr`, `to.len()` bytes are mapped, and no thread writes to them. `to` does not overlap them.
pub(super) unsafe fn original(addr: usize, to: &mut [Byte]) {
    let from = std::ptr::with_exposed_provenance::<Byte>(addr);
    // SAFETY: the caller guarantees that `to.len()` bytes at `addr` are mapped, that no thread writes to
    // them, and that `to` does not overlap them.
    unsafe { to.as_mut_ptr().copy_from_nonoverlapping(from, to.len()) };
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ptr::value_of;
    use crate::txn::doomed::DoomedCopies;
    use crate::{Options, Persist};

    proptest! {
        #[test]
        fn copies_of_a_doomed_transaction_behave_like_memory(
            writes in prop::collection::vec((0usize..500, 1usize..60, any::<u8>(), any::<bool>()), 1..40)
        ) {
            let memory: Vec<u8> = (0..600).map(|i| i as u8).collect();
            let base = memory.as_ptr().expose_provenance();
            let mut model = memory.clone();
            let mut doomed = DoomedCopies::default();
            for (at, len, byte, write) in writes {
                // SAFETY: `at + len` is within `memory`, and `doomed` returns `len` bytes.
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

    /// A value of one byte, and 7 bytes of padding.
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
            // SAFETY: `original` has the 8 bytes of a value, to which no reference exists.
            unsafe { original.write([2; 8]) };
            tx[crate::field!(pair.one)].byte = 3;
            // This reference is to the original, which has no copy. Then a wider copy includes it.
            let two = &tx[gap];
            assert_eq!(tx[pair].one.byte, 3);
            tx.shared();
            assert_eq!(std::ptr::from_ref(two).addr(), original.addr());
            // SAFETY: `original` has the 8 bytes of a value, to which only shared references exist.
            assert_eq!(unsafe { original.read() }, [2; 8]);
            assert_eq!(two.byte, 2);
            Ok(())
        })
        .unwrap();
    }
}
