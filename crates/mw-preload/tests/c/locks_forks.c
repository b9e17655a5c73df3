/* Forks while other threads lock memory: a lock that they hold at that moment is never released in the child. */
#include "state.h"
#include <pthread.h>
#include <time.h>

#define SIZE (64 * 1024)
#define SLOW_MS 500

static _Atomic int stop;

static void *lock(void *unused) {
    char *at = map(SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    while (!stop)
        if (mlock(at, PAGE)) perror("mlock"), exit(3);
    return unused;
}

static int is_slow(void) {
    struct timespec used;
    for (int i = 0; i < 50; i++) {
        char *at = map(SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
        if (mlock(at, PAGE) || munmap(at, SIZE)) return 1;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * 1000 + used.tv_nsec / 1000000 > SLOW_MS;
}

/* Memory that the parent has locked is not locked in the child; memory that the child locks is. */
static int is_wrong(char *of_parent) {
    char *own = map(SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    if (madvise(of_parent, PAGE, MADV_DONTNEED)) return 1;
    return mlock(own, PAGE) || madvise(own, PAGE, MADV_DONTNEED) != -1 || errno != EINVAL;
}

int main(void) {
    char *at = map(SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    int slow = 0, wrong = 0;
    pthread_t threads[2];
    if (mlock(at, SIZE)) perror("mlock");
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, lock, NULL);
    for (int i = 0; i < 1000; i++) {
        pid_t pid = fork();
        int status = -1;
        if (pid == 0) _exit(is_wrong(at) ? 2 : is_slow());
        if (pid < 0 || waitpid(pid, &status, 0) != pid) return 3;
        slow += WIFEXITED(status) && WEXITSTATUS(status) == 1;
        wrong += !WIFEXITED(status) || WEXITSTATUS(status) == 2;
    }
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    printf("children that are slow: %d, wrong: %d\n", slow, wrong);
    return 0;
}
