/* reads FILE: reads pages of a file in random order for ever, as a database reads its index. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096

int main(int argc, char **argv)
{
	char page[PAGE];
	struct stat status;
	int file = argc == 2 ? open(argv[1], O_RDONLY) : -1;

	if (file < 0 || fstat(file, &status) || posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM)) {
		perror("reads");
		return 1;
	}
	srandom(getpid());
	for (;;) {
		off_t at = random() % (status.st_size / PAGE) * PAGE;
		if (pread(file, page, PAGE, at) != PAGE) {
			perror("reads: pread");
			return 1;
		}
	}
}
