/* Large memory in threads, for programs that are built with a sanitizer. */
#include "state.h"
#include <pthread.h>

#define SIZE (32 * MIB)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int rounds, failures;

static void *work(void *unused) {
    int rw = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    for (int i = 0; i < 5; i++) {
        char *at = mmap(NULL, SIZE, rw, flags | MAP_POPULATE, -1, 0), *other = mmap(NULL, SIZE, rw, flags, -1, 0);
        int failed = at == MAP_FAILED || other == MAP_FAILED || mlock(other, SIZE / 2);
        memset(at, i, SIZE);
        failed |= madvise(at, SIZE, MADV_DONTNEED) || at[SIZE / 2] != 0;
        memset(at, i, SIZE);
        failed |= munmap(at, SIZE) || munmap(other, SIZE);
        pthread_mutex_lock(&lock);
        rounds++, failures += failed;
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

int main(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    char *piece = malloc(SIZE);
    memset(piece, 1, SIZE);
    free(piece);
    printf("rounds %d, failures %d\n", rounds, failures);
    return 0;
}
