/* What is populated in the background, and what is not. */
#include "state.h"
#include <dirent.h>
#include <sys/shm.h>
#include <time.h>

#define SIZE (128 * MIB)
#define SMALL (16 * MIB)

static int rw = PROT_READ | PROT_WRITE, private = MAP_PRIVATE | MAP_ANONYMOUS;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static char *new_memory(size_t size, int flags) {
    char *at = mmap(NULL, size, rw, flags, -1, 0);
    if (at == MAP_FAILED) perror("mmap"), exit(3);
    return at;
}

/* MiB that are resident. */
static size_t resident(char *at, size_t size) {
    static unsigned char pages[SIZE / PAGE];
    size_t count = 0;
    if (mincore(at, size, pages)) return 0;
    for (size_t i = 0; i < size / PAGE; i++) count += pages[i] & 1;
    return count * PAGE / MIB;
}

/* Waits, for 100 s at most, until so many MiB are resident. */
static size_t wait_for(char *at, size_t size, size_t wanted) {
    for (double end = now() + 100; resident(at, size) < wanted && now() < end;) usleep(1000);
    return resident(at, size);
}

/* Waits until nothing has become resident for two seconds. */
static size_t wait_for_end(char *at, size_t size) {
    size_t before, after = resident(at, size);
    do {
        before = after;
        usleep(2000000);
        after = resident(at, size);
    } while (after > before);
    return after;
}

static int threads(void) {
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    while (tasks && readdir(tasks)) count++;
    if (tasks) closedir(tasks);
    return count - 2;
}

static void wait_for_no_thread(void) {
    for (double end = now() + 60; threads() > 1 && now() < end;) usleep(1000);
    printf("threads %d\n", threads());
}

static void later(void) {
    double start = now();
    char *at = new_memory(SIZE, private);
    size_t at_once = resident(at, SIZE);
    double took = now() - start;
    size_t all = wait_for(at, SIZE, SIZE / MIB);
    double total = now() - start;
    printf("at once %d, then %zu, sooner %d\n", at_once > 0, all, took * 2 < total);
    for (size_t i = 0; i < SIZE; i++)
        if (at[i]) return (void)printf("not zero\n");
    wait_for_no_thread();
    char *shared = new_memory(SMALL, MAP_SHARED | MAP_ANONYMOUS);
    int id = shmget(IPC_PRIVATE, SMALL, 0600);
    char *sysv = shmat(id, NULL, 0);
    shmctl(id, IPC_RMID, NULL);
    char *reserved = new_memory(SMALL, private | MAP_NORESERVE);
    size_t of_shared = wait_for(shared, SMALL, SMALL / MIB), of_sysv = wait_for(sysv, SMALL, SMALL / MIB);
    printf("shared %zu, sysv %zu, reserved %zu\n", of_shared, of_sysv, resident(reserved, SMALL));
}

/* The ways to give memory back while it is being populated. */
static void give_back(int way, char *at) {
    if (way == 0) munmap(at, SMALL);
    if (way == 1) syscall(SYS_munmap, at, SMALL);
    if (way == 2) madvise(at, SMALL, MADV_DONTNEED);
    if (way == 3) syscall(SYS_madvise, at, SMALL, MADV_DONTNEED);
    if (way == 4) mmap(at, SMALL, PROT_NONE, private | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (way == 5) mmap(at, SMALL, rw, private | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (way == 6) mremap(at, SMALL, PAGE, 0);
    if (way == 7) mprotect(at, SMALL, PROT_NONE), madvise(at, SMALL, MADV_DONTNEED);
}

static void back(void) {
    for (int way = 0; way < 8; way++) {
        size_t left = 0;
        for (int round = 0; round < 4; round++) {
            char *at = new_memory(SMALL, private);
            /* At once, and after a part was populated. */
            if (round % 2) wait_for(at, SMALL, 1);
            give_back(way, at);
            /* What was unmapped may be mapped again, by somebody who has not asked for it. */
            if (way < 2) mmap(at, SMALL, rw, private | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
            usleep(300000);
            left += resident(at, way == 6 ? PAGE : SMALL);
            munmap(at, SMALL);
        }
        printf("way %d: %zu\n", way, left);
    }
    wait_for_no_thread();
}

static void forks(void) {
    char *at = new_memory(SIZE, private);
    wait_for(at, SIZE, 32);
    pid_t child = fork();
    if (!child) {
        size_t before = resident(at, SIZE);
        int alone = threads() == 1;
        usleep(200000);
        int grown = resident(at, SIZE) > before;
        char *own = new_memory(SMALL, private);
        printf("child: alone %d, grown %d, own %zu\n", alone, grown, wait_for(own, SMALL, SMALL / MIB));
        exit(0);
    }
    waitpid(child, NULL, 0);
    printf("parent: %zu\n", wait_for(at, SIZE, SIZE / MIB));
    wait_for_no_thread();
}

int main(int count, char **names) {
    const char *what = count > 1 ? names[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(what, "later")) later();
    if (!strcmp(what, "now")) printf("at once %zu\n", resident(new_memory(SMALL, private), SMALL));
    if (!strcmp(what, "back")) back();
    if (!strcmp(what, "forks")) forks();
    if (!strcmp(what, "limited")) printf("%zu\n", wait_for_end(new_memory(SIZE, private), SIZE));
    if (!strcmp(what, "malloc")) memset(malloc(SIZE), 1, SIZE);
    if (!strcmp(what, "ends")) new_memory(SIZE, private), exit(0);
    if (!strcmp(what, "exec")) new_memory(SIZE, private), execl(names[0], names[0], "now", NULL);
    return 0;
}
