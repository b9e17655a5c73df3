/* A program that shares large memory with its children: `shared MIB` prints what it observes, `shared MIB hold`
 * leaves a child without descriptors that keeps the memory until it is killed, `shared MIB stay` keeps it
 * itself. */
#include "state.h"
#include <signal.h>

static int all_are(const unsigned char *at, size_t bytes, unsigned char wanted) {
    for (size_t i = 0; i < bytes; i += 512)
        if (at[i] != wanted) return 0;
    return 1;
}

static int open_descriptors(void) {
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

int main(int argc, char **argv) {
    size_t bytes = strtoul(argv[1], NULL, 10) * MIB + 4096;
    int before = open_descriptors();
    unsigned char *at =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        printf("mmap: %s\n", strerror(errno));
        return 3;
    }
    if (argc > 2 && !strcmp(argv[2], "stay")) {
        printf("here\n");
        fflush(stdout);
        pause();
    }
    if (argc > 2) {
        memset(at, 0xcd, bytes);
        pid_t child = fork();
        if (child == 0) {
            for (int fd = 0; fd < 1024; fd++) close(fd);
            pause();
            _exit(0);
        }
        printf("%d\n", child);
        return 0;
    }
    printf("zero %d, descriptors %d\n", all_are(at, bytes, 0), open_descriptors() - before);
    if (fork() == 0) {
        memset(at, 0xab, bytes);
        _exit(munmap(at + bytes / 2 / 4096 * 4096, 4096));
    }
    int status;
    wait(&status);
    printf("child %d, shared %d\n", status, all_are(at, bytes, 0xab));
    printf("protected %d\n", mprotect(at, bytes, PROT_READ));
    printf("unmapped %d\n", munmap(at, bytes));
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    printf("again %d\n", at != MAP_FAILED && all_are(at, bytes, 0));
    return 0;
}
