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
    /// Without any lock, so beside all others.
    looks: bool,
}

struct Scopes {
    count: Cell<usize>,
    inside: [Cell<Inside>; DEPTH],
}

// No destructor, so that access is a plain load.
thread_local! {
    static SCOPES: Scopes = const {
        Scopes { count: Cell::new(0), inside: [const { Cell::new(Inside { heap: 0, writes: false, looks: false }) }; DEPTH] }
    };
}

/// Notes that this thread enters a root of `heap`. Reads may nest, for they never wait for one another.
#[inline(always)]
pub(crate) fn enter(heap: usize, writes: bool) -> Result<()> {
    push(Inside { heap, writes, looks: false })
}

/// Notes that this thread looks at a snapshot of a root of `heap`. That waits for nobody who has a lock, and so nests with all else.
pub(crate) fn enter_snapshot(heap: usize) -> Result<()> {
    push(Inside { heap, writes: false, looks: true })
}

#[inline(always)]
fn push(new: Inside) -> Result<()> {
    SCOPES.with(|scopes| {
        let count = scopes.count.get();
        if count > 0 && !scopes.may_enter(new) {
            return Err(if count < DEPTH { Error::Nested } else { Error::Unsupported(TOO_DEEP) });
        }
        scopes.inside[count % DEPTH].set(new);
        scopes.count.set(count + 1);
        Ok(())
    })
}

impl Scopes {
    #[cold]
    fn may_enter(&self, new: Inside) -> bool {
        let inside = &self.inside[..self.count.get()];
        let conflict = inside.iter().map(Cell::get).any(|other| {
            other.heap == new.heap && !new.looks && !other.looks && (new.writes || other.writes)
        });
        !conflict && inside.len() < DEPTH
    }

    /// Whether one of the first scopes is not just a look at a snapshot.
    fn has_root(&self, count: usize) -> bool {
        self.inside[..count].iter().any(|inside| !inside.get().looks)
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

/// Whether this thread had a root already, of this heap or another, when it [entered](enter) the newest one: others may wait for it. (Nobody who has a root waits for
/// one who looks at a snapshot.)
#[inline(always)]
pub(crate) fn is_nested() -> bool {
    SCOPES.with(|scopes| {
        let count = scopes.count.get();
        count > 1 && scopes.has_root(count - 1)
    })
}

/// Whether this thread has a root of any heap.
pub(crate) fn is_inside_any() -> bool {
    SCOPES.with(|scopes| scopes.has_root(scopes.count.get()))
}

/// Whether this thread is inside of a root of `heap`, or of a snapshot of one.
pub(crate) fn is_inside(heap: usize) -> bool {
    SCOPES.with(|scopes| scopes.inside[..scopes.count.get()].iter().any(|cell| cell.get().heap == heap))
}
