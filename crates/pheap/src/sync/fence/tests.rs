//! Tests of systems without the fence (`membarrier`). Filters of system calls stand for old kernels, and for
//! containers that forbid the call. A filter is never removed, so each test installs it in a separate thread.

use std::thread;
use std::time::Duration;

use super::{FenceRefused, heavy};
use crate::sync::RegionLock;

/// Makes `membarrier` fail from now on, as if the system had none, in this thread and in threads that it
/// starts.
pub(crate) fn forbid() {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let code = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        code(LOAD, 0, 0, 0), // loads the number of the system call
        code(EQUAL, 0, 1, libc::SYS_membarrier as u32),
        code(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        code(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: `PR_SET_NO_NEW_PRIVS` takes no addresses, and affects this thread only.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    let (what, mode) = (libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER);
    // SAFETY: the call affects this thread only. `filter` and `program`, to which it points, live until the
    // call has returned.
    assert_eq!(unsafe { libc::prctl(what, mode, &raw const filter) }, 0);
}

/// Returns a lock that this thread has used.
fn used() -> RegionLock {
    let lock = RegionLock::new();
    lock.lock_upgradable(|| false).unwrap();
    lock.upgrade();
    lock.unlock_upgradable();
    lock
}

#[test]
fn nobody_becomes_an_owner_without_the_fence() {
    let is_owned = thread::spawn(|| {
        forbid();
        used().is_owned()
    });
    assert!(!is_owned.join().unwrap());
}

#[test]
fn a_lock_is_not_revoked_without_the_fence() {
    if heavy().is_err() {
        return;
    }
    let lock = used();
    thread::scope(|scope| {
        scope.spawn(|| {
            forbid();
            for _ in 0..2 {
                assert_eq!(lock.try_lock_upgradable(), Err(FenceRefused));
                assert_eq!(lock.try_lock_for(Duration::ZERO), Err(FenceRefused));
                assert_eq!(lock.lock_collected(), Err(FenceRefused));
                assert_eq!(lock.lock_quiescent(false), Err(FenceRefused));
                assert_eq!(lock.lock_shared(false), Err(FenceRefused));
            }
        });
    });
    // After these attempts no thread has the lock, and a thread without the filter can take it.
    thread::scope(|scope| {
        scope.spawn(|| {
            lock.lock_upgradable(|| false).unwrap();
            lock.upgrade();
            lock.unlock_upgradable();
        });
    });
    lock.lock_upgradable(|| false).unwrap();
    lock.unlock_upgradable();
}
