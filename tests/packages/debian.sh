# Uses the Debian package as somebody would who installs, configures, upgrades and removes it; for scripts/check-dist.
# shellcheck shell=bash disable=SC2154

# shellcheck source=throwaway.sh
source tests/packages/throwaway.sh

check_debian_package() {
    check "deb: lintian finds no error" lint_deb
    if boot_throwaway "$home/debian"; then
        trap 'throw_away; stop_all' EXIT
        check "deb: it is installed, and starts nothing" install_deb
        check "deb: what it has installed can be used" use_installed
        check "deb: systemd-analyze verifies the unit" verify_installed_unit
        check "deb: without masters the service ends, and says why" start_without_masters
        check "deb: the service takes a lock, as its own user" service_takes_a_lock
        check "deb: an upgrade keeps clients connected, and changed settings" upgrade_deb
        check "deb: a removal keeps the settings" remove_deb
        check "deb: a purge leaves nothing but the user" purge_deb
        throw_away
    else
        skipped=$((skipped + 1))
        echo "skipped  deb: no systemd could be started for it, see $home/debian/log"
    fi
}

# A binary that was built elsewhere may need a library.
lint_deb() {
    lintian --fail-on error,warning --tag-display-limit 0 --allow-root \
        ${DIST_BINARY:+--suppress-tags missing-dependency-on-libc} "$deb"
}

install_deb() {
    files_of_the_name >"$home/before"
    inside sh -c 'cat >/redlock-proxy.deb' <"$deb"
    inside dpkg --install /redlock-proxy.deb
    is disabled "$(service is-enabled)"
    is inactive "$(service is-active)"
    is 'root redlock-proxy 640' "$(inside stat --format '%U %G %a' "$settings")"
    [ "$(inside id --user redlock-proxy)" -lt 1000 ]
    inside dpkg --verify redlock-proxy
}

use_installed() {
    is "redlock-proxy $version" "$(inside redlock-proxy --version)"
    inside redlock-proxy --config "$settings" --master 127.0.0.1:1 --test-config
    inside redlock-proxy "${masters[@]}" check
    local file
    for file in man/man1/redlock-proxy.1.gz bash-completion/completions/redlock-proxy zsh/vendor-completions/_redlock-proxy \
        fish/vendor_completions.d/redlock-proxy.fish doc/redlock-proxy/{README.md,copyright,docs/install.md}; do
        inside test -s "/usr/share/$file" || { echo "no $file"; return 1; }
    done
}

verify_installed_unit() {
    inside systemd-analyze verify redlock-proxy.service 2>&1 | tee "$home/verified"
    not grep redlock-proxy "$home/verified"
}

start_without_masters() {
    not service start
    journal_says 'no masters'
    service stop
}

# A file of the operator's, too, which nobody else may read.
service_takes_a_lock() {
    local port list
    port=$(free_port)
    list=$(printf ', "%s"' "${masters[@]}" | sed 's/, "--master"//g; s/^, //')
    inside sh -c "echo secret >/etc/redlock-proxy/password
        chgrp redlock-proxy /etc/redlock-proxy/password
        chmod 640 /etc/redlock-proxy/password
        cat >>$settings" <<END
masters = [$list]
listen = "127.0.0.1:$port"
requirepass-file = "/etc/redlock-proxy/password"
END
    service enable
    service start || { inside journalctl --unit redlock-proxy --no-pager; return 1; }
    echo "$port" >"$home/service-port"
    REDISCLI_AUTH=secret takes_a_lock "$port"
    is redlock-proxy "$(inside stat --format %U "/proc/$(service_pid)")"
}

# To a package with other settings, of which the operator keeps the old ones.
upgrade_deb() {
    local before client
    before=$(service_pid)
    exec 3<>"/dev/tcp/127.0.0.1/$(cat "$home/service-port")"
    is +OK "$(ask AUTH secret)"
    client=$(ask CLIENT ID)
    inside sh -euc 'dpkg-deb --raw-extract /redlock-proxy.deb /next
        sed -i "s/^Version: .*/&+next/" /next/DEBIAN/control
        echo "# Another comment." >>/next/etc/redlock-proxy/redlock-proxy.toml
        dpkg-deb --build /next /next.deb
        dpkg --install --force-confold /next.deb'
    journal_says 'took over from the previous process'
    for _ in $(seq 300); do
        [ "$(service_pid)" = "$before" ] || break
        sleep 0.1
    done
    not [ "$(service_pid)" = "$before" ]
    is active "$(service is-active)"
    is "$client" "$(ask CLIENT ID)"
    inside grep --quiet "^masters = " "$settings"
    inside test -e "$settings.dpkg-dist"
    is 'root redlock-proxy 640' "$(inside stat --format '%U %G %a' "$settings")"
}

# ask WORD...: on the connection that stays open.
ask() {
    local word answer
    printf '*%d\r\n' $# >&3
    for word in "$@"; do printf '$%d\r\n%s\r\n' ${#word} "$word" >&3; done
    read -r -t 30 -u 3 answer
    echo "${answer%$'\r'}"
}

remove_deb() {
    inside dpkg --remove redlock-proxy
    # It had time to drain, although it was started by its predecessor.
    inside journalctl --sync
    inside journalctl --unit redlock-proxy --no-pager --lines 20 | tee "$home/stopped"
    is inactive "$(service is-active)"
    not grep SIGKILL "$home/stopped"
    not redis-cli -p "$(cat "$home/service-port")" PING
    inside grep --quiet "^masters = " "$settings"
    not inside test -e /usr/bin/redlock-proxy
}

# dpkg leaves a directory with files of the operator's. Debian doesn't remove users: files of theirs would be the next one's.
purge_deb() {
    inside rm /etc/redlock-proxy/password
    inside dpkg --purge redlock-proxy
    files_of_the_name | diff "$home/before" -
    inside id redlock-proxy
}

# A mere `!` is no failure to `set -e`.
not() {
    ! "$@"
}

journal_says() {
    for _ in $(seq 300); do
        ! inside journalctl --unit redlock-proxy --no-pager | grep "$1" || return 0
        sleep 0.1
    done
    inside journalctl --unit redlock-proxy --no-pager
    return 1
}

# The machine may have others. `man` caches the pages that it was asked for.
files_of_the_name() {
    inside find /etc /run /usr /var -path /var/cache -prune -o -path '*redlock-proxy*' -print | sort
}

# is EXPECTED ACTUAL: and says so if not.
is() {
    [ "$1" = "$2" ] || { echo "expected $1, got $2"; return 1; }
}

service() {
    inside systemctl "$1" redlock-proxy.service
}

service_pid() {
    inside systemctl show --property=MainPID --value redlock-proxy.service
}

settings=/etc/redlock-proxy/redlock-proxy.toml
