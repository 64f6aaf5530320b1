#!/usr/bin/env bash
# Runs the tests `memory_group` with a heap of 1 GiB in a control group with little memory: the heap is
# changed, its program is killed, and the heap is opened again, many times. Needs root.
#
#   ci/memory-group.sh [MIB]     the memory of the group in MiB; the default is 96
set -euo pipefail
cd "$(dirname "$0")/.."
limit=$((${1:-96} << 20))

if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    root=/sys/fs/cgroup file=memory.max
    echo +memory > $root/cgroup.subtree_control
else
    root=/sys/fs/cgroup/memory file=memory.limit_in_bytes
fi
group=$(mktemp -d "$root/pheap-XXXXXX")
trap 'rmdir "$group"' EXIT
echo "$limit" > "$group/$file"
cargo test --locked -p pheap --all-features --test files --no-run
PHEAP_TEST_GROUP=$group cargo test --locked -p pheap --all-features --test files memory_group -- --nocapture
