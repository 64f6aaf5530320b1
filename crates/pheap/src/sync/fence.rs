//! Two fences that order one thread's store and next load against another one's: one that is often passed and costs nothing, and one that is rare and dear.
//!
//! If a thread stores, passes [`light`] and loads, and another one stores, passes [`heavy`] and loads, then one of them sees the other's store. The heavy fence
//! makes the system let each processor on which the process runs pass a fence, wherever it is (`membarrier(2)`).

#![allow(unsafe_code)]

/// Keeps the compiler from moving loads and stores across; the processor may.
#[inline(always)]
pub(super) fn light() {
    #[cfg(not(all(test, pheap_loom)))]
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    #[cfg(all(test, pheap_loom))]
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
}

#[cfg(all(test, pheap_loom))]
pub(super) use self::model::{heavy, is_supported};
#[cfg(not(all(test, pheap_loom)))]
pub(super) use self::system::{heavy, is_supported};

/// [`is_supported`], when it is known.
#[cfg(test)]
pub(crate) fn will_be_supported() -> bool {
    #[cfg(not(pheap_loom))]
    return system::will_be_supported();
    #[cfg(pheap_loom)]
    is_supported()
}

/// After a fork, in the child, where only the thread is that has called it.
pub(crate) fn forked() {
    #[cfg(not(all(test, pheap_loom)))]
    system::forked();
}

#[cfg(not(all(test, pheap_loom)))]
mod system {
    use std::io;
    use std::sync::atomic::{AtomicU8, Ordering};

    fn membarrier(command: libc::c_int) -> libc::c_long {
        // SAFETY: a system call that takes no addresses.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
    }

    /// Whether [`heavy`] may be called: not known, being found out, no, yes.
    static SUPPORT: AtomicU8 = AtomicU8::new(UNKNOWN);
    const UNKNOWN: u8 = 0;
    const ASKED: u8 = 1;
    const NO: u8 = 2;
    const YES: u8 = 3;

    /// Whether [`heavy`] may be called. The first time this is asked, it is not known yet, and found out in the background: a process with several threads
    /// waits for ten milliseconds until it is registered. Later it is tried again each time: a filter of system calls may have been installed.
    pub(in crate::sync) fn is_supported() -> bool {
        let support = SUPPORT.load(Ordering::Acquire);
        if support == UNKNOWN
            && SUPPORT.compare_exchange(UNKNOWN, ASKED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let asks = || SUPPORT.store(if register() { YES } else { NO }, Ordering::Release);
            let thread = std::thread::Builder::new().name("pheap fences".to_owned()).spawn(asks);
            if thread.is_err() {
                SUPPORT.store(NO, Ordering::Release);
            }
        }
        support == YES && fence().is_ok()
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
        let _ = SUPPORT.compare_exchange(ASKED, UNKNOWN, Ordering::Relaxed, Ordering::Relaxed);
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
    fn fence() -> io::Result<()> {
        let fenced = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0
            // A process that was restored from a checkpoint may not be registered any more.
            || register() && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0
            // Slower, by milliseconds, and without registration.
            || membarrier(libc::MEMBARRIER_CMD_GLOBAL) == 0;
        if fenced { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Lets all threads of the process pass a fence.
    pub(in crate::sync) fn heavy() {
        if let Err(error) = fence() {
            forbidden(&error);
        }
    }

    /// There is an owner, so there was such a fence when the lock became biased. Now there is none, for a filter of system calls was installed since. Without one, nothing says
    /// whether the owner is inside, however long one waits. What a crash leaves is whole, and what two threads at once would leave is not.
    #[cold]
    fn forbidden(error: &io::Error) -> ! {
        eprintln!(
            "pheap: membarrier(2) is refused ({error}), and was not when a heap of this process was used first. This thread cannot know any more whether another one \
             is inside of a transaction, so the process ends, which no heap minds. Allow membarrier in the filter of system calls, or install that before the heap is opened."
        );
        std::process::abort()
    }
}

#[cfg(all(test, pheap_loom))]
mod model {
    pub(in crate::sync) fn is_supported() -> bool {
        true
    }

    pub(in crate::sync) fn heavy() {
        loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(all(test, not(pheap_loom)))]
mod tests;
