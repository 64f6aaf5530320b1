//! What this thread is inside of: to wait for more of the same heap (`Error::Nested`), or for all of another one
//! (`Error::SeveralHeaps`), could be for ever.
//!
//! Everything that calls the program's code with a lock of a heap held is noted here first: transactions,
//! reads, the lock on roots that come and go, copies. So what would wait for a lock that its caller holds is
//! found before any lock is taken.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::error::{Error, Result};

/// Scopes in which a thread can enter a transaction or read at most.
const DEPTH: usize = 16;
/// Scopes that one thread can be inside of at a time. More, so that a heap can be closed wherever one can be read.
const SLOTS: usize = 2 * DEPTH;
const TOO_DEEP: &str = "a thread can be inside of transactions and reads of at most 16 heaps at a time";

/// What a thread does in a heap, and so what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A transaction has the locks of its regions.
    Transaction,
    /// A read has the lock of its region, shared. Reads nest, for they never wait for one another.
    Read,
    /// A look at a snapshot has no lock. Only threads that close the heap or remove roots wait for it.
    Snapshot,
    /// No root comes or goes, but by this thread: it has the lock `creation`.
    Roots,
    /// The heap is not closed, but by this thread: it has the lock `copies`.
    Copy,
}

impl Scope {
    /// Whether a thread may enter this scope inside of another one of the same heap: whether what this waits
    /// for never waits for what the other one holds. Then that is so of two heaps, too.
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
struct Inside {
    heap: usize,
    scope: Scope,
}

struct Scopes {
    count: Cell<usize>,
    inside: [Cell<Inside>; SLOTS],
    /// Whether what holds one heap and waits for another one may nest.
    several: Cell<bool>,
    /// With a write-ahead log: the position behind the newest record that each of them has seen, if it reads.
    seen: [Cell<u64>; SLOTS],
}

// No destructor, so that access is a plain load.
thread_local! {
    static SCOPES: Scopes = const {
        Scopes {
            count: Cell::new(0),
            several: Cell::new(false),
            inside: [const { Cell::new(Inside { heap: 0, scope: Scope::Read }) }; SLOTS],
            seen: [const { Cell::new(0) }; SLOTS],
        }
    };
}

/// Notes that this thread begins something in `heap`, which it [leaves](leave) when that has ended.
///
/// # Errors
/// [`Error::Nested`], [`Error::SeveralHeaps`].
#[inline(always)]
pub(crate) fn enter(heap: usize, scope: Scope) -> Result<()> {
    SCOPES.with(|scopes| {
        let (count, new) = (scopes.count.get(), Inside { heap, scope });
        if count > 0 {
            scopes.may_enter(new)?;
        }
        scopes.inside[count % SLOTS].set(new);
        scopes.count.set(count + 1);
        Ok(())
    })
}

/// A scope that this thread [leaves](leave) when this is dropped.
pub(crate) struct Entered {
    heap: usize,
    /// The thread that has entered it leaves it.
    thread: PhantomData<*const ()>,
}

impl Entered {
    /// [Enters](enter) a scope.
    pub(crate) fn new(heap: usize, scope: Scope) -> Result<Entered> {
        enter(heap, scope)?;
        Ok(Entered { heap, thread: PhantomData })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        leave(self.heap);
    }
}

impl Scopes {
    #[cold]
    fn may_enter(&self, new: Inside) -> Result<()> {
        let inside = &self.inside[..self.count.get()];
        for outer in inside.iter().map(Cell::get).filter(|outer| !new.scope.nests_in(outer.scope)) {
            if outer.heap == new.heap {
                return Err(Error::Nested);
            }
            // Of two heaps, one may be read and the other one changed: the program sees to the order.
            let reads = [new.scope, outer.scope].contains(&Scope::Read);
            let changes = [new.scope, outer.scope].contains(&Scope::Transaction);
            if !(reads && changes || self.several.get()) {
                return Err(Error::SeveralHeaps);
            }
        }
        let most = if matches!(new.scope, Scope::Roots | Scope::Copy) { SLOTS } else { DEPTH };
        if inside.len() < most { Ok(()) } else { Err(Error::Unsupported(TOO_DEEP)) }
    }

    /// Whether the thread holds a lock in one of the first scopes.
    fn has_lock(&self, count: usize) -> bool {
        self.inside[..count].iter().any(|inside| inside.get().scope != Scope::Snapshot)
    }
}

/// Runs `f`, in which nothing is [`Error::SeveralHeaps`].
pub(crate) fn with_several_heaps<R>(f: impl FnOnce() -> R) -> R {
    /// Sets back what it was, also in a panic.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            SCOPES.with(|scopes| scopes.several.set(self.0));
        }
    }
    let _before = Before(SCOPES.with(|scopes| scopes.several.replace(true)));
    f()
}

/// Takes back the newest [`enter`] of `heap`.
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

/// Whether this thread held a lock already, of this heap or another, when it [entered](enter) the newest
/// scope: others may wait for that. (No thread that has a root waits for a look at a snapshot.)
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

/// Whether this thread is inside of nothing: nobody waits for it.
pub(crate) fn is_outside() -> bool {
    SCOPES.with(|scopes| scopes.count.get() == 0)
}

/// Fails if this thread cannot wait until a region of `heap` is free: it is inside of it, other than in a copy, or
/// inside of another one.
///
/// # Errors
/// [`Error::Nested`], [`Error::SeveralHeaps`].
pub(crate) fn may_wait(heap: usize) -> Result<()> {
    Entered::new(heap, Scope::Roots).map(drop)
}

/// Notes what a read of `heap`, which this thread has just [entered](enter), and which holds its lock, is going to see: everything before a position of the log. Reads of the heap that it is nested in
/// see it, too, by what it returns.
pub(crate) fn note_seen(heap: usize, position: u64) {
    SCOPES.with(|scopes| {
        let newest = scopes.count.get() - 1;
        scopes.seen[newest].set(position);
        for outer in scopes.outer_reads(heap) {
            scopes.seen[outer].set(scopes.seen[outer].get().max(position));
        }
    });
}

/// What the newest read of this thread, of `heap`, has seen with those nested in it; and whether a read of the heap that it is nested in will wait for that.
pub(crate) fn seen(heap: usize) -> (u64, bool) {
    SCOPES
        .with(|scopes| (scopes.seen[scopes.count.get() - 1].get(), scopes.outer_reads(heap).next().is_some()))
}

impl Scopes {
    /// The reads of `heap` that the newest scope is nested in, without a transaction in between: what that
    /// does may become durable before. Other scopes wait for nothing that was read.
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

    /// A read in a look at a snapshot waits for the disk itself, and in turn for its root.
    #[test]
    fn a_look_at_a_snapshot_is_no_read() {
        enter(8, Scope::Snapshot).unwrap();
        enter(8, Scope::Read).unwrap();
        note_seen(8, 64);
        assert!(!seen(8).1 && !is_nested() && matches!(may_wait(8), Err(Error::Nested)));
        enter(8, Scope::Read).unwrap();
        assert!(seen(8).1 && is_nested());
        (0..3).for_each(|_| leave(8));
        assert!(!is_inside_any());
    }
}
