/* Programs with a seccomp filter that allows few system calls and kills them at any other. */
#include "state.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/shm.h>

#define SIZE (64 * MIB)
#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define LOAD BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define OTHERS(action) BPF_STMT(BPF_RET | BPF_K, action)

/* The system calls of the confined program itself. */
static struct sock_filter few[] = {
    LOAD, ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mlock), ALLOW(SYS_mlock2), ALLOW(SYS_munlock),
    ALLOW(SYS_madvise), ALLOW(SYS_shmdt), ALLOW(SYS_shmat), ALLOW(SYS_exit), ALLOW(SYS_exit_group),
    ALLOW(SYS_write), ALLOW(SYS_futex), OTHERS(SECCOMP_RET_KILL_PROCESS)};

/* System calls that neither the dynamic linker nor the program makes. */
static struct sock_filter unexpected[] = {
    LOAD, KILL(SYS_prctl), KILL(SYS_clone), KILL(SYS_clone3), KILL(SYS_mincore), KILL(SYS_mlock2),
    KILL(SYS_uname), KILL(SYS_close_range), KILL(SYS_memfd_create), KILL(SYS_statfs), KILL(SYS_fstatfs),
    KILL(SYS_rt_sigaction), KILL(SYS_rt_sigprocmask), KILL(SYS_getpid), KILL(SYS_gettid), KILL(SYS_mremap),
    KILL(SYS_readlinkat), KILL(SYS_madvise), KILL(SYS_fadvise64), KILL(SYS_seccomp),
    OTHERS(SECCOMP_RET_ALLOW)};

static struct sock_fprog of_few = {sizeof few / sizeof *few, few};
static struct sock_fprog of_unexpected = {sizeof unexpected / sizeof *unexpected, unexpected};

static void confine(const char *how) {
    long done = 0;
    if (!strcmp(how, "syscall")) done = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &of_few);
    if (!strcmp(how, "all-threads"))
        done = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &of_few);
    if (!strcmp(how, "prctl")) done = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &of_few);
    if (!strcmp(how, "prctl-by-number"))
        done = syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &of_few, 0, 0);
    if (!strcmp(how, "no-new-privileges")) done = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (!strcmp(how, "strict")) done = syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL);
    /* As libseccomp and systemd query the kernel's support. */
    if (!strcmp(how, "query"))
        done = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) != -1 || errno != EFAULT ||
               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) != -1 || errno != EFAULT;
    if (done) perror(how), exit(3);
}

static void put(const char *text) {
    if (write(1, text, strlen(text)) < 0) _exit(4);
}

static _Atomic int begun;

static void *lock_and_empty(void *at) {
    for (begun++; 1;) {
        void *new = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (new == MAP_FAILED || munmap(new, SIZE) || mlock(at, SIZE) || munlock(at, SIZE) ||
            madvise(at, SIZE, MADV_DONTNEED))
            put("failed\n");
    }
    return NULL;
}

/* Threads that are in large calls when all are confined. */
static void working(void) {
    pthread_t thread;
    for (int i = 0; i < 2; i++) {
        void *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pthread_create(&thread, NULL, lock_and_empty, at);
    }
    while (begun < 2) {}
    usleep(rand() % 30000);
    confine("all-threads");
    for (volatile long turn = 0; turn < 30000000; turn++) {}
    put("alive\n");
    syscall(SYS_exit_group, 0);
}

int main(int count, char **names) {
    if (count < 2) return 2;
    const char *how = names[1];
    if (!strcmp(how, "threads")) {
        srand(atoi(names[2]));
        working();
    }
    if (!strcmp(how, "inherited")) {
        /* As user nobody with PR_SET_NO_NEW_PRIVS, or as root. */
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &of_unexpected))
            return perror("prctl"), 3;
        execl(names[0], names[0], "none", NULL);
        return 3;
    }
    int flags = MAP_PRIVATE | MAP_ANONYMOUS, rw = PROT_READ | PROT_WRITE;
    char *full = mmap(NULL, SIZE, rw, flags, -1, 0), *empty = mmap(NULL, SIZE, rw, flags, -1, 0);
    memset(full, 1, SIZE);
    confine(how);
    if (strcmp(how, "strict")) {
        if (mlock(empty, SIZE) == 0) put("mlock\n");
        if (mmap(NULL, SIZE, rw, flags | MAP_POPULATE, -1, 0) != MAP_FAILED) put("mmap\n");
        if (shmdt(full) == -1) put("shmdt\n");
        if (strcmp(how, "none") && madvise(full, SIZE, MADV_DONTNEED) == 0) put("madvise\n");
        memset(full, 1, SIZE);
        if (munmap(full, SIZE) == 0) put("munmap\n");
    }
    put("end\n");
    if (!strcmp(how, "query")) return 0;
    syscall(SYS_exit, 0);
}
