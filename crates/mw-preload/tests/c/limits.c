/* Large memory beyond a limit: which calls fail, and which processes are killed. */
#include "state.h"
#include <pthread.h>
#include <sched.h>
#include <sys/ipc.h>
#include <sys/shm.h>

#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define HUGE (2 * MIB)

/* The free huge pages of the pool: see tests/limits.rs. */
#define POOL (16 * MIB)

/* In a child, which may be killed. */
static void alone(const char *what, void (*body)(void)) {
    int status;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        body();
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    printf("%s: exited %d, by signal %d\n", what, WIFEXITED(status) ? WEXITSTATUS(status) : -1,
           WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void *map_or_print(const char *what, size_t bytes, int flags) {
    errno = 0;
    char *at = mmap(NULL, bytes, RW, flags, -1, 0);
    printf("%s: mapped %d errno %d\n", what, at != MAP_FAILED, errno);
    fflush(stdout);
    return at == MAP_FAILED ? NULL : at;
}

static void data(void) {
    limit(RLIMIT_DATA, (size_t)status("VmData") * 1024 + 8 * MIB);
    char *at = map_isolated(4 * MIB, RW, ANON | MAP_POPULATE);
    print_state("within", mlock(at, 4 * MIB), at, 4 * MIB);
    map_or_print("beyond", 16 * MIB, ANON | MAP_POPULATE);
    char *shared = map_isolated(16 * MIB, RW, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE);
    print_state("shared is none", mlock(shared, 16 * MIB), shared, 16 * MIB);
    char *rest = map_isolated(3 * MIB, RW, ANON);
    print_state("nearly all", mlock(rest, 3 * MIB), rest, 3 * MIB);
    print_state("munmap", munmap(rest, 3 * MIB), rest, 3 * MIB);
    print_state("munmap", munmap(at, 4 * MIB), at, 4 * MIB);
    map_or_print("beyond, again", 9 * MIB, ANON | MAP_POPULATE);
}

#define BLOCK (4 * MIB)
#define ROUNDS 10
#define REST (32 * MIB)
#define SLACK (64 << 10)

static _Atomic int begun, over, failed;

/* Maps what is left of the limit beside one block, again and again. */
static void *map_the_rest(void *bytes) {
    begun = 1;
    while (begun == 1) sched_yield();
    while (!over) {
        char *at = mmap(NULL, (size_t)bytes, PROT_NONE, ANON | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED)
            failed++;
        else
            munmap(at, (size_t)bytes);
        sched_yield();
    }
    return NULL;
}

/* Another thread's calls fail no more often while large memory is mapped, locked and unmapped. */
static void beside(const char *what, int which, const char *field, int kind) {
    pthread_t thread;
    begun = over = failed = 0;
    pthread_create(&thread, NULL, map_the_rest, (void *)REST);
    while (!begun) sched_yield();
    limit(which, (size_t)status(field) * 1024 + REST + BLOCK + SLACK);
    begun = 2;
    int done = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char *at = mmap(NULL, BLOCK, RW, kind | (round % 2 ? MAP_POPULATE : 0), -1, 0);
        if (at == MAP_FAILED) continue;
        int is_locked = !mlock(at, BLOCK) && !munlock(at, BLOCK);
        done += is_locked && !madvise(at, BLOCK, MADV_POPULATE_WRITE);
        munmap(at, BLOCK);
    }
    over = 1;
    pthread_join(thread, NULL);
    limit(which, RLIM_INFINITY);
    printf("%s: %d done, %d of another thread failed\n", what, done, failed);
}

static void threads(void) {
    for (int round = 0; round < 3; round++) {
        beside("private, RLIMIT_AS", RLIMIT_AS, "VmSize", ANON);
        beside("shared, RLIMIT_AS", RLIMIT_AS, "VmSize", MAP_SHARED | MAP_ANONYMOUS);
    }
}

static void of_pool(const char *what, int kind) {
    char *at = map_or_print(what, POOL, kind | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE);
    if (!at) return;
    printf("zero %ld\n", is_zero(at, POOL));
    memset(at, 3, POOL);
    print_state("lock", mlock(at, POOL), at, POOL);
    print_state("dontneed", madvise(at, POOL / 2, MADV_DONTNEED), at, POOL);
    print_state("populate", madvise(at, POOL, MADV_POPULATE_WRITE), at, POOL);
    printf("kept %d %d\n", at[0], at[POOL - 1]);
    print_state("munmap", munmap(at, POOL), at, POOL);
}

static char *more_than_the_pool(int flags) {
    return map_or_print("more than the pool", 8 * POOL, flags | MAP_ANONYMOUS | MAP_HUGETLB);
}

static void lock_more(void) {
    char *at = more_than_the_pool(MAP_PRIVATE | MAP_NORESERVE);
    if (at) printf("lock %d errno %d\n", mlock(at, 8 * POOL), errno);
}

static void populate_more(void) {
    char *at = more_than_the_pool(MAP_SHARED | MAP_NORESERVE);
    if (at) printf("populate %d errno %d\n", madvise(at, 8 * POOL, MADV_POPULATE_WRITE), errno);
}

static void map_more(void) { more_than_the_pool(MAP_PRIVATE | MAP_NORESERVE | MAP_POPULATE); }

static void touch_more(void) {
    char *at = more_than_the_pool(MAP_PRIVATE | MAP_NORESERVE);
    if (at) memset(at, 1, 8 * POOL);
}

static void hugetlb(void) {
    of_pool("private", MAP_PRIVATE);
    of_pool("shared", MAP_SHARED);
    more_than_the_pool(MAP_PRIVATE);
    more_than_the_pool(MAP_SHARED | MAP_POPULATE);
    alone("lock", lock_more);
    alone("populate", populate_more);
    alone("map", map_more);
    alone("touch", touch_more);
    int id = shmget(IPC_PRIVATE, POOL, 0600 | SHM_HUGETLB);
    char *at = shmat(id, NULL, 0);
    shmctl(id, IPC_RMID, NULL);
    print_state("sysv", mlock(at, POOL), at, POOL);
    print_state("detached", shmdt(at), at, POOL);
    of_pool("afterwards", MAP_PRIVATE);
}

static void lock_within(void) {
    char *at = map_isolated(24 * MIB, RW, ANON);
    print_state("lock", mlock(at, 24 * MIB), at, 24 * MIB);
    print_state("munmap", munmap(at, 24 * MIB), at, 24 * MIB);
}

static void lock_beyond(void) { mlock(map(128 * MIB, RW, ANON), 128 * MIB); }
static void populate_beyond(void) { map(128 * MIB, RW, ANON | MAP_POPULATE); }
static void share_beyond(void) { mlock(map(128 * MIB, RW, MAP_SHARED | MAP_ANONYMOUS), 128 * MIB); }
static void advise_beyond(void) {
    madvise(map(128 * MIB, RW, ANON), 128 * MIB, MADV_POPULATE_WRITE);
}

/* In a memory cgroup of 64 MiB. */
static void cgroup(void) {
    alone("within", lock_within);
    alone("lock", lock_beyond);
    alone("populate", populate_beyond);
    alone("share", share_beyond);
    alone("advise", advise_beyond);
    alone("within, again", lock_within);
}

int main(int count, char **names) {
    say_state_from();
    if (count > 1 && !strcmp(names[1], "data")) data();
    if (count > 1 && !strcmp(names[1], "threads")) threads();
    if (count > 1 && !strcmp(names[1], "hugetlb")) hugetlb();
    if (count > 1 && !strcmp(names[1], "cgroup")) cgroup();
    return 0;
}
