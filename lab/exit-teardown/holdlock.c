/* holdlock SECONDS: holds the lock of /run/lock for so long. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int file = open("/run/lock", O_RDWR | O_CREAT, 0644);

	if (argc != 2 || file < 0 || flock(file, LOCK_EX)) {
		perror("holdlock");
		return 1;
	}
	sleep(atoi(argv[1]));
	return 0;
}
