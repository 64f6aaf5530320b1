#!/usr/bin/env bash
# Cuts the power of a virtual machine while it changes a heap, again and again, and looks at what is left: see docs/power-cuts.md.
#
#   ci/power-cut.sh [--rounds N] [--dax] [--disk] [--no-sync] [--self-test] [--seed N] [--keep DIR]
#
# Both devices unless told. The exit status is 0 only if all rounds pass, 2 if the virtual machine did not work. Needs Debian's packages (as root, they are installed), see
# ci/dax-vm/README.md, a Rust toolchain and about 8 seconds for each round.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

for argument; do
    case $argument in -h | --help) exec python3 -B "$root/ci/power_cut.py" --help ;; esac
done
(cd "$root" && cargo build --locked --release -p pheap-power)
"$root/ci/dax-vm/dax-vm" setup
exec python3 -B "$root/ci/power_cut.py" --program "${CARGO_TARGET_DIR:-$root/target}/release/pheap-power" "$@"
