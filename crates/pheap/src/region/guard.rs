//! Which heaps this thread is inside of: to wait for a second root of the same heap could be for ever (`Error::Nested`).

use std::cell::Cell;

use crate::error::{Error, Result};

/// Heaps that one thread can be inside of at a time.
const DEPTH: usize = 16;
const TOO_DEEP: &str = "a thread can be inside of transactions and reads of at most 16 heaps at a time";

#[derive(Clone, Copy)]
struct Inside {
    heap: usize,
    writes: bool,
}

struct Scopes {
    count: Cell<usize>,
    inside: [Cell<Inside>; DEPTH],
    /// With a write-ahead log: the position behind the newest record that each of them has seen, if it reads.
    seen: [Cell<u64>; DEPTH],
}

// No destructor, so that access is a plain load.
thread_local! {
    static SCOPES: Scopes = const {
        Scopes {
            count: Cell::new(0),
            inside: [const { Cell::new(Inside { heap: 0, writes: false }) }; DEPTH],
            seen: [const { Cell::new(0) }; DEPTH],
        }
    };
}

/// Notes that this thread enters a root of `heap`. Reads may nest, for they never wait for one another.
#[inline(always)]
pub(crate) fn enter(heap: usize, writes: bool) -> Result<()> {
    SCOPES.with(|scopes| {
        let count = scopes.count.get();
        if count > 0 && !scopes.may_enter(heap, writes) {
            return Err(if count < DEPTH { Error::Nested } else { Error::Unsupported(TOO_DEEP) });
        }
        scopes.inside[count % DEPTH].set(Inside { heap, writes });
        scopes.count.set(count + 1);
        Ok(())
    })
}

impl Scopes {
    #[cold]
    fn may_enter(&self, heap: usize, writes: bool) -> bool {
        let inside = &self.inside[..self.count.get()];
        let conflict =
            inside.iter().map(Cell::get).any(|other| other.heap == heap && (writes || other.writes));
        !conflict && inside.len() < DEPTH
    }
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

/// Whether this thread was inside of a heap already, this one or another, when it [entered](enter) the newest one.
#[inline(always)]
pub(crate) fn is_nested() -> bool {
    SCOPES.with(|scopes| scopes.count.get() > 1)
}

/// Whether this thread is inside of any heap.
pub(crate) fn is_inside_any() -> bool {
    SCOPES.with(|scopes| scopes.count.get() > 0)
}

/// Whether this thread is inside of a root of `heap`.
pub(crate) fn is_inside(heap: usize) -> bool {
    SCOPES.with(|scopes| scopes.inside[..scopes.count.get()].iter().any(|cell| cell.get().heap == heap))
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
    /// The reads of `heap` that the newest scope is nested in, without a transaction in between: what that does may become durable before.
    fn outer_reads(&self, heap: usize) -> impl Iterator<Item = usize> + '_ {
        let outer = (0..self.count.get() - 1).rev();
        outer
            .take_while(|&scope| !self.inside[scope].get().writes)
            .filter(move |&scope| self.inside[scope].get().heap == heap)
    }
}
