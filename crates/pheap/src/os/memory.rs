//! How much memory this process may use: what the machine has, or less if a control group says so (cgroups(7), versions 1 and 2).

use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::calls::memory;

/// Heaps up to here are small, whatever the limit is: to ask takes longer than to open one of them does.
const SMALL: u64 = 64 << 20;

/// Whether so many bytes are more than half of what there is, so that the kernel cannot keep them all beside the rest.
pub(super) fn is_much(bytes: u64) -> bool {
    bytes > SMALL && bytes > limit() / 2
}

/// Bytes of memory for this process and what the kernel keeps of its files, as they were at the first call.
pub(crate) fn limit() -> u64 {
    static LIMIT: OnceLock<u64> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
        let limits = files_of(&groups).filter_map(|file| read_to_string(file).ok()?.trim().parse().ok());
        limits.fold(memory(), u64::min)
    })
}

/// The files that may say how much the groups of a process may use, and those around them: `groups` is what `/proc/PID/cgroup` says of it. A file that says `max` says nothing.
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
