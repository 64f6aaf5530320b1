//! The limit of open files, and therefore of clients.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// File descriptors reserved for other uses than clients: copies of the heap, a master's data, `MIGRATE`,
/// metrics, the log, and a client that gets an error because there are too many.
const RESERVE: u64 = 32;

/// The number of open descriptors to assume if `/proc` cannot be read.
const USUAL: u64 = 64;

/// Raises the limit of open files for `clients` clients, of which `connected` are connected already. Returns
/// the number of clients that the limit allows, at most `clients`.
///
/// # Errors
/// A text that says what to do, if the limit allows no client.
pub fn make_room(clients: u64, connected: u64) -> Result<u64, String> {
    let open = std::fs::read_dir("/proc/self/fd").map_or(USUAL, |all| all.count() as u64);
    let others = open.saturating_sub(connected) + RESERVE;
    let most = allow(others + clients).saturating_sub(others).min(clients);
    if most == 0 {
        return Err(format!(
            "the system allows this process too few open files: the server needs {others}, and one for each \
             client; raise the hard limit (`ulimit -n`, or LimitNOFILE of systemd)",
        ));
    }
    Ok(most)
}

/// If the soft limit of open files is less than `wanted`, raises it to that, or to the hard limit, which
/// stays. Returns the soft limit.
fn allow(wanted: u64) -> u64 {
    let before = getrlimit(Resource::Nofile);
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= wanted);
    if !enough(before.current) {
        let current = if enough(before.maximum) { Some(wanted) } else { before.maximum };
        // An error is ignored: if the system refuses, the limit stays.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, ..before });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
