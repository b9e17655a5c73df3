/*
 * service: something that takes kernel memory while others thrash, as network buffers and inodes do.
 *
 *   service SIZE_MIB SECONDS
 *
 * writes SIZE_MIB into pipes, page by page and evenly over that many seconds, and holds them. The pages
 * are unmovable: where the kernel finds none in blocks of their kind it takes them out of others.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define PAGE 4096
#define PIPE_PAGES 256
#define BURST_PAGES 4

int main(int argc, char **argv)
{
	struct rlimit files = { 1 << 16, 1 << 16 };
	static char page[PAGE] = { 1 };
	long pages, seconds;
	int ends[2];

	if (argc < 3)
		return 2;
	pages = atol(argv[1]) * 256;
	seconds = atol(argv[2]);
	setrlimit(RLIMIT_NOFILE, &files);
	for (long i = 0; i < pages; i++) {
		if (i % PIPE_PAGES == 0 &&
		    (pipe(ends) || fcntl(ends[1], F_SETPIPE_SZ, PIPE_PAGES * PAGE) < 0))
			return 1;
		if (write(ends[1], page, PAGE) != PAGE)
			return 1;
		if (i % BURST_PAGES == 0)
			usleep(seconds * 1000000 * BURST_PAGES / pages);
	}
	for (;;)
		pause();
}
