//! The heaps that each thread is inside. If a thread inside a heap waited for another lock of the same heap,
//! or of another heap, it could in some cases wait for ever. These cases are refused, with `Error::Nested`
//! and `Error::SeveralHeaps`.
//!
//! Each function that calls the program's code while it holds a lock of a heap is recorded here before it
//! locks: transactions, reads, copies, and the creation, renaming and removal of roots. So an attempt to wait
//! for a lock that the caller holds is refused before any lock is taken.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::error::{Error, Result};

/// Number of scopes inside which a thread can enter no further transaction, read or access to a snapshot.
const DEPTH: usize = 16;
/// Number of scopes that one thread can be inside at a time. It is larger than [`DEPTH`], so that a thread
/// inside [`DEPTH`] scopes of other heaps can close a heap.
const SLOTS: usize = 2 * DEPTH;
const TOO_DEEP: &str = "a thread can be inside of transactions and reads of at most 16 heaps at a time";

/// What a thread does in a heap, which determines the locks that it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A transaction: the thread has the locks of its regions, as their writer.
    Transaction,
    /// A read: the thread shares the lock of its region, or the locks of all regions. Reads may nest, because
    /// they never wait for one another.
    Read,
    /// An access to a snapshot: the thread has no lock. Only threads that close the heap or remove roots wait
    /// for such an access.
    Snapshot,
    /// This thread has the lock `creation`, or is about to wait for it, or [asks](may_wait) whether it may
    /// wait. While a thread has the lock, no other thread creates, renames or removes a root.
    Roots,
    /// This thread has the lock `copies`, or is about to wait for it. While a thread has the lock, no other
    /// thread closes the heap.
    Copy,
}

impl Scope {
    /// Whether a thread may enter this scope inside the scope `outer` of the same heap. It may if the threads
    /// for which the new scope waits never wait for a lock of the outer scope. Then it may also enter the new
    /// scope if the scopes are of two heaps.
    fn nests_in(self, outer: Scope) -> bool {
        match (self, outer) {
            (Scope::Snapshot, _) | (Scope::Roots, Scope::Copy) => true,
            (Scope::Roots | Scope::Copy, _) => false,
            (Scope::Transaction, Scope::Transaction | Scope::Read) | (Scope::Read, Scope::Transaction) => {
                false
            }
            (Scope::Transaction | Scope::Read, _) => true,
        }
    }
}

#[derive(Clone, Copy)]
struct EnteredScope {
    heap: usize,
    scope: Scope,
}

struct ThreadScopes {
    count: Cell<usize>,
    inside: [Cell<EnteredScope>; SLOTS],
    /// Whether the thread runs [`with_several_heaps`]: then it may enter a scope of one heap inside any scope
    /// of another heap.
    several: Cell<bool>,
    /// With a write-ahead log, for each [read of a region](super::SharedRegion): the log position up to which
    /// the read, or a read nested in it, may have seen records.
    seen: [Cell<u64>; SLOTS],
}

// `ThreadScopes` has no destructor, so that an access to the thread-local is a plain load.
thread_local! {
    static SCOPES: ThreadScopes = const {
        ThreadScopes {
            count: Cell::new(0),
            several: Cell::new(false),
            inside: [const { Cell::new(EnteredScope { heap: 0, scope: Scope::Read }) }; SLOTS],
            seen: [const { Cell::new(0) }; SLOTS],
        }
    };
}

/// Records that this thread enters a scope in `heap`. The caller [leaves](leave) the scope at its end.
///
/// # Errors
/// [`Error::Nested`], [`Error::SeveralHeaps`]; [`Error::Unsupported`] if the thread is inside too many
/// scopes.
#[inline(always)]
pub(crate) fn enter(heap: usize, scope: Scope) -> Result<()> {
    SCOPES.with(|scopes| {
        let (count, new) = (scopes.count.get(), EnteredScope { heap, scope });
        if count > 0 {
            scopes.may_enter(new)?;
        }
        scopes.inside[count % SLOTS].set(new);
        scopes.count.set(count + 1);
        Ok(())
    })
}

/// A scope that this thread [leaves](leave) when this value is dropped.
pub(crate) struct ScopeGuard {
    heap: usize,
    /// Keeps this value in the thread that has entered the scope, and must leave it.
    thread: PhantomData<*const ()>,
}

impl ScopeGuard {
    /// [Enters](enter) a scope.
    pub(crate) fn new(heap: usize, scope: Scope) -> Result<ScopeGuard> {
        enter(heap, scope)?;
        Ok(ScopeGuard { heap, thread: PhantomData })
    }
}

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        leave(self.heap);
    }
}

impl ThreadScopes {
    #[cold]
    fn may_enter(&self, new: EnteredScope) -> Result<()> {
        let inside = &self.inside[..self.count.get()];
        for outer in inside.iter().map(Cell::get).filter(|outer| !new.scope.nests_in(outer.scope)) {
            if outer.heap == new.heap {
                return Err(Error::Nested);
            }
            // One heap may be read and the other one changed, without `with_several_heaps`: the program must
            // keep to one order.
            let reads = [new.scope, outer.scope].contains(&Scope::Read);
            let changes = [new.scope, outer.scope].contains(&Scope::Transaction);
            if !(reads && changes || self.several.get()) {
                return Err(Error::SeveralHeaps);
            }
        }
        let most = if matches!(new.scope, Scope::Roots | Scope::Copy) { SLOTS } else { DEPTH };
        if inside.len() < most { Ok(()) } else { Err(Error::Unsupported(TOO_DEEP)) }
    }

    /// Whether the thread holds a lock in one of the first `count` scopes.
    fn has_lock(&self, count: usize) -> bool {
        self.inside[..count].iter().any(|inside| inside.get().scope != Scope::Snapshot)
    }
}

/// Runs `f`, in which no scope is refused with [`Error::SeveralHeaps`].
pub(crate) fn with_several_heaps<R>(f: impl FnOnce() -> R) -> R {
    /// Restores the earlier value of `several` when dropped, also in a panic.
    struct RestoreSeveral(bool);
    impl Drop for RestoreSeveral {
        fn drop(&mut self) {
            SCOPES.with(|scopes| scopes.several.set(self.0));
        }
    }
    let _before = RestoreSeveral(SCOPES.with(|scopes| scopes.several.replace(true)));
    f()
}

/// Ends the newest scope of this thread, which is one of `heap`.
#[inline(always)]
pub(crate) fn leave(heap: usize) {
    SCOPES.with(|scopes| {
        // Scopes end in the reverse order of their beginning, also in a panic.
        let count = scopes.count.get();
        debug_assert!(count > 0 && scopes.inside[count - 1].get().heap == heap);
        let _ = heap;
        scopes.count.set(count - 1);
    });
}

/// Whether this thread held a lock, of this heap or another, before it [entered](enter) the newest scope.
/// Other threads may wait for that lock. (An access to a snapshot does not count: no thread waits for one
/// while it has the lock of a region.)
#[inline(always)]
pub(crate) fn is_nested() -> bool {
    SCOPES.with(|scopes| {
        let count = scopes.count.get();
        count > 1 && scopes.has_lock(count - 1)
    })
}

/// Whether this thread holds a lock of any heap.
pub(crate) fn is_inside_any() -> bool {
    SCOPES.with(|scopes| scopes.has_lock(scopes.count.get()))
}

/// Whether this thread is inside no scope, so that no thread waits for it.
pub(crate) fn is_outside() -> bool {
    SCOPES.with(|scopes| scopes.count.get() == 0)
}

/// Fails if this thread must not wait for a region of `heap`, because it is inside this heap (except in a
/// copy), or inside another one (except in a copy, or within [`with_several_heaps`]).
///
/// # Errors
/// [`Error::Nested`], [`Error::SeveralHeaps`]; [`Error::Unsupported`] if the thread is inside too many
/// scopes.
pub(crate) fn may_wait(heap: usize) -> Result<()> {
    ScopeGuard::new(heap, Scope::Roots).map(drop)
}

/// Records the position up to which a read of `heap` sees the log. This thread has just [entered](enter) the
/// read, and has the region's lock. [Outer reads](ThreadScopes::outer_reads) get the position, too, because
/// the inner read returns its result to them.
pub(crate) fn note_seen(heap: usize, position: u64) {
    SCOPES.with(|scopes| {
        let newest = scopes.count.get() - 1;
        scopes.seen[newest].set(position);
        for outer in scopes.outer_reads(heap) {
            scopes.seen[outer].set(scopes.seen[outer].get().max(position));
        }
    });
}

/// Returns the position up to which the newest read of this thread, which is one of `heap`, has seen the log,
/// including reads nested in it. Also returns whether there is an
/// [outer read](ThreadScopes::outer_reads), which has that position, too, or a later one.
pub(crate) fn newest_read_position(heap: usize) -> (u64, bool) {
    SCOPES
        .with(|scopes| (scopes.seen[scopes.count.get() - 1].get(), scopes.outer_reads(heap).next().is_some()))
}

impl ThreadScopes {
    /// Returns the indices of the reads of `heap` in which the newest scope is nested without a transaction
    /// in between: a transaction may become durable before the outer read ends.
    fn outer_reads(&self, heap: usize) -> impl Iterator<Item = usize> + '_ {
        let inside = |&place: &usize| self.inside[place].get();
        let outer = (0..self.count.get() - 1).rev();
        outer
            .take_while(move |place| inside(place).scope != Scope::Transaction)
            .filter(move |place| inside(place).heap == heap && inside(place).scope == Scope::Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read within an access to a snapshot waits for the disk itself, and takes its turn at its root.
    #[test]
    fn a_look_at_a_snapshot_is_no_read() {
        enter(8, Scope::Snapshot).unwrap();
        enter(8, Scope::Read).unwrap();
        note_seen(8, 64);
        assert!(!newest_read_position(8).1 && !is_nested() && matches!(may_wait(8), Err(Error::Nested)));
        enter(8, Scope::Read).unwrap();
        assert!(newest_read_position(8).1 && is_nested());
        (0..3).for_each(|_| leave(8));
        assert!(!is_inside_any());
    }
}
