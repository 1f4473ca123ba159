#!/usr/bin/env bash
# redis-cli: typed commands, on one line or in a session, and the modes that inspect a whole server.
set -euo pipefail

main() {
    check 'one command' say_one_command
    check 'session' hold_a_session
    check 'forms of output' print_in_other_forms
    check 'mass insertion' insert_ten_thousand
    check 'scan' scan_for_keys
    check 'bigkeys' look_for_big_keys
    check 'memkeys' look_for_large_memory
    check 'stat' watch_numbers
    has 'keys in stat' keys_are_counted
    check 'latency' measure_latency
    check 'monitor' watch_commands
    check 'subscribe' listen
    check 'eval' run_a_script
    check 'database' use_another_database
    has 'rdb' copy_the_data
    check 'lock' lock_and_release
    check 'lock held' hold_a_lock
}

say_one_command() {
    same OK "$(cli SET greeting hello)" 'the answer to SET'
    same hello "$(cli GET greeting)" 'a value'
    same '"hello"' "$(cli --no-raw GET greeting)" 'a value as a terminal shows it'
    same '1 2 3' "$(cli -r 3 -i 0.01 INCR counter | paste -sd ' ')" 'a command that is repeated'
    contains "$(cli NOSUCH command)" 'ERR unknown command' 'the answer to nonsense'
}

# With a terminal, redis-cli requests the documentation of all commands, and shows its prompt.
hold_a_session() {
    local said
    said=$(printf '%s\n' 'SET typed 1' MULTI 'INCR typed' 'GET typed' EXEC 'SELECT 3' 'DBSIZE' EXIT |
        TERM=dumb script --quiet --return --command "redis-cli -h $host -p $port" /dev/null | tr -d '\r')
    contains "$said" '(TX)>' 'the prompt'
    contains "$said" '1) (integer) 2' 'the answer to EXEC'
    contains "$said" '[3]>' 'the prompt'
}

print_in_other_forms() {
    cli HSET product name pen price 3 >/dev/null
    same '"name","pen","price","3"' "$(cli --csv HGETALL product)" 'a hash as CSV'
    contains "$(cli -3 --json HGETALL product)" '"name":"pen"' 'a hash as JSON'
    contains "$(cli -3 --no-raw HGETALL product)" '1# "name" => "pen"' 'a hash in RESP3'
}

insert_ten_thousand() {
    local said
    said=$(seq 10000 | awk '{ key = "page:" $1; value = "text " $1
        printf "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", length(key), key, length(value), value }' | cli --pipe)
    contains "$said" 'errors: 0, replies: 10000' 'what is said of the insertion'
    same 'text 9999' "$(cli GET page:9999)" 'one of the values'
}

scan_for_keys() {
    same 10000 "$(cli --scan --pattern 'page:*' | sort -u | wc -l)" 'the keys that are found'
}

look_for_big_keys() {
    local said
    cli RPUSH tasks a b c d e >/dev/null
    said=$(cli --bigkeys -i 0)
    contains "$said" "Biggest   list found '\"tasks\"' has 5 items" 'the summary'
    contains "$said" "Sampled $(cli DBSIZE) keys in the keyspace" 'the summary'
}

look_for_large_memory() {
    contains "$(cli --memkeys -i 0)" 'keys in the keyspace' 'the summary'
}

watch_numbers() {
    behind "$directory/numbers" --stat -i 0.1
    eventually 'three lines are there' lines_are_there "$directory/numbers" 5
    # Clients are in its fourth column, after keys and memory.
    tail -n 1 "$directory/numbers" | awk '$3 < 1 { exit 1 }' || fail "no clients: $(cat "$directory/numbers")"
}

lines_are_there() {
    [ "$(wc -l <"$1")" -ge "$2" ]
}

# The first column of --stat.
keys_are_counted() {
    [ "$(tail -n 1 "$directory/numbers" | awk '{ print $1 }')" -ge 10000 ]
}

# Without a terminal it prints one line: minimum, maximum, average, count.
measure_latency() {
    local said
    said=$(cli --latency -i 0.3 --raw)
    [[ $said =~ ^[0-9]+\ [0-9]+\ [0-9.]+\ [1-9][0-9]*$ ]] || fail "no latency: $said"
}

watch_commands() {
    behind "$directory/watched" MONITOR
    eventually 'the command is seen' is_seen "$directory/watched" '"GET" "greeting"' GET greeting
}

listen() {
    behind "$directory/heard" SUBSCRIBE news
    eventually 'the news are heard' is_seen "$directory/heard" extra PUBLISH news extra
}

# is_seen FILE TEXT COMMAND...: repeats the command until the text is in the file.
is_seen() {
    cli "${@:3}" >/dev/null
    grep --quiet --fixed-strings -- "$2" "$1"
}

run_a_script() {
    # shellcheck disable=SC2016  # it is Lua's
    echo 'return redis.call("SET", KEYS[1], ARGV[1])' >"$directory/script.lua"
    same OK "$(cli --eval "$directory/script.lua" written , by-a-script)" 'the answer of the script'
    same by-a-script "$(cli GET written)" 'what it has written'
}

use_another_database() {
    same OK "$(cli -n 5 SET greeting elsewhere)" 'the answer to SET'
    same 'elsewhere hello' "$(cli -n 5 GET greeting) $(cli GET greeting)" 'the values'
}

# Copies the data like a replica would.
copy_the_data() {
    timeout 20 redis-cli -h "$host" -p "$port" --rdb "$directory/copy.rdb" && [ -s "$directory/copy.rdb" ]
}

lock_and_release() {
    local release='if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end'
    same OK "$(cli SET lock:report ann NX PX 600000)" 'a claim'
    same '' "$(cli SET lock:report bob NX PX 600000)" 'another claim'
    same 0 "$(cli EVAL "$release" 1 lock:report bob)" 'a release by a stranger'
    same 1 "$(cli EVAL "$release" 1 lock:report ann)" 'a release'
    same OK "$(cli SET lock:report bob NX PX 600000)" 'a claim after that'
    same 1 "$(cli DEL lock:report)" 'a deletion'
}

# Runs at the end.
hold_a_lock() {
    same OK "$(cli SET lock:night ann NX EX 600)" 'a claim'
}

# shellcheck source=helpers.bash
. "$(dirname "${BASH_SOURCE[0]}")/helpers.bash"

main
