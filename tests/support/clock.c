/* Gives a process a wall clock that a test can set: preloaded, it adds what a file says to the real time.
 * (libfaketime cannot be used: it and jemalloc, which redis-server is built with, wait for each other.) */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Seconds ahead; how much faster than the real time it runs; and since when, in seconds. */
static volatile double *setting;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("TEST_CLOCK");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0) return;
    void *map = mmap(0, 3 * sizeof(double), PROT_READ, MAP_SHARED, file, 0);
    if (map != MAP_FAILED) setting = map;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (failed || !setting || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return failed;
    double real = now->tv_sec + now->tv_nsec / 1e9;
    double ahead = setting[0] + (real - setting[2]) * setting[1];
    long long nanos = now->tv_nsec + (long long)(ahead * 1e9);
    long long seconds = nanos / 1000000000;
    nanos %= 1000000000;
    if (nanos < 0) {
        nanos += 1000000000;
        seconds--;
    }
    now->tv_sec += seconds;
    now->tv_nsec = nanos;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
