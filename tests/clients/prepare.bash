# Sourced by the `run` of a language.

# prepare DIRECTORY PINS COMMAND...: runs COMMAND... DIRECTORY PINS unless that has succeeded for
# exactly these pins. Clients run side by side, so one installs and the others wait for it.
prepare() {
    local directory=$1 pins=$2
    mkdir -p "$(dirname "$directory")"
    exec 9>"$directory.lock"
    flock 9
    if ! cmp --silent "$pins" "$directory/installed"; then
        rm -rf "$directory"
        "${@:3}" "$directory" "$pins" >&2
        cp "$pins" "$directory/installed"
    fi
    exec 9>&-
}

# need PROGRAM WHERE-IT-COMES-FROM
need() {
    command -v "$1" >/dev/null || fail "$1 is missing: install $2"
}

fail() {
    echo "$*" >&2
    exit 1
}
