/*
 * opened LIMIT FREE: a process with a limit of LIMIT open files, of which it leaves so many unused, and which stays.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static void open_all(rlim_t limit, int unused)
{
	const struct rlimit files = { .rlim_cur = limit, .rlim_max = limit };
	int last = -1;

	if (setrlimit(RLIMIT_NOFILE, &files))
		_exit(1);
	for (int fd; (fd = open("/dev/null", O_RDONLY)) >= 0;)
		last = fd;
	for (int fd = last; fd > last - unused; fd--)
		close(fd);
}

int main(int argc, char **argv)
{
	int ends[2];
	char done;

	if (argc != 3 || pipe(ends))
		return 2;
	if (fork() == 0) {
		close(ends[0]);
		setsid();
		open_all(strtoull(argv[1], NULL, 10), atoi(argv[2]));
		write(ends[1], "", 1);
		for (;;)
			pause();
	}
	close(ends[1]);
	return read(ends[0], &done, 1) == 1 ? 0 : 1;
}
