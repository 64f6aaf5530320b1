//! Systems without the fence: filters of system calls stand for old kernels and for containers that forbid it. Each test is a process of its own, for a filter
//! is never taken off.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::thread;

use super::system;
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
        lock.lock_upgradable(|| false);
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

#[test]
fn an_owner_is_not_evicted_without_the_fence() {
    if let Some(status) = elsewhere("an_owner_is_not_evicted_without_the_fence") {
        // No guess how long it takes until a store is seen.
        return assert!(status.success() || status.signal() == Some(libc::SIGABRT), "{status}");
    }
    if !system::will_be_supported() {
        return;
    }
    let lock = used();
    assert!(lock.is_owned());
    let other = || {
        system::forbid();
        lock.try_lock_upgradable()
    };
    thread::scope(|scope| assert!(!scope.spawn(other).join().unwrap(), "evicted"));
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
