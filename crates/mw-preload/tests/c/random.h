/* Pseudorandom numbers from a seed, and a hash. */
#include <stddef.h>
#include <stdint.h>

static uint64_t seed;

static uint64_t next(void) {
    uint64_t z = seed += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static size_t below(size_t limit) { return next() % limit; }

static uint64_t mix(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x100000001b3; }
