/* Random calls on one range of addresses: what each returned, and what it left. The same seed gives
 * the same calls. */
#include "state.h"
#include <linux/capability.h>

#define ARENA (6 * MIB)
#define PAGES (ARENA / PAGE)

static uint64_t seed;

/* Whether the limit of locked memory holds. */
static int limited;

static uint64_t next(void) {
    uint64_t z = seed += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static size_t below(size_t limit) { return next() % limit; }

static void drop_ipc_lock(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    syscall(SYS_capget, &header, data);
    data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
    syscall(SYS_capset, &header, data);
}

static uint64_t mix(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x100000001b3; }

/* What is there and what it holds, found out without a fault. */
static uint64_t state(char *arena, int pipes[2]) {
    uint64_t hash = 0xcbf29ce484222325;
    unsigned char resident;
    char byte = 0;
    for (size_t page = 0; page < PAGES; page++) {
        char *at = arena + page * PAGE;
        resident = 2;
        int known = mincore(at, PAGE, &resident);
        hash = mix(hash, known ? 3 : resident & 1);
        if (known == 0 && resident & 1) {
            int told = write(pipes[1], at + page % 97, 1) == 1 && read(pipes[0], &byte, 1) == 1;
            hash = mix(hash, told ? (unsigned char)byte : 300);
        }
    }
    struct range left = range(arena, ARENA);
    return mix(mix(mix(mix(hash, left.locked), left.lock), left.on_fault), left.resident);
}

static long call(char *arena, int memfd, size_t kind) {
    static const int prots[] = {PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE,
                                PROT_READ | PROT_WRITE, PROT_READ, PROT_WRITE, PROT_NONE};
    static const int advice[] = {MADV_DONTNEED, MADV_DONTNEED, MADV_POPULATE_READ,
                                 MADV_POPULATE_WRITE, MADV_REMOVE, MADV_FREE, MADV_NORMAL, 4711};
    static const size_t limits[] = {0, 1 * MIB, 2 * MIB, 3 * MIB, 6 * MIB};
    size_t from = below(PAGES), pages = 1 + below(PAGES - from);
    if (below(3)) from /= 8, pages = PAGES - from - below(PAGES / 4);
    size_t bytes = pages * PAGE - (below(8) ? 0 : below(PAGE));
    char *at = arena + from * PAGE + (below(16) ? 0 : below(PAGE));
    int prot = prots[below(6)];
    int shared = below(2) ? MAP_SHARED : MAP_PRIVATE;
    int more = (below(2) ? MAP_POPULATE : 0) | (below(3) ? 0 : MAP_LOCKED);
    switch (kind) {
    case 0: case 1: case 2:
        return mmap(at, bytes, prot, shared | MAP_ANONYMOUS | MAP_FIXED | more, -1, 0) == at ? 0 : -1;
    case 3:
        return mmap(at, bytes, prot, shared | MAP_FIXED | more, memfd, from * PAGE / 2) == at ? 0 : -1;
    case 4: {
        char *free = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | more, -1, 0);
        if (free == MAP_FAILED) return -1;
        long populated = mincore(free, PAGE, (unsigned char[]){0});
        return populated * 10 + munmap(free, bytes);
    }
    case 5: case 6: case 7: return mlock(at, bytes);
    case 8: return mlock2(at, bytes, below(4) ? 0 : below(3));
    case 9: return munlock(at, bytes);
    case 10: case 11: return munmap(at, bytes);
    case 12: case 13: case 14: return madvise(at, bytes, advice[below(8)]);
    case 15: return mprotect(at, bytes, prot);
    case 16: {
        struct rlimit both;
        getrlimit(RLIMIT_MEMLOCK, &both);
        both.rlim_cur = limits[below(5)];
        return setrlimit(RLIMIT_MEMLOCK, &both);
    }
    /* The limit is held against all that is mapped, the library included. */
    case 17: return limited ? 0 : mlockall(below(2) ? MCL_CURRENT : below(8) & ~MCL_FUTURE);
    case 18: return munlockall();
    default: {
        char filled[PAGE / 4];
        memset(filled, 1 + below(200), sizeof filled);
        int fd = memfd_create("filled", MFD_CLOEXEC);
        long done = write(fd, filled, sizeof filled);
        lseek(fd, 0, SEEK_SET);
        done = read(fd, at, sizeof filled);
        int error = errno;
        close(fd);
        errno = error;
        return done;
    }
    }
}

int main(int count, char **arguments) {
    long first = count > 1 ? atol(arguments[1]) : 0, sequences = count > 2 ? atol(arguments[2]) : 1;
    int pipes[2], verbose = count > 4;
    limited = count > 3 && !strcmp(arguments[3], "limited");
    say_state_from();
    if (limited) drop_ipc_lock();
    char *arena = map(ARENA + 2 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    arena += MIB;
    if (pipe(pipes)) perror("pipe");
    for (long sequence = first; sequence < first + sequences; sequence++) {
        seed = sequence;
        uint64_t hash = 0;
        limit(RLIMIT_MEMLOCK, 6 * MIB);
        int memfd = memfd_create("test", MFD_CLOEXEC);
        if (ftruncate(memfd, ARENA / 2)) perror("ftruncate");
        for (size_t calls = 3 + below(8); calls > 0; calls--) {
            size_t kind = below(24);
            errno = 0;
            long result = call(arena, memfd, kind);
            int error = result < 0 ? errno : 0;
            uint64_t left = state(arena, pipes);
            hash = mix(mix(mix(hash, result), error), left);
            if (verbose) printf("  call %zu: %ld errno %d left %016lx\n", kind, result, error, left);
        }
        printf("%ld %016lx\n", sequence, hash);
        close(memfd);
        munlockall();
        mmap(arena, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }
    return 0;
}
