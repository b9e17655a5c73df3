/*
 * mappings COUNT: a process with so many mappings, which stays. Every second piece of one mapping has another
 * protection, as an allocator's guard pages have.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECE (2 * 4096UL)

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

static void split(size_t count)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	char *p = mmap(NULL, count * PIECE, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	if (madvise(p, count * PIECE, MADV_NOHUGEPAGE))
		die("madvise");
	for (size_t piece = 0; piece < count; piece += 2) {
		p[piece * PIECE] = 1;
		if (mprotect(p + piece * PIECE, PIECE, PROT_READ))
			die("mprotect");
	}
}

int main(int argc, char **argv)
{
	int ends[2];
	char done;

	if (argc != 2 || pipe(ends))
		return 2;
	if (fork() == 0) {
		close(ends[0]);
		setsid();
		split(strtoull(argv[1], NULL, 10));
		write(ends[1], "", 1);
		for (;;)
			pause();
	}
	close(ends[1]);
	return read(ends[0], &done, 1) == 1 ? 0 : 1;
}
