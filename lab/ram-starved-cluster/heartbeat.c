/*
 * heartbeat: the daemon that tells the other server of the cluster that this one is alive.
 *
 *   heartbeat MIB
 *
 * It takes MIB of memory, writes to every page of it and gives it back, as a daemon does that starts
 * programs to see whether all is well; then it beats: a byte on standard output. After PAUSE_MS it
 * begins again. It ends when nobody listens any more.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAUSE_MS 100

static int look_after_everything(size_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	/* Base pages, and no fault for each of them: an emulated CPU is slow at faults. */
	if (p == MAP_FAILED || madvise(p, size, MADV_NOHUGEPAGE) ||
	    madvise(p, size, MADV_POPULATE_WRITE))
		return -1;
	return munmap(p, size);
}

int main(int argc, char **argv)
{
	size_t size = argc > 1 ? strtoul(argv[1], NULL, 10) << 20 : 0;

	while (!look_after_everything(size) && write(1, ".", 1) == 1)
		usleep(PAUSE_MS * 1000);
	return 1;
}
