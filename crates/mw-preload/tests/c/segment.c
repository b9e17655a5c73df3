/* A program with a System V segment: `segment MIB` prints what it observes, `segment MIB create KEY` leaves a
 * segment, `segment MIB attach KEY` attaches it, and `segment MIB remove KEY` removes it. */
#include "state.h"

#include <sys/ipc.h>
#include <sys/shm.h>

static size_t bytes;

static int all_are(const unsigned char *at, unsigned char wanted) {
    for (size_t i = 0; i < bytes; i += 512)
        if (at[i] != wanted) return 0;
    return 1;
}

static void tell(const char *what, int id) {
    struct shmid_ds about;
    int done = shmctl(id, IPC_STAT, &about);
    if (done)
        printf("%s: %s\n", what, strerror(errno));
    else
        printf("%s: size %zu, mode %o, attached %lu, made by us %d\n", what, about.shm_segsz,
               about.shm_perm.mode, (unsigned long)about.shm_nattch, about.shm_cpid == getpid());
}

static void refused(const char *what, int yes) { printf("%s: %d, %s\n", what, yes, strerror(errno)); }

static void detach(void *at, int id) {
    printf("detached %d\n", shmdt(at));
    refused("again", shmdt(at) < 0);
    tell("after", id);
}

/* The operations of one process and its children. */
static void alone(int flags) {
    int id = shmget(IPC_PRIVATE, bytes, flags | 0600);
    if (id < 0) {
        printf("shmget: %s\n", strerror(errno));
        exit(3);
    }
    tell("new", id);
    unsigned char *at = shmat(id, NULL, 0);
    printf("zero %d\n", all_are(at, 0));
    tell("attached", id);
    if (fork() == 0) {
        memset(at, 0xab, bytes);
        tell("in the child", id);
        unsigned char *other = shmat(id, NULL, SHM_RDONLY);
        printf("the same %d, elsewhere %d\n", all_are(other, 0xab), other != at);
        fflush(stdout);
        _exit(shmdt(at));
    }
    int status;
    wait(&status);
    printf("child %d, shared %d\n", status, all_are(at, 0xab));
    tell("without it", id);

    struct shmid_ds about;
    shmctl(id, IPC_STAT, &about);
    about.shm_perm.mode = 0400;
    printf("changed %d\n", shmctl(id, IPC_SET, &about));
    tell("changed", id);
    about.shm_perm.mode = 0600;
    shmctl(id, IPC_SET, &about);

    refused("from nowhere", shmctl(id, IPC_SET, (void *)8) < 0);
    refused("from null", shmctl(id, IPC_SET, NULL) < 0);
    refused("to nowhere", shmctl(id, IPC_STAT, (void *)8) < 0);

    /* At a free address, and at one that is in use. */
    char *place = mmap(NULL, bytes + 64 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *aligned = (char *)(((uintptr_t)place + 2 * MIB - 1) / (2 * MIB) * (2 * MIB));
    refused("taken", shmat(id, aligned, 0) == (void *)-1);
    munmap(place, bytes + 64 * MIB);
    unsigned char *there = shmat(id, aligned + 1, SHM_RND);
    printf("there %d, the same %d\n", (char *)there == aligned, all_are(there, 0xab));
    refused("not aligned", shmat(id, aligned + 1, 0) == (void *)-1);
    detach(there, id);

    printf("removed %d\n", shmctl(id, IPC_RMID, NULL));
    tell("removed", id);
    printf("still there %d\n", all_are(at, 0xab));
    detach(at, id);
    refused("gone", shmat(id, NULL, 0) == (void *)-1);
}

static int named(const char *what, key_t key) {
    int id = shmget(key, bytes, !strcmp(what, "create") ? IPC_CREAT | 0600 : 0);
    unsigned char *at = shmat(id, NULL, 0);
    if (at == (void *)-1) {
        printf("not attached: %s\n", strerror(errno));
        return 1;
    }
    tell(what, id);
    if (!strcmp(what, "create")) {
        refused("exclusive", shmget(key, bytes, IPC_CREAT | IPC_EXCL | 0600) < 0);
        printf("the same %d\n", shmget(key, bytes, IPC_CREAT | 0600) == id);
        refused("larger", shmget(key, 2 * bytes, 0) < 0);
        memset(at, 0x77, bytes);
        return 0;
    }
    printf("as it was left %d\n", all_are(at, 0x77));
    if (!strcmp(what, "remove")) printf("removed %d\n", shmctl(id, IPC_RMID, NULL));
    return 0;
}

int main(int argc, char **argv) {
    setbuf(stdout, NULL);
    bytes = strtoul(argv[1], NULL, 10) * MIB - 100;
    if (argc > 3) return named(argv[2], strtol(argv[3], NULL, 0));
    alone(IPC_CREAT);
    alone(0);
    return 0;
}
