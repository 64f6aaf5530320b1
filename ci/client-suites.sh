#!/usr/bin/env bash
# Runs the test suites of Redis clients against redis-server and against pheap-redis, and names the tests
# that pass on redis-server and do not pass on pheap-redis.
#
#   ci/client-suites.sh              every suite
#   ci/client-suites.sh redis-py …   some: redis-py (RESP2), redis-py-3 (RESP3), go-redis, ioredis, bullmq
#
# A test that does not pass on redis-server does not count. The tests that differ run again without the
# others, twice at most; one that passes then does not count. client-suites.skip lists the differences that
# may stay, with reasons. Any other difference, or a suite without a report, makes the exit status 1. Exit
# status 77: no suite could be fetched.
#
# Needs redis-server and redis-cli; python3 (for the comparison and for redis-py), go (go-redis), git, node
# and npm (ioredis, bullmq). The suites come from PyPI, from the Go module proxy and from the Git repositories
# $IOREDIS_SOURCE and $BULLMQ_SOURCE, at the versions below, into $SUITE_DIR (if it is not set, into the
# target directory). ioredis and bullmq connect to port 6379, which must be free. The binary is $PHEAP_REDIS,
# or built here.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
folder=${SUITE_DIR:-${CARGO_TARGET_DIR:-$root/target}/client-suites}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

REDIS_PY=7.1.1
GO_REDIS=v9.17.3
IOREDIS=v6.0.0
BULLMQ=v6.2.0
IOREDIS_SOURCE=${IOREDIS_SOURCE:-https://github.com/redis/ioredis}
BULLMQ_SOURCE=${BULLMQ_SOURCE:-https://github.com/taskforcesh/bullmq}
# The packages that the tests of redis-py need beside it.
PYTHON_PACKAGES=(pytest==8.3.4 pytest-asyncio==1.1.0 pytest-timeout==2.3.1 coverage==7.11.0 mock==5.1.0
    packaging==24.2 numpy==2.4.6 ujson==6.1.0 redis-entraid==1.0.0 pybreaker==1.4.1)

# Seconds that one run of a suite may take.
LIMIT=${LIMIT:-2400}
suites=("$@")
[ $# -gt 0 ] || suites=(redis-py redis-py-3 go-redis ioredis bullmq)

server=${PHEAP_REDIS:-}
if [ -z "$server" ]; then
    cargo build --locked -p pheap-redis
    server="${CARGO_TARGET_DIR:-$root/target}/debug/pheap-redis"
fi

data=$(mktemp -d "${TMPDIR:-/tmp}/client-suites.XXXXXX")
pid=
stop() {
    [ -z "$pid" ] || { kill -9 "$pid" && wait "$pid"; } 2> /dev/null || true
    pid=
}
trap 'stop; rm -rf "$data"' EXIT

# Starts redis-server or pheap-redis with no data: on port 6379 for ioredis and bullmq, else on a port that
# this run has not used before.
port=6379 next_port=${PORT:-$((20000 + $$ % 10000))}
start() {
    local log="$folder/$1.log"
    case "$suite" in
        ioredis | bullmq) port=6379 ;;
        *) port=$((++next_port)) ;;
    esac
    rm -rf "${data:?}"/*
    case "$1" in
        redis-server) exec redis-server --port "$port" --dir "$data" --save '' --enable-debug-command yes ;;
        pheap-redis) exec "$server" --heap "$data/heap" --durability process --port "$port" --set "dir $data" --set 'enable-debug-command yes' ;;
    esac > "$log" 2>&1 &
    pid=$!
    for _ in $(seq 100); do
        [ "$(redis-cli -p "$port" ping 2> /dev/null)" = PONG ] && return
        sleep 0.1
    done
    tail -n 5 "$log"
    return 1
}

# fetch_SUITE puts a suite into $folder. run_SUITE REPORT [NAMES] runs it, or the tests that the file NAMES
# lists, against $port, and writes a report in JUnit's format. It may fail: the report says which tests
# failed.

fetch_redis_py() {
    cd "$folder"
    [ ! -d "redis-$REDIS_PY" ] || return 0
    python3 -m venv venv
    venv/bin/pip install -q "redis==$REDIS_PY" "${PYTHON_PACKAGES[@]}"
    venv/bin/pip download -q --no-deps --no-binary :all: "redis==$REDIS_PY"
    tar xzf "redis-$REDIS_PY.tar.gz"
}

# Leaves out tests that need a cluster, modules, TLS certificates, replicas, sentinels, a fault injector, or
# other services.
run_redis_py_protocol() {
    local protocol=$1 report=$2 tests=(--ignore=tests/test_scenario --ignore=tests/test_sentinel.py
        --ignore=tests/test_asyncio/test_sentinel.py --ignore=tests/test_asyncio/test_scenario)
    [ $# -lt 3 ] || mapfile -t tests < "$3"
    cd "$folder/redis-$REDIS_PY"
    timeout "$LIMIT" "$folder/venv/bin/python" -m pytest -q -p no:cacheprovider -o junit_family=xunit1 \
        --junitxml="$report" --redis-url "redis://localhost:$port/0" --protocol "$protocol" \
        -m 'not onlycluster and not redismod and not ssl and not cp_integration and not replica' "${tests[@]}"
}

run_redis_py() {
    run_redis_py_protocol 2 "$@"
}

fetch_redis_py_3() {
    fetch_redis_py
}

run_redis_py_3() {
    run_redis_py_protocol 3 "$@"
}

# The tests expect a server at port 6379, and more servers for rings, sentinels and a cluster. The copy takes
# the port from the environment, and does not wait for the other servers.
fetch_go_redis() {
    local source="$folder/go-redis-$GO_REDIS" module
    [ ! -x "$source/suite.test" ] || return 0
    module=$(go mod download -json "github.com/redis/go-redis/v9@$GO_REDIS" |
        sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    rm -rf "$source"
    cp -r "$module" "$source"
    chmod -R u+w "$source"
    cd "$source"
    sed -i -e 's/^\tredisStackPort = "6379"/\tredisStackPort = os.Getenv("SUITE_PORT")/' \
        -e 's/^\tif !RECluster {/\tif false {/' main_test.go
    grep -q SUITE_PORT main_test.go
    go test -c -o suite.test .
}

GO_REDIS_SKIPPED='Ring|[Ss]entinel|Failover|ClusterClient|cluster races|UniversalClient|newClusterState'
GO_REDIS_SKIPPED+='|RediSearch|FT\.|JSON Commands|Probabilistic|RedisTimeseries|VectorSet'
run_go_redis() {
    local report=$1 focus=() name
    if [ $# -gt 1 ]; then
        # A focus is matched with a text that begins with the name of the suite, so only its end is anchored.
        while read -r name; do
            focus+=("-ginkgo.focus=$(sed 's/[][\.*^$(){}?+|/]/\\&/g' <<< "$name")\$")
        done < "$2"
    fi
    cd "$folder/go-redis-$GO_REDIS"
    SUITE_PORT=$port REDIS_VERSION=7.0 timeout "$LIMIT" ./suite.test \
        -test.run '^TestGinkgoSuite$' -test.timeout 0 -ginkgo.skip="$GO_REDIS_SKIPPED" \
        -ginkgo.junit-report="$report" ${focus[@]+"${focus[@]}"}
}

fetch_node_suite() { # FOLDER SOURCE VERSION
    [ ! -d "$1/node_modules" ] || return 0
    rm -rf "$1"
    git clone -q --depth 1 --branch "$3" "$2" "$1"
    cd "$1"
    npm install --ignore-scripts --no-audit --no-fund
}

# Prints one pattern that matches the names in the file, and no others.
pattern_of() {
    sed -e 's/[][\.*^$(){}?+|/]/\\&/g' -e 's/.*/^&$/' "$1" | paste -sd '|'
}

fetch_ioredis() {
    fetch_node_suite "$folder/ioredis-$IOREDIS" "$IOREDIS_SOURCE" "$IOREDIS"
}

run_ioredis() {
    local some=()
    [ $# -lt 2 ] || some=(--grep "$(pattern_of "$2")")
    cd "$folder/ioredis-$IOREDIS"
    TS_NODE_TRANSPILE_ONLY=true NODE_ENV=test timeout "$LIMIT" npx mocha --exit --reporter xunit --reporter-option "output=$1" \
        ${some[@]+"${some[@]}"} "test/helpers/*.ts" "test/unit/**/*.ts" "test/functional/**/*.ts"
}

fetch_bullmq() {
    fetch_node_suite "$folder/bullmq-$BULLMQ" "$BULLMQ_SOURCE" "$BULLMQ"
    cd "$folder/bullmq-$BULLMQ"
    npm run clean:scripts
    npm run generate:raw:scripts
    npm run transform:commands
}

run_bullmq() {
    local some=()
    [ $# -lt 2 ] || some=(-t "$(pattern_of "$2")")
    cd "$folder/bullmq-$BULLMQ"
    timeout "$LIMIT" npx vitest run --no-file-parallelism --reporter=junit --outputFile="$1" ${some[@]+"${some[@]}"}
}

# Runs a suite, or some of its tests, against a server.
run_suite() {
    local suite=$1 kind=$2 report=$3
    shift 2
    rm -f "$report"
    start "$kind"
    apart "run_${suite//-/_}" "$@" > "${report%.xml}.log" 2>&1 || true
    if ! kill -0 "$pid" 2> /dev/null; then
        printf '%s has ended:\n' "$kind"
        tail -n 20 "$folder/$kind.log"
    fi
    stop
    [ -s "$report" ] && return
    printf 'no report; the last lines of the log:\n'
    tail -n 20 "${report%.xml}.log"
    return 1
}

# Calls a function in a separate shell, which ends at the first command that fails, also where this is called
# in a condition.
apart() {
    local names=(folder port LIMIT REDIS_PY PYTHON_PACKAGES GO_REDIS GO_REDIS_SKIPPED
        IOREDIS IOREDIS_SOURCE BULLMQ BULLMQ_SOURCE)
    bash -euo pipefail -c "$(declare -f); $(declare -p "${names[@]}"); \"\$@\"" apart "$@"
}

compare() {
    python3 "$root/ci/client-suites.py" "$@"
}

ran=0 failed=()
for suite in "${suites[@]}"; do
    printf '== %s\n' "$suite"
    if ! apart "fetch_${suite//-/_}" > "$folder/$suite.fetch.log" 2>&1; then
        printf 'could not be fetched:\n'
        tail -n 5 "$folder/$suite.fetch.log"
        continue
    fi
    ran=$((ran + 1))
    reports="$folder/$suite"
    mkdir -p "$reports"
    if ! run_suite "$suite" redis-server "$reports/redis-server.xml" \
        || ! run_suite "$suite" pheap-redis "$reports/pheap-redis.xml"; then
        failed+=("$suite")
        continue
    fi
    compared=("$suite" "$reports/redis-server.xml" "$reports/pheap-redis.xml")
    for round in 1 2; do
        compare names "${compared[@]}" > "$reports/differ"
        [ -s "$reports/differ" ] || break
        run_suite "$suite" pheap-redis "$reports/again-$round.xml" "$reports/differ" || break
        compared+=("$reports/again-$round.xml")
    done
    compare report "${compared[@]}" || failed+=("$suite")
done
[ "$ran" -gt 0 ] || exit 77
if [ ${#failed[@]} -gt 0 ]; then
    printf 'FAILED: %s; logs and reports are in %s\n' "${failed[*]}" "$folder"
    exit 1
fi
