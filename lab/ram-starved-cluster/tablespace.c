/*
 * tablespace: creates a file as a database creates a table space, from the first byte to the last.
 *
 *   tablespace FILE SIZE WRITE [direct]
 *
 * FILE gets SIZE bytes in calls of WRITE bytes each, through the page cache or, with `direct`, past it
 * (O_DIRECT). Prints the throughput that it has seen. A size is a number of bytes, or one with the
 * suffix k, M or G.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ALIGNED 4096

static size_t bytes(const char *text)
{
	char *suffix;
	size_t n = strtoull(text, &suffix, 10);

	switch (*suffix) {
	case 'G': return n << 30;
	case 'M': return n << 20;
	case 'k': return n << 10;
	default: return n;
	}
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	int flags = O_WRONLY | O_CREAT | O_TRUNC;
	size_t size, one, written = 0;
	double from = now_s();
	char *block;
	int file;

	if (argc < 4) {
		fprintf(stderr, "usage: tablespace FILE SIZE WRITE [direct]\n");
		return 2;
	}
	size = bytes(argv[2]);
	one = bytes(argv[3]);
	if (argc > 4 && !strcmp(argv[4], "direct"))
		flags |= O_DIRECT;
	block = aligned_alloc(ALIGNED, one);
	file = open(argv[1], flags, 0600);
	if (!block || file < 0) {
		perror(argv[1]);
		return 1;
	}
	memset(block, 'x', one);
	while (written < size) {
		ssize_t n = write(file, block, one);

		if (n < 0) {
			perror(argv[1]);
			return 1;
		}
		written += n;
	}
	printf("throughput %.2f MiB/s\n", written / (now_s() - from) / (1 << 20));
	return 0;
}
