/* Populates private memory, and prints whether it is zero and can be written: `folios map MIB`, `folios later MIB` for
 * `--prefault`, `folios advises MIB` by a program that advises on huge pages itself. */
#include "state.h"

static void background_done(char *at, size_t bytes) {
    unsigned char *resident = malloc(bytes / PAGE);
    for (int polls = 0; polls < 6000; polls++) {
        size_t pages = 0;
        if (mincore(at, bytes, resident) == 0)
            for (size_t page = 0; page < bytes / PAGE; page++) pages += resident[page] & 1;
        if (pages == bytes / PAGE) break;
        usleep(10000);
    }
    free(resident);
}

int main(int argc, char **argv) {
    size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) << 20 : 0;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS, rw = PROT_READ | PROT_WRITE;
    if (!strcmp(argv[1], "advises")) {
        char *own = map(4 << 20, rw, flags);
        if (madvise(own, 4 << 20, MADV_NOHUGEPAGE)) perror("madvise");
    }
    int later = !strcmp(argv[1], "later");
    char *at = map(bytes, rw, later ? flags : flags | MAP_POPULATE);
    if (later) background_done(at, bytes);
    size_t wrong = 0;
    for (size_t byte = 0; byte < bytes; byte += 512) {
        wrong += at[byte] != 0;
        at[byte] = byte >> 9;
    }
    for (size_t byte = 0; byte < bytes; byte += 512) wrong += at[byte] != (char)(byte >> 9);
    printf("wrong %zu\n", wrong);
    return 0;
}
