# Sourced by the `run` of a language whose applications come as Debian packages. That file sets
# `here`, and defines `run_program ID PROGRAM`.

main() {
    case ${1:-} in
        list) applications | cut -f 1-5 ;;
        check) check "${2:-}" ;;
        *) fail "usage: $0 list | check ID" ;;
    esac
}

check() {
    local versions program
    : "${REDLOCK_ADDRESS:?host:port of what to test}"
    program=$(column_of "$1" 6)
    [ -n "$program" ] || fail "no application is called $1: see $0 list"
    xargs dpkg-query --show <"$here/debian-packages" >/dev/null || fail "install the Debian packages named in $here/debian-packages"
    IFS=, read -r -a versions < <(column_of "$1" 3)
    compare_versions "${versions[@]}"
    run_program "$1" "$program"
}

compare_versions() {
    local each package version installed
    for each in "$@"; do
        read -r package version <<<"$each"
        installed=$(dpkg-query --show --showformat '${Version}' "$package")
        # Without Debian's epoch and revision.
        installed=${installed#*:}
        [[ $installed =~ ^"$version"([-+~]|$) ]] || fail "the table says $package $version, and $installed is installed"
    done
}

column_of() {
    applications | awk -F '\t' -v id="$1" -v column="$2" '$1 == id { print $column }'
}

applications() {
    grep -v '^#' "$here/applications.tsv"
}

fail() {
    echo "$*" >&2
    exit 1
}
