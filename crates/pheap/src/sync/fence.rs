//! An asymmetric fence (`membarrier`): free for the side that passes it often, dear for the side that passes it once.
//!
//! If a thread stores, passes [`light`] and loads, and another one stores, passes [`heavy`] and loads, then one of them
//! sees the other's store. The heavy fence makes the system let each processor on which the process runs pass a fence,
//! wherever it is (`membarrier(2)`).

#![allow(unsafe_code)]

/// The system refuses a fence, and has not before: a filter of system calls was installed meanwhile. Nobody can find
/// out any more what others have stored, however long he waits.
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

/// A fence behind an operation that changes an atomic. On x86 that is one already; on other processors, and in models,
/// what is loaded behind it may be older.
#[inline(always)]
pub(super) fn full_behind_atomic() {
    #[cfg(not(any(target_arch = "x86_64", all(test, pheap_loom))))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    #[cfg(all(test, pheap_loom))]
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
}

/// Lets all threads of the process pass a fence.
#[cfg(all(test, pheap_loom))]
pub(super) fn heavy() -> Result<(), Refused> {
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
    Ok(())
}

/// Lets all threads of the process pass a fence. The first one of a process takes some milliseconds if there are
/// several threads.
#[cfg(not(all(test, pheap_loom)))]
pub(crate) fn heavy() -> Result<(), Refused> {
    let membarrier = |command: libc::c_int| {
        // SAFETY: a system call that takes no addresses.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    };
    let fenced = super::schedule::pass_fences()
        || membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
        // Not registered yet; or not any more, in a process that was restored from a checkpoint.
        || membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
            && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    if fenced { Ok(()) } else { Err(Refused) }
}

#[cfg(all(test, not(pheap_loom)))]
pub(crate) mod tests;
