#!/usr/bin/env bash
# Heaps on small disks of each kind (ext4, XFS, btrfs, tmpfs, an overlay), with each durability: the disk fills up and stays
# full, the program is killed, the heap is opened again, a backup was made. Then the tests of files with each as the place for
# temporary files. Needs root, loop devices, xfsprogs and btrfs-progs; and 2 GB of space.
#
#   ci/file-systems.sh [FILTER…]     FILTER: of the tests of files that run on each; none unless told
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
# What lies in another is unmounted first.
disks=("$place/overlay" "$place/layers" "$place/tmpfs" "${disks[@]}")

PHEAP_TEST_DISKS="$place/ext4:$place/xfs:$place/btrfs:$place/tmpfs:$place/overlay" \
    cargo test --locked -p pheap --all-features --test files full_disk -- --nocapture
for filter in "$@"; do
    for kind in ext4 xfs btrfs tmpfs overlay; do
        printf '%s, %s\n' "$kind" "$filter"
        TMPDIR="$place/$kind" cargo test --locked -p pheap --all-features --test files "$filter"
    done
done
