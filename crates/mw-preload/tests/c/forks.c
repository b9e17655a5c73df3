/* Forks while another thread unmaps: no child may inherit the unmapped memory at any address. */
#include "state.h"
#include <pthread.h>

#define SIZE (8 * MIB)
#define PLACE ((char *)0x200000000000)

static _Atomic int stop;

static void *map_and_unmap(void *unused) {
    while (!stop) {
        char *at = mmap(PLACE, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0);
        if (at != PLACE || munmap(at, SIZE)) perror("mapping"), exit(3);
    }
    return unused;
}

/* Whether memory is resident or reserved that the program did not map. */
static int has_more(void) {
    char line[512];
    uintptr_t start = 0, end = 0;
    long value;
    int more = 0;
    FILE *file = fopen("/proc/self/smaps", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2) continue;
        int own = start >= (uintptr_t)PLACE && end <= (uintptr_t)PLACE + SIZE;
        if (sscanf(line, "Rss: %ld", &value) == 1 && value > 2 * 1024 && !own) more = 1;
    }
    if (file) fclose(file);
    return more;
}

int main(int count, char **names) {
    int forks = count > 1 ? atoi(names[1]) : 1000, bad = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, map_and_unmap, NULL);
    for (int i = 0; i < forks; i++) {
        pid_t pid = fork();
        int status = -1;
        if (pid == 0) _exit(has_more());
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status) bad++;
    }
    stop = 1;
    pthread_join(thread, NULL);
    printf("children that have more: %d\n", bad);
    return 0;
}
