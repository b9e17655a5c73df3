/*
 * poison hard|soft COUNT: reports hardware errors in so many pages of its own, and ends. The kernel keeps them out
 * of use.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096UL

#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE 101
#endif

/* The kernel tells the process of each error. */
static void ignore(int signal)
{
	(void)signal;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	int advice = strcmp(argv[1], "soft") ? MADV_HWPOISON : MADV_SOFT_OFFLINE;
	signal(SIGBUS, ignore);
	size_t count = strtoull(argv[2], NULL, 10);
	char *p = mmap(NULL, 2 * count * PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || madvise(p, 2 * count * PAGE, MADV_NOHUGEPAGE)) {
		perror("mmap");
		return 1;
	}
	memset(p, 1, 2 * count * PAGE);
	for (size_t i = 0; i < count; i++) {
		if (madvise(p + 2 * i * PAGE, PAGE, advice)) {
			perror("madvise");
			return 1;
		}
	}
	return 0;
}
