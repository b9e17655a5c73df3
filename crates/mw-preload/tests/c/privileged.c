/* Prints its effective user, and populates memory. */
#include "state.h"

int main(void) {
    size_t pages = 0, size = 16 * MIB;
    unsigned char resident;
    char *at = map(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE);
    for (size_t page = 0; page < size / PAGE; page++)
        pages += mincore(at + page * PAGE, PAGE, &resident) == 0 && resident & 1;
    printf("user %d, populated %zu\n", geteuid(), pages);
    return 0;
}
