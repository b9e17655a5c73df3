/* Large memory in every situation of a program. */
#include "state.h"
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/time.h>

#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define SIZE (16 * MIB)

static void lock_and_free_some(const char *what, size_t size) {
    char *at = map_isolated(size, RW, ANON);
    print_state(what, mlock(at, size), at, size);
    printf("zero %ld\n", is_zero(at, size));
    memset(at, 7, size);
    print_state("again", mlock2(at + 5, size - PAGE, 0), at, size);
    print_state("munlock", munlock(at, size / 2), at, size);
    print_state("munmap", munmap(at, size), at, size);
}

static void lock_and_free(const char *what) { lock_and_free_some(what, SIZE); }

static long attached(int id) {
    struct shmid_ds about;
    return shmctl(id, IPC_STAT, &about) ? -1 : (long)about.shm_nattch;
}

static void segments(void) {
    int id = shmget(IPC_PRIVATE, SIZE - 5, 0600);
    char *at = shmat(id, NULL, 0), *other = shmat(id, NULL, 0);
    print_state("sysv", mlock(at, SIZE), at, SIZE);
    memset(other, 4, SIZE);
    printf("inside %d", shmdt(other + MIB));
    printf(" %d\n", errno);
    print_state("sysv detached", shmdt(other), other, SIZE);
    printf("attached %ld, holds %d\n", attached(id), at[SIZE - 6]);
    printf("lock %d\n", shmctl(id, SHM_LOCK, NULL));
    shmctl(id, IPC_RMID, NULL);
    print_state("locked sysv detached", shmdt(at), at, SIZE);
    printf("attached %ld", attached(id));
    printf(" %d, again %d", errno, shmdt(at));
    printf(" %d\n", errno);
    id = shmget(IPC_PRIVATE, SIZE, 0600);
    at = shmat(id, NULL, 0);
    memset(at, 5, SIZE);
    print_state("half unmapped", munmap(at + SIZE / 2, SIZE / 2), at, SIZE);
    printf("attached %ld\n", attached(id));
    print_state("half detached", shmdt(at), at, SIZE);
    shmctl(id, IPC_RMID, NULL);
    at = map_isolated(SIZE, RW, MAP_SHARED | MAP_ANONYMOUS);
    memset(at, 5, SIZE);
    printf("no segment %d", shmdt(at));
    printf(" %d\n", errno);
    print_state("no segment", mlock(at, SIZE), at, SIZE);
}

static void kinds(void) {
    lock_and_free("anonymous");
    char *at = map_isolated(SIZE, RW, MAP_SHARED | MAP_ANONYMOUS);
    print_state("shared", mlock(at, SIZE), at, SIZE);
    print_state("dontneed of locked", madvise(at, SIZE, MADV_DONTNEED), at, SIZE);
    munmap(at, SIZE);
    at = map_isolated(SIZE, PROT_READ, ANON);
    print_state("read only", mlock(at, SIZE), at, SIZE);
    print_state("for writing", madvise(at, SIZE, MADV_POPULATE_WRITE), at, SIZE);
    munmap(at, SIZE);
    at = map_isolated(SIZE, PROT_WRITE, ANON);
    print_state("write only", mlock(at, SIZE), at, SIZE);
    munmap(at, SIZE);
    at = map_isolated(SIZE, PROT_EXEC, ANON | MAP_POPULATE);
    print_state("execute only", 0, at, SIZE);
    munmap(at, SIZE);
    at = map_isolated(SIZE, RW, ANON | MAP_NORESERVE);
    print_state("no reserve", mlock(at, SIZE), at, SIZE);
    munmap(at, SIZE);
    at = map_isolated(SIZE, PROT_NONE, ANON);
    print_state("no access", mlock(at, SIZE), at, SIZE);
    munmap(at, SIZE);
    char last[1];
    int fd = memfd_create("test", MFD_CLOEXEC);
    if (ftruncate(fd, SIZE)) perror("ftruncate");
    at = map_isolated(SIZE, PROT_NONE, ANON);
    mmap(at, SIZE, RW, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0);
    print_state("memfd", 0, at, SIZE);
    print_state("memfd lock", mlock(at, SIZE), at, SIZE);
    mmap(at, SIZE, RW, MAP_PRIVATE | MAP_FIXED | MAP_POPULATE, fd, 0);
    print_state("private memfd", 0, at, SIZE);
    mmap(at, SIZE, RW, MAP_SHARED | MAP_FIXED, fd, SIZE / 2);
    print_state("beyond its end", mlock(at, SIZE), at, SIZE);
    print_state("beyond its end", madvise(at, SIZE, MADV_POPULATE_READ), at, SIZE);
    munmap(at, SIZE);
    char name[] = "memwright-test-XXXXXX";
    fd = mkstemp(name);
    unlink(name);
    if (ftruncate(fd, SIZE)) perror("ftruncate");
    at = map_isolated(SIZE, PROT_NONE, ANON);
    mmap(at, SIZE, RW, MAP_PRIVATE | MAP_FIXED, fd, 0);
    print_state("file", mlock(at, SIZE), at, SIZE);
    mmap(at, SIZE, RW, MAP_PRIVATE | MAP_FIXED | MAP_LOCKED, fd, 0);
    print_state("file locked", munmap(at, SIZE / 2), at, SIZE);
    munmap(at, SIZE);
    fd = memfd_create("test", MFD_CLOEXEC);
    if (ftruncate(fd, SIZE)) perror("ftruncate");
    at = map_isolated(SIZE, PROT_NONE, ANON);
    mmap(at, SIZE, RW, MAP_SHARED | MAP_FIXED, fd, 0);
    memset(at, 6, SIZE);
    print_state("written memfd", madvise(at, SIZE, MADV_DONTNEED), at, SIZE);
    printf("still there %d\n", at[0] + at[SIZE - 1]);
    memset(at, 7, SIZE);
    print_state("memfd unmapped", munmap(at, SIZE), at, SIZE);
    if (pread(fd, last, 1, SIZE - 1) != 1) perror("pread");
    printf("in the file %d\n", last[0]);
    mmap(at, SIZE, RW, MAP_PRIVATE | MAP_FIXED, fd, 0);
    memset(at, 8, SIZE);
    print_state("private memfd", madvise(at, SIZE, MADV_DONTNEED), at, SIZE);
    printf("the file's %d\n", at[SIZE - 1]);
    memset(at, 8, SIZE);
    print_state("private memfd unmapped", munmap(at, SIZE), at, SIZE);
    segments();
}

static void shapes(void) {
    char *at = map_isolated(SIZE, RW, ANON);
    munmap(at + 10 * MIB, MIB);
    print_state("hole", mlock(at, SIZE), at, SIZE);
    print_state("hole", madvise(at, SIZE, MADV_POPULATE_WRITE), at, SIZE);
    print_state("hole", madvise(at, SIZE, MADV_DONTNEED), at, SIZE);
    print_state("hole", munmap(at, SIZE), at, SIZE);
    at = map_isolated(SIZE, RW, ANON);
    mprotect(at + 10 * MIB, MIB, PROT_NONE);
    print_state("forbidden part", mlock(at, SIZE), at, SIZE);
    print_state("forbidden part", munlock(at, SIZE), at, SIZE);
    print_state("forbidden part", madvise(at, SIZE, MADV_DONTNEED), at, SIZE);
    mprotect(at + 10 * MIB, MIB, PROT_READ);
    print_state("read only part", madvise(at, SIZE, MADV_POPULATE_WRITE), at, SIZE);
    mlock(at, MIB);
    print_state("locked part", madvise(at, SIZE, MADV_DONTNEED), at, SIZE);
    print_state("several parts", munmap(at, SIZE), at, SIZE);
    at = map_isolated(SIZE, RW, ANON);
    madvise(at, SIZE, MADV_POPULATE_WRITE);
    print_state("middle", munmap(at + 4 * MIB, 8 * MIB), at, SIZE);
    print_state("ends", munmap(at, SIZE), at, SIZE);
    at = map_isolated(SIZE, RW, ANON);
    madvise(at, SIZE, MADV_POPULATE_WRITE);
    print_state("unaligned", munmap(at + 1, SIZE - PAGE), at, SIZE);
    print_state("unaligned", madvise(at + 1, SIZE - PAGE, MADV_DONTNEED), at, SIZE);
    print_state("odd length", madvise(at, SIZE - PAGE + 1, MADV_DONTNEED), at, SIZE);
    print_state("overflow", mlock(at, SIZE_MAX - 4096), at, SIZE);
    print_state("overflow", munmap(at, SIZE_MAX - 4095), at, SIZE);
    print_state("overflow", madvise(at, SIZE_MAX, MADV_DONTNEED), at, SIZE);
    print_state("unknown advice", madvise(at, SIZE, 12345), at, SIZE);
    print_state("unknown flags", mlock2(at, SIZE, 64), at, SIZE);
    print_state("on fault", mlock2(at, SIZE, MLOCK_ONFAULT), at, SIZE);
    print_state("then all", mlock(at, SIZE), at, SIZE);
    munmap(at, SIZE);
    errno = 99;
    at = mmap(NULL, SIZE, RW, ANON | MAP_POPULATE, -1, 0);
    printf("errno %d, zero %ld\n", errno, is_zero(at, SIZE));
    memset(at, 1, SIZE);
    mmap(at, SIZE, RW, ANON | MAP_POPULATE | MAP_FIXED, -1, 0);
    printf("errno %d, zero %ld\n", errno, is_zero(at, SIZE));
    printf("taken %d", mmap(at, SIZE, RW, ANON | MAP_POPULATE | MAP_FIXED_NOREPLACE, -1, 0) == at);
    printf(" %d\n", errno);
    printf("no descriptor %d", mmap(NULL, SIZE, RW, MAP_SHARED | MAP_POPULATE, -1, 0) == at);
    printf(" %d\n", errno);
    printf("odd offset %d", mmap(NULL, SIZE, RW, MAP_SHARED | MAP_POPULATE, 0, 1) == at);
    printf(" %d\n", errno);
    printf("too much %d", mmap(NULL, SIZE_MAX / 2, RW, ANON | MAP_POPULATE, -1, 0) == at);
    printf(" %d\n", errno);
    /* mseal(2), kernel 6.10: the same number everywhere. */
    print_state("seal", syscall(462, at, SIZE, 0), at, SIZE);
    memset(at, 3, SIZE);
    print_state("sealed", munmap(at, SIZE), at, SIZE);
}

static void all(void) {
    char *at = map_isolated(SIZE, RW, ANON), *none = map_isolated(SIZE, PROT_NONE, ANON);
    printf("current %d\n", mlockall(MCL_CURRENT));
    print_state("current", 0, at, SIZE);
    print_state("no access", 0, none, SIZE);
    printf("wrong %d", mlockall(MCL_CURRENT | 64));
    printf(" %d\n", errno);
    printf("future %d\n", mlockall(MCL_CURRENT | MCL_FUTURE));
    at = map_isolated(SIZE, RW, ANON);
    print_state("later", 0, at, SIZE);
    at = map_isolated(SIZE, RW, ANON | MAP_POPULATE);
    print_state("later populated", 0, at, SIZE);
    printf("on fault %d\n", mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT));
    at = map_isolated(SIZE, RW, ANON | MAP_POPULATE);
    print_state("later on fault", munlockall(), at, SIZE);
}

static void drop_ipc_lock(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    syscall(SYS_capget, &header, data);
    data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
    if (syscall(SYS_capset, &header, data)) perror("capset");
}

static void memlock(void) {
    size_t size = 4 * MIB;
    drop_ipc_lock();
    for (size_t mib = 0; mib <= 6; mib += 3) {
        limit(RLIMIT_MEMLOCK, mib * MIB);
        lock_and_free_some("limited", size);
        char *at = mmap(NULL, size, RW, ANON | MAP_LOCKED, -1, 0);
        printf("locked %d errno %d\n", at != MAP_FAILED, at == MAP_FAILED ? errno : 0);
        if (at != MAP_FAILED) print_state("locked", munmap(at, size), at, size);
        at = map_isolated(size, RW, ANON);
        memset(at, 5, size);
        char *over = mmap(at, size, RW, ANON | MAP_LOCKED | MAP_FIXED, -1, 0);
        print_state("over", over == at ? 0 : -1, at, size);
        printf("there %d\n", at[size - 1]);
        munmap(at, size);
    }
}

static void address_space(void) {
    char *at = map_isolated(SIZE, RW, ANON);
    limit(RLIMIT_AS, (size_t)status("VmSize") * 1024 + 64 * 1024);
    print_state("lock", mlock(at, SIZE), at, SIZE);
    print_state("munmap", munmap(at, SIZE), at, SIZE);
}

static void processes(void) {
    limit(RLIMIT_NPROC, 0);
    if (setgid(65534) || setuid(65534)) perror("setuid");
    char *at = map_isolated(SIZE, RW, ANON | MAP_POPULATE);
    print_state("populated", 0, at, SIZE);
    print_state("munmap", munmap(at, SIZE), at, SIZE);
}

static void wait_for(pid_t pid) {
    int status;
    waitpid(pid, &status, 0);
    printf("child %d %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1,
           WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void in_fork(const char *what, void (*body)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        body();
        fflush(stdout);
        _exit(0);
    }
    printf("%s: ", what);
    wait_for(pid);
}

static void child(void) { lock_and_free("in a child"); }

static void *map_and_unmap(void *rounds) {
    for (long i = 0; i < (long)rounds; i++) {
        char *at = mmap(NULL, SIZE / 2, RW, ANON | MAP_POPULATE, -1, 0);
        if (at == MAP_FAILED || mlock(at, SIZE / 2) || !is_zero(at, SIZE / 2) ||
            munmap(at, SIZE / 2))
            return (void *)1;
    }
    return NULL;
}

static void forks(void) {
    in_fork("fork", child);
    pthread_t thread;
    pthread_create(&thread, NULL, map_and_unmap, (void *)20);
    for (int i = 0; i < 10; i++) {
        pid_t pid = fork();
        if (pid == 0) _exit(map_and_unmap((void *)1) != NULL);
        wait_for(pid);
    }
    void *result;
    pthread_join(thread, &result);
    printf("thread %ld\n", (long)result);
    char *volatile at = map_isolated(SIZE, RW, ANON);
    memset(at, 9, SIZE);
    pid_t pid = vfork();
    if (pid == 0) _exit(mlock(at, SIZE) != 0 || munmap(at, SIZE) != 0);
    wait_for(pid);
    print_state("vfork", 0, at, SIZE);
}

static void threads(void) {
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, map_and_unmap, (void *)5);
    for (int i = 0; i < 8; i++) {
        void *result;
        pthread_join(threads[i], &result);
        printf("thread %ld\n", (long)result);
    }
    lock_and_free("afterwards");
}

static sigjmp_buf back;
static volatile sig_atomic_t handled;
static void count(int signal) { handled += signal > 0; }
static void jump(int signal) { siglongjmp(back, signal); }
static void free_in_handler(int signal) {
    char *at = mmap(NULL, SIZE, RW, ANON | MAP_POPULATE, -1, 0);
    handled = signal > 0 && mlock(at, SIZE) == 0 && munmap(at, SIZE) == 0;
}

static void signals(void) {
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    signal(SIGALRM, count);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 20; i++)
        if (map_and_unmap((void *)1)) printf("failed\n");
    setitimer(ITIMER_REAL, &never, NULL);
    printf("handled %d\n", handled > 0);
    signal(SIGALRM, jump);
    for (volatile int i = 0; i < 20; i++) {
        char *volatile at = mmap(NULL, SIZE, RW, ANON, -1, 0);
        if (sigsetjmp(back, 1) == 0) {
            struct itimerval soon = {{0, 0}, {0, 300}};
            setitimer(ITIMER_REAL, &soon, NULL);
            mlock(at, SIZE);
            while (1) pause();
        }
        munmap(at, SIZE);
    }
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    printf("blocked %d\n", sigismember(&mask, SIGUSR1));
    handled = 0;
    signal(SIGUSR1, free_in_handler);
    raise(SIGUSR1);
    printf("in a handler %d\n", handled);
    lock_and_free("afterwards");
}

static void terminate_soon(void) {
    struct itimerval soon = {{0, 0}, {0, 2000}};
    signal(SIGALRM, SIG_DFL);
    setitimer(ITIMER_REAL, &soon, NULL);
    while (1) map_and_unmap((void *)1);
}

static void ended(void) { in_fork("ended by a signal", terminate_soon); }

static void *lock_when_cancelled(void *at) {
    pthread_cancel(pthread_self());
    long result = mlock(at, SIZE);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return (void *)(result + 5);
}

static void cancelled(void) {
    char *at = map_isolated(SIZE, RW, ANON);
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, lock_when_cancelled, at);
    pthread_join(thread, &result);
    print_state("cancelled", (long)result, at, SIZE);
}

/* Makes calls that the program does not make fail, or kills it at them. */
static void confine(unsigned action, int by_prctl) {
    int unexpected[] = {SYS_clone, SYS_clone3, SYS_close_range, SYS_memfd_create, SYS_statfs};
    struct sock_filter filter[16] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    int length = 1;
    for (unsigned i = 0; i < 5; i++) {
        struct sock_filter equal = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, unexpected[i], 0, 1);
        struct sock_filter act = BPF_STMT(BPF_RET | BPF_K, action);
        filter[length++] = equal;
        filter[length++] = act;
    }
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[length++] = allow;
    struct sock_fprog program = {length, filter};
    long done = by_prctl ? prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
                               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
                         : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
    if (done) perror("seccomp");
}

static void refuse(void) { confine(SECCOMP_RET_ERRNO | EPERM, 1), lock_and_free("refused"); }
static void kill_it(void) { confine(SECCOMP_RET_KILL_PROCESS, 1), lock_and_free("killed"); }
static void raw_kill(void) { confine(SECCOMP_RET_KILL_PROCESS, 0), lock_and_free("raw"); }

static void seccomp(void) {
    in_fork("refusing", refuse);
    in_fork("killing", kill_it);
    in_fork("killing, installed past the C library", raw_kill);
}

static void root(void) {
    char dir[] = "/tmp/memwright-test-XXXXXX";
    if (!mkdtemp(dir) || chroot(dir) || chdir("/")) perror("chroot");
    lock_and_free("chroot");
    if (fchdir(proc) || chroot("..") || rmdir(dir)) perror("rmdir");
}

static void no_descriptors(void) {
    int out = dup(1);
    for (int fd = 0; fd < 1024; fd++)
        if (fd != out && fd != proc) close(fd);
    char *at = map_isolated(SIZE, RW, ANON);
    int locked = mlock(at, SIZE), unmapped = munmap(at, SIZE);
    int first = open("/dev/null", O_RDONLY), second = open("/dev/null", O_RDONLY);
    dprintf(out, "%d %d, next %d %d\n", locked, unmapped, first, second);
    limit(RLIMIT_NOFILE, 0);
    at = map_isolated(SIZE, RW, ANON);
    dprintf(out, "%d %d\n", mlock(at, SIZE), munmap(at, SIZE));
}

static volatile int watching;
static void *watch_descriptors(void *seen) {
    while (watching)
        for (int fd = proc + 1; fd < 64; fd++)
            if (fcntl(fd, F_GETFD) >= 0) *(int *)seen = fd;
    return NULL;
}

static void descriptors(void) {
    int seen = 0;
    pthread_t thread;
    watching = 1;
    pthread_create(&thread, NULL, watch_descriptors, &seen);
    for (int i = 0; i < 20; i++) map_and_unmap((void *)1);
    watching = 0;
    pthread_join(thread, NULL);
    printf("descriptors of others seen %d\n", seen);
}

static void dl(void) {
    void *library = dlopen("libm.so.6", RTLD_NOW);
    int (*lock)(const void *, size_t) = (int (*)(const void *, size_t))dlsym(RTLD_DEFAULT, "mlock");
    char *at = map_isolated(SIZE, RW, ANON);
    print_state("dlsym", lock(at, SIZE), at, SIZE);
    printf("%d\n", library != NULL && dlclose(library) == 0);
}

/* A buffer for stdio, so that printing does not allocate. */
int main(int count, char **names) {
    static const struct {
        const char *name;
        void (*body)(void);
    } situations[] = {
        {"kinds", kinds},           {"shapes", shapes},       {"all", all},
        {"memlock", memlock},       {"address-space", address_space},
        {"processes", processes},   {"forks", forks},         {"threads", threads},
        {"signals", signals},       {"ended", ended},         {"cancelled", cancelled},
        {"seccomp", seccomp},       {"root", root},           {"no-descriptors", no_descriptors},
        {"descriptors", descriptors}, {"dl", dl},
    };
    say_state_from();
    for (size_t i = 0; i < sizeof situations / sizeof *situations; i++)
        if (count > 1 && !strcmp(names[1], situations[i].name)) {
            situations[i].body();
            return 0;
        }
    return 2;
}
