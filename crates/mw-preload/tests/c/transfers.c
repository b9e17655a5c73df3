/* Transfers of files: `transfers SITUATION DIR [FIRST COUNT]`. Prints the result and the effect of each, which must
 * be the same with and without the library. */
#define _GNU_SOURCE
#include "random.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KIB 1024UL
#define MIB (KIB * KIB)
#define LARGE (256 * KIB)

static char memory[2 * MIB];

static void fill(void) {
    for (size_t at = 0; at < sizeof memory; at += 8) *(uint64_t *)(memory + at) = next();
}

/* The contents of a file, read with few and with many bytes in a call. */
static uint64_t held(int fd) {
    static char bytes[MIB];
    uint64_t hash = 0xcbf29ce484222325;
    off_t at = 0;
    for (ssize_t got; (got = pread(fd, bytes, sizeof bytes, at)) > 0; at += got)
        for (ssize_t i = 0; i < got; i++) hash = mix(hash, (unsigned char)bytes[i]);
    return mix(hash, at);
}

static uint64_t held_by(const char *name) {
    int fd = open(name, O_RDONLY);
    uint64_t hash = held(fd);
    close(fd);
    return hash;
}

static void print_state(const char *what, long result) {
    printf("%s %ld errno %d\n", what, result, result < 0 ? errno : 0);
}

static size_t some_bytes(void) {
    switch (below(5)) {
    case 0: return below(100);
    case 1: return below(16 * KIB);
    case 2: return 8 * KIB;
    case 3: return 64 * KIB + below(3);
    default: return below(700 * KIB);
    }
}

static long transfer(int fd, int other, size_t kind) {
    size_t bytes = some_bytes(), half = bytes / 2;
    off_t offset = below(16) ? (off_t)below(3 * MIB) : -(off_t)below(3);
    struct iovec pieces[] = {{memory + below(4096), half}, {memory + below(9000), bytes - half}};
    void *at = below(40) ? memory + below(4096) : (void *)8;
    int flags[] = {0, 0, RWF_DSYNC, RWF_APPEND, RWF_HIPRI, 1 << 30};
    switch (kind) {
    case 0: case 1: case 2: case 3: return write(fd, at, bytes);
    case 4: case 5: return pwrite(fd, at, bytes, offset);
    case 6: return writev(fd, below(40) ? pieces : (void *)8, below(40) ? 2 : -1);
    case 7: return pwritev(fd, pieces, 2, offset);
    case 8: return pwritev2(fd, pieces, 2, below(4) ? offset : -1, flags[below(6)]);
    case 9: return sendfile(fd, other, &(off_t){below(MIB)}, bytes);
    case 10: return copy_file_range(other, &(off_t){below(MIB)}, fd, below(2) ? &offset : NULL, bytes, 0);
    case 11: return lseek(fd, offset, below(3));
    case 12: return ftruncate(fd, offset);
    case 13: return read(fd, memory + 4096, bytes);
    case 14: return pread(fd, memory + 4096, bytes, offset);
    case 15: return fsync(fd);
    case 16: return fcntl(fd, F_SETFL, below(2) ? O_APPEND : 0);
    case 17: return write(fd, memory, 0);
    case 18: return readv(fd, pieces, 2);
    case 19: return preadv2(fd, pieces, 2, below(4) ? offset : -1, 0);
    /* A run of small transfers. */
    default: {
        long sum = 0;
        for (size_t i = below(200); i > 0; i--) sum += write(fd, memory + i, 4 * KIB + below(2));
        return sum;
    }
    }
}

static void sequences(long first, long count) {
    static const int ways[] = {O_RDWR, O_RDWR | O_APPEND, O_RDWR | O_DSYNC, O_RDONLY, O_RDWR, O_WRONLY};
    for (long sequence = first; sequence < first + count; sequence++) {
        seed = sequence;
        fill();
        uint64_t hash = 0;
        int other = open("other", O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (write(other, memory, MIB) != MIB) perror("other");
        close(open("file", O_RDWR | O_CREAT | O_TRUNC, 0600));
        int fd = open("file", ways[below(6)]);
        for (size_t calls = 4 + below(20); calls > 0; calls--) {
            errno = 0;
            long result = transfer(fd, other, below(24));
            hash = mix(mix(mix(hash, result), errno), lseek(fd, 0, SEEK_CUR));
            if (!below(8)) {
                /* From here on the number is another file. */
                close(fd);
                fd = open(below(2) ? "file" : "second", O_RDWR | O_CREAT | (below(2) ? O_APPEND : 0), 0600);
            }
        }
        printf("%ld %016lx %016lx\n", sequence, hash, mix(held_by("file"), held(other)));
        close(fd);
        close(other);
        unlink("second");
    }
}

static void run_of(const char *name, int flags, size_t bytes, size_t total) {
    int fd = open(name, O_WRONLY | O_CREAT | flags, 0600);
    size_t done = 0;
    while (done < total) {
        ssize_t wrote = write(fd, memory + done % 4096, bytes);
        if (wrote < 0) {
            print_state("write", wrote);
            break;
        }
        done += wrote;
    }
    printf("%s %zu at %ld", name, done, (long)lseek(fd, 0, SEEK_CUR));
    printf(", fsync %d", fsync(fd));
    printf(", close %d", close(fd));
    printf(", holds %016lx\n", held_by(name));
}

static void write_functions(void) {
    run_of("small", 0, 8 * KIB, 24 * MIB);
    run_of("odd", 0, 5003, 20 * MIB);
    run_of("large", 0, LARGE, 24 * MIB);
    run_of("append", O_APPEND, 8 * KIB, 24 * MIB);
    run_of("append", O_APPEND, LARGE, 12 * MIB);
    run_of("sync", O_SYNC, 64 * KIB, 4 * MIB);
    run_of("sync", O_DSYNC, 16 * KIB, 2 * MIB);
}

static void excess(int number) { (void)!write(1, number == SIGXFSZ ? "XFSZ\n" : "?\n", number == SIGXFSZ ? 5 : 2); }

static void limited(void) {
    struct rlimit limit = {10 * MIB + 100, RLIM_INFINITY};
    fflush(stdout);
    signal(SIGXFSZ, excess);
    setrlimit(RLIMIT_FSIZE, &limit);
    for (size_t bytes = 8 * KIB; bytes <= LARGE; bytes *= 32) {
        run_of("limited", O_TRUNC, bytes, 20 * MIB);
        fflush(stdout);
    }
}

/* The disk has less space than this: the same bytes are written, with the same results. */
static void full(void) {
    for (size_t bytes = 16 * KIB; bytes <= LARGE; bytes *= 16) {
        int fd = open("full", O_WRONLY | O_CREAT | O_TRUNC, 0600);
        long result;
        while ((result = write(fd, memory, bytes)) == (long)bytes) {}
        if (result >= 0) result = write(fd, memory, bytes);
        print_state("write", result);
        printf("position is size %d\n", lseek(fd, 0, SEEK_CUR) == lseek(fd, 0, SEEK_END));
        printf("fsync %d\n", fsync(fd));
        close(fd);
        unlink("full");
    }
}

static void write_on(int fd, size_t bytes, size_t total) {
    for (size_t done = 0; done < total; done += bytes)
        if (write(fd, memory, bytes) != (ssize_t)bytes) break;
}

/* Starts writeback of a file. On overlayfs sync_file_range has no effect. */
static void start_writeback(int fd) {
    struct statfs on;
    sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    if (!fstatfs(fd, &on) && on.f_type == 0x794c7630) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

/* The disk loses bytes, and then works again: fsync reports the error once for each open file description, also
 * for one that is opened before the first report. */
static void lost(size_t bytes) {
    int fd = open("lost", O_RDWR | O_CREAT, 0600), second = open("lost", O_RDWR);
    write_on(fd, bytes, 36 * MIB);
    start_writeback(fd);
    sleep(1);
    printf("written\n");
    fflush(stdout);
    (void)!read(0, memory, 1);
    write_on(fd, bytes, 16 * MIB);
    start_writeback(fd);
    sleep(1);
    int later = open("lost", O_RDWR);
    errno = 0;
    printf("first %d", fsync(fd));
    printf(" errno %d", errno);
    printf(", second %d", fsync(second));
    printf(", later %d", fsync(later));
    printf(", again %d\n", fsync(fd));
}

static volatile int ticks;
static int in_handler = -1;

static void tick(int number) {
    (void)number;
    int before = errno;
    ticks++;
    if (in_handler >= 0 && write(in_handler, memory, 8 * KIB) != 8 * KIB) _exit(9);
    errno = before;
}

static void signals(void) {
    struct sigaction action = {.sa_handler = tick};
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, NULL);
    in_handler = open("handler", O_WRONLY | O_CREAT, 0600);
    setitimer(ITIMER_REAL, &often, NULL);
    run_of("signals", 0, 8 * KIB, 48 * MIB);
    run_of("signals-large", 0, LARGE, 64 * MIB);
    setitimer(ITIMER_REAL, &never, NULL);
    struct stat stat;
    fstat(in_handler, &stat);
    printf("handled %d, whole %d\n", ticks > 10, stat.st_size == (off_t)ticks * 8 * (off_t)KIB);
}

static size_t resident_mib(const char *name);
static sigjmp_buf outside;

static void jump_out(int number) { siglongjmp(outside, number); }

/* Handlers that leave a write by siglongjmp; then whether data written to that descriptor stays in the page cache,
 * and whether a filter for all threads waits for operations that no longer run. */
static void jumps(void) {
    static struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {1, &allow};
    struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    struct timespec begin, end;
    volatile int left = 0;
    int fd = open("jumps", O_WRONLY | O_CREAT, 0600);
    signal(SIGALRM, jump_out);
    setitimer(ITIMER_REAL, &often, NULL);
    if (sigsetjmp(outside, 1)) left++;
    while (left < 500)
        if (write(fd, memory, 64 * KIB) < 0 || lseek(fd, 0, SEEK_CUR) > 64L * (long)MIB) lseek(fd, 0, SEEK_SET);
    setitimer(ITIMER_REAL, &never, NULL);
    if (ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET)) perror("ftruncate");
    write_on(fd, 64 * KIB, 48 * MIB);
    fdatasync(fd);
    printf("stays %zu\n", resident_mib("jumps"));
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) perror("prctl");
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter)) perror("seccomp");
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("waits %ld\n", (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000);
}

static void *writer(void *number) {
    static int shared = -1;
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&once);
    if (shared < 0) shared = open("threads", O_WRONLY | O_CREAT, 0600);
    pthread_mutex_unlock(&once);
    long at = (long)number;
    size_t bytes = at % 2 ? 16 * KIB : LARGE;
    for (size_t done = 0; done < 8 * MIB; done += bytes)
        if (pwrite(shared, memory + at * 4096, bytes, at * 8 * MIB + done) != (ssize_t)bytes) abort();
    /* All threads also write at the position of one descriptor. */
    static int appended = -1;
    pthread_mutex_lock(&once);
    if (appended < 0) appended = open("appended", O_WRONLY | O_CREAT, 0600);
    pthread_mutex_unlock(&once);
    for (int i = 0; i < 500; i++)
        if (write(appended, memory, 8 * KIB) != 8 * KIB) abort();
    return NULL;
}

static void threads(void) {
    pthread_t all[6];
    for (long i = 0; i < 6; i++) pthread_create(&all[i], NULL, writer, (void *)i);
    for (int i = 0; i < 6; i++) pthread_join(all[i], NULL);
    printf("threads %016lx %016lx\n", held_by("threads"), held_by("appended"));
}

static void forks(void) {
    int fd = open("forks", O_WRONLY | O_CREAT, 0600);
    for (int i = 0; i < 100; i++)
        if (write(fd, memory, 64 * KIB) < 0) perror("write");
    for (int child = 0; child < 4; child++) {
        pid_t made = child == 3 ? vfork() : fork();
        if (made == 0) {
            for (int i = 0; i < 400; i++)
                if (write(fd, memory, 16 * KIB) < 0) _exit(1);
            _exit(0);
        }
        int status;
        waitpid(made, &status, 0);
        printf("child %d\n", status);
    }
    printf("forks %ld %016lx\n", (long)lseek(fd, 0, SEEK_CUR), held_by("forks"));
}

static void *drain(void *fd) {
    static char bytes[MIB];
    uint64_t hash = 0, all = 0;
    for (ssize_t got; (got = read(*(int *)fd, bytes, sizeof bytes)) > 0;)
        for (ssize_t i = 0; i < got; i++) hash = mix(hash, (unsigned char)bytes[i]), all++;
    printf("drained %lu %016lx\n", all, hash);
    return NULL;
}

static void pipes(void) {
    for (int kind = 0; kind < 2; kind++) {
        int ends[2];
        pthread_t reader;
        if (kind ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) perror("pipe");
        pthread_create(&reader, NULL, drain, &ends[0]);
        for (int i = 0; i < 300; i++)
            if (write(ends[1], memory, i % 2 ? 100 : LARGE) < 0) perror("write");
        int file = open("source", O_RDWR | O_CREAT, 0600);
        if (write(file, memory, MIB) < 0) perror("write");
        off_t from = 0;
        while (from < (off_t)MIB) if (sendfile(ends[1], file, &from, MIB - from) < 0) break;
        close(ends[1]);
        pthread_join(reader, NULL);
        fflush(stdout);
        signal(SIGPIPE, SIG_IGN);
        close(ends[0]);
    }
    print_state("closed", write(400, memory, LARGE));
    int null = open("/dev/null", O_WRONLY);
    for (int i = 0; i < 300; i++) if (write(null, memory, LARGE) != LARGE) perror("null");
    int name = open("/proc/self/comm", O_WRONLY);
    print_state("proc", write(name, "another", 7));
    int nonblocking[2];
    if (pipe2(nonblocking, O_NONBLOCK)) perror("pipe2");
    long all = 0, got;
    while ((got = write(nonblocking[1], memory, LARGE)) > 0) all += got;
    print_state("nonblocking", got);
    printf("took %ld\n", all);
}

static void files(void) {
    struct rlimit limit = {12000, 12000};
    if (setrlimit(RLIMIT_NOFILE, &limit)) limit.rlim_cur = 900;
    int many = limit.rlim_cur - 100, *all = malloc(many * sizeof *all), opened = 0;
    char name[32];
    for (int i = 0; i < many; i++) {
        snprintf(name, sizeof name, "f%d", i % 2000);
        all[i] = open(name, O_RDWR | O_CREAT, 0600);
        opened += all[i] >= 0 && write(all[i], memory, 16) == 16;
    }
    for (int i = 0; i < many; i += 97)
        for (int j = 0; j < 3; j++)
            if (write(all[i], memory, 100 * KIB) != 100 * KIB) perror("write");
    for (int i = 0; i < many; i++) close(all[i]);
    printf("opened all %d, descriptor after %d, %016lx\n", opened == many, dup(1) < 10, held_by("f97"));
}

static void *blocked(void *fd) {
    (void)!write(*(int *)fd, memory, sizeof memory);
    return NULL;
}

static void *writes_on(void *fd) {
    for (;;) if (pwrite(*(int *)fd, memory, LARGE, 0) < 0) abort();
    return NULL;
}

static void cancelled(void) {
    int ends[2];
    pthread_t thread;
    void *result;
    if (pipe(ends)) perror("pipe");
    pthread_create(&thread, NULL, blocked, &ends[1]);
    usleep(100000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("pipe cancelled %d\n", result == PTHREAD_CANCELED);
    int fd = open("cancelled", O_WRONLY | O_CREAT, 0600);
    for (int i = 0; i < 10; i++) {
        pthread_create(&thread, NULL, writes_on, &fd);
        usleep(3000 * i);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        printf("file cancelled %d\n", result == PTHREAD_CANCELED);
    }
    for (int i = 0; i < 4000; i++) if (write(fd, memory, 8 * KIB) < 0) abort();
    printf("after %016lx\n", held_by("cancelled"));
}

static size_t resident_mib(const char *name) {
    int fd = open(name, O_RDONLY);
    size_t bytes = lseek(fd, 0, SEEK_END), pages = bytes / 4096, resident = 0;
    unsigned char *map = malloc(pages);
    void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (mincore(at, bytes, map)) perror("mincore");
    for (size_t page = 0; page < pages; page++) resident += map[page] & 1;
    munmap(at, bytes);
    free(map);
    close(fd);
    return resident * 4096 / MIB;
}

/* How much of 96 MiB stays in the page cache, by the method of writing or reading. */
static void cache(void) {
    static const struct { const char *name; size_t bytes; } ways[] = {
        {"small", 8 * KIB}, {"medium", 128 * KIB}, {"large", MIB}};
    int fd;
    for (int way = 0; way < 3; way++) {
        fd = open(ways[way].name, O_WRONLY | O_CREAT, 0600);
        write_on(fd, ways[way].bytes, 96 * MIB);
        fdatasync(fd);
        printf("%s %zu\n", ways[way].name, resident_mib(ways[way].name));
        close(fd);
    }
    fd = open("vectored", O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < 96 * 8; i++) {
        struct iovec pieces[] = {{memory, 64 * KIB}, {memory, 64 * KIB}};
        if (pwritev(fd, pieces, 2, i * 128L * KIB) != 128L * (long)KIB) perror("pwritev");
    }
    fdatasync(fd);
    printf("vectored %zu\n", resident_mib("vectored"));
    int to = open("sendfile", O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < 96; i++) if (sendfile(to, fd, &(off_t){i * MIB}, MIB) != (long)MIB) perror("sendfile");
    fdatasync(to);
    printf("sendfile %zu\n", resident_mib("sendfile"));
    int random = open("random", O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < 96 * 128; i++)
        if (pwrite(random, memory, 8 * KIB, i * 7919 % (96 * 128) * 8L * KIB) < 0) perror("pwrite");
    fdatasync(random);
    printf("random %zu\n", resident_mib("random"));
    for (int way = 0; way < 2; way++) {
        fd = open(ways[way].name, O_RDONLY);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        while (read(fd, memory, way ? LARGE : 8 * KIB) > 0) {}
        printf("read-%s %zu\n", ways[way].name, resident_mib(ways[way].name));
        close(fd);
    }
}

/* MiB of 48 that stay in the page cache, written with so many bytes in a call by a descriptor that can only write,
 * or read as well, or after privileges were dropped. */
static void stays(const char *way, size_t bytes) {
    int fd = open("stays", O_CREAT | (strcmp(way, "write") ? O_RDWR : O_WRONLY), 0600);
    int drops = !strcmp(way, "dropped");
    if (drops && seteuid(65534)) perror("seteuid");
    write_on(fd, bytes, 48 * MIB);
    fdatasync(fd);
    close(fd);
    if (drops && seteuid(0)) perror("seteuid");
    printf("%zu\n", resident_mib("stays"));
}

/* MiB of 48 that stay in the page cache, if they were read before and are rewritten. */
static void rewrites(size_t bytes) {
    int fd = open("rewrites", O_CREAT | O_RDWR, 0600);
    write_on(fd, MIB, 48 * MIB);
    fdatasync(fd);
    lseek(fd, 0, SEEK_SET);
    while (read(fd, memory, MIB) > 0) {}
    for (int times = 0; times < 3; times++) {
        lseek(fd, 0, SEEK_SET);
        write_on(fd, bytes, 48 * MIB);
    }
    fdatasync(fd);
    close(fd);
    printf("%zu\n", resident_mib("rewrites"));
}

static void root(void) {
    run_of("before", 0, 64 * KIB, 12 * MIB);
    if (chroot(".")) perror("chroot");
    run_of("/inside", 0, 8 * KIB, 12 * MIB);
}

int main(int count, char **arguments) {
    const char *name = arguments[1];
    /* Emulates a kernel without RWF_DONTCACHE by its release, 2.6 (personality(2)). */
    if (getenv("OLD") && !unsetenv("OLD") && personality(UNAME26) >= 0)
        execv("/proc/self/exe", arguments);
    if (count < 3 || chdir(arguments[2])) return 2;
    seed = 1;
    fill();
    if (!strcmp(name, "sequences")) sequences(atol(arguments[3]), atol(arguments[4]));
    else if (!strcmp(name, "functions")) write_functions();
    else if (!strcmp(name, "limited")) limited();
    else if (!strcmp(name, "full")) full();
    else if (!strcmp(name, "lost")) lost(atol(arguments[3]));
    else if (!strcmp(name, "signals")) signals();
    else if (!strcmp(name, "siglongjmp")) jumps();
    else if (!strcmp(name, "threads")) threads();
    else if (!strcmp(name, "forks")) forks();
    else if (!strcmp(name, "pipes")) pipes();
    else if (!strcmp(name, "files")) files();
    else if (!strcmp(name, "cancelled")) cancelled();
    else if (!strcmp(name, "root")) root();
    else if (!strcmp(name, "cache")) cache();
    else if (!strcmp(name, "rewrites")) rewrites(atol(arguments[3]));
    else if (!strcmp(name, "stays")) stays(arguments[3], atol(arguments[4]));
    else return 2;
    return 0;
}
