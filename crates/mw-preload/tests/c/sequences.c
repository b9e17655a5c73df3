/* Random calls on one range of addresses: the result and the effect of each. The same seed gives the same calls. */
#include "state.h"

#include "random.h"
#include <linux/capability.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/shm.h>
#include <sys/stat.h>

#define ARENA (5 * MIB)
#define ARENA_AT ((char *)0x200000000)
#define PAGES (ARENA / PAGE)

/* Whether the limit on locked memory applies. */
static int limited;

static void drop_ipc_lock(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    syscall(SYS_capget, &header, data);
    data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
    syscall(SYS_capset, &header, data);
}

/* The mappings of the arena and their contents. The arena is below everything else, so that its mappings come
 * first in smaps: the rest is not read. */
static char smaps[1 << 16];

static void read_smaps(void) {
    int fd = openat(proc, "self/smaps", O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    uintptr_t start = 0;
    while (start < (uintptr_t)ARENA_AT + ARENA && length + 2 * PAGE < sizeof smaps) {
        long more = read(fd, smaps + length, 2 * PAGE);
        if (more <= 0) break;
        start = strtoul(smaps + length, NULL, 16), length += more;
    }
    smaps[length] = 0;
    close(fd);
}

/* A byte, or 256 if it cannot be read: fallocate(2) allocates pages beyond the end of a file, which are resident
 * and not accessible. */
static sigjmp_buf not_readable;

static void jump(int number) {
    (void)number;
    siglongjmp(not_readable, 1);
}

static int byte_at(const char *at) {
    if (sigsetjmp(not_readable, 0)) return 256;
    return *(const volatile unsigned char *)at;
}

/* By page: how the kernel splits and merges mappings depends on timing. */
static uint64_t of_mapping(uint64_t hash, char *from, char *to, const char *modes, int locked) {
    static unsigned char resident[PAGES];
    uint64_t kind = modes[0] + modes[1] * 256 + modes[3] * 65536 + (locked << 24);
    if (mincore(from, to - from, resident)) return mix(hash, errno);
    for (size_t i = 0; i < (size_t)(to - from) / PAGE; i++) {
        size_t page = (from - ARENA_AT) / PAGE + i;
        char *at = ARENA_AT + page * PAGE + page % 97;
        hash = mix(mix(mix(hash, page), kind), resident[i] & 1);
        if (modes[0] == 'r' && resident[i] & 1) hash = mix(hash, byte_at(at));
    }
    return hash;
}

static uint64_t state(void) {
    uint64_t hash = 0xcbf29ce484222325, start = 0, end = 0, locked = 0, from, to;
    char modes[5], *line = smaps, *next;
    read_smaps();
    for (; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        if (sscanf(line, "%lx-%lx %4s", &from, &to, modes) == 3) {
            if (from >= (uintptr_t)ARENA_AT + ARENA) break;
            start = from < (uintptr_t)ARENA_AT ? (uintptr_t)ARENA_AT : from;
            end = to > (uintptr_t)ARENA_AT + ARENA ? (uintptr_t)ARENA_AT + ARENA : to;
        } else if (start < end && !strncmp(line, "Locked:", 7)) {
            locked += atol(line + 7);
        } else if (start < end && !strncmp(line, "VmFlags:", 8)) {
            int flags = (strstr(line, " lo") != NULL) * 2 + (strstr(line, " lf") != NULL);
            hash = of_mapping(hash, (char *)start, (char *)end, modes, flags);
        }
    }
    return mix(hash, locked);
}

/* The System V segments of a sequence. */
#define SEGMENTS 3
static int segments[SEGMENTS];

static long segment(char *at, size_t bytes, size_t kind) {
    int *id = &segments[below(SEGMENTS)];
    struct shmid_ds about;
    switch (kind) {
    case 0: case 1:
        if (*id >= 0) shmctl(*id, IPC_RMID, NULL);
        *id = shmget(IPC_PRIVATE, bytes, 0600);
        return *id < 0 ? -1 : 0;
    case 2: case 3: case 4: return shmat(*id, at, below(2) ? SHM_REMAP : SHM_RDONLY) == at ? 0 : -1;
    case 5: case 6: return shmdt(at);
    /* Without CAP_IPC_LOCK it is charged to the user, and so shared with the other process. */
    case 7: return limited ? 0 : shmctl(*id, below(2) ? SHM_LOCK : SHM_UNLOCK, NULL);
    case 8: return shmctl(*id, IPC_RMID, NULL);
    default: return shmctl(*id, IPC_STAT, &about) ? -1 : (long)about.shm_nattch;
    }
}

static long on_file(int memfd, size_t from, size_t bytes) {
    static const int modes[] = {0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 64};
    struct stat about;
    size_t kind = below(6);
    long done = kind < 4   ? fallocate(memfd, modes[kind], from, bytes)
                : kind < 5 ? posix_fallocate(memfd, from, bytes)
                           : ftruncate(memfd, bytes);
    fstat(memfd, &about);
    return done < 0 ? done : done + about.st_size + about.st_blocks * 3;
}

static long move(char *arena, char *at, size_t bytes) {
    size_t to = below(PAGES), pages = bytes / PAGE + 1, most = PAGES - to;
    char *place = arena + to * PAGE;
    size_t after = (below(2) ? pages : 1 + below(most)) * PAGE;
    if (after > most * PAGE) after = most * PAGE;
    char *moved = mremap(at, bytes, after, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    return moved == place ? 0 : -1;
}

static long call(char *arena, int memfd, int filled, size_t kind) {
    static const int prots[] = {PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE,
                                PROT_READ | PROT_WRITE, PROT_READ, PROT_WRITE, PROT_NONE};
    static const int advice[] = {MADV_DONTNEED, MADV_DONTNEED, MADV_POPULATE_READ,
                                 MADV_POPULATE_WRITE, MADV_REMOVE, MADV_FREE, MADV_NORMAL, 4711};
    static const size_t limits[] = {0, 1 * MIB, 2 * MIB, 3 * MIB, 6 * MIB};
    /* Below the threshold, above it, and above that for freeing, which is the most to populate. */
    size_t least = (size_t[]){1, 1, 256, 256, 256, 256, 256, 1024}[below(8)];
    size_t pages = least + below(least < 256 ? 64 : 192), from = below(PAGES - pages);
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
    /* The limit applies to all mappings, those of the library included. */
    case 17: return limited ? 0 : mlockall(below(2) ? MCL_CURRENT : below(8) & ~MCL_FUTURE);
    case 18: return munlockall();
    case 19: case 20: return pread(filled, at, bytes / 4, below(PAGE));
    case 21: case 22: return segment(at, bytes, below(10));
    case 23: return on_file(memfd, from * PAGE, bytes);
    default: return move(arena, at, bytes);
    }
}

/* Distinguishable bytes. */
static int filled_file(void) {
    static char bytes[ARENA / 2];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = 1 + i % 251;
    int fd = memfd_create("filled", MFD_CLOEXEC);
    if (write(fd, bytes, sizeof bytes) != sizeof bytes) perror("write");
    return fd;
}

static uint64_t sequence(char *arena, int filled, int verbose) {
    uint64_t hash = 0;
    limit(RLIMIT_MEMLOCK, 6 * MIB);
    int memfd = memfd_create("test", MFD_CLOEXEC);
    if (ftruncate(memfd, ARENA / 2)) perror("ftruncate");
    for (int i = 0; i < SEGMENTS; i++) segments[i] = -1;
    if (below(4)) mprotect(arena, ARENA, PROT_READ | PROT_WRITE);
    for (size_t calls = 3 + below(6); calls > 0; calls--) {
        size_t kind = below(25);
        errno = 0;
        long result = call(arena, memfd, filled, kind);
        int error = result < 0 ? errno : 0;
        uint64_t left = state();
        hash = mix(mix(mix(hash, result), error), left);
        if (verbose) printf("  call %zu: %ld errno %d left %016lx\n", kind, result, error, left);
    }
    close(memfd);
    munlockall();
    for (int i = 0; i < SEGMENTS; i++)
        if (segments[i] >= 0) shmctl(segments[i], IPC_RMID, NULL);
    mmap(arena, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return hash;
}

int main(int count, char **arguments) {
    long first = count > 1 ? atol(arguments[1]) : 0, sequences = count > 2 ? atol(arguments[2]) : 1;
    limited = count > 3 && !strcmp(arguments[3], "limited");
    say_state_from();
    if (limited) drop_ipc_lock();
    sigaction(SIGBUS, &(struct sigaction){.sa_handler = jump, .sa_flags = SA_NODEFER}, NULL);
    int none = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    if (mmap(ARENA_AT - MIB, ARENA + 2 * MIB, PROT_NONE, none, -1, 0) != ARENA_AT - MIB) return 2;
    int filled = filled_file();
    for (long i = first; i < first + sequences; i++) {
        seed = i;
        printf("%ld %016lx\n", i, sequence(ARENA_AT, filled, count > 4));
    }
    return 0;
}
