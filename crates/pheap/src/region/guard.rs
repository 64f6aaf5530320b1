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
    /// Whether transactions on several heaps may nest.
    several: Cell<bool>,
    /// With a write-ahead log: the position behind the newest record that each of them has seen, if it reads.
    seen: [Cell<u64>; DEPTH],
}

// No destructor, so that access is a plain load.
thread_local! {
    static SCOPES: Scopes = const {
        Scopes {
            count: Cell::new(0),
            several: Cell::new(false),
            inside: [const { Cell::new(Inside { heap: 0, writes: false, looks: false }) }; DEPTH],
            seen: [const { Cell::new(0) }; DEPTH],
        }
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
        if count > 0 {
            scopes.may_enter(new)?;
        }
        scopes.inside[count % DEPTH].set(new);
        scopes.count.set(count + 1);
        Ok(())
    })
}

impl Scopes {
    #[cold]
    fn may_enter(&self, new: Inside) -> Result<()> {
        let inside = &self.inside[..self.count.get()];
        let outer = || inside.iter().map(Cell::get);
        let conflict = outer().any(|other| {
            other.heap == new.heap && !new.looks && !other.looks && (new.writes || other.writes)
        });
        if conflict {
            return Err(Error::Nested);
        }
        if new.writes && outer().any(|other| other.writes) && !self.several.get() {
            return Err(Error::SeveralHeaps);
        }
        if inside.len() < DEPTH { Ok(()) } else { Err(Error::Unsupported(TOO_DEEP)) }
    }

    /// Whether one of the first scopes is not just a look at a snapshot.
    fn has_root(&self, count: usize) -> bool {
        self.inside[..count].iter().any(|inside| !inside.get().looks)
    }
}

/// Runs `f`, in which transactions on several heaps may nest.
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
    /// The reads of `heap` that the newest scope is nested in, without a transaction in between: what that does may become durable before. Who looks at a snapshot waits for nothing.
    fn outer_reads(&self, heap: usize) -> impl Iterator<Item = usize> + '_ {
        let outer = (0..self.count.get() - 1).rev();
        outer
            .take_while(|&scope| !self.inside[scope].get().writes)
            .filter(move |&scope| self.inside[scope].get().heap == heap && !self.inside[scope].get().looks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read in a look at a snapshot waits for the disk itself, and in turn for its root.
    #[test]
    fn a_look_at_a_snapshot_is_no_read() {
        enter_snapshot(8).unwrap();
        enter(8, false).unwrap();
        note_seen(8, 64);
        assert!(!seen(8).1 && !is_nested() && is_inside(8));
        enter(8, false).unwrap();
        assert!(seen(8).1 && is_nested());
        (0..3).for_each(|_| leave(8));
        assert!(!is_inside_any());
    }
}
