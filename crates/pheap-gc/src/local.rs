//! What one thread does: its mark stack, and the innermost loop of marking.
//!
//! Marking waits for memory. So a pointer is not followed when it leaves the stack: what it points to is prefetched, and it is followed when
//! some others were, that left the stack before (Cher, Hosking, Vitek, "Software prefetching for mark-sweep garbage collection", 2004).

use std::sync::atomic::Ordering;
use std::{mem, thread};

use crate::marking::{Bundle, Marking, Work};
use crate::{Budget, Heap};

/// How many pointers are prefetched ahead. A power of two. `examples/marking.rs` gains from more of them up to about this.
const AHEAD: usize = 32;
/// Entries of the stack are reserved in such steps.
const STEP: usize = 1024;
/// Pointers that are handed over at once, at most.
const SHARE: usize = 2048;

/// The work that a thread has at the moment. Dropping it leaves the rest to others.
pub(crate) struct Local<'m, O: Copy> {
    marking: &'m Marking<O>,
    /// Whether there is a bundle of work: what follows is empty otherwise.
    busy: bool,
    /// Pointers to follow.
    pointers: Vec<u64>,
    /// Objects to trace, when there are no pointers on the stack: they bring many.
    objects: Vec<O>,
    /// Pointers that are being prefetched: `waiting` of them, the oldest at `oldest`.
    ring: [u64; AHEAD],
    oldest: usize,
    waiting: usize,
    /// Pointers that the stack has reserved.
    room: usize,
    /// Whether the stack was full at some time.
    overflowed: bool,
    /// Whether this is to search the heap.
    searching: bool,
}

impl<'m, O: Copy> Local<'m, O> {
    pub(crate) fn new(marking: &'m Marking<O>) -> Local<'m, O> {
        Local {
            marking,
            busy: false,
            pointers: Vec::new(),
            objects: Vec::new(),
            ring: [0; AHEAD],
            oldest: 0,
            waiting: 0,
            room: 0,
            overflowed: false,
            searching: false,
        }
    }

    /// Takes some work, when there is none here. Returns whether there was any.
    pub(crate) fn take(&mut self) -> bool {
        debug_assert!(!self.busy);
        match self.marking.find_work() {
            Some(Work::Bundle(bundle)) => {
                self.room = bundle.pointers.len();
                if !bundle.pointers.is_empty() || self.pointers.capacity() == 0 {
                    self.pointers = bundle.pointers;
                }
                self.objects = bundle.objects;
            }
            Some(Work::Search) => self.searching = true,
            None => return false,
        }
        self.busy = true;
        true
    }

    /// Works on what was taken. Returns false if the budget is spent.
    pub(crate) fn work<const SHARED: bool, H: Heap<Object = O>>(
        &mut self,
        heap: &H,
        budget: &mut Budget,
    ) -> bool {
        if self.searching {
            self.search::<SHARED, H>(heap, budget);
        }
        if !self.drain::<SHARED, H>(heap, budget) {
            return false;
        }
        self.release();
        true
    }

    /// Follows pointers and traces objects until there are none. Returns false if the budget was spent.
    fn drain<const SHARED: bool, H: Heap<Object = O>>(&mut self, heap: &H, budget: &mut Budget) -> bool {
        loop {
            if self.pointers.is_empty()
                && let Some(object) = self.objects.pop()
            {
                self.marking.unreserve(1);
                self.trace(heap, object, budget);
            }
            match self.next(heap) {
                Some(pointer) => match heap.mark(pointer) {
                    Some(object) => {
                        budget.marked();
                        self.trace(heap, object, budget);
                    }
                    None => budget.missed(),
                },
                None if self.objects.is_empty() => return true,
                None => {}
            }
            if budget.is_spent() {
                return false;
            }
            if budget.ticks() {
                if budget.is_late() {
                    return false;
                }
                if SHARED {
                    self.share();
                }
            }
        }
    }

    /// The pointer that was prefetched first.
    #[inline(always)]
    fn next(&mut self, heap: &impl Heap<Object = O>) -> Option<u64> {
        while self.waiting < AHEAD
            && let Some(pointer) = self.pointers.pop()
        {
            heap.prefetch(pointer);
            self.ring[(self.oldest + self.waiting) % AHEAD] = pointer;
            self.waiting += 1;
        }
        self.waiting = self.waiting.checked_sub(1)?;
        let pointer = self.ring[self.oldest % AHEAD];
        self.oldest = (self.oldest + 1) % AHEAD;
        Some(pointer)
    }

    #[inline(always)]
    fn trace(&mut self, heap: &impl Heap<Object = O>, object: O, budget: &mut Budget) {
        budget.traced(heap.size(object));
        let rest = heap.trace(object, &mut |pointer| {
            if self.pointers.len() < self.room || self.grow() {
                self.pointers.push(pointer);
            }
        });
        if let Some(rest) = rest {
            self.push_object(rest);
        }
    }

    /// Makes room for a pointer. Returns false if there is none.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> bool {
        let granted = self.marking.reserve(STEP);
        self.room += granted;
        self.overflowed |= granted == 0;
        granted != 0
    }

    fn push_object(&mut self, object: O) {
        if self.marking.reserve(1) == 1 {
            self.objects.push(object);
        } else {
            self.overflowed = true;
        }
    }

    /// Marks what marked objects point to. Not limited by the budget.
    ///
    /// If the stack overflows meanwhile, something was marked that was not before: so it ends, however small the stack is.
    #[cold]
    fn search<const SHARED: bool, H: Heap<Object = O>>(&mut self, heap: &H, budget: &mut Budget) {
        let mut unlimited = budget.without_limits();
        heap.marked(&mut |object| {
            let mut part = Some(object);
            while let Some(object) = part {
                unlimited.searched(heap.size(object));
                part = heap.trace(object, &mut |pointer| {
                    if let Some(object) = heap.mark(pointer) {
                        unlimited.marked();
                        self.push_object(object);
                    }
                });
            }
            self.drain::<SHARED, H>(heap, &mut unlimited);
        });
        budget.take_counts(&unlimited);
        self.searching = false;
    }

    /// Hands over half of the work, if somebody waits for some; and gives back room that is not needed.
    #[cold]
    fn share(&mut self) {
        if self.room > 2 * self.pointers.len() + 4 * STEP {
            let room = self.pointers.len() + STEP;
            self.marking.unreserve(self.room - room);
            self.room = room;
        }
        if !self.marking.is_hungry() {
            return;
        }
        let count = (self.pointers.len() / 2).min(SHARE);
        let objects = if self.pointers.is_empty() && self.waiting == 0 {
            self.objects.len() / 2
        } else {
            self.objects.len().div_ceil(2)
        };
        if count + objects == 0 {
            return;
        }
        // The oldest: most hangs from them.
        let bundle = Bundle {
            pointers: take_oldest(&mut self.pointers, count),
            objects: take_oldest(&mut self.objects, objects),
        };
        self.room -= count;
        self.marking.bundles.fetch_add(1, Ordering::Relaxed);
        self.marking.put(bundle);
    }

    fn is_empty(&self) -> bool {
        self.pointers.is_empty() && self.objects.is_empty() && self.waiting == 0
    }

    /// Finishes the bundle, or leaves the rest of it to others.
    fn release(&mut self) {
        if !mem::take(&mut self.busy) {
            return;
        }
        while let Some(waiting) = self.waiting.checked_sub(1) {
            self.waiting = waiting;
            self.pointers.push(self.ring[(self.oldest + waiting) % AHEAD]);
        }
        if mem::take(&mut self.overflowed) {
            self.marking.overflow();
        }
        // Pointers that were prefetched may be more than was reserved.
        self.marking.reserve_exactly(self.pointers.len());
        self.marking.unreserve(mem::take(&mut self.room));
        if self.is_empty() {
            self.marking.finish();
        } else {
            let (pointers, objects) = (mem::take(&mut self.pointers), mem::take(&mut self.objects));
            self.marking.put(Bundle { pointers, objects });
        }
    }
}

impl<O: Copy> Drop for Local<'_, O> {
    fn drop(&mut self) {
        // A panic of the heap may have lost pointers of the object that was being traced.
        self.overflowed |= self.searching || thread::panicking();
        self.release();
    }
}

/// Takes entries from the bottom of a stack. The order of the others changes.
fn take_oldest<T: Copy>(stack: &mut Vec<T>, count: usize) -> Vec<T> {
    let rest = stack.len() - count;
    for i in 0..count.min(rest) {
        stack.swap(i, rest + i);
    }
    stack.split_off(rest)
}
