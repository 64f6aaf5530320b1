//! Whether threads wait: for tests in which no clock is to decide, for one finds out how busy the machine is.

/// The number of this thread, which [`sleeps`] knows it by.
pub fn this_thread() -> i32 {
    // SAFETY: a call without arguments, which changes nothing.
    unsafe { libc::gettid() }
}

/// Whether a thread of this process sleeps. One that only has no processor does not.
pub fn sleeps(thread: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    says_asleep(&stat)
}

pub(crate) fn says_asleep(stat: &str) -> bool {
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
}
