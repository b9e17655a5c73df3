/*
 * swapped MIB RANDOM: a process with so many MiB, of whose pages RANDOM bytes are random and the others zero, all
 * swapped out as far as the swap takes them. Returns when they are; the process stays.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096UL

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

/* xorshift64: nothing compresses it. */
static uint64_t next_random(void)
{
	static uint64_t x = 88172645463325252ULL;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

static void swap_out(size_t bytes, size_t random)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	for (size_t page = 0; page < bytes; page += PAGE) {
		for (size_t at = 0; at < random; at += sizeof(uint64_t))
			*(uint64_t *)(p + page + at) = next_random();
	}
	for (size_t page = 0; page < bytes; page += 1 << 20) {
		if (madvise(p + page, 1 << 20, MADV_PAGEOUT))
			die("madvise");
	}
}

int main(int argc, char **argv)
{
	int ends[2];
	char done;

	if (argc != 3 || pipe(ends))
		return 2;
	if (fork() == 0) {
		close(ends[0]);
		setsid();
		swap_out(strtoull(argv[1], NULL, 10) << 20, strtoull(argv[2], NULL, 10));
		write(ends[1], "", 1);
		for (;;)
			pause();
	}
	close(ends[1]);
	return read(ends[0], &done, 1) == 1 ? 0 : 1;
}
