//! Finds out whether threads wait. Tests use it in place of clocks, whose results depend on how busy the
//! machine is.

/// Returns the number of this thread, for [`sleeps`].
pub fn this_thread() -> i32 {
    // SAFETY: the call has no arguments, and changes nothing.
    unsafe { libc::gettid() }
}

/// Returns whether a thread of this process is in an interruptible sleep. A thread that waits for a processor
/// is not, nor is one that has ended.
pub fn sleeps(thread: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    says_asleep(&stat)
}

pub(crate) fn says_asleep(stat: &str) -> bool {
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
}
