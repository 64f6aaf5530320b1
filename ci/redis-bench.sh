#!/bin/bash
# Compares pheap-redis with redis-server, both on this machine and in turns: processor time of the server for
# each request, by command and pipeline. Prints medians of ROUNDS rounds (default 5). Needs Debian's packages
# redis-server and redis-tools.
#
#   PHEAP_REDIS=target/release/pheap-redis ci/redis-bench.sh [--shards 1 ...]   options of pheap-redis
#   ONLY='SET 16' …                                              only lanes whose name contains this text
set -euo pipefail
cd "$(dirname "$0")/.."

server=${PHEAP_REDIS:-target/release/pheap-redis}
rounds=${ROUNDS:-5}
folder=$(mktemp -d -p /dev/shm)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$folder"' EXIT

"$server" --heap "$folder/heap" --durability pmem --port 7971 "$@" >"$folder/pheap.log" &
pheap=$!
redis-server --port 7972 --save '' --appendonly no --dir "$folder" >"$folder/redis.log" &
redis=$!
for port in 7971 7972; do
    until redis-cli -p $port ping >/dev/null 2>&1; do sleep 0.1; done
    redis-cli -p $port rpush l100 $(printf 'x%.0s ' {1..100}) >/dev/null
    redis-benchmark -p $port -c 12 -P 16 -n 300000 -r 100000 -q set key:__rand_int__ xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx >/dev/null
done

# Clock ticks of processor time that a process has used: hundredths of a second.
used() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

# Microseconds of processor time of the server for each request.
lane() { # PID PORT PIPELINE REQUESTS COMMAND…
    local pid=$1 port=$2 pipeline=$3 requests=$4 before
    shift 4
    before=$(used "$pid")
    redis-benchmark -p "$port" -c 12 -P "$pipeline" -n "$requests" -r 100000 -q "$@" >/dev/null
    awk -v ticks=$(($(used "$pid") - before)) -v requests="$requests" 'BEGIN { printf "%.2f\n", ticks * 10000 / requests }'
}

median() { sort -n | awk '{ line[NR] = $1 } END { print line[int((NR + 1) / 2)] }'; }

value=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
echo '| command | pipeline | pheap-redis, µs | redis-server, µs | ratio |'
echo '|---|---|---|---|---|'
while read -r pipeline requests command; do
    name="${command%% *} $pipeline"
    [[ ${name^^} == *${ONLY:-}* ]] || continue
    : >"$folder/a"
    : >"$folder/b"
    for _ in $(seq "$rounds"); do
        lane $pheap 7971 "$pipeline" "$requests" $command >>"$folder/a"
        lane $redis 7972 "$pipeline" "$requests" $command >>"$folder/b"
    done
    a=$(median <"$folder/a") b=$(median <"$folder/b")
    awk -v name="${command%% *}" -v p="$pipeline" -v a="$a" -v b="$b" \
        'BEGIN { printf "| `%s` | %s | %s | %s | %.2f |\n", toupper(name), p, a, b, a / b }'
done <<END
1 100000 set key:__rand_int__ $value
1 100000 get key:__rand_int__
16 500000 set key:__rand_int__ $value
16 500000 get key:__rand_int__
16 300000 lpush list:__rand_int__ $value
16 300000 hset hash field:__rand_int__ $value
16 300000 zadd sorted __rand_int__ member:__rand_int__
16 100000 lrange l100 0 99
END
