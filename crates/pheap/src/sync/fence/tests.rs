//! Systems without the fence: filters of system calls stand for old kernels and for containers that forbid it. Most tests are processes of their own, for a filter
//! is never taken off.

use std::process::{Command, ExitStatus};
use std::thread;
use std::time::Duration;

use super::{Refused, system};
use crate::sync::Access;
use crate::tuning::Tuning;

const ALONE: &str = "PHEAP_FENCE_TEST";

/// Runs this very test in a process of its own. `None` there.
fn elsewhere(test: &str) -> Option<ExitStatus> {
    if std::env::var_os(ALONE).is_some() {
        return None;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = format!("sync::fence::tests::{test}");
    command.args([&name, "--exact", "--test-threads=1"]).env(ALONE, "1");
    Some(command.status().unwrap())
}

/// A lock after this thread has been its only writer often enough.
fn used() -> Access {
    let streak = Tuning::SHIPPED.streak;
    let lock = Access::new(streak);
    for _ in 0..3 * streak {
        lock.lock_upgradable(|| false).unwrap();
        lock.upgrade();
        lock.unlock_upgradable();
    }
    lock
}

#[test]
fn nobody_becomes_an_owner_without_the_fence() {
    if let Some(status) = elsewhere("nobody_becomes_an_owner_without_the_fence") {
        return assert!(status.success(), "{status}");
    }
    system::forbid();
    assert!(!used().is_owned());
    assert!(!system::will_be_supported());
    assert!(!used().is_owned());
}

#[test]
fn nobody_becomes_an_owner_once_the_fence_is_refused() {
    if let Some(status) = elsewhere("nobody_becomes_an_owner_once_the_fence_is_refused") {
        return assert!(status.success(), "{status}");
    }
    let was_supported = system::will_be_supported();
    assert_eq!(used().is_owned(), was_supported);
    system::forbid();
    assert!(!used().is_owned());
}

/// In a thread of its own: it is refused there alone.
#[test]
fn an_owner_is_not_evicted_without_the_fence() {
    if !system::will_be_supported() {
        return;
    }
    let lock = used();
    assert!(lock.is_owned());
    thread::scope(|scope| {
        scope.spawn(|| {
            system::forbid();
            for _ in 0..2 {
                assert_eq!(lock.try_lock_upgradable(), Err(Refused));
                assert_eq!(lock.try_lock_unbiased_for(Duration::ZERO), Err(Refused));
                assert_eq!(lock.lock_unbiased(), Err(Refused));
                assert_eq!(lock.lock_quiescent(false), Err(Refused));
                assert_eq!(lock.lock_shared(false), Err(Refused));
            }
        });
    });
    // Nobody has it.
    lock.lock_upgradable(|| false).unwrap();
    lock.upgrade();
    lock.unlock_upgradable();
}

#[test]
fn readers_that_cannot_be_told_keep_writers_away_and_wake_none() {
    if !system::will_be_supported() {
        return;
    }
    let streak = Tuning::SHIPPED.streak;
    let lock = Access::new(streak);
    let read = || lock.unlock_shared(lock.lock_shared(false).unwrap());
    (0..3 * streak).for_each(|_| read());
    thread::scope(|scope| {
        scope.spawn(|| {
            system::forbid();
            assert_eq!([(); 2].map(|()| lock.try_lock_upgradable()), [Err(Refused); 2]);
        });
    });
    // One that has come while readers knew, and waits for one that it could not tell so.
    let entry = lock.lock_shared(false).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            lock.lock_upgradable(|| false).unwrap();
            system::forbid();
            tell.send(()).unwrap();
            lock.upgrade();
            lock.unlock_upgradable();
        });
        told.recv().unwrap();
        thread::sleep(Duration::from_millis(5));
        lock.unlock_shared(entry);
    });
}

#[test]
fn a_child_is_registered_as_its_parent_is() {
    if let Some(status) = elsewhere("a_child_is_registered_as_its_parent_is") {
        return assert!(status.success(), "{status}");
    }
    if !system::will_be_supported() {
        return;
    }
    assert!(system::is_supported_in_child());
}
