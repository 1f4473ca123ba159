# A copy of this machine in which everything may be changed, with a systemd of its own; for `source`.
#
# Its files are those of the machine, and what is written over them lies in memory. Processes, mounts and control groups are
# its own; the network is the machine's. It ends with `throw_away`, and nothing of it is left.
# shellcheck shell=bash disable=SC2154

# boot_throwaway DIRECTORY: keeps what it needs there, and leaves the reason in DIRECTORY/log if it cannot.
boot_throwaway() {
    throwaway=$1
    group=redlock-proxy-check-$$
    mkdir -p "$throwaway"
    # A name in quotes is for the other bash.
    unshare --mount --pid --ipc --uts --fork --kill-child \
        bash -euc "$(declare -f mount_throwaway enter_group populate_dev start_systemd); start_systemd $throwaway $group" \
        >"$throwaway/log" 2>&1 </dev/null &
    outer=$!
    for _ in $(seq 300); do
        kill -0 "$outer" 2>/dev/null || break
        init=$(pgrep --parent "$outer") || true
        [ "$(inside systemctl is-system-running 2>/dev/null)" != running ] || return 0
        sleep 0.1
    done
    throw_away
    return 1
}

# inside COMMAND...: runs it as root in there.
inside() {
    nsenter --target "$init" --mount --pid --ipc --uts -- env --chdir=/ "$@"
}

throw_away() {
    kill -KILL "$outer" 2>/dev/null || true
    wait "$outer" 2>/dev/null || true
    unshare --mount bash -euc "$(declare -f remove_group); remove_group $throwaway $group" 2>/dev/null || true
}

# Once the last process has ended, which the kernel does on its own.
remove_group() {
    mount -t cgroup2 cgroup2 "$1"
    local _
    for _ in $(seq 100); do
        [ -d "$1/$2" ] || return 0
        find "$1/$2" -depth -type d -exec rmdir {} + || sleep 0.1
    done
}

# What follows runs in the new namespaces.
start_systemd() {
    mount --make-rprivate /
    enter_group "$1" "$2"
    mount_throwaway "$1"
    cd "$1/root"
    populate_dev
    # Nothing of this machine's own starts, and nothing forbids what is installed to start.
    rm -rf etc/systemd/system/*.wants etc/systemd/system/*.requires etc/fstab usr/sbin/policy-rc.d
    printf '[Unit]\nRequires=sysinit.target\nAfter=sysinit.target\n' \
        >etc/systemd/system/throwaway.target
    mkdir -p old
    # A program in a mere chroot may make no user namespace, as the unit does.
    pivot_root . old
    umount --lazy old
    exec env --ignore-environment container=throwaway PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        unshare --cgroup bash -euc 'mount -t cgroup2 cgroup2 /sys/fs/cgroup
            exec /lib/systemd/systemd --system --unit=throwaway.target --show-status=no'
}

# So that what systemd makes of control groups lies in one of ours, which can be removed.
enter_group() {
    mount -t cgroup2 cgroup2 "$1"
    mkdir "$1/$2"
    echo $$ >"$1/$2/cgroup.procs"
    umount "$1"
}

mount_throwaway() {
    mount -t tmpfs tmpfs "$1"
    mkdir "$1"/{upper,work,root}
    mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
    mount -t proc proc "$1/root/proc"
    # The settings of the kernel are those of the machine.
    mount --bind "$1/root/proc/sys" "$1/root/proc/sys"
    mount -o remount,bind,ro "$1/root/proc/sys"
    mount -t sysfs -o ro sysfs "$1/root/sys"
    mount -t tmpfs tmpfs "$1/root/run"
    mount -t tmpfs tmpfs "$1/root/dev"
}

populate_dev() {
    local device
    for device in null zero full random urandom tty; do
        mknod -m 666 "dev/$device" c "0x$(stat -c %t "/dev/$device")" "0x$(stat -c %T "/dev/$device")"
    done
    mkdir dev/pts dev/shm
    mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
    ln -s pts/ptmx dev/ptmx
    ln -s /proc/self/fd dev/fd
    ln -s /dev/null dev/console
}
