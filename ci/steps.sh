# shellcheck shell=bash
# The steps of .ci/run, which sources this. Each runs under `set -e` and fails if a command does.

NOTES=()

note() {
    NOTES+=("$1")
    printf 'note: %s\n' "$1"
}

has_nightly() {
    cargo +nightly --version > /dev/null 2>&1
}

# Installs Debian packages. Fails where that is not possible.
install_packages() {
    local sudo=()
    [ "$(id -u)" -eq 0 ] || sudo=(sudo -n)
    # One at a time: two steps may run at once.
    (
        flock 9
        "${sudo[@]}" apt-get update -qq && "${sudo[@]}" apt-get install -y -qq --no-install-recommends "$@"
    ) 9> "$LOGS/apt-lock"
}

# Installs what several steps need: the toolchain of rust-toolchain.toml, a linker, some Debian packages, and
# the tools for fuzzing.
step_prepare() {
    command -v cc > /dev/null || install_packages gcc libc6-dev
    # For the build of LuaJIT, which pheap-redis uses.
    command -v make > /dev/null || install_packages make
    # The tests of pheap-redis compare it with redis-server.
    command -v redis-server > /dev/null || install_packages redis-server
    command -v openssl > /dev/null || install_packages openssl
    # Some versions of rustup install the toolchain when they first need it, others only when told.
    cargo --version || rustup toolchain install
    cargo fmt --version
    cargo clippy --version
    if has_nightly; then
        cargo +nightly --version
        command -v c++ > /dev/null || install_packages g++ || note "no C++ compiler, which libFuzzer needs"
        cargo fuzz --version 2> /dev/null || cargo install cargo-fuzz --locked
    else
        note "no nightly toolchain: random_layout and fuzz will be skipped (rustup toolchain install nightly)"
    fi
    cargo fetch --locked
}

step_format() {
    cargo fmt --all --check
    cargo fmt --manifest-path fuzz/Cargo.toml --check
}

step_clippy() {
    cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
}

# As users build the crate: finds code that only other features use.
step_clippy_as_shipped() {
    cargo clippy --locked -p pheap --lib -- -D warnings
}

# Packs the crates that are published. Each night they are also built from that.
step_package() {
    package --no-verify
}

package() {
    cargo package --locked --allow-dirty "$@" -p pheap-gc -p pheap-macros -p pheap -p pheap-cli -p pheap-kv -p pheap-redis
}

step_docs() {
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --all-features --no-deps
    RUSTDOCFLAGS="-D warnings" cargo doc --locked -p pheap --no-deps
    check_anchors "$TARGET/doc/pheap"
}

# The links from the pages of collections to the methods that change them must lead somewhere.
check_anchors() {
    local anchors anchor
    anchors=$(grep -rhoE 'struct\.P\.html#change-[A-Za-z-]+' "$1/collections" | sed 's/.*#//' | sort -u)
    [ "$(wc -l <<< "$anchors")" -ge 9 ]
    while read -r anchor; do
        grep -qF "id=\"$anchor\"" "$1/struct.P.html" || { printf 'nothing has the id %s\n' "$anchor"; return 1; }
    done <<< "$anchors"
}

# As users build the crates. `tests/features.rs` of pheap checks that this is the build.
step_tests_as_shipped() {
    rm -f "$LOGS/tests_as_shipped.log"
    PHEAP_BUILD=shipped cargo test --locked 2>&1 | tee "$LOGS/tests_as_shipped.log"
}

# The crash lab, and the tests that its simulator and its features add to pheap: `tests_as_shipped` runs the
# other tests as users build the crates. (The name of a test stands for the tests of this name in all
# packages, so the lab's tests have names that no other package uses.) The lab runs a lot of code, so it is
# optimised.
LAB=(--config profile.dev.opt-level=1 -p pheap -p pheap-crash --all-features --lib --bins --test features --test names
    --test changed_types --test contention --test lab --test moved_heaps --test mutants --test nested --test recent --test schedules)

step_tests() {
    rm -f "$LOGS/tests.log"
    PHEAP_BUILD=lab cargo test --locked "${LAB[@]}" 2>&1 | tee "$LOGS/tests.log"
}

# The models of locks, group commit, held pointers and others, in all orders of their threads with few
# interruptions.
step_models() {
    RUSTFLAGS="--cfg pheap_loom" cargo test --config profile.dev.opt-level=1 -p pheap --lib --target-dir "${CARGO_TARGET_DIR:-target}/models" -- model:: --nocapture
}

# Prints the results of the tests again, and their sums.
test_results() {
    local step log
    for step in tests_as_shipped tests; do
        log="$LOGS/$step.log"
        [[ " ${STEPS[*]} " == *" $step "* && -s "$log" ]] || continue
        printf '\n==== results of %s\n' "$step"
        grep -E '^(test result: | +Running | +Doc-tests |error)|\.\.\. FAILED|panicked at' "$log" || true
        awk '/^test result: / { passed += $4; failed += $6; ignored += $8 }
             END { printf "tests: %d passed, %d failed, %d ignored\n", passed, failed, ignored }' "$log"
    done
}

# The examples: a list, a bank that is killed and counted, a queue and a graph that are killed, a key-value
# store, an index that is killed and goes on, and a heap that is killed while its objects are replaced. They
# are built as `tests_as_shipped` builds them.
step_examples() {
    local examples="$TARGET/debug/examples" heap="$LOGS/index.pheap" status=0
    local index=("$examples/index") kv=("$examples/kv" --heap "$LOGS/kv.pheap") cli="$TARGET/debug/pheap"
    cargo build --locked --examples --bins
    "$examples/list"
    "$examples/bank" --rounds 3
    "$examples/queue" --rounds 3
    "$examples/graph" --edges 100000 --rounds 3
    rm -f "$LOGS/kv.pheap"
    printf '{"apple": "red", "pear": "green"}' | "${kv[@]}" import -
    "${kv[@]}" set apple yellow
    "${kv[@]}" export | grep '"apple": "yellow"'
    rm -f "$LOGS/kv.pheap"
    rm -f "$heap"
    "${index[@]}" --heap "$heap" --kill-after-words 5000 || status=$?
    if [ "$status" -ne 137 ]; then
        printf 'expected SIGKILL (status 137), not status %d\n' "$status"
        return 1
    fi
    printf 'killed, as it should be; going on:\n'
    "${index[@]}" --heap "$heap"
    "${index[@]}" --heap "$heap" --query heap | tee "$LOGS/query.log"
    grep -q heap "$LOGS/query.log"
    "$cli" check "$heap"
    "$cli" dump "$heap" index --depth 2 --items 2 --compact > "$LOGS/dump.jsonl"
    check_json_lines "$LOGS/dump.jsonl"
    rm -f "$heap"
    # It is also killed before the free memory is known again. The file must not grow with each life.
    "$examples/churn" --replacements 200000 --live-mib 8 --limit 8 --kill-every 4000
}

# Runs each of these benchmarks for a short time, to see that it works. The numbers that it measures here say
# nothing.
step_bench_smoke() {
    if ! [ -e /usr/include/libpmemobj.h ] && ! install_packages gcc libpmemobj-dev libpmem-dev; then
        note "PMDK was left out of the benchmarks: it needs Debian's packages libpmemobj-dev libpmem-dev"
    fi
    bench_smoke paper --once
    "$TARGET/debug/pheap-report" --from "$LOGS/paper.jsonl" --out "$LOGS/report"
    test -s "$LOGS/report/README.md" && ls "$LOGS/report"/*.svg
    bench_smoke collections --quick --n 1000
    bench_smoke wal --quick
    bench_smoke threads --quick --only writer_and_reader,update_wal,reads_beside_sync --threads 1,2
    bench_smoke stores --quick --only update8_sync --threads 1 --systems pheap,floor
    bench_smoke kv --quick --only overwrite,readwhilewriting --systems pheap-kv --values 100 --threads 1
    # Runs each case once: the benchmarks must run.
    cargo bench --locked --profile dev --bench binary_tree --bench sps --bench nbody -- --test
}

bench_smoke() { # BENCH ARGUMENTS
    local bench=$1
    shift
    cargo bench --locked --profile dev --bench "$bench" -- "$@" | tee "$LOGS/$bench.jsonl"
    check_json_lines "$LOGS/$bench.jsonl"
}

# Fails if a row of `paper` takes over 3 % more instructions than benches/instructions.txt says.
step_instructions() {
    if ! command -v valgrind > /dev/null && ! install_packages valgrind; then
        note "instructions was skipped: it needs Debian's package valgrind"
        return
    fi
    local paper
    paper=$(cargo bench --locked --no-run --bench paper --message-format json |
        sed -n 's/.*"name":"paper".*"executable":"\([^"]*\)".*/\1/p')
    ci/instructions.py "$paper"
}

# Fails unless the file has lines, and each line is a JSON object. (Without python3 and jq, checks the braces
# only.)
check_json_lines() {
    test -s "$1"
    if command -v python3 > /dev/null; then
        python3 -c '
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert rows and all(isinstance(row, dict) for row in rows)
print(len(rows), "lines of JSON")' "$1"
    elif command -v jq > /dev/null; then
        jq -es 'length > 0 and all(type == "object")' "$1"
    else
        if grep -vE '^\{".*\}$' "$1"; then return 1; fi
    fi
}

# Crashes on the simulated medium, of one thread and of two. The last line of each output is JSON. The step
# fails if a crash left a wrong heap.
step_crashes() {
    # As `step_tests` builds it: otherwise features of dependencies may differ, and much is built once more.
    cargo build --locked "${LAB[@]}"
    "$TARGET/debug/pheap-crash" --images 60000 | tee "$LOGS/crashes.log"
    tail -n 1 "$LOGS/crashes.log" > "$LOGS/crashes.json"
    check_json_lines "$LOGS/crashes.json"
    "$TARGET/debug/pheap-crash" threads --quick | tee "$LOGS/threads.log"
    tail -n 1 "$LOGS/threads.log" > "$LOGS/threads.json"
    check_json_lines "$LOGS/threads.json"
}

# The fuzz targets of the engine: their seeds and some inputs after them, from a fixed seed, so that runs can
# be compared; without a sanitizer, to save time. The targets of the server, and more inputs, run each night.
# A longer run with a random seed: cargo +nightly fuzz run TARGET -- -max_total_time=3600
step_fuzz() {
    has_fuzzer || return 0
    (
        export FUZZ_SANITIZER=none
        build_fuzz
        # `crash` takes long, so it runs beside the others.
        fuzz crash 500 > "$LOGS/fuzz-crash.log" 2>&1 &
        crash=$! status=0
        fuzz model 1000
        fuzz collections 800
        fuzz open 1000
        wait "$crash" || status=$?
        cat "$LOGS/fuzz-crash.log"
        exit "$status"
    )
}

has_fuzzer() {
    if ! has_nightly || ! command -v c++ > /dev/null; then
        note "$current was skipped: it needs a nightly toolchain and a C++ compiler"
        return 1
    fi
}

# Builds the fuzz targets. Call it in a subshell: the exported variables must also hold for the runs after it,
# and for nothing else. It optimises only a little, to save time. Fields in random order find code that relies
# on the layout of `repr(Rust)` types.
build_fuzz() {
    export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 RUSTFLAGS="-Zrandomize-layout"
    cargo +nightly fuzz build --sanitizer "${FUZZ_SANITIZER:-address}" "$@"
}

# Runs a target with its seeds, if it has any, and this number of inputs (or $FUZZ_RUNS). Inputs that earlier
# runs have found are left out.
fuzz() {
    local target="$1" runs="${FUZZ_RUNS:-$2}" seeds
    shift 2
    seeds="$(mktemp -d)"
    find fuzz/corpus -path "*/$target/seed-*" -exec cp -t "$seeds" {} +
    cargo +nightly fuzz run --sanitizer "${FUZZ_SANITIZER:-address}" --features "${FUZZ_FEATURES:-}" "$target" "$seeds" -- \
        -seed=1 -runs="$runs" -timeout=30 -len_control=0 -max_len=1000 -verbosity=0 -print_final_stats=1 "$@"
    rm -rf "$seeds"
}

# Redis' own tests of some units against pheap-redis. All units run each night.
step_redis_suite() {
    redis_suite core
}

step_redis_suite_all() {
    redis_suite all
}

redis_suite() {
    local status=0
    PHEAP_REDIS="$TARGET/debug/pheap-redis" ci/redis-suite.sh "$1" || status=$?
    if [ "$status" -eq 77 ]; then
        note "redis_suite was skipped: it needs Debian's packages tcl, redis-tools and the source package redis, version 7.0.15"
    elif [ "$status" -ne 0 ]; then
        return "$status"
    fi
}

# The test suites of Redis clients, on pheap-redis and on redis-server.
step_client_suites() {
    local status=0
    cargo build --locked -p pheap-redis
    PHEAP_REDIS="$TARGET/debug/pheap-redis" ci/client-suites.sh || status=$?
    if [ "$status" -eq 77 ]; then
        note "client_suites was skipped: it needs python3 or go, redis-server, and PyPI or a Go module proxy"
    elif [ "$status" -ne 0 ]; then
        return "$status"
    fi
}

# Sets up the virtual machine of power failures. If that fails, notes that the step is skipped.
has_virtual_machine() {
    local tools=(qemu-system-x86 gcc libc6-dev e2fsprogs python3)
    if ! { command -v qemu-system-x86_64 && command -v python3; } > /dev/null && ! install_packages "${tools[@]}"; then
        note "$current was skipped: it needs Debian's packages ${tools[*]}"
        return 1
    fi
    if ! ci/dax-vm/dax-vm setup; then
        note "$current was skipped: the virtual machine could not be set up"
        return 1
    fi
}

# A few power failures of a virtual machine. `ci/power-cut.sh --rounds 100` runs more, and `--self-test` makes
# mistakes that must be noticed.
step_power_cut() {
    has_virtual_machine || return 0
    local device status
    # As `tests_as_shipped` builds them.
    cargo build --locked --examples --bins
    for device in dax disk; do
        status=0
        PHEAP_POWER="$TARGET/debug/pheap-power" ci/power-cut.sh --$device --rounds 2 --seed 1 || status=$?
        if [ "$status" -eq 2 ]; then
            note "power_cut ($device) was given up: the virtual machine did not work"
        elif [ "$status" -ne 0 ]; then
            return "$status"
        fi
    done
}

# The rest is for .ci/nightly.

# Checks the crates with the oldest Rust that they promise to support.
step_oldest_rust() {
    local oldest
    oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1.0/p' Cargo.toml)
    if ! cargo "+$oldest" --version 2> /dev/null && ! rustup toolchain install "$oldest" --profile minimal; then
        note "oldest_rust was skipped: no toolchain $oldest"
        return
    fi
    CARGO_TARGET_DIR="$TARGET/oldest-rust" cargo "+$oldest" check --locked -p pheap -p pheap-cli -p pheap-kv -p pheap-redis --features pheap/serde,pheap/uuid,pheap/ordered-float,pheap/metrics
    CARGO_TARGET_DIR="$TARGET/oldest-rust" cargo "+$oldest" check --locked -p pheap-examples -p pheap-tpcc --bins --examples
}

# All tests of the usual build. Those that take fewer rounds for each change, or try a part only, do more here.
step_thorough() {
    PHEAP_THOROUGH=1 PHEAP_BUILD=shipped cargo test --locked
}

# Tests of the feature `tls` of the server.
step_tls() {
    cargo test --locked -p pheap-redis --features tls --lib --test tls
}

step_package_and_build() {
    package
}

# Checks the messages of the compiler without the feature `serde`.
step_messages_without_serde() {
    cargo test --locked -p pheap --test ui -- what_must_not_compile trybuild=without_serde
}

# Finds code that relies on the layout of `repr(Rust)` types.
step_random_layout() {
    if ! has_nightly; then
        note "random_layout was skipped: no nightly toolchain"
        return
    fi
    (
        export CARGO_TARGET_DIR="$TARGET/random-layout" RUSTFLAGS="-Zrandomize-layout"
        cargo +nightly test --locked -p pheap --lib --test macros --test collections --test migrate
        cargo +nightly test --locked -p pheap --test heaps --test transactions -- collect:: model:: write_set:: padding::
    )
}

# Runs the tests of pheap and pheap-gc under a sanitizer.
sanitizer() {
    if ! has_nightly; then
        note "the $1 sanitizer was skipped: no nightly toolchain"
        return
    fi
    # The thread sanitizer instruments the standard library, too.
    [ "$1" != thread ] || rustup component add rust-src --toolchain nightly
    ci/sanitizers.sh "$1" 2>&1 | tee "$LOGS/$1-sanitizer.log"
}

# All tests that ci/sanitizers.sh does not leave out. The sanitizer looks for leaks, too.
step_address_sanitizer() {
    sanitizer address
}

# All tests that ci/sanitizers.sh does not leave out.
step_thread_sanitizer() {
    sanitizer thread
}

# The mutants that leave a lock out: two threads would meet at each lock that the programs reach.
step_all_locks() {
    PHEAP_ALL_LOCKS=1 cargo test --locked -p pheap-crash --test contention -- --nocapture
}

# The models, with one interruption more than for each change.
step_more_models() {
    PHEAP_MODEL_PREEMPTIONS=1 step_models
}

# Leaves out or delays each flush, fence, log entry, write, sync, checksum test and lock, one at a time. Some
# program must fail, or the source must argue that this is harmless.
step_mutants() {
    cargo run --locked --release -p pheap-crash -- mutate --jobs 2 | tee "$LOGS/mutants.log"
}

# Two threads, with up to 20,000 schedules of each program, and protections left out one at a time.
step_more_threads() {
    cargo run --locked --release -p pheap-crash -- threads | tee "$LOGS/more-threads.log"
    tail -n 1 "$LOGS/more-threads.log" > "$LOGS/more-threads.json"
    check_json_lines "$LOGS/more-threads.json"
    cargo run --locked --release -p pheap-crash -- threads --barriers | tee "$LOGS/barriers.log"
}

# Compares the answers of pheap-redis and of Redis to random commands.
step_differential() {
    local seed
    for seed in 1 2 3; do
        PHEAP_DIFFERENTIAL=100000 PHEAP_DIFFERENTIAL_SEED=$seed cargo test --locked -p pheap-redis --test differential -- --nocapture
    done
}

# Power failures of a virtual machine in which pheap-redis runs.
step_power_cut_server() {
    has_virtual_machine || return 0
    ci/power-cut.sh --server --self-test
    ci/power-cut.sh --server --rounds 30
}

# Full disks with each kind of file system, and some tests of files on them.
step_file_systems() {
    if [ "$(id -u)" -ne 0 ] || ! modprobe loop 2> /dev/null && [ ! -e /dev/loop-control ]; then
        note 'file_systems was skipped: it needs root, and loop devices'
        return 0
    fi
    command -v mkfs.xfs > /dev/null && command -v mkfs.btrfs > /dev/null || install_packages xfsprogs btrfs-progs
    ci/file-systems.sh backup wal follow
}

# A heap in a control group with little memory, whose program is killed again and again.
step_memory_group() {
    if [ "$(id -u)" -ne 0 ] || [ ! -w /sys/fs/cgroup ]; then
        note 'memory_group was skipped: it needs root, and control groups'
        return 0
    fi
    ci/memory-group.sh
}

# The fuzz targets of the engine under the address sanitizer, five minutes each.
step_more_fuzz() {
    has_fuzzer || return 0
    local target
    (
        export FUZZ_RUNS=-1
        build_fuzz
        for target in crash model collections open; do fuzz "$target" any -max_total_time=300; done
    )
}

# The fuzz targets of the server: requests, files and commands for ten minutes each, and scripts for half an
# hour.
step_fuzz_redis() {
    has_fuzzer || return 0
    (
        # Lua's C code is instrumented, too.
        export FUZZ_RUNS=-1 FUZZ_FEATURES=redis CFLAGS_x86_64_unknown_linux_gnu=-fsanitize=address
        build_fuzz --features redis
        fuzz redis_request any -max_total_time=600
        fuzz redis_rdb any -max_total_time=600 -malloc_limit_mb=64
        fuzz redis_commands any -max_total_time=600
        fuzz redis_scripts any -max_total_time=1800 -timeout=600 -rss_limit_mb=4096
    )
}

# TPC-C: its tests, which compare with SQLite, and runs that are killed a hundred times, with `pmem` and with
# `wal`.
step_tpcc() {
    local heap="$LOGS/tpcc.pheap" tpcc="$TARGET/release/tpcc" flags
    cargo test --locked -p pheap-tpcc --features sqlite
    cargo build --locked --release -p pheap-tpcc
    for flags in "--durability pmem" "--durability wal" "--durability wal --outstanding 1000"; do
        rm -f "$heap"*
        "$tpcc" load --path "$heap" --warehouses 2 --items 10000 --customers 300
        # shellcheck disable=SC2086 # several words
        "$tpcc" run $flags --path "$heap" --threads 2 --kills 100
    done
    rm -f "$heap"*
}

step_more_crashes() {
    cargo run --locked --release -p pheap-crash -- --quick | tee "$LOGS/more-crashes.log"
    tail -n 1 "$LOGS/more-crashes.log" > "$LOGS/more-crashes.json"
    check_json_lines "$LOGS/more-crashes.json"
}
