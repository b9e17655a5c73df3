/*
 * database: has a segment as databases have theirs, shared anonymous memory from mmap(2), and writes each
 * of its pages once.
 *
 *   database NAME SIZE_MIB
 *
 * prints `NAME SECONDS s`, from the call until all is written, and `NAME-huge SHARE %`, how much of it the
 * kernel has mapped by huge pages.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE 4096UL

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static size_t huge_kb(void)
{
	FILE *rollup = fopen("/proc/self/smaps_rollup", "r");
	size_t kb = 0;
	char line[256];

	if (!rollup)
		die("smaps_rollup");
	while (fgets(line, sizeof line, rollup))
		sscanf(line, "ShmemPmdMapped: %zu", &kb);
	fclose(rollup);
	return kb;
}

int main(int argc, char **argv)
{
	size_t mib = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
	double from, took;
	char *p;

	if (!mib) {
		fprintf(stderr, "usage: database NAME SIZE_MIB\n");
		return 2;
	}
	from = now();
	p = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		die("mmap");
	for (size_t at = 0; at < mib << 20; at += PAGE)
		*(volatile size_t *)(p + at) = at + 1;
	took = now() - from;
	printf("%s %.4f s\n%s-huge %zu %%\n", argv[1], took, argv[1], huge_kb() * 100 / 1024 / mib);
	return 0;
}
