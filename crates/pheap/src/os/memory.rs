//! Finds out how much memory this process may use: that of the machine, or less if a control group limits it
//! (cgroups(7), versions 1 and 2).

use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::calls::memory;

/// Heaps of up to this many bytes are small with any limit, so that the limit need not be looked up for them,
/// which takes long.
const SMALL: u64 = 64 << 20;

/// Returns whether this many bytes are more than half of the memory (and more than [`SMALL`]), so that the
/// kernel may be unable to keep all of the bytes in memory together with everything else.
pub(super) fn is_much(bytes: u64) -> bool {
    bytes > SMALL && bytes > limit() / 2
}

/// Returns the bytes of memory that this process and the pages of its files may take: the machine's memory,
/// or the limit of a control group around the process, if that is less. A container is such a group. Later
/// calls return what the first call found.
pub fn limit() -> u64 {
    static LIMIT: OnceLock<u64> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
        let limits = files_of(&groups).filter_map(|file| read_to_string(file).ok()?.trim().parse().ok());
        limits.fold(memory(), u64::min)
    })
}

/// Returns the files with the memory limits of a process's control groups, and of the groups around them.
/// `groups` is the content of `/proc/PID/cgroup`. A file with `max` has no limit.
fn files_of(groups: &str) -> impl Iterator<Item = PathBuf> {
    groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, group) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (top, file) = match controllers {
            "" => (Some("/sys/fs/cgroup"), "memory.max"),
            _ if controllers.split(',').any(|one| one == "memory") => {
                (Some("/sys/fs/cgroup/memory"), "memory.limit_in_bytes")
            }
            _ => (None, ""),
        };
        let around = top.into_iter().flat_map(move |top| {
            Path::new(group).ancestors().map(move |group| {
                let inside = group.strip_prefix("/").unwrap_or(group);
                Path::new(top).join(inside).join(file)
            })
        });
        around.collect::<Vec<_>>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_there_is_is_not_much() {
        assert!(!is_much(SMALL.min(limit() / 2)) && is_much(u64::MAX));
    }

    #[test]
    fn groups_of_both_versions_and_those_around_them() {
        let files: Vec<_> = files_of("3:cpu:/a\n2:blkio,memory:/b/c\n0::/d").collect();
        let names = [
            "/sys/fs/cgroup/memory/b/c/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/b/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/d/memory.max",
            "/sys/fs/cgroup/memory.max",
        ];
        assert_eq!(files, names.map(PathBuf::from));
    }
}
