#!/usr/bin/env bash
# Runs the tests `full_disk` on small disks of each kind (ext4, XFS, btrfs, tmpfs, an overlay): the disk fills
# up and stays full, the program is killed, the heap is opened again. Then, for each FILTER, runs the tests of
# files that it matches with each disk as the place for temporary files. Needs root, loop devices, xfsprogs
# and btrfs-progs, and space for three images of 320 MiB.
#
#   ci/file-systems.sh [FILTER…]
set -euo pipefail
cd "$(dirname "$0")/.."
place=$(mktemp -d)
disks=()

finish() {
    for disk in "${disks[@]}"; do umount "$disk" 2> /dev/null || true; done
    rm -rf "$place"
}
trap finish EXIT

for kind in ext4 xfs btrfs; do
    truncate -s 320M "$place/$kind.img"
    "mkfs.$kind" -q "$place/$kind.img" > /dev/null
    mkdir "$place/$kind"
    mount -o loop "$place/$kind.img" "$place/$kind"
    disks+=("$place/$kind")
done
mkdir "$place"/{tmpfs,layers,overlay}
mount -t tmpfs -o size=150m tmpfs "$place/tmpfs"
mount -t tmpfs -o size=150m tmpfs "$place/layers"
mkdir "$place"/layers/{lower,upper,work}
mount -t overlay -o "lowerdir=$place/layers/lower,upperdir=$place/layers/upper,workdir=$place/layers/work" overlay "$place/overlay"
# A disk that lies in another is unmounted before it.
disks=("$place/overlay" "$place/layers" "$place/tmpfs" "${disks[@]}")

PHEAP_TEST_DISKS="$place/ext4:$place/xfs:$place/btrfs:$place/tmpfs:$place/overlay" \
    cargo test --locked -p pheap --all-features --test files full_disk -- --nocapture
for filter in "$@"; do
    for kind in ext4 xfs btrfs tmpfs overlay; do
        printf '%s, %s\n' "$kind" "$filter"
        TMPDIR="$place/$kind" cargo test --locked -p pheap --all-features --test files "$filter"
    done
done
