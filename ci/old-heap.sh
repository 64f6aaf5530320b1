#!/usr/bin/env bash
# Lets an older build write a small heap for tests: see crates/pheap/tests/data/README.md. Needs a Rust
# toolchain.
#
#   ci/old-heap.sh COMMIT FILE          a closed heap, which the example `list` writes
#   ci/old-heap.sh COMMIT FILE killed   a heap in use: two roots, which short transactions have changed
#
# The example is built as it was at COMMIT, except for the place, the size and the durability of its heap.
# With `killed`, another program takes its place.
set -euo pipefail
[ $# = 2 ] || [ "$*" = "${1-} ${2-} killed" ] || { sed -n '2,/^set/{/^set/d;s/^# \?//;p}' "$0"; exit 2; }
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
if [ $# = 3 ]; then
    cat >"$old/examples/list.rs" <<EOF
fn main() -> pheap::Result<()> {
    let options = pheap::Options::new().arena_size(64 << 10).reserve(1 << 30).durability(pheap::Durability::Pmem);
    let heap = options.open("$file")?;
    let (a, b) = (heap.root::<u64>("a")?, heap.root::<u64>("b")?);
    a.txn(|tx, a| Ok(tx[a] = 1))?;
    b.txn(|tx, b| Ok(tx[b] = 2))?;
    pheap::txn((&a, &b), |((ta, a), (tb, b))| Ok((ta[a], tb[b]) = (10, 20)))?;
    b.txn(|tx, b| Ok(tx[b] += 1))?;
    a.txn(|tx, a| Ok(tx[a] += 1))?;
    std::mem::forget((heap, a, b));
    Ok(())
}
EOF
fi
(cd "$old" && cargo run --locked --example list)
sha256sum "$file"
