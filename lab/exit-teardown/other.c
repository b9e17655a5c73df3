/* other MIB: maps so much, as the server's worker does, and waits. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define PIECE (16 << 20)

int main(int argc, char **argv)
{
	int file = memfd_create("other", 0);

	setpriority(PRIO_PROCESS, 0, 19);
	if (argc != 2 || file < 0 || ftruncate(file, PIECE))
		return 1;
	for (long i = 0; i < atol(argv[1]); i += PIECE >> 20)
		if (mmap(NULL, PIECE, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0) == MAP_FAILED)
			return 1;
	setpriority(PRIO_PROCESS, 0, 0);
	pause();
}
