/*
 * take: takes memory as a request of `memwright check --for` says, and gives it back.
 *
 *   take BYTES[,lock][,huge=thp|2M][,node=N]
 *
 * prints `taken NANOSECONDS`, or `refused STEP ERRNO`. The process is the OOM killer's first choice; a guest
 * that neither gives nor refuses is left after PATIENCE_S seconds (SIGALRM).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define POLICY_BIND 2
#define PATIENCE_S 30
#define PAGE 4096UL
#define PIECE (4UL << 20)

static int refused(const char *step)
{
	printf("refused %s %d\n", step, errno);
	return 0;
}

/*
 * A piece at a time, each page with a word of its own: from 6.12 on reclaim frees pages of zeros (the shrinker of
 * underused huge pages), so that memory that holds nothing is not taken.
 */
static int populate(char *p, size_t size)
{
	for (size_t at = 0; at < size; at += PIECE) {
		size_t piece = size - at < PIECE ? size - at : PIECE;

		if (madvise(p + at, piece, MADV_POPULATE_WRITE))
			return -1;
		for (size_t page = at; page < at + piece; page += PAGE)
			*(volatile size_t *)(p + page) = page + 1;
	}
	return 0;
}

static void die_first(void)
{
	int file = open("/proc/self/oom_score_adj", O_WRONLY);

	if (file < 0 || write(file, "1000", 4) != 4)
		perror("oom_score_adj");
	close(file);
}

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS, lock = 0, thp = 0;
	unsigned long mask = 0;
	size_t size;
	char *word, *p;
	long long from;

	if (argc != 2)
		return 2;
	size = strtoull(strtok(argv[1], ","), NULL, 10);
	while ((word = strtok(NULL, ","))) {
		if (!strcmp(word, "lock")) lock = 1;
		else if (!strcmp(word, "huge=thp")) thp = 1;
		else if (!strcmp(word, "huge=2M")) flags |= MAP_HUGETLB;
		else if (!strncmp(word, "node=", 5)) mask = 1UL << atoi(word + 5);
		else return 2;
	}
	die_first();
	alarm(PATIENCE_S);
	from = now_ns();
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (p == MAP_FAILED)
		return refused("mmap");
	if (thp && madvise(p, size, MADV_HUGEPAGE))
		return refused("madvise");
	if (mask && syscall(SYS_mbind, p, size, POLICY_BIND, &mask, sizeof mask * 8, 0))
		return refused("mbind");
	if (populate(p, size))
		return refused("populate");
	if (lock && mlock(p, size))
		return refused("mlock");
	printf("taken %lld\n", now_ns() - from);
	return 0;
}
