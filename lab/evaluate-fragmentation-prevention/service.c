/*
 * service: something that goes on taking memory while another job thrashes.
 *
 *   service SIZE_MIB SECONDS
 *
 * takes SIZE_MIB, page by page and evenly over that many seconds, and holds it. Of four pages two are memory
 * of its own, which the kernel can move; one is written into a pipe and is the kernel's from the start, as
 * network buffers and inodes are; and one is its own, but pinned in a pipe, as direct I/O and drivers pin.
 * Writes to /run/waited for how long it waited for all of it: `service-waited SECONDS s`.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096L
#define PIPE_PAGES 256
#define BURST_PAGES 8

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* A pipe with room for one more page. */
static int room(void)
{
	static int ends[2];
	static long used = PIPE_PAGES;

	if (used == PIPE_PAGES) {
		if (pipe(ends) || fcntl(ends[1], F_SETPIPE_SZ, PIPE_PAGES * PAGE) < 0)
			_exit(1);
		used = 0;
	}
	used++;
	return ends[1];
}

static void take(char *page, long number)
{
	static const char zeros[PAGE];
	struct iovec one = { page, PAGE };

	if (number % 4 == 0) {
		if (write(room(), zeros, PAGE) != PAGE)
			_exit(1);
		return;
	}
	*page = 1;
	if (number % 4 == 1) {
		if (vmsplice(room(), &one, 1, 0) != PAGE)
			_exit(1);
		madvise(page, PAGE, MADV_DONTNEED);
	}
}

int main(int argc, char **argv)
{
	struct rlimit files = { 1 << 16, 1 << 16 };
	double from, waited = 0;
	long pages, seconds;
	FILE *said;
	char *p;

	if (argc < 3)
		return 2;
	pages = atol(argv[1]) * 256;
	seconds = atol(argv[2]);
	setrlimit(RLIMIT_NOFILE, &files);
	p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || madvise(p, pages * PAGE, MADV_NOHUGEPAGE))
		return 1;
	for (long i = 0; i < pages; i++) {
		from = now();
		take(p + i * PAGE, i);
		waited += now() - from;
		if (i % BURST_PAGES == 0)
			usleep(seconds * 1000000 * BURST_PAGES / pages);
	}
	said = fopen("/run/waited", "w");
	if (!said || fprintf(said, "service-waited %.2f s\n", waited) < 0 || fclose(said))
		return 1;
	for (;;)
		pause();
}
