# Sourced by the programs: helpers for both.

host=${REDLOCK_ADDRESS%:*} port=${REDLOCK_ADDRESS##*:}
patience_s=60
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
behind=()

# check NAME FUNCTION: runs the function as one check. If it fails, the program ends with a sentence
# that names it.
check() {
    # Not in a condition, where the shell would continue after a failure.
    (set -e; trap end_behind EXIT; "$2" 2>&1) >"$directory/said" &
    if ! wait $!; then
        cat "$directory/said" >&2
        fail "the check $1 failed: $(tail -n 1 "$directory/said")"
    fi
    printf '%s\tpassed\n' "$1"
}

# has NAME FUNCTION: reports a feature that not every server with this protocol has.
has() {
    if (set +e; "$2") >"$directory/said" 2>&1; then
        printf '%s\tpassed\n' "$1"
    else
        printf '%s\tnone\n' "$1"
    fi
}

# same EXPECTED ACTUAL WHAT
same() {
    [ "$1" = "$2" ] || fail "$3 should be ${1@Q}, not ${2@Q}"
}

# contains TEXT PART WHAT
contains() {
    [[ $1 == *"$2"* ]] || fail "$3 should have ${2@Q} in it: $1"
}

eventually() {
    local limit=$((SECONDS + patience_s))
    until "${@:2}"; do
        [ "$SECONDS" -lt "$limit" ] || fail "gave up waiting until $1"
        sleep 0.05
    done
}

cli() {
    redis-cli -h "$host" -p "$port" "$@"
}

# behind FILE WORD...: runs a redis-cli in the background until the check ends, with its output in a
# file.
behind() {
    redis-cli -h "$host" -p "$port" "${@:2}" >"$1" &
    behind+=($!)
}

end_behind() {
    [ ${#behind[@]} -eq 0 ] || kill "${behind[@]}" 2>/dev/null || true
}

# On one line.
fail() {
    echo "${*//$'\n'/ }" >&2
    exit 1
}
