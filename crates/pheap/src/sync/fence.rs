//! An asymmetric fence (`membarrier`): free for the side that passes it often, dear for the side that seldom does.
//!
//! If a thread stores, passes [`light`] and loads, and another one stores, passes [`heavy`] and loads, then one of them sees the other's store. The heavy fence
//! makes the system let each processor on which the process runs pass a fence, wherever it is (`membarrier(2)`).

#![allow(unsafe_code)]

#[cfg(not(all(test, pheap_loom)))]
use super::schedule;

/// The system refuses a fence, and has not before: a filter of system calls was installed meanwhile. Nobody can find out any more what others have stored, however long he
/// waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused;

/// Keeps the compiler from moving loads and stores across; the processor may.
#[inline(always)]
pub(super) fn light() {
    #[cfg(not(all(test, pheap_loom)))]
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    #[cfg(all(test, pheap_loom))]
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
}

/// A fence behind an operation that changes an atomic. On x86 that is one already; on other processors, and in models, what is loaded behind it may be older.
#[inline(always)]
pub(super) fn full_behind_atomic() {
    #[cfg(not(any(target_arch = "x86_64", all(test, pheap_loom))))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    #[cfg(all(test, pheap_loom))]
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
}

#[cfg(all(test, pheap_loom))]
pub(super) use self::model::{heavy, is_supported};

/// Whether [`heavy`] may be called.
#[cfg(not(all(test, pheap_loom)))]
pub(super) fn is_supported() -> bool {
    schedule::is_scheduled() || system::is_supported()
}

/// Lets all threads of the process pass a fence.
#[cfg(not(all(test, pheap_loom)))]
pub(super) fn heavy() -> Result<(), Refused> {
    if schedule::pass_fences() { Ok(()) } else { system::heavy() }
}

/// [`is_supported`], when it is known.
#[cfg(test)]
pub(crate) fn will_be_supported() -> bool {
    #[cfg(not(pheap_loom))]
    return system::will_be_supported();
    #[cfg(pheap_loom)]
    is_supported()
}

/// Lets the fence be refused from now on, in this thread and those that it starts.
#[cfg(all(test, not(pheap_loom)))]
pub(crate) use self::system::forbid;

/// After a fork, in the child, where only the thread is that has called it.
pub(crate) fn forked() {
    #[cfg(not(all(test, pheap_loom)))]
    system::forked();
}

#[cfg(not(all(test, pheap_loom)))]
mod system {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::Refused;

    fn membarrier(command: libc::c_int) -> libc::c_long {
        // SAFETY: a system call that takes no addresses.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
    }

    /// Whether [`heavy`] may be called: not known, being found out, no, yes, not known in a forked child.
    static SUPPORT: AtomicU8 = AtomicU8::new(UNKNOWN);
    const UNKNOWN: u8 = 0;
    const ASKED: u8 = 1;
    const NO: u8 = 2;
    const YES: u8 = 3;
    const FORKED: u8 = 4;

    /// Whether [`heavy`] may be called. The first time this is asked, it is not known yet, and found out in the background: a process with several threads
    /// waits for ten milliseconds until it is registered. A forked child starts no thread for that, and as a rule it has only one, which need not wait. Later it is tried
    /// again each time: a filter of system calls may have been installed.
    pub(in crate::sync) fn is_supported() -> bool {
        let find_out = || SUPPORT.store(if register() { YES } else { NO }, Ordering::Release);
        let support = SUPPORT.load(Ordering::Acquire);
        if support == FORKED {
            find_out();
        }
        if support == UNKNOWN
            && SUPPORT.compare_exchange(UNKNOWN, ASKED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let thread = std::thread::Builder::new().name("pheap fences".to_owned()).spawn(find_out);
            if thread.is_err() {
                SUPPORT.store(NO, Ordering::Release);
            }
        }
        support == YES && heavy().is_ok()
    }

    #[cfg(test)]
    pub(super) fn will_be_supported() -> bool {
        while !is_supported() && !matches!(SUPPORT.load(Ordering::Acquire), NO | YES) {
            std::thread::yield_now();
        }
        is_supported()
    }

    /// A child has no thread that finds out. It is registered if its parent was.
    pub(super) fn forked() {
        if matches!(SUPPORT.load(Ordering::Relaxed), UNKNOWN | ASKED) {
            SUPPORT.store(FORKED, Ordering::Relaxed);
        }
    }

    fn register() -> bool {
        let commands = membarrier(libc::MEMBARRIER_CMD_QUERY);
        let needed = libc::c_long::from(
            libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED | libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
        );
        commands >= 0
            && commands & needed == needed
            && membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0
    }

    /// Lets all threads of the process pass a fence, in one of the ways that the kernel promises it in.
    pub(in crate::sync) fn heavy() -> Result<(), Refused> {
        let fenced = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0
            // A process that was restored from a checkpoint may not be registered any more.
            || register() && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0
            // Slower, by milliseconds, and without registration.
            || membarrier(libc::MEMBARRIER_CMD_GLOBAL) == 0;
        if fenced { Ok(()) } else { Err(Refused) }
    }

    /// Lets `membarrier` fail from now on as if there was none, in this thread and those that it starts.
    #[cfg(test)]
    pub(crate) fn forbid() {
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
        // SAFETY: about this thread only.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
        let (what, mode) = (libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER);
        // SAFETY: about this thread only; `filter` and the program that it points to are there while it is read.
        assert_eq!(unsafe { libc::prctl(what, mode, &raw const filter) }, 0);
    }

    /// Whether a child of this process may call [`heavy`].
    #[cfg(test)]
    pub(super) fn is_supported_in_child() -> bool {
        // SAFETY: the child makes system calls, looks at an atomic, and ends: nothing that another thread may have had locked.
        let child = unsafe { libc::fork() };
        if child == 0 {
            forked();
            let status = if is_supported() { 0 } else { 1 };
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(status) };
        }
        let mut status = 0;
        // SAFETY: waits for a child of this process, and writes to `status`.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        status == 0
    }
}

#[cfg(all(test, pheap_loom))]
mod model {
    pub(in crate::sync) fn is_supported() -> bool {
        true
    }

    pub(in crate::sync) fn heavy() -> Result<(), super::Refused> {
        loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
        Ok(())
    }
}

#[cfg(all(test, not(pheap_loom)))]
mod tests;
