/* A program with its own allocator, which maps and unmaps large memory while it holds its lock, and is called
 * before main and from threads. */
#include "state.h"
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char arena[64 << 20];
static size_t used;
static int inside, reentered;

static void *take(size_t bytes, size_t align) {
    pthread_mutex_lock(&mutex);
    reentered += inside++;
    void *result;
    if (bytes >= 8 * MIB) {
        result = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (result != MAP_FAILED && mlock(result, bytes)) perror("mlock");
    } else {
        used = (used + align - 1) & ~(align - 1);
        result = arena + used;
        used += bytes;
    }
    inside--;
    pthread_mutex_unlock(&mutex);
    return result;
}

void *malloc(size_t bytes) { return take(bytes, 16); }
void *calloc(size_t count, size_t bytes) { return take(count * bytes, 16); }
void *aligned_alloc(size_t align, size_t bytes) { return take(bytes, align); }
void free(void *at) { (void)at; }
void *realloc(void *at, size_t bytes) {
    void *moved = take(bytes, 16);
    if (at) memcpy(moved, at, bytes);
    return moved;
}

static void give_back(void *at, size_t bytes) {
    pthread_mutex_lock(&mutex);
    reentered += inside++;
    if (munmap(at, bytes)) perror("munmap");
    inside--;
    pthread_mutex_unlock(&mutex);
}

static void *use(void *rounds) {
    for (long i = 0; i < (long)rounds; i++) {
        char *large = malloc(16 * MIB);
        memset(large, 1, 16 * MIB);
        give_back(large, 16 * MIB);
    }
    return NULL;
}

__attribute__((constructor)) static void before_main(void) { use((void *)1); }

int main(void) {
    say_state_from();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, use, (void *)3);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    use((void *)3);
    printf("reentered %d, locked %ld, threads %ld\n", reentered, status("VmLck"),
           status("Threads"));
    return 0;
}
