/* Gives a process a slow disk: preloaded, every fsync and fdatasync takes as many milliseconds longer as a file says. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile double *delay_ms;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("TEST_DISK");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0) return;
    void *map = mmap(0, sizeof(double), PROT_READ, MAP_SHARED, file, 0);
    if (map != MAP_FAILED) delay_ms = map;
    close(file);
}

static void wait_for_disk(void) {
    double ms = delay_ms ? *delay_ms : 0;
    struct timespec pause = {(time_t)(ms / 1000), (long)(ms * 1e6) % 1000000000};
    if (ms > 0) nanosleep(&pause, 0);
}

int fsync(int file) {
    wait_for_disk();
    return syscall(SYS_fsync, file);
}

int fdatasync(int file) {
    wait_for_disk();
    return syscall(SYS_fdatasync, file);
}
