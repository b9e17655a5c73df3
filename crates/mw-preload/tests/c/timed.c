/* The duration of calls: `timed small CALLS` and `timed writes CALLS` in ns a call, `timed large MIB ROUNDS` in ms. */
#include "state.h"
#include <time.h>

static double at(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static double now(void) { return at(CLOCK_MONOTONIC); }

/* CPU time: other programs may run at the same time. */
static double used(void) { return at(CLOCK_THREAD_CPUTIME_ID); }

static void small(long calls) {
    char *memory = map(16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    double start = used();
    for (long i = 0; i < calls; i++) madvise(memory, PAGE, MADV_NORMAL);
    double advised = used();
    for (long i = 0; i < calls; i++) mlock(memory, 0);
    double locked = used();
    printf("%f %f\n", (advised - start) * 1e6 / calls, (locked - advised) * 1e6 / calls);
}

/* 512 bytes in each call, always at the start of a file. */
static void writes(long calls) {
    static char bytes[512];
    FILE *file = tmpfile();
    int fd = fileno(file), null = open("/dev/null", O_WRONLY);
    double start = used();
    for (long i = 0; i < calls; i++) (void)!write(null, bytes, sizeof bytes);
    double discarded = used();
    for (long i = 0; i < calls; i++) (void)!pwrite(fd, bytes, sizeof bytes, 0);
    double written = used();
    for (long i = 0; i < calls; i++) (void)!pread(fd, bytes, sizeof bytes, 0);
    double got = used();
    printf("%f %f %f\n", (discarded - start) * 1e6 / calls, (written - discarded) * 1e6 / calls,
           (got - written) * 1e6 / calls);
    fclose(file);
    close(null);
}

static void large(size_t bytes) {
    int rw = PROT_READ | PROT_WRITE;
    char *at = map(bytes, rw, MAP_PRIVATE | MAP_ANONYMOUS);
    double start = now();
    if (mlock(at, bytes)) perror("mlock");
    double locked = now();
    munmap(at, bytes);
    double unmapped = now();
    at = map(bytes, rw, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE);
    double mapped = now();
    madvise(at, bytes, MADV_DONTNEED);
    double discarded = now();
    munmap(at, bytes);
    printf("%f %f %f %f\n", locked - start, unmapped - locked, mapped - unmapped,
           discarded - mapped);
}

int main(int count, char **arguments) {
    long number = count > 2 ? atol(arguments[2]) : 1, rounds = count > 3 ? atol(arguments[3]) : 1;
    for (long round = 0; round < rounds; round++) {
        if (!strcmp(arguments[1], "small"))
            small(number);
        else if (!strcmp(arguments[1], "writes"))
            writes(number);
        else
            large(number * MIB);
    }
    return 0;
}
