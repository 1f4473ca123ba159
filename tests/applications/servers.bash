# Sourced by `against-a-proxy` and `against-one-redis`: starts servers on free ports, and ends the
# application with them.

declare -A port=()
application=

# begin LANGUAGE ID PROGRAM...: stores the line of `list` in `row`.
begin() {
    local program
    for program in redis-server redis-cli "${@:3}"; do
        command -v "$program" >/dev/null || fail "$program is missing"
    done
    row=$("$here/run" "$1" list | awk -F '\t' -v id="$2" '$1 == id')
    [ -n "$row" ] || fail "no application is called $2: see $here/run $1 list"
    directory=$(mktemp -d)
    trap end_all EXIT
    trap 'exit 1' INT TERM
}

# start_side_by_side NAME...: starts several redis-servers.
start_side_by_side() {
    local name
    local -A process=()
    for name in "$@"; do
        choose_port "$name"
        start_redis "$name"
        process[$name]=$!
    done
    for name in "$@"; do
        wait_for_answer "$name" "${process[$name]}" || start_on_a_free_port "$name" start_redis
    done
}

# start_on_a_free_port NAME COMMAND...: tries another port if a different program takes the chosen
# one in between.
start_on_a_free_port() {
    local name=$1
    for _ in 1 2 3 4 5; do
        choose_port "$name"
        "${@:2}" "$name"
        wait_for_answer "$name" $! && return
    done
    cat "$directory/$name.log" >&2
    fail "$name does not start"
}

choose_port() {
    port[$1]=$((20000 + (RANDOM << 15 | RANDOM) % 12000))
}

start_redis() {
    mkdir -p "$directory/$1"
    redis-server --bind 127.0.0.1 --port "${port[$1]}" --dir "$directory/$1" --save '' --appendonly no >"$directory/$1.log" 2>&1 &
}

# wait_for_answer NAME PROCESS: fails if the process ends, even if another one answers in its place.
wait_for_answer() {
    local answer
    for _ in {1..100}; do
        answer=$(ask "$1" PING 2>/dev/null) || true
        sleep 0.1
        kill -0 "$2" 2>/dev/null || return 1
        [ "$answer" != PONG ] || return 0
    done
    return 1
}

# run_check SERVER LANGUAGE ID: runs in its own process group, to end the workers that the
# application has started as well.
run_check() {
    set -m
    REDLOCK_ADDRESS=127.0.0.1:${port[$1]} "$here/run" "$2" check "$3" </dev/null &
    application=$!
    set +m
    wait "$application"
}

ask() {
    redis-cli -h 127.0.0.1 -p "${port[$1]}" "${@:2}"
}

end_all() {
    local running
    [ -z "$application" ] || kill -KILL -- "-$application" 2>/dev/null || true
    mapfile -t running < <(jobs -pr)
    [ ${#running[@]} -eq 0 ] || kill "${running[@]}" 2>/dev/null || true
    wait
    rm -rf "$directory"
}

fail() {
    echo "$*" >&2
    exit 1
}
