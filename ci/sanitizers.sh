#!/usr/bin/env bash
# The tests of pheap and pheap-gc under a sanitizer, or under Miri: see docs/crash-testing.md.
#
#   ci/sanitizers.sh address|thread|leak|miri [TEST…]
#
# TEST is an integration test of pheap; all that make sense unless told. Needs a nightly toolchain; `thread` needs its component rust-src, `miri` its
# component miri as well.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { sed -n '2,/^set/{/^set/d;s/^# \?//;p}' "$0"; exit 2; }
kind=$1
shift
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/sanitizers/$kind"
host=$(rustc +nightly -vV | sed -n 's/^host: //p')

# Not run under any sanitizer: `ui` and `matrix` compile programs and look at what the compiler says. The others need features.
skipped=" ui matrix serde metrics "
tests=()
arguments=()
filters=()
case $kind in
    # Its map of the memory does not overlap the places of heaps. Leaks are looked for as well. A child of `fork` that touches what it may not is to die as usual.
    address)
        export RUSTFLAGS="-Zsanitizer=address" ASAN_OPTIONS="handle_segv=0"
        # Files that lie at addresses which this sanitizer has.
        # And few addresses, all of its memory kept, or system calls refused, is what no sanitizer can live with.
        for name in taken_in_another_session_and_moved in_place_and_then_to_larger_slots go_on_with_a_backup \
            few_addresses all_memory_is_kept system_calls_that_are_refused; do
            filters+=(--skip "$name")
        done
        ;;
    leak)
        export RUSTFLAGS="-Zsanitizer=leak"
        ;;
    # With a standard library that is watched, too: otherwise each `Arc` and each channel is a data race. Heaps lie elsewhere, for its map of the
    # memory is where they do usually.
    thread)
        export RUSTFLAGS="-Zsanitizer=thread --cfg pheap_tsan"
        arguments=(-Zbuild-std)
        # A test leaves a heap open, as a process that is killed does.
        export TSAN_OPTIONS="report_thread_leaks=0"
        # A child of a process with threads, which this sanitizer gives up; and more addresses than it leaves.
        skipped+=" fork memory "
        # Heaps at places that it does not know, or larger than what it leaves; and tests without /proc, or
        # system calls, that it needs.
        skipped+=" relocate "
        for name in predecessor:: files::elsewhere old_file:: what_an_older_program_has_left in_another_session_and_moved \
            in_place_and_then_to_larger_slots go_on_with_a_backup no_disk_has_room_for a_tmpfs_knows_its_boot \
            few_addresses all_memory_is_kept system_calls_that_are_refused; do
            filters+=(--skip "$name")
        done
        ;;
    # Marking by several threads. Not pheap itself: its heaps are file mappings at chosen addresses, which Miri does not have; nor the other tests of
    # pheap-gc, which take more than four minutes each with a single case.
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
# Not those in documentation, which are built without the sanitizer that the library is built with.
cargo +nightly test --locked "${arguments[@]}" --target "$host" -p pheap-gc --tests
