//! The locks, condition variables and atomics by which threads meet: one place decides whose they are.
//!
//! The [lock](lock) is our own, and with it what is built on it. In the models (`cfg(pheap_loom)`) they are those of [loom], which runs a test
//! under every order of their operations; see `docs/crash-testing.md`. Counters for statistics do not come from here: nothing depends on them.
//!
//! In builds with the simulator they tell which of them is taken where, and one of them can be left out, or seems to be: the tests must notice.
//!
//! [loom]: https://docs.rs/loom
//!
//! Knows threads. Must not know what they do.

pub(crate) mod bias;
#[cfg(not(all(test, pheap_loom)))]
mod condvar;
pub(crate) mod fence;
pub(crate) mod gate;
mod lock;
#[cfg(all(test, pheap_loom))]
pub(crate) mod model;
#[cfg(not(all(test, pheap_loom)))]
mod mutex;
#[cfg(all(feature = "sim", not(all(test, pheap_loom))))]
mod watched;

#[cfg(not(all(feature = "sim", not(all(test, pheap_loom)))))]
pub(crate) use lock::RawRwLock;
pub(crate) use lock::Want;
#[cfg(all(feature = "sim", not(all(test, pheap_loom))))]
pub(crate) use watched::RawRwLock;

#[cfg(all(test, pheap_loom))]
pub(crate) use model::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, RwLock};
#[cfg(not(all(test, pheap_loom)))]
pub(crate) use {
    condvar::Condvar,
    mutex::{Mutex, MutexGuard, RwLock},
    std::sync::atomic::{AtomicBool, AtomicU64},
};

/// What the lock is made of.
#[cfg(all(test, pheap_loom))]
use loom::sync as below;
#[cfg(not(all(test, pheap_loom)))]
use std::sync as below;

/// Shows `f` what a mutex guards. In a forked child, which is not to lock it, nobody does; so what is there stays as it is, and is whole if nobody had locked it when the child was made: else
/// `None`.
#[track_caller]
pub(crate) fn look_at<T, R>(mutex: &Mutex<T>, forked: bool, f: impl FnOnce(&T) -> R) -> Option<R> {
    if !forked {
        return Some(f(&mutex.lock()));
    }
    #[cfg(not(all(test, pheap_loom)))]
    return mutex::look_at_unlocked(mutex, f);
    #[cfg(all(test, pheap_loom))]
    None
}

/// A mistake that a model seeds, and must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// Who waits for a lock does not say so.
    WaitUnseen,
    /// Who gives up waiting for a lock does not wake those that waited behind it.
    GiveUpQuietly,
    /// What is about to be synced counts as durable.
    PublishBeforeSync,
    /// A leader begins although another one is at work.
    TwoLeaders,
    /// Who appends to a mapped log writes while another thread writes what came before.
    OvertakeWriter,
    /// A file is synced again after a sync of it has failed.
    ForgetFailedSync,
    /// A file is synced while another thread does so.
    SyncsMeet,
    /// Who evicts the owner of a bias does not make sure that it knows.
    NoHeavyFence,
    /// An owner does not look whether it still is one, when others can see that it is inside.
    NoSecondLook,
    /// All owners of a bias say at the same place that they are inside.
    OneSlot,
    /// An owner that leaves wakes nobody if it is no longer named as the owner.
    WakeEvictedOnly,
    /// Others can come in between, where a held pointer is let go of and where it is seen whether that was the last one.
    LetGoTwice,
}

/// Whether a model has seeded this mistake. A constant, but in models.
#[inline(always)]
pub(crate) fn mistake(_mistake: Mistake) -> bool {
    #[cfg(all(test, pheap_loom))]
    return model::is_seeded(_mistake);
    #[cfg(not(all(test, pheap_loom)))]
    false
}
