#!/usr/bin/env bash
# Runs Redis' own tests, of version 7.0.15, against pheap-redis, which does not know that it is tested.
#
#   ci/redis-suite.sh core         the units that each change must pass; this is the default
#   ci/redis-suite.sh all          all units that can run against a server that the tests have not started
#   ci/redis-suite.sh unit/sort …  these units
#
# redis-suite.skip lists the tests that are skipped, with reasons; the flags leave out slow tests, and those
# that need debugging commands or replicas. Needs Debian's packages tcl and redis-tools, which it installs
# where that is possible, and the source package redis, which it fetches. Exit status 77: one of these is
# missing. The binary is $PHEAP_REDIS, or built here.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
folder=${SUITE_DIR:-${CARGO_TARGET_DIR:-$root/target}/redis-suite}
mkdir -p "$folder"

CORE=(unit/keyspace unit/expire unit/multi unit/protocol unit/pubsub unit/tracking unit/introspection unit/quit unit/type/string unit/type/incr unit/type/set unit/type/hash
    unit/type/zset unit/type/stream unit/type/stream-cgroups unit/sort unit/scripting unit/functions)

install() {
    local sudo=()
    [ "$(id -u)" -eq 0 ] || sudo=(sudo -n)
    "${sudo[@]}" apt-get update -qq
    "${sudo[@]}" apt-get install -y -qq --no-install-recommends "$@"
}

# Exit status 77: the packages cannot be installed here.
command -v tclsh > /dev/null && command -v redis-cli > /dev/null || install tcl redis-tools redis-server || exit 77

suite="$folder/redis-7.0.15"
if ! [ -d "$suite" ]; then
    (
        cd "$folder"
        if ! [ -e redis_7.0.15.orig.tar.gz ]; then
            # With a separate list and folder: the machine's list may name the same place in another way,
            # which apt refuses.
            apt=$(mktemp -d)
            trap 'rm -rf "$apt"' EXIT
            mkdir -p "$apt/lists/partial"
            keys=/usr/share/keyrings/debian-archive-keyring.gpg
            signed=
            [ ! -e "$keys" ] || signed="[signed-by=$keys] "
            printf "deb-src ${signed}http://deb.debian.org/debian%s main\n" ' bookworm' '-security bookworm-security' > "$apt/list"
            options=(-qq -o "Dir::Etc::SourceList=$apt/list" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$apt/lists")
            apt-get "${options[@]}" update
            apt-get "${options[@]}" source --download-only redis=5:7.0.15-1~deb12u10 || apt-get "${options[@]}" source --download-only redis
        fi
        tar xzf redis_7.0.15.orig.tar.gz
    ) || exit 77
    for program in redis-server redis-cli redis-benchmark redis-check-aof redis-check-rdb redis-sentinel; do
        [ -e "$suite/src/$program" ] || ln -s "$(command -v "$program" || command -v true)" "$suite/src/$program"
    done
fi

case "${1:-core}" in
    core) units=("${CORE[@]}") ;;
    all) units=() ;;
    *) units=("$@") ;;
esac
single=()
for unit in ${units[@]+"${units[@]}"}; do single+=(--single "$unit"); done

server=${PHEAP_REDIS:-}
if [ -z "$server" ]; then
    cargo build --locked -p pheap-redis
    server="${CARGO_TARGET_DIR:-$root/target}/debug/pheap-redis"
fi
heap=$(mktemp -d "${TMPDIR:-/tmp}/redis-suite.XXXXXX")
port=${PORT:-$((20000 + $$ % 10000))}
"$server" --heap "$heap/heap" --durability process --port "$port" --set "dir $heap" > "$folder/server.log" 2>&1 &
pid=$!
trap 'kill -9 "$pid" 2> /dev/null || true; rm -rf "$heap"' EXIT
for _ in $(seq 100); do
    redis-cli -p "$port" ping > /dev/null 2>&1 && break
    sleep 0.1
done

# The names of the tests to skip, without the reasons behind them.
sed -e '/^#/d' -e 's/\t.*//' -e '/^$/d' ci/redis-suite.skip > "$folder/skip"
log="$folder/log"
status=0
(
    cd "$suite"
    timeout "${LIMIT:-1200}" tclsh tests/test_helper.tcl --host 127.0.0.1 --port "$port" --clients 1 --durable --baseport $((port + 1)) \
        --tags "-slow -needs:debug -needs:repl" --ignore-encoding --ignore-digest --skipfile "$folder/skip" ${single[@]+"${single[@]}"} 2>&1
) | sed -u 's/\x1b\[[0-9;]*m//g' > "$log" || status=$?

count() { grep -c "^\[$1\]" "$log" || true; }
grep -A2 -E '^\[(err|exception|timeout)\]' "$log" | cut -c1-300 || true
printf '{"ok":%d,"err":%d,"exception":%d,"timeout":%d,"skipped":%d,"ignored":%d}\n' \
    "$(count ok)" "$(count err)" "$(count exception)" "$(count timeout)" "$(count skip)" "$(count ignore)"
if ! kill -0 "$pid" 2> /dev/null; then
    printf 'the server has ended:\n'
    tail -n 20 "$folder/server.log"
    exit 1
fi
if ! grep -q 'All tests passed without errors' "$log" || grep -qE '^\[(err|exception|timeout)\]' "$log"; then
    tail -n 5 "$log"
    printf 'FAILED (exit status %d); the log is %s\n' "$status" "$log"
    exit 1
fi
