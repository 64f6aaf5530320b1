#!/usr/bin/env bash
# Cuts the power of a virtual machine while it changes a heap, again and again, and checks what is left: see
# docs/power-cuts.md.
#
#   ci/power-cut.sh [--rounds N] [--dax] [--disk] [--no-sync] [--self-test] [--seed N] [--keep DIR]
#   ci/power-cut.sh --server [--rounds N] [--self-test] [--seed N]
#
# The program that changes the heap is $PHEAP_POWER, or built here, optimised. Without --dax and --disk, both
# devices are tested. With --server, pheap-redis runs on the disk, and its clients outside of the machine. The
# exit status is 0 if all rounds pass, 2 if only the virtual machine failed, and else 1 (with --server, that
# of `cargo test`). Needs a Rust toolchain and Debian's packages: see ci/dax-vm/README.md.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

# The clients and what they check are a test of pheap-redis, which runs the machine itself.
server() {
    local test=what_was_acknowledged_is_there
    export PHEAP_ORACLE_SEED=$RANDOM
    while [ $# -gt 0 ]; do
        case $1 in
            --server) ;;
            --self-test) test=mistakes_are_noticed ;;
            --rounds) export PHEAP_ORACLE_ROUNDS=$2 && shift ;;
            --seed) export PHEAP_ORACLE_SEED=$2 && shift ;;
            *) printf 'not with --server: %s\n' "$1" >&2 && exit 64 ;;
        esac
        shift
    done
    "$root/ci/dax-vm/dax-vm" setup
    cd "$root"
    exec cargo test --locked --release -p pheap-redis --test power -- --nocapture --exact "$test"
}

for argument; do
    case $argument in
        -h | --help) exec python3 -B "$root/ci/power_cut.py" --help ;;
        --server) server "$@" ;;
    esac
done
program=${PHEAP_POWER:-}
if [ -z "$program" ]; then
    (cd "$root" && cargo build --locked --release -p pheap-power)
    program="${CARGO_TARGET_DIR:-$root/target}/release/pheap-power"
fi
"$root/ci/dax-vm/dax-vm" setup
exec python3 -B "$root/ci/power_cut.py" --program "$program" "$@"
