/*
 * backends COUNT MIB [huge]: a shared memory of so many MiB, and so many processes that have read all of it, as a
 * database with a process for each connection has. Returns when all of them have; they stay.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

/* Pages of shared memory are not in a child's page tables until it reads them. */
static void backend(char *shared, size_t bytes, int ready)
{
	prctl(PR_SET_NAME, "backend", 0, 0, 0);
	for (size_t at = 0; at < bytes; at += 4096)
		(void)*(volatile char *)(shared + at);
	write(ready, "", 1);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	int flags = MAP_SHARED | MAP_ANONYMOUS, ends[2];
	char done;

	if (argc < 3 || pipe(ends))
		return 2;
	int count = atoi(argv[1]);
	size_t bytes = strtoull(argv[2], NULL, 10) << 20;
	if (argc > 3 && !strcmp(argv[3], "huge"))
		flags |= MAP_HUGETLB;
	char *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (shared == MAP_FAILED)
		die("mmap");
	memset(shared, 1, bytes);
	setsid();
	for (int i = 0; i < count; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid == 0)
			backend(shared, bytes, ends[1]);
	}
	for (int i = 0; i < count; i++) {
		if (read(ends[0], &done, 1) != 1)
			die("read");
	}
	return 0;
}
