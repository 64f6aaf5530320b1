//! Two fences that order one thread's store and next load against another one's: one that is often passed and costs nothing, and one that is rare and dear.
//!
//! If a thread stores, passes [`light`] and loads, and another one stores, passes [`heavy`] and loads, then one of them sees the other's store. The heavy fence
//! makes the system let each processor on which the process runs pass a fence, wherever it is (`membarrier(2)`).

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
pub(crate) use self::system::{heavy, is_supported};

#[cfg(not(all(test, pheap_loom)))]
mod system {
    use std::sync::LazyLock;
    use std::time::Duration;

    fn membarrier(command: libc::c_int) -> libc::c_long {
        // SAFETY: a system call that takes no addresses.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
    }

    /// Whether [`heavy`] may be called.
    pub(crate) fn is_supported() -> bool {
        static REGISTERED: LazyLock<bool> = LazyLock::new(|| {
            let commands = membarrier(libc::MEMBARRIER_CMD_QUERY);
            let needed = libc::c_long::from(
                libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED | libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
            );
            commands >= 0
                && commands & needed == needed
                && membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0
        });
        *REGISTERED
    }

    /// Lets all threads of the process pass a fence.
    pub(crate) fn heavy() {
        let fenced = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0
            // Slower, by milliseconds, and without registration.
            || membarrier(libc::MEMBARRIER_CMD_GLOBAL) == 0;
        if !fenced {
            // A filter of system calls was installed since. A processor needs less than microseconds until its stores can be seen and its
            // write-backs are done, and one that leaves a thread passes a fence. Nothing promises that, but there is nothing else to do.
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[cfg(all(test, pheap_loom))]
mod model {
    pub(crate) fn is_supported() -> bool {
        true
    }

    pub(crate) fn heavy() {
        loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
    }
}
