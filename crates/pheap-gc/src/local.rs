//! The work of one thread: its mark stack, and the innermost loop of marking.
//!
//! Marking waits for memory. So the loop does not follow a pointer when it pops it. It prefetches the target,
//! puts the pointer into a queue, and follows the oldest pointer of the queue (Cher, Hosking, Vitek,
//! "Software prefetching for mark-sweep garbage collection", 2004).

use std::sync::atomic::Ordering;
use std::{mem, thread};

use crate::marking::{Bundle, Marking, Work};
use crate::{Budget, Heap};

/// Length of the prefetch queue; a power of two.
const AHEAD: usize = 32;
/// Number of entries for pointers that a thread reserves at a time.
const STEP: usize = 1024;
/// Maximal number of pointers that a thread hands over at a time.
const SHARE: usize = 2048;

/// The bundle of work that a thread holds. Dropping a `Local` returns the rest of the bundle to the queue.
pub(crate) struct Local<'m, O: Copy> {
    marking: &'m Marking<O>,
    /// Whether the thread holds a bundle. If not, the fields below are empty.
    busy: bool,
    /// The mark stack: pointers to follow.
    pointers: Vec<u64>,
    /// Objects to trace: rests of large objects, and objects that a search has marked. They add many
    /// pointers, so the loop pops one only when `pointers` is empty.
    objects: Vec<O>,
    /// The prefetch queue: `waiting` pointers, the oldest at index `oldest`.
    ring: [u64; AHEAD],
    oldest: usize,
    waiting: usize,
    /// Number of entries for pointers that the thread has reserved in the marking.
    room: usize,
    /// Whether entries may have been lost: one was dropped because the limit was reached, or the `Local` was
    /// dropped in a panic or during a search. Then the heap has to be searched.
    overflowed: bool,
    /// Whether the bundle is the search of the heap.
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

    /// Takes a bundle from the marking. The `Local` must hold none. Returns whether the marking had one.
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

    /// Works on the bundle until it is finished. Returns false if the budget is spent, or the deadline has
    /// passed, before.
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

    /// Follows pointers and traces objects until none are left. Returns false if the budget is spent, or the
    /// deadline has passed, before.
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

    /// Refills the prefetch queue from the stack, and removes its oldest pointer.
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

    /// Reserves more stack entries. Returns false, and notes the overflow, if the limit is reached.
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

    /// Marks what the marked objects of the heap point to. The budget does not limit the search.
    ///
    /// If the stack overflows during the search, another search follows. An overflow implies that an object
    /// was newly marked. So the searches end, however small the stack is.
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

    /// Hands over about half of the work, or less, if another thread waits for some. First gives back
    /// reserved entries if there are many more than needed.
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
        // The oldest entries are handed over, because many objects may be reachable from them.
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

    /// Finishes the bundle if it is empty; otherwise returns the rest of it to the queue.
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
        // With the pointers of the prefetch queue, the stack may hold more than the thread has reserved.
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
        // A panic in a method of the heap may have lost pointers of the object that was being traced.
        self.overflowed |= self.searching || thread::panicking();
        self.release();
    }
}

/// Removes `count` entries from the bottom of a stack. The order of the others may change.
fn take_oldest<T: Copy>(stack: &mut Vec<T>, count: usize) -> Vec<T> {
    let rest = stack.len() - count;
    for i in 0..count.min(rest) {
        stack.swap(i, rest + i);
    }
    stack.split_off(rest)
}
