/* A daemon: it closes standard error and then opens a file, which gets the same number. */
#include "state.h"
#include <sys/stat.h>

int main(void) {
    struct stat about;
    char name[] = "memwright-test-XXXXXX";
    void *at = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    close(2);
    int fd = mkstemp(name);
    if (fd != 2 || munmap(at, 16 * MIB)) return 1;
    /* A child exits like a program, with its exit handlers. */
    pid_t pid = fork();
    if (pid == 0) {
        at = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        exit(0);
    }
    waitpid(pid, NULL, 0);
    fstat(fd, &about);
    unlink(name);
    printf("the file has %ld bytes\n", (long)about.st_size);
    return 0;
}
