//! An asymmetric fence (`membarrier`): it costs nothing on the side that passes it often (`light`), and much
//! on the side that passes it once (`heavy`).
//!
//! If a thread stores, passes [`light`] and loads, and another thread stores, passes [`heavy`] and loads,
//! then one of them sees the other's store. The heavy fence makes the system let each processor on which the
//! process runs pass a fence, wherever that processor is in its program (`membarrier(2)`).

#![allow(unsafe_code)]

/// The system refuses the fence. If a lock has an owner, the system has granted the fence before; since then,
/// for example, a filter of system calls was installed. Without the fence, the thread cannot know what other
/// threads have stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FenceRefused;

/// Keeps the compiler from moving loads and stores across this point. The processor may still move them. (In
/// models this is a full fence.)
#[inline(always)]
pub(super) fn light() {
    #[cfg(not(all(test, pheap_loom)))]
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    #[cfg(all(test, pheap_loom))]
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
}

/// A full fence after an operation that changes an atomic. On x86 that operation is a full fence already. On
/// other processors, and in models, a later load could return an older value without this fence.
#[inline(always)]
pub(super) fn full_behind_atomic() {
    #[cfg(not(any(target_arch = "x86_64", all(test, pheap_loom))))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    #[cfg(all(test, pheap_loom))]
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
}

/// A full fence of this thread only. In models that is enough, because [`light`] is a full fence there, too.
#[cfg(all(test, pheap_loom))]
pub(super) fn heavy() -> Result<(), FenceRefused> {
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
    Ok(())
}

/// Makes all threads of the process pass a fence, or in a scheduled thread all scheduled threads. The first
/// call in a process may take milliseconds if there are several threads.
#[cfg(not(all(test, pheap_loom)))]
pub(crate) fn heavy() -> Result<(), FenceRefused> {
    let membarrier = |command: libc::c_int| {
        // SAFETY: `membarrier` takes a command and flags, and no addresses, so it touches no memory of this
        // process.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    };
    let fenced = super::schedule::pass_fences()
        || membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
        // The first command fails if the process is not registered yet, or if it was restored from a
        // checkpoint, and so is not registered any more.
        || membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
            && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    if fenced { Ok(()) } else { Err(FenceRefused) }
}

#[cfg(all(test, not(pheap_loom)))]
pub(crate) mod tests;
