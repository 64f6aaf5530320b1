#!/usr/bin/env bash
# A heap of 1 GiB in a control group with little memory: changed, killed, and opened again, 20 times. Needs root.
#
#   ci/memory-group.sh [MIB]     the group's memory; 96 unless told
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
