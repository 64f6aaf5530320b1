#!/usr/bin/env bash
# Lets an older build of the example `list` write a heap, small and closed, for the tests of migrations: see crates/pheap/tests/data/README.md.
#
#   ci/old-heap.sh COMMIT FILE
#
# The example is built as it was at COMMIT, but for where its heap is and how large: that is all that the script changes in it. Needs a Rust toolchain.
set -euo pipefail
[ $# = 2 ] || { sed -n '2,/^set/{/^set/d;s/^# \?//;p}' "$0"; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)
commit=$(git -C "$root" rev-parse --verify "$1^{commit}")
file=$(realpath "$2")
[ ! -e "$file" ] || { echo "there is a file $file already"; exit 1; }

old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
git -C "$root" archive "$commit" | tar -x -C "$old"
options='pheap::Options::new().arena_size(64 << 10).reserve(1 << 30).durability(pheap::Durability::Process)'
sed -i \
    -e "s|Heap::open(&path)|$options.open(\&path)|" \
    -e "s|let path = folder.path().join(.*);|let path = std::path::PathBuf::from(\"$file\"); let _ = folder;|" \
    "$old/examples/list.rs"
(cd "$old" && cargo run --locked --example list)
sha256sum "$file"
