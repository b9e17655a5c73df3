/*
 * names: fills the kernel's cache of file names.
 *
 *   names files DIR COUNT    makes empty files: on a ramfs or tmpfs each keeps its name in memory
 *   names missing DIR COUNT  looks for files that are not there: names that nothing uses
 *
 * The names are short, so that they are within the dentry.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int make(const char *name)
{
	int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
	return fd < 0 ? -1 : close(fd);
}

static int miss(const char *name)
{
	struct stat st;
	return stat(name, &st) == 0 || errno != ENOENT ? -1 : 0;
}

int main(int argc, char **argv)
{
	if (argc != 4 || chdir(argv[2])) {
		fprintf(stderr, "names: files|missing DIR COUNT\n");
		return 1;
	}
	int files = !strcmp(argv[1], "files");
	long count = atol(argv[3]);
	char name[32];
	for (long i = 0; i < count; i++) {
		snprintf(name, sizeof name, "%ld", i);
		if (files ? make(name) : miss(name)) {
			perror(name);
			return 1;
		}
	}
	return 0;
}
