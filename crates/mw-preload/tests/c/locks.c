/* Calls that fail for locked memory: only for memory that the program itself has locked. */
#include "state.h"

#define SIZE (8 * MIB)

static const struct request {
    const char *name;
    int advice;
} requests[] = {
    {"DONTNEED", 4}, {"FREE", 8}, {"REMOVE", 9}, {"WILLNEED", 3}, {"COLD", 20}, {"PAGEOUT", 21}, {"GUARD_INSTALL", 102}, {"GUARD_REMOVE", 103},
};

static void request_all(const char *what, char *at, size_t size) {
    printf("%s:", what);
    for (unsigned i = 0; i < sizeof requests / sizeof *requests; i++) {
        if (requests[i].advice != 103) memset(at, 7, size);
        errno = 0;
        int done = madvise(at, size, requests[i].advice);
        printf(" %s %d %d", requests[i].name, done, errno);
        /* Discarded memory is zero; with MADV_FREE it may be zero. */
        if (requests[i].advice == 4) printf(" %d%d", at[0], at[size - 1]);
    }
    int flags[] = {MS_ASYNC, MS_SYNC, MS_INVALIDATE, MS_SYNC | MS_INVALIDATE};
    for (int i = 0; i < 4; i++) {
        errno = 0;
        int done = msync(at, size, flags[i]);
        printf(" msync %d %d %d", flags[i], done, errno);
    }
    errno = 0;
    int odd = madvise(at + 1, PAGE, MADV_DONTNEED);
    printf(" odd %d %d\n", odd, errno);
}

static void request_each(const char *what, char *(*map)(size_t)) {
    printf("%s\n", what);
    char *at = map(SIZE);
    request_all("never locked", at, SIZE);
    if (mlock(at + SIZE / 2, SIZE / 4)) perror("mlock");
    request_all("locked in the middle", at, SIZE);
    request_all("the locked part", at + SIZE / 2, SIZE / 4);
    request_all("before it", at, SIZE / 2);
    request_all("behind it", at + SIZE / 4 * 3, SIZE / 4);
    if (munlock(at, SIZE)) perror("munlock");
    request_all("unlocked", at, SIZE);
    if (mlock2(at, SIZE, MLOCK_ONFAULT)) perror("mlock2");
    request_all("locked on fault", at, SIZE);
    munmap(at, SIZE);
    char *again = map(SIZE);
    request_all("mapped again", again, SIZE);
    munmap(again, SIZE);
}

static char *private(size_t size) {
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static char *shared(size_t size) {
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}
static int disk = -1;
static char *file(size_t size) {
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, disk, 0);
}
static char *small(size_t size) {
    (void)size;
    char *at = NULL;
    /* Adjacent, none of them large. */
    for (size_t offset = 0; offset < SIZE; offset += 64 * 1024)
        at = mmap(at ? at + 64 * 1024 : (char *)0x300000000000, 64 * 1024, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return (char *)0x300000000000;
}

#define FEW (64 * 1024)

static void drop(const char *what, char *at) {
    errno = 0;
    int done = madvise(at, FEW, MADV_DONTNEED);
    printf("%s: %d %d %d\n", what, done, errno, at[0]);
    munmap(at, FEW);
}

static char *filled(void) {
    return memset(private(FEW), 7, FEW);
}

static char *move(char *at) {
    return mremap(at, FEW, FEW, MREMAP_MAYMOVE | MREMAP_FIXED, private(FEW));
}

static char *move_by_number(char *at) {
    return (char *)syscall(SYS_mremap, at, FEW, FEW, MREMAP_MAYMOVE | MREMAP_FIXED, private(FEW));
}

/* The offset is the last of six arguments. */
static void disk_by_number(void) {
    if (pwrite(disk, "x", 1, FEW) != 1) perror("pwrite");
    char *at = (char *)syscall(SYS_mmap, NULL, FEW, PROT_READ, MAP_SHARED, disk, (long)FEW);
    printf("at the offset: %c\n", at[0]);
    munmap(at, FEW);
}

static void lock_by_number(void) {
    char *at = filled();
    if (syscall(SYS_mlock, at, FEW)) perror("mlock");
    drop("mlock by number", at);
    at = filled();
    if (syscall(SYS_mlock2, at, FEW, MLOCK_ONFAULT)) perror("mlock2");
    drop("mlock2 by number", at);
    at = (char *)syscall(SYS_mmap, NULL, FEW, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
    drop("mmap by number", memset(at, 7, FEW));
    disk_by_number();
    /* In the child nothing else is recorded as locked. */
    fflush(stdout);
    if (fork() == 0) {
        at = filled();
        if (syscall(SYS_mlockall, MCL_CURRENT)) perror("mlockall");
        drop("mlockall by number", at);
        exit(0);
    }
    wait(NULL);
}

static void move_each(void) {
    char *at = filled();
    drop("moved", move(at));
    drop("moved by number", move_by_number(filled()));
    at = filled();
    if (mlock(at, FEW)) perror("mlock");
    at = move(at);
    drop("locked and moved", at);
    at = filled();
    if (mlock(at, FEW)) perror("mlock");
    drop("locked and moved by number", move_by_number(at));
    at = filled();
    if (mlock(at, FEW)) perror("mlock");
    at = mremap(at, FEW, 2 * FEW, MREMAP_MAYMOVE);
    drop("locked and grown", at + FEW);
    drop("what was grown", at);
}

int main(void) {
    char name[] = "memwright-test-XXXXXX";
    disk = mkstemp(name);
    unlink(name);
    if (ftruncate(disk, SIZE)) perror("ftruncate");
    request_each("private", private);
    request_each("shared", shared);
    request_each("file", file);
    request_each("small pieces", small);
    move_each();
    lock_by_number();
    char *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
    request_all("mapped locked", at, SIZE);
    at = private(SIZE);
    mlockall(MCL_CURRENT);
    request_all("all locked", at, SIZE);
    munlockall();
    request_all("all unlocked", at, SIZE);
    return 0;
}
