//! How many files may be open, and so how many clients there may be.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that clients leave for the rest: copies of the heap, a master's data, `MIGRATE`, metrics, the
/// log, and a client that gets an error because there are too many.
const RESERVE: u64 = 32;

/// Descriptors that a server has without clients, where `/proc` is missing and they cannot be counted.
const USUAL: u64 = 64;

/// Has the system allow as many open files as so many clients need. `connected` of them are there already.
/// Returns how many clients there may be: fewer, if the system does not allow more.
///
/// # Errors
/// A text that says what to do, if there may be none.
pub fn make_room(clients: u64, connected: u64) -> Result<u64, String> {
    let open = std::fs::read_dir("/proc/self/fd").map_or(USUAL, |all| all.count() as u64);
    let others = open.saturating_sub(connected) + RESERVE;
    let most = allow(others + clients).saturating_sub(others).min(clients);
    if most == 0 {
        return Err(format!(
            "too few files may be open: the server needs {others} without a single client; raise the limit \
             (`ulimit -n`, or LimitNOFILE of systemd)",
        ));
    }
    Ok(most)
}

/// Raises the soft limit of open files to `wanted`, or to the hard limit, which stays. Returns the soft
/// limit.
fn allow(wanted: u64) -> u64 {
    let before = getrlimit(Resource::Nofile);
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= wanted);
    if !enough(before.current) {
        let current = if enough(before.maximum) { Some(wanted) } else { before.maximum };
        // If the system refuses, the limit stays.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, ..before });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
