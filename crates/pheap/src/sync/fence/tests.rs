//! Systems without the fence: filters of system calls stand for old kernels and for containers that forbid it. Each test is a process of its own, for a filter
//! is never taken off.

#![allow(unsafe_code)]

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::thread;

use super::system;
use crate::sync::bias::{Bias, this_thread};
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

/// Lets `membarrier` fail from now on as if there was none, in this thread and those that it starts.
fn forbid() {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let code = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        code(LOAD, 0, 0, 0), // the number of the call
        code(EQUAL, 0, 1, libc::SYS_membarrier as u32),
        code(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        code(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: a filter that is there during the call, for this thread.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter), 0);
    }
}

/// A bias after this thread has taken its lock often enough.
fn used() -> Bias {
    let streak = Tuning::SHIPPED.streak;
    let bias = Bias::new(streak);
    for _ in 0..3 * streak {
        bias.note(this_thread());
        bias.before_unlock();
    }
    bias
}

#[test]
fn nobody_becomes_an_owner_without_the_fence() {
    if let Some(status) = elsewhere("nobody_becomes_an_owner_without_the_fence") {
        return assert!(status.success(), "{status}");
    }
    forbid();
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
    forbid();
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
    let bias = used();
    assert!(bias.is_owned());
    let other = || {
        forbid();
        bias.evict(|| None)
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
    // SAFETY: the child makes a system call and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        system::forked();
        let supported = system::is_supported();
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(if supported { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: the child from above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
}
