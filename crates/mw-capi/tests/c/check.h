/* What must hold, or the program says where it did not. */
#include <stdio.h>
#include <stdlib.h>

#define MIB ((size_t)1 << 20)

#define CHECK(condition)                                                     \
    do {                                                                     \
        if (!(condition)) {                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);  \
            exit(EXIT_FAILURE);                                              \
        }                                                                    \
    } while (0)
