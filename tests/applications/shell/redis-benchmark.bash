#!/usr/bin/env bash
# redis-benchmark: its own tests, one after the other and pipelined, and custom commands.
set -euo pipefail

main() {
    check 'default tests' run_the_default_tests
    check 'pipelines' run_in_pipelines
    check 'some tests' run_some_tests
    check 'random keys' use_random_keys
    check 'threads' use_threads
    check 'inline and large values' use_large_values
    check 'locks' take_locks
}

run_the_default_tests() {
    benchmark -n 2000 -c 20
    same 20 "$(tests)" 'the number of tests'
}

run_in_pipelines() {
    benchmark -n 20000 -c 20 -P 16
    same 20 "$(tests)" 'the number of tests'
}

run_some_tests() {
    benchmark -n 2000 -t set,get,incr,lpush,rpop,hset,mset
    same 7 "$(tests)" 'the number of tests'
}

use_random_keys() {
    cli FLUSHDB >/dev/null
    benchmark -n 5000 -t set -r 1000000
    # Almost all of them are different.
    [ "$(cli DBSIZE)" -gt 4900 ] || fail "$(cli DBSIZE) keys are too few"
}

use_threads() {
    benchmark -n 5000 -t set,get --threads 2
    same 2 "$(tests)" 'the number of tests'
}

use_large_values() {
    benchmark -n 200 -c 5 -d 100000 -t set,get
    same 2 "$(tests)" 'the number of tests'
    same 100000 "$(cli STRLEN key:__rand_int__)" 'the length of a value'
}

# Held at the end.
take_locks() {
    benchmark -n 500 -c 20 -r 1000000 SET lock:__rand_int__ me NX EX 600
    same 1 "$(tests)" 'the number of tests'
}

# Each test ends with a line that contains a rate. Errors are printed, and do not end the test.
benchmark() {
    redis-benchmark -h "$host" -p "$port" -q "$@" 2>&1 | tr '\r' '\n' >"$directory/rates"
    ! grep --ignore-case error "$directory/rates" || fail "there were errors: $(cat "$directory/rates")"
}

tests() {
    grep --count ' requests per second' "$directory/rates"
}

# shellcheck source=helpers.bash
. "$(dirname "${BASH_SOURCE[0]}")/helpers.bash"

main
