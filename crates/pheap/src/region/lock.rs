//! The lock of a region: one thread has it for itself, or several share it to read. It is biased to a thread that has it again and again.
//!
//! **Turns.** Readers that overlap must not keep a transaction away for ever: who comes to read waits behind transactions that wait. Not so a thread that has
//! a region already, of this heap or of another one: a transaction that waits for its region would wait for the thread, and the thread for the transaction. (Two
//! threads that nest two roots in opposite orders, beside a transaction on each, would wait in a circle.) A transaction over several roots waits for one of them at
//! a time, so it cannot be queued at all of them; instead it closes a [gate](Gate) at each, at which those wait who come and have nothing, be it to read, for a
//! transaction or to collect.
//!
//! It guards nothing by itself: [`region`](super) sees to it that only a thread that has it lets go of it.

use std::time::{Duration, Instant};

use super::guard;
use crate::faults::{Bug, bug, watches_locks};
use crate::os::cpu::settle_flushes;
use crate::sync::bias::{Bias, this_thread};
use crate::sync::gate::Gate;
use crate::sync::{RawRwLock, Want};

pub(crate) struct RegionLock {
    bias: Bias,
    lock: RawRwLock,
    /// Closed by transactions over several roots.
    pub(super) gate: Gate,
}

impl RegionLock {
    /// The lock is biased to a thread that has taken it `streak` times in a row.
    pub(crate) fn new(streak: u64) -> RegionLock {
        RegionLock { bias: Bias::new(streak), lock: RawRwLock::new(), gate: Gate::new() }
    }

    /// Waits until this thread has the region for itself, for a transaction on it alone. It must have it in no way before, and be [inside](guard::enter) of its heap.
    ///
    /// Who enters as the owner of the bias does not look at the gate: who has closed it evicts the owner before it waits a second time.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn lock_exclusive(&self) {
        if !self.enter_biased() {
            self.wait_exclusive();
        }
    }

    #[inline(never)] // who is here often is not for long
    #[track_caller]
    fn wait_exclusive(&self) {
        // Also if the lock is free: it may be only for the moment between two transactions of this thread, and who collects locks would not meet that.
        if !bug(Bug::GatesForReads) {
            self.gate.pass(guard::is_nested);
        }
        self.take_exclusive();
    }

    /// [`lock_exclusive`](Self::lock_exclusive), for who collects several regions.
    #[track_caller]
    pub(crate) fn lock_collected(&self) {
        if !self.enter_biased() {
            self.take_exclusive();
        }
    }

    #[inline(always)]
    #[track_caller]
    fn take_exclusive(&self) {
        self.lock.lock(Want::Exclusive);
        self.bias.evict(|| None);
        self.bias.note(this_thread());
    }

    /// [`lock_exclusive`](Self::lock_exclusive), if that needs no waiting.
    #[track_caller]
    pub(crate) fn try_lock_exclusive(&self) -> bool {
        self.enter_biased()
            || !self.bias.is_entered()
                && self.lock.try_lock(Want::Exclusive)
                && self.evicts_until(Instant::now)
    }

    /// Waits until this thread has the region for itself, for something else than a transaction: the lock is not biased to who does that.
    #[track_caller]
    pub(crate) fn lock_unbiased(&self) {
        self.lock.lock(Want::Exclusive);
        self.bias.evict(|| None);
    }

    /// [`lock_unbiased`](Self::lock_unbiased), if that needs no longer. It does if this thread has the region already, in whatever way.
    #[track_caller]
    pub(crate) fn try_lock_unbiased_for(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        self.lock.try_lock_until(Want::Exclusive, end) && self.evicts_until(|| end)
    }

    /// Lets go of the region. Whoever has it next, on whatever processor, can rely on it that lines which were flushed before this are written back before its first
    /// fence has passed: see [`settle_flushes`]; and who evicts an owner lets it pass a fence.
    #[inline(always)]
    pub(crate) fn unlock_exclusive(&self) {
        settle_flushes();
        if !self.bias.leave() {
            self.unlock_taken();
        }
    }

    /// Of a lock that was taken, and not entered as the owner of the bias.
    #[inline(never)]
    fn unlock_taken(&self) {
        self.bias.before_unlock();
        self.lock.unlock_exclusive();
    }

    #[inline(always)]
    fn enter_biased(&self) -> bool {
        !watches_locks() && self.bias.enter(this_thread())
    }

    /// The lock is taken. Waits for an owner, and if it is still inside at `end`, gives the lock back.
    fn evicts_until(&self, end: impl FnOnce() -> Instant) -> bool {
        let alone = self.bias.evict(|| Some(end()));
        if !alone {
            self.lock.unlock_exclusive();
        }
        alone
    }

    /// Waits until nobody has the region for itself. `nested` says that this thread has a region already, perhaps this one, which it shares then. If it has none, it
    /// waits behind those that want the region for themselves, too.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn lock_shared(&self, nested: bool) {
        if nested && !bug(Bug::NestedReadsWait) || bug(Bug::ReadsOvertake) {
            self.lock.lock(Want::Nested);
        } else {
            self.gate.pass(|| false);
            self.lock.lock(Want::Shared);
        }
        self.bias.has_shared(this_thread());
    }

    #[inline(always)]
    pub(crate) fn unlock_shared(&self) {
        self.lock.unlock_shared();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::Relaxed;
    use std::thread;

    use super::*;
    use crate::sync::bias::will_be_supported;
    use crate::sync::gate::Closer;
    use crate::tuning::Tuning;

    const STREAK: u64 = Tuning::SHIPPED.streak;

    struct Guarded {
        lock: RegionLock,
        /// Changed in two steps, so that a change beside another is lost.
        value: AtomicU64,
    }

    impl Guarded {
        fn new() -> Guarded {
            Guarded { lock: RegionLock::new(STREAK), value: AtomicU64::new(0) }
        }

        /// Changes the value, which was locked in some way.
        fn change(&self) {
            self.value.store(self.value.load(Relaxed) + 1, Relaxed);
            self.lock.unlock_exclusive();
        }

        fn change_often(&self, times: u64) {
            for _ in 0..times {
                self.lock.lock_exclusive();
                self.change();
            }
        }

        fn read(&self) -> u64 {
            self.lock.lock_shared(false);
            let value = self.value.load(Relaxed);
            self.lock.unlock_shared();
            value
        }
    }

    #[test]
    fn nobody_meets_an_owner() {
        will_be_supported();
        let guarded = Guarded::new();
        let rounds = 20;
        let changed: u64 = thread::scope(|scope| {
            let owners = [(); 3].map(|()| {
                scope.spawn(|| {
                    let mut tried = 0;
                    for round in 0..rounds {
                        guarded.change_often(3 * STREAK);
                        let has_it = match round % 2 {
                            0 => guarded.lock.try_lock_exclusive(),
                            _ => guarded.lock.try_lock_unbiased_for(Duration::from_micros(50)),
                        };
                        if has_it {
                            guarded.change();
                            tried += 1;
                        }
                        let seen = guarded.read();
                        assert!(guarded.read() >= seen);
                    }
                    3 * STREAK * rounds + tried
                })
            });
            owners.into_iter().map(|owner| owner.join().unwrap()).sum()
        });
        assert_eq!(guarded.read(), changed);
    }

    #[test]
    fn others_wait_for_an_owner_or_give_up() {
        will_be_supported();
        let guarded = Guarded::new();
        guarded.change_often(STREAK + 1);
        for _ in 0..2 {
            guarded.lock.lock_exclusive();
            thread::scope(|scope| {
                let tries = scope.spawn(|| {
                    let patience = Duration::from_millis(1);
                    guarded.lock.try_lock_exclusive() || guarded.lock.try_lock_unbiased_for(patience)
                });
                assert!(!tries.join().unwrap());
                let reads = scope.spawn(|| guarded.read());
                guarded.change();
                reads.join().unwrap();
            });
            assert!(guarded.lock.try_lock_exclusive());
            guarded.change();
            guarded.change_often(STREAK + 1);
        }
        assert_eq!(guarded.read(), 3 * (STREAK + 1) + 4);
    }

    #[test]
    fn an_owner_reads_and_enters_again() {
        let guarded = Guarded::new();
        let is_supported = will_be_supported();
        let mut changes = 0;
        // While a test that runs beside this one watches locks, they are taken.
        let becomes_owner = (0..1000).any(|_| {
            guarded.change_often(STREAK + 1);
            changes += STREAK + 1;
            guarded.lock.bias.is_owned()
        });
        assert_eq!(becomes_owner, is_supported);
        // Who has it already, as the owner or to read, does not get it a second time.
        guarded.lock.lock_exclusive();
        assert!(!guarded.lock.try_lock_unbiased_for(Duration::from_millis(1)));
        guarded.change();
        guarded.change_often(STREAK + 1);
        guarded.lock.lock_shared(false);
        assert!(!guarded.lock.try_lock_unbiased_for(Duration::from_millis(1)));
        guarded.lock.unlock_shared();
        guarded.lock.lock_unbiased();
        guarded.change();
        assert_eq!(guarded.read(), changes + STREAK + 3);
        guarded.change_often(1);
        thread::scope(|scope| {
            scope.spawn(|| guarded.change_often(STREAK + 1));
        });
        assert_eq!(guarded.read(), changes + 2 * STREAK + 5);
    }

    impl Guarded {
        /// Waits until somebody waits who wants the lock for himself.
        fn until_somebody_waits(&self) {
            while self.lock.lock.try_lock(Want::Shared) {
                self.lock.lock.unlock_shared();
                thread::yield_now();
            }
        }
    }

    #[test]
    fn who_has_nothing_reads_after_a_transaction_that_waits() {
        let guarded = Guarded::new();
        let order = std::sync::Mutex::new(Vec::new());
        let note = |who| order.lock().unwrap().push(who);
        guarded.lock.lock_shared(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                guarded.lock.lock_exclusive();
                note("transaction");
                guarded.change();
            });
            guarded.until_somebody_waits();
            scope.spawn(|| {
                guarded.lock.lock_shared(false);
                note("read");
                guarded.lock.unlock_shared();
            });
            // It must not wait for who waits for this thread.
            guarded.lock.lock_shared(true);
            note("nested");
            guarded.lock.unlock_shared();
            // The other read has time to come in, if it can.
            thread::sleep(Duration::from_millis(30));
            guarded.lock.unlock_shared();
        });
        assert_eq!(*order.lock().unwrap(), ["nested", "transaction", "read"]);
    }

    #[test]
    fn a_nested_read_passes_a_closed_gate() {
        let (guarded, closer) = (Guarded::new(), Closer::patient());
        guarded.lock.gate.close(closer);
        guarded.lock.lock_shared(true);
        thread::scope(|scope| {
            let read = scope.spawn(|| guarded.read());
            thread::sleep(Duration::from_millis(10));
            assert!(!read.is_finished());
            guarded.lock.gate.open(closer);
        });
        guarded.lock.unlock_shared();
        guarded.lock.lock_exclusive();
        guarded.change();
    }
}
