/*
 * pin MIB: a process that has registered so many MiB of buffers with io_uring, which pins them. Returns when they
 * are pinned; the process stays.
 */
#define _GNU_SOURCE
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

static void pin(size_t bytes)
{
	struct io_uring_params params;
	struct iovec buffer = { .iov_len = bytes };

	memset(&params, 0, sizeof params);
	buffer.iov_base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (buffer.iov_base == MAP_FAILED)
		die("mmap");
	int ring = syscall(SYS_io_uring_setup, 4, &params);
	if (ring < 0)
		die("io_uring_setup");
	if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &buffer, 1))
		die("io_uring_register");
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
		pin(strtoull(argv[1], NULL, 10) << 20);
		write(ends[1], "", 1);
		for (;;)
			pause();
	}
	close(ends[1]);
	return read(ends[0], &done, 1) == 1 ? 0 : 1;
}
