/* Loaded before libc. Into a node process: its wall clock is FIRETIME_IT_WALL milliseconds ahead, all else as it is.
   SQLite asks gettimeofday, which stays true: the database's clock is right, the node's is wrong.
   Into a PostgreSQL server, which asks gettimeofday too: that is FIRETIME_IT_DAY milliseconds ahead. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/time.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long ahead, day;

__attribute__((constructor)) static void read_offset(void) {
    const char *millis = getenv("FIRETIME_IT_WALL");
    ahead = millis ? atoll(millis) : 0;
    millis = getenv("FIRETIME_IT_DAY");
    day = millis ? atoll(millis) : 0;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec true_time;
    (void)zone;
    if (syscall(SYS_clock_gettime, CLOCK_REALTIME, &true_time) != 0) return -1;
    now->tv_sec = true_time.tv_sec + day / 1000;
    now->tv_usec = true_time.tv_nsec / 1000;
    return 0;
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
