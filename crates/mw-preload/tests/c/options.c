/* Which memory is resident after it was mapped. */
#include "state.h"
#include <sys/shm.h>

#define SIZE (16 * MIB)

int main(void) {
    int rw = PROT_READ | PROT_WRITE;
    say_state_from();
    char *at = map_isolated(SIZE, rw, MAP_PRIVATE | MAP_ANONYMOUS);
    struct range private = range(at, SIZE);
    char *shared = map_isolated(SIZE, rw, MAP_SHARED | MAP_ANONYMOUS);
    char *reserved = map_isolated(SIZE, rw, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    int id = shmget(IPC_PRIVATE, SIZE, 0600);
    char *sysv = shmat(id, NULL, 0);
    shmctl(id, IPC_RMID, NULL);
    char line[512];
    int inside = 0, huge = 0;
    uintptr_t start, end;
    FILE *file = of_proc("self/smaps");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2 && strchr(line, '-') < strchr(line, ' '))
            inside = start == (uintptr_t)at;
        if (inside && !strncmp(line, "VmFlags:", 8)) huge = strstr(line, " hg") != NULL;
    }
    printf("private %ld of %ld, shared %ld, sysv %ld, reserved %ld, locked %ld, huge %d\n",
           private.resident, private.mapped, range(shared, SIZE).resident,
           range(sysv, SIZE).resident, range(reserved, SIZE).resident, private.locked, huge);
    return 0;
}
