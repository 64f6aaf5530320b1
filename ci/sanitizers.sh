#!/usr/bin/env bash
# Runs the tests of pheap and pheap-gc under a sanitizer, or a test of pheap-gc under Miri: see
# docs/crash-testing.md.
#
#   ci/sanitizers.sh address|thread|leak|miri [TEST…]
#
# TEST is an integration test of pheap. Without it, the unit tests and all integration tests run that this
# script does not leave out. Miri takes no TEST. Needs a nightly toolchain; `thread` also needs its component
# rust-src, `miri` its component miri.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { sed -n '2,/^set/{/^set/d;s/^# \?//;p}' "$0"; exit 2; }
kind=$1
shift
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/sanitizers/$kind"
host=$(rustc +nightly -vV | sed -n 's/^host: //p')

# Not run under any sanitizer: `ui` and `matrix` compile programs, and check what the compiler says. The other
# tests need features.
skipped=" ui matrix serde metrics "
tests=()
arguments=()
filters=()
case $kind in
    # Its shadow memory does not overlap the usual addresses of heaps. It looks for leaks as well. The option
    # leaves SIGSEGV to the tests, so that a child of `fork` that touches forbidden memory dies as usual.
    address)
        export RUSTFLAGS="-Zsanitizer=address" ASAN_OPTIONS="handle_segv=0"
        # Leaves out tests with heaps at addresses that this sanitizer uses, and tests in which a process has
        # few addresses, keeps all its memory, or has system calls refused.
        for name in taken_in_another_session_and_moved in_place_and_then_to_larger_slots \
            by_a_call_that_goes_on go_on_with_a_backup few_addresses all_memory_is_kept system_calls_that_are_refused; do
            filters+=(--skip "$name")
        done
        ;;
    leak)
        export RUSTFLAGS="-Zsanitizer=leak"
        ;;
    # With an instrumented standard library: otherwise each `Arc` and each channel looks like a data race.
    # Heaps have other addresses, because its shadow memory is at their usual ones.
    thread)
        export RUSTFLAGS="-Zsanitizer=thread --cfg pheap_tsan"
        arguments=(-Zbuild-std)
        # A test leaves a heap open, as a process that is killed does.
        export TSAN_OPTIONS="report_thread_leaks=0"
        # `fork` makes children of a process with threads, which this sanitizer does not support; `memory`
        # needs more addresses than it leaves.
        skipped+=" fork memory "
        # Leaves out tests with heaps at addresses that it does not support, or larger than the addresses that
        # it leaves; and tests without /proc or system calls that it needs.
        skipped+=" relocate "
        for name in predecessor:: files::elsewhere old_file:: what_an_older_program_has_left in_another_session_and_moved \
            in_place_and_then_to_larger_slots by_a_call_that_goes_on go_on_with_a_backup \
            no_disk_has_room_for a_tmpfs_knows_its_boot few_addresses all_memory_is_kept system_calls_that_are_refused; do
            filters+=(--skip "$name")
        done
        ;;
    # Only the test `barrier` of pheap-gc. pheap itself maps files at chosen addresses, which Miri does not
    # support, and the other tests of pheap-gc take too long.
    miri)
        export PROPTEST_CASES=${PROPTEST_CASES:-1} MIRIFLAGS="-Zmiri-disable-isolation"
        exec cargo +nightly miri test --locked -p pheap-gc --test barrier
        ;;
    *)
        printf 'no sanitizer %s\n' "$kind" >&2
        exit 2
        ;;
esac

if [ $# -eq 0 ]; then
    for path in crates/pheap/tests/*.rs crates/pheap/tests/*/main.rs; do
        name=${path#crates/pheap/tests/}
        name=${name%/main.rs}
        name=${name%.rs}
        case $skipped in *" $name "*) ;; *) set -- "$@" "$name" ;; esac
    done
    tests=(--lib)
fi
for name; do tests+=(--test "$name"); done

cargo +nightly test --locked --no-fail-fast "${arguments[@]}" --target "$host" -p pheap "${tests[@]}" -- "${filters[@]}"
# Without the examples in the documentation, which are built without the sanitizer of the library.
cargo +nightly test --locked "${arguments[@]}" --target "$host" -p pheap-gc --tests
