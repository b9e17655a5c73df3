/* The output of the test programs: the same with and without the library. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define PAGE ((size_t)4096)

/* The directory /proc, opened early: a program may change its root. */
static int proc = -1;

__attribute__((unused)) static void say_state_from(void) { proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC); }

/* Sets a soft limit, and raises the hard one if permitted. */
__attribute__((unused)) static void limit(int which, size_t bytes) {
    struct rlimit limit = {bytes, RLIM_INFINITY};
    if (setrlimit(which, &limit)) {
        getrlimit(which, &limit);
        limit.rlim_cur = bytes;
        if (setrlimit(which, &limit)) perror("setrlimit");
    }
}

__attribute__((unused)) static FILE *of_proc(const char *name) {
    int fd = openat(proc, name, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? NULL : fdopen(fd, "r");
}

__attribute__((unused)) static long status(const char *field) {
    char line[256];
    long value = -1;
    FILE *file = of_proc("self/status");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, field, strlen(field))) value = atol(line + strlen(field) + 1);
    if (file) fclose(file);
    return value;
}

/* The values of smaps for a range of addresses, in KiB and in mappings. */
struct range {
    long mapped, resident, locked, lock, on_fault;
};

__attribute__((unused)) static struct range range(void *at, size_t bytes) {
    uintptr_t from = (uintptr_t)at, to = from + bytes, start, end;
    struct range sum = {0};
    char line[512];
    long value;
    int inside = 0;
    FILE *file = of_proc("self/smaps");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2 && strchr(line, '-') < strchr(line, ' ')) {
            inside = start >= from && end <= to;
            sum.mapped += inside ? (long)((end - start) >> 10) : 0;
        } else if (inside && sscanf(line, "Rss: %ld", &value) == 1) {
            sum.resident += value;
        } else if (inside && sscanf(line, "Locked: %ld", &value) == 1) {
            sum.locked += value;
        } else if (inside && !strncmp(line, "VmFlags:", 8)) {
            sum.lock += strstr(line, " lo") != NULL;
            sum.on_fault += strstr(line, " lf") != NULL;
        }
    }
    if (file) fclose(file);
    return sum;
}

/* Prints the result and the effect of a call. */
__attribute__((unused)) static void print_state(const char *what, long result, void *at, size_t bytes) {
    int error = result == -1 ? errno : 0;
    struct range left = range(at, bytes);
    printf("%s: %ld errno %d; mapped %ld resident %ld locked %ld lo %ld lf %ld threads %ld\n", what,
           result, error, left.mapped, left.resident, left.locked, left.lock, left.on_fault,
           status("Threads"));
    fflush(stdout);
}

__attribute__((unused)) static void *map(size_t bytes, int prot, int flags) {
    void *at = mmap(NULL, bytes, prot, flags, -1, 0);
    if (at == MAP_FAILED) perror("mmap");
    return at;
}

/* Maps memory without adjacent mappings. */
__attribute__((unused)) static char *map_isolated(size_t bytes, int prot, int flags) {
    char *all = map(bytes + 2 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    return mmap(all + MIB, bytes, prot, flags | MAP_FIXED, -1, 0);
}

__attribute__((unused)) static long is_zero(const char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (at[i]) return 0;
    return 1;
}
