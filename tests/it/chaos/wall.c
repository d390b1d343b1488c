/* Loaded before libc into a node process: its wall clock is FIRETIME_IT_WALL milliseconds ahead, all else as it is.
   SQLite asks gettimeofday, which stays true: the database's clock is right, the node's is wrong. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long ahead;

__attribute__((constructor)) static void read_offset(void) {
    const char *millis = getenv("FIRETIME_IT_WALL");
    ahead = millis ? atoll(millis) : 0;
}

int clock_gettime(clockid_t id, struct timespec *now) {
    if (syscall(SYS_clock_gettime, id, now) != 0) return -1;
    if (id == CLOCK_REALTIME) {
        long long nanos = now->tv_nsec + ahead % 1000 * 1000000 + 1000000000;
        now->tv_sec += ahead / 1000 - 1 + nanos / 1000000000;
        now->tv_nsec = nanos % 1000000000;
    }
    return 0;
}
